//! A dynamic object where a type of one kind is needed.

use steersman_client::DynamicObject;
use steersman_runtime::{CachedClient, kind, metadata};

fn main() {
    let _ = kind::<DynamicObject>();
    let _ = metadata::<DynamicObject>();
}

fn read(client: &CachedClient) {
    let _ = client.objects::<DynamicObject>();
}

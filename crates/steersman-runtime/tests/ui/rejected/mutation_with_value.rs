//! A function that changes an object and returns a value.

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_runtime::CachedClient;

async fn write(client: &CachedClient, map: ConfigMap) {
    let _ = client.create_or_update(map, |map| map.immutable.replace(true)).await;
}

fn main() {}

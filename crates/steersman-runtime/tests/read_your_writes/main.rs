//! Contract 6: what was written through a manager's client is read from its caches.

mod cases;
mod contexts;
mod deletions;
mod rounds;
mod scopes;
mod threads;
#[path = "../with_client/mod.rs"]
mod with_client;

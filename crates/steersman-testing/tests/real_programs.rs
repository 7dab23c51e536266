//! Unmodified programs on the embedded server over TLS: clients in Go, and the real
//! kube-controller-manager beside it.

#[path = "programs/controller_manager.rs"]
mod controller_manager;
#[path = "programs/go_clients.rs"]
mod go_clients;
#[path = "programs/home.rs"]
mod home;

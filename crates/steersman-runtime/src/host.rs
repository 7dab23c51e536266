//! The machine, or the Pod, that the program runs on.

/// The host name, which in a Pod is the name of the Pod.
pub(crate) fn host_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok().or_else(|| std::env::var("HOSTNAME").ok());
    let host = host.map(|host| host.trim().to_owned()).filter(|host| !host.is_empty());
    host.unwrap_or_else(|| "unknown".to_owned())
}

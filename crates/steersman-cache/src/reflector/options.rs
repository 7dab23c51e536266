//! How a reflector requests lists and watches.

use std::time::Duration;

use steersman_wire::TypeMeta;

/// How a [`Reflector`](crate::Reflector) requests lists and watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReflectorOptions {
    /// Whether to try a streaming list first: a watch that begins with all objects. If the server
    /// does not support it, the reflector falls back to a plain list. Default: `true`.
    pub streaming: bool,
    /// Page size of a list, in objects. Only lists of the newest state are paged; the server
    /// returns other lists whole, from its watch cache. Default: 500.
    pub page_size: u32,
    /// Shortest time after which the server is asked to end a watch. The longest is twice that.
    /// Default: 5 min.
    pub watch_timeout: Duration,
    /// How long a streaming list may bring no object before the reflector falls back to a plain
    /// list. Default: 10 s.
    pub streaming_silence: Duration,
    /// Wait after the first failure, doubled with each further one. A random factor of 1 to 2 comes
    /// on top. Default: 0.8 s.
    pub backoff_min: Duration,
    /// Longest wait after a failure, without the random factor. Default: 30 s.
    pub backoff_max: Duration,
    /// Type of the objects. Objects of another type are reported and skipped. Default: any type.
    pub type_meta: Option<TypeMeta>,
}

impl Default for ReflectorOptions {
    fn default() -> Self {
        Self {
            streaming: true,
            page_size: 500,
            watch_timeout: Duration::from_secs(300),
            streaming_silence: Duration::from_secs(10),
            backoff_min: Duration::from_millis(800),
            backoff_max: Duration::from_secs(30),
            type_meta: None,
        }
    }
}

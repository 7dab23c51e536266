//! How a key is added to a queue.

use std::time::Duration;

/// How a key is added. The default is: now, with priority 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct AddOptions {
    pub(crate) priority: i8,
    pub(crate) delay: Delay,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Delay {
    #[default]
    None,
    After(Duration),
    RateLimited,
}

impl AddOptions {
    /// Now, with priority 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the priority. Higher priorities come first; 0 is the default. controller-runtime adds
    /// the initial list and unchanged resyncs with −100.
    /// [`Core::set_ageing`](crate::Core::set_ageing) defines what a difference in priority is
    /// worth.
    pub fn priority(mut self, priority: i8) -> Self {
        self.priority = priority;
        self
    }

    /// Delays the key by `delay`. Zero means now.
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = Delay::After(delay);
        self
    }

    /// Delays the key until the rate limiter allows it. This counts as a failure of the key.
    pub fn rate_limited(mut self) -> Self {
        self.delay = Delay::RateLimited;
        self
    }

    /// Whether an add needs the time, whatever the queue does with it.
    pub(crate) fn need_time(self) -> bool {
        self != Self::default()
    }
}

/// A work queue that makes no sense.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The rate of a token bucket is zero, negative or not a number.
    #[error("a token bucket needs a rate above zero, and {rate} is none: leave the limiter out to wait for nothing")]
    InvalidRate {
        /// The rate that was given, in tokens a second.
        rate: f64,
    },

    /// The burst of a token bucket is zero.
    #[error("a token bucket needs a burst of at least one: with room for no token nothing would ever pass")]
    InvalidBurst,
}

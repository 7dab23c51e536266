/// A work queue with invalid options.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The rate of a token bucket is zero, negative or not a number.
    #[error("invalid rate {rate} of a token bucket: it must be above zero; omit the limiter for no limit")]
    InvalidRate {
        /// The given rate, in tokens a second.
        rate: f64,
    },

    /// The burst of a token bucket is zero.
    #[error("invalid burst 0 of a token bucket: it must be at least 1, or no key would ever pass")]
    InvalidBurst,
}

//! A function that learns of the failures of reflectors.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use super::status::ReflectorError;

type OnError = dyn Fn(&ReflectorError) + Send + Sync;

/// Calls a function with each failure of a list or a watch, if there is one. Clones have the same
/// function.
#[derive(Clone, Default)]
pub(crate) struct ErrorHook(Arc<OnceLock<Box<OnError>>>);

impl ErrorHook {
    /// Sets the function. Only the first is called.
    pub(crate) fn set(&self, function: impl Fn(&ReflectorError) + Send + Sync + 'static) {
        let _ = self.0.set(Box::new(function));
    }

    /// A panic of the function does not end the reflector.
    pub(super) fn call(&self, error: &ReflectorError) {
        let Some(function) = self.0.get() else { return };
        if catch_unwind(AssertUnwindSafe(|| function(error))).is_err() {
            tracing::error!(%error, "the watch error handler panicked");
        }
    }
}

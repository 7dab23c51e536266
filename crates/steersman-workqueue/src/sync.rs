//! The mutex and the pointer that the queue is built on. Under `--cfg steersman_loom` they are the model checker's, so that
//! it runs the queue that is shipped and not a model of it.

#[cfg(not(steersman_loom))]
pub(crate) use std::sync::{Arc, Mutex, MutexGuard};

#[cfg(steersman_loom)]
pub(crate) use loom::sync::{Arc, Mutex, MutexGuard};

#[cfg(not(steersman_loom))]
pub(crate) use std::sync::atomic;

#[cfg(steersman_loom)]
pub(crate) use loom::sync::atomic;

/// How often the lock is tried before going to sleep, and how many pauses lie between two tries, doubled up to the maximum.
/// A pause is some tens of nanoseconds.
#[cfg(not(steersman_loom))]
const TRIES: u32 = 4;
#[cfg(not(steersman_loom))]
const PAUSES: u32 = 256;
#[cfg(not(steersman_loom))]
const PAUSES_MAX: u32 = 1024;

/// Locks `mutex`, after trying for a moment without going to sleep: it is held for some tens of nanoseconds, and a thread
/// that sleeps costs whoever releases the lock a call into the kernel.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    #[cfg(not(steersman_loom))]
    if let Ok(guard) = mutex.try_lock() {
        return guard;
    }
    lock_contended(mutex)
}

/// The pauses are long on purpose. Who has the lock will want it again at once, and does dozens of operations with the queue
/// in its cache while the other one pauses; taking turns after each costs both of them more.
#[cold]
fn lock_contended<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    #[cfg(not(steersman_loom))]
    for round in 0..TRIES {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(std::sync::TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            Err(std::sync::TryLockError::WouldBlock) => {}
        }
        for _ in 0..(PAUSES << round).min(PAUSES_MAX) {
            std::hint::spin_loop();
        }
    }
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Time as tokio sees it; under the model checker, as the model sets it.
#[cfg(not(steersman_loom))]
pub(crate) mod time {
    pub(crate) use tokio::time::{Sleep, sleep_until};

    pub(crate) fn now() -> std::time::Instant {
        tokio::time::Instant::now().into_std()
    }
}

#[cfg(steersman_loom)]
pub(crate) use crate::model_time as time;

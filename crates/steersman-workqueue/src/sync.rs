//! The mutex and the pointer of the queue. With `--cfg steersman_loom` they are the model
//! checker's, so that it runs the queue that is shipped and not a model of it.

#[cfg(not(steersman_loom))]
pub(crate) use std::sync::{Arc, Mutex, MutexGuard};

#[cfg(steersman_loom)]
pub(crate) use loom::sync::{Arc, Mutex, MutexGuard};

/// How many times a thread tries to lock before it sleeps, and how many pauses lie between the
/// first two tries. The pauses double up to the maximum. A pause takes some tens of nanoseconds.
#[cfg(not(steersman_loom))]
const TRIES: u32 = 4;
#[cfg(not(steersman_loom))]
const PAUSES: u32 = 256;
#[cfg(not(steersman_loom))]
const PAUSES_MAX: u32 = 1024;

/// Locks `mutex`, and spins for a moment before the thread sleeps. The lock is held for some tens
/// of nanoseconds, and releasing a lock for which a thread sleeps costs a system call.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    #[cfg(not(steersman_loom))]
    if let Ok(guard) = mutex.try_lock() {
        return guard;
    }
    lock_contended(mutex)
}

/// The pauses are long on purpose. The thread that holds the lock will need it again at once, and
/// does dozens of operations with the queue in its cache while the other thread pauses. Taking
/// turns after each operation costs both threads more.
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

/// tokio's clock; under the model checker, the clock of the model.
#[cfg(not(steersman_loom))]
pub(crate) mod time {
    pub(crate) use tokio::time::{Sleep, sleep_until};

    pub(crate) fn now() -> std::time::Instant {
        tokio::time::Instant::now().into_std()
    }
}

#[cfg(steersman_loom)]
pub(crate) use crate::model_time as time;

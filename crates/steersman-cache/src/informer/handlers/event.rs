//! The events of handlers.

use crate::Cached;

/// A change that a handler receives.
#[derive(Debug)]
pub enum Event<K> {
    /// An object was added.
    Add {
        /// The object.
        object: Cached<K>,
        /// Whether it existed when the informer started, or when the handler was added.
        initial: bool,
    },
    /// An object was modified, or is sent again by a resync.
    Update {
        /// Its previous state.
        old: Cached<K>,
        /// Its new state.
        new: Cached<K>,
    },
    /// An object was deleted.
    Delete {
        /// Its last known state.
        object: Cached<K>,
        /// Whether later states may have existed, because the deletion was not seen.
        final_state_unknown: bool,
    },
}

impl<K> Clone for Event<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Add { object, initial } => Self::Add { object: object.clone(), initial: *initial },
            Self::Update { old, new } => Self::Update { old: old.clone(), new: new.clone() },
            Self::Delete { object, final_state_unknown } => {
                Self::Delete { object: object.clone(), final_state_unknown: *final_state_unknown }
            }
        }
    }
}

impl<K> Event<K> {
    /// The object in its newest state.
    pub fn object(&self) -> &Cached<K> {
        match self {
            Self::Add { object, .. } | Self::Update { new: object, .. } | Self::Delete { object, .. } => object,
        }
    }

    /// Whether it is an update with equal versions.
    pub(crate) fn is_repetition(&self) -> bool {
        matches!(self, Self::Update { old, new } if old.is_same_state(new))
    }
}

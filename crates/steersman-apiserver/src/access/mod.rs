//! Who may do what: authentication by tokens, impersonation, RBAC, and a record of the requests.
//!
//! The core is pure. [`action`] names what a request does, [`rules`] compares it with the rules of
//! roles, [`policy`] finds the rules of a user. The other modules connect them with the requests
//! and with the stored roles and bindings. With neither RBAC nor the record, a request costs a
//! branch.

pub(crate) mod action;
mod authorize;
mod escalation;
mod impersonation;
mod owner_references;
pub(crate) mod policy;
pub(crate) mod record;
pub(crate) mod rules;
pub(crate) mod tokens;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, RwLock};

use self::action::Action;
use self::impersonation::Modes;
use self::policy::Policy;
use self::record::{Record, RequestRecord};
use self::tokens::keys::SigningKey;
use crate::request::identity::Identity;

/// The API group of roles and bindings.
pub(crate) const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// The state of one server: its mode, and what is derived from stored objects.
#[derive(Default)]
pub(crate) struct Access {
    rbac: AtomicBool,
    policy: RwLock<Policy>,
    record: OnceLock<Mutex<Record>>,
    modes: Modes,
    /// The key that signs tokens. The first use generates it.
    signing_key: OnceLock<SigningKey>,
}

impl Access {
    /// Switches RBAC on.
    pub(crate) fn use_rbac(&self) {
        self.rbac.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_rbac(&self) -> bool {
        self.rbac.load(Ordering::Relaxed)
    }

    /// Switches the record on.
    pub(crate) fn start_record(&self) {
        self.record.get_or_init(Mutex::default);
    }

    /// The record so far. Empty if it is off.
    pub(crate) fn record(&self) -> RequestRecord {
        self.record
            .get()
            .map(|record| record.lock().unwrap_or_else(PoisonError::into_inner).snapshot())
            .unwrap_or_default()
    }

    /// Whether any request has to be examined.
    fn is_idle(&self) -> bool {
        !self.is_rbac() && self.record.get().is_none()
    }

    fn note(&self, user: &Identity, action: &Action, allowed: bool) {
        if let Some(record) = self.record.get() {
            record.lock().unwrap_or_else(PoisonError::into_inner).note(user, action, allowed, false);
        }
    }

    /// Records what an admission plugin has asked.
    fn note_admission(&self, user: &Identity, action: &Action, allowed: bool) {
        if let Some(record) = self.record.get() {
            record.lock().unwrap_or_else(PoisonError::into_inner).note(user, action, allowed, true);
        }
    }
}

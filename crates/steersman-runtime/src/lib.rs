//! Kubernetes controllers.

mod caches;
mod client;
mod conditions;
mod controller;
mod create_or_update;
mod enqueue;
mod error;
mod finalizer;
mod kind;
mod layers;
mod manager;
mod owner_reference;
mod predicate;
mod reconciler;
mod scheme;
mod stop;
mod writes;

pub use steersman_cache::{Cached, Event, Index, Lister, Object, ObjectKey, StorageMode, StorageOptions};

pub use client::{CachedClient, Objects};
pub use conditions::{condition, is_condition_true, remove_condition, set_condition};
pub use controller::{Controller, ControllerBuilder, ControllerMetrics};
pub use create_or_update::{Mutated, OperationResult};
pub use enqueue::LOW_PRIORITY;
pub use error::{Error, Failure};
pub use finalizer::{Finalizer, FinalizerState, add_finalizer, has_finalizer, remove_finalizer};
pub use kind::{Kind, dynamic, dynamic_metadata, kind, metadata};
pub use layers::{Layer, PanicGuard, Panicked, Timeout, Tracing};
pub use manager::{Manager, ManagerBuilder, shutdown_signal};
pub use owner_reference::{
    controller_reference, owner_reference, remove_owner_reference, set_controller_reference, set_owner_reference,
    set_reference,
};
pub use predicate::{
    And, AnnotationsChanged, Change, ChangeKind, GenerationChanged, LabelsChanged, LabelsMatch, Not, Or, Predicate,
    ResourceVersionChanged,
};
pub use reconciler::{Action, Context, DynReconciler, ReconcileFn, ReconcileFuture, Reconciler, reconcile_fn};
pub use scheme::{Decoded, Scheme};
pub use stop::Stop;

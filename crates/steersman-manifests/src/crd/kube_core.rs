//! `kube_core` for the code that kube's derive macros generate, without the transforms that panic.
//!
//! The generated `crd()` is the only source of names, columns and subresources, and it rewrites the
//! schema on the way. [`crd`](crate::crd::crd) needs none of that schema. It asks for the metadata
//! only, and then the transforms of this module drop the schema instead of rewriting it.

use std::cell::Cell;

// The feature `cel` of kube adds names that the generated code uses, so a list cannot be complete.
pub use kube_core::*;

thread_local! {
    static METADATA_ONLY: Cell<bool> = const { Cell::new(false) };
}

/// Runs `read` while the transforms of this module drop all schemas in this thread.
pub(crate) fn with_metadata_only<T>(read: impl FnOnce() -> T) -> T {
    struct Reset(bool);
    impl Drop for Reset {
        fn drop(&mut self) {
            METADATA_ONLY.set(self.0);
        }
    }
    let _reset = Reset(METADATA_ONLY.replace(true));
    read()
}

/// The transforms that `crd()` runs, instead of kube's.
pub mod schema {
    pub use kube_core::schema::{OptionalEnum, OptionalIntOrString};
    use schemars::transform::Transform;

    use super::METADATA_ONLY;

    /// kube's transform, which does nothing while only the metadata is read.
    #[derive(Clone, Debug)]
    pub struct StructuralSchemaRewriter;

    impl Transform for StructuralSchemaRewriter {
        fn transform(&mut self, schema: &mut schemars::Schema) {
            if METADATA_ONLY.get() {
                *schema = schemars::Schema::default();
            } else {
                kube_core::schema::StructuralSchemaRewriter.transform(schema);
            }
        }
    }
}

//! The managed fields of each write: of requests, and of the controllers in this server.

use std::sync::Arc;

use serde_json::Value;

use crate::lifecycle::garbage::Work;
use crate::request::RequestContext;
use crate::request::write_options;
use crate::response::status::Status;
use crate::rules::convert;
use crate::rules::kinds::Kind;
use crate::rules::managed_fields::{self, Managed, Resource, Writer};
use crate::rules::metadata;
use crate::server::Shared;
use crate::store::object::Object;
use crate::verbs::write::Write;

/// The manager of what the API server itself writes.
const API_SERVER: &str = "kube-apiserver";

/// The manager of what the controllers write that run beside a real API server.
const CONTROLLER_MANAGER: &str = "kube-controller-manager";

/// A controller as the manager of what it writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Controller {
    pub(crate) manager: &'static str,
    pub(crate) subresource: &'static str,
}

impl Controller {
    /// The API server itself.
    pub(crate) const API_SERVER: Self = Self { manager: API_SERVER, subresource: "" };
    /// The API server, when it writes a status.
    pub(crate) const STATUS: Self = Self { manager: API_SERVER, subresource: "status" };
    /// The garbage collector and its like.
    pub(crate) const MANAGER: Self = Self { manager: CONTROLLER_MANAGER, subresource: "" };
    /// The controller of namespaces, when it writes their status.
    pub(crate) const NAMESPACE_STATUS: Self = Self { manager: CONTROLLER_MANAGER, subresource: "status" };
    /// The same when it lets them go.
    pub(crate) const NAMESPACE_END: Self = Self { manager: CONTROLLER_MANAGER, subresource: "finalize" };
}

impl Shared {
    /// The managed fields of a new object. `given` are those that the request itself has.
    pub(super) fn managed_of_new(&self, write: &Write<'_>, value: &Value, given: Option<Value>, now: &str) -> Managed {
        if !self.managed_fields {
            return Managed::default();
        }
        let RequestContext { kind, target, query, headers, .. } = write.request;
        let custom = self.customs.find_custom(kind);
        let view = write.options.view.unwrap_or(kind);
        let resource = Resource::new(view, custom.as_deref(), &target.subresource);
        let manager = write_options::manager(query, headers);
        let given = given.and_then(|given| Managed::given(&given).ok()).unwrap_or_default();
        let seen = write.options.view.map(|view| convert::from_stored(view, value.clone()));
        managed_fields::create(
            &resource,
            seen.as_ref().unwrap_or(value),
            given,
            Writer { manager: &manager, now, force: false },
        )
    }

    /// Sets the managed fields of an object of `kind` that is returned and not stored, such as a
    /// review.
    pub(super) fn set_managed(&self, request: &RequestContext<'_>, kind: &Kind, value: &mut Value) {
        metadata::take_managed(value);
        let resource = Resource::new(kind, None, &request.target.subresource);
        let manager = write_options::manager(request.query, request.headers);
        let writer = Writer { manager: &manager, now: &self.now(), force: false };
        let managed = managed_fields::create(&resource, value, Managed::default(), writer).text();
        if !managed.is_empty() {
            value["metadata"]["managedFields"] = serde_json::from_slice(&managed).unwrap_or_default();
        }
    }

    /// The managed fields after an update of `old` to `value`, which were `managed` before.
    pub(super) fn managed_after(&self, write: &Write<'_>, old: &Value, value: &Value, managed: Managed) -> Managed {
        let RequestContext { kind, target, query, headers, .. } = write.request;
        let custom = self.customs.find_custom(kind);
        let view = write.options.view.unwrap_or(kind);
        let resource = Resource::new(view, custom.as_deref(), &target.subresource);
        let manager = write_options::manager(query, headers);
        let writer = Writer { manager: &manager, now: &self.now(), force: false };
        match write.options.view {
            Some(view) => {
                let seen = |value: &Value| convert::from_stored(view, value.clone());
                managed_fields::update(&resource, &seen(old), &seen(value), managed, writer)
            }
            None => managed_fields::update(&resource, old, value, managed, writer),
        }
    }

    /// Applies a configuration by force, as a controller does. The consequences are added to
    /// `work`.
    pub(crate) fn apply_by(
        &self,
        kind: &Kind,
        current: &Arc<Object>,
        (manager, config): (&str, &Value),
        work: &mut Work,
    ) -> Result<(), Status> {
        let live = current.value();
        let writer = Writer { manager, now: &self.now(), force: true };
        let managed = Managed::stored(current.managed());
        let applied = managed_fields::apply(&Resource::new(kind, None, ""), &live, config, managed, writer);
        let applied = applied.map_err(|_| Status::unexpected("the configuration of a controller cannot be applied"))?;
        let value = applied.value.unwrap_or(live);
        self.put_managed(kind, current, (&value, &applied.managed.text()), work).map(drop)
    }

    /// The managed fields after a controller's update of an object, as text.
    pub(crate) fn managed_by(&self, controller: Controller, kind: &Kind, current: &Object, value: &Value) -> Vec<u8> {
        let custom = self.customs.find_custom(kind);
        let resource = Resource::new(kind, custom.as_deref(), controller.subresource);
        let managed = Managed::stored(current.managed());
        let writer = Writer { manager: controller.manager, now: &self.now(), force: false };
        managed_fields::update(&resource, &current.value(), value, managed, writer).text()
    }
}

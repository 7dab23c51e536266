//! The selection of a list or a watch.

use steersman_wire::{FieldSelector, LabelSelector};

use crate::request::budget;
use crate::request::{Query, ResourceRequest};
use crate::response::status::Status;
use crate::rules::kinds::Kind;
use crate::store::object::Object;

/// The objects that a list or a watch selects.
pub(crate) struct Selection {
    namespace: Option<String>,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selection {
    pub(crate) fn new(request: &ResourceRequest, query: &Query) -> Result<Self, Status> {
        let labels = LabelSelector::parse(query.get("labelSelector").unwrap_or_default());
        let fields = FieldSelector::parse(query.get("fieldSelector").unwrap_or_default());
        let mut fields = fields.map_err(|error| Status::bad_request(error.to_string()))?;
        if !request.name.is_empty() {
            // A watch of one object by its path.
            fields = FieldSelector::parse(&format!("metadata.name={}", request.name))
                .map_err(|error| Status::bad_request(error.to_string()))?;
        }
        Ok(Self {
            namespace: Some(request.namespace.clone()).filter(|namespace| !namespace.is_empty()),
            labels: labels.map_err(|error| Status::bad_request(error.to_string()))?,
            fields,
        })
    }

    /// Refuses fields that the kind does not support as selectors.
    pub(crate) fn check_fields(&self, kind: &Kind) -> Result<(), Status> {
        for requirement in self.fields.requirements() {
            let field = requirement.field.as_str();
            let known = field == "metadata.name"
                || (field == "metadata.namespace" && kind.namespaced)
                || kind.selectable.iter().any(|selectable| **selectable == *field);
            if !known {
                return Err(Status::bad_request(kind.not_selectable(field)));
            }
        }
        Ok(())
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    pub(crate) fn matches(&self, object: &Object) -> bool {
        self.namespace.as_deref().is_none_or(|namespace| *object.key().namespace == *namespace)
            && self.labels.matches(|label| {
                budget::step(1);
                object.label(label)
            })
            && self.fields.matches(|field| {
                budget::step(1);
                object.field(field)
            })
    }

    /// The number of requirements that an object is compared with.
    pub(crate) fn requirements(&self) -> usize {
        self.labels.requirements().len() + self.fields.requirements().len()
    }
}

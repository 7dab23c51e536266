//! The parameters of version 2 that many operations share.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE;

use super::node::{Escape, Members, Node, Text};

/// Parameters by the name that is made of their hash.
#[derive(Default)]
pub(super) struct SharedParameters(BTreeMap<Text, Node>);

impl SharedParameters {
    /// A reference to the parameter, unless it depends on its operation.
    pub(super) fn share(&mut self, parameter: Node) -> Node {
        let text = |node: Option<&Node>| match node {
            Some(Node::Text(text)) => text.clone(),
            _ => Text::default(),
        };
        let name = text(parameter.get("name"));
        let reference = text(parameter.get("schema").and_then(|schema| schema.get("$ref")));
        match &*name {
            // kubectl looks for the last two in operations.
            "name" | "fieldValidation" | "dryRun" => return parameter,
            "body" if !reference.starts_with("#/definitions/io.k8s.apimachinery") => return parameter,
            _ => {}
        }
        let mut json = Vec::new();
        parameter.write(Escape::Json, &mut json);
        let shared = format!("{name}-{}", BASE64_URL_SAFE.encode(&fnv(&json).to_be_bytes()[..6]));
        let reference = Members::default().with_text("$ref", format!("#/parameters/{shared}")).build();
        self.0.insert(shared.into(), parameter);
        reference
    }

    pub(super) fn build(self) -> Node {
        Node::Map(self.0.into_iter().collect())
    }
}

/// The 64-bit FNV-1 hash.
fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| u64::wrapping_mul(hash, 0x0000_0100_0000_01b3) ^ u64::from(*byte))
}

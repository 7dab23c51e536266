//! From the JSON schema of a Rust type to a structural schema.
//!
//! [`Pass::node`] rewrites a schema from the leaves to the root. Types and properties are moved out
//! of `oneOf`, `anyOf` and `allOf`, which a structural schema uses to restrict values only.

mod array;
mod branches;
mod cel;
mod node;
mod object;
mod position;
mod scalar;
mod union;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use schemars::transform::{ReplaceConstValue, SetSingleExample};
use serde_json::{Map, Value};

use self::node::Node;
use self::position::Position;
pub(super) use self::scalar::whole;
use super::error::SchemaProblem;

/// The members of a schema.
type Schema = Map<String, Value>;

/// The largest number of schemas in a definition. Named types are inlined, so a type of few lines
/// can have billions.
const NODES_MAX: usize = 50_000;

/// Keywords of this crate. They steer the pass and are not in its result.
pub(super) mod marker {
    pub(in crate::crd) const PREFIX: &str = "x-steersman-";
    pub(in crate::crd) const IMMUTABLE: &str = "x-steersman-immutable";
    pub(in crate::crd) const AT_MOST_ONE_OF: &str = "x-steersman-at-most-one-of";
    pub(in crate::crd) const EXACTLY_ONE_OF: &str = "x-steersman-exactly-one-of";
    pub(in crate::crd) const AT_LEAST_ONE_OF: &str = "x-steersman-at-least-one-of";
    pub(in crate::crd) const ALLOW_FLOAT: &str = "x-steersman-allow-float";
    pub(in crate::crd) const DESCRIPTION_MAX: &str = "x-steersman-description-max";
    /// Set by the pass on objects that refuse unknown fields.
    pub(super) const CLOSED: &str = "x-steersman-closed";
}

/// Where schemars puts the named types.
const DEFINITIONS: &str = "$defs";

/// The schema of `T` as schemars generates it.
///
/// Types are not inlined, so that their names are known. Of the transforms of schemars, these have
/// one meaning in all dialects; nullability has another one in a CRD, and is left to the pass.
pub(super) fn raw<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.meta_schema = None);
    let settings = settings.with_transform(ReplaceConstValue::default()).with_transform(SetSingleExample::default());
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// What a user asks of the pass.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SchemaOptions {
    pub(super) floats: bool,
}

/// The structural schema of the type with this name, from the output of [`raw`].
pub(super) fn structural(
    type_name: &str,
    mut raw: Value,
    has_status_subresource: bool,
    options: SchemaOptions,
) -> Result<Schema, Vec<SchemaProblem>> {
    let definitions = match raw.as_object_mut().and_then(|raw| raw.remove(DEFINITIONS)) {
        Some(Value::Object(definitions)) => definitions,
        _ => Map::new(),
    };
    let position = Position::root(type_name);
    let spec_description = spec_description(&raw, &definitions);
    let mut pass = Pass { definitions, options, problems: Vec::new(), nodes: 0 };
    let Node { mut schema, .. } = pass.node(raw, &position);
    // The name of the Rust type, from schemars.
    schema.remove("title");
    schema.remove(marker::CLOSED);
    schema.remove("default");
    schema.remove("nullable");
    let generated = |text: &Value| text.as_str().is_some_and(|text| text.trim().starts_with("Auto-generated derived"));
    if schema.get("description").is_none_or(generated) {
        schema.remove("description");
        schema.extend(spec_description.map(|description| ("description".to_owned(), description)));
    }
    pass.check_root(&schema, has_status_subresource, &position);
    cel::check_transitions(&schema, &position.to_string(), true, &mut pass.problems);
    if pass.problems.is_empty() { Ok(schema) } else { Err(pass.problems) }
}

/// What the documentation comment of the type of `spec` describes: the resource.
fn spec_description(raw: &Value, definitions: &Schema) -> Option<Value> {
    let spec = &raw["properties"]["spec"];
    let name = spec["$ref"].as_str().and_then(definition_name);
    let named = name.and_then(|name| definitions.get(&name)).map(|spec| &spec["description"]);
    [Some(&spec["description"]), named].into_iter().flatten().find(|text| text.is_string()).cloned()
}

/// The name in a reference to a definition. `None` is a reference to the root.
fn definition_name(reference: &str) -> Option<String> {
    let name = reference.strip_prefix("#/$defs/")?;
    // schemars escapes what a JSON pointer and a URL reserve.
    Some(percent_decode(name).replace("~1", "/").replace("~0", "~"))
}

fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let code = (byte == b'%').then(|| after.get(..2)).flatten();
        let decoded =
            code.and_then(|code| std::str::from_utf8(code).ok()).and_then(|code| u8::from_str_radix(code, 16).ok());
        bytes.push(decoded.unwrap_or(byte));
        rest = if decoded.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// One run over the schema of a type.
struct Pass {
    definitions: Schema,
    options: SchemaOptions,
    problems: Vec<SchemaProblem>,
    nodes: usize,
}

impl Pass {
    fn problem(&mut self, position: &Position, problem: impl Into<String>, advice: impl Into<String>) {
        let problem = SchemaProblem { path: position.to_string(), problem: problem.into(), advice: advice.into() };
        // A faulty type that is used twice is reported at both fields; the same field only once.
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// The server takes only some keywords at the root.
    fn check_root(&mut self, schema: &Schema, has_status_subresource: bool, position: &Position) {
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            self.problem(position, "a custom resource must be an object", "derive CustomResource on a struct");
        }
        let restricts = ["oneOf", "anyOf", "allOf", "not"].iter().any(|keyword| schema.contains_key(*keyword));
        if has_status_subresource && restricts {
            self.problem(
                position,
                "an enum is flattened into the root, and a definition with a status subresource cannot restrict its root",
                "put the enum into a field",
            );
        }
    }
}

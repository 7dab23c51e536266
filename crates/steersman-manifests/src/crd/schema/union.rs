//! One schema for all variants of an enum.

use serde_json::{Value, json};

use super::branches::{describe, restrictions};
use super::cel;
use super::node::{INT_OR_STRING, PRESERVE, VALIDATIONS, bare, is_any, is_true, type_of};
use super::{Pass, Position, Schema, marker};

/// A field that has another single value in each variant: the tag of an enum.
struct Tag {
    name: String,
    values: Vec<String>,
}

impl Pass {
    /// The structure that holds the values of all members, and what each member restricts in it.
    pub(super) fn union(&mut self, members: &[Schema], position: &Position) -> Option<(Schema, Vec<Schema>)> {
        let [first, rest @ ..] = members else { return Some((Schema::new(), Vec::new())) };
        if rest.iter().all(|member| bare(member) == bare(first)) {
            return Some((first.clone(), vec![Schema::new(); members.len()]));
        }
        let mut shapes: Vec<&str> = members.iter().map(shape).collect();
        shapes.sort_unstable();
        shapes.dedup();
        match shapes.as_slice() {
            ["object"] => self.union_of_objects(members, position),
            ["array"] => self.union_of_arrays(members, position),
            [_] => {
                self.other_keywords(members, position);
                Some((union_of_scalars(members, first["type"].clone()), members.iter().map(restrictions).collect()))
            }
            ["integer", "number"] => {
                Some((union_of_scalars(members, "number".into()), members.iter().map(restrictions).collect()))
            }
            shapes if shapes.iter().all(|shape| ["integer", "string", INT_OR_STRING].contains(shape)) => {
                Some((int_or_string(members), vec![Schema::new(); members.len()]))
            }
            shapes => {
                let problem =
                    format!("variants are of the types {}, and a CRD has one type for each field", shapes.join(", "));
                let advice = "give each variant fields, such as `Variant {}` for a variant without any, or add \
                              #[serde(tag = \"type\")]";
                self.problem(position, problem, advice);
                None
            }
        }
    }

    fn union_of_arrays(&mut self, members: &[Schema], position: &Position) -> Option<(Schema, Vec<Schema>)> {
        self.other_keywords(members, position);
        let items: Vec<Schema> = members.iter().filter_map(|member| member["items"].as_object().cloned()).collect();
        let (items, of_items) = self.union(&items, &position.items())?;
        let mut outer = union_of_scalars(members, "array".into());
        outer.insert("items".to_owned(), Value::Object(items));
        let mut each: Vec<Schema> = members.iter().map(restrictions).collect();
        for (restricted, of_items) in each.iter_mut().zip(of_items) {
            restricted.remove("items");
            if !of_items.is_empty() {
                restricted.insert("items".to_owned(), Value::Object(of_items));
            }
        }
        Some((outer, each))
    }

    fn union_of_objects(&mut self, members: &[Schema], position: &Position) -> Option<(Schema, Vec<Schema>)> {
        self.other_keywords(members, position);
        let tag = tag(members);
        let mut outer = Schema::new();
        outer.insert("type".to_owned(), "object".into());
        let mut each: Vec<Schema> = members
            .iter()
            .map(|member| {
                restrictions(member)
                    .into_iter()
                    .filter(|(name, _)| name != "properties" && name != "required")
                    .collect()
            })
            .collect();

        let mut properties = Schema::new();
        let mut names: Vec<&String> = Vec::new();
        for name in members.iter().flat_map(fields).map(|(name, _)| name) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        for name in names {
            let of: Vec<Option<&Schema>> =
                members.iter().map(|member| member.get("properties")?.get(name)?.as_object()).collect();
            let known: Vec<Schema> = of.iter().flatten().map(|property| (*property).clone()).collect();
            let (mut property, mut restricted) = self.union(&known, &position.field(name))?;
            // The server would set the default in the other variants, too.
            let default = known[0].get("default");
            let is_shared = known.len() == members.len() && known.iter().all(|known| known.get("default") == default);
            if !is_shared {
                property.remove("default");
            }
            if let Some(description) = variant_description(members, &known, name) {
                property.entry("description").or_insert(description);
            }
            properties.insert(name.clone(), Value::Object(property));
            for (restricted_member, _) in each.iter_mut().zip(&of).filter(|(_, of)| of.is_some()) {
                let restricted = restricted.remove(0);
                if restricted.is_empty() {
                    continue;
                }
                let below = restricted_member.entry("properties").or_insert_with(|| json!({}));
                below[name.as_str()] = Value::Object(restricted);
            }
        }

        let required: Vec<Vec<&str>> = members.iter().map(|member| required(member)).collect();
        let by_all: Vec<&str> =
            required[0].iter().copied().filter(|name| required.iter().all(|of| of.contains(name))).collect();
        for (restricted, required) in each.iter_mut().zip(&required) {
            let own: Vec<&str> = required.iter().copied().filter(|name| !by_all.contains(name)).collect();
            if !own.is_empty() {
                restricted.insert("required".to_owned(), json!(own));
            }
        }
        if !by_all.is_empty() {
            outer.insert("required".to_owned(), json!(by_all));
        }
        refuse_other_fields(members, &properties, &required, &mut each);
        if members.iter().any(|member| member.contains_key("additionalProperties")) {
            // Maps, which a schema cannot have beside fields.
            let same = members
                .iter()
                .all(|member| member.get("additionalProperties") == members[0].get("additionalProperties"));
            if same && properties.is_empty() {
                outer.insert("additionalProperties".to_owned(), members[0]["additionalProperties"].clone());
            } else {
                outer.insert(PRESERVE.to_owned(), true.into());
            }
        }
        if members.iter().any(|member| is_true(member, PRESERVE)) {
            outer.insert(PRESERVE.to_owned(), true.into());
        }
        if !properties.is_empty() {
            outer.insert("properties".to_owned(), Value::Object(properties));
        }
        self.rules(members, tag.as_ref(), &mut outer, position);
        if let Some(tag) = tag {
            self.finish_tag(&tag, members, &mut outer, &mut each);
        }
        Some((outer, each))
    }

    /// Describes the values of a tag, and drops restrictions that its `enum` has already.
    fn finish_tag(&mut self, tag: &Tag, members: &[Schema], outer: &mut Schema, each: &mut [Schema]) {
        if let Some(Value::Object(property)) =
            outer.get_mut("properties").and_then(|properties| properties.get_mut(&tag.name))
        {
            for (value, member) in tag.values.iter().zip(members) {
                if let Some(text) = member.get("description").and_then(Value::as_str) {
                    describe(property, value, text);
                }
            }
        }
        let only_tag = |restricted: &Schema, value: &String| {
            restricted.len() == 1 && restricted["properties"] == json!({ &tag.name: {"enum": [value]} })
        };
        if each.iter().zip(&tag.values).all(|(restricted, value)| only_tag(restricted, value)) {
            each.iter_mut().for_each(Schema::clear);
        }
    }

    /// The rules of the variants. `self` is the whole enum now, so the tag guards each rule.
    fn rules(&mut self, members: &[Schema], tag: Option<&Tag>, outer: &mut Schema, position: &Position) {
        let mut rules = Vec::new();
        for (index, member) in members.iter().enumerate() {
            for rule in member.get(VALIDATIONS).and_then(Value::as_array).into_iter().flatten() {
                let guard = tag.and_then(|tag| Some((cel::field(&tag.name)?, tag.values.get(index)?)));
                let (Some((field, value)), Some(text)) = (guard, rule["rule"].as_str()) else {
                    let advice =
                        "move the rule to the fields of the variant, or add #[serde(tag = \"type\")] to the enum";
                    self.problem(
                        position,
                        "a variant without a tag has a CEL rule, which would apply to all variants",
                        advice,
                    );
                    return;
                };
                let mut guarded = rule.clone();
                guarded["rule"] = format!("self.{field} != {} || ({text})", cel::text(value)).into();
                rules.push(guarded);
            }
        }
        if !rules.is_empty() {
            outer.insert(VALIDATIONS.to_owned(), Value::Array(rules));
        }
    }

    /// Keywords of Kubernetes must be the same in all variants.
    fn other_keywords(&mut self, members: &[Schema], position: &Position) {
        let handled = [PRESERVE, VALIDATIONS, marker::CLOSED, "x-kubernetes-list-type", "x-kubernetes-list-map-keys"];
        let differing = members.iter().flat_map(|member| member.keys()).find(|name| {
            let compared = name.starts_with("x-") && !handled.contains(&name.as_str()) || *name == "nullable";
            compared && members.iter().any(|member| member.get(*name) != members[0].get(*name))
        });
        if let Some(name) = differing {
            let problem = format!("variants differ in {name}");
            self.problem(position, problem, "give all variants the same, or rename the field in one of them");
        }
    }
}

fn shape(member: &Schema) -> &str {
    match type_of(member) {
        _ if is_true(member, INT_OR_STRING) => INT_OR_STRING,
        Some(name) => name,
        None if is_any(member) => "any",
        None => "unknown",
    }
}

fn fields(member: &Schema) -> impl Iterator<Item = (&String, &Value)> {
    member.get("properties").and_then(Value::as_object).into_iter().flatten()
}

fn required(member: &Schema) -> Vec<&str> {
    member.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

fn union_of_scalars(members: &[Schema], ty: Value) -> Schema {
    let mut outer = Schema::new();
    outer.insert("type".to_owned(), ty);
    for name in ["description", "nullable", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"] {
        let value = members.iter().find_map(|member| member.get(name));
        let by_all = members.iter().all(|member| member.get(name) == value);
        if let Some(value) = value.filter(|_| by_all || name == "description") {
            outer.insert(name.to_owned(), value.clone());
        }
    }
    let enums: Option<Vec<&Vec<Value>>> = members.iter().map(|member| member.get("enum")?.as_array()).collect();
    if let Some(enums) = enums {
        let mut values: Vec<Value> = Vec::new();
        for value in enums.into_iter().flatten() {
            if !values.contains(value) {
                values.push(value.clone());
            }
        }
        outer.insert("enum".to_owned(), Value::Array(values));
    }
    outer
}

/// Integers and strings in one field. Bounds apply to integers only, and patterns to strings only,
/// so both can be in one schema.
fn int_or_string(members: &[Schema]) -> Schema {
    let mut outer = Schema::new();
    outer.insert(INT_OR_STRING.to_owned(), true.into());
    let per_type = |name: &str| match shape_of_keyword(name) {
        Some(shape) => members.iter().filter(|member| self::shape(member) == shape).count() == 1,
        None => name == "description",
    };
    for (name, value) in members.iter().flatten() {
        if per_type(name) {
            outer.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
    outer
}

fn shape_of_keyword(name: &str) -> Option<&'static str> {
    match name {
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => Some("integer"),
        "minLength" | "maxLength" | "pattern" => Some("string"),
        _ => None,
    }
}

fn tag(members: &[Schema]) -> Option<Tag> {
    let single = |member: &Schema, name: &str| -> Option<String> {
        let values = member.get("properties")?.get(name)?.get("enum")?.as_array()?;
        let is_required = required(member).contains(&name);
        (values.len() == 1 && is_required).then(|| values[0].as_str().map(str::to_owned)).flatten()
    };
    fields(&members[0]).find_map(|(name, _)| {
        let values: Vec<String> = members.iter().map(|member| single(member, name)).collect::<Option<_>>()?;
        let mut distinct = values.clone();
        distinct.sort();
        distinct.dedup();
        (distinct.len() == members.len()).then(|| Tag { name: name.clone(), values })
    })
}

/// The description of an externally tagged variant, for the field that holds the variant.
fn variant_description(members: &[Schema], known: &[Schema], name: &str) -> Option<Value> {
    if known.len() != 1 {
        return None;
    }
    let mut owners = members.iter().filter(|member| fields(member).any(|(field, _)| field == name));
    let owner = owners.next().filter(|owner| fields(owner).count() == 1 && required(owner) == [name])?;
    owner.get("description").cloned()
}

/// Variants with `deny_unknown_fields` refuse the fields of the others. Each of them would fail to
/// decode an object that has them.
fn refuse_other_fields(members: &[Schema], properties: &Schema, required: &[Vec<&str>], each: &mut [Schema]) {
    // `oneOf` does the same for externally tagged variants: each has one field, and needs it.
    let is_external = |(member, required): (&Schema, &Vec<&str>)| fields(member).count() == 1 && required.len() == 1;
    let all_external = members.iter().zip(required).all(is_external) && properties.len() == members.len();
    if all_external {
        return;
    }
    for (member, restricted) in members.iter().zip(each) {
        if !is_true(member, marker::CLOSED) {
            continue;
        }
        let own: Vec<&String> = fields(member).map(|(name, _)| name).collect();
        let others: Vec<Value> =
            properties.keys().filter(|name| !own.contains(name)).map(|name| json!({"required": [name]})).collect();
        if others.is_empty() {
            continue;
        }
        let refused = json!({ "anyOf": others });
        match restricted.get_mut("not") {
            None => drop(restricted.insert("not".to_owned(), refused)),
            Some(not) => *not = json!({"anyOf": [not.take(), refused]}),
        }
    }
}

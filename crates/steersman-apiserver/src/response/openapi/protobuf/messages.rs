//! The messages that documents of this server are made of. Those for features of OpenAPI that no
//! document has are left out.

use super::Type::{Any, Anys, Bool, Double, Int, Many, One, Text, Texts};
use super::{Message, Shape};

type Field = (&'static str, u32, super::Type);

const fn plain(fields: &'static [Field], extensions: u32) -> Message {
    Message { fields, extensions: Some(extensions), shape: Shape::Plain }
}

/// A message of one shape, without fields of its own.
const fn shaped(shape: Shape) -> Message {
    Message { fields: &[], extensions: None, shape }
}

const fn or_reference(message: &'static Message) -> Message {
    shaped(Shape::OrReference { own: 1, message, reference: 2 })
}

const fn map(entry: &'static Message) -> Message {
    shaped(Shape::Entries(1, entry))
}

static EXTERNAL_DOCS: Message = plain(&[("description", 1, Text), ("url", 2, Text)], 3);

pub(in super::super) static DOCUMENT_V3: Message = plain(
    &[
        ("openapi", 1, Text),
        ("info", 2, One(&INFO_V3)),
        ("paths", 4, One(&PATHS_V3)),
        ("components", 5, One(&COMPONENTS)),
    ],
    9,
);
static INFO_V3: Message = plain(&[("title", 1, Text), ("version", 6, Text)], 7);
static PATHS_V3: Message = Message { fields: &[], extensions: Some(2), shape: Shape::Entries(1, &PATH_ITEM_V3) };
static PATH_ITEM_V3: Message = plain(
    &[
        ("get", 4, One(&OPERATION_V3)),
        ("put", 5, One(&OPERATION_V3)),
        ("post", 6, One(&OPERATION_V3)),
        ("delete", 7, One(&OPERATION_V3)),
        ("options", 8, One(&OPERATION_V3)),
        ("head", 9, One(&OPERATION_V3)),
        ("patch", 10, One(&OPERATION_V3)),
        ("parameters", 13, Many(&PARAMETER_OR_REFERENCE)),
    ],
    14,
);
static OPERATION_V3: Message = plain(
    &[
        ("tags", 1, Texts),
        ("description", 3, Text),
        ("operationId", 5, Text),
        ("parameters", 6, Many(&PARAMETER_OR_REFERENCE)),
        ("requestBody", 7, One(&REQUEST_BODY_OR_REFERENCE)),
        ("responses", 8, One(&RESPONSES_V3)),
    ],
    13,
);
static PARAMETER_OR_REFERENCE: Message = or_reference(&PARAMETER_V3);
static PARAMETER_V3: Message = plain(
    &[
        ("name", 1, Text),
        ("in", 2, Text),
        ("description", 3, Text),
        ("required", 4, Bool),
        ("schema", 10, One(&SCHEMA_OR_REFERENCE)),
    ],
    14,
);
static REQUEST_BODY_OR_REFERENCE: Message = or_reference(&REQUEST_BODY);
static REQUEST_BODY: Message =
    plain(&[("description", 1, Text), ("content", 2, One(&MEDIA_TYPES)), ("required", 3, Bool)], 4);
static MEDIA_TYPES: Message = map(&MEDIA_TYPE);
static MEDIA_TYPE: Message = plain(&[("schema", 1, One(&SCHEMA_OR_REFERENCE))], 5);
static RESPONSES_V3: Message =
    Message { fields: &[], extensions: Some(3), shape: Shape::Entries(2, &RESPONSE_OR_REFERENCE) };
static RESPONSE_OR_REFERENCE: Message = or_reference(&RESPONSE_V3);
static RESPONSE_V3: Message = plain(&[("description", 1, Text), ("content", 3, One(&MEDIA_TYPES))], 5);
static COMPONENTS: Message =
    plain(&[("schemas", 1, One(&SCHEMAS_OR_REFERENCES)), ("securitySchemes", 7, One(&SECURITY_SCHEMES))], 10);
static SCHEMAS_OR_REFERENCES: Message = map(&SCHEMA_OR_REFERENCE);
static SECURITY_SCHEMES: Message = map(&SECURITY_SCHEME_OR_REFERENCE);
static SECURITY_SCHEME_OR_REFERENCE: Message = or_reference(&SECURITY_SCHEME);
static SECURITY_SCHEME: Message =
    plain(&[("type", 1, Text), ("description", 2, Text), ("name", 3, Text), ("in", 4, Text)], 9);
static SCHEMA_OR_REFERENCE: Message = or_reference(&SCHEMA_V3);
static SCHEMA_V3: Message = plain(
    &[
        ("nullable", 1, Bool),
        ("externalDocs", 6, One(&EXTERNAL_DOCS)),
        ("example", 7, Any),
        ("title", 9, Text),
        ("multipleOf", 10, Double),
        ("maximum", 11, Double),
        ("exclusiveMaximum", 12, Bool),
        ("minimum", 13, Double),
        ("exclusiveMinimum", 14, Bool),
        ("maxLength", 15, Int),
        ("minLength", 16, Int),
        ("pattern", 17, Text),
        ("maxItems", 18, Int),
        ("minItems", 19, Int),
        ("uniqueItems", 20, Bool),
        ("maxProperties", 21, Int),
        ("minProperties", 22, Int),
        ("required", 23, Texts),
        ("enum", 24, Anys),
        ("type", 25, Text),
        ("allOf", 26, Many(&SCHEMA_OR_REFERENCE)),
        ("oneOf", 27, Many(&SCHEMA_OR_REFERENCE)),
        ("anyOf", 28, Many(&SCHEMA_OR_REFERENCE)),
        ("not", 29, One(&SCHEMA_V3)),
        ("items", 30, One(&ITEMS_V3)),
        ("properties", 31, One(&SCHEMAS_OR_REFERENCES)),
        ("additionalProperties", 32, One(&ADDITIONAL_PROPERTIES_V3)),
        ("default", 33, One(&DEFAULT)),
        ("description", 34, Text),
        ("format", 35, Text),
    ],
    36,
);
static ITEMS_V3: Message = shaped(Shape::Wrapped(1, &SCHEMA_OR_REFERENCE));
static ADDITIONAL_PROPERTIES_V3: Message = shaped(Shape::OrBool(&SCHEMA_OR_REFERENCE));
static DEFAULT: Message = shaped(Shape::Scalar);

pub(in super::super) static DOCUMENT_V2: Message = plain(
    &[
        ("swagger", 1, Text),
        ("info", 2, One(&INFO_V2)),
        ("paths", 8, One(&PATHS_V2)),
        ("definitions", 9, One(&SCHEMAS)),
        ("parameters", 10, One(&PARAMETERS)),
        ("security", 12, Many(&SECURITY_REQUIREMENT)),
        ("securityDefinitions", 13, One(&SECURITY_DEFINITIONS)),
    ],
    16,
);
static INFO_V2: Message = plain(&[("title", 1, Text), ("version", 2, Text)], 7);
static PATHS_V2: Message = Message { fields: &[], extensions: Some(1), shape: Shape::Entries(2, &PATH_ITEM_V2) };
static PATH_ITEM_V2: Message = plain(
    &[
        ("get", 2, One(&OPERATION_V2)),
        ("put", 3, One(&OPERATION_V2)),
        ("post", 4, One(&OPERATION_V2)),
        ("delete", 5, One(&OPERATION_V2)),
        ("options", 6, One(&OPERATION_V2)),
        ("head", 7, One(&OPERATION_V2)),
        ("patch", 8, One(&OPERATION_V2)),
        ("parameters", 9, Many(&PARAMETERS_ITEM)),
    ],
    10,
);
static OPERATION_V2: Message = plain(
    &[
        ("tags", 1, Texts),
        ("description", 3, Text),
        ("operationId", 5, Text),
        ("produces", 6, Texts),
        ("consumes", 7, Texts),
        ("parameters", 8, Many(&PARAMETERS_ITEM)),
        ("responses", 9, One(&RESPONSES_V2)),
        ("schemes", 10, Texts),
    ],
    13,
);
static PARAMETERS_ITEM: Message = or_reference(&PARAMETER_V2);
static PARAMETERS: Message = map(&PARAMETER_V2);
static PARAMETER_V2: Message = shaped(Shape::Parameter);
pub(super) static BODY_PARAMETER: Message = plain(
    &[
        ("description", 1, Text),
        ("name", 2, Text),
        ("in", 3, Text),
        ("required", 4, Bool),
        ("schema", 5, One(&SCHEMA_V2)),
    ],
    6,
);
pub(super) static QUERY_PARAMETER: Message = plain(
    &[
        ("required", 1, Bool),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 6, Text),
        ("uniqueItems", 20, Bool),
    ],
    23,
);
pub(super) static PATH_PARAMETER: Message = plain(
    &[
        ("required", 1, Bool),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 5, Text),
        ("uniqueItems", 19, Bool),
    ],
    22,
);
static RESPONSES_V2: Message = Message { fields: &[], extensions: Some(2), shape: Shape::Entries(1, &RESPONSE_VALUE) };
static RESPONSE_VALUE: Message = or_reference(&RESPONSE_V2);
static RESPONSE_V2: Message = plain(&[("description", 1, Text), ("schema", 2, One(&SCHEMA_ITEM))], 5);
static SCHEMA_ITEM: Message = shaped(Shape::Wrapped(1, &SCHEMA_V2));
static SECURITY_REQUIREMENT: Message = map(&STRINGS);
static SECURITY_DEFINITIONS: Message = map(&SECURITY_DEFINITION);
static SECURITY_DEFINITION: Message = shaped(Shape::Wrapped(2, &API_KEY_SECURITY));
static API_KEY_SECURITY: Message =
    plain(&[("type", 1, Text), ("name", 2, Text), ("in", 3, Text), ("description", 4, Text)], 5);
static SCHEMAS: Message = map(&SCHEMA_V2);
static SCHEMA_V2: Message = plain(
    &[
        ("$ref", 1, Text),
        ("format", 2, Text),
        ("title", 3, Text),
        ("description", 4, Text),
        ("default", 5, Any),
        ("multipleOf", 6, Double),
        ("maximum", 7, Double),
        ("exclusiveMaximum", 8, Bool),
        ("minimum", 9, Double),
        ("exclusiveMinimum", 10, Bool),
        ("maxLength", 11, Int),
        ("minLength", 12, Int),
        ("pattern", 13, Text),
        ("maxItems", 14, Int),
        ("minItems", 15, Int),
        ("uniqueItems", 16, Bool),
        ("maxProperties", 17, Int),
        ("minProperties", 18, Int),
        ("required", 19, Texts),
        ("enum", 20, Anys),
        ("additionalProperties", 21, One(&ADDITIONAL_PROPERTIES_V2)),
        ("type", 22, One(&STRINGS)),
        ("items", 23, One(&ITEMS_V2)),
        ("properties", 25, One(&SCHEMAS)),
        ("externalDocs", 29, One(&EXTERNAL_DOCS)),
        ("example", 30, Any),
    ],
    31,
);
static ADDITIONAL_PROPERTIES_V2: Message = shaped(Shape::OrBool(&SCHEMA_V2));
static ITEMS_V2: Message = shaped(Shape::Wrapped(1, &SCHEMA_V2));
static STRINGS: Message = shaped(Shape::Texts);

//! How others check the tokens of service accounts: the OpenID documents.

use http::header::CACHE_CONTROL;
use http::{HeaderValue, Response, StatusCode};
use serde_json::json;

use super::Shared;
use crate::access::tokens::ISSUER;
use crate::response::{self, Body};

const CONFIGURATION: &str = "/.well-known/openid-configuration";
const KEYS: &str = "/openid/v1/jwks";

impl Shared {
    /// The document at this path, if it is one of them.
    pub(super) fn open_id(&self, path: &str) -> Option<Response<Body>> {
        let (document, media_type) = match path {
            CONFIGURATION => {
                let document = json!({
                    "issuer": ISSUER,
                    "jwks_uri": format!("{ISSUER}{KEYS}"),
                    "response_types_supported": ["id_token"],
                    "subject_types_supported": ["public"],
                    "id_token_signing_alg_values_supported": ["ES256"],
                });
                (document, "application/json")
            }
            KEYS => (self.signing_key().key_set(), "application/jwk-set+json"),
            _ => return None,
        };
        let mut response = response::json(StatusCode::OK, document.to_string());
        response.headers_mut().insert(http::header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
        Some(response)
    }
}

//! `Warning` headers.

use std::collections::HashSet;

use http::header::WARNING;
use http::{HeaderValue, Response};

use crate::response::Body;

/// Adds warnings to a response.
pub(crate) trait Warnings {
    /// Adds a header for each.
    fn warning(self, warnings: &[String]) -> Self;

    /// Adds a header for each before the present ones.
    fn warning_first(self, warnings: &[String]) -> Self;
}

impl Warnings for Response<Body> {
    fn warning(mut self, warnings: &[String]) -> Self {
        for warning in shortened(warnings) {
            if let Ok(value) = HeaderValue::from_str(&format!("299 - {}", steersman_wire::quote(warning))) {
                self.headers_mut().append(WARNING, value);
            }
        }
        self
    }

    fn warning_first(mut self, warnings: &[String]) -> Self {
        let later: Vec<HeaderValue> = self.headers().get_all(WARNING).iter().cloned().collect();
        self.headers_mut().remove(WARNING);
        let mut response = self.warning(warnings);
        for warning in later {
            response.headers_mut().append(WARNING, warning);
        }
        response
    }
}

/// The warnings that are sent, each once. If they are too long together, each is cut, and those at
/// the end are left out, as the real server does.
fn shortened(warnings: &[String]) -> Vec<&str> {
    const TOTAL_MAX: usize = 4 * 1024;
    const ITEM_MAX: usize = 256;

    let mut seen = HashSet::new();
    let each_once = || warnings.iter().filter(|warning| !warning.is_empty());
    // The later ones do not matter if the first ones are too long together.
    let mut total = 0;
    let fits = each_once().all(|warning| {
        total += if seen.insert(warning.as_str()) { warning.chars().count() } else { 0 };
        total <= TOTAL_MAX
    });
    seen.clear();
    let mut written = 0;
    let mut sent = Vec::new();
    for warning in each_once() {
        if !fits && written >= TOTAL_MAX {
            break;
        }
        if !seen.insert(warning.as_str()) {
            continue;
        }
        let end = warning.char_indices().nth(ITEM_MAX).filter(|_| !fits).map_or(warning.len(), |(end, _)| end);
        written += warning[..end].chars().count();
        sent.push(&warning[..end]);
    }
    sent
}

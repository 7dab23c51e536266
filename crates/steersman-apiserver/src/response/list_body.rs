//! Long lists, encoded while they are sent: one chunk is in memory at a time, however long the list
//! is.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use crate::store::object::Object;

/// The size of a chunk. A shorter list is encoded at once.
pub(crate) const CHUNK: usize = 64 << 10;

/// The body of a list whose items are whole objects.
pub(crate) struct ListBody {
    /// The text before the next item: the beginning of the list, or nothing.
    pending: Vec<u8>,
    /// The text before each item's own bytes.
    item_head: String,
    items: std::vec::IntoIter<Arc<Object>>,
    first: bool,
    /// Bytes that have not been sent yet.
    remaining: usize,
}

impl ListBody {
    /// A list that begins with `head` and ends with `]}`.
    pub(crate) fn new(head: Vec<u8>, item_head: String, items: Vec<Arc<Object>>) -> Self {
        let bodies: usize = items.iter().map(|object| object.body().len()).sum();
        let commas = items.len().saturating_sub(1);
        let remaining = head.len() + bodies + items.len() * item_head.len() + commas + END.len();
        Self { pending: head, item_head, items: items.into_iter(), first: true, remaining }
    }
}

const END: &[u8] = b"]}";

impl http_body::Body for ListBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.remaining == 0 {
            return Poll::Ready(None);
        }
        let mut chunk = Vec::with_capacity(self.remaining.min(CHUNK + CHUNK / 4));
        chunk.append(&mut self.pending);
        while chunk.len() < CHUNK {
            let Some(object) = self.items.next() else {
                chunk.extend_from_slice(END);
                break;
            };
            if !std::mem::take(&mut self.first) {
                chunk.push(b',');
            }
            chunk.extend_from_slice(self.item_head.as_bytes());
            chunk.extend_from_slice(object.body());
        }
        self.remaining = self.remaining.saturating_sub(chunk.len());
        Poll::Ready(Some(Ok(Frame::data(chunk.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.remaining == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining as u64)
    }
}

#[cfg(test)]
mod tests {
    use http_body::Body;
    use http_body_util::BodyExt;
    use serde_json::{Value, json};

    use super::*;

    #[tokio::test]
    async fn a_list_of_any_length_is_whole_and_has_its_content_length() {
        for (count, size) in [(0, 0), (1, 10), (3, CHUNK), (500, 1000), (40, CHUNK / 4)] {
            let object = |index: usize| {
                let value = json!({"metadata": {"name": format!("n-{index}")}, "data": {"x": "y".repeat(size)}});
                Arc::new(Object::new(&value, 1, Vec::new()))
            };
            let head = br#"{"kind":"List","items":["#.to_vec();
            let body = ListBody::new(head, "{".to_owned(), (0..count).map(object).collect());
            let promised = body.size_hint().exact();
            let bytes = body.collect().await.unwrap().to_bytes();
            assert_eq!(promised, Some(bytes.len() as u64), "{count} of {size}");
            let list: Value = serde_json::from_slice(&bytes).unwrap();
            let items = list["items"].as_array().unwrap();
            assert_eq!(items.len(), count);
            assert!(items.iter().enumerate().all(|(index, item)| item["metadata"]["name"] == format!("n-{index}")));
        }
    }
}

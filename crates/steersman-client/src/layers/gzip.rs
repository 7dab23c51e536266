//! Lists that come compressed.

use std::io::Write;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, HeaderValue};
use http::{Method, Request};
use http_body::{Body as HttpBody, Frame};
use http_body_util::BodyExt;
use kube_client::client::Body;
use tower::{BoxError, Service, ServiceExt};

use super::{Answer, AnswerBody, Purpose, service};

/// Asks for compressed answers to reads, and unpacks them as they arrive. Watches ask for none: a server may compress each
/// event by itself, and each would have to wait for the next.
#[derive(Clone)]
pub(crate) struct Gzip<S> {
    pub(crate) inner: S,
    pub(crate) enabled: bool,
}

impl<S> Gzip<S>
where
    S: Service<Request<Body>, Response = http::Response<AnswerBody>, Error = BoxError> + Send + 'static,
    S::Future: Send,
{
    async fn answer(self, mut request: Request<Body>) -> Answer {
        if request.headers().contains_key(ACCEPT_ENCODING) {
            // The caller will see to it.
            return self.inner.oneshot(request).await;
        }
        let ordinary = request.method() == Method::GET && Purpose::of(&request) == Purpose::Ordinary;
        let encoding = if self.enabled && ordinary { "gzip" } else { "identity" };
        request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static(encoding));
        let mut response = self.inner.oneshot(request).await?;
        if response.headers().get(CONTENT_ENCODING).is_none_or(|encoding| encoding != "gzip") {
            return Ok(response);
        }
        response.headers_mut().remove(CONTENT_ENCODING);
        response.headers_mut().remove(CONTENT_LENGTH);
        Ok(response.map(|body| {
            Unpacked { body, packed: Bytes::new(), decoder: Some(MultiGzDecoder::new(Vec::new())) }.boxed_unsync()
        }))
    }
}

service!(Gzip);

/// How much is unpacked at a time. Packed bytes become up to a thousand times as many.
const STEP: usize = 16 << 10;

/// A body that is unpacked part by part.
struct Unpacked {
    body: AnswerBody,
    /// What has come and is not unpacked yet.
    packed: Bytes,
    /// `None` when the end has been handed out.
    decoder: Option<MultiGzDecoder<Vec<u8>>>,
}

impl Unpacked {
    /// What has been unpacked so far.
    fn take(&mut self) -> Option<Bytes> {
        let unpacked = std::mem::take(self.decoder.as_mut()?.get_mut());
        (!unpacked.is_empty()).then(|| unpacked.into())
    }
}

impl HttpBody for Unpacked {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            let Self { body, packed, decoder } = &mut *self;
            let Some(decoder) = decoder else { return Poll::Ready(None) };
            if !packed.is_empty() {
                let step = packed.split_to(packed.len().min(STEP));
                if let Err(error) = decoder.write_all(&step).and_then(|()| decoder.flush()) {
                    self.decoder = None;
                    return Poll::Ready(Some(Err(error.into())));
                }
                if let Some(unpacked) = self.take() {
                    return Poll::Ready(Some(Ok(Frame::data(unpacked))));
                }
                continue;
            }
            match std::task::ready!(Pin::new(body).poll_frame(context)) {
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(frame)) => *packed = frame.into_data().unwrap_or_default(),
                None => {
                    let finished = decoder.try_finish();
                    let last = self.take().map(|last| Ok(Frame::data(last)));
                    self.decoder = None;
                    return Poll::Ready(finished.map_or_else(|error| Some(Err(error.into())), |()| last));
                }
            }
        }
    }
}

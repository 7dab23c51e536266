//! Compressed responses.

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

use super::{Purpose, ResponseBody, ResponseResult, service};

/// Accepts gzip for reads, and decompresses bodies as they arrive. Watches accept none: a server
/// may compress each event by itself, and an event would wait for the next one.
#[derive(Clone)]
pub(crate) struct Gzip<S> {
    pub(crate) inner: S,
    pub(crate) enabled: bool,
}

impl<S> Gzip<S>
where
    S: Service<Request<Body>, Response = http::Response<ResponseBody>, Error = BoxError> + Send + 'static,
    S::Future: Send,
{
    async fn handle(self, mut request: Request<Body>) -> ResponseResult {
        if request.headers().contains_key(ACCEPT_ENCODING) {
            // The caller decompresses the body.
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
            GunzipBody { body, compressed: Bytes::new(), decoder: Some(MultiGzDecoder::new(Vec::new())) }.boxed_unsync()
        }))
    }
}

service!(Gzip);

/// How many compressed bytes one step takes. They may become a thousand times as many.
const STEP_BYTES: usize = 16 << 10;

/// A body that is decompressed step by step.
struct GunzipBody {
    body: ResponseBody,
    /// Received and not decompressed yet.
    compressed: Bytes,
    /// `None` after the end.
    decoder: Option<MultiGzDecoder<Vec<u8>>>,
}

impl GunzipBody {
    /// Takes the output of the decoder.
    fn take(&mut self) -> Option<Bytes> {
        let decompressed = std::mem::take(self.decoder.as_mut()?.get_mut());
        (!decompressed.is_empty()).then(|| decompressed.into())
    }
}

impl HttpBody for GunzipBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            let Self { body, compressed, decoder } = &mut *self;
            let Some(decoder) = decoder else { return Poll::Ready(None) };
            if !compressed.is_empty() {
                let step = compressed.split_to(compressed.len().min(STEP_BYTES));
                if let Err(error) = decoder.write_all(&step).and_then(|()| decoder.flush()) {
                    self.decoder = None;
                    return Poll::Ready(Some(Err(error.into())));
                }
                if let Some(decompressed) = self.take() {
                    return Poll::Ready(Some(Ok(Frame::data(decompressed))));
                }
                continue;
            }
            match std::task::ready!(Pin::new(body).poll_frame(context)) {
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(frame)) => *compressed = frame.into_data().unwrap_or_default(),
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

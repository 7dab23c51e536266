//! A client without a server.

use std::sync::{Arc, OnceLock};

use http::{Request, Response};
use kube_client::client::Body;
use tower::BoxError;

use crate::error::RequestInfo;
use crate::layers::{ResponseBody, Transport};

/// The first request that an offline client refused. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refused(Arc<OnceLock<RequestInfo>>);

/// The client is offline.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("not sent, because the client is offline")]
pub(crate) struct OfflineError;

impl Refused {
    pub(crate) fn first(&self) -> Option<RequestInfo> {
        self.0.get().cloned()
    }

    /// Refuses every request, also those of a client of kube's that is made from this one.
    pub(crate) fn transport(&self) -> Transport {
        let refused = self.clone();
        Transport::new(tower::service_fn(move |request: Request<Body>| {
            let url = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
            refused.0.get_or_init(|| RequestInfo { method: request.method().clone(), url });
            std::future::ready(Err::<Response<ResponseBody>, BoxError>(OfflineError.into()))
        }))
    }
}

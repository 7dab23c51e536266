//! Token files that are rotated.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderValue};
use http::{Request, StatusCode};
use kube_client::client::Body;
use kube_client::config::AuthInfo;
use tokio::time::Instant;
use tower::{BoxError, Service, ServiceExt};

use super::{ResponseBody, ResponseResult, service};
use crate::Error;
use crate::config::file::read_text_bounded;

/// The age at which a token is read again. A token in use is never older than a minute, even while
/// a request is in flight.
const REREAD_AFTER: Duration = Duration::from_secs(50);

/// The token in a file. It is read again from time to time, and after the server has rejected it.
/// If the file can no longer be read, the last token stays: some programs remove the file after the
/// start.
#[derive(Debug)]
pub(crate) struct TokenFile {
    path: PathBuf,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    /// Marked as sensitive, so it is not printed.
    header: HeaderValue,
    reread_at: Instant,
}

impl TokenFile {
    /// Takes the token file out of `auth`, if it is the credential in use. Basic authentication and
    /// an inline token take precedence over it; it takes precedence over a credential plugin.
    pub(crate) fn take(auth: &mut AuthInfo) -> Result<Option<Arc<Self>>, Error> {
        let basic = auth.username.is_some() && auth.password.is_some();
        if auth.auth_provider.is_some() || basic || auth.token.is_some() {
            return Ok(None);
        }
        let Some(path) = auth.token_file.take() else { return Ok(None) };
        auth.exec = None;
        let path = PathBuf::from(path);
        let header = read(&path).map_err(|problem| {
            Error::Config(format!("cannot use the token file {}: {problem}", path.display()).into())
        })?;
        let current = Current { header, reread_at: Instant::now() + REREAD_AFTER };
        Ok(Some(Arc::new(Self { path, current: Mutex::new(current) })))
    }

    fn header(&self) -> HeaderValue {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if Instant::now() >= current.reread_at {
            match read(&self.path) {
                Ok(header) => current.header = header,
                Err(problem) => {
                    tracing::warn!(file = %self.path.display(), error = problem, "cannot read the token file again");
                }
            }
            current.reread_at = Instant::now() + REREAD_AFTER;
        }
        current.header.clone()
    }

    /// The server rejected the token `used`.
    fn reject(&self, used: &HeaderValue) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.header == *used {
            current.reread_at = Instant::now();
        }
    }
}

/// The header with the token of a file. The error holds nothing of the contents.
pub(crate) fn read(path: &std::path::Path) -> Result<HeaderValue, String> {
    let token = read_text_bounded(path).map_err(|problem| problem.to_string())?;
    let token = token.trim();
    if token.is_empty() {
        return Err("it is empty".to_owned());
    }
    let header = HeaderValue::from_str(&format!("Bearer {token}"));
    let mut header = header.map_err(|_| "it holds characters that are invalid in a token".to_owned())?;
    header.set_sensitive(true);
    Ok(header)
}

/// Adds the token of a file to each request.
#[derive(Clone)]
pub(crate) struct WithTokenFile<S> {
    pub(crate) inner: S,
    pub(crate) file: Arc<TokenFile>,
}

impl<S> WithTokenFile<S>
where
    S: Service<Request<Body>, Response = http::Response<ResponseBody>, Error = BoxError> + Send + 'static,
    S::Future: Send,
{
    async fn handle(self, mut request: Request<Body>) -> ResponseResult {
        let header = self.file.header();
        request.headers_mut().insert(AUTHORIZATION, header.clone());
        let response = self.inner.oneshot(request).await?;
        if response.status() == StatusCode::UNAUTHORIZED {
            self.file.reject(&header);
        }
        Ok(response)
    }
}

service!(WithTokenFile);

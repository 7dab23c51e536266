//! A token in a file that somebody renews.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderValue};
use http::{Request, StatusCode};
use kube_client::client::Body;
use kube_client::config::AuthInfo;
use tokio::time::Instant;
use tower::{BoxError, Service, ServiceExt};

use super::{Answer, AnswerBody, service};
use crate::Error;
use crate::file::read_text_bounded;

/// A token that was read so long ago is read again: so it is never older than a minute, even while a request is on its way.
const REREAD_AFTER: Duration = Duration::from_secs(50);

/// The token in a file, read again now and then. A token that the server does not accept is read again for the next request.
/// When the file cannot be read any more, the last token stays: some programs take it away after the start.
#[derive(Debug)]
pub(crate) struct TokenFile {
    path: PathBuf,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    /// Marked as sensitive, so that it is not printed.
    header: HeaderValue,
    reread: Instant,
}

impl TokenFile {
    /// Takes the token file out of `auth`, if that is what says who asks. Basic authentication and a token that is given go
    /// first, a program that gives one goes last.
    pub(crate) fn take(auth: &mut AuthInfo) -> Result<Option<Arc<Self>>, Error> {
        let basic = auth.username.is_some() && auth.password.is_some();
        if auth.auth_provider.is_some() || basic || auth.token.is_some() {
            return Ok(None);
        }
        let Some(path) = auth.token_file.take() else { return Ok(None) };
        auth.exec = None;
        let path = PathBuf::from(path);
        let header = read(&path).map_err(|problem| {
            Error::Config(format!("the token file {} cannot be used: {problem}", path.display()).into())
        })?;
        let current = Current { header, reread: Instant::now() + REREAD_AFTER };
        Ok(Some(Arc::new(Self { path, current: Mutex::new(current) })))
    }

    fn header(&self) -> HeaderValue {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if Instant::now() >= current.reread {
            match read(&self.path) {
                Ok(header) => current.header = header,
                Err(problem) => {
                    tracing::warn!("the token file {} cannot be read again: {problem}", self.path.display());
                }
            }
            current.reread = Instant::now() + REREAD_AFTER;
        }
        current.header.clone()
    }

    /// The server did not accept `used`.
    fn refused(&self, used: &HeaderValue) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.header == *used {
            current.reread = Instant::now();
        }
    }
}

/// What is sent of the token in a file, or what is wrong with it, without a word of it.
pub(crate) fn read(path: &std::path::Path) -> Result<HeaderValue, String> {
    let token = read_text_bounded(path).map_err(|problem| problem.to_string())?;
    let token = token.trim();
    if token.is_empty() {
        return Err("it is empty".to_owned());
    }
    let header = HeaderValue::from_str(&format!("Bearer {token}"));
    let mut header = header.map_err(|_| "it holds characters that no token has".to_owned())?;
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
    S: Service<Request<Body>, Response = http::Response<AnswerBody>, Error = BoxError> + Send + 'static,
    S::Future: Send,
{
    async fn answer(self, mut request: Request<Body>) -> Answer {
        let header = self.file.header();
        request.headers_mut().insert(AUTHORIZATION, header.clone());
        let response = self.inner.oneshot(request).await?;
        if response.status() == StatusCode::UNAUTHORIZED {
            self.file.refused(&header);
        }
        Ok(response)
    }
}

service!(WithTokenFile);

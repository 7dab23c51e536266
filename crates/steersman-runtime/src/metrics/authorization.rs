//! Asks the API server who may read the metrics.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{Response, StatusCode};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use lru::LruCache;
use sha2::{Digest, Sha256};
use steersman_client::{Client, Error, ObjectMeta, PostParams};
use steersman_http::{Body, Guard, text};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

const TOKEN_TTL: Duration = Duration::from_secs(60);
const ALLOWED_TTL: Duration = Duration::from_secs(5 * 60);
const DENIED_TTL: Duration = Duration::from_secs(30);
/// The limit of one review with its retries.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a review is sent, and the pause after the first failure, which grows by half.
const ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// How many results are remembered of each kind.
const REMEMBERED_MAX: NonZeroUsize = NonZeroUsize::new(1024).unwrap();
const REFUSED_MAX: NonZeroUsize = NonZeroUsize::new(256).unwrap();
/// How many bytes the path and the verb of a permission may have to be remembered.
const REMEMBERED_BYTES_MAX: usize = 256;
/// How many reviews are under way at a time. Requests with made-up tokens wait here, and not the
/// API server.
const REVIEWS_MAX: usize = 8;
/// How long a request waits for its turn.
const TURN_TIMEOUT: Duration = Duration::from_secs(2);

/// Lets a request pass if the API server knows its token and permits its path.
pub(crate) struct Authorization {
    client: Client,
    users: Remembered<[u8; 32], User>,
    /// Tokens that the API server does not accept. They drive out no others.
    refused: Remembered<[u8; 32], ()>,
    permissions: Remembered<(User, String, String), bool>,
    /// Reviews of tokens that were never accepted.
    unknown: Semaphore,
    /// Reviews of tokens that were accepted before, and of permissions.
    known: Semaphore,
}

/// Why there is no result of a review.
#[derive(Debug, thiserror::Error)]
enum ReviewError {
    #[error("too many reviews are under way")]
    Busy,
    #[error(transparent)]
    Failed(#[from] Error),
}

impl ReviewError {
    fn response(&self, failure: String) -> Response<Body> {
        match self {
            Self::Busy => text(StatusCode::SERVICE_UNAVAILABLE, "Too many requests are being authorized\n"),
            Self::Failed(_) => text(StatusCode::INTERNAL_SERVER_ERROR, failure),
        }
    }
}

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorization").field("client", &self.client).finish_non_exhaustive()
    }
}

/// A user as both reviews know it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct User {
    name: String,
    uid: Option<String>,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

impl Guard for Authorization {
    fn check<'a>(
        &'a self,
        request: &'a Parts,
    ) -> Pin<Box<dyn Future<Output = Result<(), Response<Body>>> + Send + 'a>> {
        Box::pin(self.authorize(request))
    }
}

impl Authorization {
    pub(crate) fn new(client: Client) -> Self {
        let client = client.with_timeout(REVIEW_TIMEOUT);
        Self {
            client,
            users: Remembered::new(REMEMBERED_MAX),
            refused: Remembered::new(REFUSED_MAX),
            permissions: Remembered::new(REMEMBERED_MAX),
            unknown: Semaphore::new(REVIEWS_MAX),
            known: Semaphore::new(REVIEWS_MAX),
        }
    }

    async fn authorize(&self, request: &Parts) -> Result<(), Response<Body>> {
        let unauthorized = || text(StatusCode::UNAUTHORIZED, "Unauthorized\n");
        let token = bearer_token(request).ok_or_else(unauthorized)?;
        let user = match self.user(token).await {
            Ok(user) => user.ok_or_else(unauthorized)?,
            Err(error) => {
                tracing::error!(%error, "token review failed");
                return Err(error.response("Authentication failed\n".to_owned()));
            }
        };
        let (path, verb) = (request.uri.path(), request.method.as_str().to_lowercase());
        match self.permits(&user, path, &verb).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(text(StatusCode::FORBIDDEN, format!("Authorization denied for user {}\n", user.name))),
            Err(error) => {
                tracing::error!(%error, user = user.name, "subject access review failed");
                Err(error.response(format!("Authorization for user {} failed\n", user.name)))
            }
        }
    }

    /// The holder of a token. `None` if the API server does not accept it.
    async fn user(&self, token: &str) -> Result<Option<User>, ReviewError> {
        // The token itself is not kept.
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        if let Some(user) = self.users.get(&digest) {
            return Ok(Some(user));
        }
        if self.refused.get(&digest).is_some() {
            return Ok(None);
        }
        let spec = TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() };
        let review = TokenReview { metadata: ObjectMeta::default(), spec, status: None };
        let api = self.client.cluster::<TokenReview>();
        let params = PostParams::default();
        let turn = if self.users.had(&digest) { &self.known } else { &self.unknown };
        let status = send_review(turn, || api.create(&params, &review)).await?.status.unwrap_or_default();
        let user = status.user.filter(|_| status.authenticated == Some(true)).map(User::from);
        match &user {
            Some(user) => self.users.insert(digest, user.clone(), TOKEN_TTL),
            None => {
                self.users.remove(&digest);
                self.refused.insert(digest, (), TOKEN_TTL);
            }
        }
        Ok(user)
    }

    /// Whether a user may do this.
    async fn permits(&self, user: &User, path: &str, verb: &str) -> Result<bool, ReviewError> {
        let asked = (user.clone(), path.to_owned(), verb.to_owned());
        if let Some(permitted) = self.permissions.get(&asked) {
            return Ok(permitted);
        }
        let attributes = NonResourceAttributes { path: Some(path.to_owned()), verb: Some(verb.to_owned()) };
        let spec = SubjectAccessReviewSpec {
            user: Some(user.name.clone()),
            uid: user.uid.clone(),
            groups: Some(user.groups.clone()),
            extra: Some(user.extra.clone()),
            non_resource_attributes: Some(attributes),
            resource_attributes: None,
        };
        let review = SubjectAccessReview { metadata: ObjectMeta::default(), spec, status: None };
        let api = self.client.cluster::<SubjectAccessReview>();
        let params = PostParams::default();
        let status = send_review(&self.known, || api.create(&params, &review)).await?.status.unwrap_or_default();
        let permitted = status.allowed && status.denied != Some(true);
        if path.len() + verb.len() <= REMEMBERED_BYTES_MAX {
            self.permissions.insert(asked, permitted, if permitted { ALLOWED_TTL } else { DENIED_TTL });
        }
        Ok(permitted)
    }
}

/// Sends a review when it is its turn, again after failures that may pass.
async fn send_review<T, F>(turn: &Semaphore, send: impl Fn() -> F) -> Result<T, ReviewError>
where
    F: Future<Output = Result<T, Error>>,
{
    // The semaphore is never closed.
    let _permit = timeout(TURN_TIMEOUT, turn.acquire()).await.map_err(|_| ReviewError::Busy)?;
    let deadline = Instant::now() + REVIEW_TIMEOUT;
    let mut pause = FIRST_PAUSE;
    for _ in 1..ATTEMPTS {
        match send().await {
            Err(error) if may_pass(&error) && Instant::now() + pause < deadline => sleep(pause).await,
            done => return Ok(done?),
        }
        pause = pause.mul_f64(1.5);
    }
    Ok(send().await?)
}

fn may_pass(error: &Error) -> bool {
    match error.status() {
        Some(status) => status.code >= 500 || status.code == 429,
        None => matches!(error, Error::Transport { .. } | Error::Timeout { .. }),
    }
}

/// The token of a request: the header names the scheme in any case.
fn bearer_token(request: &Parts) -> Option<&str> {
    let header = request.headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = header.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

impl From<UserInfo> for User {
    fn from(user: UserInfo) -> Self {
        Self {
            name: user.username.unwrap_or_default(),
            uid: user.uid,
            groups: user.groups.unwrap_or_default(),
            extra: user.extra.unwrap_or_default(),
        }
    }
}

/// Results with the time until which they count. The least recently used one makes room.
#[derive(Debug)]
struct Remembered<K: Hash + Eq, V>(Mutex<LruCache<K, (V, Instant)>>);

impl<K: Hash + Eq, V: Clone> Remembered<K, V> {
    fn new(max: NonZeroUsize) -> Self {
        Self(Mutex::new(LruCache::new(max)))
    }

    fn entries(&self) -> MutexGuard<'_, LruCache<K, (V, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, key: &K) -> Option<V> {
        let now = Instant::now();
        self.entries().get(key).filter(|(_, until)| now < *until).map(|(value, _)| value.clone())
    }

    /// Whether there is a result, also one that does not count any more.
    fn had(&self, key: &K) -> bool {
        self.entries().contains(key)
    }

    fn insert(&self, key: K, value: V, ttl: Duration) {
        self.entries().put(key, (value, Instant::now() + ttl));
    }

    fn remove(&self, key: &K) {
        self.entries().pop(key);
    }
}

#[cfg(test)]
mod tests;

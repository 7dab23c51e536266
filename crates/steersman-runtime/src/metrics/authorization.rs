//! Asks the API server who may read the metrics.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{Response, StatusCode};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use sha2::{Digest, Sha256};
use steersman_client::{Client, Error, ObjectMeta, PostParams};
use steersman_http::{Body, Guard, text};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

const TOKEN_TTL: Duration = Duration::from_secs(60);
const ALLOWED_TTL: Duration = Duration::from_secs(5 * 60);
const DENIED_TTL: Duration = Duration::from_secs(30);
/// The limit of one review with its retries.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a review is sent, and the pause after the first failure, which grows by half.
const ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// How many results are remembered of each kind.
const REMEMBERED_MAX: usize = 1024;
/// How many reviews are under way at a time. Requests with made-up tokens wait here, and not the
/// API server.
const REVIEWS_MAX: usize = 8;

/// Lets a request pass if the API server knows its token and permits its path.
pub(crate) struct Authorization {
    client: Client,
    users: Mutex<Remembered<[u8; 32], Option<User>>>,
    permissions: Mutex<Remembered<(User, String, String), bool>>,
    reviews: Semaphore,
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
        Self { client, users: Mutex::default(), permissions: Mutex::default(), reviews: Semaphore::new(REVIEWS_MAX) }
    }

    async fn authorize(&self, request: &Parts) -> Result<(), Response<Body>> {
        let unauthorized = || text(StatusCode::UNAUTHORIZED, "Unauthorized\n");
        let token = bearer_token(request).ok_or_else(unauthorized)?;
        let user = match self.user(token).await {
            Ok(user) => user.ok_or_else(unauthorized)?,
            Err(error) => {
                tracing::error!(%error, "token review failed");
                return Err(text(StatusCode::INTERNAL_SERVER_ERROR, "Authentication failed\n"));
            }
        };
        let (path, verb) = (request.uri.path(), request.method.as_str().to_lowercase());
        match self.permits(&user, path, &verb).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(text(StatusCode::FORBIDDEN, format!("Authorization denied for user {}\n", user.name))),
            Err(error) => {
                tracing::error!(%error, user = user.name, "subject access review failed");
                let refusal = format!("Authorization for user {} failed\n", user.name);
                Err(text(StatusCode::INTERNAL_SERVER_ERROR, refusal))
            }
        }
    }

    /// The holder of a token. `None` if the API server does not accept it.
    async fn user(&self, token: &str) -> Result<Option<User>, Error> {
        // The token itself is not kept.
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        if let Some(user) = recall(&self.users, &digest) {
            return Ok(user);
        }
        let spec = TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() };
        let review = TokenReview { metadata: ObjectMeta::default(), spec, status: None };
        let api = self.client.cluster::<TokenReview>();
        let params = PostParams::default();
        let status = self.review(|| api.create(&params, &review)).await?.status.unwrap_or_default();
        let user = status.user.filter(|_| status.authenticated == Some(true)).map(User::from);
        remember(&self.users, digest, user.clone(), TOKEN_TTL);
        Ok(user)
    }

    /// Whether a user may do this.
    async fn permits(&self, user: &User, path: &str, verb: &str) -> Result<bool, Error> {
        let asked = (user.clone(), path.to_owned(), verb.to_owned());
        if let Some(permitted) = recall(&self.permissions, &asked) {
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
        let status = self.review(|| api.create(&params, &review)).await?.status.unwrap_or_default();
        let permitted = status.allowed && status.denied != Some(true);
        remember(&self.permissions, asked, permitted, if permitted { ALLOWED_TTL } else { DENIED_TTL });
        Ok(permitted)
    }

    /// Sends a review, again after failures that may pass.
    async fn review<T, F>(&self, send: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        // The semaphore is never closed.
        let _permit = self.reviews.acquire().await;
        let deadline = Instant::now() + REVIEW_TIMEOUT;
        let mut pause = FIRST_PAUSE;
        for _ in 1..ATTEMPTS {
            match send().await {
                Err(error) if may_pass(&error) && Instant::now() + pause < deadline => sleep(pause).await,
                done => return done,
            }
            pause = pause.mul_f64(1.5);
        }
        send().await
    }
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

/// Results with the time until which they count.
#[derive(Debug)]
struct Remembered<K, V>(HashMap<K, (V, Instant)>);

impl<K, V> Default for Remembered<K, V> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Hash + Eq, V: Clone> Remembered<K, V> {
    fn get(&self, key: &K, now: Instant) -> Option<V> {
        self.0.get(key).filter(|(_, until)| now < *until).map(|(value, _)| value.clone())
    }

    fn insert(&mut self, key: K, value: V, until: Instant, now: Instant) {
        if self.0.len() >= REMEMBERED_MAX {
            self.0.retain(|_, (_, until)| now < *until);
        }
        if self.0.len() >= REMEMBERED_MAX {
            // Someone tries many tokens. Those who ask again are asked about again.
            self.0.clear();
        }
        self.0.insert(key, (value, until));
    }
}

fn recall<K: Hash + Eq, V: Clone>(remembered: &Mutex<Remembered<K, V>>, key: &K) -> Option<V> {
    remembered.lock().unwrap_or_else(PoisonError::into_inner).get(key, Instant::now())
}

fn remember<K: Hash + Eq, V: Clone>(remembered: &Mutex<Remembered<K, V>>, key: K, value: V, ttl: Duration) {
    let now = Instant::now();
    remembered.lock().unwrap_or_else(PoisonError::into_inner).insert(key, value, now + ttl, now);
}

#[cfg(test)]
mod tests;

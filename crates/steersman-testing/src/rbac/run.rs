//! One run of an operator under its roles.

use std::collections::BTreeSet;
use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use steersman_apiserver::RecordedRequest;
use steersman_client::{Client, Error};
use steersman_manifests::operator::{Operator, WatchScope, roles};
use steersman_runtime::{Manager, Verb};
use tokio::time::{Instant, sleep};

use super::report;
use super::scenario::{Scenario, Steps};
use crate::Embedded;

/// How long the operator may be busy after a step.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// How often the operator is looked at, and how often in a row it has to be idle.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const LOOKS: u32 = 10;
/// How long requests are collected after one was forbidden.
const COLLECTED: Duration = Duration::from_millis(500);

/// A server that makes other rights necessary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Run {
    StreamingLists,
    PlainLists,
    OwnerReferences,
}

impl Run {
    pub(super) const ALL: [Self; 3] = [Self::StreamingLists, Self::PlainLists, Self::OwnerReferences];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::StreamingLists => "with streaming lists",
            Self::PlainLists => "without streaming lists",
            Self::OwnerReferences => "with OwnerReferencesPermissionEnforcement",
        }
    }

    fn server(self) -> Embedded {
        let server = Embedded::builder()
            .streaming_lists(self != Self::PlainLists)
            .owner_references_permission_enforcement(self == Self::OwnerReferences);
        server.start().with_rbac().with_request_record()
    }

    /// Runs the operator. Returns its requests, or the problems.
    pub(super) async fn play(
        self,
        setup: &impl Fn(&Manager) -> Result<(), String>,
        scenario: &Scenario,
    ) -> Result<Vec<RecordedRequest>, Vec<String>> {
        let one = |problem| vec![problem];
        let (_, operator) = scenario.model(setup).map_err(one)?;
        let server = self.server();
        server.install_crds(&scenario.crds).await.map_err(|error| vec![error.to_string()])?;
        grant(&server.client(), &operator, scenario).await.map_err(one)?;
        let account = format!("system:serviceaccount:{}:{}", operator.namespace, operator.name);
        let groups = ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{}", operator.namespace)];
        let manager = scenario.build(server.user(&account, groups), setup).map_err(one)?;

        let run = Running { server: &server, manager: &manager, account: &account };
        let mut outcome = Err(vec!["the manager stopped before the scenario ended".to_owned()]);
        let stopped = manager
            .start(async {
                outcome = tokio::select! {
                    biased;
                    problems = run.forbidden() => Err(problems),
                    done = run.steps(scenario, &operator) => done.map_err(one),
                };
            })
            .await;
        stopped.map_err(|error| vec![format!("the manager failed: {error}")])?;
        outcome?;
        let problems = run.problems();
        if !problems.is_empty() {
            return Err(problems);
        }
        let requests = run.requests();
        if !requests.iter().any(is_write) {
            return Err(vec![
                "the operator has written nothing, so the run proves nothing: use samples that a controller watches, \
                 or Scenario::new"
                    .to_owned(),
            ]);
        }
        Ok(requests)
    }
}

/// Whether the operator changed something of its own accord: Events and Leases are not why it
/// exists.
fn is_write(request: &RecordedRequest) -> bool {
    let is_own = matches!(&*request.group, "events.k8s.io" | "coordination.k8s.io" | "authorization.k8s.io");
    let is_review = request.group == "authentication.k8s.io";
    Verb::parse(&request.verb).is_some_and(Verb::is_write) && !request.admission && !is_own && !is_review
}

/// Creates the namespaces, the ServiceAccount and its roles.
async fn grant(client: &Client, operator: &Operator, scenario: &Scenario) -> Result<(), String> {
    let mut namespaces = BTreeSet::from([operator.namespace.as_str()]);
    let scopes = operator.access.iter().filter_map(|access| access.scope.as_ref());
    for scope in scopes.chain([&operator.scope]) {
        if let WatchScope::Namespaces(names) = scope {
            namespaces.extend(names.iter().map(String::as_str));
        }
    }
    namespaces.extend(operator.lease_namespace.as_deref());
    if let Steps::Samples(samples) = &scenario.steps {
        namespaces.extend(samples.iter().filter_map(|sample| sample["metadata"]["namespace"].as_str()));
    }
    for name in namespaces {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        post(client, "/api/v1/namespaces", &namespace).await?;
    }
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": operator.name}});
    post(client, &format!("/api/v1/namespaces/{}/serviceaccounts", operator.namespace), &account).await?;
    for role in roles(operator) {
        let plural = format!("{}s", role["kind"].as_str().unwrap_or_default().to_lowercase());
        let place = match role["metadata"]["namespace"].as_str() {
            Some(namespace) => format!("namespaces/{namespace}/{plural}"),
            None => plural,
        };
        post(client, &format!("/apis/rbac.authorization.k8s.io/v1/{place}"), &role).await?;
    }
    Ok(())
}

/// Creates an object, unless it exists.
async fn post(client: &Client, path: &str, object: &Value) -> Result<(), String> {
    match client.rest().post().abs_path(path).json(object).send().await {
        Err(Error::Api { status, .. }) if status.code == StatusCode::CONFLICT => Ok(()),
        sent => sent.map(drop).map_err(|error| error.to_string()),
    }
}

/// An operator that runs.
pub(super) struct Running<'a> {
    server: &'a Embedded,
    manager: &'a Manager,
    account: &'a str,
}

impl Running<'_> {
    /// The requests of the operator so far.
    fn requests(&self) -> Vec<RecordedRequest> {
        let all = self.server.requests().requests;
        all.into_iter().filter(|request| request.user == self.account).collect()
    }

    /// A line for each request that was forbidden. One to several objects is one.
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for request in self.requests().iter().filter(|request| !request.allowed) {
            let problem = report::forbidden(self.manager, request);
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        problems
    }

    /// Waits until a request is forbidden.
    async fn forbidden(&self) -> Vec<String> {
        while self.problems().is_empty() {
            sleep(LOOK_EVERY).await;
        }
        sleep(COLLECTED).await;
        self.problems()
    }

    async fn steps(&self, scenario: &Scenario, operator: &Operator) -> Result<(), String> {
        let deadline = Instant::now() + IDLE_MAX;
        while !self.manager.is_ready() {
            if Instant::now() >= deadline {
                let status: Vec<_> = self.manager.status().iter().map(ToString::to_string).collect();
                return Err(format!("the caches have not synced within {IDLE_MAX:?}: {}", status.join("; ")));
            }
            sleep(LOOK_EVERY).await;
        }
        self.idle("the start").await?;
        let client = self.server.client();
        match &scenario.steps {
            Steps::Script(script) => script(client).await,
            Steps::Samples(samples) => self.play_samples(&client, operator, samples).await?,
        }
        self.idle("the scenario").await
    }

    /// Waits until the operator is idle, several times in a row.
    pub(super) async fn idle(&self, after: &str) -> Result<(), String> {
        let deadline = Instant::now() + IDLE_MAX;
        let mut looks = 0;
        while looks < LOOKS {
            if Instant::now() >= deadline {
                return Err(format!("the operator was not idle within {IDLE_MAX:?} after {after}"));
            }
            looks = if self.manager.is_idle() { looks + 1 } else { 0 };
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    }
}

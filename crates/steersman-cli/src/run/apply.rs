//! Server-side apply of CRDs and samples.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::{Value, json};
use steersman_client::{Client, Error, GroupVersionKind, RestClient, RestRequest};
use tokio::time::{Instant, sleep};

use super::documents::{Document, documents};

const FIELD_MANAGER: &str = "steersman-run";
/// The limit of each request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a server may take to serve the resources of a CRD.
const SERVED_DEADLINE: Duration = Duration::from_secs(30);
const INTERVAL: Duration = Duration::from_millis(50);

/// Applies objects, and remembers what it has applied.
pub(super) struct Applier {
    client: Client,
    /// The generation of the CRDs after the last apply, with their uid, by name.
    crds: HashMap<String, Value>,
    /// The samples as they were applied. What the user changes on the server stays until the file
    /// changes.
    samples: HashMap<String, String>,
}

/// What happened to an object.
pub(super) type Applied = Result<String, String>;

impl Applier {
    pub(super) fn new(client: &Client) -> Self {
        Self { client: client.clone().with_timeout(REQUEST_TIMEOUT), crds: HashMap::new(), samples: HashMap::new() }
    }

    /// Applies the CRDs that an operator has printed, and waits until they are served. Returns the
    /// names of those that have changed.
    pub(super) async fn crds(&mut self, yaml: &str) -> Result<Vec<String>> {
        let mut changed = Vec::new();
        let mut applied = Vec::new();
        for document in documents("the output of the subcommand crd", yaml) {
            let document = document.map_err(|problem| anyhow!(problem))?;
            ensure!(
                document.kind.kind == "CustomResourceDefinition" && document.kind.group == "apiextensions.k8s.io",
                "{}: {} is no CustomResourceDefinition",
                document.place,
                document.object()
            );
            let crds = self.client.rest_of(&document.kind.group, &document.kind.version);
            let crds = CrdClient(crds);
            let found = crds.apply(&document).await.with_context(|| format!("cannot apply {}", document.object()))?;
            // The server writes conditions after each change, so the version changes, too.
            let generation = json!([found["metadata"]["uid"], found["metadata"]["generation"]]);
            if self.crds.insert(document.name.clone(), generation.clone()) != Some(generation) {
                changed.push(document.name.clone());
            }
            applied.push((crds, document.name));
        }
        for (crds, name) in applied {
            self.wait_until_served(&crds, &name).await?;
        }
        Ok(changed)
    }

    /// Waits until a CRD is established and discovery shows its kinds. A real server needs a moment
    /// for both.
    async fn wait_until_served(&self, crds: &CrdClient, name: &str) -> Result<()> {
        let deadline = Instant::now() + SERVED_DEADLINE;
        loop {
            let found = crds.get(name).await.with_context(|| format!("cannot read the CRD {name}"))?;
            let waits_for = match missing(&found) {
                None => self.unserved(&found).await?,
                Some(missing) => Some(missing),
            };
            let Some(waits_for) = waits_for else { return Ok(()) };
            if Instant::now() >= deadline {
                bail!("the CRD {name} is not served after {} s: {waits_for}", SERVED_DEADLINE.as_secs());
            }
            sleep(INTERVAL).await;
        }
    }

    /// The first version of a CRD that discovery does not show yet.
    async fn unserved(&self, crd: &Value) -> Result<Option<String>, Error> {
        let spec = &crd["spec"];
        let mapper = self.client.mapper();
        for version in spec["versions"].as_array().into_iter().flatten().filter(|version| version["served"] == true) {
            let kind =
                GroupVersionKind::gvk(text(&spec["group"]), text(&version["name"]), text(&spec["names"]["kind"]));
            match mapper.kind(&kind).await {
                Ok(_) => {}
                Err(Error::Mapping(problem)) if problem.is_no_match() => return Ok(Some(problem.to_string())),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Applies the samples whose text has changed. An object may need another one, such as its
    /// namespace, so those that fail are tried again after the others.
    pub(super) async fn samples(&mut self, samples: Vec<Result<Document, String>>) -> Vec<Applied> {
        let mut results = Vec::new();
        let mut pending = Vec::new();
        for sample in samples {
            match sample {
                Ok(document) => pending.push(document),
                Err(problem) => results.push(Err(problem)),
            }
        }
        let keys: Vec<String> = pending.iter().map(key).collect();
        self.samples.retain(|known, _| keys.contains(known));
        pending.retain(|document| self.samples.get(&key(document)) != Some(&document.text));
        loop {
            let (mut failed, tried) = (Vec::new(), pending.len());
            for document in pending {
                match self.apply(&document).await {
                    Ok(object) => {
                        results.push(Ok(format!("applied {object} ({})", document.place)));
                        self.samples.insert(key(&document), document.text);
                    }
                    Err(problem) => failed.push((document, problem)),
                }
            }
            if failed.is_empty() || failed.len() == tried {
                results.extend(failed.into_iter().map(|(_, problem)| Err(problem)));
                return results;
            }
            pending = failed.into_iter().map(|(document, _)| document).collect();
        }
    }

    /// Applies a sample. Returns its kind and key.
    async fn apply(&self, document: &Document) -> Result<String, String> {
        let problem = |object: &str, error: Error| format!("cannot apply {object} ({}): {error}", document.place);
        let found = self.client.mapper().kind(&document.kind).await;
        let found = found.map_err(|error| problem(&document.object(), error))?;
        let resource = &found.resource;
        let mut request = self.client.rest_of(&resource.group, &resource.version).patch().resource(&resource.plural);
        let mut object = document.object();
        if found.namespaced {
            let namespace = document.namespace.as_deref().unwrap_or(self.client.default_namespace());
            request = request.namespace(namespace);
            object = format!("{} {namespace}/{}", document.kind.kind, document.name);
        }
        match send(request, document).await {
            Ok(_) => Ok(object),
            Err(error) => Err(problem(&object, error)),
        }
    }
}

/// The CustomResourceDefinitions in one version of their group.
struct CrdClient(RestClient);

impl CrdClient {
    async fn apply(&self, document: &Document) -> Result<Value, Error> {
        send(self.0.patch().resource("customresourcedefinitions"), document).await
    }

    async fn get(&self, name: &str) -> Result<Value, Error> {
        self.0.get().resource("customresourcedefinitions").name(name).send_for().await
    }
}

async fn send(request: RestRequest, document: &Document) -> Result<Value, Error> {
    let request = request.name(&document.name).param("fieldManager", FIELD_MANAGER).param("force", "true");
    // A misspelled field is an error, as with kubectl.
    let request = request.param("fieldValidation", "Strict");
    request.body("application/apply-patch+yaml", document.text.clone()).send_for().await
}

fn key(document: &Document) -> String {
    let GroupVersionKind { group, version, kind } = &document.kind;
    format!("{group}/{version} {kind} {} {}", document.namespace.as_deref().unwrap_or_default(), document.name)
}

/// What a CRD lacks to be established.
fn missing(crd: &Value) -> Option<String> {
    let conditions = crd["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    if conditions.iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True") {
        return None;
    }
    let refused = conditions.iter().find(|condition| condition["status"] == "False");
    let message = refused.and_then(|condition| condition["message"].as_str());
    Some(message.unwrap_or("the condition Established is missing").to_owned())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use steersman_client::DynamicObject;
    use steersman_testing::Embedded;

    use super::*;

    const CRD: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}
"#;

    fn sample(namespace: &str, size: &str) -> String {
        format!(
            "apiVersion: example.com/v1\nkind: Widget\nmetadata: {{name: a, namespace: {namespace}}}\nspec: {{size: \
             {size}}}\n"
        )
    }

    async fn size(client: &Client, namespace: &str) -> Option<Value> {
        let kind = GroupVersionKind::gvk("example.com", "v1", "Widget");
        let widgets = client.dynamic_kind(&kind, Some(namespace)).await.unwrap();
        let widget: Option<DynamicObject> = widgets.get_opt("a").await.unwrap();
        widget.map(|widget| widget.data["spec"]["size"].clone())
    }

    #[tokio::test]
    async fn crds_are_reported_when_they_have_changed() {
        let mut applier = Applier::new(&Embedded::start().client());
        assert_eq!(applier.crds(CRD).await.unwrap(), ["widgets.example.com"]);
        assert_eq!(applier.crds(CRD).await.unwrap(), [""; 0]);
        let changed = CRD.replace("type: integer", "type: number");
        assert_eq!(applier.crds(&changed).await.unwrap(), ["widgets.example.com"]);
        let error =
            format!("{:#}", applier.crds(&CRD.replace("type: integer", "type: number, x: 1")).await.unwrap_err());
        assert!(error.starts_with("cannot apply CustomResourceDefinition widgets.example.com: "), "{error}");
        let error = applier.crds(&sample("default", "1")).await.unwrap_err().to_string();
        assert!(error.contains("Widget default/a is no CustomResourceDefinition"), "{error}");
    }

    #[tokio::test]
    async fn samples_are_applied_again_only_after_their_text_has_changed() {
        let client = Embedded::start().client();
        let mut applier = Applier::new(&client);
        applier.crds(CRD).await.unwrap();
        let one = || documents("samples/a.yaml", &sample("default", "1"));
        assert_eq!(applier.samples(one()).await, [Ok("applied Widget default/a (samples/a.yaml)".to_owned())]);
        // The user deletes it.
        let kind = GroupVersionKind::gvk("example.com", "v1", "Widget");
        let widgets = client.dynamic_kind(&kind, Some("default")).await.unwrap();
        widgets.delete("a", &steersman_client::DeleteParams::default()).await.unwrap();
        assert_eq!(applier.samples(one()).await, []);
        assert_eq!(size(&client, "default").await, None);
        assert_eq!(applier.samples(documents("samples/a.yaml", &sample("default", "2"))).await.len(), 1);
        assert_eq!(size(&client, "default").await, Some(2.into()));
        // A sample that comes back is applied.
        assert_eq!(applier.samples(Vec::new()).await, []);
        assert_eq!(applier.samples(one()).await.len(), 1);
        assert_eq!(size(&client, "default").await, Some(1.into()));
    }

    #[tokio::test]
    async fn a_sample_whose_namespace_comes_later_is_applied() {
        let client = Embedded::start().client();
        let mut applier = Applier::new(&client);
        applier.crds(CRD).await.unwrap();
        let text = format!("{}---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: later}}\n", sample("later", "1"));
        let results = applier.samples(documents("a.yaml", &text)).await;
        let expected = ["applied Namespace later (a.yaml, document 2)", "applied Widget later/a (a.yaml, document 1)"];
        assert_eq!(results, expected.map(|text| Ok(text.to_owned())));
    }

    #[tokio::test]
    async fn a_sample_that_is_refused_is_named_and_tried_again() {
        let client = Embedded::start().client();
        let mut applier = Applier::new(&client);
        applier.crds(CRD).await.unwrap();
        let wrong = || {
            let mut samples = documents("a.yaml", &sample("default", "many"));
            samples.extend(documents("b.yaml", "kind: Nothing\n"));
            samples
        };
        for _ in 0..2 {
            let results = applier.samples(wrong()).await;
            let [Err(invalid), Err(refused)] = &*results else { panic!("{results:?}") };
            assert_eq!(invalid, "b.yaml: the object has no apiVersion");
            assert!(refused.starts_with("cannot apply Widget default/a (a.yaml): ") && refused.contains("spec.size"));
        }
    }
}

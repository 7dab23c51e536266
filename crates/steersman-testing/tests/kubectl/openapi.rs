//! What kubectl does by the OpenAPI documents: explain, validate, apply, diff.

use super::{DEPLOYMENT, Server};

/// Widgets with a described field and one that takes anything.
const DEFINITION: &str = "apiVersion: apiextensions.k8s.io/v1
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
    schema:
      openAPIV3Schema:
        type: object
        description: A thing that is made.
        properties:
          spec:
            type: object
            properties:
              size: {type: integer, description: How large it is.}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
";

const WIDGET: &str = "apiVersion: example.com/v1
kind: Widget
metadata: {name: one}
spec:
  size: 1
  free: {anything: goes}
";

impl Server {
    fn file(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_are_explained() {
    let server = Server::start().await;
    let containers = server.kubectl("explain pod.spec.containers");
    assert!(containers.contains("FIELD: containers <[]Container>"), "{containers}");
    assert!(containers.contains("List of containers belonging to the pod."), "{containers}");
    assert!(containers.contains("  imagePullPolicy\t<string>\n  enum: Always, IfNotPresent, Never"), "{containers}");
    // Version 2, which kubectl reads in protobuf.
    let of_v2 = server.kubectl("explain deployment.spec --recursive --output=plaintext-openapiv2");
    assert!(of_v2.contains("   strategy\t<Object>\n"), "{of_v2}");

    server.file("definition.yaml", DEFINITION);
    server.kubectl("create -f definition.yaml");
    let widgets = server.kubectl("explain widgets --recursive");
    assert!(widgets.contains("GROUP:      example.com\nKIND:       Widget\nVERSION:    v1\n"), "{widgets}");
    assert!(widgets.contains("A thing that is made."), "{widgets}");
    assert!(widgets.contains("  spec\t<Object>\n    free\t<Object>\n    size\t<integer>\n"), "{widgets}");
    let size = server.kubectl("explain widgets.spec.size");
    assert!(size.contains("FIELD: size <integer>") && size.contains("How large it is."), "{size}");
    server.kubectl("delete -f definition.yaml");
    let gone = server.refused("explain widgets");
    assert!(gone.contains("widgets"), "{gone}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_validated() {
    let server = Server::start().await;
    server.file("unknown.yaml", &DEPLOYMENT.replace("replicas: 1", "replicas: 1\n  shoes: 2"));
    let refusal = server.refused("create -f unknown.yaml");
    assert!(refusal.contains("strict decoding error: unknown field \"spec.shoes\""), "{refusal}");
    let refusal = server.refused("apply -f unknown.yaml --validate=strict");
    assert!(refusal.contains("unknown field \"spec.shoes\""), "{refusal}");
    let warned = server.run("create -f unknown.yaml --validate=warn");
    assert!(warned.status.success());
    assert_eq!(String::from_utf8_lossy(&warned.stderr), "Warning: unknown field \"spec.shoes\"\n");

    server.file("definition.yaml", DEFINITION);
    server.kubectl("create -f definition.yaml");
    server.file("widget.yaml", &WIDGET.replace("size: 1", "size: 1\n  weight: 2"));
    let refusal = server.refused("create -f widget.yaml");
    assert!(refusal.contains("unknown field \"spec.weight\""), "{refusal}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_applied_and_compared() {
    let server = Server::start().await;
    server.file("definition.yaml", DEFINITION);
    assert!(server.kubectl("apply -f definition.yaml").ends_with("widgets.example.com created\n"));
    assert_eq!(server.kubectl("apply -f deployment.yaml"), "deployment.apps/web created\n");
    assert_eq!(server.kubectl("apply -f deployment.yaml"), "deployment.apps/web unchanged\n");
    // A strategic merge patch, by the merge keys of the OpenAPI document.
    server.file("deployment.yaml", &DEPLOYMENT.replace("{name: c, image: i}", "{name: c, image: other}"));
    let difference = server.run("diff -f deployment.yaml");
    assert_eq!(difference.status.code(), Some(1));
    let difference = String::from_utf8_lossy(&difference.stdout).into_owned();
    for line in ["-      - image: i", "+      - image: other"] {
        assert!(difference.contains(&format!("\n{line}\n")), "{difference}");
    }
    assert_eq!(server.kubectl("apply -f deployment.yaml"), "deployment.apps/web configured\n");
    assert_eq!(server.deployment("/spec/template/spec/containers/0/image"), "other");
    server.file("widget.yaml", WIDGET);
    assert_eq!(server.run("diff -f widget.yaml").status.code(), Some(1), "it is not there yet");
    assert_eq!(server.kubectl("apply -f widget.yaml"), "widget.example.com/one created\n");
    assert_eq!(server.kubectl("diff -f widget.yaml"), "");
    assert_eq!(server.kubectl("apply -f widget.yaml"), "widget.example.com/one unchanged\n");

    server.file("widget.yaml", &WIDGET.replace("size: 1", "size: 2").replace("  free: {anything: goes}\n", ""));
    let difference = server.run("diff -f widget.yaml");
    assert_eq!(difference.status.code(), Some(1));
    let difference = String::from_utf8_lossy(&difference.stdout).into_owned();
    for line in ["-  free:", "-    anything: goes", "-  size: 1", "+  size: 2"] {
        assert!(difference.contains(&format!("\n{line}\n")), "{difference}");
    }
    assert_eq!(server.kubectl("apply -f widget.yaml"), "widget.example.com/one configured\n");
    assert_eq!(server.kubectl("get widget one -o jsonpath={.spec}"), "{\"size\":2}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_compared_by_the_server() {
    let server = Server::start().await;
    let diff = "diff --server-side -f deployment.yaml";
    assert_eq!(server.run(diff).status.code(), Some(1), "it is not there yet");
    server.kubectl("apply --server-side -f deployment.yaml");
    assert_eq!(server.kubectl(diff), "");

    server.file("deployment.yaml", &DEPLOYMENT.replace("replicas: 1", "replicas: 2"));
    let difference = server.run(diff);
    assert_eq!(difference.status.code(), Some(1));
    let difference = String::from_utf8_lossy(&difference.stdout).into_owned();
    assert!(difference.contains("\n-  replicas: 1\n+  replicas: 2\n"), "{difference}");
    assert_eq!(server.deployment("/spec/replicas"), 1, "a comparison writes nothing");

    server.kubectl("scale deployment web --replicas=3");
    let conflict = server.run(diff);
    assert!(conflict.status.code().is_some_and(|code| code > 1), "a conflict is no difference: {conflict:?}");
    assert!(String::from_utf8_lossy(&conflict.stderr).contains(".spec.replicas"), "{conflict:?}");
    let forced = server.run(&format!("{diff} --force-conflicts"));
    assert_eq!(forced.status.code(), Some(1));
    let forced = String::from_utf8_lossy(&forced.stdout).into_owned();
    assert!(forced.contains("\n-  replicas: 3\n+  replicas: 2\n"), "{forced}");
    server.stop().await;
}

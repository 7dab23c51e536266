//! An operator with something of everything.

use serde_json::json;
use steersman_manifests::crd::crd;
use steersman_manifests::operator::{Access, Operator, RuleResource, Verb};

use crate::torture::Torture;

pub(crate) fn operator() -> Operator {
    let torture = |name: &str| RuleResource::namespaced("torture.example.com", name);
    let deployments = || RuleResource::namespaced("apps", "deployments");
    let mut operator = Operator::new("demo", "registry:5000/demo:1.0");
    operator.args = vec!["--leader-elect".to_owned(), "--pattern={{ not a template }}".to_owned(), "yes".to_owned()];
    operator.env = vec![
        json!({"name": "NUMBER", "value": "0x1F"}),
        json!({"name": "EMPTY", "value": ""}),
        json!({"name": "BRACES", "value": "{{ not a template }}"}),
    ];
    operator.access = vec![
        Access::new(torture("tortures"), Verb::READ, "the controller watches them"),
        Access::new(torture("widgets"), Verb::READ, "the controller watches them"),
        Access::new(torture("tortures/status"), [Verb::Update], "the controller reports the state"),
        Access::new(deployments(), Verb::READ, "owned objects are watched"),
        Access::new(deployments(), [Verb::Create, Verb::Patch], "each Torture owns one"),
        Access::new(RuleResource::cluster("", "namespaces"), [Verb::Get], "its uid names the cluster")
            .named(["kube-system"]),
    ];
    operator.crds = vec![crd::<Torture>().expect("the type has a valid schema")];
    operator.samples = vec![json!({
        "apiVersion": "torture.example.com/v1", "kind": "Torture", "metadata": {"name": "sample"},
        "spec": {"name": "sample"},
    })];
    operator
}

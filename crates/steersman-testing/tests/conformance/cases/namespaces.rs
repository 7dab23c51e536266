//! What the controllers do: the protection of claims in use, and the end of namespaces.

use serde_json::json;

use super::{MAPS, map, maps, pod, pods, with};
use crate::conformance::case::{Case, Needs, case};

pub(crate) fn cases() -> Vec<Case> {
    [claims(), namespaces()].into_iter().flatten().collect()
}

/// Claims of storage are deleted when no Pod uses them.
fn claims() -> Vec<Case> {
    let claims = |rest: &str| format!("/api/v1/namespaces/${{ns}}/persistentvolumeclaims{rest}");
    let claim = json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "none",
        "resources": {"requests": {"storage": "1Gi"}}}});
    let claimed = |name| case(name).needs(Needs::Controllers).post(claims(""), claim.clone()).expect(201);
    let volumes = json!({"spec": {"nodeName": "n", "volumes": [{"name": "v",
        "persistentVolumeClaim": {"claimName": "c"}}]}});
    vec![
        claimed("finalizer-of-a-claim-goes")
            .delete(claims("/c"))
            .expect(200)
            .ignore("")
            .until(claims("/c"))
            .expect(404),
        claimed("finalizer-of-a-claim-waits-for-the-pod")
            .post(pods(""), with(pod("p"), volumes))
            .expect(201)
            .delete(claims("/c"))
            .expect(200)
            .ignore("")
            .get(claims("/c"))
            .expect(200)
            .ignore("")
            .delete(pods("/p?gracePeriodSeconds=0"))
            .until(claims("/c"))
            .expect(404),
        claimed("namespace-with-a-claim-goes")
            .delete("/api/v1/namespaces/${ns}")
            .until("/api/v1/namespaces/${ns}")
            .expect(404),
        case("finalizer-of-a-volume-goes")
            .needs(Needs::Controllers)
            .post(
                "/api/v1/persistentvolumes",
                json!({"metadata": {"name": "${id}"}, "spec": {"capacity": {"storage": "1Gi"},
                    "accessModes": ["ReadWriteOnce"], "storageClassName": "${id}", "hostPath": {"path": "/x"}}}),
            )
            .expect(201)
            .delete("/api/v1/persistentvolumes/${id}")
            .expect(200)
            .ignore("")
            .until("/api/v1/persistentvolumes/${id}")
            .expect(404),
    ]
}

fn namespaces() -> Vec<Case> {
    let namespace = |name| case(name).needs(Needs::Controllers).post(MAPS, map("one")).expect(201);
    vec![
        namespace("namespace-deletion-takes-the-content-along")
            .delete("/api/v1/namespaces/${ns}")
            .expect(200)
            .until("/api/v1/namespaces/${ns}")
            .expect(404)
            .get(maps("/one"))
            .expect(404)
            .post(MAPS, map("two"))
            .expect(404),
        namespace("namespace-deletion-waits-for-finalizers")
            .merge(maps("/one"), json!({"metadata": {"finalizers": ["example.com/f"]}}))
            .delete("/api/v1/namespaces/${ns}")
            .until(maps("/one"))
            .see("/metadata/deletionGracePeriodSeconds", 0)
            .get("/api/v1/namespaces/${ns}")
            .expect(200)
            .ignore("/status/conditions")
            .ignore("/metadata/managedFields")
            .ignore("/metadata/resourceVersion")
            .merge(maps("/one"), json!({"metadata": {"finalizers": null}}))
            .until("/api/v1/namespaces/${ns}")
            .expect(404),
        namespace("namespace-with-the-same-name-begins-empty")
            .delete("/api/v1/namespaces/${ns}")
            .until("/api/v1/namespaces/${ns}")
            .expect(404)
            .post("/api/v1/namespaces", json!({"metadata": {"name": "${ns}"}}))
            .expect(201)
            .get(maps("/one"))
            .expect(404),
        namespace("namespace-says-what-it-waits-for")
            .merge(maps("/one"), json!({"metadata": {"finalizers": ["example.com/f"]}}))
            .delete("/api/v1/namespaces/${ns}")
            .until("/api/v1/namespaces/${ns}")
            .see("/status/conditions/4/status", "True")
            .see("/status/conditions/3/reason", "SomeResourcesRemain")
            .merge(maps("/one"), json!({"metadata": {"finalizers": null}}))
            .expect(200),
        namespace("namespace-pods-go-first")
            .post(pods(""), with(pod("p"), json!({"metadata": {"finalizers": ["example.com/f"]}})))
            .expect(201)
            .delete("/api/v1/namespaces/${ns}")
            .until("/api/v1/namespaces/${ns}")
            .see("/status/conditions/4/status", "False")
            .get(maps("/one"))
            .expect(200)
            .absent("/metadata/deletionTimestamp")
            .merge(pods("/p"), json!({"metadata": {"finalizers": null}}))
            .until(maps("/one"))
            .expect(404)
            .until("/api/v1/namespaces/${ns}")
            .expect(404),
        namespace("namespace-watch-sees-it-go")
            .get("/api/v1/namespaces/${ns}")
            .named("ns")
            .watch("w", "/api/v1/namespaces?watch=true&resourceVersion=${rv:ns}&fieldSelector=metadata.name%3D${ns}")
            .delete("/api/v1/namespaces/${ns}")
            .events("w", "MODIFIED ${ns}, MODIFIED ${ns}, DELETED ${ns}"),
        namespace("namespace-with-a-finalizer-of-its-own")
            .merge("/api/v1/namespaces/${ns}", json!({"metadata": {"finalizers": ["example.com/f"]}}))
            .delete("/api/v1/namespaces/${ns}")
            .expect(200)
            .until("/api/v1/namespaces/${ns}")
            .absent("/spec/finalizers")
            .ignore("/status/conditions")
            .ignore("/metadata/managedFields")
            .ignore("/metadata/resourceVersion")
            .get(maps("/one"))
            .expect(404)
            .merge("/api/v1/namespaces/${ns}", json!({"metadata": {"finalizers": null}}))
            .ignore("/status/conditions")
            .ignore("/metadata/managedFields")
            .until("/api/v1/namespaces/${ns}")
            .expect(404),
        namespace("namespace-finalize-by-hand")
            .merge(maps("/one"), json!({"metadata": {"finalizers": ["example.com/f"]}}))
            .delete("/api/v1/namespaces/${ns}")
            .put(
                "/api/v1/namespaces/${ns}/finalize",
                json!({"metadata": {"name": "${ns}"}, "spec": {"finalizers": []}}),
            )
            .expect(200)
            .ignore("/status/conditions")
            .ignore("/metadata/managedFields")
            .ignore("/metadata/resourceVersion")
            .until("/api/v1/namespaces/${ns}")
            .expect(404),
    ]
}

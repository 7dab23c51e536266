use serde_json::json;

use crate::conformance::case::{Case, case};

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// The user of a request, by credential and by impersonation.
pub(crate) fn cases() -> Vec<Case> {
    let review = |name| case(name).post(REVIEWS, json!({}));
    let as_user = |name, user: &str| review(name).header("impersonate-user", user).expect(201);
    vec![
        review("identity-of-the-admin")
            .expect(201)
            .see("/status/userInfo/username", "steersman-admin")
            .see("/status/userInfo/groups", json!(["system:masters", "system:authenticated"]))
            // By which certificate: only one of the servers has a socket.
            .ignore("/status/userInfo/extra"),
        as_user("identity-of-a-user", "jane").see("/status/userInfo/groups", json!(["system:authenticated"])),
        as_user("identity-with-everything", "jane")
            .header("impersonate-group", "developers")
            .header("impersonate-uid", "17")
            .header("impersonate-extra-scopes", "some")
            .header("impersonate-extra-acme.com%2Fproject", "wings")
            .header("impersonate-extra-bad%zz", "left")
            .see("/status/userInfo/uid", "17"),
        as_user("identity-of-anybody", "system:anonymous")
            // Or he might not ask.
            .header("impersonate-group", "system:masters")
            .see("/status/userInfo/groups", json!(["system:masters", "system:unauthenticated"])),
        as_user("identity-of-a-service-account", "system:serviceaccount:${ns}:builder"),
        as_user("identity-of-a-service-account-with-groups", "system:serviceaccount:default:builder")
            .header("impersonate-group", "developers"),
        as_user("identity-of-a-service-account-that-is-none", "system:serviceaccount:default:A"),
        // Of a node alone the real server makes one thing or another, by what it was asked to do
        // before.
        as_user("identity-of-a-node-with-more", "system:node:one").header("impersonate-uid", "17"),
        review("identity-of-a-group-alone").header("impersonate-group", "developers").expect(400),
        review("identity-of-a-uid-alone").header("impersonate-uid", "17").expect(400),
        review("identity-of-an-extra-alone").header("impersonate-extra-a", "b").expect(400),
        case("identity-and-a-status-that-was-sent")
            .post(REVIEWS, json!({"metadata": {"name": "x"}, "status": {"userInfo": {"username": "root"}}}))
            .header("impersonate-user", "jane")
            .expect(201)
            .absent("/metadata/name"),
        case("identity-with-an-unknown-field")
            .post(format!("{REVIEWS}?fieldValidation=Strict"), json!({"shoes": 1}))
            .expect(400),
        case("identity-cannot-be-listed").get(REVIEWS).expect(405),
    ]
}

//! The fuzz targets on a stable compiler: the same entry points, with seeds that are mutated at
//! random. The seed of the generator is fixed, so a failure is reproducible; `STEERSMAN_SOAK=1`
//! runs much longer.

#[path = "common/bounded.rs"]
mod bounded;
#[path = "../../../fuzz/src/targets.rs"]
mod targets;

use bounded::within_memory;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

/// The seeds of inputs.
const SEEDS: [&[u8]; 17] = [
    b"POST /api/v1/namespaces/default/configmaps application/json\n{\"metadata\":{\"name\":\"two\"},\"data\":{\"a\":\"b\"}}",
    b"PUT /api/v1/namespaces/default/configmaps/one application/json\n{\"metadata\":{\"name\":\"one\"},\"data\":null}",
    b"DELETE /api/v1/namespaces/default/configmaps/one application/json\n{\"propagationPolicy\":\"Foreground\"}",
    b"GET /api/v1/pods?watch=1&allowWatchBookmarks=1&resourceVersion=0&timeoutSeconds=9 x\n",
    b"GET /api/v1/configmaps?limit=1&labelSelector=a%20in%20(b)&fieldSelector=metadata.name%3Done x\n",
    b"POST /apis/apps/v1/namespaces/default/deployments application/json\n{\"metadata\":{\"generateName\":\"d-\"},\"spec\":{\"replicas\":1e2}}",
    b"POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions application/json\n{\"metadata\":{\"name\":\"w.e.io\"},\"spec\":{\"group\":\"e.io\",\"scope\":\"Cluster\",\"names\":{\"plural\":\"w\",\"kind\":\"W\"},\"versions\":[{\"name\":\"v1\",\"served\":true,\"storage\":true,\"schema\":{\"openAPIV3Schema\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"pattern\":\"^a+$\",\"default\":\"a\"}}}}}]}}",
    b"POST /api/v1/namespaces/default/services application/json\n{\"metadata\":{\"name\":\"s\"},\"spec\":{\"ports\":[{\"port\":80,\"targetPort\":\"http\"}],\"clusterIP\":\"None\"}}",
    b"[{\"op\":\"add\",\"path\":\"/data/a~1b\",\"value\":{\"x\":[1,2.5e3,null]}},{\"op\":\"remove\",\"path\":\"/data/k\"}]",
    b"[{\"op\":\"copy\",\"from\":\"/data\",\"path\":\"/data/x\"},{\"op\":\"move\",\"from\":\"/metadata/labels\",\"path\":\"/x/-\"}]",
    b"[{\"op\":\"test\",\"path\":\"/metadata/finalizers/0\",\"value\":\"a/b\"},{\"op\":\"replace\",\"path\":\"\",\"value\":{}}]",
    b"{\"metadata\":{\"labels\":{\"a\":null,\"b\":\"c\"},\"finalizers\":[]},\"data\":{\"k\":\"\\ud83d\\ude00\"}}",
    b"a in (b,c),!d,e!=f,g notin (h),i>5,app.io/x",
    b"metadata.name=a\\,b,spec.x!=\\=",
    b"{\"v\":\"meta.k8s.io/v1\",\"rv\":7,\"start\":\"default/one\\u0000\"}",
    b"a-b.c-d.example.com/Name_1",
    b"",
];
/// The pieces of mutations.
const WORDS: [&[u8]; 16] = [
    b"\0",
    b"\xff\xfe",
    b"\\ud800",
    b"%zz",
    b"%00",
    b"1e999999",
    b"-9223372036854775809",
    b"[[[[[[[[",
    b"{\"a\":",
    b"null",
    b"\"",
    b"/..",
    b"~",
    b"metadata",
    b"&watch=1",
    b"\n",
];

/// A small generator of numbers, the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }

    /// A seed with some mutations, or with a piece of another seed in it.
    fn input(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut input = seeds[self.below(seeds.len())].clone();
        for _ in 0..self.below(6) {
            let at = self.below(input.len() + 1);
            match self.below(6) {
                0 => drop(input.splice(at..at, WORDS[self.below(WORDS.len())].iter().copied())),
                1 => input.truncate(at),
                2 if at < input.len() => input[at] = self.below(256) as u8,
                3 if at < input.len() => drop(input.remove(at)),
                4 => {
                    let end = at + self.below(input.len() + 1 - at);
                    let piece = input[at..end].repeat(1 + self.below(40));
                    drop(input.splice(at..end, piece));
                }
                _ => {
                    let other = &seeds[self.below(seeds.len())];
                    let from = self.below(other.len() + 1);
                    drop(input.splice(at..at, other[from..].iter().copied()));
                }
            }
        }
        input
    }
}

fn feed(target: fn(&[u8]), few: usize) {
    feed_with(&SEEDS.map(<[u8]>::to_vec), target, few);
}

fn feed_with(seeds: &[Vec<u8>], target: fn(&[u8]), few: usize) {
    let rounds = if std::env::var_os("STEERSMAN_SOAK").is_some() { few * 200 } else { few };
    for seed in seeds {
        target(seed);
    }
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for round in 0..rounds {
        let input = random.input(seeds);
        let failed = std::panic::catch_unwind(|| target(&input)).is_err();
        assert!(!failed, "round {round}: {}", input.escape_ascii());
    }
}

#[test]
fn requests() {
    feed(targets::request, 3_000);
}

#[test]
fn json_patches() {
    feed(targets::json_patch, 1_500);
}

#[test]
fn merge_patches() {
    feed(targets::merge_patch, 1_500);
}

#[test]
fn strategic_merge_patches() {
    let seeds = [
        r#"{"spec":{"containers":[{"name":"b","image":"j"},{"$patch":"delete","name":"a"},{"name":"c","image":"k"}]}}"#,
        r#"{"spec":{"$setElementOrder/containers":[{"name":"b"},{"name":"a"}],"containers":[{"name":"a","env":[{"name":"C"}]}]}}"#,
        r#"{"spec":{"containers":[{"name":"a","$deleteFromPrimitiveList/args":["x"],"$setElementOrder/env":[{"name":"B"}]}]}}"#,
        r#"{"spec":{"volumes":[{"name":"v","$retainKeys":["name","secret"],"secret":{"secretName":"s"}},{"$patch":"replace"}]}}"#,
        r#"{"metadata":{"labels":{"$patch":"replace","a":null},"$setElementOrder/finalizers":["a/c","a/d"],"finalizers":["a/d"]}}"#,
        r#"{"status":{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":1}],"phase":7.5},"$patch":"merge"}"#,
    ];
    let seeds = seeds.map(|seed| seed.as_bytes().to_vec());
    within_memory("strategic_merge_patches", 600, || feed_with(&seeds, targets::strategic_merge, 1_000));
}

#[test]
fn applies() {
    let seeds = [
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one","labels":{"a":"c"},"finalizers":["a/b","c/d"]},"data":{"k":"w","x":null}}
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one"},"data":{"k":"x"}}"#,
        r#"{keyed: [{name: a, v: 1}, {name: b}], set: [x, y], list: [x], whole: {a: b}, any: {a: [1, {b: null}]}}
{keyed: [{name: b, v: 2}, {name: c}], set: [y, z], any: {a: {c: 1}}}
{keyed: [{name: c}], set: [], whole: {c: d}, any: []}"#,
        r#"[{"manager":"a","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:k":{}},"f:metadata":{"f:finalizers":{"v:\"a/b\"":{}}}}}]
[{}]
[{"manager":"m","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"k:{\"name\":1}":{},"i:0":{"x:y":{}}}}]"#,
        "{keyed: [{name: a}, {name: a}], set: [x, x]}\n{keyed: [{v: 1}], set: [[x]], any: text}\n",
    ];
    let seeds = seeds.map(|seed| seed.as_bytes().to_vec());
    within_memory("applies", 600, || feed_with(&seeds, targets::apply, 600));
}

#[test]
fn selectors() {
    feed(targets::selectors, 20_000);
}

#[test]
fn continue_tokens() {
    feed(targets::continue_token, 1_500);
}

#[test]
fn names() {
    feed(targets::names, 20_000);
}

#[test]
fn yaml_documents() {
    let seeds = [
        "apiVersion: v1\nkind: Pod\nmetadata: &m {name: a, labels: {a: b}}\nspec:\n  containers:\n  - &c {name: c, image: i}\n  - *c\n",
        "&a [x, &b [y, *c, &c {z: ~}], *b]\n",
        "<<: [{a: 1}, &d {b: 0x1F}]\n? k\n: |\n  text\n  more\n",
        "- !!str 5\n- !!binary YWJj\n- 2020-01-01\n- 'q'\n- \"e\\u0041\"\n- >-\n  f\n",
        "--- {a: [1, {b: &e [*e]}]}\n...\n%YAML 1.1\n",
    ];
    let seeds = seeds.map(|seed| seed.as_bytes().to_vec());
    within_memory("yaml_documents", 600, || feed_with(&seeds, targets::yaml, 600));
}

#[test]
fn schemas_with_objects() {
    let seeds = [
        r#"{"type":"object","properties":{"a":{"type":"string","pattern":"^a{1,3}$","default":"a"},"b":{"type":"array","items":{"type":"integer","minimum":0}}}}
{"a":"aaa","b":[1,2,-3],"c":{}}"#,
        r#"{"type":"array","items":{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]},"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["id"]}
[{"id":"a"},{"id":"b"},{"id":"a"},{}]"#,
        r#"{"type":"object","additionalProperties":{"type":"string","format":"date-time","maxLength":30},"maxProperties":5}
{"a":"2020-01-01T00:00:00Z","b":"c"}"#,
        r#"{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}],"oneOf":[{"enum":[1,"a"]}],"not":{"enum":[5]}}
7"#,
        r#"{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","labels":{"a":1}}}"#,
    ];
    let seeds = seeds.map(|seed| seed.as_bytes().to_vec());
    within_memory("schemas_with_objects", 600, || feed_with(&seeds, targets::schema, 600));
}

#[test]
fn protobuf_of_every_kind() {
    let count = targets::protobuf_kinds(&steersman_apiserver::ApiServer::new()).len();
    assert!((30..=256).contains(&count), "{count} kinds");
    // For each kind, an object with a name, and one with fields of any number in all encodings.
    let seeds: Vec<Vec<u8>> = (0..count)
        .flat_map(|kind| {
            let named = [&[kind as u8][..], b"\x0a\x03\x0a\x01a"].concat();
            let fields: Vec<u8> = (1_u8..15).flat_map(|number| [number << 3 | 2, 2, 0x0a, 0]).collect();
            let filled = [&named[..], &fields].concat();
            let repeated = [&named[..], b"\x12\x50", &b"\x12\x00\x0a\x00\x1a\x00\x22\x02\x0a\x00".repeat(8)].concat();
            [named, filled, repeated]
        })
        .collect();
    within_memory("protobuf_of_every_kind", 600, || feed_with(&seeds, targets::kinds, 600));
}

#[test]
fn accept_headers() {
    let seeds = [
        "application/json, application/yaml;q=0.9, */*;q=0.1",
        "application/json;as=Table;g=meta.k8s.io;v=v1,application/json",
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        "application/yaml;as=Table;g=meta.k8s.io;v=v1beta1",
        "application/vnd.kubernetes.protobuf;stream=watch,application/json;stream=watch",
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        "*;q=1e999,a/b;q=NaN,text/*;pretty=1;sv=1;;=;q",
    ];
    let seeds = seeds.map(|seed| seed.as_bytes().to_vec());
    within_memory("accept_headers", 600, || feed_with(&seeds, targets::accept, 600));
}

#[test]
fn certificates() {
    let certificate = |names: &[(DnType, &str)]| {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for (kind, name) in names {
            params.distinguished_name.push(kind.clone(), *name);
        }
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    };
    // Keys are random, so a failure is printed with its input: its round does not reproduce it.
    let long = "x".repeat(300);
    let (name, group) = (DnType::CommonName, DnType::OrganizationName);
    let seeds = [
        certificate(&[(name.clone(), "jane"), (group.clone(), "developers")]),
        certificate(&[(DnType::CountryName, "CH"), (group, &long), (name, "j\u{e4}ne")]),
        certificate(&[]),
    ];
    for seed in &seeds[..2] {
        assert!(steersman_apiserver::Identity::of_certificate(seed).is_some());
    }
    within_memory("certificates", 600, || feed_with(&seeds, targets::certificate, 20_000));
}

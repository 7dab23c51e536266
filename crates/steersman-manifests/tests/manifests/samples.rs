//! Values of the torture type.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroU32;

use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::torture::*;

/// A value with every field set.
pub(crate) fn full() -> TortureSpec {
    #[expect(deprecated, reason = "a deprecated field is in a schema, too")]
    TortureSpec {
        name: "demo".to_owned(),
        namespace: Some("default".to_owned()),
        pool_name: None,
        replicas: 2,
        counts: Counts {
            unsigned8: 255,
            signed16: -32768,
            unsigned32: u32::MAX,
            signed32: i32::MIN,
            unsigned64: i64::MAX as u64,
            size: 1 << 40,
            nonzero: NonZeroU32::MIN,
            bounded: 10,
            exclusive: 95,
            bytes: vec![0, 255],
        },
        addressing: Addressing::Static { cidr: "10.0.0.0/24".to_owned(), gateway: Some("10.0.0.1".to_owned()) },
        backend: Backend::Http { port: 80 },
        strict: vec![
            Strict::Short { text: "abc".to_owned() },
            Strict::Long { text: "abcd".to_owned(), note: Some("x".to_owned()) },
        ],
        action: Action::Move { to: "there".to_owned(), speed: 3 },
        adjacent: Adjacent::Two { left: 1, right: 2 },
        level: Level::High,
        levels: BTreeSet::from([Level::Low, Level::High]),
        optional_level: Some(Level::Low),
        null_level: None,
        rules: BTreeSet::from([pair("a", "b"), pair("a", "c")]),
        listeners: vec![listener("one", 1), listener("two", 2)],
        labels: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
        sparse: BTreeMap::from([("none".to_owned(), None), ("some".to_owned(), Some(1))]),
        holes: vec![None, Some("x".to_owned())],
        by_number: BTreeMap::from([(7, "seven".to_owned())]),
        any: json!([1, "two", {"three": null}]),
        objects: HashMap::from([("one".to_owned(), json!({"any": [1.5]}))]),
        raw: RawExtension(json!({"unknown": {"fields": "stay"}})),
        embedded: json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "inner"}, "data": {"key": "value"}}),
        address: "2001:db8::1".parse().expect("an address"),
        pair: (1, -1),
        fixed: [1, 2, 3],
        letter: 'ß',
        port: IntOrString::String("http".to_owned()),
        port_or_name: PortOrName::Port(8080),
        memory: serde_json::from_value(json!("64Mi")).expect("a quantity"),
        max_surge: Some(IntOrString::Int(1)),
        since: serde_json::from_value(json!("2026-01-31T10:00:00Z")).expect("a time"),
        selector: serde_json::from_value(json!({"matchLabels": {"app": "demo"}})).expect("a selector"),
        resources: serde_json::from_value(json!({"limits": {"cpu": "500m"}})).expect("resources"),
        template: Some(serde_json::from_value(template()).expect("a template")),
        ratio: 0.25,
        elapsed: std::time::Duration::new(3, 5),
        defaults: Defaults { retries: 3, name: Some("named".to_owned()), nested: Inner { value: -7, note: None } },
        common: Common { owner: "me".to_owned(), paused: true },
        choice: Choice::Pear { color: "green".to_owned() },
        old: Some("old".to_owned()),
    }
}

fn template() -> Value {
    json!({
        "metadata": {"labels": {"app": "demo"}},
        "spec": {"containers": [{
            "name": "main", "image": "demo:1", "ports": [{"containerPort": 80, "protocol": "TCP"}],
            "env": [{"name": "A", "value": "b"}], "resources": {"requests": {"memory": "64Mi"}},
        }]},
    })
}

fn pair(from: &str, to: &str) -> Pair {
    Pair { from: from.to_owned(), to: to.to_owned() }
}

fn listener(name: &str, port: u16) -> Listener {
    Listener { name: name.to_owned(), port }
}

fn counts() -> impl Strategy<Value = Counts> {
    let small = (any::<u8>(), any::<i16>(), any::<u32>(), any::<i32>(), 0..=i64::MAX as u64, 0..=i64::MAX as usize);
    let rest = (any::<NonZeroU32>(), 10..=20_u64, 1..20_i32, vec(any::<u8>(), 1..=4));
    (small, rest).prop_map(|(small, rest)| Counts {
        unsigned8: small.0,
        signed16: small.1,
        unsigned32: small.2,
        signed32: small.3,
        unsigned64: small.4,
        size: small.5,
        nonzero: rest.0,
        bounded: rest.1,
        exclusive: rest.2 * 5,
        bytes: rest.3,
    })
}

fn addressing() -> impl Strategy<Value = Addressing> {
    prop_oneof![
        (".*", option::of(".*")).prop_map(|(cidr, gateway)| Addressing::Static { cidr, gateway }),
        ("..+", option::of(".*"), any::<u8>()).prop_map(|(pool, gateway, size)| Addressing::Pool(PoolRef {
            pool,
            gateway,
            size
        })),
        Just(Addressing::None),
    ]
}

fn strict() -> impl Strategy<Value = Strict> {
    prop_oneof![
        "\\PC{0,3}".prop_map(|text| Strict::Short { text }),
        ("\\PC{4,9}", option::of(".*")).prop_map(|(text, note)| Strict::Long { text, note }),
    ]
}

fn backend() -> impl Strategy<Value = Backend> {
    prop_oneof![any::<u16>().prop_map(|port| Backend::Http { port }), vec(".*", 0..3).prop_map(Backend::Exec)]
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        (".*", any::<i32>()).prop_map(|(to, speed)| Action::Move { to, speed }),
        ".*".prop_map(|reason| Action::Stay { reason }),
    ]
}

fn adjacent() -> impl Strategy<Value = Adjacent> {
    prop_oneof![
        any::<i32>().prop_map(|left| Adjacent::One { left }),
        (any::<i32>(), any::<i32>()).prop_map(|(left, right)| Adjacent::Two { left, right }),
        Just(Adjacent::Empty),
    ]
}

fn level() -> impl Strategy<Value = Level> {
    prop_oneof![Just(Level::Low), Just(Level::High)]
}

fn choice() -> impl Strategy<Value = Choice> {
    prop_oneof![any::<i32>().prop_map(|weight| Choice::Apple { weight }), ".*".prop_map(|color| Choice::Pear { color }),]
}

fn port_or_name() -> impl Strategy<Value = PortOrName> {
    prop_oneof![(1..=u16::MAX).prop_map(PortOrName::Port), ".+".prop_map(PortOrName::Name)]
}

/// Any value of the type that its own restrictions allow.
pub(crate) fn specs() -> impl Strategy<Value = TortureSpec> {
    let enums = (addressing(), vec(strict(), 0..3), backend(), action(), adjacent(), choice(), port_or_name());
    let levels = (level(), btree_set(level(), 0..=2), option::of(level()), option::of(level()));
    let maps = (
        btree_map(".*", ".*", 0..3),
        btree_map("[a-z]+", option::of(any::<i32>()), 0..3),
        vec(option::of(".*"), 0..3),
        btree_map(any::<u16>(), ".*", 0..3),
        btree_set((".*", ".*").prop_map(|(from, to)| Pair { from, to }), 0..3),
    );
    let scalars =
        (any::<std::net::IpAddr>(), any::<char>(), any::<[u8; 3]>(), any::<u32>(), option::of(".*"), any::<i64>());
    (counts(), enums, levels, maps, scalars).prop_map(|(counts, enums, levels, maps, scalars)| {
        let nested = Inner { value: scalars.5, note: scalars.4.clone() };
        TortureSpec {
            counts,
            addressing: enums.0,
            strict: enums.1,
            backend: enums.2,
            action: enums.3,
            adjacent: enums.4,
            choice: enums.5,
            port_or_name: enums.6,
            level: levels.0,
            levels: levels.1,
            optional_level: levels.2,
            null_level: levels.3,
            labels: maps.0,
            sparse: maps.1,
            holes: maps.2,
            by_number: maps.3,
            rules: maps.4,
            address: scalars.0,
            letter: scalars.1,
            fixed: scalars.2,
            defaults: Defaults { retries: scalars.3, name: scalars.4, nested },
            template: None,
            ..full()
        }
    })
}

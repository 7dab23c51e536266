//! Synthetic Pods that look like those of a busy cluster: two containers, probes, volumes, status
//! and `managedFields`, about 6.3 KB of JSON each.
//!
//! The Pods are the same on every machine and in every run. Pod `i` is in one of 100 namespaces,
//! and 100 consecutive Pods have the same owner; `template.json` beside this file has the common
//! part of all Pods, with `${…}` where they differ.

use std::io::Write;
use std::ops::Range;

use crate::contestant::{PODS_PER_OWNER, owner_uid};

/// How much the Pods differ from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Shape {
    /// One template: Pods differ in names, addresses and little else
    Plain,
    /// 300 workloads, each with labels, annotations, environment and image of its own; every Pod
    /// holds a few texts that no other has. Figures for compression and for sharing equal parts are
    /// honest on this shape only
    Diverse,
}

/// How many different workloads the diverse shape has.
const WORKLOADS: u64 = 300;

/// Generates Pods of one shape.
#[derive(Debug)]
pub struct Pods {
    shape: Shape,
    template: Vec<Segment>,
}

/// A part of the template.
#[derive(Debug, PartialEq)]
enum Segment {
    Text(String),
    Field(Field),
}

/// Where Pods differ.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Field {
    Name,
    ReplicaSet,
    Namespace,
    Uid,
    OwnerUid,
    ResourceVersion,
    App,
    Labels,
    Annotations,
    Env,
    Image,
    Node,
    HostIp,
    PodIp,
    Serial,
}

impl Field {
    fn named(name: &str) -> Self {
        match name {
            "name" => Self::Name,
            "replica_set" => Self::ReplicaSet,
            "namespace" => Self::Namespace,
            "uid" => Self::Uid,
            "owner_uid" => Self::OwnerUid,
            "resource_version" => Self::ResourceVersion,
            "app" => Self::App,
            "labels" => Self::Labels,
            "annotations" => Self::Annotations,
            "env" => Self::Env,
            "image" => Self::Image,
            "node" => Self::Node,
            "host_ip" => Self::HostIp,
            "pod_ip" => Self::PodIp,
            "serial" => Self::Serial,
            _ => panic!("template.json has a field ${{{name}}} that nothing fills"),
        }
    }
}

impl Pods {
    /// Pods of this shape.
    pub fn new(shape: Shape) -> Self {
        Self { shape, template: segments(&compact(include_str!("pods/template.json"))) }
    }

    /// Appends Pod `index` to `out` as compact JSON and returns the range of its resource version
    /// (the digits alone) within `out`, so that a caller can send the Pod again with another
    /// version.
    pub fn write(&self, index: u64, resource_version: u64, out: &mut Vec<u8>) -> Range<usize> {
        let variety = match self.shape {
            Shape::Plain => Variety::none(index),
            Shape::Diverse => Variety::of(index),
        };
        let mut version = 0..0;
        for segment in &self.template {
            let start = out.len();
            match segment {
                Segment::Text(text) => out.extend_from_slice(text.as_bytes()),
                Segment::Field(field) => fill(*field, index, resource_version, &variety, out),
            }
            if *segment == Segment::Field(Field::ResourceVersion) {
                version = start..out.len();
            }
        }
        version
    }
}

fn fill(field: Field, i: u64, resource_version: u64, variety: &Variety, out: &mut Vec<u8>) {
    let app = i / PODS_PER_OWNER;
    let result = match field {
        Field::Name => write!(out, "web-{app}-6f7c9b8d54-{i:05x}"),
        Field::ReplicaSet => write!(out, "web-{app}-6f7c9b8d54"),
        Field::Namespace => write!(out, "team-{}", i % 100),
        // Multiplying by an odd number spreads the first digits and keeps them distinct.
        Field::Uid => write!(out, "{:08x}-5d1c-4b7e-9a30-{i:012x}", (i as u32).wrapping_mul(0x9E37_79B1)),
        Field::OwnerUid => write!(out, "{}", owner_uid(app)),
        Field::ResourceVersion => write!(out, "{resource_version}"),
        Field::App => write!(out, "web-{app}"),
        Field::Labels => write!(out, "{}", variety.labels),
        Field::Annotations => write!(out, "{}", variety.annotations),
        Field::Env => write!(out, "{}", variety.env),
        Field::Image => write!(out, "{}", variety.image),
        Field::Node => write!(out, "node-{:03}.zone-{}.example.com", i % 250, i % 3),
        Field::HostIp => write!(out, "10.0.0.{}", i % 250),
        Field::PodIp => write!(out, "10.{}.{}.{}", 64 + i / 65536 % 64, i / 256 % 256, i % 256),
        Field::Serial => write!(out, "{:08x}", i as u32),
    };
    result.expect("writing to memory does not fail");
}

/// The fields of a Pod beyond the template, as JSON that fits in there.
struct Variety {
    labels: String,
    annotations: String,
    env: String,
    image: String,
}

impl Variety {
    fn none(index: u64) -> Self {
        Self {
            labels: String::new(),
            annotations: String::new(),
            env: String::new(),
            image: format!("registry.example.com/apps/server:v1.{}.3", index % 50),
        }
    }

    fn of(index: u64) -> Self {
        let workload = &mut Random::seeded(index % WORKLOADS);
        let pod = &mut Random::seeded(WORKLOADS + index);
        let mut variety = Self::none(index);
        let image = workload.word(4..12);
        variety.image = format!("registry.example.com/{image}/server:v{}.{}", workload.below(9), workload.below(40));
        for _ in 0..2 + workload.below(4) {
            let (domain, key, value) = (workload.word(6..7), workload.word(8..9), workload.word(4..24));
            variety.labels += &format!(",\"{domain}.example.com/{key}\":\"{value}\"");
        }
        for _ in 0..workload.below(4) {
            let (domain, key, value) = (workload.word(7..8), workload.word(9..10), pod.word(10..70));
            variety.annotations += &format!(",\"{domain}.io/{key}\":\"{value}\"");
        }
        for _ in 0..3 + workload.below(9) {
            let (name, value) = (workload.word(5..20), workload.word(3..43));
            variety.env += &format!("{{\"name\":\"{name}\",\"value\":\"{value}\"}},");
        }
        variety.env += &format!("{{\"name\":\"POD_TOKEN\",\"value\":\"{}\"}},", pod.word(32..33));
        variety
    }
}

/// Pseudo-random numbers, the same every time (splitmix64).
struct Random(u64);

impl Random {
    fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }

    /// A word of letters and digits whose length is in `length`.
    fn word(&mut self, length: Range<u64>) -> String {
        const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";
        let length = length.start + self.below(length.end - length.start);
        (0..length).map(|_| char::from(LETTERS[self.below(LETTERS.len() as u64) as usize])).collect()
    }
}

/// The JSON text without the whitespace between its tokens.
fn compact(json: &str) -> String {
    let (mut in_string, mut escaped) = (false, false);
    json.chars()
        .filter(|&c| {
            let keep = in_string || !c.is_whitespace();
            if c == '"' && !escaped {
                in_string = !in_string;
            }
            escaped = in_string && c == '\\' && !escaped;
            keep
        })
        .collect()
}

/// Splits a text at its `${…}`.
fn segments(text: &str) -> Vec<Segment> {
    let mut segments = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (name, after) = after.split_once('}').expect("a field in template.json is closed");
        segments.push(Segment::Text(before.to_owned()));
        segments.push(Segment::Field(Field::named(name)));
        rest = after;
    }
    segments.push(Segment::Text(rest.to_owned()));
    segments
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::Value;

    use super::*;

    fn json(pods: &Pods, index: u64) -> Value {
        let mut out = Vec::new();
        pods.write(index, 1_000_000 + index, &mut out);
        serde_json::from_slice(&out).expect("a Pod is JSON")
    }

    fn mean_size(shape: Shape) -> usize {
        let (pods, mut out) = (Pods::new(shape), Vec::new());
        for index in 0..1000 {
            pods.write(index * 17, 1_000_000, &mut out);
        }
        out.len() / 1000
    }

    #[test]
    fn whitespace_goes_outside_of_strings_only() {
        assert_eq!(compact("{ \"a b\" : [ \"c \\\" d\" , 1 ],\n \"e\\\\\" : 2 }"), r#"{"a b":["c \" d",1],"e\\":2}"#);
    }

    #[test]
    fn pods_are_as_large_as_those_of_a_cluster() {
        let plain = mean_size(Shape::Plain);
        assert!((6200..=6400).contains(&plain), "a plain Pod has {plain} bytes");
        let diverse = mean_size(Shape::Diverse);
        assert!((6900..=7200).contains(&diverse), "a diverse Pod has {diverse} bytes");
    }

    #[test]
    fn every_pod_has_a_name_and_a_uid_of_its_own() {
        let pods = Pods::new(Shape::Plain);
        let mut seen = HashSet::new();
        for index in 0..2000 {
            let metadata = &json(&pods, index)["metadata"];
            let name = format!("{}/{}", metadata["namespace"], metadata["name"]);
            assert!(seen.insert(name), "Pod {index} has the name of another");
            assert!(seen.insert(metadata["uid"].to_string()), "Pod {index} has the uid of another");
        }
    }

    #[test]
    fn the_place_of_the_resource_version_is_given() {
        let mut out = b"before".to_vec();
        let place = Pods::new(Shape::Plain).write(3, 1_234_567, &mut out);
        assert_eq!(&out[place], b"1234567");
    }

    #[test]
    fn diverse_pods_share_what_their_workload_has_and_own_the_rest() {
        let pods = Pods::new(Shape::Diverse);
        let (one, sibling, stranger) = (json(&pods, 5), json(&pods, 5 + WORKLOADS), json(&pods, 6));
        let extra = |pod: &Value| {
            let labels = pod["metadata"]["labels"].as_object().expect("a Pod has labels");
            labels.iter().filter(|(key, _)| key.contains(".example.com/")).map(|(k, v)| format!("{k}={v}")).collect()
        };
        let labels: Vec<String> = extra(&one);
        assert!(labels.len() >= 2);
        assert_eq!(labels, extra(&sibling));
        assert_ne!(labels, extra(&stranger));
        let token = |pod: &Value| {
            let env = pod["spec"]["containers"][0]["env"].as_array().expect("a container has an environment");
            env.iter().find(|entry| entry["name"] == "POD_TOKEN").expect("a diverse Pod has a token")["value"]
                .to_string()
        };
        assert_ne!(token(&one), token(&sibling));
    }
}

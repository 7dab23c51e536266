//! The job `wire`: a list of Pods in chunks, as it comes from a connection, becomes metadata and
//! bodies without `managedFields`. `bench/README.md` describes what the peers do instead.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use k8s_openapi::List;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;
use steersman_wire::{Encoding, Json, Limits, Strip, protobuf};

use crate::contestant::{Ask, Cost, Outcome, Stopwatch};
use crate::pods::{Pods, Shape};

/// The size of a read by hyper when a server sends as fast as it can.
const CHUNK: usize = 16 * 1024;
/// The shortest total time of the repetitions.
const ENOUGH_WORK: Duration = Duration::from_millis(1500);

/// Runs the job of `contestant`.
pub fn run(ask: &Ask, contestant: &str) -> Result<Outcome> {
    let body = Body::new(ask.size);
    let body = if contestant == "steersman-protobuf" { body.in_protobuf()? } else { body };
    let job: fn(&Body) -> Result<u64> = match contestant {
        "steersman" | "steersman-protobuf" => scan,
        "byte-loop" => byte_loop,
        "serde_json-value" => values,
        "serde_json-typed" => typed,
        other => bail!("no contestant {other:?} in the job wire"),
    };
    let (mut count, mut repeats, mut least) = (0, 0, Duration::MAX);
    let stopwatch = Stopwatch::start();
    let mut cost = Cost::default();
    while cost.wall < ENOUGH_WORK {
        let started = Instant::now();
        count += job(&body)?;
        least = least.min(started.elapsed());
        repeats += 1;
        cost = stopwatch.cost();
    }
    let figures = vec![
        ("repeats", f64::from(repeats)),
        // The shortest of the repetitions: other work on the machine only adds to it.
        ("ns_per_item", least.as_nanos() as f64 / ask.size as f64),
        ("mb_per_s", body.bytes.len() as f64 / least.as_secs_f64() / 1e6),
    ];
    Ok(Outcome { count, cost, memory: None, figures })
}

/// A list of Pods, in one piece and in chunks.
pub(crate) struct Body {
    encoding: Encoding,
    bytes: Bytes,
    chunks: Vec<Bytes>,
    /// Where each Pod is.
    pods: Vec<std::ops::Range<usize>>,
}

impl Body {
    pub(crate) fn new(size: u64) -> Self {
        let pods = Pods::new(Shape::Plain);
        let mut text = br#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":["#.to_vec();
        let mut places = Vec::new();
        for index in 0..size {
            if index > 0 {
                text.push(b',');
            }
            let start = text.len();
            pods.write(index, 1_000_000 + index, &mut text);
            places.push(start..text.len());
        }
        text.extend_from_slice(b"]}");
        Self { encoding: Encoding::Json, chunks: chunks(&text), bytes: text.into(), pods: places }
    }

    /// The same list as a server sends it in protobuf.
    pub(crate) fn in_protobuf(&self) -> Result<Self> {
        let mut list = Vec::new();
        push(&mut list, 1, b"\x12\x011");
        for place in &self.pods {
            let pod = protobuf::from_json(&self.bytes[place.clone()]).context("a Pod has only fields of Pods")?;
            push(&mut list, 2, message(&pod)?);
        }
        let mut text = b"k8s\0".to_vec();
        push(&mut text, 1, b"\x0a\x02v1\x12\x07PodList");
        push(&mut text, 2, &list);
        Ok(Self { encoding: Encoding::Protobuf, chunks: chunks(&text), bytes: text.into(), pods: Vec::new() })
    }
}

/// A Pod in protobuf without its envelope, which has a head of 4 bytes, the type in 11, and the
/// field of the message.
fn message(pod: &[u8]) -> Result<&[u8]> {
    let message = &pod[4 + 11 + 1..];
    let length = message.iter().position(|byte| *byte < 0x80).context("the message has a length")?;
    Ok(&message[length + 1..])
}

/// The event that a Pod has changed, as a watch in protobuf sends it: a frame with its length.
pub(crate) fn protobuf_event(pod: &[u8]) -> Result<Bytes> {
    let pod = protobuf::from_json(pod).context("a Pod has only fields of Pods")?;
    let mut object = Vec::new();
    push(&mut object, 1, &pod);
    let mut event = Vec::new();
    push(&mut event, 1, b"MODIFIED");
    push(&mut event, 2, &object);
    let mut frame = u32::try_from(event.len())?.to_be_bytes().to_vec();
    frame.extend_from_slice(&event);
    Ok(frame.into())
}

fn chunks(text: &[u8]) -> Vec<Bytes> {
    text.chunks(CHUNK).map(Bytes::copy_from_slice).collect()
}

/// Writes a field of a message: its number, its length and its bytes.
fn push(to: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    to.push(number << 3 | 2);
    let mut length = bytes.len();
    while length > 0x7f {
        to.push(0x80 | (length & 0x7f) as u8);
        length >>= 7;
    }
    to.push(length as u8);
    to.extend_from_slice(bytes);
}

/// Ours: metadata read, `managedFields` left out, the rest copied into an allocation of its own.
pub(crate) fn scan(body: &Body) -> Result<u64> {
    let (mut count, strip) = (0, Strip::default());
    let mut list = body.encoding.split_list(Limits::default());
    let mut item_type = None;
    for chunk in &body.chunks {
        list.push(chunk.clone());
        while let Some(item) = list.next_item()? {
            item_type = item_type.or_else(|| list.list().item_type());
            let pod = Json.scan_item(&item?, &strip, item_type.as_ref())?;
            count += u64::from(!pod.metadata.name().is_empty());
            black_box(pod);
        }
    }
    list.finish()?;
    Ok(count)
}

/// Scans byte by byte for the ends of the items only: the simplest implementation.
fn byte_loop(body: &Body) -> Result<u64> {
    let (mut count, mut depth, mut in_string, mut escaped) = (0, 0_i32, false, false);
    let mut item = Vec::new();
    for chunk in &body.chunks {
        for byte in chunk {
            if depth > 2 || (depth == 2 && *byte == b'{') {
                item.push(*byte);
            }
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_string => escaped = true,
                b'"' => in_string = !in_string,
                b'{' | b'[' if !in_string => depth += 1,
                b'}' | b']' if !in_string => {
                    depth -= 1;
                    if depth == 2 && !item.is_empty() {
                        count += 1;
                        black_box(std::mem::take(&mut item));
                    }
                }
                _ => {}
            }
        }
    }
    Ok(count)
}

/// Each Pod, whose range is given, as a tree without `managedFields`.
fn values(body: &Body) -> Result<u64> {
    let mut count = 0;
    for place in &body.pods {
        let mut pod: Value = serde_json::from_slice(&body.bytes[place.clone()])?;
        let metadata = pod["metadata"].as_object_mut().context("a Pod has metadata")?;
        ensure!(metadata.remove("managedFields").is_some(), "a Pod has managedFields");
        count += u64::from(metadata["name"].is_string());
        black_box(pod);
    }
    Ok(count)
}

/// The whole list at once, in the types of `k8s-openapi`.
fn typed(body: &Body) -> Result<u64> {
    let mut list: List<Pod> = serde_json::from_slice(&body.bytes)?;
    for pod in &mut list.items {
        pod.metadata.managed_fields = None;
    }
    Ok(black_box(list).items.iter().filter(|pod| pod.metadata.name.is_some()).count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_reads_every_pod() {
        let body = Body::new(50);
        for job in [scan, byte_loop, values, typed] {
            assert_eq!(job(&body).expect("the list can be read"), 50);
        }
        let body = body.in_protobuf().expect("Pods can travel as protobuf");
        assert_eq!(scan(&body).expect("the list can be read"), 50);
    }
}

//! How much memory stored Pods take, and how long it takes to store and read them.
//!
//! Give it Pods, one in a line, and a form to keep them in:
//! `kubectl get pods -A -o json | jq -c '.items[]' | cargo run --release --example storage_memory -- compressed`

use std::io::{BufRead, Error};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use steersman_cache::{Cached, Storage, StorageMode, StorageOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mode = match std::env::args().nth(1).as_deref() {
        Some("encoded") => StorageMode::Encoded,
        Some("decoded") => StorageMode::Decoded,
        Some("compressed") => StorageMode::Compressed,
        _ => return Err("say encoded, decoded or compressed".into()),
    };
    let storage = Storage::<Pod>::new(StorageOptions { mode, ..StorageOptions::default() });
    let (before, _) = memory_kb()?;
    let (objects, storing) = store_all(&storage)?;
    while storage.metrics().dictionary_training {
        std::thread::sleep(Duration::from_millis(1));
    }
    let (after, peak) = memory_kb()?;
    let count = objects.len().max(1);
    println!("{count} Pods {mode:?}: {} KB resident, {} KB at most", after - before, peak - before);
    println!("  {} bytes each, its metadata {}", (after - before) * 1024 / count, metadata_bytes(&objects) / count);
    println!("  stored in {:?} each", storing / count as u32);
    println!("  {:?}", storage.metrics());
    read_all(&objects)
}

fn store_all(storage: &Storage<Pod>) -> Result<(Vec<Cached<Pod>>, Duration), Box<dyn std::error::Error>> {
    let (mut input, mut line) = (std::io::stdin().lock(), Vec::new());
    let (mut objects, mut storing) = (Vec::new(), Duration::ZERO);
    while input.read_until(b'\n', &mut line)? > 0 {
        let start = Instant::now();
        objects.push(storage.store(&line, None)?);
        storing += start.elapsed();
        line.clear();
    }
    Ok((objects, storing))
}

fn read_all(objects: &[Cached<Pod>]) -> Result<(), Box<dyn std::error::Error>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec {
        node_name: Option<String>,
    }
    #[derive(Deserialize)]
    struct View {
        spec: Spec,
    }
    let count = objects.len().max(1) as u32;
    let start = Instant::now();
    for object in objects {
        std::hint::black_box(object.view::<View>()?.spec.node_name);
    }
    println!("  view of one field: {:?}", start.elapsed() / count);
    let start = Instant::now();
    for object in objects {
        std::hint::black_box(object.get()?);
    }
    println!("  get for the first time: {:?}", start.elapsed() / count);
    let few = &objects[..objects.len().min(100)];
    for round in 0..2 {
        let (start, rounds) = (Instant::now(), 1000);
        for _ in 0..rounds {
            for object in few {
                std::hint::black_box(object.get()?);
            }
        }
        if round == 1 {
            println!("  get again: {:?}", start.elapsed() / rounds / few.len() as u32);
        }
    }
    Ok(())
}

fn metadata_bytes(objects: &[Cached<Pod>]) -> usize {
    objects.iter().map(|object| object.meta().memory()).sum()
}

/// How much memory this process has, and the most it ever had.
fn memory_kb() -> Result<(usize, usize), Error> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.split_whitespace().find_map(|word| word.parse().ok()).unwrap_or(0)
    };
    Ok((field("VmRSS:"), field("VmHWM:")))
}

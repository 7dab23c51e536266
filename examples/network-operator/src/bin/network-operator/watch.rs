//! The events of a watch, as lines.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Event as KubernetesEvent;
use network_operator::{Network, NetworkSpec, NetworkStatus};
use steersman::Cached;
use steersman::cache::{Error, Event, InformerOptions, SharedInformerFactory, handler};
use steersman::client::Client;
use steersman_program::{Screen, Tone};

/// How long the first lists may take.
const SYNC_LIMIT: Duration = Duration::from_secs(30);

/// Prints changes of Networks and Deployments, and the Events about them, until the result is shut
/// down.
pub(crate) async fn watch(client: Client, screen: &Screen) -> Result<SharedInformerFactory, Error> {
    let factory = SharedInformerFactory::new(client);
    let networks = screen.clone();
    factory.informer::<Network>(InformerOptions::all())?.add_event_handler(handler(
        move |event: &Event<Network>| {
            for (what, text) in network_lines(event) {
                networks.line(Tone::Cluster, what, &format!("network {}", event.object().key()), &text);
            }
        },
    ))?;
    let deployments = screen.clone();
    factory.informer::<Deployment>(InformerOptions::all())?.add_event_handler(handler(
        move |event: &Event<Deployment>| {
            let what = match event {
                Event::Add { .. } => "applied",
                Event::Update { .. } => "changed",
                Event::Delete { .. } => "deleted",
            };
            deployments.line(Tone::Cluster, what, &format!("deployment {}", event.object().key()), "");
        },
    ))?;
    let events = screen.clone();
    factory.informer::<KubernetesEvent>(InformerOptions::all())?.add_event_handler(handler(
        move |event: &Event<KubernetesEvent>| {
            if let (Event::Add { .. }, Ok(found)) = (event, event.object().get()) {
                let about = &found.involved_object;
                let (kind, name) = (about.kind.as_deref().unwrap_or_default(), about.name.as_deref());
                let object = format!("{} {}", kind.to_lowercase(), name.unwrap_or_default());
                events.line(Tone::Warning, "event", &object, found.message.as_deref().unwrap_or_default());
            }
        },
    ))?;
    factory.start()?;
    factory.wait_for_cache_sync(SYNC_LIMIT).await?;
    Ok(factory)
}

/// The line for an event of a Network: what happened, and how.
fn network_lines(event: &Event<Network>) -> Vec<(&'static str, String)> {
    match event {
        Event::Add { object, .. } => match object.get() {
            Ok(network) => vec![("applied", spec_text(&network.spec))],
            Err(error) => vec![("applied", error.to_string())],
        },
        Event::Update { old, new } => update_lines(old, new),
        Event::Delete { object, .. } => {
            // The last state on the watch is the one before the deletion: its finalizers have been
            // removed since, or the object would still exist.
            let held: Vec<_> = object.meta().finalizers().collect();
            let text = if held.is_empty() { String::new() } else { format!("finalizer removed: {}", held.join(", ")) };
            vec![("deleted", text)]
        }
    }
}

fn update_lines(old: &Cached<Network>, new: &Cached<Network>) -> Vec<(&'static str, String)> {
    let (Ok(before), Ok(after)) = (old.get(), new.get()) else { return Vec::new() };
    let mut lines = Vec::new();
    if before.spec != after.spec {
        lines.push(("changed", spec_text(&after.spec)));
    }
    let has = |object: &Cached<Network>, name: &str| object.meta().finalizers().any(|finalizer| finalizer == name);
    for added in new.meta().finalizers().filter(|name| !has(old, name)) {
        lines.push(("finalizer", format!("added {added}")));
    }
    for removed in old.meta().finalizers().filter(|name| !has(new, name)) {
        lines.push(("finalizer", format!("removed {removed}")));
    }
    if old.meta().deletion_timestamp() != new.meta().deletion_timestamp() {
        let held: Vec<_> = new.meta().finalizers().collect();
        lines.push(("deleting", format!("held by {}", held.join(", "))));
    }
    if before.status != after.status {
        lines.extend(after.status.as_ref().map(|status| ("status", status_text(status))));
    }
    lines
}

fn spec_text(spec: &NetworkSpec) -> String {
    let mut text = format!("{}  gateway {}", spec.cidr, spec.gateway);
    if let Some(mtu) = spec.mtu {
        text.push_str(&format!("  mtu {mtu}"));
    }
    if !spec.dns_servers.is_empty() {
        text.push_str(&format!("  dns {}", spec.dns_servers.join(" ")));
    }
    text
}

fn status_text(status: &NetworkStatus) -> String {
    let phase = status.phase.map_or_else(String::new, |phase| format!("{phase:?}"));
    let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
    ready.map_or_else(|| phase.clone(), |ready| format!("{phase}: {} ({})", ready.message, ready.reason))
}

//! Mixed load with faults on the embedded server and a manager: memory, tasks and files stay flat.
//!
//! `cargo xtask test --soak` runs it for the minutes that `--soak-minutes` gives. Without them the
//! test runs a few rounds, which show that nothing is left open; memory is judged only in long
//! runs. Each round writes, watches, creates and deletes a definition, leaves watches unread, cuts
//! connections and sends invalid requests. The manager works through a network that cuts its
//! connections, too.

mod figures;
mod load;
mod target;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use steersman_apiserver::ApiServer;
use steersman_client::{Client, ObjectMeta, Patch, PatchParams, PostParams};
use steersman_runtime::owner::set_controller_reference;
use steersman_runtime::{Action, Context, Manager, ObjectKey, ReconcileError, kind, reconcile_fn};
use steersman_testing::{FaultyProxy, eventually_within};
use tokio::sync::oneshot;

use figures::Figures;
use target::Target;

/// How long the load lasts, in minutes.
const MINUTES_VARIABLE: &str = "STEERSMAN_SOAK_MINUTES";
/// The rounds of a run without a time.
const ROUNDS: usize = 4;
/// Long enough for a busy machine: only a run that fails waits so long.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a client may keep the server waiting. It is short, so that a round ends soon.
const LIMIT: Duration = Duration::from_secs(1);
/// How many bytes connections carry in each direction before they are cut, in turn. None: all.
const CUT_AFTER: [Option<usize>; 5] = [None, Some(300_000), Some(20_000), None, Some(5_000)];

#[test]
fn mixed_load_with_faults_leaves_nothing_behind() {
    let minutes = std::env::var(MINUTES_VARIABLE).ok();
    let minutes = minutes.map(|text| text.parse::<u32>().expect("a number of minutes"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(soak(minutes.map(|minutes| Duration::from_secs(60) * minutes)));
}

async fn soak(time: Option<Duration>) {
    let server = ApiServer::new();
    let serve = server.serve().handshake_timeout(LIMIT).header_timeout(LIMIT).body_timeout(LIMIT).write_timeout(LIMIT);
    let serving = serve.unauthenticated_max(load::SILENT / 2).start().await.unwrap();
    let target = Target::new(&serving);
    let proxy = FaultyProxy::with_limits(target.address, CUT_AFTER).await.unwrap();
    let (direct, faulty) = (target.client().await, target.through(proxy.address()).client().await);

    let manager = Manager::new(faulty.clone());
    manager
        .controller(kind::<ConfigMap>().namespace("default"))
        .owns(kind::<Secret>().namespace("default"))
        .max_concurrent(2)
        .complete(reconcile_fn(copy_to_a_secret))
        .unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(async move { manager.start(async { drop(stopped.await) }).await });

    let mut figures = Figures::default();
    let began = Instant::now();
    for round in 0.. {
        if time.map_or(round == ROUNDS, |time| round >= ROUNDS && began.elapsed() > time) {
            break;
        }
        load::round(&target, proxy.address(), &faulty, round).await;
        the_manager_works(&direct, round).await;
        // One more fault: the version of cut watches is compacted. And the log, which grows up to
        // its bound, does not hide a growth without one.
        server.compact();
        figures.settle().await;
        if figures.push(began.elapsed()) {
            eprintln!("{}", figures.last());
        }
    }
    stop.send(()).unwrap();
    running.await.unwrap().unwrap();
    drop((direct, faulty));
    proxy.close().await;
    serving.stop().await;
    eventually_within(PATIENCE, "no task is left", async || (figures::tasks() == 0).then_some(())).await;
    eprintln!("{}", figures.summary());
    figures.judge(time.is_some());
}

/// Shows a change to the manager and waits until it has acted.
async fn the_manager_works(client: &Client, round: usize) {
    let (maps, secrets) = (client.namespaced::<ConfigMap>("default"), client.namespaced::<Secret>("default"));
    let name = format!("wanted-{}", round % 4);
    let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
    if maps.get_opt(&name).await.unwrap().is_none() {
        maps.create(&PostParams::default(), &ConfigMap { metadata, ..ConfigMap::default() }).await.unwrap();
    }
    let wanted = Patch::Merge(serde_json::json!({"data": {"round": round.to_string()}}));
    maps.patch(&name, &PatchParams::default(), &wanted).await.unwrap();
    eventually_within(PATIENCE, &format!("the manager acts in round {round}"), async || {
        let made = secrets.get_opt(&name).await.unwrap()?;
        (made.metadata.annotations?.get("round") == Some(&round.to_string())).then_some(())
    })
    .await;
}

/// Creates a Secret of the same name that has the round of the ConfigMap. The other ConfigMaps are
/// load.
async fn copy_to_a_secret(ctx: Context<ConfigMap>, key: ObjectKey) -> Result<Action, ReconcileError> {
    let Some(map) = ctx.object(&key).await? else { return Ok(Action::done()) };
    let map = map.get()?;
    let Some(round) = map.data.as_ref().and_then(|data| data.get("round")) else { return Ok(Action::done()) };
    let metadata = ObjectMeta {
        namespace: Some("default".to_owned()),
        name: Some(key.name().to_owned()),
        ..ObjectMeta::default()
    };
    ctx.client()
        .create_or_update(Secret { metadata, ..Secret::default() }, |secret| {
            secret.metadata.annotations = Some(BTreeMap::from([("round".to_owned(), round.clone())]));
            set_controller_reference(&*map, secret)?;
            Ok(())
        })
        .await?;
    Ok(Action::done())
}

use super::super::cause::{Cause, EventType, Source, SourceInfo};
use super::super::record::WRITES_MAX;
use super::*;

/// Reconciles, one after the other, a millisecond apart.
struct World {
    loops: HotLoops,
    now: Instant,
    findings: Vec<Finding>,
}

/// A change of an object that a watch has shown.
fn change(object: &str, version: u64) -> Causes {
    let (source, key) = (SourceInfo::new(Source::Mapped, "ConfigMap"), ObjectKey::new("default", object));
    Causes::one(Cause { event: EventType::Updated, object: Some(key), version, ..Cause::new(&source) })
}

fn write(object: &str, version: u64, content: Option<u64>) -> Write {
    let key = ObjectKey::new("default", object);
    Write { verb: "update", kind: "ConfigMap".into(), key, version, content }
}

impl World {
    fn new() -> Self {
        Self { loops: HotLoops::default(), now: Instant::now(), findings: Vec::new() }
    }

    fn turn(&mut self, controller: &str, causes: &Causes, writes: &[Write]) {
        self.now += Duration::from_millis(1);
        let key = ObjectKey::new("default", "a");
        let turn = Turn { controller: &controller.into(), key: &key, causes, writes, writes_total: writes.len() };
        self.findings.extend(self.loops.turn(turn, self.now));
    }

    /// The response of a write arrives, and the reconcile goes on.
    fn wrote(&mut self, controller: &str, causes: &Causes, write: &Write) {
        let (key, writes) = (ObjectKey::new("default", "a"), std::slice::from_ref(write));
        self.loops.wrote(Turn { controller: &controller.into(), key: &key, causes, writes, writes_total: 1 });
    }

    /// The cycles that were found.
    fn cycles(&self) -> Vec<&str> {
        let found = self.findings.iter().filter_map(|finding| match finding {
            Finding::HotLoop(found) => Some(&*found.cycle),
            Finding::Suspected { .. } => None,
        });
        found.collect()
    }
}

#[test]
fn a_controller_that_its_own_writes_wake_is_found_once() {
    let mut world = World::new();
    world.turn("x", &change("a", 1), &[write("a", 2, None)]);
    for version in 3..200 {
        world.turn("x", &change("a", version - 1), &[write("a", version, None)]);
    }
    let round = u64::from(ROUNDS);
    let expected = format!(
        "ConfigMap default/a: controller x wrote version {}, which caused controller x (default/a) to write version {}",
        round,
        round + 1
    );
    assert_eq!(world.cycles(), [expected]);
}

#[test]
fn a_cycle_after_a_quiet_time_is_found_again() {
    let mut world = World::new();
    world.turn("x", &change("a", 1), &[write("a", 2, None)]);
    // Longer than the window.
    for version in 3..100 {
        world.now += Duration::from_secs(10);
        world.turn("x", &change("a", version - 1), &[write("a", version, None)]);
    }
    assert_eq!(world.cycles().len(), 1, "{:?}", world.cycles());
    world.now += WINDOW;
    for version in 1_000..1_100 {
        world.turn("x", &change("a", version - 1), &[write("a", version, None)]);
    }
    assert_eq!(world.cycles().len(), 2, "{:?}", world.cycles());
}

#[test]
fn two_controllers_that_undo_each_other_are_named_once_each() {
    let mut world = World::new();
    world.turn("left", &change("a", 1), &[write("a", 2, None)]);
    for version in 3..200 {
        let controller = if version % 2 == 1 { "right" } else { "left" };
        world.turn(controller, &change("a", version - 1), &[write("a", version, None)]);
    }
    let cycles = world.cycles();
    assert_eq!(cycles.len(), 2, "one for each key: {cycles:?}");
    assert_eq!(
        cycles[0],
        "ConfigMap default/a: controller left wrote version 38, which caused controller right (default/a) to write version 39, \
         which caused controller left (default/a) to write version 40"
    );
}

#[test]
fn the_write_of_a_reconcile_that_still_runs_is_not_that_of_another_client() {
    let mut world = World::new();
    for version in (2..200).step_by(2) {
        let (ours, theirs) = (write("a", version, Some(1)), write("a", version + 1, Some(2)));
        world.wrote("left", &change("a", version - 1), &ours);
        world.turn("right", &change("a", version), &[theirs]);
        world.turn("left", &change("a", version - 1), &[ours]);
    }
    let cycles = world.cycles();
    assert_eq!((cycles.len(), world.findings.len()), (2, 2), "{cycles:?}");
    assert!(cycles.iter().all(|cycle| cycle.contains("left") && cycle.contains("right")), "{cycles:?}");
}

#[test]
fn a_cycle_over_two_objects_is_spelled_out() {
    let mut world = World::new();
    world.turn("x", &change("a", 1), &[write("child", 2, None)]);
    for version in 3..60 {
        let (controller, object) = if version % 2 == 1 { ("y", "a") } else { ("x", "child") };
        let caused_by = if version % 2 == 1 { "child" } else { "a" };
        world.turn(controller, &change(caused_by, version - 1), &[write(object, version, None)]);
    }
    let cycles = world.cycles();
    assert!(cycles[0].contains("ConfigMap default/child: controller x wrote version"), "{cycles:?}");
    assert!(cycles[0].contains("controller y (default/a) to write version 39 of ConfigMap default/a"), "{cycles:?}");
}

#[test]
fn changes_from_outside_are_no_cycle() {
    let mut world = World::new();
    let mut version = 1;
    for _ in 0..1_000 {
        // A change, the status that follows, and the event of that status with the next change.
        let mut causes = change("a", version);
        let own = change("a", version + 1);
        world.turn("x", &causes, &[write("a", version + 1, None)]);
        if version % 3 == 0 {
            causes = own;
            steersman_workqueue::Payload::merge(&mut causes, change("other", version + 2), world.now, None);
            world.turn("x", &causes, &[write("a", version + 3, None)]);
        }
        version += 4;
    }
    assert_eq!(world.findings, [], "status after each change");
    // It asks to come back, and writes each time.
    let again = Causes::one(Cause::new(&SourceInfo::new(Source::RequeueAfter, "")));
    for round in 0..100 {
        world.turn("x", &again, &[write("a", version + round, None)]);
    }
    assert_eq!(world.findings, []);
    // A timer that has come, together with its own write.
    for round in 100..200 {
        let mut causes = change("a", version + round - 1);
        steersman_workqueue::Payload::merge(&mut causes, again.clone(), world.now, None);
        world.turn("x", &causes, &[write("a", version + round, None)]);
    }
    assert_eq!(world.findings, []);
}

#[test]
fn progress_is_no_cycle() {
    let mut world = World::new();
    world.turn("x", &change("a", 1), &[write("status", 2, None), write("child-1", 3, None)]);
    for child in 2..200 {
        let version = child * 2;
        let writes = [write("status", version, None), write(&format!("child-{child}"), version + 1, None)];
        world.turn("x", &change("status", version - 2), &writes);
    }
    assert_eq!(world.findings, []);
}

#[test]
fn causes_that_are_not_kept_may_be_from_outside() {
    let many = |version: u64, count: u64| {
        let mut causes = change("a", version);
        for _ in 1..count {
            steersman_workqueue::Payload::merge(&mut causes, change("a", version), Instant::now(), None);
        }
        causes
    };
    let (mut outside, mut own) = (World::new(), World::new());
    let writes = |version: u64| (0..8).map(|_| write("a", version, None)).collect::<Vec<_>>();
    for version in 2..100 {
        outside.turn("x", &many(version - 1, 9), &writes(version));
        own.turn("x", &many(version - 1, 8), &writes(version));
    }
    assert_eq!((outside.cycles().len(), own.cycles().len()), (0, 1));
}

#[test]
fn a_slow_cycle_is_not_hot() {
    let mut world = World::new();
    for version in 2..200 {
        world.now += Duration::from_secs(30);
        world.turn("x", &change("a", version - 1), &[write("a", version, None)]);
    }
    assert_eq!(world.findings, []);
}

#[test]
fn another_client_that_undoes_a_write_is_found_if_the_content_repeats() {
    for (same, expected) in [(true, 1), (false, 0)] {
        let mut world = World::new();
        for round in 1..40_u64 {
            let version = round * 2;
            let is_suspected = world.findings.iter().any(|finding| matches!(finding, Finding::Suspected { .. }));
            let content = is_suspected.then_some(if same { 7 } else { round });
            // The other client writes versions that are odd.
            world.turn("x", &change("a", version - 1), &[write("a", version, content)]);
        }
        let suspected = Finding::Suspected { kind: "ConfigMap".into(), object: ObjectKey::new("default", "a") };
        assert_eq!(world.findings.iter().filter(|finding| **finding == suspected).count(), 1);
        let cycles = world.cycles();
        assert_eq!(cycles.len(), expected, "{cycles:?}");
        if same {
            let Some(Finding::HotLoop(mut found)) = world.findings.pop() else { panic!("a loop was found") };
            assert!(found.is_foreign && found.cycle.contains("another client wrote version"), "{found:?}");
            found.name_other("kubectl-edit");
            assert!(found.cycle.contains("another client (field manager \"kubectl-edit\") wrote version"), "{found:?}");
        }
    }
}

#[test]
fn objects_of_other_kinds_with_the_same_key_are_others() {
    let mut world = World::new();
    let (source, key) = (SourceInfo::new(Source::Primary, "Deployment"), ObjectKey::new("default", "a"));
    for version in 100..140 {
        let cause = Cause { event: EventType::Updated, version, ..Cause::new(&source) };
        // It applies the same ConfigMap each time, which changes nothing.
        world.turn("x", &Causes::one(cause), &[write(key.name(), 7, Some(1))]);
    }
    assert_eq!(world.findings, []);
}

#[test]
fn a_write_that_changes_nothing_undoes_nothing() {
    let mut world = World::new();
    world.turn("x", &change("a", 1), &[write("a", 2, Some(1))]);
    for version in 3..60 {
        // The server answers with the version of the other client.
        world.turn("x", &change("a", version), &[write("a", version, Some(1))]);
    }
    assert_eq!(world.findings, []);
}

#[test]
fn the_memory_is_bounded() {
    // A few writes of usual names, and the most with the longest names.
    for (name_length, writes_each, mib) in [(30, 2, 1), (253, WRITES_MAX, 10)] {
        let mut world = World::new();
        let (controller, namespace) = (Arc::from("controller"), "n".repeat(name_length.min(63)));
        let mut version = 0;
        for round in 0..1_500_u64 {
            let key = ObjectKey::new(&namespace, &format!("{round:0name_length$}"));
            let cause = Cause { object: Some(key.clone()), ..change("a", version).iter().next().unwrap().clone() };
            let writes: Vec<_> = (0..writes_each)
                .map(|_| {
                    version += 1;
                    let key = ObjectKey::new(&namespace, &format!("{version:0name_length$}"));
                    Write { verb: "update", kind: "NetworkPolicy".into(), key, version, content: None }
                })
                .collect();
            let (causes, writes_total) = (Causes::one(cause), writes.len());
            let turn = Turn { controller: &controller, key: &key, causes: &causes, writes: &writes, writes_total };
            world.loops.turn(turn, world.now);
        }
        assert_eq!(world.loops.len(), (WRITES_REMEMBERED, KEYS_REMEMBERED));
        let bytes = world.loops.bytes();
        assert!(((mib << 20) / 4..mib << 20).contains(&bytes), "{bytes} bytes, {name_length} {writes_each}");
    }
}

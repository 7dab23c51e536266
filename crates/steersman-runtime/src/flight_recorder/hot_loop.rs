//! Finds keys that are reconciled again and again because of writes of this manager, or because of
//! a client that undoes them.
//!
//! A state machine that is given each reconcile that wrote something. A reconcile continues a cycle
//! if
//! - nothing but writes caused it: its own, those of other controllers of this manager that it had
//!   caused itself, or those of another client to an object that it had written;
//! - it writes only objects that it wrote the last time. New objects are progress.
//!
//! A change from outside ends the cycle: a busy controller that writes once for each change has
//! none. For a cycle with another client, the controller also has to write the same content each
//! time.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use steersman_cache::ObjectKey;

use super::cause::Causes;
use super::record::Write;

/// After this number of rounds a cycle is a hot loop.
pub(crate) const ROUNDS: u32 = 20;
/// The rounds of a hot loop are within this time.
pub(crate) const WINDOW: Duration = Duration::from_secs(300);
/// From this number of rounds with another client on, the content of writes is compared.
const SUSPECTED_ROUNDS: u32 = 5;
/// The rounds with another client that write the same content before it is a hot loop.
const SAME_CONTENT_ROUNDS: u32 = 5;
/// How many writes and how many keys are remembered.
const WRITES_REMEMBERED: usize = 1_024;
const KEYS_REMEMBERED: usize = 1_024;
/// How many steps of a cycle are remembered.
const STEPS_MAX: usize = 6;

/// A write that may cause other reconciles.
#[derive(Debug)]
struct Step {
    controller: Arc<str>,
    key: ObjectKey,
    kind: Box<str>,
    object: ObjectKey,
    version: u64,
}

struct Written {
    step: Arc<Step>,
    /// The writes that led to it, oldest first.
    before: Vec<Arc<Step>>,
}

/// What is known of a key that writes.
struct Turns {
    rounds: u32,
    since: Instant,
    /// The writes of the last turn.
    writes: Vec<Write>,
    /// Their number, with those that are not kept.
    writes_total: usize,
    /// The rounds with another client, and how many of them wrote the same content.
    foreign_rounds: u32,
    same_content: u32,
    is_reported: bool,
    /// The last round of a cycle.
    looped: Instant,
}

/// A reconcile that has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn<'a> {
    pub(crate) controller: &'a Arc<str>,
    pub(crate) key: &'a ObjectKey,
    pub(crate) causes: &'a Causes,
    pub(crate) writes: &'a [Write],
    /// The number of writes, with those that are not kept.
    pub(crate) writes_total: usize,
}

impl Turn<'_> {
    /// The write of this object.
    fn write_of(&self, kind: &str, object: &ObjectKey) -> Option<&Write> {
        self.writes.iter().find(|write| write.is_of(kind, object))
    }
}

/// What a turn leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Finding {
    /// The content of the next writes of this object has to be known.
    Suspected {
        kind: Box<str>,
        object: ObjectKey,
    },
    HotLoop(HotLoop),
}

/// A hot loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HotLoop {
    pub(crate) controller: Arc<str>,
    pub(crate) key: ObjectKey,
    /// The kind and the key of the object that is written again and again.
    pub(crate) kind: Box<str>,
    pub(crate) object: ObjectKey,
    pub(crate) cycle: String,
    pub(crate) rounds: u32,
    /// Another client takes part.
    pub(crate) is_foreign: bool,
}

/// The writes that are remembered, and the keys that may be in a cycle.
#[derive(Default)]
pub(crate) struct HotLoops {
    written: HashMap<u64, Written>,
    versions: VecDeque<u64>,
    turns: HashMap<(Arc<str>, ObjectKey), Turns>,
    /// The keys of `turns`, oldest first.
    keys: VecDeque<(Arc<str>, ObjectKey)>,
}

/// What caused a turn.
enum Trigger<'a> {
    /// Something from outside, or something unknown.
    Outside,
    /// Writes of this manager that the key itself has caused.
    Returning(&'a Written),
    /// Writes of this manager that the key has not caused.
    Inside(&'a Written),
    /// A write of another client to an object that the key wrote before.
    Foreign { kind: &'a str, object: &'a ObjectKey, version: u64 },
}

impl HotLoops {
    /// Takes in the writes of a reconcile that still runs, so that reconciles that they cause are
    /// not taken for those of another client.
    pub(crate) fn wrote(&mut self, turn: Turn<'_>) {
        let id = (Arc::clone(turn.controller), turn.key.clone());
        let before = self.trigger(turn, self.turns.get(&id)).steps();
        self.remember(turn, &before);
    }

    /// Takes in a reconcile that wrote something.
    pub(crate) fn turn(&mut self, turn: Turn<'_>, now: Instant) -> Option<Finding> {
        let id = (Arc::clone(turn.controller), turn.key.clone());
        let last = self.turns.get(&id);
        let trigger = self.trigger(turn, last);
        let before = trigger.steps();
        let is_repeated = last.is_some_and(|last| {
            let wrote = |write: &Write| last.writes.iter().any(|before| before.is_of(&write.kind, &write.key));
            now.saturating_duration_since(last.since) <= WINDOW && turn.writes.iter().all(wrote)
        });
        let new = Turns {
            rounds: 1,
            since: now,
            writes: turn.writes.to_vec(),
            writes_total: turn.writes_total,
            foreign_rounds: 0,
            same_content: 0,
            // After a quiet time, a cycle is another one.
            is_reported: last
                .is_some_and(|last| last.is_reported && now.saturating_duration_since(last.looped) <= WINDOW),
            looped: last.map_or(now, |last| last.looped),
        };
        let (turns, finding) = match (trigger, last) {
            (Trigger::Returning(_), Some(last)) if is_repeated => {
                let rounds = last.rounds.saturating_add(1);
                let is_hot = rounds >= ROUNDS && !new.is_reported;
                let finding = is_hot.then(|| Finding::HotLoop(HotLoop::inside(turn, &before, rounds)));
                let is_reported = new.is_reported || is_hot;
                (Turns { rounds, since: last.since, is_reported, looped: now, ..new }, finding)
            }
            (Trigger::Foreign { kind, object, version }, Some(last)) if is_repeated => {
                let foreign_rounds = last.foreign_rounds.saturating_add(1);
                let same_content = if new.same_content(last) { last.same_content.saturating_add(1) } else { 0 };
                let is_hot = same_content >= SAME_CONTENT_ROUNDS && !new.is_reported;
                let finding = if is_hot {
                    Some(Finding::HotLoop(HotLoop::foreign(turn, last, (kind, object, version), foreign_rounds)))
                } else {
                    let suspected = || Finding::Suspected { kind: kind.into(), object: object.clone() };
                    (foreign_rounds == SUSPECTED_ROUNDS).then(suspected)
                };
                let is_reported = new.is_reported || is_hot;
                let since = last.since;
                (Turns { foreign_rounds, same_content, since, is_reported, looped: now, ..new }, finding)
            }
            _ => (new, None),
        };
        self.remember(turn, &before);
        if self.turns.insert(id.clone(), turns).is_none() {
            self.keys.push_back(id);
            if self.keys.len() > KEYS_REMEMBERED
                && let Some(oldest) = self.keys.pop_front()
            {
                self.turns.remove(&oldest);
            }
        }
        finding
    }

    fn trigger<'a>(&'a self, turn: Turn<'a>, last: Option<&Turns>) -> Trigger<'a> {
        let is_me = |step: &Step| step.controller == *turn.controller && step.key == *turn.key;
        let (mut returning, mut inside, mut foreign, mut count) = (None, None, None, 0);
        for cause in turn.causes.iter() {
            count += 1;
            let Some((object, version)) = cause.changed(turn.key) else { return Trigger::Outside };
            let kind = &*cause.source.kind;
            let is_it = |step: &Step| step.object == *object && *step.kind == *kind;
            match self.written.get(&version).filter(|written| is_it(&written.step)) {
                Some(written) if is_me(&written.step) || written.before.iter().any(|step| is_me(step)) => {
                    // The newest one: the others are of the same round or older.
                    returning = Some(written);
                }
                Some(written) => inside = Some(written),
                None => {
                    // It came after our last write, and our new write came after it.
                    let is_mine = |write: &&Write| write.is_of(kind, object) && version > write.version;
                    let is_undone = turn.write_of(kind, object).is_some_and(|write| write.version > version);
                    if !is_undone || last.and_then(|last| last.writes.iter().find(is_mine)).is_none() {
                        return Trigger::Outside;
                    }
                    foreign = Some((kind, object, version));
                }
            }
        }
        // The causes that are not kept can be the writes of the last turn, and no more than those.
        let more = turn.causes.more() as usize;
        if count == 0 || more > 0 && count + more > last.map_or(0, |last| last.writes_total) {
            return Trigger::Outside;
        }
        match (foreign, returning, inside) {
            (Some((kind, object, version)), ..) => Trigger::Foreign { kind, object, version },
            (None, Some(written), _) => Trigger::Returning(written),
            (None, None, Some(written)) => Trigger::Inside(written),
            (None, None, None) => Trigger::Outside,
        }
    }

    fn remember(&mut self, turn: Turn<'_>, before: &[Arc<Step>]) {
        for write in turn.writes.iter().filter(|write| write.version != 0) {
            let step = Arc::new(Step {
                controller: Arc::clone(turn.controller),
                key: turn.key.clone(),
                kind: write.kind.clone(),
                object: write.key.clone(),
                version: write.version,
            });
            let written = Written { step, before: before.to_vec() };
            if self.written.insert(write.version, written).is_none() {
                self.versions.push_back(write.version);
                if self.versions.len() > WRITES_REMEMBERED
                    && let Some(oldest) = self.versions.pop_front()
                {
                    self.written.remove(&oldest);
                }
            }
        }
    }

    /// How many writes and keys are remembered.
    #[cfg(test)]
    fn len(&self) -> (usize, usize) {
        (self.written.len(), self.turns.len())
    }

    /// About how many bytes are remembered, without what maps have in reserve. Keys that share
    /// their text count each.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        use super::cause::key_bytes;
        let step = |step: &Step| size_of::<Step>() + 2 * size_of::<usize>() + step.kind.len() + key_bytes(&step.key);
        let step = |of: &Step| step(of) + key_bytes(&of.object);
        let before = |written: &Written| written.before.capacity() * size_of::<Arc<Step>>();
        // A step that is no longer among the writes is still one of those that led to another.
        let steps: HashMap<*const Step, usize> = self
            .written
            .values()
            .flat_map(|written| written.before.iter().chain([&written.step]))
            .map(|of| (Arc::as_ptr(of), step(of)))
            .collect();
        let written = self.written.values().map(|written| size_of::<(u64, Written)>() + before(written)).sum::<usize>();
        let writes = |turns: &Turns| {
            let texts = turns.writes.iter().map(|write| key_bytes(&write.key) + write.kind.len()).sum::<usize>();
            turns.writes.capacity() * size_of::<Write>() + texts
        };
        let turns = self.turns.iter().map(|((_, key), turns)| {
            // In the map and in the order.
            2 * size_of::<(Arc<str>, ObjectKey)>() + key_bytes(key) + size_of::<Turns>() + writes(turns)
        });
        let versions = self.versions.len() * size_of::<u64>();
        steps.values().sum::<usize>() + written + turns.sum::<usize>() + versions
    }
}

impl Trigger<'_> {
    /// The writes of this manager that led to it.
    fn steps(&self) -> Vec<Arc<Step>> {
        match self {
            Self::Returning(written) | Self::Inside(written) => written.steps(),
            Self::Outside | Self::Foreign { .. } => Vec::new(),
        }
    }
}

impl Written {
    /// The last steps, with this write.
    fn steps(&self) -> Vec<Arc<Step>> {
        let skipped = (self.before.len() + 1).saturating_sub(STEPS_MAX);
        self.before.iter().skip(skipped).chain([&self.step]).cloned().collect()
    }
}

impl Turns {
    fn same_content(&self, last: &Self) -> bool {
        self.writes.iter().all(|write| {
            let same = |before: &Write| before.is_of(&write.kind, &write.key) && before.content == write.content;
            write.content.is_some() && last.writes.iter().any(same)
        })
    }
}

impl HotLoop {
    /// A cycle among the controllers of this manager.
    fn inside(turn: Turn<'_>, before: &[Arc<Step>], rounds: u32) -> Self {
        let is_me = |step: &Arc<Step>| step.controller == *turn.controller && step.key == *turn.key;
        let begin = before.iter().rposition(is_me).unwrap_or(0);
        let mut cycle = String::new();
        for (number, step) in before[begin..].iter().enumerate() {
            let Step { controller, key, kind, object, version } = &**step;
            if number == 0 {
                let _ = write!(cycle, "{kind} {object}: controller {controller} wrote version {version}");
            } else {
                let of = if before[begin].object == *object && before[begin].kind == *kind {
                    String::new()
                } else {
                    format!(" of {kind} {object}")
                };
                let _ = write!(cycle, ", which caused controller {controller} ({key}) to write version {version}{of}");
            }
        }
        let last = turn.writes.first();
        if let Some(write) = last {
            let Write { kind, key: object, version, .. } = write;
            let (controller, key) = (turn.controller, turn.key);
            let of = match before.get(begin) {
                Some(step) if step.object == *object && step.kind == *kind => String::new(),
                _ => format!(" of {kind} {object}"),
            };
            let _ = write!(cycle, ", which caused controller {controller} ({key}) to write version {version}{of}");
        }
        Self::new(turn, cycle, rounds, false)
    }

    /// A cycle with another client.
    fn foreign(turn: Turn<'_>, last: &Turns, (kind, object, version): (&str, &ObjectKey, u64), rounds: u32) -> Self {
        let (controller, key) = (turn.controller, turn.key);
        let before = last.writes.iter().find(|write| write.is_of(kind, object)).map_or(0, |write| write.version);
        let written = turn.write_of(kind, object).map_or(0, |write| write.version);
        let cycle = format!(
            "{kind} {object}: controller {controller} wrote version {before}, {OTHER} wrote version {version}, which caused \
             controller {controller} ({key}) to write version {written} with the content of version {before}"
        );
        Self { kind: kind.into(), object: object.clone(), ..Self::new(turn, cycle, rounds, true) }
    }

    fn new(turn: Turn<'_>, cycle: String, rounds: u32, is_foreign: bool) -> Self {
        let write = turn.writes.first();
        Self {
            controller: Arc::clone(turn.controller),
            key: turn.key.clone(),
            kind: write.map_or_else(Box::default, |write| write.kind.clone()),
            object: write.map_or_else(|| turn.key.clone(), |write| write.key.clone()),
            cycle,
            rounds,
            is_foreign,
        }
    }

    /// Names the other client.
    pub(crate) fn name_other(&mut self, name: &str) {
        self.cycle = self.cycle.replacen(OTHER, &format!("another client (field manager {name:?})"), 1);
    }
}

/// A client that is not known.
const OTHER: &str = "another client";

#[cfg(test)]
mod tests;

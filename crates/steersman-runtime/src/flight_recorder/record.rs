//! One reconcile, as the recorder keeps it.

use std::time::{Duration, Instant};

use steersman_cache::ObjectKey;

use super::cause::{Causes, key_bytes};

/// How many writes and how many waiting reads of a reconcile are kept; later ones are counted.
pub(crate) const WRITES_MAX: usize = 16;
pub(crate) const READS_MAX: usize = 8;
/// The longest error text that is kept, in bytes.
pub(crate) const ERROR_MAX: usize = 512;

/// A successful write of a reconcile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) verb: &'static str,
    pub(crate) kind: Box<str>,
    pub(crate) key: ObjectKey,
    /// The version that the server has returned; 0 if there is none.
    pub(crate) version: u64,
    /// A hash of the written object without its version, if it was asked for.
    pub(crate) content: Option<u64>,
}

impl Write {
    /// Whether it wrote this object.
    pub(crate) fn is_of(&self, kind: &str, key: &ObjectKey) -> bool {
        self.key == *key && *self.kind == *kind
    }
}

/// A read that waited for an earlier write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitedRead {
    pub(crate) kind: Box<str>,
    pub(crate) waited: Duration,
}

/// What a reconcile did.
#[derive(Debug, Default)]
pub(crate) struct Actions {
    pub(crate) writes: Vec<Write>,
    pub(crate) reads: Vec<WaitedRead>,
    /// How many writes are not kept.
    pub(crate) more_writes: u32,
    pub(crate) more_reads: u32,
}

impl Actions {
    pub(crate) fn wrote(&mut self, write: Write) {
        if self.writes.len() < WRITES_MAX {
            self.writes.push(write);
        } else {
            self.more_writes = self.more_writes.saturating_add(1);
        }
    }

    pub(crate) fn waited(&mut self, read: WaitedRead) {
        if self.reads.len() < READS_MAX {
            self.reads.push(read);
        } else {
            self.more_reads = self.more_reads.saturating_add(1);
        }
    }

    fn bytes(&self) -> usize {
        let writes = self.writes.capacity() * size_of::<Write>();
        let reads = self.reads.capacity() * size_of::<WaitedRead>();
        let texts = self.writes.iter().map(|write| key_bytes(&write.key) + write.kind.len()).sum::<usize>()
            + self.reads.iter().map(|read| read.kind.len()).sum::<usize>();
        size_of::<Self>() + writes + reads + texts
    }
}

/// How a reconcile ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    Done,
    RequeueAfter(Duration),
    Failed {
        error: Box<str>,
        /// `None` if it is not retried.
        retry_after: Option<Duration>,
    },
}

/// A reconcile that has ended.
#[derive(Debug)]
pub(crate) struct Record {
    /// Counts the reconciles of the controller.
    pub(crate) id: u64,
    pub(crate) key: ObjectKey,
    /// 1, or more after failures.
    pub(crate) attempt: u32,
    pub(crate) causes: Causes,
    /// How long the key was ready before.
    pub(crate) queued: Duration,
    pub(crate) started: Instant,
    pub(crate) took: Duration,
    pub(crate) actions: Option<Box<Actions>>,
    pub(crate) ending: Ending,
}

impl Record {
    pub(crate) fn writes(&self) -> &[Write] {
        self.actions.as_ref().map_or(&[], |actions| &actions.writes)
    }

    /// The memory that it needs. Texts that it shares with others count as its own.
    pub(crate) fn bytes(&self) -> usize {
        let error = if let Ending::Failed { error, .. } = &self.ending { error.len() } else { 0 };
        let actions = self.actions.as_ref().map_or(0, |actions| actions.bytes());
        size_of::<Self>() + key_bytes(&self.key) + self.causes.bytes() + actions + error
    }
}

/// Shortens a text to `max` bytes, at a character.
pub(crate) fn truncated(text: &str, max: usize) -> Box<str> {
    if text.len() <= max {
        return text.into();
    }
    let mut end = max.saturating_sub('…'.len_utf8());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end]).into()
}

//! What follows from each event: a plain state machine. It starts no process and reads no clock.
//!
//! A change of the sources starts a build. A binary that was built is asked for its CRDs, and these
//! are applied, while the old operator still runs. Only then does the new operator replace it. So a
//! build that fails, and CRDs that the server refuses, leave the old one alone.

use std::path::PathBuf;

/// A built operator. Two values are equal if cargo did not link it again between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Binary {
    pub(super) path: PathBuf,
    /// Changes with each link.
    pub(super) stamp: String,
}

/// What has happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    /// Files have changed.
    Changed { sources: bool, samples: bool },
    /// The build has ended. `None` if it failed.
    Built(Option<Binary>),
    /// The CRDs of the new binary were applied, or could not be.
    Prepared { is_ok: bool },
    /// All samples were tried.
    SamplesApplied,
    /// The operator has ended, or could not be started.
    Exited { how: String },
    /// The operator did not stop within the grace period.
    GraceOver,
    /// Ctrl-C, or the signal that ends a service.
    Interrupted,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    /// Builds the operator. The answer is [`Event::Built`].
    Build,
    /// Ends a build, or a preparation, without an answer.
    Abandon,
    /// Asks the binary for its CRDs and applies them. The answer is [`Event::Prepared`].
    Prepare(Binary),
    /// Starts the operator. Its end is [`Event::Exited`].
    Start(Binary),
    /// Asks the operator to stop, and starts the grace period.
    Terminate,
    /// Ends the operator by force.
    Kill,
    /// Applies the samples that have changed. The answer is [`Event::SamplesApplied`].
    ApplySamples,
    /// Prints a line.
    Say(Notice),
    /// Ends the command.
    End,
}

/// A line about what happens. `is_running`: an earlier operator still runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Notice {
    BuildFailed {
        is_running: bool,
    },
    PrepareFailed {
        is_running: bool,
    },
    /// The running operator is what was built.
    Unchanged,
    /// The operator ended by itself.
    Exited {
        how: String,
    },
    /// It ended because it was asked to.
    Stopped {
        how: String,
    },
    /// The grace period is over.
    Killed,
    /// The first signal, while the operator runs.
    Stopping,
}

/// The work that happens once at a time.
#[derive(Debug, PartialEq, Eq)]
enum Job {
    None,
    Build,
    Prepare(Binary),
}

#[derive(Debug, PartialEq, Eq)]
enum Operator {
    Absent,
    Running(Binary),
    /// It was asked to stop. `next` replaces it.
    Stopping {
        next: Option<Binary>,
        is_killed: bool,
    },
}

/// The state of `steersman run`.
#[derive(Debug)]
pub(super) struct Core {
    job: Job,
    /// Sources have changed since the job began.
    is_outdated: bool,
    operator: Operator,
    /// CRDs were applied, so that samples can be.
    has_crds: bool,
    /// Samples may have changed since they were applied.
    samples_wanted: bool,
    samples_running: bool,
    is_ending: bool,
}

impl Core {
    /// The state at the start, and what to do first.
    pub(super) fn start() -> (Self, Vec<Command>) {
        let core = Self {
            job: Job::Build,
            is_outdated: false,
            operator: Operator::Absent,
            has_crds: false,
            samples_wanted: false,
            samples_running: false,
            is_ending: false,
        };
        (core, vec![Command::Build])
    }

    /// What follows from an event.
    pub(super) fn on(&mut self, event: Event) -> Vec<Command> {
        let mut commands = Vec::new();
        match event {
            Event::Interrupted => self.interrupted(&mut commands),
            Event::Exited { how } => self.exited(how, &mut commands),
            Event::GraceOver => {
                if let Operator::Stopping { is_killed: is_killed @ false, .. } = &mut self.operator {
                    *is_killed = true;
                    commands.extend([Command::Say(Notice::Killed), Command::Kill]);
                }
            }
            // The rest starts new work.
            _ if self.is_ending => {}
            Event::Changed { sources, samples } => {
                self.samples_wanted |= samples;
                self.is_outdated |= sources;
            }
            Event::Built(binary) => self.built(binary, &mut commands),
            Event::Prepared { is_ok } => self.prepared(is_ok, &mut commands),
            Event::SamplesApplied => self.samples_running = false,
        }
        self.begin_work(&mut commands);
        commands
    }

    /// Whether a build runs.
    pub(super) fn is_building(&self) -> bool {
        self.job != Job::None
    }

    /// Whether an operator runs that was not asked to stop.
    pub(super) fn is_running(&self) -> bool {
        matches!(self.operator, Operator::Running(_))
    }

    /// Whether an operator was asked to stop and has not ended.
    pub(super) fn is_stopping(&self) -> bool {
        matches!(self.operator, Operator::Stopping { .. })
    }

    fn built(&mut self, binary: Option<Binary>, commands: &mut Vec<Command>) {
        self.job = Job::None;
        match binary {
            None => commands.push(Command::Say(Notice::BuildFailed { is_running: self.is_running() })),
            // It is older than the sources: the next build follows at once.
            Some(_) if self.is_outdated => {}
            Some(binary) if self.operator == Operator::Running(binary.clone()) => {
                commands.push(Command::Say(Notice::Unchanged));
            }
            Some(binary) => {
                self.job = Job::Prepare(binary.clone());
                commands.push(Command::Prepare(binary));
            }
        }
    }

    fn prepared(&mut self, is_ok: bool, commands: &mut Vec<Command>) {
        let Job::Prepare(binary) = std::mem::replace(&mut self.job, Job::None) else { return };
        if !is_ok {
            commands.push(Command::Say(Notice::PrepareFailed { is_running: self.is_running() }));
            return;
        }
        // Samples that the old CRDs refused may be valid now.
        (self.has_crds, self.samples_wanted) = (true, true);
        match &mut self.operator {
            Operator::Absent => self.start_operator(binary, commands),
            Operator::Running(_) => {
                self.operator = Operator::Stopping { next: Some(binary), is_killed: false };
                commands.push(Command::Terminate);
            }
            Operator::Stopping { next, .. } => *next = Some(binary),
        }
    }

    fn exited(&mut self, how: String, commands: &mut Vec<Command>) {
        match std::mem::replace(&mut self.operator, Operator::Absent) {
            Operator::Absent => {}
            Operator::Running(_) => commands.push(Command::Say(Notice::Exited { how })),
            Operator::Stopping { next, .. } => {
                commands.push(Command::Say(Notice::Stopped { how }));
                if let Some(binary) = next {
                    self.start_operator(binary, commands);
                }
            }
        }
        if self.is_ending {
            commands.push(Command::End);
        }
    }

    fn interrupted(&mut self, commands: &mut Vec<Command>) {
        if self.is_ending {
            // The second signal does not wait.
            if let Operator::Stopping { is_killed: is_killed @ false, .. } = &mut self.operator {
                *is_killed = true;
                commands.push(Command::Kill);
            }
            return;
        }
        self.is_ending = true;
        if std::mem::replace(&mut self.job, Job::None) != Job::None {
            commands.push(Command::Abandon);
        }
        match &mut self.operator {
            Operator::Absent => commands.push(Command::End),
            Operator::Running(_) => {
                self.operator = Operator::Stopping { next: None, is_killed: false };
                commands.extend([Command::Say(Notice::Stopping), Command::Terminate]);
            }
            Operator::Stopping { next, .. } => {
                *next = None;
                commands.push(Command::Say(Notice::Stopping));
            }
        }
    }

    fn start_operator(&mut self, binary: Binary, commands: &mut Vec<Command>) {
        self.operator = Operator::Running(binary.clone());
        commands.push(Command::Start(binary));
    }

    /// Starts what waits for its turn.
    fn begin_work(&mut self, commands: &mut Vec<Command>) {
        if self.is_ending || self.job != Job::None {
            return;
        }
        if std::mem::take(&mut self.is_outdated) {
            self.job = Job::Build;
            commands.push(Command::Build);
        } else if self.has_crds && !self.samples_running && std::mem::take(&mut self.samples_wanted) {
            self.samples_running = true;
            commands.push(Command::ApplySamples);
        }
    }
}

#[cfg(test)]
mod tests;

//! The command line.

use std::ffi::OsString;

use clap::{Args, Command, FromArgMatches, Subcommand as _};

use crate::definitions::CrdFlags;
use crate::flags::{NoFlags, RunFlags};
use crate::manifests::ManifestsFlags;
use crate::{Program, report::Report};

/// What the arguments of a process ask for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Invocation<A: Args = NoFlags> {
    /// To run the operator.
    Run(Box<RunFlags<A>>),
    /// Something else: [`Program::execute`] does it.
    Subcommand(Subcommand),
}

/// A subcommand with its flags.
#[derive(Clone, Debug)]
pub struct Subcommand(Chosen);

#[derive(Clone, Debug, clap::Subcommand)]
enum Chosen {
    /// Write what the operator needs in a cluster: CRDs, roles, a Deployment
    Manifests(ManifestsFlags),
    /// Print the CRDs as YAML, or compare them with older ones
    Crd(CrdFlags),
}

impl<A: Args + Send + Sync + 'static> Program<A> {
    /// Parses the arguments of the process. For `--help`, `--version` and wrong arguments it prints
    /// what is to be printed and exits.
    pub fn parse(&self) -> Invocation<A> {
        self.try_parse_from(std::env::args_os()).unwrap_or_else(|error| error.exit())
    }

    /// Parses arguments, of which the first is the name of the program.
    ///
    /// # Errors
    ///
    /// The arguments are wrong, or ask for `--help` or `--version`.
    pub fn try_parse_from<T: Into<OsString> + Clone>(
        &self,
        arguments: impl IntoIterator<Item = T>,
    ) -> Result<Invocation<A>, clap::Error> {
        let command = Chosen::augment_subcommands(self.command::<RunFlags<A>>())
            .args_conflicts_with_subcommands(true)
            .subcommand_negates_reqs(true);
        // A program without CRDs has nothing to print.
        let command = command.mut_subcommand("crd", |crd| crd.hide(!self.has_crds()));
        let matches = command.try_get_matches_from(arguments)?;
        if matches.subcommand().is_some() {
            return Ok(Invocation::Subcommand(Subcommand(Chosen::from_arg_matches(&matches)?)));
        }
        Ok(Invocation::Run(Box::new(RunFlags::from_arg_matches(&matches)?)))
    }

    /// The command with the flags `F`, and the name and the description of the program.
    pub(crate) fn command<F: Args>(&self) -> Command {
        let about =
            self.about.clone().unwrap_or_else(|| format!("Runs the operator {} until a signal stops it", self.name));
        let short = about.split("\n\n").next().unwrap_or_default().to_owned();
        // The description of the flags is that of a Rust type.
        F::augment_args(Command::new(self.name.clone())).version(self.version.clone()).about(short).long_about(about)
    }

    pub(crate) fn execute_subcommand(&self, subcommand: &Subcommand) -> Report {
        match &subcommand.0 {
            Chosen::Manifests(flags) => self.write_manifests(flags),
            Chosen::Crd(flags) => self.print_crds(flags),
        }
    }
}

//! `manifests`: what the operator needs in a cluster, as files.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use steersman_manifests::operator::{FileChange, Operator, helm, kustomize, plain};

use crate::flags::{RunFlags, WATCH_NAMESPACE, WatchFlags};
use crate::report::Report;
use crate::{Error, Invocation, Program};

/// The longest name of an object that other names are made of.
const NAME_MAX: usize = 63;

/// The form of the manifests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// One file for kubectl apply --server-side
    #[default]
    Plain,
    /// A base for Kustomize
    Kustomize,
    /// A chart for Helm
    Helm,
}

/// The flags of `manifests`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ManifestsFlags {
    /// The folder of the files. Files there that are not generated stay as they are
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The form of the manifests
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::Plain)]
    format: Format,
    /// Write nothing; list the files that are out of date, and exit with 1 if there are any
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    model: ModelFlags,
}

/// What a user chooses about the model.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ModelFlags {
    /// The image of the operator [default: its name and version]
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// The namespace in which the operator runs [default: its name]
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    #[command(flatten)]
    watch: WatchFlags,
    /// The arguments of the operator in the cluster, after --, instead of its usual ones
    #[arg(last = true, value_name = "ARGUMENTS")]
    args: Option<Vec<String>>,
}

impl<A: Args + Send + Sync + 'static> Program<A> {
    /// What the operator needs in a cluster, with its usual arguments. It watches all namespaces,
    /// whatever the environment contains.
    ///
    /// # Errors
    ///
    /// The setup function fails or sends a request, a Rust type has no CRD, or a sample is no
    /// object.
    pub fn model(&self) -> Result<Operator, Error> {
        let watch = WatchFlags { watch_namespace: Some(Vec::new()) };
        self.model_with(&ModelFlags { watch, ..ModelFlags::default() })
    }

    pub(crate) fn model_with(&self, wanted: &ModelFlags) -> Result<Operator, Error> {
        self.check_name()?;
        let args = wanted.args.as_ref().unwrap_or(&self.args);
        let mut flags = self.flags_in_cluster(args)?;
        let mut operator = Operator::new(&self.name, format!("{}:{}", self.name, self.version));
        operator.version.clone_from(&self.version);
        operator.args.clone_from(args);
        if let Some(namespace) = &wanted.namespace {
            operator.namespace.clone_from(namespace);
        }
        // The arguments have namespaces, or the Deployment has a variable.
        let in_arguments = flags.watch.watch_namespace.is_some();
        if !in_arguments {
            flags.watch = wanted.watch.clone();
        }
        let namespaces = flags.watch.namespaces()?;
        flags.watch.watch_namespace = Some(namespaces.clone());
        if !in_arguments && !namespaces.is_empty() {
            operator.env.push(json!({"name": WATCH_NAMESPACE, "value": namespaces.join(",")}));
        }
        operator.crds = self.crds()?;
        operator.samples = self.sample_objects()?;
        self.describe(&flags, &mut operator)?;
        for adjust in &self.adjust {
            adjust(&mut operator);
        }
        if let Some(image) = &wanted.image {
            operator.image.clone_from(image);
        }
        Ok(operator)
    }

    fn check_name(&self) -> Result<(), Error> {
        let is_plain = |character: char| character.is_ascii_lowercase() || character.is_ascii_digit();
        let is_valid = !self.name.is_empty()
            && self.name.len() <= NAME_MAX
            && self.name.chars().all(|character| is_plain(character) || character == '-')
            && self.name.starts_with(is_plain)
            && self.name.ends_with(is_plain);
        if is_valid { Ok(()) } else { Err(Error::Name { name: self.name.clone() }) }
    }

    /// The arguments of the operator in a cluster, parsed as it would.
    fn flags_in_cluster(&self, args: &[String]) -> Result<RunFlags<A>, Error> {
        let arguments = std::iter::once(&self.name).chain(args);
        match self.try_parse_from(arguments).map_err(Error::Arguments)? {
            Invocation::Run(flags) => Ok(*flags),
            Invocation::Subcommand(_) => {
                let kind = clap::error::ErrorKind::InvalidSubcommand;
                Err(Error::Arguments(clap::Error::raw(kind, "a subcommand does not run the operator\n")))
            }
        }
    }

    pub(crate) fn write_manifests(&self, flags: &ManifestsFlags) -> Report {
        self.manifests(flags).into()
    }

    fn manifests(&self, flags: &ManifestsFlags) -> Result<Report, Error> {
        let operator = self.model_with(&flags.model)?;
        let files = match flags.format {
            Format::Plain => plain(&operator)?,
            Format::Kustomize => kustomize(&operator)?,
            Format::Helm => helm(&operator)?,
        };
        let folder = flags.out.display();
        if flags.check {
            let changes = files.check(&flags.out)?;
            if changes.is_empty() {
                return Ok(Report::of(format!("{folder} is up to date\n")));
            }
            let list: String = changes.iter().map(|change| format!("\n  {change}")).collect();
            let complaint = format!("{folder} is not up to date: run the command without --check{list}");
            return Ok(Report::found("", complaint));
        }
        let changes = files.write(&flags.out)?;
        let mut text = String::new();
        for change in &changes {
            let (what, path) = match change {
                FileChange::Missing(path) => ("created", path),
                FileChange::OutOfDate(path) => ("changed", path),
                FileChange::Stale(path) => ("deleted", path),
            };
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{what} {}", flags.out.join(path).display());
        }
        if changes.is_empty() {
            text = format!("{folder} is up to date\n");
        }
        Ok(Report::of(text))
    }
}

//! `steersman init`: a new project.

use std::io::{self, Write};
use std::path::PathBuf;
use std::{env, fs};

use anyhow::{Context, Result, bail};

use crate::project::changes::Force;
use crate::project::format::Formatter;
use crate::project::manifest::{self, Crates};
use crate::project::questions::Questions;
use crate::project::{Changes, Generated, ProjectFile, names, template};

const AFTER_HELP: &str = "\
The project is a folder NAME in the current one. It is a Rust workspace:
  cargo run     runs the operator on an API server in its process, without a cluster
  cargo test    runs its tests, also without a cluster
steersman.toml records the answers and the generated files.";

/// The flags of `steersman init`.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Name of the project, of its folder, package and Deployment, such as website-operator
    name: Option<String>,
    /// Domain of its API groups: with example.com, the group web means web.example.com
    #[arg(long, value_name = "DOMAIN")]
    domain: Option<String>,
    /// Checkout of steersman to take the crates from; default: the released crates
    #[arg(long, value_name = "DIR")]
    steersman_path: Option<PathBuf>,
    /// Use a folder that is not empty, and overwrite files in it
    #[arg(long)]
    force: bool,
}

/// Makes the project.
pub(crate) fn run(args: &Args) -> Result<()> {
    let questions = Questions::new();
    let name = questions.text(args.name.clone(), "NAME", "the name of the project", None, names::check_project)?;
    args.domain.as_deref().map_or(Ok(()), names::check_domain)?;
    let crates = match &args.steersman_path {
        Some(folder) => Crates::checkout(folder)?,
        None => Crates::Registry,
    };
    let folder = env::current_dir().context("there is no current folder")?.join(&name);

    let mut changes = Changes::new(&folder);
    let mut file = ProjectFile::new(&name, args.domain.as_deref());
    let files = template::project(&name)?;
    let formatter = Formatter::with_settings(files.iter().find(|(path, _)| *path == template::RUSTFMT))?;
    for (path, text) in files {
        let text = match path {
            template::MANIFEST => manifest::root(&text, &crates)?,
            template::DEV_MANIFEST => manifest::dev(&text, &crates)?,
            path if path.ends_with(".rs") => formatter.rust(text),
            _ => text,
        };
        file.set_file(&Generated::new(path, &text));
        changes.write(path, text)?;
    }
    changes.write(ProjectFile::NAME, file.to_text())?;
    if Force::from_flag(args.force) == Force::No {
        check_folder(&folder, &name)?;
    }
    let lines = changes.apply()?;
    print(&name, &lines).context("cannot print what was created")
}

/// Fails if the folder has files. An empty repository is as good as no folder.
fn check_folder(folder: &std::path::Path, name: &str) -> Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        result => result.with_context(|| format!("cannot use the folder {}", folder.display()))?,
    };
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read the folder {}", folder.display()))?;
        if entry.file_name() != ".git" {
            bail!(
                "the folder {} exists and is not empty: choose another name than {name}, or use --force to overwrite the \
                 files that the project needs",
                folder.display()
            );
        }
    }
    Ok(())
}

fn print(name: &str, lines: &[String]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    for line in lines {
        let (verb, path) = line.split_once(' ').unwrap_or((line, ""));
        writeln!(stdout, "{verb} {name}/{path}")?;
    }
    writeln!(stdout, "Next:")?;
    writeln!(stdout, "  cd {name}")?;
    writeln!(stdout, "  steersman create api --group GROUP --version v1alpha1 --kind KIND")?;
    stdout.flush()
}

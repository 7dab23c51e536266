//! `steersman create api`: a kind, with or without a controller.

use std::env;
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::foreign;
use crate::project::changes::Force;
use crate::project::format::Formatter;
use crate::project::questions::Questions;
use crate::project::{Api, Changes, Generated, Project, ProjectFile, names, template};

const AFTER_HELP: &str = "\
On a terminal the command asks for what is missing. Files that it creates belong to you. Lines that it adds to src/lib.rs,
src/api/mod.rs and src/controllers/mod.rs leave every other byte of these files as it is.";

/// The flags of `steersman create api`.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// API group: a whole one, such as web.example.com, or a part that the project's domain
    /// completes
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Version, such as v1, v1alpha1 or v2beta3
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    /// Kind, a singular noun in PascalCase, such as CronJob
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Whether objects are in namespaces; default: true
    #[arg(long, value_name = "BOOL", action = clap::ArgAction::Set)]
    namespaced: Option<bool>,
    /// Whether the kind gets a controller; default: true
    #[arg(long, value_name = "BOOL", action = clap::ArgAction::Set)]
    controller: Option<bool>,
    /// Plural in lower case; default: that of the English word
    #[arg(long, value_name = "PLURAL")]
    plural: Option<String>,
    /// File with the CustomResourceDefinition of another project, as YAML or JSON: its Rust types
    /// are generated, and the manifests of this project do not contain it
    #[arg(long, value_name = "FILE")]
    from_crd: Option<PathBuf>,
    /// Overwrite existing files, and do not check for changes that are not committed
    #[arg(long)]
    force: bool,
}

/// Adds the API to the project.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut project = Project::find(&env::current_dir().context("there is no current folder")?)?;
    let force = Force::from_flag(args.force);
    if force == Force::No {
        project.check_clean()?;
    }
    let Choice { api, foreign } = choose(args, &project)?;
    check_unique(&project, &api, force)?;

    let mut changes = Changes::new(&project.root);
    let formatter = Formatter::of(&project.root);
    let name = project.file.name()?.to_owned();
    let mut files = template::api(&name, &api);
    if let Some(foreign) = foreign {
        files.push((api.types_file(), foreign.types));
        files.push((api.external_crd_file(), foreign.definition));
    }
    let mut generated = Vec::new();
    for (path, text) in files {
        let text = if path.ends_with(".rs") { formatter.rust(text) } else { text };
        generated.push(Generated::new(&path, &text));
        changes.write(&path, text)?;
    }
    if api.writes() && changes.read(template::RBAC_TEST)?.is_none() {
        let text = formatter.rust(template::rbac_test(&name));
        project.file.set_file(&Generated::new(template::RBAC_TEST, &text));
        changes.write(template::RBAC_TEST, text)?;
    }
    let replaced = changes.replaced();
    if force == Force::No && !replaced.is_empty() {
        bail!(
            "these files exist already: {}. Rename them, choose another kind, or use --force to overwrite them",
            replaced.join(", ")
        );
    }
    if changes.read(&api.version_file())?.is_none() {
        changes.write(&api.version_file(), template::version_module(&api.version)?)?;
    }
    insert_lines(&mut changes, &mut project.file, &api)?;
    project.file.remove_api(&api.kind);
    project.file.add_api(&api, &generated);
    changes.write(ProjectFile::NAME, project.file.to_text())?;
    let lines = changes.apply()?;
    print(&api, &name, &lines).context("cannot print what was created")
}

/// What to create.
struct Choice {
    api: Api,
    foreign: Option<foreign::Generated>,
}

/// The answers: from the flags, from the file of the CRD, or from the user.
fn choose(args: &Args, project: &Project) -> Result<Choice> {
    let questions = Questions::new();
    if let Some(file) = &args.from_crd {
        let wanted = foreign::Wanted {
            group: args.group.as_deref(),
            version: args.version.as_deref(),
            kind: args.kind.as_deref(),
            plural: args.plural.as_deref(),
            namespaced: args.namespaced,
        };
        let foreign = foreign::generate(file, &wanted)?;
        let controller = questions.yes_or_no(args.controller, "Does the kind get a controller?")?;
        names::check_kind(&foreign.kind).with_context(|| format!("cannot use the kind in {}", file.display()))?;
        let api = Api {
            group: foreign.group.clone(),
            version: foreign.version.clone(),
            kind: foreign.kind.clone(),
            plural: foreign.plural.clone(),
            namespaced: foreign.namespaced,
            controller,
            external: true,
        };
        return Ok(Choice { api, foreign: Some(foreign) });
    }
    let domain = project.file.domain();
    let check_group = |group: &str| names::full_group(group, domain).and_then(|group| names::check_own_group(&group));
    let group = questions.text(args.group.clone(), "--group", "the API group", None, check_group)?;
    let group = names::full_group(&group, domain)?;
    let version =
        questions.text(args.version.clone(), "--version", "the version", Some("v1alpha1"), names::check_version)?;
    let kind = questions.text(args.kind.clone(), "--kind", "the kind, in PascalCase", None, names::check_kind)?;
    let plural = args.plural.clone().unwrap_or_else(|| names::plural(&kind));
    names::check_plural(&plural, &group)?;
    let namespaced = questions.yes_or_no(args.namespaced, "Are its objects in namespaces?")?;
    let controller = questions.yes_or_no(args.controller, "Does the kind get a controller?")?;
    let api = Api { group, version, kind, plural, namespaced, controller, external: false };
    Ok(Choice { api, foreign: None })
}

/// Fails if the project has an API with which the new one would share a file or a resource.
fn check_unique(project: &Project, api: &Api, force: Force) -> Result<()> {
    for (existing, _) in project.file.apis()? {
        let is_same_kind = existing.kind == api.kind;
        if is_same_kind && existing.group == api.group && existing.version == api.version {
            if force == Force::Yes {
                continue;
            }
            bail!("{} exists already: use --force to make it again, which overwrites its files", api.title());
        }
        if is_same_kind && existing.group == api.group {
            bail!(
                "{} exists, and a second version needs a conversion between the two, which only you can write: add its \
                 types beside those in {}, and make the CRD of both with steersman::manifests::crd::CrdBuilder",
                existing.title(),
                existing.types_file()
            );
        }
        if existing.module() == api.module() {
            bail!(
                "{} exists, and the files of {} would have the same names, {}.rs: choose another kind",
                existing.title(),
                api.title(),
                api.module()
            );
        }
        if existing.group == api.group && existing.plural == api.plural {
            bail!("{} has the plural {}, too: use --plural with another one", existing.title(), api.plural);
        }
    }
    Ok(())
}

/// Adds the lines of the API to existing files. If a place is not found, the error has the lines.
fn insert_lines(changes: &mut Changes, file: &mut ProjectFile, api: &Api) -> Result<()> {
    let mut problems = Vec::new();
    let mut by_hand = Vec::new();
    for (path, edit) in api.edits() {
        let before = changes.read(&path)?.unwrap_or_default();
        match edit.insert(&before) {
            Ok(after) => {
                if file.files().iter().any(|file| file.path == path && file.is(&before)) {
                    file.set_file(&Generated::new(&path, &after));
                }
                changes.write(&path, after)?;
            }
            Err(problem) => {
                problems.push(format!("{path}: {}", problem.reason));
                by_hand.push(format!("  {path}, {}:\n    {}", edit.place(), edit.line()));
            }
        }
    }
    problems.dedup();
    if !problems.is_empty() {
        bail!(
            "cannot find where to add {}, so nothing was changed. {}. Add these lines by hand, then run the command \
             again:\n{}",
            api.title(),
            problems.join(". "),
            by_hand.join("\n")
        );
    }
    Ok(())
}

fn print(api: &Api, project: &str, lines: &[String]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    lines.iter().try_for_each(|line| writeln!(stdout, "{line}"))?;
    writeln!(stdout, "Next:")?;
    if !api.external {
        writeln!(stdout, "  write the fields of the kind in {}", api.types_file())?;
    }
    if api.controller {
        writeln!(stdout, "  write reconcile in src/controllers/{}.rs", api.module())?;
    }
    writeln!(stdout, "  cargo test")?;
    writeln!(stdout, "  cargo run")?;
    writeln!(stdout, "  cargo run --package {project} -- manifests --out deploy")?;
    stdout.flush()
}

#[cfg(test)]
mod tests {
    use super::AFTER_HELP;
    use crate::project::api::{CONTROLLERS, LIBRARY, VERSIONS};

    #[test]
    fn the_help_names_the_files_that_are_edited() {
        for path in [LIBRARY, VERSIONS, CONTROLLERS] {
            assert!(AFTER_HELP.contains(path), "{path}");
        }
    }
}

//! `steersman delete api`: removes what `steersman create api` has generated.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use crate::project::api::VERSIONS;
use crate::project::changes::Force;
use crate::project::edits::references;
use crate::project::questions::Questions;
use crate::project::{Api, Changes, Generated, Project, ProjectFile, template};

const AFTER_HELP: &str = "\
Only files that are as they were generated are deleted, and the lines that create api has added. The command refuses if you have
changed a file, or if other code uses the kind; --force deletes the files of the kind in whatever state.";
/// Where other code of a project may use the kind.
const SOURCES: [&str; 3] = ["src", "tests", "dev"];

/// The flags of `steersman delete api`.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Kind to delete
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// API group of the kind, whole or without the project's domain; only checked
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Version of the kind; only checked
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    /// Delete files that you have changed, and do not check for changes that are not committed
    #[arg(long)]
    force: bool,
}

/// Removes the API from the project.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut project = Project::find(&env::current_dir().context("there is no current folder")?)?;
    let force = Force::from_flag(args.force);
    if force == Force::No {
        project.check_clean()?;
    }
    let (api, mut files) = choose(args, &project)?;
    project.file.remove_api(&api.kind);
    let others: Vec<Api> = project.file.apis()?.into_iter().map(|(api, _)| api).collect();
    if api.writes() && !others.iter().any(Api::writes) {
        files.extend(project.file.files().into_iter().filter(|file| file.path == template::RBAC_TEST));
        project.file.remove_file(template::RBAC_TEST);
    }

    let mut changes = Changes::new(&project.root);
    let mut changed = Vec::new();
    for Generated { path, .. } in &files {
        // A file that is not text has changed.
        let text = changes.read(path).unwrap_or_else(|_| Some(String::new()));
        let Some(text) = text else { continue };
        if !files.iter().any(|file| file.path == *path && file.is(&text)) {
            changed.push(path.as_str());
        }
        changes.delete(path)?;
    }
    if force == Force::No && !changed.is_empty() {
        bail!(
            "you have changed these files since they were generated: {}. Nothing was deleted. Use --force to delete \
             them, too",
            changed.join(", ")
        );
    }
    remove_lines(&mut changes, &mut project.file, &api, force)?;
    if force == Force::No {
        check_references(&project.root, &changes, &api)?;
    }
    changes.write(ProjectFile::NAME, project.file.to_text())?;
    let mut stdout = io::stdout().lock();
    let lines = changes.apply()?;
    lines.iter().try_for_each(|line| writeln!(stdout, "{line}")).context("cannot print what was deleted")
}

/// The API to delete, and its files.
fn choose(args: &Args, project: &Project) -> Result<(Api, Vec<Generated>)> {
    let apis = project.file.apis()?;
    ensure!(!apis.is_empty(), "the project has no API: `steersman create api` adds one");
    let known = || apis.iter().map(|(api, _)| api.title()).collect::<Vec<_>>().join(", ");
    let check = |kind: &str| {
        ensure!(apis.iter().any(|(api, _)| api.kind == kind), "the project has no kind {kind:?}: it has {}", known());
        Ok(())
    };
    let kind = Questions::new().text(args.kind.clone(), "--kind", "the kind to delete", None, check)?;
    let found = apis.iter().find(|(api, _)| api.kind == kind);
    let (api, files) = found.with_context(|| format!("the project has no kind {kind:?}"))?;
    let is_group = |group: &String| {
        *group == api.group || project.file.domain().is_some_and(|domain| format!("{group}.{domain}") == api.group)
    };
    if !args.group.as_ref().is_none_or(is_group) || args.version.as_ref().is_some_and(|it| *it != api.version) {
        bail!("the project has no {kind} of this group and version: it has {}", known());
    }
    Ok((api.clone(), files.clone()))
}

/// Removes the lines of the API. With `force`, lines that are at unexpected places stay.
fn remove_lines(changes: &mut Changes, file: &mut ProjectFile, api: &Api, force: Force) -> Result<()> {
    let mut problems = Vec::new();
    let version_file = api.version_file();
    // The list of versions comes last: a version goes with its last kind.
    let (versions, edits): (Vec<_>, Vec<_>) = api.edits().into_iter().partition(|(path, _)| path == VERSIONS);
    for (path, edit) in edits.into_iter().chain(versions) {
        let is_used = path == VERSIONS && changes.read(&version_file)?.is_some();
        let Some(before) = changes.read(&path)?.filter(|_| !is_used) else { continue };
        match edit.remove(&before) {
            Ok(after) if path == version_file && after == template::version_module(&api.version)? => {
                changes.delete(&path)?;
            }
            Ok(after) => {
                if file.files().iter().any(|file| file.path == path && file.is(&before)) {
                    file.set_file(&Generated::new(&path, &after));
                }
                changes.write(&path, after)?;
            }
            Err(problem) => problems.push(format!("  {path}, {}:\n    {}", problem.reason, edit.line())),
        }
    }
    if force == Force::No && !problems.is_empty() {
        bail!(
            "cannot remove these lines of {}. Nothing was deleted. Remove them by hand, then run the command again:\n{}",
            api.title(),
            problems.join("\n")
        );
    }
    Ok(())
}

/// Fails if other code of the project uses the kind.
fn check_references(root: &Path, changes: &Changes, api: &Api) -> Result<()> {
    let module = api.module();
    let mut found = BTreeSet::new();
    for folder in SOURCES {
        for path in rust_files(root, folder)? {
            let Some(text) = changes.read(&path)? else { continue };
            for parent in [api.version.as_str(), "controllers"] {
                let references = references(&text, parent, &module).into_iter();
                found.extend(references.map(|reference| format!("  {path}:{}: {}", reference.line, reference.path)));
            }
        }
    }
    if !found.is_empty() {
        bail!(
            "other code of the project uses {}, and would not compile without it:\n{}\nNothing was deleted. Change this \
             code first, or use --force",
            api.title(),
            found.into_iter().collect::<Vec<_>>().join("\n")
        );
    }
    Ok(())
}

/// The Rust files below a folder of the project, as paths within the project.
fn rust_files(root: &Path, folder: &str) -> Result<Vec<String>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let path = root.join(&folder);
        let entries = match fs::read_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            result => result.with_context(|| format!("cannot read the folder {}", path.display()))?,
        };
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot read the folder {}", path.display()))?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let kind = entry.file_type().with_context(|| format!("cannot read {}", entry.path().display()))?;
            let path = format!("{folder}/{name}");
            if kind.is_dir() && name != "target" {
                folders.push(path);
            } else if kind.is_file() && name.ends_with(".rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

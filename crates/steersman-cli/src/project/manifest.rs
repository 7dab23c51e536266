//! The `Cargo.toml` of a project.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use toml_edit::{DocumentMut, InlineTable, Item, Value};

use super::template::WORKSPACE;

/// The version of our crates, which have one together.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Where a project gets our crates from.
pub(crate) enum Crates {
    /// From crates.io.
    Registry,
    /// From a checkout, as a path that is absolute, or relative to the folder of the project.
    Checkout(PathBuf),
}

impl Crates {
    /// The crates of a checkout, which the user has named in the folder above that of the project.
    pub(crate) fn checkout(folder: &Path) -> Result<Self> {
        let manifest = folder.join("crates/steersman/Cargo.toml");
        if !manifest.is_file() {
            bail!(
                "{} is no checkout of steersman, {} is missing: correct --steersman-path",
                folder.display(),
                manifest.display()
            );
        }
        let is_absolute = folder.is_absolute();
        Ok(Self::Checkout(if is_absolute { folder.to_owned() } else { Path::new("..").join(folder) }))
    }

    /// As seen from a folder in that of the project.
    fn below(&self) -> Self {
        match self {
            Self::Checkout(folder) if folder.is_relative() => Self::Checkout(Path::new("..").join(folder)),
            Self::Checkout(folder) => Self::Checkout(folder.clone()),
            Self::Registry => Self::Registry,
        }
    }
}

/// The manifest of the operator, which is the root of its workspace.
pub(crate) fn root(template: &str, crates: &Crates) -> Result<String> {
    Ok(format!("{WORKSPACE}\n{}", member(template, crates)?))
}

/// The manifest of the program for development.
pub(crate) fn dev(template: &str, crates: &Crates) -> Result<String> {
    member(template, &crates.below())
}

/// The manifest with our crates from somewhere else than the checkout that the template is in.
fn member(template: &str, crates: &Crates) -> Result<String> {
    let mut manifest: DocumentMut = template.parse().context("the Cargo.toml of the template")?;
    for table in ["dependencies", "dev-dependencies"] {
        let Some(table) = manifest.get_mut(table).and_then(Item::as_table_mut) else { continue };
        for (name, dependency) in table.iter_mut() {
            let Some(settings) = dependency.as_inline_table_mut() else { continue };
            if settings.get("version").is_some() && settings.get("path").is_some() {
                let settings = of_ours(settings, name.get(), crates);
                *dependency = Item::Value(settings);
            }
        }
    }
    Ok(manifest.to_string())
}

/// The settings of one of our crates.
fn of_ours(template: &InlineTable, name: &str, crates: &Crates) -> Value {
    let features = template.get("features");
    let mut settings = InlineTable::new();
    match crates {
        Crates::Registry if features.is_none() => return VERSION.into(),
        Crates::Registry => settings.insert("version", VERSION.into()),
        Crates::Checkout(folder) => {
            settings.insert("path", folder.join("crates").join(name).display().to_string().into())
        }
    };
    if let Some(features) = features {
        settings.insert("features", features.clone());
    }
    settings.fmt();
    settings.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEMPLATE: &str = "[dependencies]\n# Why.\na = { version = \"9\", path = \"../../crates/a\" }\nserde = \"1\"\n\
        b = { version = \"9\", path = \"../../crates/b\", features = [\"x\"] }\nown = { path = \"..\" }\n";

    #[test]
    fn our_crates_come_from_the_registry_or_from_a_checkout() {
        let expected = format!(
            "[dependencies]\n# Why.\na = \"{VERSION}\"\nserde = \"1\"\n\
             b = {{ version = \"{VERSION}\", features = [\"x\"] }}\nown = {{ path = \"..\" }}\n"
        );
        assert_eq!(member(TEMPLATE, &Crates::Registry).unwrap(), expected);
        let expected = "[dependencies]\n# Why.\na = { path = \"../../s/crates/a\" }\nserde = \"1\"\n\
            b = { path = \"../../s/crates/b\", features = [\"x\"] }\nown = { path = \"..\" }\n";
        assert_eq!(member(TEMPLATE, &Crates::Checkout("../../s".into())).unwrap(), expected);
    }

    #[test]
    fn a_relative_checkout_is_relative_to_the_folder_of_each_manifest() {
        let crates = Crates::Checkout("../s".into());
        assert!(root(TEMPLATE, &crates).unwrap().contains("\"../s/crates/a\""));
        assert!(dev(TEMPLATE, &crates).unwrap().contains("\"../../s/crates/a\""));
        assert!(dev(TEMPLATE, &Crates::Checkout("/s".into())).unwrap().contains("\"/s/crates/a\""));
    }
}

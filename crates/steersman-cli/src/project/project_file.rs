//! `steersman.toml`: what the commands have been asked for, and what they have generated.

use std::fmt::Write;

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, value};

use super::{Api, FORMAT};

const HEADER: &str = "\
# Made by `steersman init`, `steersman create api` and `steersman delete api`: the answers, and the
# generated files with their SHA-256. Keep it in git.
";

/// A generated file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Generated {
    pub(crate) path: String,
    /// The SHA-256 of what was generated.
    digest: String,
}

impl Generated {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let digest = Sha256::digest(text).iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        Self { path: path.to_owned(), digest }
    }

    /// Whether a text is what was generated.
    pub(crate) fn is(&self, text: &str) -> bool {
        *self == Self::new(&self.path, text)
    }
}

/// The project file. Comments and the order of a user's edits stay.
pub(crate) struct ProjectFile {
    document: DocumentMut,
}

impl ProjectFile {
    pub(crate) const NAME: &str = "steersman.toml";

    /// That of a new project.
    pub(crate) fn new(name: &str, domain: Option<&str>) -> Self {
        let mut document = DocumentMut::new();
        document.insert("format", value(FORMAT));
        if let Some(mut key) = document.key_mut("format") {
            key.leaf_decor_mut().set_prefix(HEADER);
        }
        let mut project = Table::new();
        project.insert("name", value(name));
        if let Some(domain) = domain {
            project.insert("domain", value(domain));
        }
        document.insert("project", Item::Table(project));
        document.insert("files", Item::Table(Table::new()));
        Self { document }
    }

    /// Reads and checks it.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let document: DocumentMut = text.parse()?;
        let format = document.get("format").and_then(Item::as_integer).context("`format` is missing")?;
        if format != FORMAT {
            bail!("its format is {format}, and this version of steersman knows {FORMAT}: use a newer steersman");
        }
        let file = Self { document };
        file.name()?;
        file.apis()?;
        Ok(file)
    }

    pub(crate) fn to_text(&self) -> String {
        self.document.to_string()
    }

    /// The name of the project.
    pub(crate) fn name(&self) -> Result<&str> {
        self.project("name").context("`project.name` is missing")
    }

    pub(crate) fn domain(&self) -> Option<&str> {
        self.project("domain")
    }

    fn project(&self, key: &str) -> Option<&str> {
        self.document.get("project")?.get(key)?.as_str()
    }

    /// The files of the project, which belong to no API alone.
    pub(crate) fn files(&self) -> Vec<Generated> {
        self.document.get("files").map(generated).unwrap_or_default()
    }

    /// Adds or replaces a file of the project.
    pub(crate) fn set_file(&mut self, file: &Generated) {
        let files = self.document.entry("files").or_insert_with(|| Item::Table(Table::new()));
        if let Some(files) = files.as_table_mut() {
            files.insert(&file.path, value(&file.digest));
            files.sort_values();
        }
    }

    /// Removes a file of the project.
    pub(crate) fn remove_file(&mut self, path: &str) {
        if let Some(files) = self.document.get_mut("files").and_then(Item::as_table_mut) {
            files.remove(path);
        }
    }

    /// The APIs with their files.
    pub(crate) fn apis(&self) -> Result<Vec<(Api, Vec<Generated>)>> {
        let tables = self.document.get("api").and_then(Item::as_array_of_tables);
        tables.into_iter().flatten().map(api).collect()
    }

    /// Adds an API with its files.
    pub(crate) fn add_api(&mut self, api: &Api, files: &[Generated]) {
        let mut table = Table::new();
        for (key, text) in
            [("group", &api.group), ("version", &api.version), ("kind", &api.kind), ("plural", &api.plural)]
        {
            table.insert(key, value(text));
        }
        for (key, flag) in [("namespaced", api.namespaced), ("controller", api.controller), ("external", api.external)]
        {
            table.insert(key, value(flag));
        }
        let mut list = Table::new();
        files.iter().for_each(|file| drop(list.insert(&file.path, value(&file.digest))));
        table.insert("files", Item::Table(list));
        let apis = self.document.entry("api").or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
        if let Some(apis) = apis.as_array_of_tables_mut() {
            apis.push(table);
        }
    }

    /// Removes the API of a kind.
    pub(crate) fn remove_api(&mut self, kind: &str) {
        let Some(apis) = self.document.get_mut("api").and_then(Item::as_array_of_tables_mut) else { return };
        apis.retain(|table| table.get("kind").and_then(Item::as_str) != Some(kind));
        if apis.is_empty() {
            self.document.remove("api");
        }
    }
}

/// One API and its files.
fn api(table: &Table) -> Result<(Api, Vec<Generated>)> {
    let text = |key: &str| {
        let text = table.get(key).and_then(Item::as_str).with_context(|| format!("an [[api]] has no `{key}`"))?;
        ensure!(!text.is_empty(), "the `{key}` of an [[api]] is empty");
        Ok(text.to_owned())
    };
    let flag = |key: &str| {
        table.get(key).and_then(Item::as_bool).with_context(|| format!("an [[api]] has no `{key}`, true or false"))
    };
    let api = Api {
        group: text("group")?,
        version: text("version")?,
        kind: text("kind")?,
        plural: text("plural")?,
        namespaced: flag("namespaced")?,
        controller: flag("controller")?,
        external: flag("external")?,
    };
    Ok((api, table.get("files").map(generated).unwrap_or_default()))
}

/// The files of a table. Paths that lead out of the project are not ours.
fn generated(table: &Item) -> Vec<Generated> {
    let entries = table.as_table_like().into_iter().flat_map(|table| table.iter());
    let file = |(path, digest): (&str, &Item)| {
        let is_inside = !path.starts_with('/') && !path.split('/').any(|part| part == "..");
        is_inside.then(|| Generated { path: path.to_owned(), digest: digest.as_str().unwrap_or_default().to_owned() })
    };
    entries.filter_map(file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thing() -> Api {
        Api {
            group: "g.example.com".to_owned(),
            version: "v1".to_owned(),
            kind: "Thing".to_owned(),
            plural: "things".to_owned(),
            namespaced: true,
            controller: false,
            external: false,
        }
    }

    #[test]
    fn an_api_that_is_added_and_removed_leaves_no_trace() {
        let mut file = ProjectFile::new("web", Some("example.com"));
        file.set_file(&Generated::new("src/lib.rs", "text"));
        let before = file.to_text();
        let files = [Generated::new("a", "text"), Generated::new("b/c.d", "text")];
        file.add_api(&thing(), &files);
        let mut read = ProjectFile::parse(&file.to_text()).unwrap();
        assert_eq!(read.apis().unwrap(), [(thing(), files.to_vec())]);
        assert_eq!((read.name().unwrap(), read.domain()), ("web", Some("example.com")));
        read.remove_api("Thing");
        assert_eq!(read.to_text(), before);
        assert!(before.starts_with(HEADER) && before.contains("\n[files]\n\"src/lib.rs\" = \""), "{before}");
    }

    #[test]
    fn a_digest_is_that_of_the_text() {
        let file = Generated::new("a", "abc");
        assert_eq!(file.digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert!(file.is("abc") && !file.is("abcd"));
    }

    #[test]
    fn a_file_that_is_damaged_or_newer_is_an_error_that_names_the_place() {
        let good = ProjectFile::new("web", None).to_text();
        let cases = [
            ("", "`format` is missing"),
            ("format = 2\n", "use a newer steersman"),
            ("format = 1\n", "`project.name` is missing"),
            ("format = ", "TOML parse error"),
            (&format!("{good}\n[[api]]\ngroup = \"g\"\n"), "an [[api]] has no `version`"),
            (&format!("{good}\n[[api]]\ngroup = \"\"\n"), "the `group` of an [[api]] is empty"),
        ];
        for (text, message) in cases {
            let error = ProjectFile::parse(text).err().unwrap();
            assert!(format!("{error:#}").contains(message), "{error:#}");
        }
    }

    #[test]
    fn paths_out_of_the_project_are_not_ours() {
        let text = format!(
            "{}\"../../etc/a\" = \"\"\n\"/etc/b\" = \"\"\n\"c\" = \"\"\n",
            ProjectFile::new("w", None).to_text()
        );
        let files: Vec<String> = ProjectFile::parse(&text).unwrap().files().into_iter().map(|file| file.path).collect();
        assert_eq!(files, ["c"]);
    }
}

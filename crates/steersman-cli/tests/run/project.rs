//! A project whose cargo is a script, and a session of `steersman run` in it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use k8s_openapi::api::core::v1::ConfigMap;
use nix::unistd::Pid;
use serde_json::json;
use steersman_client::{Client, ObjectMeta, PostParams, config_from_flags};
use tempfile::TempDir;

use crate::common::{Running, steersman};
use crate::operator::{ARGUMENTS, SOURCE};

/// Links the operator if its source has changed. The source decides what happens.
const CARGO: &str = r#"#!/bin/sh
case $1 in
metadata)
    grep -q broken Cargo.toml && { echo 'error: broken' >&2; exit 101; }
    exec cat metadata.json ;;
build) ;;
*) echo "unexpected arguments: $*" >&2; exit 1 ;;
esac
echo '   Compiling guestbook v0.1.0' >&2
if grep -q 'syntax error' src/main.rs; then
    echo 'error: expected one of `!` or `::`' >&2
    echo '{"reason":"build-finished","success":false}'
    exit 101
fi
if grep -q 'without an end' src/main.rs; then
    echo "the build is process $$" >&2
    exec tail -f /dev/null
fi
mkdir -p target
cat crd.sh > target/linked
{ printf "SOURCE='"; cat src/main.rs; printf "'\n"; cat operator.sh; } >> target/linked
chmod +x target/linked
cmp -s target/linked target/guestbook || mv target/linked target/guestbook
echo '{"reason":"compiler-artifact","target":{"name":"guestbook","kind":["bin"]},"executable":"'"$PWD"'/target/guestbook"}'
echo '{"reason":"build-finished","success":true}'
"#;

const CRD: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: TYPE}}}}}}
"#;

/// The sample with this name.
pub(crate) fn sample(name: &str) -> String {
    format!("apiVersion: example.com/v1\nkind: Widget\nmetadata: {{name: {name}}}\nspec: {{size: 1}}\n")
}

/// A project in a temporary folder.
pub(crate) struct Project(TempDir);

impl Project {
    /// A project with this text as its only source.
    pub(crate) fn new(source: &str) -> Self {
        let project = Self(tempfile::tempdir().unwrap());
        let manifest = project.folder().join("Cargo.toml");
        let target = json!({"name": "guestbook", "kind": ["bin"]});
        let package = json!({"name": "guestbook", "manifest_path": manifest, "targets": [target]});
        let test = std::env::current_exe().unwrap();
        // The output of the test binary has more lines than that of its operator.
        let operator = format!(
            "if [ \"$1\" = crd ]; then\n\
             case $SOURCE in *'no CRD'*) echo 'error: it has no CRD' >&2; exit 1 ;; *invalid*) type=nothing ;; *) \
             type=integer ;; esac\n\
             crd | sed \"s/TYPE/$type/\"; exit 0; fi\n\
             export {SOURCE}=\"$SOURCE\" {ARGUMENTS}=\"$(printf '%s\\n' \"$@\")\"\n\
             exec '{}' --exact operator::operator --nocapture\n",
            test.display()
        );
        for (file, text) in [
            ("steersman.toml", ""),
            ("Cargo.toml", ""),
            ("src/main.rs", source),
            ("samples/widget.yaml", &sample("sample")),
            ("metadata.json", &json!({"packages": [package]}).to_string()),
            ("cargo", CARGO),
            ("crd.sh", &format!("#!/bin/sh\ncrd() {{ cat <<'END'{CRD}END\n}}\n")),
            ("operator.sh", &operator),
        ] {
            project.write(file, text);
        }
        fs::set_permissions(project.folder().join("cargo"), fs::Permissions::from_mode(0o700)).unwrap();
        project
    }

    pub(crate) fn folder(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file as editors do: as a whole.
    pub(crate) fn write(&self, file: &str, text: &str) {
        let path = self.folder().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let temporary = self.folder().join(".written");
        fs::write(&temporary, text).unwrap();
        fs::rename(temporary, path).unwrap();
    }

    /// `steersman run` in the project.
    pub(crate) fn command(&self) -> Command {
        let mut command = steersman();
        command.arg("run").current_dir(self.folder()).env("CARGO", self.folder().join("cargo"));
        command
    }

    pub(crate) async fn create_map(&self, client: &Client, name: &str) {
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let map = ConfigMap { metadata, ..ConfigMap::default() };
        client.namespaced("default").create(&PostParams::default(), &map).await.unwrap();
    }
}

/// A running `steersman run`, with what it has printed.
pub(crate) struct Session {
    running: Running,
    lines: Vec<String>,
}

impl Session {
    pub(crate) fn start(project: &Project, flags: &[&str]) -> Self {
        Self::start_with(project, flags, |_| {})
    }

    pub(crate) fn start_with(project: &Project, flags: &[&str], prepare: impl FnOnce(&mut Command)) -> Self {
        let mut command = project.command();
        command.args(flags);
        prepare(&mut command);
        Self { running: Running::spawn(&mut command), lines: Vec::new() }
    }

    /// Reads on until a line contains `text`. Returns the lines that were read.
    #[track_caller]
    pub(crate) fn until(&mut self, text: &str) -> Vec<String> {
        let start = self.lines.len();
        loop {
            let line = match self.running.next_line() {
                Ok(line) => line,
                Err(why) => panic!("{why}: no line with {text:?} in:\n{}", self.lines.join("\n")),
            };
            let is_it = line.contains(text);
            self.lines.push(line);
            if is_it {
                return self.lines[start..].to_vec();
            }
        }
    }

    /// Reads on until each text was in a line, in any order.
    #[track_caller]
    pub(crate) fn until_all(&mut self, texts: &[&str]) {
        let start = self.lines.len();
        for text in texts {
            if !self.lines[start..].iter().any(|line| line.contains(text)) {
                self.until(text);
            }
        }
    }

    /// The last line that contains `text`.
    #[track_caller]
    pub(crate) fn seen(&self, text: &str) -> &str {
        self.lines.iter().rfind(|line| line.contains(text)).unwrap_or_else(|| panic!("{text:?} was not printed"))
    }

    /// What was read.
    pub(crate) fn lines(&self) -> &[String] {
        &self.lines
    }

    /// The process id of the command.
    pub(crate) fn pid(&self) -> Pid {
        self.running.pid()
    }

    /// The process id of the operator that was started last.
    pub(crate) fn operator(&self) -> Pid {
        let line = self.seen("steersman: started guestbook, process ");
        Pid::from_raw(line.rsplit(' ').next().unwrap().parse().unwrap())
    }

    /// The folder of the kubeconfig.
    pub(crate) fn folder(&self) -> PathBuf {
        let (_, path) = self.seen("for kubectl: export KUBECONFIG=").rsplit_once('=').unwrap();
        Path::new(path).parent().unwrap().to_owned()
    }

    /// A client of the server in the command.
    pub(crate) async fn client(&mut self) -> Client {
        self.until("for kubectl: export KUBECONFIG=");
        client(&self.folder().join("kubeconfig")).await
    }

    /// Waits for the end of the command.
    pub(crate) fn end(&mut self) -> ExitStatus {
        while let Ok(line) = self.running.next_line() {
            self.lines.push(line);
        }
        self.running.wait()
    }
}

pub(crate) async fn client(kubeconfig: &Path) -> Client {
    Client::builder(config_from_flags(None, Some(kubeconfig)).await.unwrap()).build().unwrap()
}

/// The data of a ConfigMap: the source of the operator that wrote it. Empty if it has none.
pub(crate) async fn data(client: &Client, name: &str) -> Option<String> {
    let map = client.namespaced::<ConfigMap>("default").get_opt(name).await.unwrap()?;
    Some(map.data.and_then(|mut data| data.remove("source")).unwrap_or_default())
}

/// Whether a process has ended. It may still wait for its parent.
pub(crate) fn is_gone(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    matches!(state, None | Some('Z'))
}

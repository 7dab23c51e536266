//! A real Neutron for tests, and a real Keystone with it. `cargo xtask servers` installs them.
//!
//! They are the released versions, on SQLite and without agents: the whole API, but no network that
//! carries packets. A start takes about four seconds, because the tables are a copy of those from
//! the installation.

mod home;

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use http::{HeaderMap, Method};
use socket2::{Domain, Socket, Type};
use tempfile::TempDir;

pub use self::home::{KEYSTONE_VERSION, NEUTRON_VERSION};
use crate::transport::Transport;
use crate::{Auth, IdOrName};

/// How long a start may take. On two busy cores it takes about ten seconds.
const START_TIMEOUT: Duration = Duration::from_secs(90);
/// The interval of readiness checks.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const LOG_LINES_SHOWN: usize = 20;

/// Whether the Neutron has authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Every client is an administrator.
    NoAuth,
    /// A Keystone with an administrator (`admin`) and the projects `p1` and `p2`, each with one
    /// user of the same name.
    Keystone,
}

/// A Neutron in a process of its own, with its data in a temporary folder. Both end when this is
/// dropped, and also when the process that holds it ends in any way.
#[derive(Debug)]
pub struct RealNeutron {
    neutron: Server,
    keystone: Option<Server>,
    folder: TempDir,
}

impl RealNeutron {
    /// Starts it and waits until it responds.
    pub async fn start(mode: Mode) -> io::Result<Self> {
        Self::start_with_tokens_for(mode, Duration::from_secs(3600)).await
    }

    /// The same with tokens that expire after this time. Neutron caches the validity of a token for
    /// a twentieth of that time.
    pub async fn start_with_tokens_for(mode: Mode, lifetime: Duration) -> io::Result<Self> {
        let home = installed()?;
        // It contains keys and tokens: only the owner has access.
        let folder = tempfile::Builder::new()
            .prefix("steersman-neutron-")
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir()?;
        let mut neutron = Server::new("neutron", "/healthcheck", &home, folder.path())?;
        let mut keystone = match mode {
            Mode::NoAuth => None,
            Mode::Keystone => Some(Server::new("keystone", "/v3", &home, folder.path())?),
        };
        copy_folder(&home.join("data"), folder.path())?;
        let settings = [
            ("@AUTH@", if keystone.is_some() { "keystone" } else { "noauth" }.to_owned()),
            ("@FOLDER@", folder.path().display().to_string()),
            ("@VENV@", home.join("venv").display().to_string()),
            (
                "@KEYSTONE@",
                keystone.as_ref().map_or("http://127.0.0.1/v3".to_owned(), |keystone| format!("{}/v3", keystone.url)),
            ),
            ("@TOKEN_SECONDS@", lifetime.as_secs().to_string()),
            ("@TOKEN_CACHE_SECONDS@", (lifetime / 20).as_secs().max(1).to_string()),
        ];
        let configure = |name: &str, template: &str| {
            let text = settings.iter().fold(template.to_owned(), |text, (mark, value)| text.replace(mark, value));
            fs::write(folder.path().join(name), text)
        };
        configure("neutron.conf", include_str!("../server/neutron.conf"))?;
        configure("keystone.conf", include_str!("../server/keystone.conf"))?;
        configure("serve.py", include_str!("../server/serve.py"))?;
        if let Some(keystone) = &mut keystone {
            set_endpoint(&home, folder.path(), "network", &neutron.url)?;
            set_endpoint(&home, folder.path(), "identity", &format!("{}/v3", keystone.url))?;
            keystone.launch()?;
        }
        neutron.launch()?;
        for server in keystone.iter_mut().chain([&mut neutron]) {
            server.wait_until_ready().await?;
        }
        Ok(Self { neutron, keystone, folder })
    }

    /// The address of Neutron.
    pub fn url(&self) -> &str {
        &self.neutron.url
    }

    /// The address of Keystone, if there is one.
    pub fn keystone_url(&self) -> Option<&str> {
        self.keystone.as_ref().map(|keystone| keystone.url.as_str())
    }

    /// The credentials of the user of the project `p1` or `p2`, or of `admin`; [`Auth::None`]
    /// without Keystone.
    pub fn auth(&self, project: &str) -> Auth {
        let Some(keystone) = &self.keystone else { return Auth::None };
        let domain = IdOrName::Id("default".to_owned());
        Auth::Password {
            auth_url: keystone.url.clone(),
            username: project.to_owned(),
            password: if project == "admin" { "secret".to_owned() } else { format!("{project}pass") },
            user_domain: domain.clone(),
            project: IdOrName::Name(project.to_owned()),
            project_domain: domain,
        }
    }

    /// The folder with the data and the logs of the servers.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Kills Neutron, as a crash would. Its data stays.
    pub fn stop(&mut self) {
        self.neutron.kill();
    }

    /// Starts a stopped Neutron again, at the same address and with its data.
    pub async fn start_again(&mut self) -> io::Result<()> {
        self.neutron.launch()?;
        self.neutron.wait_until_ready().await
    }

    /// Kills Keystone. Its data stays.
    pub fn stop_keystone(&mut self) {
        if let Some(keystone) = &mut self.keystone {
            keystone.kill();
        }
    }

    /// Starts a stopped Keystone again, at the same address and with its data.
    pub async fn start_keystone_again(&mut self) -> io::Result<()> {
        let Some(keystone) = &mut self.keystone else { return Ok(()) };
        keystone.launch()?;
        keystone.wait_until_ready().await
    }
}

/// One of the two servers.
#[derive(Debug)]
struct Server {
    name: &'static str,
    /// The response when it is ready.
    ready_path: &'static str,
    python: PathBuf,
    folder: PathBuf,
    url: String,
    /// Reserves the port: it never listens, and the server binds with `SO_REUSEPORT`.
    reserved: Socket,
    child: Option<Child>,
}

impl Server {
    fn new(name: &'static str, ready_path: &'static str, home: &Path, folder: &Path) -> io::Result<Self> {
        let reserved = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        reserved.set_reuse_port(true)?;
        reserved.bind(&SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0).into())?;
        let (python, folder) = (python(home), folder.to_owned());
        let mut server = Self { name, ready_path, python, folder, url: String::new(), reserved, child: None };
        server.url = format!("http://127.0.0.1:{}", server.port()?);
        Ok(server)
    }

    fn port(&self) -> io::Result<u16> {
        let address = self.reserved.local_addr()?.as_socket();
        address.map(|address| address.port()).ok_or_else(|| io::Error::other("a socket without a port"))
    }

    fn launch(&mut self) -> io::Result<()> {
        self.kill();
        let log = File::options().create(true).append(true).open(self.log_path())?;
        let mut command = Command::new(&self.python);
        command
            .arg(self.folder.join("serve.py"))
            .arg(self.name)
            .arg(&self.folder)
            .arg(self.port()?.to_string())
            .env("PYTHONWARNINGS", "ignore")
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log);
        self.child = Some(command.spawn()?);
        Ok(())
    }

    async fn wait_until_ready(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        let transport = Transport::new(None, Duration::from_secs(10));
        let url = format!("{}{}", self.url, self.ready_path);
        loop {
            let answer = transport.send(Method::GET, &url, HeaderMap::new(), None).await;
            let problem = match answer {
                Ok(answer) if answer.status.is_success() => return Ok(()),
                Ok(answer) => answer.refusal().to_string(),
                Err(error) => error.to_string(),
            };
            let ended = self.child.as_mut().map(Child::try_wait).transpose()?.flatten();
            if ended.is_some() || Instant::now() > deadline {
                let how =
                    ended.map_or_else(|| format!("not ready in time: {problem}"), |status| format!("ended ({status})"));
                return Err(io::Error::other(format!("{}: {how}\n{}", self.name, self.log_tail())));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn log_path(&self) -> PathBuf {
        self.folder.join(format!("{}.log", self.name))
    }

    fn log_tail(&self) -> String {
        let text =
            fs::read(self.log_path()).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
    }
}

impl Drop for Server {
    /// A test that fails shows the last log lines of its servers.
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("--- the end of the log of {}\n{}", self.name, self.log_tail());
        }
    }
}

/// The folder of the installation.
fn installed() -> io::Result<PathBuf> {
    let home = home::folder().unwrap_or_default();
    if python(&home).exists() {
        return Ok(home);
    }
    let message = format!("no Neutron at {}: run `cargo xtask servers`", home.display());
    Err(io::Error::new(io::ErrorKind::NotFound, message))
}

fn python(home: &Path) -> PathBuf {
    home.join("venv/bin/python")
}

/// Sets the endpoints of a service in Keystone's catalogue.
const SET_ENDPOINT: &str = "
import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as data:
    data.execute('UPDATE endpoint SET url = ? WHERE service_id IN (SELECT id FROM service WHERE type = ?)', sys.argv[2:])
";

fn set_endpoint(home: &Path, folder: &Path, service: &str, url: &str) -> io::Result<()> {
    let mut command = Command::new(python(home));
    let output =
        command.args(["-c", SET_ENDPOINT]).arg(folder.join("keystone.sqlite")).args([url, service]).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("cannot set Keystone's endpoint: {}", String::from_utf8_lossy(&output.stderr))))
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

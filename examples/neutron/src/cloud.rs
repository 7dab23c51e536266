use std::path::PathBuf;
use std::time::Duration;

use crate::Error;

/// Which Neutron, and who we are there: what the variables `OS_*` and the file `clouds.yaml` say.
#[derive(Clone, Debug)]
pub struct Cloud {
    /// Who we are.
    pub auth: Auth,
    /// Neutron's address. Without one it is taken from Keystone's catalogue.
    pub endpoint: Option<String>,
    /// The region to take from the catalogue; without one, the first.
    pub region: Option<String>,
    /// Which of its endpoints: `public`, `internal` or `admin`.
    pub interface: String,
    /// Certificates (PEM) to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// How long one request may take.
    pub timeout: Duration,
}

/// Who we are.
#[derive(Clone)]
pub enum Auth {
    /// A Neutron that asks nobody who they are.
    None,
    /// A user of Keystone, version 3.
    Password {
        /// Keystone's address.
        auth_url: String,
        /// The user.
        username: String,
        /// Their password.
        password: String,
        /// The project that networks are made in.
        project_name: String,
        /// The name of the user's domain.
        user_domain: String,
        /// The name of the project's domain.
        project_domain: String,
    },
    /// A credential that a user of Keystone made for a program. It is of one project.
    ApplicationCredential {
        /// Keystone's address.
        auth_url: String,
        /// The credential.
        id: String,
        /// Its secret.
        secret: String,
    },
}

impl Cloud {
    /// What is usual: public endpoint, 10 s.
    pub fn new(auth: Auth) -> Self {
        let interface = "public".to_owned();
        Self { auth, endpoint: None, region: None, interface, ca_file: None, timeout: Duration::from_secs(10) }
    }

    /// From the variables `OS_*`; from `clouds.yaml` if `OS_CLOUD` names one.
    pub fn from_env() -> Result<Self, Error> {
        todo!()
    }

    /// The cloud `name` of `clouds.yaml`.
    pub fn from_clouds_yaml(_name: &str) -> Result<Self, Error> {
        todo!()
    }
}

/// Without passwords.
impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Password { auth_url, username, project_name, .. } => f
                .debug_struct("Password")
                .field("auth_url", auth_url)
                .field("username", username)
                .field("project_name", project_name)
                .finish_non_exhaustive(),
            Self::ApplicationCredential { auth_url, id, .. } => f
                .debug_struct("ApplicationCredential")
                .field("auth_url", auth_url)
                .field("id", id)
                .finish_non_exhaustive(),
        }
    }
}

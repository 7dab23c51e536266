use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::Error;

/// The address and the credentials of a Neutron, from the variables `OS_*` or the file
/// `clouds.yaml`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cloud {
    /// The credentials.
    pub auth: Auth,
    /// Neutron's address. Without one it is taken from Keystone's catalogue.
    pub endpoint: Option<String>,
    /// The region to take from the catalogue; without one, the first.
    pub region: Option<String>,
    /// The interface of the endpoint: `public`, `internal` or `admin`.
    pub interface: String,
    /// Certificates (PEM) to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// How long one request may take.
    pub timeout: Duration,
}

/// The credentials.
#[derive(Clone, PartialEq, Eq)]
pub enum Auth {
    /// A Neutron without authentication.
    None,
    /// A user of Keystone, version 3.
    Password {
        /// Keystone's address.
        auth_url: String,
        /// The user.
        username: String,
        /// Their password.
        password: String,
        /// The user's domain.
        user_domain: IdOrName,
        /// The project to create networks in.
        project: IdOrName,
        /// The project's domain; an id of a project needs none.
        project_domain: IdOrName,
    },
    /// A credential that a user of Keystone created for a program. It belongs to one project.
    ApplicationCredential {
        /// Keystone's address.
        auth_url: String,
        /// The credential.
        id: String,
        /// Its secret.
        secret: String,
    },
}

/// How a project or a domain is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdOrName {
    /// By its id.
    Id(String),
    /// By its name.
    Name(String),
}

impl Cloud {
    /// The defaults: public endpoint, any region, 10 s.
    pub fn new(auth: Auth) -> Self {
        let interface = "public".to_owned();
        Self { auth, endpoint: None, region: None, interface, ca_file: None, timeout: Duration::from_secs(10) }
    }

    /// From the variables `OS_*`, as the OpenStack command line uses them. If `OS_CLOUD` is set, it
    /// names a cloud of `clouds.yaml`, and the other variables are ignored.
    pub fn from_env() -> Result<Self, Error> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        match variable("OS_CLOUD") {
            Some(name) => Self::from_clouds_yaml(&name),
            None => Self::from_settings(&Environment(&variable)),
        }
    }

    /// The cloud `name` of `clouds.yaml`. The file is searched as in openstacksdk: the file that
    /// `OS_CLIENT_CONFIG_FILE` names, then this folder, `~/.config/openstack` and `/etc/openstack`.
    /// The content of a `secure.yaml` there is added.
    pub fn from_clouds_yaml(name: &str) -> Result<Self, Error> {
        let named = |variable: &str| std::env::var_os(variable).map(PathBuf::from);
        let folders = config_folders();
        let clouds = find("clouds", named("OS_CLIENT_CONFIG_FILE"), &folders).ok_or_else(|| {
            let places: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
            Error::Config(format!("there is no clouds.yaml in {}", places.join(", ")))
        })?;
        let secure = find("secure", named("OS_CLIENT_SECURE_FILE"), &folders);
        Self::from_files(name, &clouds, secure.as_deref())
    }

    fn from_files(name: &str, clouds: &Path, secure: Option<&Path>) -> Result<Self, Error> {
        let bad = |reason: String| Error::File { path: clouds.to_owned(), reason };
        let mut cloud = read_clouds(clouds)?
            .get_mut(name)
            .map(Value::take)
            .ok_or_else(|| bad(format!("there is no cloud named {name:?} in it")))?;
        if let Some(secure) = secure {
            merge(&mut cloud, read_clouds(secure)?[name].take());
        }
        if cloud.get("profile").is_some() {
            return Err(bad(format!(
                "the cloud {name:?} has a profile, which is not supported: write its values here"
            )));
        }
        Self::from_settings(&CloudsYaml(&cloud)).map_err(|error| bad(format!("the cloud {name:?}: {error}")))
    }

    fn from_settings(settings: &dyn Settings) -> Result<Self, Error> {
        let get = |name: &str| settings.get(name);
        if get("verify").is_some_and(|verify| verify == "false")
            || get("insecure").is_some_and(|on| on == "true" || on == "1")
        {
            return Err(Error::Config("certificates are always verified: name the authority's with cacert".to_owned()));
        }
        let auth = read_auth(settings)?;
        let endpoint = get("network_endpoint_override").or_else(|| match auth {
            Auth::None => get("endpoint"),
            _ => None,
        });
        if auth == Auth::None && endpoint.is_none() {
            return Err(missing(settings, &["endpoint"]));
        }
        let defaults = Self::new(auth);
        // The old names are publicURL and so on.
        let interface = get("interface").or_else(|| get("endpoint_type"));
        let timeout = get("api_timeout").map(|seconds| {
            let seconds = seconds.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            seconds
                .filter(|timeout| !timeout.is_zero())
                .ok_or_else(|| Error::Config("api_timeout is a number of seconds".to_owned()))
        });
        Ok(Self {
            endpoint,
            region: get("region_name"),
            interface: interface.map_or(defaults.interface, |name| name.trim_end_matches("URL").to_owned()),
            ca_file: get("cacert").map(PathBuf::from),
            timeout: timeout.transpose()?.unwrap_or(defaults.timeout),
            ..Self::new(defaults.auth)
        })
    }
}

/// The source of a setting. Names are those of `clouds.yaml`; as a variable, `auth_url` is
/// `OS_AUTH_URL`.
trait Settings {
    fn get(&self, name: &str) -> Option<String>;
    /// The name of the setting for the user.
    fn shown(&self, name: &str) -> String;
}

struct Environment<'a>(&'a dyn Fn(&str) -> Option<String>);

impl Settings for Environment<'_> {
    fn get(&self, name: &str) -> Option<String> {
        (self.0)(&self.shown(name))
    }

    fn shown(&self, name: &str) -> String {
        format!("OS_{}", name.to_uppercase())
    }
}

struct CloudsYaml<'a>(&'a Value);

impl Settings for CloudsYaml<'_> {
    fn get(&self, name: &str) -> Option<String> {
        let value = self.0.get("auth").and_then(|auth| auth.get(name)).or_else(|| self.0.get(name))?;
        match value {
            Value::String(text) => Some(text.clone()),
            // A password of digits without quotes.
            Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
            _ => None,
        }
    }

    fn shown(&self, name: &str) -> String {
        name.to_owned()
    }
}

fn read_auth(settings: &dyn Settings) -> Result<Auth, Error> {
    let get = |name: &str| settings.get(name);
    let type_ = get("auth_type").unwrap_or_else(|| {
        let credential = get("application_credential_id").is_some();
        if credential { "v3applicationcredential" } else { "password" }.to_owned()
    });
    match type_.as_str() {
        "none" | "noauth" => Ok(Auth::None),
        "v3applicationcredential" => {
            let names = ["auth_url", "application_credential_id", "application_credential_secret"];
            let [Some(auth_url), Some(id), Some(secret)] = names.map(get) else {
                return Err(missing(settings, &names));
            };
            Ok(Auth::ApplicationCredential { auth_url, id, secret })
        }
        "password" | "v3password" => {
            let names = ["auth_url", "username", "password"];
            let [Some(auth_url), Some(username), Some(password)] = names.map(get) else {
                return Err(missing(settings, &names));
            };
            let project = id_or_name(settings, "project").or_else(|| get("tenant_name").map(IdOrName::Name));
            let project = project.ok_or_else(|| missing(settings, &["project_name"]))?;
            let domain = |name: &str| {
                let domain = id_or_name(settings, name).or_else(|| get("default_domain").map(IdOrName::Id));
                // The domain of a Keystone without other domains.
                domain.unwrap_or_else(|| IdOrName::Id("default".to_owned()))
            };
            let (user_domain, project_domain) = (domain("user_domain"), domain("project_domain"));
            Ok(Auth::Password { auth_url, username, password, user_domain, project, project_domain })
        }
        other => Err(Error::Config(format!(
            "{} is {other:?}; known are password, v3applicationcredential and none",
            settings.shown("auth_type")
        ))),
    }
}

fn id_or_name(settings: &dyn Settings, of: &str) -> Option<IdOrName> {
    let id = settings.get(&format!("{of}_id")).map(IdOrName::Id);
    id.or_else(|| settings.get(&format!("{of}_name")).map(IdOrName::Name))
}

fn missing(settings: &dyn Settings, names: &[&str]) -> Error {
    let missing: Vec<_> =
        names.iter().filter(|name| settings.get(name).is_none()).map(|name| settings.shown(name)).collect();
    Error::Config(format!("not set: {}", missing.join(", ")))
}

fn config_folders() -> Vec<PathBuf> {
    let home = std::env::home_dir().map(|home| home.join(".config/openstack"));
    [Some(PathBuf::from(".")), home, Some(PathBuf::from("/etc/openstack"))].into_iter().flatten().collect()
}

fn find(stem: &str, named: Option<PathBuf>, folders: &[PathBuf]) -> Option<PathBuf> {
    let in_folder = |folder: &PathBuf| ["yaml", "yml", "json"].map(|ending| folder.join(format!("{stem}.{ending}")));
    named.into_iter().chain(folders.iter().flat_map(in_folder)).find(|path| path.is_file())
}

/// The clouds in a file, by name.
fn read_clouds(path: &Path) -> Result<Value, Error> {
    let bad = |reason: String| Error::File { path: path.to_owned(), reason };
    let text = std::fs::read_to_string(path).map_err(|reason| bad(reason.to_string()))?;
    let mut file: Value = serde_saphyr::from_str(&text).map_err(|reason| bad(reason.to_string()))?;
    match file.get_mut("clouds").map(Value::take) {
        Some(clouds @ Value::Object(_)) => Ok(clouds),
        _ => Err(bad("there are no clouds in it".to_owned())),
    }
}

/// Merges `more` into `value`. `more` takes precedence.
fn merge(value: &mut Value, more: Value) {
    match (value, more) {
        (Value::Object(value), Value::Object(more)) => {
            for (name, more) in more {
                merge(value.entry(name).or_insert(Value::Null), more);
            }
        }
        (_, Value::Null) => {}
        (value, more) => *value = more,
    }
}

impl Auth {
    /// Keystone's address.
    pub(crate) fn url(&self) -> Option<&str> {
        match self {
            Self::None => None,
            Self::Password { auth_url, .. } | Self::ApplicationCredential { auth_url, .. } => Some(auth_url),
        }
    }
}

/// Without passwords.
impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Password { auth_url, username, project, .. } => f
                .debug_struct("Password")
                .field("auth_url", auth_url)
                .field("username", username)
                .field("project", project)
                .finish_non_exhaustive(),
            Self::ApplicationCredential { auth_url, id, .. } => f
                .debug_struct("ApplicationCredential")
                .field("auth_url", auth_url)
                .field("id", id)
                .finish_non_exhaustive(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Result<Cloud, Error> {
        let get = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        Cloud::from_settings(&Environment(&get))
    }

    fn name(name: &str) -> IdOrName {
        IdOrName::Name(name.to_owned())
    }

    fn id(id: &str) -> IdOrName {
        IdOrName::Id(id.to_owned())
    }

    /// A user of the project `lab`.
    fn password(user_domain: IdOrName, project: IdOrName, project_domain: IdOrName) -> Auth {
        let [auth_url, username, password] = ["http://k/v3", "me", "secret"].map(str::to_owned);
        Auth::Password { auth_url, username, password, user_domain, project, project_domain }
    }

    const LOGIN: [(&str, &str); 3] = [("OS_AUTH_URL", "http://k/v3"), ("OS_USERNAME", "me"), ("OS_PASSWORD", "secret")];

    #[test]
    fn the_usual_variables_are_understood() {
        let variables = [
            &LOGIN[..],
            &[
                ("OS_PROJECT_NAME", "lab"),
                ("OS_USER_DOMAIN_NAME", "people"),
                ("OS_PROJECT_DOMAIN_ID", "d1"),
                ("OS_REGION_NAME", "west"),
                ("OS_INTERFACE", "internal"),
                ("OS_CACERT", "ca.pem"),
            ],
        ]
        .concat();
        let cloud = environment(&variables).unwrap();
        let expected = Cloud {
            region: Some("west".to_owned()),
            interface: "internal".to_owned(),
            ca_file: Some("ca.pem".into()),
            ..Cloud::new(password(name("people"), name("lab"), id("d1")))
        };
        assert_eq!(cloud, expected);
    }

    #[test]
    fn what_is_left_out_has_the_usual_values() {
        let cloud =
            environment(&[&LOGIN[..], &[("OS_PROJECT_ID", "4711"), ("OS_ENDPOINT_TYPE", "publicURL")]].concat());
        assert_eq!(cloud.unwrap(), Cloud::new(password(id("default"), id("4711"), id("default"))));
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = environment(&[("OS_USERNAME", "me")]).unwrap_err();
        assert_eq!(error.to_string(), "not set: OS_AUTH_URL, OS_PASSWORD");
        let error = environment(&LOGIN).unwrap_err();
        assert_eq!(error.to_string(), "not set: OS_PROJECT_NAME");
        let error = environment(&[("OS_AUTH_TYPE", "none")]).unwrap_err();
        assert_eq!(error.to_string(), "not set: OS_ENDPOINT");
        let error = environment(&[("OS_AUTH_TYPE", "v3oidc")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "OS_AUTH_TYPE is \"v3oidc\"; known are password, v3applicationcredential and none"
        );
    }

    #[test]
    fn application_credentials_and_no_authentication_at_all() {
        let credential = [
            ("OS_AUTH_URL", "http://k"),
            ("OS_APPLICATION_CREDENTIAL_ID", "i"),
            ("OS_APPLICATION_CREDENTIAL_SECRET", "s"),
        ];
        let [auth_url, id, secret] = ["http://k", "i", "s"].map(str::to_owned);
        assert_eq!(environment(&credential).unwrap().auth, Auth::ApplicationCredential { auth_url, id, secret });

        let none = environment(&[("OS_AUTH_TYPE", "none"), ("OS_ENDPOINT", "http://n:9696")]).unwrap();
        assert_eq!(none, Cloud { endpoint: Some("http://n:9696".to_owned()), ..Cloud::new(Auth::None) });
    }

    #[test]
    fn unverified_certificates_are_refused_rather_than_accepted_in_silence() {
        assert!(environment(&[&LOGIN[..], &[("OS_PROJECT_NAME", "lab"), ("OS_INSECURE", "true")]].concat()).is_err());
    }

    #[test]
    fn a_cloud_of_clouds_yaml_is_read_with_its_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let clouds = folder.path().join("clouds.yaml");
        let secure = folder.path().join("secure.yaml");
        let text = "clouds:\n  lab:\n    auth:\n      auth_url: http://k/v3\n      username: me\n      project_name: lab\n      \
                    user_domain_name: Default\n      project_domain_name: Default\n    region_name: west\n    api_timeout: 2.5\n  \
                    odd:\n    profile: acme\n";
        std::fs::write(&clouds, text).unwrap();
        std::fs::write(&secure, "clouds:\n  lab:\n    auth:\n      password: 12345\n").unwrap();

        let cloud = Cloud::from_files("lab", &clouds, Some(&secure)).unwrap();
        let Auth::Password { password, project, user_domain, .. } = &cloud.auth else { panic!("{cloud:?}") };
        assert_eq!((password.as_str(), project, user_domain), ("12345", &name("lab"), &name("Default")));
        assert_eq!((cloud.region.as_deref(), cloud.timeout), (Some("west"), Duration::from_millis(2500)));
        assert!(!format!("{cloud:?}").contains("12345"), "the password is shown: {cloud:?}");

        let reason = |name| Cloud::from_files(name, &clouds, None).unwrap_err().to_string();
        assert!(reason("lab").ends_with("the cloud \"lab\": not set: password"), "{}", reason("lab"));
        assert!(reason("nowhere").ends_with("there is no cloud named \"nowhere\" in it"), "{}", reason("nowhere"));
        assert!(reason("odd").contains("profile"), "{}", reason("odd"));
    }

    #[test]
    fn clouds_yaml_is_found_in_the_first_folder_that_has_one() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folders = [first.path().to_owned(), second.path().to_owned()];
        assert_eq!(find("clouds", None, &folders), None);
        let path = second.path().join("clouds.yml");
        std::fs::write(&path, "").unwrap();
        assert_eq!(find("clouds", None, &folders), Some(path.clone()));
        let nearer = first.path().join("clouds.yaml");
        std::fs::write(&nearer, "").unwrap();
        assert_eq!(find("clouds", None, &folders), Some(nearer));
        assert_eq!(find("clouds", Some(path.clone()), &folders), Some(path));
    }
}

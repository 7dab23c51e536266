//! Which namespaces to watch.

use std::env;
use std::ffi::OsString;

use steersman_runtime::CacheDefaults;

use crate::Error;

/// The variable that operators of other frameworks have as well.
pub(crate) const VARIABLE: &str = "WATCH_NAMESPACE";

/// Which namespaces to watch.
#[derive(Clone, Debug, Default, clap::Args)]
#[non_exhaustive]
pub struct WatchFlags {
    /// Watch these namespaces only, separated by commas [default: WATCH_NAMESPACE, or all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub watch_namespace: Option<Vec<String>>,
}

impl WatchFlags {
    /// The namespaces of the flag, or of the variable `WATCH_NAMESPACE` without it. Empty: all.
    ///
    /// # Errors
    ///
    /// The variable is no text.
    pub fn namespaces(&self) -> Result<Vec<String>, Error> {
        self.namespaces_with(env::var_os(VARIABLE))
    }

    fn namespaces_with(&self, variable: Option<OsString>) -> Result<Vec<String>, Error> {
        let names = match (&self.watch_namespace, variable) {
            (Some(names), _) => names.clone(),
            (None, Some(variable)) => {
                let text = variable.into_string();
                let text = text.map_err(|_| Error::Flag { flag: VARIABLE, source: "it is not UTF-8".into() })?;
                text.split(',').map(str::to_owned).collect()
            }
            (None, None) => Vec::new(),
        };
        let mut names: Vec<String> = names.iter().map(|name| name.trim().to_owned()).collect();
        names.retain(|name| !name.is_empty());
        names.sort();
        names.dedup();
        Ok(names)
    }
}

/// The defaults, with these namespaces.
pub(crate) fn limited(defaults: CacheDefaults, namespaces: &[String]) -> CacheDefaults {
    namespaces.iter().fold(defaults, CacheDefaults::namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_comes_before_the_variable() {
        for (flag, variable, expected) in [
            (None, None, ""),
            (None, Some(""), ""),
            (None, Some("shop"), "shop"),
            (None, Some("shop, web,,shop"), "shop web"),
            (Some("web,shop"), None, "shop web"),
            (Some("web"), Some("shop"), "web"),
            (Some(""), Some("shop"), ""),
        ] {
            let names = flag.map(|names| names.split(',').map(str::to_owned).collect());
            let flags = WatchFlags { watch_namespace: names };
            let found = flags.namespaces_with(variable.map(OsString::from)).unwrap();
            assert_eq!(found.join(" "), expected, "{flag:?} {variable:?}");
        }
    }
}

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// The beginning of every handle, so that other descriptions are not mistaken for one.
const PREFIX: &str = "kubernetes";

/// The id of the cluster that the objects are in. Several clusters may use one Neutron.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterId(String);

impl ClusterId {
    /// The longest id: a description has 255 characters.
    const LENGTH_MAX: usize = 63;
}

impl FromStr for ClusterId {
    type Err = Error;

    /// Letters, digits, `-` and `.`, at most 63. In a filter, Neutron treats a comma as the end of
    /// a value.
    fn from_str(text: &str) -> Result<Self, Error> {
        let plain = |character: char| character.is_ascii_alphanumeric() || character == '-' || character == '.';
        if text.is_empty() || text.len() > Self::LENGTH_MAX || !text.chars().all(plain) {
            let problem = format!("invalid cluster id {text:?}: use up to 63 letters, digits, '-' and '.'");
            return Err(Error::Options(problem));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Identifies the object that a network in Neutron belongs to: `kubernetes/CLUSTER/UID`, in the
/// description.
///
/// A description can be set in the request that creates the network, unlike a tag, and it can be
/// searched. So a network whose creator crashed before it got the response is found again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handle {
    cluster: ClusterId,
    uid: String,
}

impl Handle {
    /// The handle of the object with this uid.
    pub fn new(cluster: &ClusterId, uid: impl Into<String>) -> Self {
        Self { cluster: cluster.clone(), uid: uid.into() }
    }

    /// Parses a description. `None` if it is no handle of this cluster.
    pub fn parse(cluster: &ClusterId, description: &str) -> Option<Self> {
        let rest = description.strip_prefix(PREFIX)?.strip_prefix('/')?;
        let uid = rest.strip_prefix(cluster.0.as_str())?.strip_prefix('/')?;
        (!uid.is_empty() && !uid.contains('/')).then(|| Self::new(cluster, uid))
    }

    /// The uid of the object.
    pub fn uid(&self) -> &str {
        &self.uid
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}/{}/{}", self.cluster, self.uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_read_back_by_its_own_cluster_only() {
        let ours: ClusterId = "east.example".parse().unwrap();
        let handle = Handle::new(&ours, "0b1c");
        assert_eq!(handle.to_string(), "kubernetes/east.example/0b1c");
        assert_eq!(Handle::parse(&ours, &handle.to_string()), Some(handle.clone()));
        let theirs: ClusterId = "east".parse().unwrap();
        assert_eq!(Handle::parse(&theirs, &handle.to_string()), None);
        for other in ["", "a network of mine", "kubernetes/east.example/", "kubernetes/east.example/a/b"] {
            assert_eq!(Handle::parse(&ours, other), None, "{other}");
        }
    }

    #[test]
    fn a_cluster_id_fits_into_a_filter_and_a_description() {
        for wrong in ["", "a,b", "a/b", "a b", &"x".repeat(64)] {
            assert!(wrong.parse::<ClusterId>().is_err(), "{wrong}");
        }
        let longest: ClusterId = "x".repeat(63).parse().unwrap();
        let uid = "8d2b7e0c-7a52-4d0e-9d0f-1f6a5c1d9b3e";
        assert!(Handle::new(&longest, uid).to_string().len() <= 255);
    }
}

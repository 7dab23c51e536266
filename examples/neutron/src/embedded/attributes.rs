//! The attributes of a resource: which ones exist, when they may be set, and their values. The
//! tables are in Neutron's order, because a response reports the first error.

use serde_json::{Map, Value};

use self::SetIn::{Create, CreateAndUpdate, CreateRequired, Nothing};
use super::addresses::{Cidr, parse_address};
use super::refusal::Refusal;

/// A kind of resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Network,
    Subnet,
    Port,
}

/// One attribute.
#[derive(Clone, Copy, Debug)]
struct Attribute {
    name: &'static str,
    set_in: SetIn,
    filter: bool,
    value: Form,
}

/// Which requests may set an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SetIn {
    Nothing,
    Create,
    CreateRequired,
    CreateAndUpdate,
}

/// The format of a value.
#[derive(Clone, Copy, Debug)]
enum Form {
    Any,
    Text,
    Bool,
    Number,
    IpVersion,
    Id,
    Cidr,
    Address,
    Pools,
    Nameservers,
}

const TEXT_CHARS_MAX: usize = 255;

const fn attribute(name: &'static str, set_in: SetIn, filter: bool, value: Form) -> Attribute {
    Attribute { name, set_in, filter, value }
}

const NETWORK: &[Attribute] = &[
    attribute("id", Nothing, true, Form::Any),
    attribute("name", CreateAndUpdate, true, Form::Text),
    attribute("subnets", Nothing, false, Form::Any),
    attribute("admin_state_up", CreateAndUpdate, true, Form::Bool),
    attribute("status", Nothing, true, Form::Any),
    attribute("tenant_id", Create, true, Form::Text),
    attribute("shared", CreateAndUpdate, true, Form::Bool),
    attribute("mtu", CreateAndUpdate, true, Form::Number),
    attribute("description", CreateAndUpdate, true, Form::Text),
    attribute("tags", Nothing, true, Form::Any),
    attribute("not-tags", Nothing, true, Form::Any),
    attribute("revision_number", Nothing, true, Form::Any),
    attribute("created_at", Nothing, false, Form::Any),
    attribute("updated_at", Nothing, false, Form::Any),
    attribute("project_id", Create, true, Form::Text),
];

const SUBNET: &[Attribute] = &[
    attribute("id", Nothing, true, Form::Any),
    attribute("name", CreateAndUpdate, true, Form::Text),
    attribute("ip_version", CreateRequired, true, Form::IpVersion),
    attribute("network_id", CreateRequired, true, Form::Id),
    attribute("cidr", Create, true, Form::Cidr),
    attribute("gateway_ip", CreateAndUpdate, true, Form::Address),
    attribute("allocation_pools", CreateAndUpdate, false, Form::Pools),
    attribute("dns_nameservers", CreateAndUpdate, false, Form::Nameservers),
    attribute("tenant_id", Create, true, Form::Text),
    attribute("enable_dhcp", CreateAndUpdate, true, Form::Bool),
    attribute("description", CreateAndUpdate, true, Form::Text),
    attribute("tags", Nothing, true, Form::Any),
    attribute("not-tags", Nothing, true, Form::Any),
    attribute("revision_number", Nothing, true, Form::Any),
    attribute("created_at", Nothing, false, Form::Any),
    attribute("updated_at", Nothing, false, Form::Any),
    attribute("project_id", Create, true, Form::Text),
];

const PORT: &[Attribute] = &[
    attribute("id", Nothing, true, Form::Any),
    attribute("name", CreateAndUpdate, true, Form::Text),
    attribute("network_id", CreateRequired, true, Form::Id),
    attribute("admin_state_up", CreateAndUpdate, true, Form::Bool),
    attribute("device_id", CreateAndUpdate, true, Form::Text),
    attribute("device_owner", CreateAndUpdate, true, Form::Text),
    attribute("tenant_id", Create, true, Form::Text),
    attribute("status", Nothing, true, Form::Any),
    attribute("description", CreateAndUpdate, true, Form::Text),
    attribute("revision_number", Nothing, true, Form::Any),
    attribute("created_at", Nothing, false, Form::Any),
    attribute("updated_at", Nothing, false, Form::Any),
    attribute("project_id", Create, true, Form::Text),
];

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Network, Self::Subnet, Self::Port];

    /// `network`; in paths it has an s.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Subnet => "subnet",
            Self::Port => "port",
        }
    }

    pub(super) fn of_collection(collection: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| collection.strip_suffix('s') == Some(kind.name()))
    }

    fn attributes(self) -> &'static [Attribute] {
        match self {
            Self::Network => NETWORK,
            Self::Subnet => SUBNET,
            Self::Port => PORT,
        }
    }

    /// The value that a query compares `name` with, or `None` if it is not a filter.
    pub(super) fn filter_value(self, name: &str, value: &str) -> Option<Result<Value, Refusal>> {
        let attribute = self.attributes().iter().find(|attribute| attribute.name == name && attribute.filter)?;
        Some(match attribute.value {
            Form::Bool => read_bool(&Value::from(value)),
            Form::Number | Form::IpVersion => read_number(&Value::from(value)),
            _ => Ok(Value::from(value)),
        })
    }

    /// Checks the attributes of a POST and converts them into their stored form.
    pub(super) fn check_create(self, given: &mut Map<String, Value>) -> Result<(), Refusal> {
        self.check_known(given)?;
        for attribute in self.attributes() {
            let name = attribute.name;
            match attribute.set_in {
                Nothing if given.contains_key(name) => {
                    return Err(Refusal::bad_request(format!("Attribute '{name}' not allowed in POST")));
                }
                CreateRequired if !given.contains_key(name) => {
                    let message = format!("Failed to parse request. Required attribute '{name}' not specified");
                    return Err(Refusal::bad_request(message));
                }
                _ => {}
            }
        }
        self.check_values(given)
    }

    /// The same for a PUT.
    pub(super) fn check_update(self, given: &mut Map<String, Value>) -> Result<(), Refusal> {
        self.check_known(given)?;
        for attribute in self.attributes() {
            if attribute.set_in != CreateAndUpdate && given.contains_key(attribute.name) {
                let message = format!("Cannot update read-only attribute {}", attribute.name);
                return Err(Refusal::bad_request(message));
            }
        }
        self.check_values(given)
    }

    fn check_known(self, given: &Map<String, Value>) -> Result<(), Refusal> {
        let is_known = |name: &str| self.attributes().iter().any(|attribute| attribute.name == name);
        let unknown: Vec<_> = given.keys().map(String::as_str).filter(|name| !is_known(name)).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        Err(Refusal::bad_request(format!("Unrecognized attribute(s) '{}'", unknown.join(", "))))
    }

    fn check_values(self, given: &mut Map<String, Value>) -> Result<(), Refusal> {
        for attribute in self.attributes() {
            if let Some(value) = given.get_mut(attribute.name) {
                *value = attribute.value.read(attribute.name, value)?;
            }
        }
        Ok(())
    }
}

impl Form {
    fn read(self, name: &str, value: &Value) -> Result<Value, Refusal> {
        let invalid = |reason: String| Refusal::bad_request(format!("Invalid input for {name}. Reason: {reason}."));
        match self {
            Self::Any => {}
            Self::Text => check_text(value).map_err(invalid)?,
            Self::Bool => return read_bool(value),
            Self::Number => {
                let number = read_number(value)?;
                if number.as_i64().is_some_and(|number| number < 0) {
                    return Err(invalid(format!("'{number}' should be non-negative")));
                }
                return Ok(number);
            }
            Self::IpVersion => {
                let number = read_number(value)?;
                if !matches!(number.as_i64(), Some(4 | 6)) {
                    return Err(invalid(format!("{number} is not in valid_values")));
                }
                return Ok(number);
            }
            Self::Id => {
                if !value.as_str().is_some_and(is_id) {
                    return Err(invalid(format!("'{}' is not a valid UUID", shown(value))));
                }
            }
            Self::Cidr => return read_cidr(value),
            Self::Address if value.is_null() => {}
            Self::Address => return read_address(value).map_err(invalid),
            Self::Pools => {
                let pools = value.as_array();
                let pools = pools.ok_or_else(|| Refusal::invalid_input("Invalid data format for allocation pools"))?;
                return read_pools(pools).map_err(invalid);
            }
            Self::Nameservers => return read_nameservers(value).map_err(invalid),
        }
        Ok(value.clone())
    }
}

fn check_text(value: &Value) -> Result<(), String> {
    match value.as_str() {
        Some(text) if text.chars().count() <= TEXT_CHARS_MAX => Ok(()),
        Some(text) => Err(format!("'{text}' exceeds maximum length of {TEXT_CHARS_MAX}")),
        None => Err(format!("'{}' is not a valid string", shown(value))),
    }
}

fn read_bool(value: &Value) -> Result<Value, Refusal> {
    match shown(value).trim().to_lowercase().as_str() {
        "true" | "t" | "1" | "on" | "y" | "yes" => Ok(Value::Bool(true)),
        "false" | "f" | "0" | "off" | "n" | "no" => Ok(Value::Bool(false)),
        _ => Err(Refusal::invalid_input(format_args!("'{}' cannot be converted to boolean", shown(value)))),
    }
}

fn read_number(value: &Value) -> Result<Value, Refusal> {
    let number = value.as_i64().or_else(|| value.as_str()?.trim().parse().ok());
    number.map(Value::from).ok_or_else(|| Refusal::invalid_input(format_args!("'{}' is not an integer", shown(value))))
}

fn read_cidr(value: &Value) -> Result<Value, Refusal> {
    let cidr = value.as_str().and_then(Cidr::parse);
    cidr.map(|cidr| cidr.to_string().into())
        .ok_or_else(|| Refusal::invalid_input(format_args!("{} is not in a CIDR format", shown(value))))
}

fn read_address(value: &Value) -> Result<Value, String> {
    let address = value.as_str().and_then(parse_address);
    let (version, number) = address.ok_or_else(|| format!("'{}' is not a valid IP address", shown(value)))?;
    Ok(super::addresses::show(version, number).into())
}

fn read_pools(pools: &[Value]) -> Result<Value, String> {
    let end = |pool: &Value, name: &str| read_address(pool.get(name).unwrap_or(&Value::Null));
    pools.iter().map(|pool| Ok(serde_json::json!({"start": end(pool, "start")?, "end": end(pool, "end")?}))).collect()
}

fn read_nameservers(value: &Value) -> Result<Value, String> {
    if value.is_null() {
        return Ok(Value::Array(Vec::new()));
    }
    let servers = value.as_array().ok_or_else(|| format!("Invalid data format for nameserver: '{}'", shown(value)))?;
    for (index, server) in servers.iter().enumerate() {
        let text = shown(server);
        read_address(server).map_err(|reason| format!("'{text}' is not a valid nameserver. {reason}"))?;
        if servers[..index].contains(server) {
            return Err(format!("Duplicate nameserver '{text}'"));
        }
    }
    Ok(value.clone())
}

fn is_id(text: &str) -> bool {
    let digits: String = text.chars().filter(|letter| *letter != '-').collect();
    digits.len() == 32 && digits.chars().all(|letter| letter.is_ascii_hexdigit())
}

/// A value as Python shows it in a message.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        other => other.to_string(),
    }
}

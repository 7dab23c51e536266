//! The columns of the Tables of built-in kinds, which a real server sends with any list.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::DATA;
use super::proxy::{Answer, Proxy};
use crate::workspace;

/// The kind whose columns are those of all kinds without columns of their own.
const WITHOUT_OWN: &str = "Role";

/// Asks for the columns of every kind, and writes them.
pub(super) fn record(proxy: &Proxy, kinds: &Value) -> Result<()> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut columns: BTreeMap<String, Value> = BTreeMap::new();
    for group in list(&kinds["groups"]) {
        for version in list(&group["versions"]) {
            let (group, version) = (group["name"].as_str().unwrap_or(""), version["version"].clone());
            let version = version.as_str().unwrap_or_default();
            let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
            for resource in resources(kinds, group, version) {
                let has_list = list(&resource["verbs"]).iter().any(|verb| verb == "list");
                let (kind, plural) =
                    (resource["kind"].as_str().unwrap_or(""), resource["plural"].as_str().unwrap_or(""));
                if has_list {
                    columns.insert(kind.to_owned(), of(proxy, &format!("{root}/{plural}?limit=1"))?);
                }
            }
        }
    }
    columns.insert("Scale".to_owned(), of_scale(proxy)?);
    let general = columns.get(WITHOUT_OWN).cloned().context("a kind without columns of its own is gone")?;
    columns.retain(|_, own| *own != general);
    columns.insert(String::new(), general);
    let path = workspace::root().join(DATA).join("columns.json");
    fs::write(&path, document(&columns)).with_context(|| format!("writing {}", path.display()))
}

fn resources(kinds: &Value, group: &str, version: &str) -> Vec<Value> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let groups = list(&kinds["groups"]).into_iter().filter(|one| one["name"] == group);
    let versions = groups.flat_map(|one| list(&one["versions"])).filter(|one| one["version"] == version);
    versions.flat_map(|one| list(&one["resources"])).collect()
}

fn of(proxy: &Proxy, path: &str) -> Result<Value> {
    let Answer { status, body } = proxy.table(path)?;
    ensure!(status == 200, "{path}: answered with {status}: {}", body["message"]);
    Ok(body["columnDefinitions"].clone())
}

/// A Scale is never in a list.
fn of_scale(proxy: &Proxy) -> Result<Value> {
    const CONTROLLERS: &str = "/api/v1/namespaces/default/replicationcontrollers";
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let object = json!({"metadata": {"name": "scale"}, "spec": {"replicas": 0, "template": template}});
    let Answer { status, body } = proxy.send("POST", CONTROLLERS, &object)?;
    ensure!(status == 201, "the object to scale was refused with {status}: {}", body["message"]);
    let columns = of(proxy, &format!("{CONTROLLERS}/scale/scale"));
    proxy.send("DELETE", &format!("{CONTROLLERS}/scale"), &json!({"propagationPolicy": "Background"}))?;
    columns
}

/// The columns with a kind a line. Descriptions, which are long, stand once.
fn document(columns: &BTreeMap<String, Value>) -> String {
    let mut descriptions: Vec<Value> = Vec::new();
    let mut lines = Vec::new();
    for (kind, columns) in columns {
        let mut column = |column: &Value| {
            let place = descriptions.iter().position(|known| *known == column["description"]).unwrap_or_else(|| {
                descriptions.push(column["description"].clone());
                descriptions.len() - 1
            });
            json!([column["name"], column["type"], column["format"], column["priority"], place])
        };
        let columns: Value = columns.as_array().into_iter().flatten().map(&mut column).collect();
        lines.push(format!("{}:{columns}", json!(kind)));
    }
    let descriptions = descriptions.iter().map(Value::to_string).collect::<Vec<_>>().join(",\n");
    format!("{{\n\"columns\":{{\n{}\n}},\n\"descriptions\":[\n{descriptions}\n]\n}}\n", lines.join(",\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_stands_once() {
        let column =
            |name: &str| json!({"name": name, "type": "string", "format": "", "priority": 1, "description": "d"});
        let columns = BTreeMap::from([("A".to_owned(), json!([column("x")])), ("B".to_owned(), json!([column("y")]))]);
        let expected = "{\n\"columns\":{\n\"A\":[[\"x\",\"string\",\"\",1,0]],\n\"B\":[[\"y\",\"string\",\"\",1,0]]\n},\n\
                        \"descriptions\":[\n\"d\"\n]\n}\n";
        assert_eq!(document(&columns), expected);
    }
}

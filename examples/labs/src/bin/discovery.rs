//! The discovery client: the kinds that the server serves. `kubectl api-versions` and
//! `kubectl api-resources` show the same.

use anyhow::Result;
use labs::Lab;

#[tokio::main]
async fn main() -> Result<()> {
    let lab = Lab::connect().await?;
    let discovery = lab.client().discovery();
    println!("Kubernetes {}", discovery.version().await?.git_version);
    let served = discovery.get().await?;

    println!("\nversions");
    let versions = served.groups().iter().flat_map(|group| {
        let name = |version: &str| match &*group.name {
            "" => version.to_owned(),
            name => format!("{name}/{version}"),
        };
        group.versions.iter().map(move |served| name(&served.version))
    });
    let mut versions: Vec<_> = versions.collect();
    versions.sort();
    versions.iter().for_each(|version| println!("{version}"));

    println!("\n{:<36} {:<12} {:<34} {:<11} KIND", "NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED");
    for found in served.preferred_resources() {
        let (resource, short) = (&found.resource, found.short_names.join(","));
        let (plural, version, namespaced) = (&resource.plural, &resource.api_version, found.namespaced);
        println!("{plural:<36} {short:<12} {version:<34} {namespaced:<11} {}", resource.kind);
    }
    // A group whose own server is down does not affect the others.
    served.failures().for_each(|failure| println!("not known: {failure}"));
    Ok(())
}

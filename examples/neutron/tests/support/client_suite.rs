//! The behaviour of the client with any Neutron.

use neutron::{
    AllocationPool, Error, Gateway, NetworkChange, NetworkFilter, Neutron, NewNetwork, NewPort, NewSubnet,
    SubnetChange, SubnetFilter,
};

/// Runs all of it. `project` is given if there is no Keystone that names it.
pub(crate) async fn run(neutron: &Neutron, project: Option<&str>) -> Result<(), Error> {
    let project = project.map(str::to_owned);
    networks(neutron, project.as_ref()).await?;
    subnets(neutron, project.as_ref()).await?;
    ports(neutron, project.as_ref()).await?;
    refusals(neutron, project.as_ref()).await
}

/// A unique text.
fn mark() -> String {
    format!("test-{:016x}", fastrand::u64(..))
}

async fn networks(neutron: &Neutron, project: Option<&String>) -> Result<(), Error> {
    let mark = mark();
    let new = NewNetwork {
        name: "web, first".to_owned(),
        description: mark.clone(),
        mtu: Some(1400),
        project_id: project.cloned(),
        ..Default::default()
    };
    let network = neutron.create_network(&new).await?;
    assert_eq!((network.name.as_str(), &network.description, network.mtu), ("web, first", &mark, Some(1400)));
    assert_eq!((network.shared, network.status.as_str()), (false, "ACTIVE"));
    assert_eq!(network.subnets, [""; 0]);
    if let Some(project) = project {
        assert_eq!(&network.project_id, project);
    }
    assert_eq!(neutron.network(&network.id).await?.as_ref(), Some(&network));

    let by = |filter: NetworkFilter| async move { neutron.networks(&filter).await };
    let described = NetworkFilter { description: Some(mark.clone()), ..Default::default() };
    assert_eq!(by(described.clone()).await?, std::slice::from_ref(&network));
    let also_named = NetworkFilter { name: Some(new.name.clone()), ..described.clone() };
    assert_eq!(by(also_named).await?, std::slice::from_ref(&network));
    let of_project = NetworkFilter { project_id: Some(network.project_id.clone()), ..described.clone() };
    assert_eq!(by(of_project).await?, std::slice::from_ref(&network));
    let otherwise_named = NetworkFilter { name: Some("web".to_owned()), ..described.clone() };
    assert_eq!(by(otherwise_named).await?, []);
    let tagged = NetworkFilter { tags: vec!["red".to_owned(), "round".to_owned()], ..described };
    assert_eq!(by(tagged).await?, []);

    let change = NetworkChange { name: Some("web".to_owned()), mtu: Some(1300), ..Default::default() };
    let changed = neutron.update_network(&network.id, &change, Some(network.revision_number)).await?;
    assert_eq!((changed.name.as_str(), changed.mtu, &changed.description), ("web", Some(1300), &mark));
    assert!(changed.revision_number > network.revision_number, "{network:?} became {changed:?}");
    let again = NetworkChange { name: Some("mail".to_owned()), ..Default::default() };
    let stale = neutron.update_network(&network.id, &again, Some(network.revision_number)).await.unwrap_err();
    assert!(stale.is_stale(), "{stale}");
    neutron.update_network(&network.id, &again, None).await?;

    assert!(neutron.delete_network(&network.id).await?);
    assert!(!neutron.delete_network(&network.id).await?, "it was there twice");
    assert_eq!(neutron.network(&network.id).await?, None);
    Ok(())
}

async fn subnets(neutron: &Neutron, project: Option<&String>) -> Result<(), Error> {
    let mark = mark();
    let new = NewNetwork { name: "n".to_owned(), project_id: project.cloned(), ..Default::default() };
    let network = neutron.create_network(&new).await?;
    let new = NewSubnet {
        name: "s".to_owned(),
        description: mark.clone(),
        gateway_ip: Gateway::Address("10.9.0.254".to_owned()),
        enable_dhcp: Some(false),
        dns_nameservers: vec!["10.9.0.3".to_owned(), "10.9.0.2".to_owned()],
        project_id: project.cloned(),
        ..NewSubnet::new(&network.id, "10.9.0.5/24")
    };
    let subnet = neutron.create_subnet(&new).await?;
    assert_eq!((subnet.cidr.as_str(), subnet.gateway_ip.as_deref()), ("10.9.0.0/24", Some("10.9.0.254")));
    assert_eq!((subnet.enable_dhcp, subnet.ip_version), (false, 4));
    assert_eq!(subnet.dns_nameservers, ["10.9.0.3", "10.9.0.2"]);
    assert_eq!(subnet.allocation_pools, [pool("10.9.0.1", "10.9.0.253")]);
    assert_eq!(neutron.subnet(&subnet.id).await?.as_ref(), Some(&subnet));
    assert_eq!(neutron.network(&network.id).await?.map(|network| network.subnets), Some(vec![subnet.id.clone()]));

    let of_network = SubnetFilter { network_id: Some(network.id.clone()), ..Default::default() };
    assert_eq!(neutron.subnets(&of_network).await?, std::slice::from_ref(&subnet));
    let described = SubnetFilter { description: Some(mark), ..Default::default() };
    assert_eq!(neutron.subnets(&described).await?, std::slice::from_ref(&subnet));
    let neither = SubnetFilter { description: Some("nobody".to_owned()), ..of_network };
    assert_eq!(neutron.subnets(&neither).await?, []);

    let inside = SubnetChange { gateway_ip: Gateway::Address("10.9.0.9".to_owned()), ..Default::default() };
    let conflict = neutron.update_subnet(&subnet.id, &inside, None).await.unwrap_err();
    assert_eq!(conflict.kind(), neutron::ErrorKind::Conflict, "{conflict}");
    let with_pools = SubnetChange { allocation_pools: Some(vec![pool("10.9.0.10", "10.9.0.20")]), ..inside };
    let changed = neutron.update_subnet(&subnet.id, &with_pools, Some(subnet.revision_number)).await?;
    assert_eq!(changed.gateway_ip.as_deref(), Some("10.9.0.9"));
    assert_eq!(changed.allocation_pools, [pool("10.9.0.10", "10.9.0.20")]);
    let none = SubnetChange { gateway_ip: Gateway::Absent, dns_nameservers: Some(Vec::new()), ..Default::default() };
    let changed = neutron.update_subnet(&subnet.id, &none, None).await?;
    assert_eq!((changed.gateway_ip, changed.dns_nameservers.len()), (None, 0));
    let stale = SubnetChange { name: Some("t".to_owned()), ..Default::default() };
    let stale = neutron.update_subnet(&subnet.id, &stale, Some(subnet.revision_number)).await.unwrap_err();
    assert!(stale.is_stale(), "{stale}");

    assert!(neutron.delete_subnet(&subnet.id).await?);
    assert!(!neutron.delete_subnet(&subnet.id).await?, "it was there twice");
    assert_eq!(neutron.subnet(&subnet.id).await?, None);
    let new = NewSubnet {
        gateway_ip: Gateway::Absent,
        project_id: project.cloned(),
        ..NewSubnet::new(&network.id, "10.9.0.0/24")
    };
    assert_eq!(neutron.create_subnet(&new).await?.gateway_ip, None);
    assert!(neutron.delete_network(&network.id).await?, "a network takes its subnets along");
    Ok(())
}

async fn ports(neutron: &Neutron, project: Option<&String>) -> Result<(), Error> {
    let new = NewNetwork { name: "n".to_owned(), project_id: project.cloned(), ..Default::default() };
    let network = neutron.create_network(&new).await?;
    let new = NewSubnet { project_id: project.cloned(), ..NewSubnet::new(&network.id, "10.9.0.0/24") };
    let subnet = neutron.create_subnet(&new).await?;
    let new = NewPort { network_id: network.id.clone(), name: "p".to_owned(), project_id: project.cloned() };
    let port = neutron.create_port(&new).await?;
    assert_eq!((port.name.as_str(), &port.network_id, port.fixed_ips.len()), ("p", &network.id, 1));
    assert_eq!(neutron.ports(&network.id).await?, std::slice::from_ref(&port));

    let in_use = neutron.delete_network(&network.id).await.unwrap_err();
    assert!(in_use.is_in_use() && in_use.to_string().contains(&port.id), "{in_use}");
    let in_use = neutron.delete_subnet(&subnet.id).await.unwrap_err();
    assert!(in_use.is_in_use(), "{in_use}");
    assert!(neutron.delete_port(&port.id).await?);
    assert!(!neutron.delete_port(&port.id).await?, "it was there twice");
    assert!(neutron.delete_network(&network.id).await?);
    Ok(())
}

async fn refusals(neutron: &Neutron, project: Option<&String>) -> Result<(), Error> {
    let new = NewNetwork { name: "x".repeat(256), project_id: project.cloned(), ..Default::default() };
    let too_long = neutron.create_network(&new).await.unwrap_err();
    assert!(too_long.is_bad_input() && too_long.to_string().contains("exceeds maximum length of 255"), "{too_long}");

    let new = NewNetwork { name: "n".to_owned(), project_id: project.cloned(), ..Default::default() };
    let network = neutron.create_network(&new).await?;
    let new = |cidr: &str| NewSubnet { project_id: project.cloned(), ..NewSubnet::new(&network.id, cidr) };
    neutron.create_subnet(&new("10.9.0.0/24")).await?;
    let overlap = neutron.create_subnet(&new("10.9.0.0/25")).await.unwrap_err();
    assert!(overlap.is_bad_input() && overlap.to_string().contains("overlaps with another subnet"), "{overlap}");
    let no_cidr = neutron.create_subnet(&new("ten")).await.unwrap_err();
    assert!(no_cidr.is_bad_input(), "{no_cidr}");

    let nobody = "11111111-1111-4111-8111-111111111111";
    let change = NetworkChange { name: Some("n".to_owned()), ..Default::default() };
    let gone = neutron.update_network(nobody, &change, None).await.unwrap_err();
    assert!(gone.is_not_found() && gone.to_string().contains("NetworkNotFound"), "{gone}");
    let gone =
        neutron.create_subnet(&NewSubnet { network_id: nobody.to_owned(), ..new("10.9.0.0/24") }).await.unwrap_err();
    assert!(gone.is_not_found(), "{gone}");
    assert!(neutron.delete_network(&network.id).await?);
    Ok(())
}

fn pool(start: &str, end: &str) -> AllocationPool {
    AllocationPool { start: start.to_owned(), end: end.to_owned() }
}

"""Asks a kube-apiserver and a Neutron what they have, and says where they do not agree.

It shares no code with the operator and needs nothing but Python. What it prints is one difference a line; its exit code is 0 when
there is none, 1 when there are some, 2 when one of the two could not be asked.

    agree.py KUBECONFIG (as JSON) NEUTRON_URL CLUSTER_ID

With OS_AUTH_URL in the environment it logs in to Keystone first.
"""

import base64
import ipaddress
import json
import os
import ssl
import sys
import tempfile
import urllib.request


def ask(url, headers=None, body=None, context=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Accept": "application/json", **(headers or {})}
    request = urllib.request.Request(url, data=data, headers=headers)
    with urllib.request.urlopen(request, timeout=20, context=context) as answer:
        return json.load(answer), answer.headers


def objects(kubeconfig):
    """All Networks in the cluster."""
    with open(kubeconfig, encoding="utf-8") as file:
        config = json.load(file)
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    with tempfile.NamedTemporaryFile() as pem:
        pem.write(base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"]))
        pem.flush()
        context.load_cert_chain(pem.name)
    listed, _ = ask(cluster["server"] + "/apis/samplecrd.k8s.io/v1/networks", context=context)
    return listed["items"]


def token():
    """What Neutron wants to see, if there is a Keystone."""
    if "OS_AUTH_URL" not in os.environ:
        return {}
    project, domain = os.environ["OS_PROJECT_NAME"], {"id": os.environ["OS_PROJECT_DOMAIN_ID"]}
    user = {"name": os.environ["OS_USERNAME"], "password": os.environ["OS_PASSWORD"], "domain": domain}
    body = {
        "auth": {
            "identity": {"methods": ["password"], "password": {"user": user}},
            "scope": {"project": {"name": project, "domain": domain}},
        }
    }
    _, headers = ask(os.environ["OS_AUTH_URL"] + "/auth/tokens", body=body)
    return {"X-Auth-Token": headers["X-Subject-Token"]}


def address(text):
    return None if text is None else ipaddress.ip_address(text)


def differences(networks, neutron_networks, subnets, cluster_id):
    left = {network["id"]: network for network in neutron_networks}
    subnets_left = {subnet["id"]: subnet for subnet in subnets}
    for wanted in networks:
        meta, spec, status = wanted["metadata"], wanted["spec"], wanted.get("status", {})
        name = f"{meta['namespace']}/{meta['name']}"
        handle = f"kubernetes/{cluster_id}/{meta['uid']}"
        if "deletionTimestamp" in meta:
            yield f"{name} is still being deleted"
        if status.get("phase") != "Ready" or status.get("observedGeneration") != meta["generation"]:
            yield f"{name} is not ready: {json.dumps(status)}"
        if "samplecrd.k8s.io/neutron" not in meta.get("finalizers", []):
            yield f"{name} has no finalizer"
        mine = [network for network in neutron_networks if network["description"] == handle]
        if len(mine) != 1:
            yield f"{name} has {len(mine)} networks"
            continue
        network = left.pop(mine[0]["id"])
        expected = {"id": status.get("networkId"), "name": name, "shared": spec["shared"]}
        if "mtu" in spec:
            expected["mtu"] = spec["mtu"]
        for field, value in expected.items():
            if network[field] != value:
                yield f"{name}: {field} of the network is {network[field]!r}, not {value!r}"
        mine = [subnet for subnet in subnets if subnet["network_id"] == network["id"]]
        if len(mine) != 1:
            yield f"{name} has {len(mine)} subnets"
            continue
        subnet = subnets_left.pop(mine[0]["id"])
        pairs = {
            "id": (subnet["id"], status.get("subnetId")),
            "cidr": (ipaddress.ip_network(subnet["cidr"]), ipaddress.ip_network(spec["cidr"], strict=False)),
            "gateway": (address(subnet["gateway_ip"]), address(spec["gateway"])),
            "dhcp": (subnet["enable_dhcp"], spec["dhcp"]),
            "dns": ([address(one) for one in subnet["dns_nameservers"]], [address(one) for one in spec.get("dnsServers", [])]),
        }
        for field, (actual, value) in pairs.items():
            if actual != value:
                yield f"{name}: {field} of the subnet is {actual}, not {value}"
    for network in left.values():
        yield f"the network {network['id']} ({network['name']}, {network['description']}) is left over"
    for subnet in subnets_left.values():
        yield f"the subnet {subnet['id']} ({subnet['cidr']}) is left over"


def main(kubeconfig, neutron, cluster_id):
    try:
        networks, headers = objects(kubeconfig), token()
        neutron_networks, _ = ask(neutron + "/v2.0/networks", headers=headers)
        subnets, _ = ask(neutron + "/v2.0/subnets", headers=headers)
    except OSError as error:
        print(f"cannot ask: {error}")
        return 2
    found = list(differences(networks, neutron_networks["networks"], subnets["subnets"], cluster_id))
    print("\n".join(found) if found else f"they agree on {len(networks)} networks")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

"""Makes the data of a Neutron and a Keystone that have just been installed. Tests start from a copy of it.

usage: prepare.py FOLDER

Keystone gets an administrator (admin), the service user of Neutron, and the projects p1 and p2 with a user each, who has
the same name and the password NAMEpass. The addresses in the catalogue are set when a copy is started.
"""

import getpass
import grp
import os
import subprocess
import sys

folder = os.path.abspath(sys.argv[1])
os.makedirs(folder, exist_ok=True)
NOWHERE = "http://127.0.0.1"
SERVER = os.path.dirname(os.path.abspath(__file__))


def neutron():
    """The tables, from Neutron's own models: its migrations do not run on SQLite."""
    import sqlalchemy
    from neutron.db.migration.models import head

    head.get_metadata().create_all(sqlalchemy.create_engine(f"sqlite:///{folder}/neutron.sqlite"))


def keystone():
    with open(os.path.join(SERVER, "keystone.conf")) as template:
        configuration = template.read().replace("@FOLDER@", folder).replace("@TOKEN_SECONDS@", "3600")
    path = os.path.join(folder, "keystone.conf")
    with open(path, "w") as file:
        file.write(configuration)
    user, group = getpass.getuser(), grp.getgrgid(os.getgid()).gr_name
    owner = ["--keystone-user", user, "--keystone-group", group]
    everywhere = [word for kind in ("admin", "internal", "public") for word in (f"--bootstrap-{kind}-url", NOWHERE)]
    for command in [
        ["db_sync"],
        ["fernet_setup", *owner],
        ["credential_setup", *owner],
        ["bootstrap", "--bootstrap-password", "secret", "--bootstrap-region-id", "RegionOne", *everywhere],
    ]:
        main = "import sys; from keystone.cmd.manage import main; sys.exit(main())"
        subprocess.run([sys.executable, "-c", main, "--config-file", path, *command], check=True)
    os.environ["OS_KEYSTONE_CONFIG_DIR"] = folder
    os.environ["OS_KEYSTONE_CONFIG_FILES"] = "keystone.conf"
    sys.argv = ["keystone"]
    from keystone.wsgi.api import application
    from werkzeug.test import Client

    people(Client(application))
    os.remove(path)


def people(client):
    """Asks Keystone's API, without a network."""

    def call(method, path, body=None, token=None):
        headers = {"X-Auth-Token": token} if token else {}
        answer = client.open("/v3" + path, method=method, json=body, headers=headers)
        assert answer.status_code < 300, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer

    default = {"id": "default"}
    user = {"name": "admin", "domain": default, "password": "secret"}
    identity = {"methods": ["password"], "password": {"user": user}}
    scope = {"project": {"name": "admin", "domain": default}}
    answer = call("POST", "/auth/tokens", {"auth": {"identity": identity, "scope": scope}})
    token = answer.headers["X-Subject-Token"]
    roles = {role["name"]: role["id"] for role in call("GET", "/roles", token=token).json["roles"]}

    def create(kind, **fields):
        return call("POST", f"/{kind}s", {kind: fields}, token).json[kind]["id"]

    for project, name, password, granted in [
        ("service", "neutron", "neutronpass", ["admin", "service"]),
        ("p1", "p1", "p1pass", ["member"]),
        ("p2", "p2", "p2pass", ["member"]),
    ]:
        project_id = create("project", name=project, domain_id="default")
        user_id = create("user", name=name, domain_id="default", password=password)
        for role in granted:
            call("PUT", f"/projects/{project_id}/users/{user_id}/roles/{roles[role]}", token=token)
    service = create("service", type="network", name="neutron")
    create("endpoint", service_id=service, interface="public", url=NOWHERE, region_id="RegionOne")


neutron()
keystone()

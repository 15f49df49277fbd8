"""A real Keystone (SQLite, Fernet tokens) for tests.

    run_keystone.py prepare FOLDER     makes keystone.db and the key folders: what takes long, once
    run_keystone.py serve FOLDER       serves a copy of such a folder on a free port of 127.0.0.1

Once it answers, `serve` prints {"port": PORT}. A line on its standard input is the root of an object store
(http://127.0.0.1:PORT); its catalogue names it from then on, and it prints {"catalogue": ROOT}. It ends when its standard
input does, so it cannot outlive who started it.

What is in it: project `service` of the domain Default; users `ironic` (password `ironic-password`) and `swift`
(`swift-password`) with the role admin in it; user `stranger` (`stranger-password`) with no role anywhere; the application
credential of `ironic` that application-credential.json names; an object store in the regions RegionOne and RegionTwo.
"""

import grp
import json
import os
import pwd
import sqlite3
import subprocess
import sys
import threading
import urllib.request
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server


def configure(folder):
    with open(f"{folder}/keystone.conf", "w") as file:
        file.write(f"""
[DEFAULT]
log_file = {folder}/keystone.log
[database]
connection = sqlite:///{folder}/keystone.db
[token]
provider = fernet
expiration = 3600
[fernet_tokens]
key_repository = {folder}/fernet
[credential]
key_repository = {folder}/credential
[cache]
enabled = false
""")
    os.environ["OS_KEYSTONE_CONFIG_DIR"] = folder
    os.environ["OS_KEYSTONE_CONFIG_FILES"] = "keystone.conf"


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 128


class Handler(WSGIRequestHandler):
    def log_message(self, *_):
        pass


def start():
    """The real application behind the standard library's server; its port."""
    argv, sys.argv = sys.argv, sys.argv[:1]
    from keystone.server.wsgi import initialize_public_application
    server = make_server("127.0.0.1", 0, initialize_public_application(), Server, Handler)
    sys.argv = argv
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


def prepare(folder):
    for part in ("fernet", "credential"):
        os.makedirs(f"{folder}/{part}", mode=0o700)
    configure(folder)
    manage = [os.path.join(os.path.dirname(sys.executable), "keystone-manage"),
              "--config-file", f"{folder}/keystone.conf"]
    owner = ["--keystone-user", pwd.getpwuid(os.getuid()).pw_name, "--keystone-group", grp.getgrgid(os.getgid()).gr_name]
    for step in (["db_sync"], ["fernet_setup", *owner], ["credential_setup", *owner],
                 ["bootstrap", "--bootstrap-password", "admin-password", "--bootstrap-region-id", "RegionOne",
                  "--bootstrap-public-url", "http://127.0.0.1:1/v3"]):
        subprocess.run(manage + step, check=True)
    base = f"http://127.0.0.1:{start()}/v3"

    def ask(method, path, body=None, token=None):
        headers = {"Content-Type": "application/json", **({"X-Auth-Token": token} if token else {})}
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(base + path, data, headers, method=method)) as reply:
            text = reply.read()
            return json.loads(text) if text else {}, reply.headers

    def log_in(user, password, project):
        default = {"id": "default"}
        identity = {"methods": ["password"],
                    "password": {"user": {"name": user, "domain": default, "password": password}}}
        scope = {"project": {"name": project, "domain": default}}
        return ask("POST", "/auth/tokens", {"auth": {"identity": identity, "scope": scope}})[1]["X-Subject-Token"]

    admin = log_in("admin", "admin-password", "admin")

    def make(kind, **fields):
        return ask("POST", f"/{kind}s", {kind: fields}, admin)[0][kind]["id"]

    project = make("project", name="service", domain_id="default")
    roles = {role["name"]: role["id"] for role in ask("GET", "/roles", None, admin)[0]["roles"]}
    users = {}
    for name in ("ironic", "swift", "stranger"):
        users[name] = make("user", name=name, password=f"{name}-password", domain_id="default")
    for name in ("ironic", "swift"):
        ask("PUT", f"/projects/{project}/users/{users[name]}/roles/{roles['admin']}", None, admin)
    ask("POST", "/regions", {"region": {"id": "RegionTwo"}}, admin)
    service = make("service", name="swift", type="object-store")
    for region in ("RegionOne", "RegionTwo"):
        for interface in ("public", "internal", "admin"):
            make("endpoint", interface=interface, region_id=region, service_id=service,
                 url="http://127.0.0.1:1/v1/AUTH_$(project_id)s")
    ironic = log_in("ironic", "ironic-password", "service")
    credential = ask("POST", f"/users/{users['ironic']}/application_credentials",
                     {"application_credential": {"name": "farrier", "roles": [{"name": "admin"}]}}, ironic)[0]
    credential = credential["application_credential"]
    with open(f"{folder}/application-credential.json", "w") as file:
        json.dump({"id": credential["id"], "secret": credential["secret"], "project": project}, file)


def serve(folder):
    configure(folder)
    port = start()
    # Services that check tokens look for Keystone itself in the catalogue.
    with sqlite3.connect(f"{folder}/keystone.db", timeout=30) as database:
        database.execute("UPDATE endpoint SET url = ? WHERE service_id IN (SELECT id FROM service WHERE type = ?)",
                         (f"http://127.0.0.1:{port}/v3", "identity"))
    print(json.dumps({"port": port}), flush=True)
    for line in sys.stdin:
        root = line.strip()
        with sqlite3.connect(f"{folder}/keystone.db", timeout=30) as database:
            database.execute("UPDATE endpoint SET url = ? WHERE service_id IN (SELECT id FROM service WHERE type = ?)",
                             (f"{root}/v1/AUTH_$(project_id)s", "object-store"))
        print(json.dumps({"catalogue": root}), flush=True)


{"prepare": prepare, "serve": serve}[sys.argv[1]](os.path.abspath(sys.argv[2]))

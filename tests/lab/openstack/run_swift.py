"""A whole Swift in one process, for tests: account, container, object and proxy server, each the real one.

    run_swift.py FOLDER [--keystone URL] [--digests "sha256 sha512"] [--without FILTER]...

Everything listens on free ports of 127.0.0.1. Once it answers, one line of JSON on standard output says where:
{"proxy": PORT}. It ends when its standard input does, so it cannot outlive who started it.

Accounts: with --keystone, whatever Keystone says. Without, users `tester` of the accounts `t00` to `t39` with the password
`testing`, by version 1 authentication at /auth/v1.0; the same pairs (`t00:tester`, `testing`) are S3 keys.
"""

import argparse
import ctypes
import json
import os
import pwd
import signal
import subprocess
import sys
import time

ACCOUNTS = 80
ORDER = (
    "catch_errors gatekeeper healthcheck cache bulk s3api {s3auth} tempurl {auth} "
    "container_quotas slo dlo proxy-server"
)


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def start_memcached(folder):
    """Swift keeps tokens and container existence in it. `-p -1` takes a free port and writes it down."""
    note = os.path.join(folder, "memcached.port")
    user = pwd.getpwuid(os.getuid()).pw_name
    command = ["memcached", "-u", user, "-l", "127.0.0.1", "-p", "-1", "-U", "0", "-m", "32"]
    process = subprocess.Popen(
        command, env={**os.environ, "MEMCACHED_PORT_FILENAME": note}, preexec_fn=die_with_parent,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(os.path.join(folder, "memcached.log"), "w"))
    for _ in range(1500):
        if os.path.exists(note):
            for line in open(note):
                if line.startswith("TCP INET:"):
                    return int(line.split(":")[1])
        if process.poll() is not None:
            sys.exit("memcached does not start: see memcached.log")
        time.sleep(0.02)
    sys.exit("memcached does not say where it listens")


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def server_conf(folder, kind, port):
    return f"""
[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
swift_dir = {folder}/etc
devices = {folder}/devices
mount_check = false
disable_fallocate = true
db_preallocation = off
log_level = INFO
log_name = {kind}
[pipeline:main]
pipeline = {kind}-server
[app:{kind}-server]
use = egg:swift#{kind}
"""


def proxy_conf(folder, port, memcached, options):
    auth, s3auth = ("authtoken keystoneauth", "s3token") if options.keystone else ("tempauth", "")
    pipeline = [name for name in ORDER.format(auth=auth, s3auth=s3auth).split() if name not in options.without]
    # What is S3's is checked by Keystone itself only where its service is there for it; version 1 users suffice here.
    if options.keystone:
        pipeline = [name for name in pipeline if name not in ("s3api", "s3token")]
    users = "\n".join(f"user_t{number:02}_tester = testing .admin" for number in range(ACCOUNTS))
    return f"""
[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
swift_dir = {folder}/etc
log_level = INFO
log_name = proxy
[pipeline:main]
pipeline = {" ".join(pipeline)}
[app:proxy-server]
use = egg:swift#proxy
allow_account_management = true
account_autocreate = true
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:gatekeeper]
use = egg:swift#gatekeeper
[filter:healthcheck]
use = egg:swift#healthcheck
[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:{memcached}
[filter:bulk]
use = egg:swift#bulk
[filter:s3api]
use = egg:swift#s3api
location = us-east-1
s3_acl = false
dns_compliant_bucket_names = true
min_segment_size = 1048576
[filter:tempurl]
use = egg:swift#tempurl
methods = GET HEAD
allowed_digests = {options.digests}
[filter:container_quotas]
use = egg:swift#container_quotas
[filter:slo]
use = egg:swift#slo
# Segments go with their object, and not when an expirer comes by, which does not run here.
allow_async_delete = false
[filter:dlo]
use = egg:swift#dlo
[filter:tempauth]
use = egg:swift#tempauth
storage_url_scheme = default
token_life = 86400
{users}
[filter:keystoneauth]
use = egg:swift#keystoneauth
operator_roles = admin, member
[filter:authtoken]
paste.filter_factory = keystonemiddleware.auth_token:filter_factory
www_authenticate_uri = {options.keystone}
auth_url = {options.keystone}
auth_type = password
interface = public
project_domain_id = default
user_domain_id = default
project_name = service
username = swift
password = swift-password
delay_auth_decision = True
include_service_catalog = False
service_token_roles_required = True
"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--keystone")
    parser.add_argument("--digests", default="sha1 sha256 sha512")
    parser.add_argument("--without", action="append", default=[])
    options = parser.parse_args()
    folder = os.path.abspath(options.folder)
    os.makedirs(f"{folder}/etc")
    os.makedirs(f"{folder}/devices/d1")
    memcached = start_memcached(folder)
    write(f"{folder}/etc/swift.conf", """
[swift-hash]
swift_hash_path_prefix = tests
swift_hash_path_suffix = tests
[storage-policy:0]
name = one
default = yes
""")

    from swift.common.utils import eventlet_monkey_patch, set_swift_dir
    eventlet_monkey_patch()
    import eventlet
    import eventlet.wsgi
    import logging
    from swift.common import wsgi
    from swift.common.ring import RingBuilder

    logging.basicConfig(filename=f"{folder}/swift.log", level=logging.INFO)
    set_swift_dir(f"{folder}/etc")
    kinds = ("account", "container", "object")
    sockets = {kind: eventlet.listen(("127.0.0.1", 0), backlog=4096) for kind in (*kinds, "proxy")}
    ports = {kind: socket.getsockname()[1] for kind, socket in sockets.items()}
    for kind in kinds:
        ring = RingBuilder(4, 1, 1)
        ring.add_dev({"region": 1, "zone": 1, "device": "d1", "weight": 1.0, "meta": "",
                      "ip": "127.0.0.1", "port": ports[kind],
                      "replication_ip": "127.0.0.1", "replication_port": ports[kind]})
        ring.rebalance()
        ring.get_ring().save(f"{folder}/etc/{kind}.ring.gz")
        write(f"{folder}/etc/{kind}-server.conf", server_conf(folder, kind, ports[kind]))
    write(f"{folder}/etc/proxy-server.conf", proxy_conf(folder, ports["proxy"], memcached, options))
    log = logging.getLogger("wsgi")

    def serve(kind):
        app = wsgi.loadapp(f"{folder}/etc/{kind}-server.conf", global_conf={"log_name": kind})
        eventlet.spawn(eventlet.wsgi.server, sockets[kind], app, log, protocol=wsgi.SwiftHttpProtocol,
                       custom_pool=eventlet.GreenPool(2048), log_output=False, capitalize_response_headers=False)

    for kind in (*kinds, "proxy"):
        serve(kind)
    print(json.dumps({"proxy": ports["proxy"]}), flush=True)
    ended = False
    while not ended:
        eventlet.hubs.trampoline(0, read=True)
        ended = not os.read(0, 4096)


main()

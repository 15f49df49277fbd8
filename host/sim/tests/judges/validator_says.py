"""DMTF's Redfish service validator walks a simulated BMC; prints as JSON what it complains of.

validator_says.py URL USER SCHEMAS FOLDER: the password comes from SIM_PASSWORD; the report goes to FOLDER.
"""

import contextlib
import json
import os
import pathlib
import sys

from redfish_service_validator import console_scripts, system_under_test

URL, USER, SCHEMAS, FOLDER = sys.argv[1:]
complaints = []
counts = {}
known = system_under_test.SystemUnderTest.add_resource_result


def listening(self, uri, prop, present, value, result):
    """Keeps what the report keeps, each once."""
    seen = uri in self._resources and prop in self._resources[uri]["Results"]
    if uri in self._resources and not seen:
        counts[result[0]] = counts.get(result[0], 0) + 1
        if result[0] in ("FAIL", "WARN"):
            complaints.append({"kind": result[0], "uri": uri, "property": prop, "message": result[1]})
    return known(self, uri, prop, present, value, result)


system_under_test.SystemUnderTest.add_resource_result = listening
unread = []
original = system_under_test.SystemUnderTest.get_resource


def reading(self, uri):
    first = uri not in self._resources
    resource = original(self, uri)
    if first and resource["StatusCode"] != 200:
        unread.append([uri, resource["StatusCode"], str(resource["Exception"])])
    return resource


system_under_test.SystemUnderTest.get_resource = reading
os.chdir(FOLDER)
arguments = {
    "rhost": URL, "user": USER, "password": os.environ["SIM_PASSWORD"], "authtype": "Session",
    "ext_http_proxy": None, "ext_https_proxy": None, "serv_http_proxy": None, "serv_https_proxy": None,
    "logdir": FOLDER, "schema_directory": SCHEMAS, "payload": None, "mockup": None,
    "collectionlimit": ["LogEntry", "20"], "nooemcheck": True, "timeout": 60, "skipschema": True, "debugging": False,
}
with contextlib.redirect_stdout(sys.stderr):
    code, report = console_scripts.run_validator(arguments)
secret = os.environ["SIM_PASSWORD"]
leaks = [str(path) for path in pathlib.Path(FOLDER).rglob("*.html") if secret in path.read_text()]
print(json.dumps({"code": code, "counts": counts, "complaints": complaints, "unread": unread, "leaks": leaks}))

"""{{name}}: methods of a vendor's own: the light of a server's chassis."""

import json

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.vendor import Method
from wit_world.imports import bmc_raw
from wit_world.imports.types import Detail, Error_NotFound, Error_Other

CHASSIS = "/redfish/v1/Chassis/1"
NO_ARGUMENTS = json.dumps({"type": "object", "additionalProperties": False})
LIGHTS = {"light-on": "Lit", "light-off": "Off"}


class Vendor(exports.Vendor):
    def methods(self):
        return [
            Method("light-on", "Lights the chassis, to find the server in its rack", ["POST"], False, NO_ARGUMENTS),
            Method("light-off", "Puts the light of the chassis out", ["POST"], False, NO_ARGUMENTS),
        ]

    def call(self, node, method, arguments):
        if method not in LIGHTS:
            raise Err(Error_NotFound(f"there is no method `{method}`"))
        light = LIGHTS[method]
        body = json.dumps({"IndicatorLED": light}, separators=(",", ":"))
        reply = bmc_raw.redfish(node, "PATCH", CHASSIS, body)
        if reply.status >= 300:
            raise Err(
                Error_Other(Detail("bmc-refused", f"the BMC answered {reply.status} to the change of its light", None))
            )
        return json.dumps({"indicator-led": light}, separators=(",", ":"))

// {{name}}: methods of a vendor's own: the light of a server's chassis.

import * as bmcRaw from "farrier:driver/bmc-raw@0.1.0";

const CHASSIS = "/redfish/v1/Chassis/1";
const LIGHTS = { "light-on": "Lit", "light-off": "Off" };

const method = (name, description) => ({
  name,
  description,
  httpMethods: ["POST"],
  asynchronous: false,
  arguments: JSON.stringify({ type: "object", additionalProperties: false }),
});

export const vendor = {
  methods() {
    return [
      method("light-on", "Lights the chassis, to find the server in its rack"),
      method("light-off", "Puts the light of the chassis out"),
    ];
  },
  call(node, method, _arguments) {
    const light = Object.hasOwn(LIGHTS, method) ? LIGHTS[method] : undefined;
    // An error of the contract is thrown as it stands in wit/types.wit.
    if (!light) throw { tag: "not-found", val: `there is no method \`${method}\`` };
    const reply = bmcRaw.redfish(node, "PATCH", CHASSIS, JSON.stringify({ IndicatorLED: light }));
    if (reply.status >= 300) {
      throw {
        tag: "other",
        val: {
          code: "bmc-refused",
          message: `the BMC answered ${reply.status} to the change of its light`,
          retryAfterMs: null,
        },
      };
    }
    return JSON.stringify({ "indicator-led": light });
  },
};

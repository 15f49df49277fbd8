// {{name}}: how media get into a server's slots.
//
// One function is its own: an empty slot is not ejected, since some BMCs answer that with an error. All others go to the
// next plugin down the chain, whose last is Farrier's own.

import * as bmc from "farrier:driver/bmc@0.1.0";
import * as log from "farrier:driver/log@0.1.0";
import * as next from "farrier:driver/vmedia-service@0.1.0";

export const vmedia = {
  detach(node, device) {
    if (!bmc.mediaState(node, device).inserted) {
      log.event("info", "the slot is empty already", []);
      return;
    }
    next.detach(node, device);
  },
  prepareRamdisk: (node, parameters) => next.prepareRamdisk(node, parameters),
  cleanUpRamdisk: (node) => next.cleanUpRamdisk(node),
  prepareInstance: (node) => next.prepareInstance(node),
  cleanUpInstance: (node) => next.cleanUpInstance(node),
  attach: (node, device, location) => next.attach(node, device, location),
  bootIntoIso: (node, iso) => next.bootIntoIso(node, iso),
};

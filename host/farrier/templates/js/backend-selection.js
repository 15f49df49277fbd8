// {{name}}: which backend takes an artefact.

import * as config from "farrier:driver/config@0.1.0";

export const backendSelection = {
  select(node, request, candidates) {
    // Settings are JSON text.
    const preferred = JSON.parse(config.get("/prefer") ?? "null");
    const usable = candidates.filter(
      (candidate) => candidate.healthy && (candidate.freeBytes == null || candidate.freeBytes >= request.size),
    );
    const wished = usable.find((candidate) => candidate.id === preferred);
    if (wished) return { backend: wished.id, reason: "preferred by the site" };
    if (usable.length > 0) return { backend: usable[0].id, reason: "first healthy backend with room" };
    // An error of the contract is thrown as it stands in wit/types.wit.
    throw {
      tag: "other",
      val: { code: "no-backend", message: `no healthy backend has room for ${request.size} bytes`, retryAfterMs: null },
    };
  },
};

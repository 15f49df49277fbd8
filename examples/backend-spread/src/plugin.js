// How do I spread my servers over several web servers, so that a rack that boots at once does not hang on one of them?
//
// Each node has an order of its own over the backends (rendezvous hashing): it takes the first of them that is healthy and has
// room. When a backend fails, its nodes spread over the others; all other nodes stay where they are.

import * as config from "farrier:driver/config@0.1.0";
import * as log from "farrier:driver/log@0.1.0";

export const backendSelection = {
  select(node, request, candidates) {
    const kinds = JSON.parse(config.get("/kinds") ?? "null");
    if (kinds !== null && !Array.isArray(kinds)) {
      throw { tag: "invalid", val: "the setting `kinds` is a list of kinds of backends" };
    }
    const usable = candidates.filter(
      (candidate) =>
        candidate.healthy &&
        (kinds === null || kinds.includes(candidate.kind)) &&
        (candidate.freeBytes == null || candidate.freeBytes >= request.size),
    );
    if (usable.length === 0) {
      throw {
        tag: "other",
        val: { code: "no-backend", message: `none of ${candidates.length} backends can take it`, retryAfterMs: 10000 },
      };
    }
    const weight = (candidate) => fnv1a(`${candidate.id}\n${node.id()}`);
    const chosen = usable.reduce((best, other) => (weight(other) > weight(best) ? other : best));
    log.event("debug", "spread", [["backend", chosen.id]]);
    return { backend: chosen.id, reason: `one of ${usable.length} that can take it` };
  },
};

// FNV-1a of 32 bits, mixed once more: its high bits alone would follow the last letters too closely.
function fnv1a(text) {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x45d9f3b);
  return (hash ^ (hash >>> 16)) >>> 0;
}

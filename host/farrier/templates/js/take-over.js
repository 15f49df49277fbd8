// {{name}}: what a successor does about a node whose conductor died.

export const takeOver = {
  plan(node, observation) {
    const state = node.provisionState();
    const waiting = state.endsWith(" wait") || state === "wait call-back";
    const steps = [];
    for (const artefact of observation.artefacts) {
      // The same bytes under the same name.
      steps.push({ tag: "regenerate", val: artefact.kind });
      if (waiting && !artefact.inSlot) steps.push({ tag: "reinsert", val: artefact.kind });
    }
    const interrupted = observation.interrupted;
    if (interrupted?.repeat === "fail") {
      steps.push({
        tag: "fail",
        val: `\`${interrupted.name}\` was interrupted and must not be repeated: check the server`,
      });
    } else if (interrupted) {
      steps.push({ tag: "continue-interrupted-step" });
    } else if (waiting) {
      steps.push({ tag: "wait-for-agent" });
    }
    return steps;
  },
};

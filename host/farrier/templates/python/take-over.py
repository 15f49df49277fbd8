"""{{name}}: what a successor does about a node whose conductor died."""

from wit_world import exports
from wit_world.exports.take_over import (
    RepeatKind,
    Step_ContinueInterruptedStep,
    Step_Fail,
    Step_Regenerate,
    Step_Reinsert,
    Step_WaitForAgent,
)


class TakeOver(exports.TakeOver):
    def plan(self, node, observation):
        state = node.provision_state()
        waiting = state.endswith(" wait") or state == "wait call-back"
        steps = []
        for artefact in observation.artefacts:
            # The same bytes under the same name.
            steps.append(Step_Regenerate(artefact.kind))
            if waiting and not artefact.in_slot:
                steps.append(Step_Reinsert(artefact.kind))
        interrupted = observation.interrupted
        if interrupted is not None and interrupted.repeat == RepeatKind.FAIL:
            steps.append(Step_Fail(f"`{interrupted.name}` was interrupted and must not be repeated: check the server"))
        elif interrupted is not None:
            steps.append(Step_ContinueInterruptedStep())
        elif waiting:
            steps.append(Step_WaitForAgent())
        return steps

"""How do I keep a successor from doing anything to my production servers that I have not looked at?

Nodes with the capability `tier:production` have their artefacts served again under their old names, and nothing else: what lost
its medium is marked for the next reset, and an interrupted step waits for a person. All other nodes go on at once.
"""

from wit_world import exports
from wit_world.exports.take_over import (
    RepeatKind,
    Step_ContinueInterruptedStep,
    Step_DeferReinsert,
    Step_Fail,
    Step_Regenerate,
    Step_Reinsert,
    Step_Renew,
    Step_WaitForAgent,
    UrlState,
)
from wit_world.imports import log

# What ends sooner is renewed, in seconds.
RENEW_BELOW = 900


class TakeOver(exports.TakeOver):
    def plan(self, node, observation):
        production = node.fact("capability.tier") == "production"
        steps = []
        for artefact in observation.artefacts:
            steps += serve_again(artefact)
            if artefact.in_slot and artefact.url != UrlState.DEAD:
                continue
            if production or node.provision_state() == "active":
                steps.append(Step_DeferReinsert(artefact.kind))
            elif observation.agent_seen_s_ago is None:
                # A ramdisk that has called in runs from memory and needs its media no more.
                steps.append(Step_Reinsert(artefact.kind))
        steps += go_on(node, observation, production)
        log.event(log.Level.INFO, f"{len(steps)} steps after {observation.previous_conductor}", [])
        return steps


def serve_again(artefact):
    steps = [Step_Regenerate(artefact.kind)]
    if artefact.expires_in_s is not None and artefact.expires_in_s < RENEW_BELOW:
        steps.append(Step_Renew(artefact.kind))
    return steps


def go_on(node, observation, production):
    interrupted = observation.interrupted
    if interrupted is not None:
        if production or interrupted.repeat == RepeatKind.FAIL:
            return [Step_Fail(f"{observation.previous_conductor} died during `{interrupted.name}`: look at the server first")]
        return [Step_ContinueInterruptedStep()]
    waiting = node.provision_state().endswith(" wait") or node.provision_state() == "wait call-back"
    return [Step_WaitForAgent()] if waiting else []

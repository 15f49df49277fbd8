//! {{name}}: what a successor does about a node whose conductor died.

wit_bindgen::generate!({ path: "wit", world: "take-over-plugin" });

use exports::farrier::driver::take_over::{Guest, Observation, RepeatKind, Step};
use farrier::driver::inventory::Node;
use farrier::driver::types::Error;

struct Plugin;

impl Guest for Plugin {
    fn plan(node: &Node, observation: Observation) -> Result<Vec<Step>, Error> {
        let state = node.provision_state();
        let waiting = state.ends_with(" wait") || state == "wait call-back";
        let mut steps = Vec::new();
        for artefact in &observation.artefacts {
            // The same bytes under the same name.
            steps.push(Step::Regenerate(artefact.kind));
            if waiting && !artefact.in_slot {
                steps.push(Step::Reinsert(artefact.kind));
            }
        }
        match observation.interrupted {
            Some(step) if step.repeat == RepeatKind::Fail => steps.push(Step::Fail(format!(
                "`{}` was interrupted and must not be repeated: check the server",
                step.name
            ))),
            Some(_) => steps.push(Step::ContinueInterruptedStep),
            None if waiting => steps.push(Step::WaitForAgent),
            None => {}
        }
        Ok(steps)
    }
}

export!(Plugin);

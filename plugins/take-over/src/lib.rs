//! The default policy for take-over: what a successor does about a node whose conductor died.
//!
//! Waiting for a ramdisk: floppy and boot ISO are served again, and inserted again only while the agent has not called in.
//! Active: the boot ISO is served again under its old name, and the server itself is left alone.

mod bindings;
mod plan;

use bindings::exports::farrier::driver::take_over::{Guest, Observation, Step};
use bindings::farrier::driver::inventory::Node;
use bindings::farrier::driver::log::{self, Level};
use bindings::farrier::driver::types::Error;

struct Plugin;

impl Guest for Plugin {
    fn plan(node: &Node, observation: Observation) -> Result<Vec<Step>, Error> {
        let state = node.provision_state();
        let reinsert_now = node.fact("site.reinsert-active").is_some_and(|choice| choice == "now");
        let plan = plan::plan(&state, &observation, reinsert_now);
        let fields = [("steps".to_owned(), plan.len().to_string())];
        let message = format!(
            "plan for a node in `{state}` after `{}`",
            observation.previous_conductor
        );
        log::event(Level::Debug, &message, &fields);
        Ok(plan)
    }
}

#[expect(unsafe_code, reason = "generated: exported functions cross the component boundary")]
mod exports {
    use crate::Plugin;
    crate::bindings::export!(Plugin with_types_in crate::bindings);
}

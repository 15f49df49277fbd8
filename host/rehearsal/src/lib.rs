//! Rehearsal: a plugin is called in a sandbox and what it asks of the host is compared with what a scenario file says.
//!
//! A [`Suite`] is one scenario file. Each of its cases calls one function of a plugin; the host's side is played by a world
//! of its own, which answers from the case's list, keeps a clock that nobody waits for, and gives handles stable names
//! (`image#1`). The plugin runs under the same broker, grants, envelope and limits as in service. Nothing outside this
//! process is touched.
//!
//! ```yaml
//! suite: an operator's medium is taken out
//! plugin: {built-in: vmedia}
//! cases:
//!   - name: the slot is emptied once
//!     call: vmedia.detach
//!     args: {device: cdrom}
//!     host:
//!       - {on: bmc.eject, with: {device: cdrom}}
//!     expect: {outcome: ok, calls: {bmc.eject: 1}, never: [bmc.insert]}
//! ```

mod calls;
mod functions;
mod invocation;
mod junit;
mod nearest;
mod node;
mod nouns;
mod reply;
mod report;
mod run;
mod scenario;
mod script;
mod world;

pub use junit::junit;
pub use report::{CaseReport, SuiteReport};
pub use run::{RunError, run};
pub use scenario::{ScenarioError, Suite};

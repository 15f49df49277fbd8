//! Rehearsal: a plugin is called in a sandbox and what it asks of the host is compared with what a scenario file says.
//!
//! A [`Suite`] is one scenario file. Each of its cases calls one function of a plugin; the host's side is played by a world
//! of its own, which answers from the case's list (`host`) or as a small server with a memory (`world`), keeps a clock that
//! nobody waits for, and gives handles stable names (`image#1`). On a `world`, a case can be swept: the same call with every
//! fault, and with every grant less. The plugin runs under the same broker, grants, envelope and limits as in service.
//! Nothing outside this process is touched.
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
mod compare;
mod coverage;
mod faults;
mod functions;
mod invocation;
mod judge;
mod junit;
mod machine;
mod nearest;
mod node;
mod nouns;
mod play;
mod record;
mod reply;
mod report;
mod run;
mod scenario;
mod script;
mod stage;
mod sweep;
mod world;

pub use compare::{Comparison, Difference, compare};
pub use coverage::{Coverage, Met, coverage};
pub use junit::junit;
pub use record::{RecordedPlugin, Recorder};
pub use report::{CaseReport, SuiteReport, SweepReport};
pub use run::{RunError, run};
pub use scenario::{ScenarioError, Suite};

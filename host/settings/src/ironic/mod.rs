//! `ironic.conf`, as it is, to the tree that `farrier.toml` is read into.
//!
//! [`table`] has the options; [`draft`] looks them up; the files beside it say what a group of them becomes; [`notes`] tells
//! what has no effect. What nobody set is left to Farrier's own defaults, but for three: where state is kept, which files
//! may be read, and where the boot loader looks for its settings.

use std::path::PathBuf;

use crate::machine::Machine;
use crate::oslo::files;
use crate::oslo::lookup::Conf;
use crate::section::Report;
use crate::tree::Table;

mod backends;
mod credentials;
mod draft;
mod images;
mod listeners;
mod notes;
mod site;
pub(crate) mod table;
#[cfg(test)]
mod tests;

use draft::Draft;

/// Where Ironic's packages keep its state.
const STATE_PATH: &str = "/var/lib/ironic";
/// Where Ironic lets `file:` references lie.
const FILE_PATHS: &str = "/var/lib/ironic,/shared/html,/templates,/opt/cache/files,/vagrant";

/// What these files and folders set. `site` is what farrier.toml sets, which wins: what it says is not asked for here.
pub(crate) fn read(given: &[PathBuf], site: &Table, machine: &Machine, report: &Report) -> Table {
    let (files, problems) = files::read(given);
    let is_whole = problems.is_empty();
    for problem in problems {
        report.problem(problem.origin, problem.message);
    }
    let mut conf = Conf::new(files, table::rows().map(|row| &row.opt));
    conf.set_default("DEFAULT", "host", machine.host_name.clone());
    conf.set_default("DEFAULT", "my_ip", machine.address.to_string());
    let mut draft = Draft::new(&conf, site, machine, report);
    notes::tell(&draft);
    // What is missing may stand in a part that could not be read.
    if is_whole {
        site::translate(&mut draft);
        listeners::translate(&mut draft);
        images::translate(&mut draft);
        backends::translate(&mut draft);
    }
    draft.tree
}

//! `farrier plugin`: a plugin is made, built and tried out before any server sees it.

mod build;
mod contract;
mod inspect;
mod new;
mod project;
mod templates;

mod explain;
mod list;
mod rollback;
mod use_;

mod compare;
mod record;
mod test;
mod watch;

use anyhow::Result;

/// What was asked for cannot be begun: a scenario file is wrong, or the host refuses the plugin. Exit code 2.
#[derive(Debug)]
pub(crate) struct NotRun;

impl std::fmt::Display for NotRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no case was run")
    }
}

impl std::error::Error for NotRun {}

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Make a project for a plugin: it builds, and its rehearsal passes at once
    New(new::Args),
    /// Build a project to a component, with its manifest
    Build(build::Args),
    /// Show what a component imports, exports and asks for, and whether this host takes it
    ///
    /// Exit code 1: this host does not take it.
    Inspect(inspect::Args),
    /// Run scenario files: what a plugin asks of the host, against what it should
    ///
    /// Exit code 1: a case failed; 2: a file is wrong or the host refuses the plugin.
    #[command(after_long_help = test::KEYS)]
    Test(test::TestArgs),
    /// Show where two versions of a plugin decide differently in the same scenarios
    ///
    /// Exit code 1: they do; 2: a file is wrong or the host refuses one of them.
    Compare(compare::CompareArgs),
    /// Run a conductor as `farrier serve` does, and write down what its plugins ask and are answered
    ///
    /// Each call becomes a scenario file that `farrier plugin test` reads. Secrets are left out.
    Record(record::RecordArgs),
    /// The plugins of a running conductor: versions, calls, failures, what is in quarantine
    List(list::Args),
    /// Why a plugin decides for a node, and what it may do there
    Explain(explain::Args),
    /// Put another version of a plugin in place, at once
    ///
    /// It is checked as at a start, and must pass the scenarios that it brings. Calls that have begun keep the old one, and so
    /// does a node on its way to active.
    Use(use_::Args),
    /// Go back to the last good version of a plugin
    Rollback(rollback::Args),
}

pub(crate) async fn run(command: Command) -> Result<()> {
    match command {
        Command::New(args) => new::run(&args),
        Command::Build(args) => build::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Test(args) => test::test(&args).await,
        Command::Compare(args) => compare::compare(args).await,
        Command::Record(args) => record::record(args).await,
        Command::List(args) => list::run(args).await,
        Command::Explain(args) => explain::run(args).await,
        Command::Use(args) => use_::run(args).await,
        Command::Rollback(args) => rollback::run(args).await,
    }
}

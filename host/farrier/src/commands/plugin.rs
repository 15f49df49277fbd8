//! `farrier plugin`: a plugin is tried out before any server sees it.

mod explain;
mod list;
mod rollback;
mod use_;

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use rehearsal::{CaseReport, Suite, SuiteReport};
use runtime::Engine;

use crate::output::{self, Format, OutputArgs};

/// Calls that run at once: cases run one after the other, each with what the plugin leads to.
const CALLS_AT_ONCE: u16 = 2;

/// What was asked for cannot be begun: a scenario file is wrong, or the host refuses the plugin. Exit code 2.
#[derive(Debug)]
pub(crate) struct NotRun;

impl std::fmt::Display for NotRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no case was run")
    }
}

impl std::error::Error for NotRun {}

/// The keys of a scenario file, for `--help`.
const KEYS: &str = "\
A scenario file:
  suite: slots                          # a name
  plugin: ../acme.wasm                  # beside this file; or {built-in: vmedia}
  grants: {bmc: [eject]}                # as in the site file; left out = the role's default
  settings: {}                          # of the plugin; as are `site`, `backends`, `clock` and `limits`, a case may have its own
  site: {callback-timeout-s: \"1800\"}
  clock: 2026-11-30T12:00:00Z           # sleeps move it on, nobody waits
  limits: {cpu-ms: 200, wall-s: 120}    # also memory, host-calls
  defaults: {node: {driver: agent_ilo, provision-state: deploying, facts: {vendor: HPE}}}
  cases:
    - name: the CD is taken out
      call: vmedia.detach               # role and function
      args: {device: cdrom}
      node: {provision-state: active}   # over the default
      by-operator: true                 # an active node may be touched
      order: ordered                    # or any-order
      host:                             # what it asks, and the answers; all of it, and nothing else
        - {on: bmc.eject, with: {device: cdrom}, error: {conflict: in POST}, times: 1}
      expect: {outcome: error, error: conflict, message: POST, calls: {bmc.eject: 1}, never: [power.*]}

Outcomes: ok (with `result`), error (with `error`, `message`), denied, trapped (with `reason`), timeout.";

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Run scenario files: what a plugin asks of the host, against what it should
    ///
    /// Exit code 1: a case failed; 2: a file is wrong or the host refuses the plugin.
    #[command(after_long_help = KEYS)]
    Test(TestArgs),
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

#[derive(clap::Args)]
pub(crate) struct TestArgs {
    /// Scenario files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Also write the results as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) async fn run(command: Command) -> Result<()> {
    match command {
        Command::Test(args) => test(args).await,
        Command::List(args) => list::run(args).await,
        Command::Explain(args) => explain::run(args).await,
        Command::Use(args) => use_::run(args).await,
        Command::Rollback(args) => rollback::run(args).await,
    }
}

async fn test(args: TestArgs) -> Result<()> {
    // All files are read before the first case runs: a slip in the last one is told at once.
    let suites: Vec<_> = args.files.iter().map(|file| Suite::read(file)).collect();
    let mut wrong = 0;
    for error in suites.iter().filter_map(|suite| suite.as_ref().err()) {
        wrong += 1;
        output::complain(&described(error));
    }
    if wrong > 0 {
        return Err(NotRun.into());
    }
    let engine = Engine::new(CALLS_AT_ONCE)?;
    let mut reports = Vec::new();
    for suite in suites.into_iter().flatten() {
        match rehearsal::run(&engine, &suite).await {
            Ok(report) => reports.push(report),
            Err(error) => return Err(anyhow::Error::new(error).context(NotRun)),
        }
    }
    if let Some(path) = &args.junit {
        std::fs::write(path, rehearsal::junit(&reports))
            .with_context(|| format!("could not write {}", path.display()))?;
    }
    match args.output.format {
        Format::Json => output::json(&reports)?,
        Format::Table => show(&reports),
    }
    let cases: usize = reports.iter().map(|report| report.cases.len()).sum();
    match reports.iter().map(SuiteReport::failed).sum::<usize>() {
        0 => Ok(()),
        failed => Err(anyhow!("{failed} of {cases} cases failed")),
    }
}

/// An error of a scenario file with its causes, to be shown without ending.
fn described(error: &rehearsal::ScenarioError) -> anyhow::Error {
    match std::error::Error::source(error) {
        Some(source) => anyhow!("{source}").context(error.to_string()),
        None => anyhow!("{error}"),
    }
}

fn show(reports: &[SuiteReport]) {
    for report in reports {
        output::say(format_args!("{}: {} ({})", report.file, report.suite, report.plugin));
        output::table(
            ["Case", "", "Outcome", "Host calls", "Time"],
            report.cases.iter().map(|case| {
                [
                    case.name.clone(),
                    if case.passed { "passed" } else { "FAILED" }.to_owned(),
                    case.outcome.clone(),
                    case.calls.len().to_string(),
                    format!("{}.{:03} ms", case.wall_us / 1000, case.wall_us % 1000),
                ]
            }),
        );
        for case in report.cases.iter().filter(|case| !case.passed) {
            explain(report, case);
        }
    }
}

fn explain(report: &SuiteReport, case: &CaseReport) {
    output::say(format_args!("\n{}:{}: {}", report.file, case.line, case.name));
    for line in case.failures.iter().flat_map(|failure| failure.lines()) {
        output::say(format_args!("  {line}"));
    }
    if !case.calls.is_empty() {
        output::say("  what the plugin asked for:");
        for call in &case.calls {
            output::say(format_args!("    {call}"));
        }
    }
    output::say("");
}

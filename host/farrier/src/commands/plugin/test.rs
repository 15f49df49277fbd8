//! `farrier plugin test`: scenario files, once or whenever something is saved.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use rehearsal::{CaseReport, Coverage, Suite, SuiteReport};
use runtime::{ComponentSource, Engine};

use super::NotRun;
use super::watch::Watch;
use crate::output::{self, Format, OutputArgs};

/// Calls that run at once, each with what it leads to.
pub(super) const CALLS_AT_ONCE: u16 = 8;

/// The keys of a scenario file, for `--help`.
pub(super) const KEYS: &str = "\
A scenario file:
  suite: slots                          # a name
  plugin: ../acme.wasm                  # beside this file; or {built-in: vmedia}
  grants: {bmc: [eject]}                # as in the site file; left out = the role's default
  settings: {}                          # of the plugin; as are `site`, `backends`, `clock`, `limits`, `seed`, `world`,
                                        # `sweep` and `matrix`, a case may have its own
  site: {callback-timeout-s: \"1800\"}
  clock: 2026-11-30T12:00:00Z           # sleeps move it on, nobody waits
  seed: 7                               # names and storms come from it
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
    - name: whatever goes wrong
      call: vmedia.detach
      args: {device: cdrom}
      world: {power: off, cdrom: {url: \"http://a.example/x.iso\"}, post-s: 0}   # instead of `host`: a server with a memory
      matrix: {facts.vendor: [HPE, Other]}                  # one case for each combination
      sweep: {faults: true, grants: true, storms: 20}       # each call fails, each grant is missing, all at once
      expect: {outcome: ok, world: {cdrom: empty}}

Outcomes: ok (with `result`), error (with `error`, `message`), denied, trapped (with `reason`), timeout. The whole form stands
in docs/rehearsal.md.";

#[derive(clap::Args)]
pub(crate) struct TestArgs {
    /// Scenario files, or folders of them
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Test this component, whatever the files name
    #[arg(long, value_name = "FILE")]
    component: Option<PathBuf>,
    /// Also write the results as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Show which errors of which host functions the plugins never met
    #[arg(long)]
    coverage: bool,
    /// Fail if a plugin met less than this part of them, in percent
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    min_coverage: Option<u8>,
    /// Run again whenever a scenario file or a component changes, until interrupted
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) async fn test(args: &TestArgs) -> Result<()> {
    let engine = Engine::new(CALLS_AT_ONCE)?;
    if !args.watch {
        return once(&engine, args, &mut Watch::default()).await;
    }
    loop {
        let mut watch = Watch::default();
        match once(&engine, args, &mut watch).await {
            Ok(()) => output::note("passed; waiting for a change (Ctrl-C ends)"),
            Err(error) => {
                output::complain(&error);
                output::note("waiting for a change (Ctrl-C ends)");
            }
        }
        tokio::select! {
            () = watch.changed() => {}
            done = tokio::signal::ctrl_c() => return done.context("could not listen for Ctrl-C"),
        }
    }
}

/// One round over all files; `watch` learns what it depends on.
async fn once(engine: &Engine, args: &TestArgs, watch: &mut Watch) -> Result<()> {
    let files = expanded(&args.files, watch)?;
    let suites = suites(&files, args.component.as_deref(), watch)?;
    let mut reports = Vec::new();
    for suite in &suites {
        match rehearsal::run(engine, suite).await {
            Ok(report) => reports.push(report),
            Err(error) => return Err(anyhow::Error::new(error).context(NotRun)),
        }
    }
    if let Some(path) = &args.junit {
        std::fs::write(path, rehearsal::junit(&reports))
            .with_context(|| format!("could not write {}", path.display()))?;
    }
    let coverage = rehearsal::coverage(&reports);
    match args.output.format {
        // The shape of the plain report is what programs read; coverage is asked for by its own option.
        Format::Json if args.coverage => {
            output::json(&serde_json::json!({ "suites": reports, "coverage": coverage }))?;
        }
        Format::Json => output::json(&reports)?,
        Format::Table => {
            show(&reports);
            if args.coverage {
                show_coverage(&coverage);
            }
        }
    }
    let cases: usize = reports.iter().map(|report| report.cases.len()).sum();
    let failed: usize = reports.iter().map(SuiteReport::failed).sum();
    if failed > 0 {
        return Err(anyhow!("{failed} of {cases} cases failed"));
    }
    match args.min_coverage {
        Some(least) => enough(&coverage, least),
        None => Ok(()),
    }
}

/// Files, and of folders every `.yaml` and `.yml` in them, by name.
pub(super) fn expanded(given: &[PathBuf], watch: &mut Watch) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in given {
        watch.also(path);
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let failed = || format!("could not read {}", path.display());
        let mut found = Vec::new();
        for entry in std::fs::read_dir(path).with_context(failed)? {
            let file = entry.with_context(failed)?.path();
            if file
                .extension()
                .is_some_and(|ending| ending == "yaml" || ending == "yml")
            {
                found.push(file);
            }
        }
        if found.is_empty() {
            return Err(anyhow!("{} holds no scenario file (*.yaml)", path.display()).context(NotRun));
        }
        found.sort();
        files.append(&mut found);
    }
    Ok(files)
}

/// All files are read before the first case runs: a slip in the last one is told at once.
pub(super) fn suites(files: &[PathBuf], component: Option<&Path>, watch: &mut Watch) -> Result<Vec<Suite>> {
    let mut suites = Vec::new();
    let mut wrong = 0;
    if let Some(component) = component {
        watch.also(component);
    }
    for file in files {
        watch.also(file);
        let read = match component {
            None => Suite::read(file),
            Some(component) => Suite::read_for(file, ComponentSource::File(component.to_owned())),
        };
        match read {
            Ok(suite) => {
                suite.files().iter().for_each(|file| watch.also(file));
                suites.push(suite);
            }
            Err(error) => {
                wrong += 1;
                output::complain(&described(&error));
            }
        }
    }
    if wrong > 0 {
        return Err(NotRun.into());
    }
    Ok(suites)
}

/// An error of a scenario file with its causes, to be shown without ending.
fn described(error: &rehearsal::ScenarioError) -> anyhow::Error {
    match std::error::Error::source(error) {
        Some(source) => anyhow!("{source}").context(error.to_string()),
        None => anyhow!("{error}"),
    }
}

fn enough(coverage: &[Coverage], least: u8) -> Result<()> {
    let poor = |one: &&Coverage| one.percent() < f64::from(least);
    let poor: Vec<String> = coverage
        .iter()
        .filter(poor)
        .map(|one| {
            format!(
                "{} met {:.1} % of the errors that it can meet",
                one.plugin,
                one.percent()
            )
        })
        .collect();
    if poor.is_empty() {
        return Ok(());
    }
    Err(anyhow!(
        "{}; {least} % are wanted: `--coverage` shows which are missing, `sweep: {{faults: true}}` on a `world` injects them",
        poor.join("; ")
    ))
}

fn show_coverage(coverage: &[Coverage]) {
    for one in coverage {
        output::say(format_args!(
            "{}: met {} of {} errors ({:.1} %)",
            one.plugin,
            one.met,
            one.pairs,
            one.percent()
        ));
        for (function, causes) in &one.missing {
            output::say(format_args!("  {function} never answered: {}", causes.join(", ")));
        }
    }
}

fn show(reports: &[SuiteReport]) {
    for report in reports {
        output::say(format_args!("{}: {} ({})", report.file, report.suite, report.plugin));
        output::table(
            ["Case", "", "Outcome", "Host calls", "Sweeps", "Time"],
            report.cases.iter().map(|case| {
                let runs: usize = case.sweeps.iter().map(|sweep| sweep.runs).sum();
                [
                    case.name.clone(),
                    if case.passed { "passed" } else { "FAILED" }.to_owned(),
                    case.outcome.clone(),
                    case.calls.len().to_string(),
                    if runs == 0 {
                        String::new()
                    } else {
                        format!("{runs} runs")
                    },
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

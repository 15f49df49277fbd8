//! `farrier plugin compare`: where two versions of a plugin decide differently.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use runtime::Engine;

use super::NotRun;
use super::test::{CALLS_AT_ONCE, expanded, suites};
use super::watch::Watch;
use crate::output::{self, Format, OutputArgs};

#[derive(clap::Args)]
pub(crate) struct CompareArgs {
    /// Scenario files, or folders of them
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The version to compare with
    #[arg(long, value_name = "OLD.wasm")]
    compare: PathBuf,
    /// The new version, if it is not the one that the files name
    #[arg(long, value_name = "NEW.wasm")]
    component: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) async fn compare(args: CompareArgs) -> Result<()> {
    let engine = Engine::new(CALLS_AT_ONCE)?;
    let mut nothing = Watch::default();
    let files = expanded(&args.files, &mut nothing)?;
    let new = suites(&files, args.component.as_deref(), &mut nothing)?;
    let old = suites(&files, Some(&args.compare), &mut nothing)?;
    let mut all = Vec::new();
    for (old, new) in old.iter().zip(&new) {
        match rehearsal::compare(&engine, old, new).await {
            Ok(comparison) => all.push(comparison),
            Err(error) => return Err(anyhow::Error::new(error).context(NotRun)),
        }
    }
    if args.output.format == Format::Json {
        output::json(&all)?;
    } else {
        for comparison in &all {
            output::say(format_args!("{}: {}", comparison.file, comparison.suite));
            output::say(format_args!("  - {}\n  + {}", comparison.old, comparison.new));
            for difference in &comparison.differences {
                output::say(format_args!(
                    "{}:{}: {}",
                    comparison.file, difference.line, difference.case
                ));
                for line in &difference.lines {
                    output::say(format_args!("  {line}"));
                }
            }
        }
    }
    let cases: usize = all.iter().map(|comparison| comparison.cases).sum();
    match all.iter().map(|comparison| comparison.differences.len()).sum::<usize>() {
        0 => {
            output::note(format_args!("the two decide alike in all {cases} cases"));
            Ok(())
        }
        different => Err(anyhow!("the two decide differently in {different} of {cases} cases")),
    }
}

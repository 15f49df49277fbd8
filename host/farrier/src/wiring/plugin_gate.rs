//! The gate of the plugin runtime: a version is rehearsed on the scenarios that it brings before it decides anything.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use rehearsal::Suite;
use runtime::{ComponentSource, Engine, Gate, Trial};

/// See [`Gate`]. Nothing outside this process is touched.
pub(super) struct Scenarios {
    pub(super) engine: Engine,
}

#[async_trait]
impl Gate for Scenarios {
    async fn check(&self, trial: &Trial) -> Result<(), String> {
        let scenarios = trial.manifest.as_ref().map(|manifest| &manifest.scenarios);
        for scenario in scenarios.into_iter().flatten() {
            let component = ComponentSource::Bytes {
                name: trial.id.clone(),
                bytes: Arc::clone(&trial.component),
            };
            let told = |error: anyhow::Error| format!("{error:#}");
            let suite = Suite::parse_for(&scenario.text, Path::new(&scenario.name), component)
                .map_err(|error| told(error.into()))?;
            let report = rehearsal::run(&self.engine, &suite)
                .await
                .map_err(|error| told(error.into()))?;
            if let Some(case) = report.cases.iter().find(|case| !case.passed) {
                let failures = case.failures.join("; ");
                return Err(format!("{}:{}: {}: {failures}", scenario.name, case.line, case.name));
            }
        }
        Ok(())
    }
}

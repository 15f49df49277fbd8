//! Beginning what a user asked for, or refusing it before anything is touched.

use std::time::SystemTime;

use model::{BootMode, Driver, Fault, Node, ProvisionState, Verb, Wish};
use nodes::Record;

use super::moves::{set_out, settle, stand, unfault};
use super::worker::{Guard, LOOK, Stop, Trouble, Worker};
use crate::BootImage;
use crate::heartbeat::fresh_token;
use crate::instance::{CONFIG_DRIVE, instance};
use crate::machine::{self, Move};
use crate::step::Step;

impl Worker {
    /// Begins what a user asked for; checks first that it can work.
    pub(super) async fn begin(&mut self, record: &Record, verb: Verb) -> Result<(), Stop> {
        let state = record.node.provision_state;
        let Some(to) = machine::next(state, Move::Ask(verb)) else {
            return Ok(());
        };
        let given = match &record.node.wish {
            Some(Wish::Provision { config_drive, .. }) => config_drive.clone(),
            _ => None,
        };
        let now = SystemTime::now();
        let problem = self.memory.seen.problem.take();
        self.memory.forget_step(now);
        self.memory.hurried = false;
        let prepare = now + self.shared.config.timeouts.prepare;
        let start = |node: &mut Node| {
            node.wish = None;
            node.last_error = None;
            node.target_provision_state = machine::target(verb);
            stand(node, to, now);
        };
        match verb {
            Verb::Abort => return self.abort(record, to, problem.as_deref()).await,
            Verb::Active | Verb::Rebuild => {
                // A rebuild without a config drive keeps the one of the first deployment.
                let kept = record.node.secrets.get(CONFIG_DRIVE).filter(|_| verb == Verb::Rebuild);
                let drive = given.or_else(|| kept.cloned());
                let wanted = match instance(&record.node, drive.as_ref()) {
                    Ok(instance) => instance,
                    Err(error) => return self.refuse_deployment(record, verb, &error.to_string()).await,
                };
                let by_ramdisk = wanted.image.is_some();
                let mut boots = Vec::new();
                boots.extend(by_ramdisk.then_some(BootImage::Ramdisk));
                boots.extend((record.node.driver == Driver::IscsiIlo).then_some(BootImage::Instance));
                let mode = match self.check_boot(record, &boots).await? {
                    Ok(mode) => mode,
                    Err(reason) => return self.refuse_deployment(record, verb, &reason).await,
                };
                let edit = |node: &mut Node| {
                    start(node);
                    unfault(node);
                    node.boot_mode = mode.or(node.boot_mode);
                    node.secrets.remove(CONFIG_DRIVE);
                    if let Some(drive) = &drive {
                        node.secrets.insert(CONFIG_DRIVE.to_owned(), drive.clone());
                    }
                    set_out(node, by_ramdisk.then(fresh_token), prepare);
                };
                self.go(record, Guard::Decision, to, verb.as_str(), edit).await?;
            }
            Verb::Deleted => {
                let edit = |node: &mut Node| {
                    start(node);
                    unfault(node);
                    set_out(node, None, prepare);
                };
                self.go(record, Guard::Decision, to, verb.as_str(), edit).await?;
            }
            Verb::Provide => {
                let cleans = self.shared.rules.automated_clean;
                let boots: &[_] = if cleans { &[BootImage::Ramdisk] } else { &[] };
                let mode = match self.check_boot(record, boots).await? {
                    Ok(mode) => mode,
                    Err(reason) => return self.refuse(record, &reason).await,
                };
                let edit = |node: &mut Node| {
                    start(node);
                    node.boot_mode = mode.or(node.boot_mode);
                    if cleans {
                        set_out(node, Some(fresh_token()), prepare);
                    }
                };
                self.go(record, Guard::Decision, to, verb.as_str(), edit).await?;
            }
            _ => {
                let edit = |node: &mut Node| {
                    start(node);
                    if to == ProvisionState::Verifying {
                        node.step = Some(Step::Verify.as_str().to_owned());
                        node.deadline = Some(prepare);
                    } else {
                        settle(node);
                        if node.fault == Some(Fault::CleanFailure) {
                            node.fault = None;
                        }
                    }
                };
                self.go(record, Guard::Decision, to, verb.as_str(), edit).await?;
            }
        }
        Ok(())
    }

    /// Stops what is under way. `problem`: why it was not getting on.
    async fn abort(&mut self, record: &Record, to: ProvisionState, problem: Option<&str>) -> Result<(), Stop> {
        let reason = match problem {
            None => "aborted by an operator".to_owned(),
            Some(problem) => format!("aborted by an operator; last: {problem}"),
        };
        if matches!(
            record.node.provision_state,
            ProvisionState::Verifying | ProvisionState::Deleting
        ) {
            return self.end_in_failure(record, Guard::Decision, to, &reason).await;
        }
        self.memory.hurried = problem.is_some();
        self.clean_up(record, Step::AbortPowerOff, &reason).await
    }

    /// Whether these images can be made for the server's firmware: its boot mode, where the BMC tells it, or why not. A BMC
    /// that does not answer is waited for by the work itself.
    async fn check_boot(
        &self,
        record: &Record,
        images: &[BootImage],
    ) -> Result<Result<Option<BootMode>, String>, Stop> {
        if images.is_empty() {
            return Ok(Ok(None));
        }
        let errand = self.errand(record, false);
        let hands = &self.shared.hands;
        let mode = tokio::time::timeout(LOOK, hands.power.boot_mode(&errand)).await;
        let mode = mode.ok().and_then(Result::ok);
        for image in images {
            match hands
                .policies
                .check_boot(&errand, *image, mode)
                .await
                .map_err(Trouble::from)
            {
                // What does not answer now is asked again when the image is made.
                Ok(()) | Err(Trouble::Retry { .. }) => {}
                Err(Trouble::Failed(reason)) => return Ok(Err(reason)),
                Err(Trouble::Stop(stop)) => return Err(stop),
            }
        }
        Ok(Ok(mode))
    }

    /// A deployment that cannot work fails before anything is touched.
    async fn refuse_deployment(&mut self, record: &Record, verb: Verb, reason: &str) -> Result<(), Stop> {
        if record.node.provision_state == ProvisionState::Active {
            // The instance runs on as it is.
            return self.refuse(record, reason).await;
        }
        let now = SystemTime::now();
        let to = ProvisionState::DeployFailed;
        let edit = |node: &mut Node| {
            node.wish = None;
            node.last_error = Some(reason.to_owned());
            node.target_provision_state = machine::target(verb);
            stand(node, to, now);
        };
        self.go(record, Guard::Decision, to, reason, edit).await.map(|_| ())
    }

    /// Drops a wish, with the reason.
    pub(super) async fn refuse(&mut self, record: &Record, reason: &str) -> Result<(), Stop> {
        let edit = |node: &mut Node| {
            node.wish = None;
            node.last_error = Some(reason.to_owned());
        };
        self.change(record, Guard::Decision, edit).await?;
        self.tell("refused", reason).await;
        Ok(())
    }
}

//! What operators ask for directly: power, booting an ISO of their own. And reading the power, which is adopted as it is.
//!
//! These run to their end in one go. A conductor that dies in the middle leaves the step's name on the record, and its
//! successor drops the request: a server is not reset twice because a conductor died once.

use std::time::SystemTime;

use model::{Device, Fault, Node, PowerAction, PowerState};
use nodes::Record;

use super::memory::jittered;
use super::moves::{Learned, learn};
use super::worker::{Guard, Stop, Trouble, Worker, within};
use crate::Errand;
use crate::step::Step;

/// How often a request is tried again that a busy BMC did not take.
const TRIES: u32 = 4;
/// Power that could not be read so often in a row is a fault.
const POWER_FAILURES: u32 = 3;

impl Worker {
    /// Carries out a power request.
    pub(super) async fn power(&mut self, record: Record, action: PowerAction) -> Result<(), Stop> {
        let target = match action {
            PowerAction::Off | PowerAction::SoftOff => PowerState::Off,
            PowerAction::On | PowerAction::ForceRestart | PowerAction::SoftRestart => PowerState::On,
        };
        let edit = |node: &mut Node| {
            node.target_power_state = Some(target);
            node.step = Some(Step::Power.as_str().to_owned());
        };
        let record = self.change(&record, Guard::Decision, edit).await?;
        let effect = self.begin_effect(Step::Power).await?;
        let errand = self.errand(&record, true);
        let limit = self.shared.config.timeouts.prepare;
        let mut outcome = within(limit, "the power request", self.change_power(&errand, action)).await;
        for tries in 0..TRIES {
            // All of it is absolute: what is done already is not done again.
            let Err(Trouble::Retry { after, .. }) = &outcome else {
                break;
            };
            let pause = self.shared.config.retry * (1 << tries);
            tokio::time::sleep(after.unwrap_or_default().max(jittered(pause))).await;
            outcome = within(limit, "the power request", self.change_power(&errand, action)).await;
        }
        self.end_effect(effect, &outcome).await;
        self.answer(&record, &format!("power: {}", spell(action)), outcome)
            .await
    }

    /// Boots an operator's ISO once, from power-off, so that no running system loses its media.
    pub(super) async fn boot_into_iso(&mut self, record: Record, url: &str) -> Result<(), Stop> {
        let edit = |node: &mut Node| node.step = Some(Step::BootIntoIso.as_str().to_owned());
        let record = self.change(&record, Guard::Decision, edit).await?;
        let effect = self.begin_effect(Step::BootIntoIso).await?;
        let errand = self.errand(&record, true);
        let limit = self.shared.config.timeouts.prepare;
        let outcome = within(limit, "booting the ISO", self.insert_and_boot(&errand, url)).await;
        self.end_effect(effect, &outcome).await;
        self.answer(&record, "boot into ISO", outcome).await
    }

    /// Ends an operator's request: the outcome goes on the record and to the people.
    async fn answer(
        &mut self,
        record: &Record,
        what: &str,
        outcome: Result<Vec<Learned>, Trouble>,
    ) -> Result<(), Stop> {
        let (learned, problem) = match outcome {
            Ok(learned) => (learned, None),
            Err(Trouble::Retry { problem, .. } | Trouble::Failed(problem)) => (Vec::new(), Some(problem)),
            Err(Trouble::Stop(Stop::LeaseEnding)) => {
                let problem = "this conductor's lease was about to end; ask again".to_owned();
                (Vec::new(), Some(problem))
            }
            Err(Trouble::Stop(stop)) => return Err(stop),
        };
        let reinserted = learned.iter().any(|fact| matches!(fact, Learned::Power(_)));
        let edit = |node: &mut Node| {
            learn(node, &learned);
            node.wish = None;
            node.step = None;
            node.target_power_state = None;
            node.last_error.clone_from(&problem);
            if reinserted && node.fault == Some(Fault::MediaStale) && record.node.provision_state.is_active() {
                // Whatever brought the power to a definite end has put the media back.
                node.fault = None;
            }
        };
        self.change(record, Guard::Fact, edit).await?;
        match &problem {
            None => self.tell("power", &format!("{what}: done")).await,
            Some(problem) => self.tell("failed", &format!("{what}: {problem}")).await,
        }
        Ok(())
    }

    async fn change_power(&self, errand: &Errand, action: PowerAction) -> Result<Vec<Learned>, Trouble> {
        let timeouts = &self.shared.config.timeouts;
        let stale = errand.node.fault == Some(Fault::MediaStale);
        let (on, off) = (PowerState::On, PowerState::Off);
        match action {
            PowerAction::On => {
                if stale && self.shared.hands.power.power_state(errand).await? == off {
                    self.put_media_back(errand).await?;
                } else if stale {
                    // It runs: nothing to change, and its media wait for a reset.
                    return Ok(Vec::new());
                }
                self.reach(errand, on, timeouts.power).await
            }
            PowerAction::Off => {
                let learned = self.reach(errand, off, timeouts.power).await?;
                self.put_back_if(stale, errand).await?;
                Ok(learned)
            }
            PowerAction::SoftOff => {
                let learned = self.shut_down(errand).await?;
                self.put_back_if(stale, errand).await?;
                Ok(learned)
            }
            PowerAction::ForceRestart | PowerAction::SoftRestart => {
                match action {
                    PowerAction::SoftRestart => self.shut_down(errand).await?,
                    _ => self.reach(errand, off, timeouts.power).await?,
                };
                self.put_back_if(stale, errand).await?;
                self.reach(errand, on, timeouts.power).await
            }
        }
    }

    /// Asks the operating system to power off.
    async fn shut_down(&self, errand: &Errand) -> Result<Vec<Learned>, Trouble> {
        let power = &self.shared.hands.power;
        let patience = self.shared.config.timeouts.soft_power_off;
        if power.power_state(errand).await? != PowerState::Off {
            power.set_power(errand, PowerAction::SoftOff).await?;
            if !self.wait_for_power(errand, PowerState::Off, patience).await? {
                return Err(Trouble::Failed(format!(
                    "the server's operating system did not power off within {} s; ask for `power off`",
                    patience.as_secs()
                )));
            }
        }
        Ok(vec![Learned::Power(PowerState::Off)])
    }

    async fn insert_and_boot(&self, errand: &Errand, url: &str) -> Result<Vec<Learned>, Trouble> {
        let timeout = self.shared.config.timeouts.power;
        self.reach(errand, PowerState::Off, timeout).await?;
        self.shared.hands.policies.boot_into_iso(errand, url).await?;
        self.reach(errand, PowerState::On, timeout).await
    }

    async fn put_back_if(&self, stale: bool, errand: &Errand) -> Result<(), Trouble> {
        match stale {
            true => self.put_media_back(errand).await,
            false => Ok(()),
        }
    }

    /// Inserts again what an active node's slots have lost. The server is off.
    async fn put_media_back(&self, errand: &Errand) -> Result<(), Trouble> {
        let publications = &self.shared.hands.publications;
        for artefact in publications.observe(errand).await? {
            if artefact.kind.device() == Some(Device::Cdrom) {
                publications.reinsert(errand, artefact.kind).await?;
                self.tell("media", &format!("{} inserted again", artefact.kind)).await;
            }
        }
        Ok(())
    }

    /// Drops an operator's request that a predecessor had begun.
    pub(super) async fn drop_interrupted(&mut self, record: &Record) -> Result<(), Stop> {
        let step = record.node.step.clone().unwrap_or_default();
        let reason = format!(
            "`{step}` was interrupted when its conductor ended; look at the server, then ask again if it is still wanted"
        );
        let edit = |node: &mut Node| {
            node.wish = None;
            node.step = None;
            node.target_power_state = None;
            node.last_error = Some(reason.clone());
        };
        self.change(record, Guard::Decision, edit).await?;
        self.tell("failed", &reason).await;
        Ok(())
    }

    /// Reads the power and adopts it. Power that cannot be read puts the node into maintenance until it can.
    pub(super) async fn sync_power(&mut self, record: &Record) -> Result<(), Stop> {
        self.memory.seen.power_due = SystemTime::now() + jittered(self.shared.config.power_sync);
        let errand = self.errand(record, false);
        let read = self
            .shared
            .hands
            .power
            .power_state(&errand)
            .await
            .map_err(Trouble::from);
        match read {
            Ok(power) => {
                self.memory.power_failures = 0;
                let stale = record.node.fault == Some(Fault::MediaStale) && record.node.provision_state.is_active();
                let put_back = stale && power == PowerState::Off && self.put_media_back(&errand).await.is_ok();
                let edit = |node: &mut Node| {
                    node.power_state = Some(power);
                    if node.fault == Some(Fault::PowerFailure) {
                        node.fault = None;
                        node.maintenance = false;
                        node.maintenance_reason = None;
                    }
                    if put_back && node.fault == Some(Fault::MediaStale) {
                        node.fault = None;
                    }
                };
                let before = record.node.fault.clone();
                let written = self.change(record, Guard::Decision, edit).await?;
                if before == Some(Fault::PowerFailure) && written.node.fault.is_none() {
                    self.tell("power", "the power can be read again; maintenance ended")
                        .await;
                }
                Ok(())
            }
            Err(Trouble::Retry { problem, .. } | Trouble::Failed(problem)) => {
                self.memory.power_failures = self.memory.power_failures.saturating_add(1);
                if self.memory.power_failures < POWER_FAILURES || record.node.fault.is_some() {
                    return Ok(());
                }
                let reason = format!("the power could not be read {POWER_FAILURES} times in a row: {problem}");
                let edit = |node: &mut Node| {
                    if !node.maintenance && node.fault.is_none() {
                        node.fault = Some(Fault::PowerFailure);
                        node.maintenance = true;
                        node.maintenance_reason = Some(reason.clone());
                    }
                };
                let written = self.change(record, Guard::Decision, edit).await?;
                if written.node.fault == Some(Fault::PowerFailure) {
                    self.tell("failed", &reason).await;
                }
                Ok(())
            }
            Err(Trouble::Stop(Stop::LeaseEnding)) => Ok(()),
            Err(Trouble::Stop(stop)) => Err(stop),
        }
    }
}

fn spell(action: PowerAction) -> &'static str {
    match action {
        PowerAction::On => "on",
        PowerAction::Off => "off",
        PowerAction::SoftOff => "soft off",
        PowerAction::ForceRestart => "reboot",
        PowerAction::SoftRestart => "soft reboot",
    }
}

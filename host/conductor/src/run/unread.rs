//! Proof of fetch: what a booting server has read of its boot ISO or its boot files, and what to do about one that reads nothing.
//!
//! A boot is lost when nobody served its images at that moment, or when the firmware skipped them: such a server would be
//! waited for in vain. It is never active, so it is powered off, given its media once more and powered on again: once.

use std::time::SystemTime;

use model::{ArtefactKind, Node, PowerState};
use nodes::Record;

use super::moves::stand;
use super::worker::{Guard, Stop, Trouble, Worker};
use crate::Errand;
use crate::machine::{self, Move};
use crate::parameters;
use crate::step::Step;

/// What stands on the record until the ramdisk of the second boot calls back.
pub(super) const BOOTED_AGAIN: &str = "the server had read nothing of what it was to boot, so its boot was repeated; if this happens again, see \
    on its console whether it boots from virtual media (or the network, as its boot_interface says), and whether [images] \
    external-url is reached from there";

impl Worker {
    /// Notes what was read of what it boots before the server is powered on: a BMC may read of an image as soon as it is put
    /// in. Of a server that runs already everything counts.
    pub(super) async fn note_reads(&mut self, errand: &Errand) -> Result<(), Trouble> {
        let hands = &self.shared.hands;
        let is_off = hands.power.power_state(errand).await? == PowerState::Off;
        let read = hands
            .publications
            .read_progress(&errand.node, parameters::boot_artefact(&errand.node))
            .await;
        self.memory.read_before = read.filter(|_| is_off).map_or(0, |(read, _)| read);
        Ok(())
    }

    /// How much of what it boots the server has read.
    pub(super) async fn read_progress(&mut self, record: &Record) -> Result<(), Stop> {
        self.memory.seen.progress_due = SystemTime::now() + self.shared.config.agent_poll;
        self.memory.seen.unread_since = None;
        let publications = &self.shared.hands.publications;
        let kind = parameters::boot_artefact(&record.node);
        let Some((read, size)) = publications.read_progress(&record.node, kind).await else {
            return Ok(());
        };
        let read = read.saturating_sub(self.memory.read_before);
        if read == 0 {
            let since = record.node.provision_updated_at.max(self.memory.since);
            self.memory.seen.unread_since = (!self.memory.read_elsewhere).then_some(since);
            return Ok(());
        }
        let percent = u128::from(read) * 100 / u128::from(size.max(1));
        let percent = u8::try_from(percent.min(100)).unwrap_or(100);
        let edit = |node: &mut Node| node.step_percent = Some(percent);
        self.change(record, Guard::Decision, edit).await?;
        Ok(())
    }

    /// Boots the ramdisk once more, from power-off and with its media put in anew.
    pub(super) async fn boot_again(&mut self, record: &Record) -> Result<(), Stop> {
        self.read_progress(record).await?;
        if self.memory.seen.unread_since.is_none() {
            return Ok(());
        }
        if self.is_served_elsewhere(record).await? {
            self.memory.read_elsewhere = true;
            self.memory.seen.unread_since = None;
            return Ok(());
        }
        let from = record.node.provision_state;
        let Some(to) = machine::next(from, Move::Again) else {
            return Ok(());
        };
        let now = SystemTime::now();
        let patience = self.shared.rules.fetch_alarm.unwrap_or_default().as_secs();
        let deadline = now + self.shared.config.timeouts.prepare;
        let edit = |node: &mut Node| {
            // It may have called in a moment ago.
            if node.agent.last_heartbeat.is_some() {
                return;
            }
            stand(node, to, now);
            node.step = Some(Step::PowerOff.as_str().to_owned());
            node.deadline = Some(deadline);
            node.boot_repeated = true;
            if !parameters::carry_token(node) {
                // A ramdisk that had looked its node up is gone with it, and the next one would not be told.
                node.agent.token = None;
            }
            node.last_error = Some(BOOTED_AGAIN.to_owned());
        };
        let written = self.change(record, Guard::Decision, edit).await?;
        if written.node.boot_repeated {
            self.memory.forget_step(now);
            let files = match parameters::boot_artefact(&record.node) {
                ArtefactKind::Netboot => "boot files",
                _ => "boot ISO",
            };
            let alarm = format!("nothing of its {files} was read within {patience} s; the server is booted once more");
            tracing::warn!(node = %self.id, %from, %to, alarm, "provision state");
            self.tell("media-unread", &alarm).await;
            self.tell("provision-state", &format!("{from} → {to}: {alarm}")).await;
        }
        Ok(())
    }

    /// Another conductor answers, or answered, under the URL that this one serves under: what was read there is not known
    /// here. Over the network that may be any conductor, since a DHCP server names one for all servers.
    async fn is_served_elsewhere(&self, record: &Record) -> Result<bool, Stop> {
        let config = &self.shared.config;
        let since = record.node.provision_updated_at;
        let anywhere = parameters::boot_artefact(&record.node) == ArtefactKind::Netboot;
        let conductors = self.shared.hands.store.conductors().await?;
        let mut others = conductors.iter().filter(|other| other.name != config.name);
        let answers = |other: &nodes::Conductor| other.alive || other.seen_at >= since;
        Ok(others.any(|other| (anywhere || other.images_url == config.images_url) && answers(other)))
    }
}

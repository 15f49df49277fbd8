//! The world as the conductor's hands: policies, power and publications.

use async_trait::async_trait;
use conductor::{
    BootImage, CallError, Errand, Observation, ObservedArtefact, Parameter, ParameterValue, Policies, Power,
    Publications,
};
use model::take_over::{PlanStep, UrlState};
use model::{
    ArtefactKind, BootInterface, BootMode, Device, Driver, Media, Node, PowerAction, PowerState, ServerIdentity,
};

use crate::agent_sim;
use crate::world::{Published, World};

#[async_trait]
impl Policies for World {
    async fn check_boot(&self, _: &Errand, image: BootImage, says: Option<BootMode>) -> Result<(), CallError> {
        assert_eq!(says, Some(BootMode::Uefi), "the BMC was asked");
        match self.planned_error(&format!("check-boot {image:?}")) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    async fn prepare_ramdisk(&self, errand: &Errand, parameters: &[Parameter]) -> Result<(), CallError> {
        let call = self.enter(errand, "prepare-ramdisk").await?;
        self.take_media_out(&errand.node.id, "prepare-ramdisk");
        let named = |parameter: &&Parameter| parameter.value == ParameterValue::Secret("agent-token".to_owned());
        let by_media = errand.node.boot_interface == BootInterface::IloVirtualMedia;
        assert_eq!(parameters.iter().any(|parameter| named(&parameter)), by_media);
        {
            let mut server = self.lock(&errand.node.id);
            server.floppy_token = errand.node.agent.token.clone();
            server.instance = false;
        }
        match by_media {
            true => {
                self.publish(errand, ArtefactKind::Floppy);
                self.publish(errand, ArtefactKind::BootIso);
            }
            false => self.publish(errand, ArtefactKind::Netboot),
        }
        call.leave().await;
        Ok(())
    }

    async fn clean_up_ramdisk(&self, errand: &Errand) -> Result<(), CallError> {
        let call = self.enter(errand, "clean-up-ramdisk").await?;
        self.take_media_out(&errand.node.id, "clean-up-ramdisk");
        call.leave().await;
        Ok(())
    }

    async fn prepare_instance(&self, errand: &Errand) -> Result<(), CallError> {
        let call = self.enter(errand, "prepare-instance").await?;
        self.lock(&errand.node.id).instance = true;
        if errand.node.driver == Driver::IscsiIlo {
            self.publish(errand, ArtefactKind::BootIso);
        }
        call.leave().await;
        Ok(())
    }

    async fn clean_up_instance(&self, errand: &Errand) -> Result<(), CallError> {
        let call = self.enter(errand, "clean-up-instance").await?;
        self.take_media_out(&errand.node.id, "clean-up-instance");
        call.leave().await;
        Ok(())
    }

    async fn boot_into_iso(&self, errand: &Errand, url: &str) -> Result<(), CallError> {
        let call = self.enter(errand, "boot-into-iso").await?;
        self.take_media_out(&errand.node.id, "boot-into-iso");
        self.note(&errand.node.id, &format!("iso {url}"));
        self.lock(&errand.node.id).instance = true;
        call.leave().await;
        Ok(())
    }

    /// As the default plugin plans.
    async fn plan_take_over(&self, errand: &Errand, seen: &Observation) -> Result<Vec<PlanStep>, CallError> {
        let planned = self.planned_error("plan");
        if let Some(error) = planned {
            return Err(error);
        }
        if let Some(plan) = self.plan.lock().unwrap().clone() {
            return Ok(plan);
        }
        let media = seen.artefacts.iter().all(|artefact| artefact.kind.device().is_some());
        assert!(media, "boot files are none of a plugin's business");
        let state = errand.node.provision_state;
        let mut plan = Vec::new();
        for artefact in &seen.artefacts {
            plan.push(PlanStep::Regenerate(artefact.kind));
            let lost = artefact.url == UrlState::Dead || !artefact.in_slot;
            if state.waits_for_agent() && seen.agent_seen_ago.is_none() && lost {
                plan.push(PlanStep::Reinsert(artefact.kind));
            }
        }
        if seen.interrupted.is_some() {
            plan.push(PlanStep::ContinueInterruptedStep);
        } else if state.waits_for_agent() {
            plan.push(PlanStep::WaitForAgent);
        }
        Ok(plan)
    }
}

#[async_trait]
impl Power for World {
    async fn identity(&self, errand: &Errand) -> Result<ServerIdentity, CallError> {
        let planned = self.planned_error("identity");
        match planned {
            Some(error) => Err(error),
            None => Ok(ServerIdentity {
                vendor: Some("HPE".to_owned()),
                bmc_generation: Some(5),
                serial: Some(errand.node.id.to_string()),
                ..ServerIdentity::default()
            }),
        }
    }

    async fn power_state(&self, errand: &Errand) -> Result<PowerState, CallError> {
        let planned = self.planned_error("power-state");
        match planned {
            Some(error) => Err(error),
            None => Ok(self.lock(&errand.node.id).power),
        }
    }

    async fn set_power(&self, errand: &Errand, action: PowerAction) -> Result<(), CallError> {
        let on = match action {
            PowerAction::On => true,
            PowerAction::Off | PowerAction::SoftOff => false,
            PowerAction::ForceRestart | PowerAction::SoftRestart => panic!("not repeatable: {action:?}"),
        };
        let id = errand.node.id;
        let call = self.enter(errand, if on { "power-on" } else { "power-off" }).await?;
        let boots = {
            let mut server = self.lock(&id);
            server.power = if on { PowerState::On } else { PowerState::Off };
            if !on {
                server.boot = None;
            }
            let fetched = |kind| {
                let published: Option<&Published> = server.published.get(kind);
                published.is_some_and(|published| published.in_slot && !published.dead)
            };
            let boots = on && server.blind == 0 && fetched("boot-iso");
            server.blind = server.blind.saturating_sub(u32::from(on));
            server.read += if boots { 30 } else { 0 };
            let floppy = server
                .published
                .get("floppy")
                .is_some_and(|floppy| floppy.in_slot && !floppy.dead);
            (boots && floppy && !server.mute && !server.instance && server.boot.is_none())
                .then(|| server.floppy_token.clone())
        };
        if let Some(token) = boots.flatten() {
            let world = self.me.upgrade().unwrap();
            let boot = agent_sim::boot(world, id, token).await;
            self.lock(&id).boot = Some(boot);
        }
        call.leave().await;
        Ok(())
    }

    async fn boot_mode(&self, _: &Errand) -> Result<BootMode, CallError> {
        Ok(BootMode::Uefi)
    }

    async fn media(&self, errand: &Errand, device: Device) -> Result<Media, CallError> {
        let server = self.lock(&errand.node.id);
        let kind = match device {
            Device::Floppy => "floppy",
            Device::Cdrom => "boot-iso",
        };
        let inserted = server.published.get(kind).is_some_and(|published| published.in_slot);
        Ok(Media {
            inserted,
            connected: inserted,
            write_protected: true,
            url: inserted.then(|| format!("http://{kind}")),
        })
    }
}

#[async_trait]
impl Publications for World {
    async fn observe(&self, errand: &Errand) -> Result<Vec<ObservedArtefact>, CallError> {
        let server = self.lock(&errand.node.id);
        let kinds = ArtefactKind::ALL.into_iter();
        let found = kinds.filter_map(|kind| server.published.get(kind.as_str()).map(|published| (kind, published)));
        let observed = found.map(|(kind, published)| ObservedArtefact {
            kind,
            backend: "local".to_owned(),
            url: if published.dead {
                UrlState::Dead
            } else {
                UrlState::Serving
            },
            in_slot: published.in_slot,
            expires: None,
            bytes_read: None,
        });
        Ok(observed.collect())
    }

    async fn regenerate(&self, errand: &Errand, kind: ArtefactKind) -> Result<bool, CallError> {
        let call = self.enter(errand, "regenerate").await?;
        {
            let mut server = self.lock(&errand.node.id);
            let published = server.published.get_mut(kind.as_str()).unwrap();
            published.dead = false;
            published.by = errand.tenure.conductor.to_string();
        }
        self.note(&errand.node.id, &format!("regenerated {kind}"));
        call.leave().await;
        Ok(false)
    }

    async fn renew(&self, errand: &Errand, kind: ArtefactKind) -> Result<(), CallError> {
        self.enter(errand, &format!("renew {kind}")).await?.leave().await;
        Ok(())
    }

    async fn reinsert(&self, errand: &Errand, kind: ArtefactKind) -> Result<(), CallError> {
        let call = self.enter(errand, &format!("reinsert {kind}")).await?;
        {
            let mut server = self.lock(&errand.node.id);
            let power = server.power;
            let published = server.published.get_mut(kind.as_str()).unwrap();
            let occupied = std::mem::replace(&mut published.in_slot, true);
            drop(server);
            if occupied && power == PowerState::On && errand.node.provision_state.is_active() {
                self.violation(&errand.node.id, "media of an active server taken out");
            }
        }
        call.leave().await;
        Ok(())
    }

    async fn withdraw(&self, errand: &Errand, kind: ArtefactKind) -> Result<(), CallError> {
        let call = self.enter(errand, &format!("withdraw {kind}")).await?;
        self.lock(&errand.node.id).published.remove(kind.as_str());
        call.leave().await;
        Ok(())
    }

    async fn withdraw_unrecorded(&self, errand: &Errand) -> Result<Vec<String>, CallError> {
        if self.lock(&errand.node.id).unrecorded.is_empty() {
            return Ok(Vec::new());
        }
        let call = self.enter(errand, "withdraw unrecorded").await?;
        let left = std::mem::take(&mut self.lock(&errand.node.id).unrecorded);
        call.leave().await;
        Ok(left)
    }

    async fn read_progress(&self, node: &Node, kind: ArtefactKind) -> Option<(u64, u64)> {
        let server = self.lock(&node.id);
        server.published.get(kind.as_str()).map(|_| (server.read, 100))
    }
}

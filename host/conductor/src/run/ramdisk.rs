//! Steps that the ramdisk's agent carries out.
//!
//! An agent remembers its commands. So before anything is sent it is asked what became of what was sent before, by this
//! conductor or by one that died: the image is written once, and no clean step runs twice.

use std::time::SystemTime;

use agent::{AgentAddress, AgentClient, AgentStep, CommandState, CommandStatus};
use model::{Node, PowerState, Wish};
use nodes::Record;
use serde_json::Value;

use super::moves::{Learned, left};
use super::steps::Progress;
use super::worker::{Guard, Stop, Trouble, Worker};
use crate::instance::{CONFIG_DRIVE, instance};
use crate::machine;
use crate::parameters;
use crate::step::Step;

const PREPARE_IMAGE: &str = "standby.prepare_image";
const EXECUTE_CLEAN_STEP: &str = "clean.execute_clean_step";

impl Worker {
    /// A client for the node's agent; the one of the last time where that is the same agent still.
    fn agent(&mut self, record: &Record) -> Result<AgentClient, Trouble> {
        let contact = &record.node.agent;
        let (Some(callback_url), Some(token)) = (contact.callback_url.clone(), contact.token.clone()) else {
            let problem = "the ramdisk's agent has not called in".to_owned();
            return Err(Trouble::Retry { after: None, problem });
        };
        let address = AgentAddress {
            callback_url,
            certificate: contact.certificate.clone(),
            token,
        };
        if let Some((known, client)) = &self.memory.agent
            && *known == address
        {
            return Ok(client.clone());
        }
        // The agent repeats the config drive in its list of commands.
        let echo = record
            .node
            .secrets
            .get(CONFIG_DRIVE)
            .map_or(0, |drive| drive.expose().len());
        let client = AgentClient::new(&address, &self.shared.hands.agents)?.expecting_echo_of(echo);
        self.memory.agent = Some((address, client.clone()));
        Ok(client)
    }

    async fn commands(&mut self, client: &AgentClient) -> Result<Vec<CommandStatus>, Trouble> {
        let commands = client.commands().await?;
        self.memory.seen.agent_heard = SystemTime::now();
        Ok(commands)
    }

    async fn described(&self, record: &Record) -> Result<(Value, Value), Trouble> {
        let ports = self.shared.hands.store.ports(Some(&self.id)).await?;
        let node = parameters::node_for_agent(&record.node);
        Ok((node, parameters::ports_for_agent(&ports)))
    }

    /// The agent answers, takes our token, and tells what its hardware managers would do in a deployment.
    pub(super) async fn deploy_steps(&mut self, record: &Record) -> Result<Vec<Learned>, Trouble> {
        let client = self.agent(record)?;
        let (node, ports) = self.described(record).await?;
        let list = client.get_deploy_steps(&node, &ports).await?;
        self.memory.seen.agent_heard = SystemTime::now();
        for step in list.steps.iter().filter(|step| step.priority > 0) {
            let message = format!(
                "the ramdisk offers the deploy step {}.{} with priority {}; it is not run",
                step.interface, step.name, step.priority
            );
            self.tell("agent", &message).await;
        }
        Ok(Vec::new())
    }

    /// The image on its way to the disk.
    pub(super) async fn write_image(&mut self, record: &Record) -> Result<Progress, Trouble> {
        let drive = record.node.secrets.get(CONFIG_DRIVE);
        let wanted = instance(&record.node, drive).map_err(|error| Trouble::Failed(error.to_string()))?;
        let Some(image) = wanted.image else {
            return Ok(Progress::Done(Vec::new()));
        };
        let client = self.agent(record)?;
        let commands = self.commands(&client).await?;
        let known = record.node.agent_command.as_deref();
        let told = |command: &&CommandStatus| command.is(PREPARE_IMAGE) && known == Some(command.id.as_str());
        if let Some(command) = commands.iter().rev().find(told) {
            return self.image_progress(record, command).await;
        }
        let errand = self.errand(record, false);
        let image = self.shared.hands.publications.instance_image(&errand, &image).await?;
        let ours = |command: &&CommandStatus| {
            let other = command.params.pointer("/image_info/urls/0").and_then(Value::as_str);
            let same = other.is_none_or(|url| image.urls.first().is_some_and(|ours| ours == url));
            command.is(PREPARE_IMAGE) && known.is_none() && same
        };
        if let Some(command) = commands.iter().rev().find(ours) {
            return self.image_progress(record, command).await;
        }
        if known.is_some() {
            // Writing the whole disk anew is the same as writing it once.
            self.tell(
                "agent",
                "the ramdisk no longer knows of the image that it was writing; it is told again",
            )
            .await;
        }
        let effect = self.begin_effect(Step::WriteImage).await?;
        let sent = client.prepare_image(&image, drive).await.map_err(Trouble::from);
        self.end_effect(effect, &sent).await;
        let command = sent?;
        self.image_progress(record, &command).await
    }

    /// How far the image is; once it is there, or cannot be, nobody fetches it any more.
    async fn image_progress(&mut self, record: &Record, command: &CommandStatus) -> Result<Progress, Trouble> {
        let progress = image_progress(command);
        if !matches!(progress, Ok(Progress::Running { .. }) | Err(Trouble::Retry { .. })) {
            let errand = self.errand(record, false);
            self.shared.hands.publications.release_instance_image(&errand).await;
        }
        progress
    }

    /// The ramdisk's clean steps, highest priority first, one at a time.
    pub(super) async fn clean_steps(&mut self, record: &Record) -> Result<Progress, Trouble> {
        let client = self.agent(record)?;
        let mut commands = self.commands(&client).await?;
        let known = record.node.agent_command.as_deref();
        if known.is_some_and(|known| commands.iter().all(|command| command.id != known)) {
            return Err(Trouble::Failed(
                "the ramdisk no longer knows of the clean step that it was told: it may have restarted in the middle of it; \
                 see what state the disks are in, then clean again"
                    .to_owned(),
            ));
        }
        commands.retain(|command| command.is(EXECUTE_CLEAN_STEP));
        for command in &commands {
            match &command.state {
                CommandState::Running => {
                    return Ok(Progress::Running {
                        command: command.id.clone(),
                        percent: command.percent(),
                    });
                }
                CommandState::Failed(failure) => {
                    return Err(Trouble::Failed(format!(
                        "a clean step failed in the ramdisk: {failure}"
                    )));
                }
                CommandState::VersionMismatch => {
                    let problem = "the ramdisk's hardware managers changed while it cleaned; clean again";
                    return Err(Trouble::Failed(problem.to_owned()));
                }
                CommandState::Succeeded => {}
            }
        }
        let (node, ports) = self.described(record).await?;
        let list = match self.memory.clean_steps.take() {
            Some(list) => list,
            None => client.get_clean_steps(&node, &ports).await?,
        };
        let todo: Vec<_> = list.steps.iter().filter(|step| step.priority > 0).cloned().collect();
        let version = list.version.clone();
        self.memory.clean_steps = Some(list);
        let is_done = |step: &AgentStep| commands.iter().any(|command| ran(command, step));
        let Some(step) = todo.iter().find(|step| !is_done(step)) else {
            return Ok(Progress::Done(Vec::new()));
        };
        if calls_off_between(&self.read().await?.node) {
            let between = |node: &mut Node| node.agent_command = None;
            self.change(record, Guard::Fact, between).await?;
            return Err(Stop::Again.into());
        }
        if step.reboot_requested {
            return Err(Trouble::Failed(format!(
                "the clean step {}.{} wants the server rebooted in between, which automated cleaning does not do; \
                 set its priority to 0 in the ramdisk",
                step.interface, step.name
            )));
        }
        let share = todo.iter().filter(|step| is_done(step)).count() * 100 / todo.len();
        self.tell("clean-step", &format!("{}.{} begins", step.interface, step.name))
            .await;
        let effect = self.begin_effect(Step::CleanSteps).await?;
        let sent = client
            .execute_clean_step(step, &version, &node, &ports)
            .await
            .map_err(Trouble::from);
        self.end_effect(effect, &sent).await;
        Ok(Progress::Running {
            command: sent?.id,
            percent: u8::try_from(share).ok(),
        })
    }

    /// What was written is on the disk.
    pub(super) async fn flush(&mut self, record: &Record) -> Result<(), Trouble> {
        let patience = left(record.node.deadline, self.shared.config.timeouts.agent_silence);
        self.agent(record)?.sync(patience).await?;
        self.memory.seen.agent_heard = SystemTime::now();
        Ok(())
    }

    /// The server off: asked of the agent, so that the ramdisk ends in order; where that does not help, of the BMC.
    pub(super) async fn agent_power_off(&mut self, record: &Record) -> Result<Vec<Learned>, Trouble> {
        let errand = self.errand(record, false);
        if self.shared.hands.power.power_state(&errand).await? == PowerState::Off {
            return Ok(vec![Learned::Power(PowerState::Off)]);
        }
        let effect = self.begin_effect(Step::AgentPowerOff).await?;
        let outcome = self.end_ramdisk(record).await;
        self.end_effect(effect, &outcome).await;
        outcome
    }

    async fn end_ramdisk(&mut self, record: &Record) -> Result<Vec<Learned>, Trouble> {
        let errand = self.errand(record, false);
        let timeout = self.shared.config.timeouts.power;
        let asked = match self.agent(record) {
            Ok(client) => client.power_off().await.map_err(Trouble::from),
            Err(trouble) => Err(trouble),
        };
        match asked {
            Err(Trouble::Stop(stop @ Stop::LeaseLost)) => return Err(stop.into()),
            // The connection often breaks before the answer; the power tells.
            Err(Trouble::Retry { problem, .. }) => {
                tracing::info!(node = %self.id, problem, "the agent did not confirm that it powers off");
            }
            Err(Trouble::Failed(problem)) => {
                tracing::warn!(node = %self.id, problem, "the agent does not power off; the BMC will");
                return self.reach(&errand, PowerState::Off, timeout).await;
            }
            Err(Trouble::Stop(_)) | Ok(()) => {}
        }
        if self.wait_for_power(&errand, PowerState::Off, timeout).await? {
            return Ok(vec![Learned::Power(PowerState::Off)]);
        }
        self.tell("agent", "the ramdisk did not power the server off; the BMC does")
            .await;
        self.reach(&errand, PowerState::Off, timeout).await
    }
}

/// A user has called the cleaning off, and no clean step is under way now.
fn calls_off_between(node: &Node) -> bool {
    let asked = match &node.wish {
        Some(Wish::Provision { verb, .. }) => Some(*verb),
        _ => None,
    };
    asked.is_some_and(|verb| machine::accepts(node.provision_state, verb).is_ok())
}

fn image_progress(command: &CommandStatus) -> Result<Progress, Trouble> {
    match &command.state {
        CommandState::Running => Ok(Progress::Running {
            command: command.id.clone(),
            percent: command.percent(),
        }),
        CommandState::Succeeded => Ok(Progress::Done(Vec::new())),
        CommandState::Failed(failure) => Err(Trouble::Failed(format!(
            "the ramdisk could not write the image: {failure}; see instance_info/image_source and its digest"
        ))),
        CommandState::VersionMismatch => {
            let problem = "the ramdisk's hardware managers changed while it wrote the image";
            Err(Trouble::Failed(problem.to_owned()))
        }
    }
}

/// The command ran this step: agents repeat the step in the result, and most in the parameters as well.
fn ran(command: &CommandStatus, step: &AgentStep) -> bool {
    let named = |place: &Value| {
        let text = |key: &str| place.get(key).and_then(Value::as_str);
        text("step") == Some(&step.name) && text("interface").is_none_or(|interface| interface == step.interface)
    };
    let places = [command.result.get("clean_step"), command.params.get("step")];
    command.state == CommandState::Succeeded && places.into_iter().flatten().any(named)
}

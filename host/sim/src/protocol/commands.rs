//! The deploy agent's commands: one at a time, remembered for the length of a boot.

use std::sync::{Arc, Mutex, PoisonError};

use reqwest::Client;
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::protocol::{disk, logs};
use crate::server::Server;

/// Commands remembered in one boot.
const COMMANDS: usize = 1000;
const MANAGER: &str = "GenericHardwareManager";

/// The commands of one boot.
pub(crate) struct Commands {
    server: Arc<Server>,
    boot: u64,
    client: Client,
    beat_now: Arc<Notify>,
    powered_off: CancellationToken,
    inside: CancellationToken,
    started_at: String,
    given: Mutex<Vec<Arc<Command>>>,
}

struct Command {
    id: String,
    name: String,
    params: Value,
    outcome: watch::Sender<Option<Outcome>>,
}

type Outcome = Result<Value, CommandError>;

/// Why a command failed, in the agent's own words.
#[derive(Clone, Debug)]
pub(crate) struct CommandError {
    pub(crate) kind: &'static str,
    pub(crate) code: u16,
    pub(crate) message: &'static str,
    pub(crate) details: String,
}

/// Why a command was not even taken.
pub(crate) enum Refused {
    Busy(String),
    TooMany,
}

impl CommandError {
    pub(crate) fn new(kind: &'static str, message: &'static str, details: impl Into<String>) -> Self {
        Self {
            kind,
            code: 500,
            message,
            details: details.into(),
        }
    }
}

impl Commands {
    pub(crate) fn new(
        server: Arc<Server>,
        boot: u64,
        client: Client,
        beat_now: Arc<Notify>,
        powered_off: CancellationToken,
        inside: CancellationToken,
    ) -> Self {
        Self {
            server,
            boot,
            client,
            beat_now,
            powered_off,
            inside,
            started_at: crate::trace::now(),
            given: Mutex::new(Vec::new()),
        }
    }

    pub(crate) fn started_at(&self) -> &str {
        &self.started_at
    }

    pub(crate) fn list(&self) -> Vec<Value> {
        let given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        given.iter().map(|command| command.document()).collect()
    }

    pub(crate) async fn result(&self, id: &str, wait: bool) -> Option<Value> {
        let command = {
            let given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(given.iter().find(|command| command.id == id)?)
        };
        if wait {
            command.wait().await;
        }
        Some(command.document())
    }

    /// Takes a command. With `wait` the answer comes when it is done.
    pub(crate) async fn execute(
        self: &Arc<Self>,
        name: &str,
        params: Map<String, Value>,
        wait: bool,
    ) -> Result<Value, Refused> {
        let command = {
            let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(last) = given.last()
                && last.outcome.borrow().is_none()
            {
                return Err(Refused::Busy(last.name.clone()));
            }
            if given.len() == COMMANDS {
                return Err(Refused::TooMany);
            }
            let command = Arc::new(Command {
                id: uuid::Uuid::new_v4().to_string(),
                name: name.to_owned(),
                params: Value::Object(params),
                outcome: watch::Sender::new(None),
            });
            given.push(Arc::clone(&command));
            command
        };
        let task = self.start(Arc::clone(&command));
        if wait || is_quick(name) {
            // A command that the end of the boot cuts off stays RUNNING, as it would on a dead machine.
            let _ = task.await;
        }
        Ok(command.document())
    }

    fn start(self: &Arc<Self>, command: Arc<Command>) -> tokio::task::JoinHandle<()> {
        let commands = Arc::clone(self);
        tokio::spawn(async move {
            let outcome = tokio::select! {
                () = commands.inside.cancelled() => return,
                outcome = commands.carry_out(&command) => outcome,
            };
            let power_off = command.name == "standby.power_off" && outcome.is_ok();
            command.outcome.send_replace(Some(outcome));
            if power_off {
                commands.powered_off.cancel();
            } else if !is_quick(&command.name) {
                commands.beat_now.notify_one();
            }
        })
    }

    async fn carry_out(&self, command: &Command) -> Outcome {
        let path = &self.server.files.disk;
        match command.name.as_str() {
            "clean.get_clean_steps" => Ok(steps("clean_steps")),
            "deploy.get_deploy_steps" => Ok(steps("deploy_steps")),
            "clean.execute_clean_step" => self.step(command, "clean").await,
            "deploy.execute_deploy_step" => self.step(command, "deploy").await,
            "standby.prepare_image" => {
                let image = disk::Image::parse(&command.params)?;
                let written = disk::write_image(&self.client, &image, path, |bytes| {
                    let mut state = self.server.state();
                    if state.boots == self.boot {
                        state.agent_written = bytes;
                    }
                })
                .await?;
                if let Some(drive) = command.params.get("configdrive").and_then(Value::as_str) {
                    disk::write_config_drive(&self.client, drive, &self.server.files.folder).await?;
                }
                Ok(json!({"result": format!(
                    "prepare_image: image ({}) written to device /dev/vda ({written} bytes)",
                    image.id
                )}))
            }
            "standby.get_partition_uuids" => {
                let id = disk::identifier(path).await?;
                Ok(json!({"disk identifier": id}))
            }
            "standby.sync" => disk::sync(path).await.map(|()| Value::Null),
            "standby.power_off" => Ok(Value::Null),
            "log.collect_system_logs" => {
                let text = self.log_text();
                Ok(json!({"system_logs": logs::archive("agent.log", &text)}))
            }
            other => Err(CommandError {
                code: 400,
                ..CommandError::new(
                    "InvalidCommandError",
                    "Invalid command",
                    format!("Unknown command: {other}"),
                )
            }),
        }
    }

    async fn step(&self, command: &Command, kind: &str) -> Outcome {
        let path = &self.server.files.disk;
        let step = command.params.get("step").cloned().unwrap_or(Value::Null);
        match step.get("step").and_then(Value::as_str) {
            Some("erase_devices_metadata") => disk::erase_metadata(path).await?,
            Some("erase_devices") => disk::erase(path).await?,
            other => {
                return Err(CommandError::new(
                    "CleaningError",
                    "Clean step failed",
                    format!("no hardware manager has the step {:?}", other.unwrap_or_default()),
                ));
            }
        }
        let mut result = Map::new();
        result.insert(format!("{kind}_result"), Value::Null);
        result.insert(format!("{kind}_step"), step);
        Ok(Value::Object(result))
    }

    fn log_text(&self) -> String {
        let mut text = format!("{} agent started\n", self.started_at);
        let given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        for command in given.iter() {
            text.push_str(&format!(
                "command {} {} {}\n",
                command.id,
                command.name,
                command.status()
            ));
        }
        text
    }
}

/// Commands that the agent answers in the same breath.
fn is_quick(name: &str) -> bool {
    !matches!(
        name,
        "clean.execute_clean_step" | "deploy.execute_deploy_step" | "standby.prepare_image" | "log.collect_system_logs"
    )
}

fn steps(key: &str) -> Value {
    let step = |name: &str, priority: u32| {
        json!({
            "step": name,
            "priority": priority,
            "interface": "deploy",
            "reboot_requested": false,
            "abortable": true,
        })
    };
    // As deploy steps the erasures run only when somebody asks for them.
    let (metadata, all) = if key == "clean_steps" { (99, 10) } else { (0, 0) };
    json!({
        key: {MANAGER: [step("erase_devices_metadata", metadata), step("erase_devices", all)]},
        "hardware_manager_version": {"generic_hardware_manager": "1.2"},
    })
}

impl Command {
    async fn wait(&self) {
        // The sender is a field beside the receiver's maker; it cannot be gone.
        let _ = self.outcome.subscribe().wait_for(Option::is_some).await;
    }

    fn status(&self) -> &'static str {
        match *self.outcome.borrow() {
            None => "RUNNING",
            Some(Ok(_)) => "SUCCEEDED",
            Some(Err(_)) => "FAILED",
        }
    }

    fn document(&self) -> Value {
        let (result, error) = match &*self.outcome.borrow() {
            None => (Value::Null, Value::Null),
            Some(Ok(result)) => (result.clone(), Value::Null),
            Some(Err(error)) => (
                Value::Null,
                json!({
                    "type": error.kind,
                    "code": error.code,
                    "message": error.message,
                    "details": error.details,
                }),
            ),
        };
        json!({
            "id": self.id,
            "command_name": self.name,
            "command_params": self.params,
            "command_status": self.status(),
            "command_result": result,
            "command_error": error,
        })
    }
}

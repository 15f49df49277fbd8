//! What an agent says of a command, parsed from its JSON.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde_json::Value;

/// One command as the agent remembers it.
#[derive(Clone, PartialEq)]
pub struct CommandStatus {
    /// Its identifier, made by the agent.
    pub id: String,
    /// Its name, with or without its extension (`standby.prepare_image` comes back as `prepare_image`).
    pub name: String,
    /// How it stands.
    pub state: CommandState,
    /// What it was called with, as far as the agent repeats it.
    pub params: Value,
    /// Its result, `null` if there is none (yet).
    pub result: Value,
}

/// How a command stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CommandState {
    /// Under way.
    Running,
    /// Ended well.
    Succeeded,
    /// Ended badly.
    Failed(CommandFailure),
    /// The ramdisk's hardware managers are other ones than when the steps were listed: list them again.
    VersionMismatch,
}

/// Why a command failed, in the agent's words (cut to 500 characters each).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CommandFailure {
    /// Kind of error ("ImageDownloadError").
    pub kind: String,
    /// HTTP-like code, where it gives one.
    pub code: Option<u64>,
    /// In short.
    pub message: String,
    /// At length.
    pub details: String,
}

impl CommandStatus {
    /// Whether this is `name` (`standby.sync`), however the agent shortens it.
    pub fn is(&self, name: &str) -> bool {
        let last = |text: &'_ str| text.rsplit('.').next().map(str::to_owned);
        last(&self.name) == last(name)
    }

    /// Progress in percent, where the agent tells it (`percent` in the result of a running command).
    pub fn percent(&self) -> Option<u8> {
        let percent = self.result.get("percent")?.as_u64()?;
        u8::try_from(percent).ok().filter(|percent| *percent <= 100)
    }
}

/// Parameters and results are left out: a config drive is among them.
impl fmt::Debug for CommandStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandStatus")
            .field("id", &self.id)
            .field("name", &self.name)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for CommandFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<&str> = Vec::new();
        for part in [&self.kind, &self.message, &self.details] {
            if !part.is_empty() && !parts.iter().any(|earlier| earlier.contains(part.as_str())) {
                parts.push(part);
            }
        }
        match parts.is_empty() {
            true => f.write_str("it gives no reason"),
            false => f.write_str(&parts.join(": ")),
        }
    }
}

/// A step that a hardware manager offers (`deploy.get_deploy_steps`, `clean.get_clean_steps`).
#[derive(Clone, PartialEq, Debug)]
pub struct AgentStep {
    /// Its name.
    pub name: String,
    /// Its interface ("deploy", "raid").
    pub interface: String,
    /// Higher runs earlier; 0 = only when asked for.
    pub priority: u64,
    /// The server must be rebooted after it.
    pub reboot_requested: bool,
    /// The step as the agent gave it; goes back to it unchanged.
    pub raw: Value,
}

/// The steps of all hardware managers, and their versions, which go back with each step.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct StepList {
    /// Highest priority first, then by name.
    pub steps: Vec<AgentStep>,
    /// `hardware_manager_version` as the agent gave it.
    pub version: Value,
}

/// A reply holds no more steps than this.
const STEPS: usize = 256;

impl StepList {
    /// Parses a result that holds its steps under `key`. The same step from several managers is kept once, with the
    /// highest priority.
    pub(crate) fn parse(result: &Value, key: &str) -> Result<Self, String> {
        let by_manager = match result.get(key) {
            Some(Value::Object(managers)) => managers,
            _ => return Err(format!("there is no object `{key}` in its result")),
        };
        let mut found: BTreeMap<(String, String), AgentStep> = BTreeMap::new();
        for raw in by_manager
            .values()
            .flat_map(|steps| steps.as_array().into_iter().flatten())
        {
            let shape: StepShape = StepShape::deserialize(raw)
                .map_err(|error| format!("a step in `{key}` is malformed: {}", short(&error.to_string())))?;
            let step = AgentStep {
                name: short(&shape.step),
                interface: short(&shape.interface),
                priority: shape.priority,
                reboot_requested: shape.reboot_requested,
                raw: raw.clone(),
            };
            let slot = found.entry((step.interface.clone(), step.name.clone()));
            let kept = slot.or_insert_with(|| step.clone());
            if step.priority > kept.priority {
                *kept = step;
            }
            if found.len() > STEPS {
                return Err(format!("`{key}` holds more than {STEPS} steps"));
            }
        }
        let mut steps: Vec<_> = found.into_values().collect();
        steps.sort_by(|a, b| b.priority.cmp(&a.priority).then_with(|| a.name.cmp(&b.name)));
        let version = result.get("hardware_manager_version").cloned().unwrap_or_default();
        Ok(Self { steps, version })
    }
}

#[derive(Deserialize)]
struct StepShape {
    step: String,
    #[serde(default)]
    interface: String,
    #[serde(default)]
    priority: u64,
    #[serde(default)]
    reboot_requested: bool,
}

#[derive(Deserialize)]
struct CommandShape {
    id: String,
    command_name: String,
    command_status: String,
    #[serde(default)]
    command_params: Value,
    #[serde(default)]
    command_result: Value,
    #[serde(default)]
    command_error: Value,
}

/// Parses one command object.
pub(crate) fn parse(reply: &Value) -> Result<CommandStatus, String> {
    let shape =
        CommandShape::deserialize(reply).map_err(|error| format!("not a command: {}", short(&error.to_string())))?;
    if shape.id.is_empty() || shape.id.len() > 255 {
        return Err("the command's id is empty or longer than 255 characters".to_owned());
    }
    let state = match shape.command_status.as_str() {
        "RUNNING" => CommandState::Running,
        "SUCCEEDED" => CommandState::Succeeded,
        "FAILED" => CommandState::Failed(failure(&shape.command_error)),
        "CLEAN_VERSION_MISMATCH" => CommandState::VersionMismatch,
        other => return Err(format!("unknown command status `{}`", short(other))),
    };
    Ok(CommandStatus {
        id: shape.id,
        name: short(&shape.command_name),
        state,
        params: shape.command_params,
        result: shape.command_result,
    })
}

/// Reads an error in any of the shapes that agents use: an object, `{"error": text}`, or a text.
pub(crate) fn failure(error: &Value) -> CommandFailure {
    let text = |key: &str| error.get(key).and_then(Value::as_str).map(short).unwrap_or_default();
    match error {
        Value::String(message) => CommandFailure {
            message: short(message),
            ..CommandFailure::default()
        },
        _ => CommandFailure {
            kind: text("type"),
            code: error.get("code").and_then(Value::as_u64),
            message: [text("message"), text("error"), text("faultstring")].concat(),
            details: text("details"),
        },
    }
}

/// At most 500 characters, without control characters.
pub(crate) fn short(text: &str) -> String {
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(500).map(printable).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn commands_are_read_as_agents_write_them() {
        let running = parse(
            &json!({"id": "c1", "command_name": "prepare_image", "command_status": "RUNNING",
            "command_params": {}, "command_result": {"percent": 40}, "command_error": null}),
        )
        .unwrap();
        assert!(running.is("standby.prepare_image") && !running.is("standby.sync"));
        assert_eq!(
            (running.state.clone(), running.percent()),
            (CommandState::Running, Some(40))
        );

        let failed = parse(
            &json!({"id": "c2", "command_name": "standby.sync", "command_status": "FAILED",
            "command_error": {"type": "CommandExecutionError", "code": 500, "message": "Command execution failed",
                "details": "disk gone"}}),
        )
        .unwrap();
        let CommandState::Failed(failure) = failed.state else {
            panic!("{failed:?}")
        };
        assert_eq!(
            failure.to_string(),
            "CommandExecutionError: Command execution failed: disk gone"
        );
        assert_eq!(failed.result, Value::Null);
    }

    #[test]
    fn nonsense_is_refused_in_words() {
        for bad in [
            json!(null),
            json!([]),
            json!({"id": 7, "command_name": "a", "command_status": "RUNNING"}),
            json!({"id": "", "command_name": "a", "command_status": "RUNNING"}),
            json!({"id": "c", "command_name": "a", "command_status": "DANCING"}),
        ] {
            assert!(parse(&bad).is_err(), "{bad}");
        }
        let odd = parse(&json!({"id": "c", "command_name": "a", "command_status": "RUNNING",
            "command_result": {"percent": 1000}}));
        assert_eq!(odd.unwrap().percent(), None);
        assert_eq!(failure(&json!("a\nb")).to_string(), "a b");
        assert_eq!(failure(&json!(null)).to_string(), "it gives no reason");
    }

    #[test]
    fn steps_come_highest_priority_first_and_once() {
        let result = json!({"clean_steps": {
            "Generic": [{"step": "erase", "interface": "deploy", "priority": 10},
                        {"step": "wipe", "interface": "deploy", "priority": 99}],
            "Vendor": [{"step": "erase", "interface": "deploy", "priority": 20, "reboot_requested": true}]},
            "hardware_manager_version": {"Generic": "1"}});
        let list = StepList::parse(&result, "clean_steps").unwrap();
        let names: Vec<_> = list
            .steps
            .iter()
            .map(|step| (step.name.as_str(), step.priority))
            .collect();
        assert_eq!(names, [("wipe", 99), ("erase", 20)]);
        assert!(list.steps[1].reboot_requested);
        assert!(StepList::parse(&json!({"clean_steps": 7}), "clean_steps").is_err());
        assert!(StepList::parse(&json!({"clean_steps": {"m": [{"priority": 1}]}}), "clean_steps").is_err());
    }
}

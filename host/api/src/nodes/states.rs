//! `/v1/nodes/{node}/states` and `/maintenance`: what users wish for. Only wishes are recorded; the conductor does the work.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use conductor::config_drive::Given;
use conductor::machine;
use model::{Node, PowerAction, ProvisionState, Secret, Verb, Wish};
use serde_json::Value;
use url::Url;
use wire::ironic::{MaintenanceRequest, PowerRequest, ProvisionRequest, States};

use super::present;
use super::{accepted, validate};
use crate::body::{Json, Path};
use crate::error::{ApiError, ApiResult};
use crate::state::{ApiState, clip};
use crate::time;

/// `GET …/states`.
pub(crate) async fn show(State(state): State<ApiState>, Path(node): Path) -> ApiResult {
    let record = state.node(&node).await?;
    let node = &record.node;
    let states = States {
        provision_state: node.provision_state.as_str().to_owned(),
        target_provision_state: node.target_provision_state.map(|state| state.as_str().to_owned()),
        provision_updated_at: time::text(node.provision_updated_at),
        power_state: present::power(node.power_state),
        target_power_state: present::power(node.target_power_state),
        boot_mode: node.boot_mode.map(|mode| mode.as_str().to_owned()),
        last_error: node.last_error.clone(),
        ..States::default()
    };
    Ok(axum::Json(states).into_response())
}

/// `PUT …/states/provision`.
pub(crate) async fn provision(State(state): State<ApiState>, Path(name): Path, body: Json) -> ApiResult {
    let request: ProvisionRequest = body.shape("request for a provision state")?;
    let verb = machine::parse_verb(&request.target).map_err(|error| ApiError::Invalid(format!("`target`: {error}")))?;
    refuse_unknown(&request)?;
    let given = config_drive(verb, request.configdrive)?;
    let record = state
        .update(&name, |record| {
            let node = &mut record.node;
            // Work under way takes requests that stop it, and no other.
            if machine::accepts(node.provision_state, verb).is_err() {
                free(node, &name)?;
            }
            no_wish(node, &name)?;
            if node.maintenance && !machine::accepts_in_maintenance(verb) {
                let text = format!("node {} is in maintenance; end that before `{verb}`", clip(&name));
                return Err(ApiError::Invalid(text));
            }
            machine::accepts(node.provision_state, verb)
                .map_err(|refusal| ApiError::Invalid(format!("node {}: {refusal}", clip(&name))))?;
            let drive = given.as_ref().map(|given| packed(&state, node, given)).transpose()?;
            if matches!(verb, Verb::Active | Verb::Rebuild) {
                validate::deployable(node, &name, drive.as_ref(), &state)?;
            }
            node.wish = Some(Wish::Provision {
                verb,
                config_drive: drive,
            });
            Ok(())
        })
        .await?;
    (state.wake)(&record.node.id);
    Ok(accepted())
}

/// Refuses fields of a request that would be forgotten.
fn refuse_unknown(request: &ProvisionRequest) -> ApiResult<()> {
    for (key, value) in &request.more {
        let empty = match value {
            Value::Null | Value::Bool(false) => true,
            Value::Array(list) => list.is_empty(),
            _ => false,
        };
        if !empty {
            let text = format!(
                "`{}` is not something that Farrier does with a provision request",
                clip(key)
            );
            return Err(ApiError::Invalid(text));
        }
    }
    Ok(())
}

/// No other wish waits. `name`: what the client calls the node.
fn no_wish(node: &Node, name: &str) -> ApiResult<()> {
    let Some(wish) = &node.wish else {
        return Ok(());
    };
    Err(ApiError::Conflict(format!(
        "node {} has a request that waits to be begun ({}); try again",
        clip(name),
        describe(wish)
    )))
}

/// The node takes a wish now: nobody works on it, and no other wish waits.
pub(super) fn free(node: &Node, name: &str) -> ApiResult<()> {
    no_wish(node, name)?;
    if machine::is_busy(node.provision_state) {
        let stop = match machine::accepts(node.provision_state, Verb::Abort) {
            Ok(()) => ", or stop it with `abort`",
            Err(_) => "",
        };
        let text = format!(
            "node {} is being worked on (state `{}`); try again when it is done{stop}",
            clip(name),
            node.provision_state
        );
        return Err(ApiError::Conflict(text));
    }
    Ok(())
}

/// A wish in words, for answers.
pub(crate) fn describe(wish: &Wish) -> String {
    match wish {
        Wish::Provision { verb, .. } => format!("provision {verb}"),
        Wish::Power(action) => format!("power {}", power_name(*action)),
        Wish::BootIntoIso { .. } => "boot-into-iso".to_owned(),
    }
}

fn power_name(action: PowerAction) -> &'static str {
    match action {
        PowerAction::On => "on",
        PowerAction::Off => "off",
        PowerAction::SoftOff => "soft off",
        PowerAction::ForceRestart => "reset",
        PowerAction::SoftRestart => "soft restart",
    }
}

/// Reads a config drive, where there is one.
fn config_drive(verb: Verb, given: Option<Value>) -> ApiResult<Option<Given>> {
    let Some(given) = given.filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    if !matches!(verb, Verb::Active | Verb::Rebuild) {
        let text = format!("`configdrive` belongs to active and rebuild, not to `{verb}`");
        return Err(ApiError::Invalid(text));
    }
    let read = conductor::config_drive::read(given);
    read.map(Some).map_err(|error| ApiError::Invalid(error.to_string()))
}

/// The config drive as agents take it.
fn packed(state: &ApiState, node: &Node, given: &Given) -> ApiResult<Secret> {
    match given {
        Given::Ready(drive) => Ok(drive.clone()),
        Given::Parts(parts) => {
            (state.pack_config_drive)(node, parts).map_err(|error| ApiError::Invalid(format!("`configdrive`: {error}")))
        }
    }
}

/// `PUT …/states/power`.
pub(crate) async fn power(State(state): State<ApiState>, Path(node): Path, body: Json) -> ApiResult {
    let request: PowerRequest = body.shape("request for a power state")?;
    let action = match request.target.as_str() {
        "power on" => PowerAction::On,
        "power off" => PowerAction::Off,
        "rebooting" => PowerAction::ForceRestart,
        "soft power off" => PowerAction::SoftOff,
        "soft rebooting" => PowerAction::SoftRestart,
        other => {
            let known = "power on, power off, rebooting, soft power off, soft rebooting";
            let text = format!("`target`: unknown power state `{}`; known are: {known}", clip(other));
            return Err(ApiError::Invalid(text));
        }
    };
    let record = state
        .update(&node, |record| {
            free(&record.node, &node)?;
            record.node.wish = Some(Wish::Power(action));
            Ok(())
        })
        .await?;
    (state.wake)(&record.node.id);
    Ok(accepted())
}

/// Records that the node shall boot an ISO of the operator's once.
pub(super) async fn boot_into_iso(state: &ApiState, name: &str, url: String) -> ApiResult {
    check_iso_url(&url)?;
    let record = state
        .update(name, |record| {
            let node = &mut record.node;
            free(node, name)?;
            let state = node.provision_state;
            let free = matches!(state, ProvisionState::Manageable | ProvisionState::Active);
            if !free && (!node.maintenance || state.waits_for_agent()) {
                let text = format!(
                    "node {} is in state `{state}`; boot_into_iso takes a node that is manageable, active or in maintenance",
                    clip(name)
                );
                return Err(ApiError::Invalid(text));
            }
            node.wish = Some(Wish::BootIntoIso { url: url.clone() });
            Ok(())
        })
        .await?;
    (state.wake)(&record.node.id);
    Ok(accepted())
}

/// What a BMC can fetch from: http(s), short, without a comma (an iLO cuts there).
fn check_iso_url(text: &str) -> ApiResult<()> {
    let refused = |reason: &str| ApiError::Invalid(format!("`boot_iso_href`: {reason}"));
    if text.len() > 255 {
        return Err(refused("a BMC takes at most 255 characters"));
    }
    let url = Url::parse(text).map_err(|error| refused(&format!("no URL ({error})")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refused("the BMC fetches it, so it must be http:// or https://"));
    }
    if url.path().contains(',') || url.fragment().is_some() {
        return Err(refused("it must have no comma and no `#`"));
    }
    Ok(())
}

/// `PUT …/maintenance`.
pub(crate) async fn set_maintenance(State(state): State<ApiState>, Path(node): Path, body: Json) -> ApiResult {
    let request = match body {
        Json(Value::Null) => MaintenanceRequest::default(),
        body => body.shape("request for maintenance")?,
    };
    let record = state
        .update(&node, |record| {
            record.node.maintenance = true;
            record.node.maintenance_reason.clone_from(&request.reason);
            Ok(())
        })
        .await?;
    (state.wake)(&record.node.id);
    Ok(accepted())
}

/// `DELETE …/maintenance`.
pub(crate) async fn end_maintenance(State(state): State<ApiState>, Path(node): Path) -> ApiResult {
    let record = state
        .update(&node, |record| {
            let node = &mut record.node;
            node.maintenance = false;
            node.maintenance_reason = None;
            // Media that nobody serves stay stale whether anybody looks at the node or not.
            node.fault = node.fault.take().filter(|fault| *fault == model::Fault::MediaStale);
            Ok(())
        })
        .await?;
    (state.wake)(&record.node.id);
    Ok(StatusCode::ACCEPTED.into_response())
}

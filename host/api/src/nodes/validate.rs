//! `GET /v1/nodes/{node}/validate`: what is missing before a node can be driven or deployed, as far as its record tells.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::response::IntoResponse;
use model::{Fields, Node, Secret};
use serde_json::Value;
use wire::ironic::Validity;

use crate::body::Path;
use crate::error::{ApiError, ApiResult};
use crate::state::{ApiState, Site, clip};

/// `GET …/validate`.
pub(crate) async fn validate(State(state): State<ApiState>, Path(node): Path) -> ApiResult {
    let record = state.node(&node).await?;
    let node = &record.node;
    let bmc = credentials(node);
    let boot = ramdisk(node, &state.site)
        .and_then(|()| (state.check_boot)(node))
        .and_then(|()| credentials(node));
    let unsupported = Err("not supported by this driver".to_owned());
    let interfaces = [
        ("power", bmc.clone()),
        ("management", bmc.clone()),
        ("vendor", bmc),
        ("boot", boot),
        ("deploy", instance(node, None)),
        ("network", Ok(())),
        ("console", unsupported.clone()),
        ("rescue", unsupported.clone()),
        ("raid", unsupported.clone()),
        ("inspect", unsupported),
    ];
    let answers: BTreeMap<_, _> = interfaces
        .into_iter()
        .map(|(name, found)| (name, validity(name, found)))
        .collect();
    Ok(axum::Json(answers).into_response())
}

fn validity(name: &str, found: Result<(), String>) -> Value {
    // Ironic says null for interfaces that a driver does not have.
    let validity = match found {
        Ok(()) => Validity {
            result: true,
            reason: None,
        },
        Err(reason) if matches!(name, "console" | "rescue" | "raid" | "inspect") => {
            return serde_json::json!({ "result": null, "reason": reason });
        }
        Err(reason) => Validity {
            result: false,
            reason: Some(reason),
        },
    };
    serde_json::to_value(validity).unwrap_or_default()
}

/// Whether a deployment could begin. `name`: what the client calls the node.
pub(super) fn deployable(node: &Node, name: &str, config_drive: Option<&Secret>, state: &ApiState) -> ApiResult<()> {
    let found = credentials(node)
        .and_then(|()| ramdisk(node, &state.site))
        .and_then(|()| (state.check_boot)(node))
        .and_then(|()| instance(node, config_drive));
    found.map_err(|reason| ApiError::Invalid(format!("node {}: {reason}", clip(name))))
}

fn text<'a>(fields: &'a Fields, key: &str) -> Option<&'a str> {
    fields.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// Address, user and password of the BMC.
fn credentials(node: &Node) -> Result<(), String> {
    let mut missing: Vec<_> = ["ilo_address", "ilo_username"]
        .into_iter()
        .filter(|key| text(&node.driver_info, key).is_none())
        .collect();
    if !node.secrets.contains_key("ilo_password") {
        missing.push("ilo_password");
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!("driver_info lacks {}", missing.join(", ")))
}

/// What boots the ramdisk: an ISO, or a kernel and a ramdisk, of the node or of the site.
fn ramdisk(node: &Node, site: &Site) -> Result<(), String> {
    let has =
        |key: &str| text(&node.driver_info, key).is_some() || text(&node.driver_info, &format!("ilo_{key}")).is_some();
    match (has("deploy_iso"), has("deploy_kernel"), has("deploy_ramdisk")) {
        (true, _, _) | (_, true, true) => Ok(()),
        _ if site.has_deploy_ramdisk => Ok(()),
        (_, true, false) => Err("driver_info has deploy_kernel but no deploy_ramdisk".to_owned()),
        (_, false, true) => Err("driver_info has deploy_ramdisk but no deploy_kernel".to_owned()),
        _ => Err(
            "driver_info has neither deploy_iso nor deploy_kernel and deploy_ramdisk, and the site sets none ([images] deploy-kernel, deploy-ramdisk)"
                .to_owned(),
        ),
    }
}

/// What to deploy, with the config drive that is to go with it.
fn instance(node: &Node, config_drive: Option<&Secret>) -> Result<(), String> {
    conductor::validate_with(node, config_drive).map_err(|error| error.to_string())
}

//! `/v1/drivers` and `/v1/conductors`.

use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use model::Driver;
use nodes::Conductor;
use serde_json::{Map, Value, json};
use wire::ironic;

use crate::body::{Params, Path};
use crate::error::{ApiError, ApiResult};
use crate::nodes::present::INTERFACES;
use crate::state::{ApiState, clip};
use crate::time;
use crate::version::Base;

async fn driver(state: &ApiState, driver: Driver, base: &Base) -> ApiResult<ironic::Driver> {
    let conductors = state.store.conductors().await?;
    let live = conductors.into_iter().filter(|conductor| conductor.alive);
    let path = format!("drivers/{driver}");
    Ok(ironic::Driver {
        name: driver.as_str().to_owned(),
        hosts: live.map(|conductor| conductor.name.as_str().to_owned()).collect(),
        kind: "classic".to_owned(),
        links: base.links(&path),
        properties: base.links(&format!("{path}/properties")),
    })
}

/// `GET /v1/drivers`.
pub(crate) async fn list(State(state): State<ApiState>, RawQuery(query): RawQuery, headers: HeaderMap) -> ApiResult {
    let params = Params::read(query.as_deref(), &["type", "detail", "fields"])?;
    let base = Base::of(&state, &headers);
    let mut drivers = Vec::new();
    if params.text("type").is_none_or(|kind| kind == "classic") {
        for known in Driver::ALL {
            drivers.push(driver(&state, known, &base).await?);
        }
    }
    Ok(axum::Json(ironic::Drivers { drivers }).into_response())
}

fn parse(name: &str) -> ApiResult<Driver> {
    name.parse()
        .map_err(|error: model::UnknownState| ApiError::NotFound(error.to_string()))
}

/// `GET /v1/drivers/{driver}`.
pub(crate) async fn show(State(state): State<ApiState>, Path(name): Path, headers: HeaderMap) -> ApiResult {
    let found = driver(&state, parse(&name)?, &Base::of(&state, &headers)).await?;
    let mut shown = serde_json::to_value(found).unwrap_or_default();
    let ours = state.site.boot_interfaces();
    shown["default_boot_interface"] = json!(state.site.default_boot_interface.as_str());
    shown["enabled_boot_interfaces"] = ours.iter().map(|interface| json!(interface.as_str())).collect();
    for (interface, ours) in INTERFACES {
        shown[format!("default_{interface}")] = json!(ours);
        shown[format!("enabled_{interface}s")] = json!([ours]);
    }
    Ok(axum::Json(shown).into_response())
}

/// `GET /v1/drivers/{driver}/properties`: what `driver_info` may hold.
pub(crate) async fn properties(Path(name): Path) -> ApiResult {
    parse(&name)?;
    let known = [
        (
            "ilo_address",
            "Address of the BMC (host, or https://host:port). Required.",
        ),
        ("ilo_username", "User of the BMC. Required."),
        ("ilo_password", "Password of the BMC. Required; shows as ******."),
        ("client_port", "Port of the BMC. Optional."),
        (
            "client_timeout",
            "Seconds that a request to the BMC may take. Optional.",
        ),
        (
            "ilo_verify_ca",
            "PEM file with the authority of the BMC's certificate or that certificate itself; False switches off the check. Optional.",
        ),
        ("ca_file", "Read where ilo_verify_ca is not set. Optional."),
        (
            "deploy_kernel",
            "Kernel of the deploy ramdisk; the site may set one for all.",
        ),
        ("deploy_ramdisk", "The deploy ramdisk; the site may set one for all."),
        ("deploy_iso", "An ISO to boot instead of kernel and ramdisk. Optional."),
        ("kernel_append_params", "Added to the kernel line. Optional."),
    ];
    let known: Map<_, _> = known
        .into_iter()
        .map(|(key, text)| (key.to_owned(), json!(text)))
        .collect();
    Ok(axum::Json(known).into_response())
}

fn conductor(conductor: &Conductor, base: &Base) -> ironic::Conductor {
    let name = conductor.name.as_str();
    ironic::Conductor {
        hostname: name.to_owned(),
        conductor_group: conductor.group.clone(),
        alive: conductor.alive,
        drivers: Driver::ALL.map(|driver| driver.as_str().to_owned()).into(),
        updated_at: time::text(conductor.seen_at),
        links: base.links(&format!("conductors/{name}")),
    }
}

/// `GET /v1/conductors`.
pub(crate) async fn conductors(
    State(state): State<ApiState>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> ApiResult {
    let known = ["detail", "fields", "limit", "marker", "sort_key", "sort_dir"];
    let params = Params::read(query.as_deref(), &known)?;
    let marker = params.text("marker").unwrap_or("");
    let base = Base::of(&state, &headers);
    let mut all = state.store.conductors().await?;
    all.sort_by(|a, b| a.name.cmp(&b.name));
    let all = all.iter().filter(|conductor| conductor.name.as_str() > marker);
    let conductors = all.map(|found| conductor(found, &base)).collect();
    Ok(axum::Json(ironic::Conductors { conductors }).into_response())
}

/// `GET /v1/conductors/{conductor}`.
pub(crate) async fn show_conductor(State(state): State<ApiState>, Path(name): Path, headers: HeaderMap) -> ApiResult {
    let all = state.store.conductors().await?;
    let found = all.iter().find(|conductor| conductor.name.as_str() == name);
    let found = found.ok_or_else(|| ApiError::NotFound(format!("there is no conductor `{}`", clip(&name))))?;
    let shown: Value = serde_json::to_value(conductor(found, &Base::of(&state, &headers))).unwrap_or_default();
    Ok(axum::Json(shown).into_response())
}

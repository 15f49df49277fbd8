//! `create`, `set`, `unset`.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use model::MacAddress;
use serde_json::{Map, Value, json};

use super::fields::{Field, object};
use super::{NodeRef, node_path, show};
use crate::client::{Client, first_line};
use crate::output::{self, Format};

/// Fields that both `create` and `set` take.
#[derive(clap::Args)]
struct Fields {
    /// Logical name
    #[arg(long)]
    name: Option<String>,
    /// How the server gets what it boots: ilo-virtual-media (the default of a site) or ilo-ipxe
    #[arg(long = "boot-interface", value_name = "NAME")]
    boot_interface: Option<String>,
    /// How to reach and boot the server: ilo_address, ilo_username, deploy_kernel, …
    #[arg(long = "driver-info", value_name = "K=V")]
    driver_info: Vec<Field>,
    /// What to deploy: image_source, image_checksum, …
    #[arg(long = "instance-info", value_name = "K=V")]
    instance_info: Vec<Field>,
    /// Hardware: memory_mb, cpu_arch, capabilities, …
    #[arg(long = "property", value_name = "K=V")]
    properties: Vec<Field>,
    /// Your own
    #[arg(long, value_name = "K=V")]
    extra: Vec<Field>,
    /// File with the BMC password in its first line; becomes driver_info/ilo_password
    #[arg(long = "bmc-password-file", value_name = "FILE")]
    bmc_password_file: Option<PathBuf>,
}

impl Fields {
    /// Those that are one text each.
    fn texts(&self) -> impl Iterator<Item = (&'static str, String)> {
        let texts = [("name", &self.name), ("boot_interface", &self.boot_interface)];
        texts.into_iter().filter_map(|(key, text)| Some((key, text.clone()?)))
    }

    fn groups(self) -> Result<Vec<(&'static str, Vec<Field>)>> {
        let mut driver_info = self.driver_info;
        if let Some(path) = self.bmc_password_file {
            let password = first_line(&path)?;
            driver_info.push(Field {
                key: "ilo_password".into(),
                value: password.expose().into(),
            });
        }
        Ok(vec![
            ("driver_info", driver_info),
            ("instance_info", self.instance_info),
            ("properties", self.properties),
            ("extra", self.extra),
        ])
    }
}

#[derive(clap::Args)]
pub(crate) struct CreateArgs {
    /// agent_ilo (ends in local boot) or iscsi_ilo (keeps its boot ISO attached)
    #[arg(long, default_value = "agent_ilo")]
    driver: String,
    /// UUID; default: a random one
    #[arg(long)]
    uuid: Option<String>,
    /// MAC address of a network port; may be repeated
    #[arg(long = "mac", value_name = "MAC")]
    macs: Vec<MacAddress>,
    /// Conductor group
    #[arg(long, default_value = "")]
    conductor_group: String,
    #[command(flatten)]
    fields: Fields,
}

pub(super) async fn create(client: &Client, args: CreateArgs, format: Format) -> Result<()> {
    let mut body = Map::new();
    body.insert("driver".into(), args.driver.into());
    body.insert("conductor_group".into(), args.conductor_group.into());
    if let Some(uuid) = args.uuid {
        body.insert("uuid".into(), uuid.into());
    }
    for (key, value) in args.fields.texts() {
        body.insert(key.into(), value.into());
    }
    for (group, fields) in args.fields.groups()? {
        body.insert(group.into(), object(fields));
    }
    let node = client.post("/v1/nodes", &Value::Object(body)).await?;
    let uuid = super::text(&node, "uuid").to_owned();
    for mac in args.macs {
        let port = json!({ "node_uuid": uuid, "address": mac.to_string() });
        if let Err(error) = client.post("/v1/ports", &port).await {
            output::note(format_args!("the node was created as {uuid}; its port {mac} was not"));
            return Err(error);
        }
    }
    show::print(&node, format)
}

#[derive(clap::Args)]
pub(crate) struct SetArgs {
    /// UUID or name
    node: NodeRef,
    #[command(flatten)]
    fields: Fields,
}

pub(super) async fn set(client: &Client, args: SetArgs, format: Format) -> Result<()> {
    let mut patch = Vec::new();
    for (key, value) in args.fields.texts() {
        patch.push(json!({ "op": "add", "path": format!("/{key}"), "value": value }));
    }
    for (group, fields) in args.fields.groups()? {
        patch.extend(fields.into_iter().map(|field| {
            let path = format!("/{group}/{}", field.key.replace('~', "~0"));
            json!({ "op": "add", "path": path, "value": field.value })
        }));
    }
    ensure!(
        !patch.is_empty(),
        "nothing to set: give --name, --driver-info, --instance-info, …"
    );
    let node = client.patch(&node_path(&args.node), &Value::Array(patch)).await?;
    show::print(&node, format)
}

#[derive(clap::Args)]
pub(crate) struct UnsetArgs {
    /// UUID or name
    node: NodeRef,
    /// Fields, as `name` or `driver_info/deploy_kernel`
    #[arg(required = true)]
    fields: Vec<String>,
}

pub(super) async fn unset(client: &Client, args: UnsetArgs, format: Format) -> Result<()> {
    let remove = |field: &String| json!({ "op": "remove", "path": format!("/{field}") });
    let patch = args.fields.iter().map(remove).collect();
    let node = client.patch(&node_path(&args.node), &Value::Array(patch)).await?;
    show::print(&node, format)
}

//! What the ramdisk is told through its parameters.

use model::{ArtefactKind, BootInterface, Node, Port};
use serde_json::{Value, json};

use crate::{Parameter, ParameterValue};

/// Whether the parameters carry the agent's token. What boots over the network can be fetched by everybody there, so its
/// ramdisk is told the token by lookup.
pub(crate) fn carry_token(node: &Node) -> bool {
    match node.boot_interface {
        BootInterface::IloVirtualMedia => true,
        BootInterface::IloIpxe => false,
    }
}

/// What a server reads of while it boots.
pub(crate) fn boot_artefact(node: &Node) -> ArtefactKind {
    match node.boot_interface {
        BootInterface::IloVirtualMedia => ArtefactKind::BootIso,
        BootInterface::IloIpxe => ArtefactKind::Netboot,
    }
}

/// The parameters of a deploy or clean ramdisk.
pub(crate) fn ramdisk(node: &Node, ports: &[Port], agent_urls: &[String]) -> Vec<Parameter> {
    let plain = |key: &str, value: String| Parameter {
        key: key.to_owned(),
        value: ParameterValue::Plain(value),
    };
    let mut parameters = vec![
        plain("ipa-api-url", agent_urls.join(",")),
        plain("farrier-node-uuid", node.id.to_string()),
    ];
    if node.boot_interface == BootInterface::IloIpxe {
        // iPXE itself knows the card that it booted from.
        return parameters;
    }
    parameters.extend([
        Parameter {
            key: "ipa-agent-token".to_owned(),
            value: ParameterValue::Secret("agent-token".to_owned()),
        },
        // Without it the agent does not look for the parameters volume.
        plain("boot_method", "vmedia".to_owned()),
    ]);
    // Which of several ports the server boots by is not known, and a wrong one is worse than none.
    if let [port] = ports {
        let dashed = port.address.to_string().replace(':', "-");
        parameters.push(plain("BOOTIF", format!("01-{dashed}")));
    }
    parameters
}

/// The node as agents expect it beside a request for steps; holds no secret.
pub(crate) fn node_for_agent(node: &Node) -> Value {
    json!({
        "uuid": node.id.to_string(),
        "name": node.name.as_ref().map(|name| name.as_str()),
        "driver": node.driver.as_str(),
        "properties": node.properties,
        "instance_info": node.instance_info,
        "driver_internal_info": {},
        "extra": node.extra,
    })
}

/// Its ports, likewise.
pub(crate) fn ports_for_agent(ports: &[Port]) -> Value {
    let port =
        |port: &Port| json!({"uuid": port.id, "address": port.address.to_string(), "node_uuid": port.node.to_string()});
    ports.iter().map(port).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heartbeat::fresh_token;
    use crate::testing::node;

    fn port(address: &str) -> Port {
        Port {
            id: address.to_owned(),
            node: node().id,
            address: address.parse().unwrap(),
        }
    }

    #[test]
    fn the_token_is_named_and_never_stands_among_the_parameters() {
        let mut node = node();
        node.agent.token = Some(fresh_token());
        let urls = ["http://10.1.0.1:6387".to_owned(), "http://10.1.0.2:6387".to_owned()];
        let parameters = ramdisk(&node, &[port("AA:BB:CC:00:11:22")], &urls);
        let shown = format!("{parameters:?}");
        assert!(!shown.contains(node.agent.token.as_ref().unwrap().expose()));
        let value = |key: &str| {
            let found = parameters.iter().find(|parameter| parameter.key == key).unwrap();
            found.value.clone()
        };
        let plain = |text: &str| ParameterValue::Plain(text.to_owned());
        assert_eq!(value("ipa-api-url"), plain("http://10.1.0.1:6387,http://10.1.0.2:6387"));
        assert_eq!(
            value("ipa-agent-token"),
            ParameterValue::Secret("agent-token".to_owned())
        );
        assert_eq!(value("boot_method"), plain("vmedia"));
        assert_eq!(value("BOOTIF"), plain("01-aa-bb-cc-00-11-22"));
    }

    #[test]
    fn what_everybody_on_the_network_can_read_names_no_token_and_no_floppy() {
        let mut node = node();
        node.boot_interface = BootInterface::IloIpxe;
        let parameters = ramdisk(
            &node,
            &[port("AA:BB:CC:00:11:22")],
            &["http://10.1.0.1:6387".to_owned()],
        );
        let keys: Vec<_> = parameters.iter().map(|parameter| parameter.key.as_str()).collect();
        assert_eq!(keys, ["ipa-api-url", "farrier-node-uuid"]);
        assert!(!carry_token(&node));
        assert_eq!(boot_artefact(&node), ArtefactKind::Netboot);
    }

    #[test]
    fn the_boot_interface_is_left_out_where_it_is_not_known() {
        let ports = [port("aa:bb:cc:00:11:22"), port("aa:bb:cc:00:11:23")];
        let parameters = ramdisk(&node(), &ports, &[]);
        assert!(parameters.iter().all(|parameter| parameter.key != "BOOTIF"));
    }
}

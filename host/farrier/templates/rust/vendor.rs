//! {{name}}: methods of a vendor's own: the light of a server's chassis.

wit_bindgen::generate!({ path: "wit", world: "vendor-plugin" });

use exports::farrier::driver::vendor::{Guest, Method};
use farrier::driver::bmc_raw;
use farrier::driver::inventory::Node;
use farrier::driver::types::{Detail, Error};

const CHASSIS: &str = "/redfish/v1/Chassis/1";

struct Plugin;

impl Guest for Plugin {
    fn methods() -> Vec<Method> {
        let method = |name: &str, description: &str| Method {
            name: name.to_owned(),
            description: description.to_owned(),
            http_methods: vec!["POST".to_owned()],
            asynchronous: false,
            arguments: r#"{"type":"object","additionalProperties":false}"#.to_owned(),
        };
        vec![
            method("light-on", "Lights the chassis, to find the server in its rack"),
            method("light-off", "Puts the light of the chassis out"),
        ]
    }

    fn call(node: &Node, method: String, _arguments: String) -> Result<String, Error> {
        let light = match method.as_str() {
            "light-on" => "Lit",
            "light-off" => "Off",
            other => return Err(Error::NotFound(format!("there is no method `{other}`"))),
        };
        let body = format!(r#"{{"IndicatorLED":"{light}"}}"#);
        let reply = bmc_raw::redfish(node, "PATCH", CHASSIS, Some(&body))?;
        if reply.status >= 300 {
            return Err(Error::Other(Detail {
                code: "bmc-refused".to_owned(),
                message: format!("the BMC answered {} to the change of its light", reply.status),
                retry_after_ms: None,
            }));
        }
        Ok(format!(r#"{{"indicator-led":"{light}"}}"#))
    }
}

export!(Plugin);

//! A `vendor` guest that makes the one host call that its method names. For tests.

mod bindings;

use bindings::exports::farrier::driver::vendor::{Guest, Method};
use bindings::farrier::driver::inventory::Node;
use bindings::farrier::driver::power::{self, Action};
use bindings::farrier::driver::types::{Device, Error};
use bindings::farrier::driver::{bmc_raw, vmedia_service};

struct Plugin;

impl Guest for Plugin {
    fn methods() -> Vec<Method> {
        vec![Method {
            name: "get".to_owned(),
            description: "Reads one resource of the BMC.".to_owned(),
            http_methods: vec!["GET".to_owned()],
            asynchronous: false,
            arguments: "{}".to_owned(),
        }]
    }

    /// The arguments are taken as they stand: a path for `get` and `post`, a command for `ribcl`.
    fn call(node: &Node, method: String, arguments: String) -> Result<String, Error> {
        match method.as_str() {
            "get" => bmc_raw::redfish(node, "GET", &arguments, None).map(|reply| reply.body),
            "post" => bmc_raw::redfish(node, "POST", &arguments, Some("{}")).map(|reply| reply.body),
            "ribcl" => bmc_raw::ribcl(node, &arguments, &[]),
            "power-off" => power::set(node, Action::Off, 1000).map(|()| "true".to_owned()),
            "detach" => vmedia_service::detach(node, Device::Cdrom).map(|()| "true".to_owned()),
            "babble" => Ok("no JSON".to_owned()),
            _ => Err(Error::NotFound(format!("no method `{method}`"))),
        }
    }
}

#[expect(unsafe_code, reason = "generated: exported functions cross the component boundary")]
mod exports {
    use crate::Plugin;
    crate::bindings::export!(Plugin with_types_in crate::bindings);
}

//! A vendor's own methods: raw requests are granted one by one, and an active server is left alone.

use model::{Device, ProvisionState};
use runtime::{CallError, CallFailure, ComponentSource, DriverError, PluginConfig, Role, Runtime};
use serde_json::{Value, json};

use crate::support::{by_operator, context, grants, guests, hostile, node, with_plugins, world};
use crate::world::{TestWorld, fill};

pub(crate) fn probe(grant: Option<&str>) -> PluginConfig {
    PluginConfig {
        role: Role::Vendor,
        component: ComponentSource::File(guests().join("vendor_probe.wasm")),
        grant: grant.and_then(grants),
        ..hostile("")
    }
}

const RAW: &str =
    r#"{"bmc-raw":{"methods":["GET","POST"],"paths":["/redfish/v1/Managers/**"],"ribcl":["GET_VM_STATUS"]}}"#;

async fn runtime(world: &TestWorld, grant: Option<&str>) -> Runtime {
    with_plugins(world, vec![probe(grant)]).await.unwrap()
}

async fn call(runtime: &Runtime, state: ProvisionState, method: &str, arguments: &str) -> Result<Value, CallError> {
    runtime
        .vendor_call(&context(node(state)), method, arguments)
        .await
        .unwrap()
        .result
}

fn denied(text: &str) -> Result<Value, CallError> {
    Err(CallError::Answered(DriverError::Denied(text.to_owned())))
}

#[tokio::test(flavor = "multi_thread")]
async fn raw_requests_go_where_the_site_lets_them_and_nowhere_else() {
    let state = ProvisionState::Manageable;
    let world = world();
    let by_default = runtime(&world, None).await;
    let path = "/redfish/v1/Managers/1";
    assert_eq!(
        call(&by_default, state, "get", path).await,
        denied("bmc-raw: GET /redfish/v1/Managers/1")
    );
    assert_eq!(
        call(&by_default, state, "ribcl", "GET_VM_STATUS").await,
        denied("bmc-raw: ribcl GET_VM_STATUS")
    );
    let granted = runtime(&world, Some(RAW)).await;
    assert_eq!(call(&granted, state, "get", path).await, Ok(json!({ "asked": path })));
    for path in [
        "/redfish/v1/Systems/1",
        "/redfish/v1/Managers/../Systems/1",
        "/redfish/v1/Managers/%2e%2e/Systems",
    ] {
        assert_eq!(
            call(&granted, state, "get", path).await,
            denied(&format!("bmc-raw: GET {path}"))
        );
    }
    assert_eq!(world.asked().matches("bmc-raw.redfish").count(), 1);
    assert!(world.model().journal.is_empty(), "reading is no effect");
    assert_eq!(call(&granted, state, "post", path).await, Ok(json!({ "asked": path })));
    assert_eq!(
        world.model().journal[0].0,
        "bmc-raw.redfish POST /redfish/v1/Managers/1"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_active_server_keeps_its_power_and_its_settings() {
    let world = world();
    fill(&world, Device::Cdrom, "http://local/boot-iso");
    let raw = RAW.replacen('{', r#"{"power":["set"],"vmedia-service":["detach"],"#, 1);
    let runtime = runtime(&world, Some(&raw)).await;
    for method in ["power-off", "post", "detach"] {
        let path = "/redfish/v1/Managers/1";
        assert_eq!(
            call(&runtime, ProvisionState::Active, method, path).await,
            denied("active node"),
            "{method}"
        );
        let called = runtime
            .vendor_call(&by_operator(node(ProvisionState::Active)), method, path)
            .await
            .unwrap();
        assert!(called.result.is_ok(), "{method}: {:?}", called.result);
    }
    assert!(
        call(&runtime, ProvisionState::Active, "get", "/redfish/v1/Managers/1")
            .await
            .is_ok()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn methods_are_listed_and_an_answer_must_be_json() {
    let world = world();
    let runtime = runtime(&world, None).await;
    let context = context(node(ProvisionState::Manageable));
    let methods = runtime.vendor_methods(&context).await.unwrap().result.unwrap();
    assert_eq!(
        methods.iter().map(|method| method.name.as_str()).collect::<Vec<_>>(),
        ["get"]
    );
    let babble = call(&runtime, ProvisionState::Manageable, "babble", "").await;
    assert!(
        matches!(
            babble,
            Err(CallError::Failed {
                failure: CallFailure::Unusable(_),
                ..
            })
        ),
        "{babble:?}"
    );
    let without = with_plugins(&world, vec![]).await.unwrap();
    assert!(without.vendor_methods(&context).await.is_none());
}

//! Every role in every language: a new project builds at once, asks for what it calls and no more, and passes its rehearsal.

use serde_json::{Value, json};

use crate::desk::Desk;

/// Role, and what its template asks for.
fn roles() -> [(&'static str, Value); 4] {
    let vmedia = json!({
        "bmc": ["media-state"],
        "vmedia-service": [
            "attach", "boot-into-iso", "clean-up-instance", "clean-up-ramdisk", "detach", "prepare-instance", "prepare-ramdisk",
        ],
    });
    let vendor = json!({ "bmc-raw": { "methods": ["PATCH"], "paths": ["/redfish/v1/Chassis/*"] } });
    [
        ("backend-selection", json!({})),
        ("vmedia", vmedia),
        ("take-over", json!({})),
        ("vendor", vendor),
    ]
}

/// A guest of Python or JavaScript carries its interpreter and takes half a minute to compile, three times a role: `make soak`
/// tries every role (`FARRIER_AUTHORING=every-role`), this one, and the guide another.
fn every_role(language: &str) -> bool {
    matches!(language, "rust" | "c") || std::env::var("FARRIER_AUTHORING").is_ok_and(|wish| wish == "every-role")
}

fn check(language: &str) {
    let desk = Desk::equipped();
    let roles = roles()
        .into_iter()
        .filter(|(role, _)| every_role(language) || *role == "vmedia");
    for (role, required) in roles {
        let name = format!("acme-{role}");
        desk.plugin(&["new", "--role", role, "--lang", language, &name], 0);
        let about = desk.build_and_rehearse(&desk.work().join(&name), &name);
        assert_eq!(about["role"], role, "{about}");
        assert_eq!(about["required"], required, "{about}");
        assert_eq!(about["optional"], json!({}), "{about}");
        let imports = about["imports"].to_string();
        assert!(!imports.contains("wasi:"), "{imports}");
    }
}

#[test]
fn rust_projects_of_every_role_pass_at_once() {
    check("rust");
}

#[test]
fn python_projects_of_every_role_pass_at_once() {
    check("python");
}

#[test]
fn javascript_projects_of_every_role_pass_at_once() {
    check("js");
}

#[test]
fn c_projects_of_every_role_pass_at_once() {
    check("c");
}

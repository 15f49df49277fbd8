//! Host calls as scenario files write them: one flat mapping of arguments, names for handles; and how two are compared.

use std::fmt::Write as _;

use runtime::HostCall;
use serde_json::{Map, Value as Json};

/// Longest text that is shown of one value.
const SHOWN: usize = 200;

/// The arguments of a call. `name` turns a handle's number into its name.
pub(crate) fn arguments(call: &HostCall) -> Json {
    let mut json = serde_json::to_value(call).unwrap_or_default();
    if let Some(map) = json.as_object_mut() {
        map.remove("on");
        // The contract's functions take one record here; its fields are what a scenario names.
        if let Some(Json::Object(spec)) = map.remove("spec") {
            map.extend(spec);
        }
        for (key, prefix) in [("image", "image"), ("location", "location")] {
            if let Some(number) = map.get(key).and_then(Json::as_u64) {
                map.insert(key.to_owned(), format!("{prefix}#{number}").into());
            }
        }
    }
    spelled(json)
}

/// Keys with hyphens, plain parameters as texts, small files as texts where they are.
fn spelled(json: Json) -> Json {
    match json {
        Json::Array(list) => Json::Array(list.into_iter().map(spelled).collect()),
        Json::Object(map) => {
            let spelled: Map<String, Json> = map
                .into_iter()
                .map(|(key, value)| {
                    let value = match (key.as_str(), value) {
                        ("value", Json::Object(mut value)) if value.contains_key("plain") => {
                            value.remove("plain").unwrap_or_default()
                        }
                        ("content", value) => text(&value).map_or(value, Json::String),
                        (_, value) => spelled(value),
                    };
                    (key.replace('_', "-"), value)
                })
                .collect();
            Json::Object(spelled)
        }
        other => other,
    }
}

/// Bytes that are a text.
fn text(bytes: &Json) -> Option<String> {
    let bytes = bytes.as_array()?;
    let bytes: Option<Vec<u8>> = bytes
        .iter()
        .map(|byte| byte.as_u64().and_then(|byte| u8::try_from(byte).ok()))
        .collect();
    String::from_utf8(bytes?).ok()
}

/// How `found` differs from what is wanted, one line a difference. Of a mapping, only the wanted keys are compared.
pub(crate) fn differences(wanted: &Json, found: &Json) -> Vec<String> {
    let mut lines = Vec::new();
    compare(wanted, found, "", &mut lines);
    lines
}

fn compare(wanted: &Json, found: &Json, path: &str, lines: &mut Vec<String>) {
    let at = if path.is_empty() { "it" } else { path };
    match (wanted, found) {
        (Json::Object(wanted), Json::Object(map)) => {
            for (key, value) in wanted {
                let path = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                match map.get(key) {
                    Some(found) => compare(value, found, &path, lines),
                    None if value.is_null() => {}
                    None => lines.push(format!("{path}: wanted {}, is not there", show(value))),
                }
            }
        }
        (Json::Array(wanted), Json::Array(list)) if wanted.len() == list.len() => {
            for (index, (wanted, found)) in wanted.iter().zip(list).enumerate() {
                compare(wanted, found, &format!("{path}[{index}]"), lines);
            }
        }
        (wanted, found) if wanted == found => {}
        (wanted, found) => lines.push(format!("{at}: wanted {}, is {}", show(wanted), show(found))),
    }
}

/// A call in one line.
pub(crate) fn show_call(function: &str, arguments: &Json) -> String {
    match arguments {
        Json::Object(map) if map.values().all(is_absent) => function.to_owned(),
        arguments => format!("{function} {}", show(arguments)),
    }
}

/// A value in one line, as YAML would have it; keys without a value are left out.
pub(crate) fn show(json: &Json) -> String {
    let mut line = String::new();
    write(json, &mut line);
    if line.chars().count() > SHOWN * 4 {
        line = line.chars().take(SHOWN * 4).collect();
        line.push('…');
    }
    line
}

fn is_absent(json: &Json) -> bool {
    json.is_null() || json.as_array().is_some_and(Vec::is_empty)
}

fn write(json: &Json, line: &mut String) {
    match json {
        Json::Object(map) => {
            line.push('{');
            let present = map.iter().filter(|(_, value)| !is_absent(value));
            for (index, (key, value)) in present.enumerate() {
                let _ = write!(line, "{}{key}: ", if index > 0 { ", " } else { "" });
                write(value, line);
            }
            line.push('}');
        }
        Json::Array(list) => {
            line.push('[');
            for (index, value) in list.iter().enumerate() {
                line.push_str(if index > 0 { ", " } else { "" });
                write(value, line);
            }
            line.push(']');
        }
        Json::String(text) => {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_./#:%@=".contains(c);
            let short: String = text.chars().take(SHOWN).collect();
            let cut = if short.len() < text.len() { "…" } else { "" };
            if !text.is_empty() && text.chars().all(plain) && text.parse::<f64>().is_err() {
                let _ = write!(line, "{short}{cut}");
            } else {
                let _ = write!(line, "\"{}{cut}\"", short.escape_debug());
            }
        }
        other => {
            let _ = write!(line, "{other}");
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{ArtefactKind, BootDevice, BootMode, Device, PowerAction};
    use runtime::{
        BootIsoSpec, FloppySpec, ImageHandle, InsertOptions, IsoSource, LocationHandle, Parameter, SmallFile, Value,
    };
    use serde_json::json;

    use super::*;
    use crate::functions::FUNCTIONS;

    /// One call of each function that a scenario answers.
    fn one_of_each() -> Vec<HostCall> {
        let text = String::new;
        let iso = BootIsoSpec {
            source: IsoSource::Deploy,
            label: None,
            kernel_arguments: None,
            parameters: vec![],
            files: vec![],
            boot_modes: None,
        };
        let (device, location) = (Device::Cdrom, LocationHandle(1));
        vec![
            HostCall::StateGet { key: text() },
            HostCall::StatePut {
                key: text(),
                value: text(),
                expect: None,
            },
            HostCall::StateDelete { key: text() },
            HostCall::BuildFloppy {
                spec: FloppySpec::default(),
            },
            HostCall::BuildBootIso { spec: iso },
            HostCall::Publish {
                image: ImageHandle(1),
                minimum_lifetime_s: 1,
                backend: None,
            },
            HostCall::Find {
                kind: ArtefactKind::Floppy,
            },
            HostCall::Renew {
                location,
                minimum_lifetime_s: 1,
            },
            HostCall::Withdraw {
                kind: ArtefactKind::Floppy,
            },
            HostCall::External { url: text() },
            HostCall::MediaState { device },
            HostCall::Insert {
                device,
                location,
                options: InsertOptions::default(),
            },
            HostCall::Eject { device },
            HostCall::SetBootDevice {
                device: BootDevice::Disk,
                persistent: true,
            },
            HostCall::BootModeOf,
            HostCall::SetBootMode { mode: BootMode::Uefi },
            HostCall::SecureBootOf,
            HostCall::SetSecureBoot { enabled: true },
            HostCall::PowerStateOf,
            HostCall::SetPower {
                action: PowerAction::On,
                deadline_ms: 1,
            },
            HostCall::Redfish {
                method: text(),
                path: text(),
                body: None,
            },
            HostCall::Ribcl {
                command: text(),
                attributes: vec![],
            },
        ]
    }

    #[test]
    fn the_table_of_functions_names_every_argument_that_a_call_has() {
        let calls = one_of_each();
        assert_eq!(calls.len(), FUNCTIONS.len());
        for (call, function) in calls.iter().zip(FUNCTIONS) {
            assert_eq!(call.name(), function.name);
            let mut wanted = function.arguments.to_vec();
            wanted.sort_unstable();
            let arguments = arguments(call);
            let mut found: Vec<&str> = arguments.as_object().unwrap().keys().map(String::as_str).collect();
            found.sort_unstable();
            assert_eq!(found, wanted, "{}", function.name);
        }
    }

    #[test]
    fn a_call_is_written_with_names_and_texts() {
        let floppy = HostCall::BuildFloppy {
            spec: FloppySpec {
                label: None,
                parameters: vec![
                    Parameter {
                        key: "url".into(),
                        value: Value::Plain("http://a".into()),
                    },
                    Parameter {
                        key: "token".into(),
                        value: Value::Secret("agent-token".into()),
                    },
                ],
                files: vec![SmallFile {
                    path: "x".into(),
                    content: b"hi\n".to_vec(),
                }],
            },
        };
        assert_eq!(
            show_call(floppy.name(), &arguments(&floppy)),
            r#"image.build-floppy {files: [{content: "hi\n", path: x}], parameters: [{key: url, value: http://a}, {key: token, value: {secret: agent-token}}]}"#
        );
        let publish = HostCall::Publish {
            image: ImageHandle(2),
            minimum_lifetime_s: 60,
            backend: None,
        };
        assert_eq!(
            arguments(&publish),
            json!({"image": "image#2", "minimum-lifetime-s": 60, "backend": null})
        );
        assert_eq!(
            show_call("bmc.boot-mode-of", &arguments(&HostCall::BootModeOf)),
            "bmc.boot-mode-of"
        );
    }

    #[test]
    fn only_what_is_wanted_is_compared_and_each_difference_has_its_place() {
        let found = json!({"a": 1, "list": [{"x": 1, "y": 2}, "z"], "none": null});
        assert!(differences(&json!({"list": [{"x": 1}, "z"], "none": null, "gone": null}), &found).is_empty());
        assert_eq!(
            differences(&json!({"a": 2, "list": [{"x": 3}, "z"], "b": "t"}), &found),
            [
                "a: wanted 2, is 1",
                "b: wanted t, is not there",
                "list[0].x: wanted 3, is 1"
            ]
        );
        assert_eq!(differences(&json!(["q"]), &json!([])), ["it: wanted [q], is []"]);
    }
}

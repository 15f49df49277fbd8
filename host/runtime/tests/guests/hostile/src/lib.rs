//! A `vmedia` guest that does what no guest should: `prepare-ramdisk` does what the setting `do` says. For tests.

mod bindings;

use bindings::exports::farrier::driver::vmedia::Guest;
use bindings::farrier::driver::bmc::{self, BootDevice, InsertOptions};
use bindings::farrier::driver::image::{self, FloppySpec, IsoSource, Parameter, Value};
use bindings::farrier::driver::inventory::Node;
use bindings::farrier::driver::storage::{self, Location};
use bindings::farrier::driver::types::{ArtefactKind, BootMode, Detail, Device, Error};
use bindings::farrier::driver::{clock, config, log, state, vmedia_service};

struct Plugin;

impl Guest for Plugin {
    fn prepare_ramdisk(node: &Node, parameters: Vec<Parameter>) -> Result<(), Error> {
        let what = config::get("/do").unwrap_or_default();
        misbehave(node, what.trim_matches('"'), parameters)
    }

    fn clean_up_ramdisk(node: &Node) -> Result<(), Error> {
        Self::prepare_ramdisk(node, vec![])
    }

    fn prepare_instance(node: &Node) -> Result<(), Error> {
        Self::prepare_ramdisk(node, vec![])
    }

    fn clean_up_instance(node: &Node) -> Result<(), Error> {
        Self::prepare_ramdisk(node, vec![])
    }

    fn attach(_: &Node, _: Device, _: &Location) -> Result<(), Error> {
        Ok(())
    }

    fn detach(node: &Node, device: Device) -> Result<(), Error> {
        vmedia_service::detach(node, device)
    }

    fn boot_into_iso(_: &Node, _: &Location) -> Result<(), Error> {
        Ok(())
    }
}

fn misbehave(node: &Node, what: &str, parameters: Vec<Parameter>) -> Result<(), Error> {
    match what {
        "nothing" => Ok(()),
        // For the bench: together with the setting that says so, two host calls.
        "read" => {
            std::hint::black_box(node.fact("vendor"));
            Ok(())
        }
        "write" => bmc::eject(node, Device::Cdrom),
        "spin" => loop {
            std::hint::black_box(());
        },
        "panic" => panic!("on purpose"),
        "recurse" => {
            std::hint::black_box(deep(0));
            Ok(())
        }
        "allocate" => {
            let mut hoard: Vec<Vec<u8>> = Vec::new();
            loop {
                hoard.push(std::hint::black_box(vec![1; 1 << 20]));
            }
        }
        "storm" => loop {
            std::hint::black_box(node.fact("vendor"));
        },
        "stubborn" => loop {
            let _ = std::hint::black_box(bmc::media_state(node, Device::Cdrom));
        },
        "hoard-handles" => {
            let mut hoard = Vec::new();
            loop {
                match image::build_floppy(node, &empty_floppy()) {
                    Ok(image) => hoard.push(image),
                    Err(error) => return Err(error),
                }
            }
        }
        "shout" => {
            for _ in 0..100 {
                log::event(log::Level::Info, &"x".repeat(4096), &[]);
            }
            Ok(())
        }
        "flood" => state::put(node, "k", &"x".repeat(8 << 20), None).map(|_| ()),
        "sleep" => {
            clock::sleep_ms(60_000);
            Ok(())
        }
        "answer" => Err(Error::Other(Detail {
            code: "not-today".to_owned(),
            message: "as a policy may say".to_owned(),
            retry_after_ms: Some(7),
        })),
        "eject" => bmc::eject(node, Device::Cdrom),
        "eject-twice" => bmc::eject(node, Device::Cdrom).and_then(|()| bmc::eject(node, Device::Floppy)),
        "look" => bmc::media_state(node, Device::Cdrom).map(|_| ()),
        "eject-and-look" => bmc::eject(node, Device::Cdrom).and_then(|()| {
            let seen = bmc::media_state(node, Device::Cdrom)?;
            match seen.inserted {
                true => Err(Error::Conflict("something is in the slot".to_owned())),
                false => Ok(()),
            }
        }),
        "put" => put(node, 1),
        "put-twice" => put(node, 2),
        // For fault sweeps: it gives up where it could answer, and it does not see that it was here before.
        "eject-or-panic" => {
            bmc::eject(node, Device::Cdrom).expect("on purpose");
            Ok(())
        }
        "sleep-and-eject" => {
            clock::sleep_ms(60_000);
            bmc::eject(node, Device::Cdrom)
        }
        "count" => {
            let before = state::get(node, "n")?;
            let length = before.as_ref().map_or(0, |before| before.value.len());
            state::put(node, "n", &"x".repeat(length + 1), before.map(|before| before.version)).map(|_| ())
        }
        "eject-service" => vmedia_service::detach(node, Device::Cdrom),
        "set-boot-device" => bmc::set_boot_device(node, BootDevice::Cdrom, false),
        "set-boot-mode" => bmc::set_boot_mode(node, BootMode::Bios),
        "set-secure-boot" => bmc::set_secure_boot(node, true),
        "insert" => {
            let location = storage::external("http://192.0.2.9/own.iso")?;
            let options = InsertOptions {
                write_protected: true,
                boot_once: false,
                server_certificate: None,
            };
            bmc::insert(node, Device::Cdrom, &location, &options)
        }
        "withdraw" => storage::withdraw(node, ArtefactKind::BootIso),
        "steal-secret" => {
            let value = Value::Secret("ilo_password".to_owned());
            let parameters = vec![Parameter {
                key: "p".to_owned(),
                value,
            }];
            image::build_floppy(
                node,
                &FloppySpec {
                    parameters,
                    ..empty_floppy()
                },
            )
            .map(|_| ())
        }
        "name-token" => {
            let value = Value::Secret("agent-token".to_owned());
            let parameters = vec![Parameter {
                key: "p".to_owned(),
                value,
            }];
            image::build_floppy(
                node,
                &FloppySpec {
                    parameters,
                    ..empty_floppy()
                },
            )
            .map(|_| ())
        }
        "hand-on" => vmedia_service::prepare_ramdisk(node, &parameters),
        "pass-on" => image::build_floppy(
            node,
            &FloppySpec {
                parameters,
                ..empty_floppy()
            },
        )
        .map(|_| ()),
        "outside-iso" => {
            let spec = image::BootIsoSpec {
                source: IsoSource::Iso("https://elsewhere.example/x.iso".to_owned()),
                label: None,
                kernel_arguments: None,
                parameters: vec![],
                files: vec![],
                boot_modes: None,
            };
            image::build_boot_iso(node, &spec).map(|_| ())
        }
        "each" => each(node),
        other => Err(Error::Invalid(format!("`do` is `{other}`"))),
    }
}

/// Reads a value of its own and writes it so often.
fn put(node: &Node, times: u32) -> Result<(), Error> {
    let mut seen = state::get(node, "k")?.map(|value| value.version);
    for _ in 0..times {
        seen = Some(state::put(node, "k", "v", seen)?);
    }
    Ok(())
}

/// Every function of the world that can fail, once; what each answered, in one text.
fn each(node: &Node) -> Result<(), Error> {
    fn say<T>(name: &str, answer: Result<T, Error>) -> String {
        let answer = match answer {
            Ok(_) => "ok".to_owned(),
            Err(error) => format!("{error:?}"),
        };
        format!("{name}: {answer}\n")
    }
    let iso = |source| image::BootIsoSpec {
        source,
        label: None,
        kernel_arguments: None,
        parameters: vec![],
        files: vec![],
        boot_modes: None,
    };
    let said = [
        say("state.get", state::get(node, "k")),
        say("state.put", state::put(node, "k", "v", None)),
        say("state.delete", state::delete(node, "k")),
        say("image.build-floppy", image::build_floppy(node, &empty_floppy())),
        say(
            "image.build-boot-iso",
            image::build_boot_iso(node, &iso(IsoSource::Deploy)),
        ),
        say("storage.find", storage::find(node, ArtefactKind::Floppy)),
        say("storage.withdraw", storage::withdraw(node, ArtefactKind::Floppy)),
        say("storage.external", storage::external("http://192.0.2.9/x.iso")),
        say("bmc.media-state", bmc::media_state(node, Device::Cdrom)),
        say("bmc.eject", bmc::eject(node, Device::Cdrom)),
        say(
            "bmc.set-boot-device",
            bmc::set_boot_device(node, BootDevice::Disk, true),
        ),
        say("bmc.boot-mode-of", bmc::boot_mode_of(node)),
        say("bmc.set-boot-mode", bmc::set_boot_mode(node, BootMode::Uefi)),
        say("bmc.secure-boot-of", bmc::secure_boot_of(node)),
        say("bmc.set-secure-boot", bmc::set_secure_boot(node, true)),
        say(
            "vmedia-service.prepare-ramdisk",
            vmedia_service::prepare_ramdisk(node, &[]),
        ),
        say(
            "vmedia-service.clean-up-ramdisk",
            vmedia_service::clean_up_ramdisk(node),
        ),
        say(
            "vmedia-service.prepare-instance",
            vmedia_service::prepare_instance(node),
        ),
        say(
            "vmedia-service.clean-up-instance",
            vmedia_service::clean_up_instance(node),
        ),
        say("vmedia-service.detach", vmedia_service::detach(node, Device::Cdrom)),
    ];
    Err(Error::Invalid(said.concat()))
}

fn empty_floppy() -> FloppySpec {
    FloppySpec {
        label: None,
        parameters: vec![],
        files: vec![],
    }
}

#[inline(never)]
#[expect(unconditional_recursion, reason = "the point of it")]
fn deep(depth: u64) -> u64 {
    let page = std::hint::black_box([depth; 64]);
    deep(depth + 1) + page[7]
}

#[expect(unsafe_code, reason = "generated: exported functions cross the component boundary")]
mod exports {
    use crate::Plugin;
    crate::bindings::export!(Plugin with_types_in crate::bindings);
}

//! The rules by which the contract may change, and that no function of it gets past a grant.

use std::path::{Path, PathBuf};

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{ManglingAndAbi, Resolve, WorldId};

use crate::support::{context, grants, hostile, node, with_plugins, world};

fn wit() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit")
}

fn resolve(folder: &Path) -> (Resolve, wit_parser::PackageId) {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(folder).unwrap();
    (resolve, package)
}

fn worlds(resolve: &Resolve, package: wit_parser::PackageId) -> Vec<(String, WorldId)> {
    let worlds = resolve.packages[package].worlds.iter();
    worlds.map(|(name, id)| (name.clone(), *id)).collect()
}

/// A component of a world, every function of which traps.
pub(crate) fn dummy(world: &str) -> Vec<u8> {
    let (resolve, package) = resolve(&wit());
    let id = resolve.select_world(&[package], Some(world)).unwrap();
    let module = wit_component::dummy_module(&resolve, id, ManglingAndAbi::Standard32);
    component(&resolve, id, module)
}

/// A vmedia plugin in core WebAssembly's text: `fields` of its module, and what `clean-up-instance` does; the rest traps.
pub(crate) fn vmedia_guest(fields: &str, body: &str) -> Vec<u8> {
    use std::fmt::Write as _;
    let (resolve, package) = resolve(&wit());
    let world = resolve.select_world(&[package], Some("vmedia-plugin")).unwrap();
    let wit_parser::WorldItem::Interface { id, .. } = resolve.worlds[world].exports.values().next().unwrap() else {
        panic!("a role is an interface")
    };
    let mut text = format!(
        "(module {fields} (memory (export \"memory\") 1)
            (func (export \"cabi_realloc\") (param i32 i32 i32 i32) (result i32) (i32.const 4096))\n"
    );
    for export in resolve.interfaces[*id].functions.values() {
        let signature = resolve.wasm_signature(wit_parser::abi::AbiVariant::GuestExport, export);
        let params: Vec<_> = signature.params.iter().map(|ty| core(*ty)).collect();
        let body = match export.name == "clean-up-instance" {
            true => body,
            false => "unreachable",
        };
        let (name, params) = (&export.name, params.join(" "));
        writeln!(
            text,
            "(func (export \"farrier:driver/vmedia@0.1.0#{name}\") (param {params}) (result i32) {body})"
        )
        .unwrap();
    }
    text += ")";
    component(&resolve, world, wat::parse_str(&text).unwrap())
}

fn component(resolve: &Resolve, world: WorldId, mut module: Vec<u8>) -> Vec<u8> {
    embed_component_metadata(&mut module, resolve, world, StringEncoding::UTF8).unwrap();
    let mut encoder = ComponentEncoder::default();
    encoder.validate(true).module(&module).unwrap();
    encoder.encode().unwrap()
}

/// Interfaces whose functions need no grant.
const FREE: [&str; 5] = ["types", "log", "clock", "config", "inventory"];

#[tokio::test(flavor = "multi_thread")]
async fn no_function_of_the_contract_gets_past_an_empty_grant() {
    let (resolve, package) = resolve(&wit());
    let mut walked = 0;
    for (name, id) in worlds(&resolve, package) {
        let role = runtime::Role::parse(name.strip_suffix("-plugin").unwrap()).unwrap();
        if !matches!(role, runtime::Role::Vmedia | runtime::Role::Vendor) {
            // The pure roles import nothing that is granted: their worlds say so.
            let imports = interfaces(&resolve, id);
            assert!(imports.iter().all(|(name, _)| FREE.contains(&name.as_str())), "{name}");
            continue;
        }
        for (interface, functions) in interfaces(&resolve, id) {
            if FREE.contains(&interface.as_str()) {
                continue;
            }
            for function in functions.iter().filter(|function| !function.name.starts_with('[')) {
                // Only a call of a vmedia plugin brings a location along, which some functions take.
                if role == runtime::Role::Vendor && takes(&resolve, function, "location") {
                    continue;
                }
                let guest = caller(&resolve, id, role, &interface, function);
                let denied = denial(role, guest, takes(&resolve, function, "image")).await;
                let grant = format!("{interface}.{}", function.name);
                assert!(
                    denied == grant || interface == "bmc-raw" && denied.starts_with("bmc-raw: "),
                    "{grant}: {denied}"
                );
                walked += 1;
            }
        }
    }
    assert!(walked >= 50, "{walked}");
}

/// What the guest's one host call is answered: it must be `denied`.
async fn denial(role: runtime::Role, guest: Vec<u8>, with_image: bool) -> String {
    let world = world();
    let grant = match with_image {
        true => r#"{"image":{"functions":["build-floppy"]}}"#,
        false => "{}",
    };
    let plugin = runtime::PluginConfig {
        role,
        component: runtime::ComponentSource::Bytes {
            name: "walk.wasm".to_owned(),
            bytes: guest.into(),
        },
        grant: grants(grant),
        ..hostile("")
    };
    let runtime = with_plugins(&world, vec![plugin]).await.unwrap();
    let context = context(node(model::ProvisionState::Deploying));
    let error = match role {
        runtime::Role::Vendor => runtime
            .vendor_call(&context, "m", "{}")
            .await
            .unwrap()
            .result
            .unwrap_err(),
        _ => {
            let url = model::Secret::new("http://192.0.2.9/x.iso");
            let called = runtime.attach(&context, model::Device::Cdrom, &url).await;
            called.result.unwrap_err()
        }
    };
    let asked = world.asked();
    assert!(
        asked.trim().lines().all(|line| line.starts_with("image.build-floppy")),
        "{asked}"
    );
    match error {
        runtime::CallError::Answered(runtime::DriverError::Denied(what)) => what,
        other => panic!("{other:?}"),
    }
}

/// The interfaces of the contract that a world imports, by their short names, with their functions.
fn interfaces(resolve: &Resolve, world: WorldId) -> Vec<(String, Vec<wit_parser::Function>)> {
    let imports = resolve.worlds[world].imports.values();
    imports
        .filter_map(|item| match item {
            wit_parser::WorldItem::Interface { id, .. } => {
                let interface = &resolve.interfaces[*id];
                let functions = interface.functions.values().cloned().collect();
                Some((interface.name.clone().unwrap(), functions))
            }
            _ => None,
        })
        .collect()
}

/// Whether a function borrows a handle of this resource.
fn takes(resolve: &Resolve, function: &wit_parser::Function, resource: &str) -> bool {
    function
        .params
        .iter()
        .any(|param| handle(resolve, &param.ty).as_deref() == Some(resource))
}

fn handle(resolve: &Resolve, ty: &wit_parser::Type) -> Option<String> {
    let wit_parser::Type::Id(id) = ty else {
        return None;
    };
    match &resolve.types[*id].kind {
        wit_parser::TypeDefKind::Handle(wit_parser::Handle::Borrow(resource)) => resolve.types[*resource].name.clone(),
        _ => None,
    }
}

fn flat(resolve: &Resolve, ty: &wit_parser::Type) -> Vec<wit_parser::abi::WasmType> {
    let mut storage = [wit_parser::abi::WasmType::I32; 32];
    let mut types = wit_parser::abi::FlatTypes::new(&mut storage);
    assert!(resolve.push_flat(ty, &mut types));
    types.to_vec()
}

fn core(ty: wit_parser::abi::WasmType) -> &'static str {
    use wit_parser::abi::WasmType;
    match ty {
        WasmType::I32 | WasmType::Pointer | WasmType::Length => "i32",
        WasmType::I64 | WasmType::PointerOrI64 => "i64",
        WasmType::F32 => "f32",
        WasmType::F64 => "f64",
    }
}

/// A plugin whose `attach` (or `call`) makes one host call, all its arguments zero but the handles, and hands its error on.
fn caller(
    resolve: &Resolve,
    world: WorldId,
    role: runtime::Role,
    interface: &str,
    function: &wit_parser::Function,
) -> Vec<u8> {
    use std::fmt::Write as _;
    use wit_parser::abi::AbiVariant;
    const PACKAGE: &str = "farrier:driver";
    const RESULT: usize = 1024;
    let mut sizes = wit_parser::SizeAlign::default();
    sizes.fill(resolve);
    let mut text = String::from("(module\n");
    let import = |text: &mut String, interface: &str, function: &wit_parser::Function, name: &str| {
        let signature = resolve.wasm_signature(AbiVariant::GuestImport, function);
        assert!(signature.retptr && signature.results.is_empty(), "{}", function.name);
        let params: Vec<_> = signature.params.iter().map(|ty| core(*ty)).collect();
        let params = params.join(" ");
        let own = &function.name;
        writeln!(
            text,
            "(import \"{PACKAGE}/{interface}@0.1.0\" \"{own}\" (func ${name} (param {params})))"
        )
        .unwrap();
    };
    import(&mut text, interface, function, "f");
    let all = interfaces(resolve, world);
    let build = all.iter().find(|(name, _)| name == "image").unwrap();
    let build = build.1.iter().find(|function| function.name == "build-floppy").unwrap();
    let with_image = takes(resolve, function, "image");
    if with_image {
        import(&mut text, "image", build, "build");
        text +=
            &format!("(import \"{PACKAGE}/image@0.1.0\" \"[resource-drop]image\" (func $drop_image (param i32)))\n");
    }
    let drop = |resource: &str, interface: &str| {
        format!(
            "(import \"{PACKAGE}/{interface}@0.1.0\" \"[resource-drop]{resource}\" (func $drop_{resource} (param i32)))\n"
        )
    };
    text += &drop("node", "inventory");
    let with_location = role == runtime::Role::Vmedia;
    if with_location {
        text += &drop("location", "storage");
    }
    text += "(memory (export \"memory\") 1)\n(global $next (mut i32) (i32.const 8192))\n
        (func (export \"cabi_realloc\") (param i32 i32 i32 i32) (result i32)
            (global.get $next)
            (global.set $next (i32.add (global.get $next) (i32.and (i32.add (local.get 3) (i32.const 7)) (i32.const -8)))))\n";

    // The arguments, flat or as one record in memory; the node is always the first of them where there is one.
    let arguments = |function: &wit_parser::Function| -> String {
        let signature = resolve.wasm_signature(AbiVariant::GuestImport, function);
        if signature.indirect_params {
            return format!("(i32.const 4096) (i32.const {RESULT})");
        }
        let mut arguments = String::new();
        for param in &function.params {
            match handle(resolve, &param.ty).as_deref() {
                Some("node") => arguments += "(local.get 0) ",
                Some("location") => arguments += "(local.get 2) ",
                Some("image") => arguments += "(local.get $image) ",
                _ => {
                    for ty in flat(resolve, &param.ty) {
                        write!(arguments, "({}.const 0) ", core(ty)).unwrap();
                    }
                }
            }
        }
        format!("{arguments}(i32.const {RESULT})")
    };
    let payload = |function: &wit_parser::Function| -> usize {
        let Some(wit_parser::Type::Id(id)) = function.result else {
            panic!("{} has no result", function.name)
        };
        let wit_parser::TypeDefKind::Result(result) = &resolve.types[id].kind else {
            panic!("{} has no result", function.name)
        };
        let cases = [result.ok.as_ref(), result.err.as_ref()];
        RESULT + sizes.payload_offset(wit_parser::Int::U8, cases).size_wasm32()
    };
    let exported = match role {
        runtime::Role::Vendor => "call",
        _ => "attach",
    };
    let wit_parser::WorldItem::Interface { id, .. } = resolve.worlds[world].exports.values().next().unwrap() else {
        panic!("a role is an interface")
    };
    for export in resolve.interfaces[*id].functions.values() {
        let signature = resolve.wasm_signature(AbiVariant::GuestExport, export);
        let params: Vec<_> = signature.params.iter().map(|ty| core(*ty)).collect();
        let name = format!("{PACKAGE}/{role}@0.1.0#{}", export.name);
        let params = params.join(" ");
        if export.name != exported {
            writeln!(
                text,
                "(func (export \"{name}\") (param {params}) (result i32) unreachable)"
            )
            .unwrap();
            continue;
        }
        writeln!(
            text,
            "(func (export \"{name}\") (param {params}) (result i32) (local $image i32)"
        )
        .unwrap();
        text += "(i32.store (i32.const 4096) (local.get 0))\n";
        if with_image {
            writeln!(text, "(call $build {})", arguments(build)).unwrap();
            writeln!(text, "(local.set $image (i32.load (i32.const {})))", payload(build)).unwrap();
        }
        writeln!(text, "(call $f {})", arguments(function)).unwrap();
        if with_image {
            text += "(call $drop_image (local.get $image))\n";
        }
        text += "(call $drop_node (local.get 0))\n";
        if with_location {
            text += "(call $drop_location (local.get 2))\n";
        }
        // `error` has at most 40 bytes in memory; what is copied behind it is never looked at.
        writeln!(
            text,
            "(i32.store8 (i32.const 2048) (i32.load8_u (i32.const {RESULT})))
             (memory.copy (i32.const 2052) (i32.const {}) (i32.const 64)) (i32.const 2048))",
            payload(function)
        )
        .unwrap();
    }
    text += ")";
    component(resolve, world, wat::parse_str(&text).unwrap())
}

/// The released versions, each a folder of `wit/released`.
fn released() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = std::fs::read_dir(wit().join("released"))
        .unwrap()
        .map(|folder| folder.unwrap().path())
        .collect();
    folders.sort();
    folders
}

/// Whether a plugin that was built against the `old` files runs on a host that offers the `new` ones, changed by `edit`.
fn compatible(old: &Path, new: &Path, edit: impl Fn(&str, String) -> String) -> Result<(), String> {
    let temp = tempfile::tempdir().unwrap();
    let copy = |from: &Path, to: &Path, edit: &dyn Fn(&str, String) -> String| {
        std::fs::create_dir(to).unwrap();
        for file in std::fs::read_dir(from).unwrap().map(|file| file.unwrap().path()) {
            let name = file.file_name().unwrap().to_str().unwrap().to_owned();
            if name.ends_with(".wit") {
                let text = std::fs::read_to_string(&file).unwrap();
                std::fs::write(to.join(&name), edit(&name, text)).unwrap();
            }
        }
    };
    // Two packages of one name and version have no place beside each other; the comparison does not look at versions.
    let before = |_: &str, text: String| text.replace("package farrier:driver@0.1.0;", "package farrier:driver@0.0.1;");
    copy(old, &temp.path().join("old"), &before);
    copy(new, &temp.path().join("new"), &edit);
    let mut resolve = Resolve::default();
    let (old, _) = resolve
        .push_dir(temp.path().join("old"))
        .map_err(|error| format!("{error:#}"))?;
    let (new, _) = resolve
        .push_dir(temp.path().join("new"))
        .map_err(|error| format!("{error:#}"))?;
    let present = worlds(&resolve, new);
    for (name, world) in worlds(&resolve, old) {
        let (_, now) = present
            .iter()
            .find(|(own, _)| *own == name)
            .ok_or_else(|| format!("the world {name} is gone"))?;
        wit_component::semver_check(resolve.clone(), world, *now).map_err(|error| format!("{name}: {error:#}"))?;
    }
    Ok(())
}

#[test]
fn what_runs_on_a_released_version_runs_on_the_present_one() {
    let released = released();
    assert!(!released.is_empty());
    for folder in released {
        compatible(&folder, &wit(), |_, text| text).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    }
}

#[test]
fn only_what_breaks_no_plugin_counts_as_compatible() {
    let check = |file: &'static str, from: &'static str, to: &'static str| {
        compatible(&released()[0], &wit(), move |name, text| {
            if name != file {
                return text;
            }
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text, "{from}");
            changed
        })
    };
    let eject = "  eject: func(node: borrow<node>, device: device) -> result<_, error>;\n";
    let more = "  eject: func(node: borrow<node>, device: device) -> result<_, error>;\n  nmi: func(node: borrow<node>) -> result<_, error>;\n";
    assert_eq!(
        check("bmc.wit", eject, more),
        Ok(()),
        "a function of an imported interface may be added"
    );
    assert!(check("bmc.wit", eject, "").is_err(), "no function may go");
    let named = "message: string,";
    assert!(
        check("types.wit", named, "message: string, hint: string,").is_err(),
        "no record may grow"
    );
    assert!(
        check(
            "types.wit",
            "enum device { floppy, cdrom }",
            "enum device { floppy, cdrom, usb }"
        )
        .is_err()
    );
    let export = "  methods: func() -> list<method>;\n";
    let grown = "  methods: func() -> list<method>;\n  health: func() -> string;\n";
    assert!(
        check("vendor.wit", export, grown).is_err(),
        "what plugins export must not grow"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_was_compiled_against_a_released_version_still_runs() {
    let frozen = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/frozen");
    for folder in released() {
        let version = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let component = std::fs::read(frozen.join(format!("vmedia-{version}.wasm")))
            .unwrap_or_else(|error| panic!("each released version has a compiled plugin here; {version}: {error}"));
        let world = world();
        let plugin = runtime::PluginConfig {
            component: runtime::ComponentSource::Bytes {
                name: "frozen".to_owned(),
                bytes: component.into(),
            },
            ..hostile("each")
        };
        let runtime = with_plugins(&world, vec![plugin]).await.unwrap();
        let context = context(node(model::ProvisionState::Deploying));
        let called = runtime.prepare_ramdisk(&context, &[]).await;
        // It calls every function that can fail, once, and tells what each answered.
        let Err(runtime::CallError::Answered(runtime::DriverError::Invalid(said))) = called.result else {
            panic!("{:?}", called.result)
        };
        assert_eq!(said.lines().count(), 20, "{said}");
        assert!(
            said.contains("bmc.eject: ok") && said.contains("vmedia-service.detach: ok"),
            "{said}"
        );
        assert!(!said.to_lowercase().contains("denied(\"bmc"), "{said}");
    }
}

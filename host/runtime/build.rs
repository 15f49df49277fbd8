//! Compiles the built-in policies to components, so that a plain `cargo build` of the host embeds them.
//!
//! The guests have a target folder of their own (cargo locks the outer one) and a clean environment: neither clippy's
//! wrapper nor the outer build's flags may leak into them.

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

const GUESTS: [&str; 3] = ["backend-selection", "vmedia", "take-over"];
const TARGET: &str = "wasm32-unknown-unknown";

fn main() -> Result<(), Box<dyn Error>> {
    let manifest_dir = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let workspace = manifest_dir.join("../..").canonicalize()?;
    let out_dir = PathBuf::from(env::var("OUT_DIR")?);
    let guests = guests_dir(&out_dir)?;
    watch(&workspace);

    let mut build = Command::new(env::var("CARGO")?);
    build
        .current_dir(&workspace)
        .args(["build", "--quiet", "--profile", "guest", "--target", TARGET])
        .arg("--target-dir")
        .arg(&guests);
    for guest in GUESTS {
        build.args(["--package", guest]);
    }
    clean_environment(&mut build);
    let status = build
        .status()
        .map_err(|error| format!("could not start cargo for the guests: {error}"))?;
    if !status.success() {
        return Err(format!(
            "the built-in policies did not compile for {TARGET} ({status}); if the target is missing, \
             `rustup target add {TARGET}` installs it"
        )
        .into());
    }
    for guest in GUESTS {
        let file = format!("{}.wasm", guest.replace('-', "_"));
        let built = guests.join(TARGET).join("guest").join(&file);
        std::fs::copy(&built, out_dir.join(&file))
            .map_err(|error| format!("{} is not there after its build: {error}", built.display()))?;
    }
    Ok(())
}

/// `<target folder>/guests`: `OUT_DIR` is `<target folder>/<profile>/build/<package>/out`.
fn guests_dir(out_dir: &Path) -> Result<PathBuf, String> {
    let target = out_dir.ancestors().nth(4);
    target
        .map(|target| target.join("guests"))
        .ok_or_else(|| format!("{} is not a build script's output folder", out_dir.display()))
}

fn watch(workspace: &Path) {
    let mut paths = vec![
        "wit".to_owned(),
        "Cargo.lock".to_owned(),
        "rust-toolchain.toml".to_owned(),
    ];
    for guest in GUESTS {
        paths.push(format!("plugins/{guest}/src"));
        paths.push(format!("plugins/{guest}/Cargo.toml"));
    }
    for path in paths {
        println!("cargo::rerun-if-changed={}", workspace.join(path).display());
    }
}

/// What cargo, clippy and the user set for the outer build stays out of the inner one.
fn clean_environment(build: &mut Command) {
    // Where cargo keeps its downloads and how it may reach the network hold for both builds.
    let shared = [
        "CARGO_HOME",
        "CARGO_HTTP_",
        "CARGO_NET_",
        "CARGO_REGISTRIES_",
        "CARGO_SOURCE_",
    ];
    for (name, _) in env::vars_os() {
        let Some(text) = name.to_str() else { continue };
        let outer = text.starts_with("CARGO") || text.starts_with("CLIPPY") || text.starts_with("DEP_");
        if outer && !shared.iter().any(|prefix| text.starts_with(prefix)) {
            build.env_remove(&name);
        }
    }
    for name in [
        "RUSTC",
        "RUSTDOC",
        "RUSTFLAGS",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
        "OUT_DIR",
        "TARGET",
        "HOST",
        "PROFILE",
        "OPT_LEVEL",
        "DEBUG",
        "NUM_JOBS",
        "MAKEFLAGS",
        "CARGO_MAKEFLAGS",
    ] {
        build.env_remove(name);
    }
    // It makes a component of a module at once, and is part of the toolchain.
    build.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", "wasm-component-ld");
}

//! Measures what the design promises, next to the tools that do the same: `cargo bench -p image --bench budgets`.
//!
//! Each of our figures is the median of many runs; ours and the tools' take turns on the same files in one run. Needs
//! Debian's dosfstools, mtools, xorriso, isolinux and syslinux-common. Writing images into files is in `materialise.rs`.

#![expect(clippy::print_stdout, reason = "a bench prints")]
#![expect(clippy::expect_used, reason = "a bench that cannot go on has failed")]

mod process;

use std::fs::{self, File};
use std::hint::black_box;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use image::{
    BootFile, BootIsoSpec, Content, EspSpec, Extent, Firmware, FloppySpec, IsoPatch, Kind, Layout, NoSources, Recipe,
    SourceFile, boot_iso, esp, floppy, patch_iso,
};
use model::Sha256;
use process::Ran;

const ISOLINUX: &str = "/usr/lib/ISOLINUX/isolinux.bin";
const LDLINUX: &str = "/usr/lib/syslinux/modules/bios/ldlinux.c32";
const KERNEL: u64 = 12 << 20;
const RAMDISK: u64 = 512 << 20;
/// Says to a process of this program that it is to make one boot ISO of what lies in this folder, and end.
const MAKE_ONE: &str = "FARRIER_BENCH_MAKE_ONE";

fn main() {
    if let Some(folder) = std::env::var_os(MAKE_ONE) {
        black_box(boot_spec_of(Path::new(&folder)).digest());
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    println!("floppy with parameters, 1.44 MB");
    floppies(folder.path());
    println!("boot ISO, ramdisk of 512 MiB known by its digest, ready to serve");
    isos(folder.path());
    println!("parts of them");
    parts();
}

fn parameters() -> Vec<(String, String)> {
    vec![
        ("ipa-api-url".into(), "http://192.0.2.1:6385".into()),
        ("ipa-agent-token".into(), "t".repeat(43)),
        ("boot_method".into(), "vmedia".into()),
    ]
}

fn floppies(folder: &Path) {
    let spec = FloppySpec {
        parameters: parameters(),
        ..FloppySpec::default()
    };
    let out = folder.join("ours.img");
    let ready = median(2000, || floppy(&spec).expect("the spec is right").digest());
    let written = median(200, || {
        let file = File::create(&out).expect("a file");
        let layout = floppy(&spec).expect("the spec is right");
        layout.fill(&NoSources, &file, &mut |_| ()).expect("room")
    });
    let text: String = parameters()
        .iter()
        .map(|(key, value)| format!("{key}={value}\n"))
        .collect();
    let (input, theirs) = (folder.join("parameters.txt"), folder.join("theirs.img"));
    fs::write(&input, text).expect("room");
    let (input, image) = (input.display(), theirs.display());
    let mut runs: Vec<Ran> = (0..15)
        .map(|_| {
            let _ = fs::remove_file(&theirs);
            let made = process::run(&format!("mkfs.vfat -n ir-vfd-dev -C {image} 1440"));
            made.and(process::run(&format!("mcopy -i {image} {input} ::parameters.txt")))
        })
        .collect();
    let theirs = process::median(&mut runs);
    println!("  farrier, ready to serve: {ready:?}");
    println!("  farrier, in a file: {written:?}");
    println!("  mkfs.vfat and mcopy: {theirs}");
    let (ready, written) = (ratio(theirs.time, ready), ratio(theirs.time, written));
    println!("  {ready:.0} times faster ready to serve, {written:.0} times in a file (promised: 100)");
}

fn isos(folder: &Path) {
    let input = folder.join("input");
    fs::create_dir_all(input.join("isolinux")).expect("a folder");
    for (name, len) in [("vmlinuz", KERNEL), ("initrd", RAMDISK)] {
        noise(&input.join(name), len);
    }
    fs::copy(ISOLINUX, input.join("isolinux/isolinux.bin")).expect("Debian package isolinux");
    fs::copy(LDLINUX, input.join("isolinux/ldlinux.c32")).expect("Debian package syslinux-common");
    let efi = File::create(input.join("efi.img")).expect("a file");
    let made = esp(&EspSpec { files: efi_binaries() }).expect("the spec is right");
    made.write_to(&NoSources, &efi).expect("room");

    let spec = boot_spec(&input);
    let ready = median(1000, || boot_iso(&spec).expect("the spec is right").digest());
    let layout = boot_iso(&spec).expect("the spec is right");
    let literal: u64 = layout
        .extents()
        .iter()
        .filter(|extent| matches!(extent, Extent::Literal(_)))
        .map(Extent::len)
        .sum();
    let own = std::env::current_exe().expect("a path");
    let line = own.display().to_string();
    let mut ours: Vec<Ran> = (0..15)
        .map(|_| process::run_with(&line, &[(MAKE_ONE, &input)]))
        .collect();
    let ours = process::median(&mut ours);
    let out = folder.join("theirs.iso");
    let line = format!(
        "xorriso -as mkisofs -quiet -R -J -b isolinux/isolinux.bin -c boot.cat -no-emul-boot -boot-load-size 4 \
         -boot-info-table -eltorito-alt-boot -e efi.img -no-emul-boot -o {} {}",
        out.display(),
        input.display()
    );
    let mut theirs: Vec<Ran> = (0..5)
        .map(|_| {
            let _ = fs::remove_file(&out);
            process::run(&line)
        })
        .collect();
    let theirs = process::median(&mut theirs);
    println!(
        "  farrier, in a conductor that runs: {ready:?} (promised: 5 ms), {literal} bytes literal, no source read"
    );
    println!("  farrier, a process of its own: {ours}");
    println!("  xorriso -as mkisofs: {theirs}");
    println!(
        "  {:.0} times faster; as processes {:.0} times, with {:.0} % of the memory and {:.2} % of the bytes moved",
        ratio(theirs.time, ready),
        ratio(theirs.time, ours.time),
        100.0 * ours.memory as f64 / theirs.memory as f64,
        100.0 * (ours.read + ours.written) as f64 / (theirs.read + theirs.written) as f64,
    );
}

fn parts() {
    let source = |byte, len| SourceFile {
        sha256: Sha256([byte; 32]),
        len,
    };
    let mut spec = BootIsoSpec::new(source(1, KERNEL), source(2, RAMDISK), Firmware::Both);
    let isolinux = Bytes::from(fs::read(ISOLINUX).expect("Debian package isolinux"));
    spec.ldlinux = Some(source(4, 120_000).into());
    spec.parameters = parameters();
    spec.isolinux = Some(isolinux.into());
    let binaries = efi_binaries();
    let made = || {
        esp(&EspSpec {
            files: binaries.clone(),
        })
        .expect("the spec is right")
    };
    show("ESP of two EFI binaries", 5000, 200, || made().digest());
    spec.esp = Some(made().into());
    show(
        "boot ISO with boot loaders as literals (4 MB hashed)",
        5000,
        200,
        || boot_iso(&spec).expect("the spec is right").digest(),
    );
    spec.hybrid = Some(image::Hybrid::default());
    show("the same, hybrid", 5000, 200, || {
        boot_iso(&spec).expect("the spec is right").digest()
    });

    let layout = boot_iso(&spec).expect("the spec is right");
    let references = layout
        .sources()
        .into_iter()
        .map(|sha256| (sha256, "x".to_owned()))
        .collect();
    let json = Recipe::of(&layout, &references)
        .expect("references")
        .to_json()
        .expect("small");
    show("replaying its recipe", 20_000, 50, || {
        Recipe::from_json(&json)
            .expect("a recipe")
            .layout()
            .expect("the same")
            .digest()
    });
    let patch = IsoPatch {
        parameters: vec![("added".to_owned(), "1".to_owned())],
        ..IsoPatch::default()
    };
    show("adding a parameter to its three configurations", 5000, 200, || {
        patch_iso(&layout, &NoSources, &patch).expect("an ISO").layout.digest()
    });
    let floppy = floppy(&FloppySpec::default()).expect("the spec is right");
    let mut buffer = vec![0; 64 * 1024];
    show("reading 64 KiB of a floppy", 50, 2000, || {
        floppy.read_at(&NoSources, 0, &mut buffer).expect("in range");
        buffer[510]
    });
}

fn efi_binaries() -> Vec<(String, Content)> {
    vec![
        ("EFI/BOOT/BOOTX64.EFI".into(), Bytes::from(vec![0x5A; 950_000]).into()),
        ("EFI/BOOT/grubx64.efi".into(), Bytes::from(vec![0xA5; 2_600_000]).into()),
    ]
}

/// Boot loaders by their bytes, kernel, ramdisk and ESP by their digests, as a conductor has them cached.
fn boot_spec(input: &Path) -> BootIsoSpec {
    let source = |byte, name: &str| SourceFile {
        sha256: Sha256([byte; 32]),
        len: fs::metadata(input.join(name)).expect("an input").len(),
    };
    let mut spec = BootIsoSpec::new(source(1, "vmlinuz"), source(2, "initrd"), Firmware::Both);
    spec.isolinux = Some(BootFile {
        bytes: fs::read(input.join("isolinux/isolinux.bin")).expect("an input").into(),
        kept_as: Some(Sha256([3; 32])),
    });
    spec.ldlinux = Some(source(4, "isolinux/ldlinux.c32").into());
    spec.esp = Some(source(5, "efi.img").into());
    spec.parameters = parameters();
    spec
}

fn boot_spec_of(input: &Path) -> Layout {
    let layout = boot_iso(&boot_spec(input)).expect("the spec is right");
    assert_eq!(layout.kind(), Kind::BootIso);
    layout
}

fn noise(at: &Path, len: u64) {
    let mut file = File::create(at).expect("a file");
    let mut state = len | 1;
    let mut block = vec![0u8; 1 << 20];
    for _ in 0..len >> 20 {
        for word in block.chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        file.write_all(&block).expect("room");
    }
    file.sync_all().expect("room");
}

fn show<T>(what: &str, budget_micros: u64, runs: usize, work: impl FnMut() -> T) {
    let budget = Duration::from_micros(budget_micros);
    println!("  {what}: {:?}, budget {budget:?}", median(runs, work));
}

fn median<T>(runs: usize, mut work: impl FnMut() -> T) -> Duration {
    let mut times: Vec<Duration> = (0..runs)
        .map(|_| {
            let start = Instant::now();
            black_box(work());
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

fn ratio(theirs: Duration, ours: Duration) -> f64 {
    theirs.as_secs_f64() / ours.as_secs_f64()
}

//! Writes a boot ISO with a ramdisk of 512 MiB beside its sources, next to `cp`, xorriso and genisoimage on the same file
//! system in the same run: `cargo bench -p image --bench materialise`, with names of file systems behind `--` for these
//! alone.
//!
//! All take turns, since memory that was never used is slow on a virtual machine and whoever comes first would pay for it;
//! each figure is the best and the median of seven rounds after a first one. The other tools do not wait for the disk, so
//! they are compared with both of our times: until all is written, and until it is on the disk.
//!
//! The file systems are made in files and mounted where only this program sees them. Needs root, loop devices, and Debian's
//! xfsprogs, btrfs-progs, e2fsprogs, xorriso, genisoimage and isolinux.

#![expect(clippy::print_stdout, reason = "a bench prints")]
#![expect(clippy::expect_used, reason = "a bench that cannot go on has failed")]

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use image::{
    BootFile, BootIsoSpec, Content, EspSpec, FileSource, Firmware, Layout, NoSources, SourceFile, SourceMap, Written,
    boot_iso, esp,
};
use model::Sha256;

const FOLDER: &str = "FARRIER_BENCH_FOLDER";
const KIND: &str = "FARRIER_BENCH_KIND";
const RUNS: usize = 7;
const RAMDISK: usize = 512 << 20;
const ISOLINUX: &str = "/usr/lib/ISOLINUX/isolinux.bin";
const LDLINUX: &str = "/usr/lib/syslinux/modules/bios/ldlinux.c32";

/// How each file system is made, and what is promised on it.
const KINDS: [(&str, &str); 3] = [
    ("xfs", "mkfs.xfs -q -m reflink=1"),
    ("btrfs", "mkfs.btrfs -q"),
    ("ext4", "mkfs.ext4 -q -F"),
];

fn main() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return measure(
            &PathBuf::from(folder),
            &std::env::var(KIND).expect("set with the folder"),
        );
    }
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let is_asked = |kind: &str| asked.iter().any(|asked| asked == kind);
    let all = !KINDS.iter().any(|(kind, _)| is_asked(kind));
    for (kind, make) in KINDS.into_iter().filter(|(kind, _)| all || is_asked(kind)) {
        let folder = tempfile::tempdir().expect("a folder");
        let script = format!(
            "PATH=$PATH:/usr/sbin:/sbin
             {{ disk=$(mktemp) && trap 'rm -f $disk' EXIT && truncate -s 5G $disk && {make} $disk &&
                mount -o loop $disk {folder}; }} || {{ echo \"cannot make and mount {kind}: run this as root\"; exit 1; }}
             \"$0\"",
            folder = folder.path().display()
        );
        let status = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", &script])
            .arg(std::env::current_exe().expect("a path"))
            .env(FOLDER, folder.path())
            .env(KIND, kind)
            .status()
            .expect("unshare (Debian package util-linux)");
        assert!(status.success(), "the bench on {kind} failed");
    }
}

fn measure(folder: &Path, kind: &str) {
    let input = folder.join("input");
    fs::create_dir(&input).expect("a folder");
    fs::create_dir(input.join("isolinux")).expect("a folder");
    let mut sources = SourceMap::default();
    let kernel = source(&mut sources, &input.join("vmlinuz"), 1, 12 << 20);
    let ramdisk = source(&mut sources, &input.join("initrd"), 2, RAMDISK);
    let read = |path: &str| Bytes::from(fs::read(path).expect("Debian packages isolinux and syslinux-common"));
    let (isolinux, ldlinux) = (read(ISOLINUX), read(LDLINUX));
    let loader = vec![(
        "EFI/BOOT/BOOTX64.EFI".to_owned(),
        Content::from(Bytes::from(vec![0x5A; 2_600_000])),
    )];
    let esp = esp(&EspSpec { files: loader }).expect("an ESP");
    let efi = File::create(input.join("efi.img")).expect("a file");
    esp.write_to(&NoSources, &efi).expect("room");
    fs::copy(ISOLINUX, input.join("isolinux/isolinux.bin")).expect("room");
    fs::copy(LDLINUX, input.join("isolinux/ldlinux.c32")).expect("room");
    rustix::fs::sync();
    let layout = || -> Layout {
        let mut spec = BootIsoSpec::new(kernel, ramdisk, Firmware::Both);
        spec.isolinux = Some(BootFile::from(isolinux.clone()));
        spec.ldlinux = Some(ldlinux.clone().into());
        spec.esp = Some(esp.clone().into());
        boot_iso(&spec).expect("an ISO")
    };
    let size = layout().size();
    println!("boot ISO of {} MiB on {kind}", size >> 20);

    let out = folder.join("out.iso");
    let make = |waits: bool| {
        let layout = layout();
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&out)
            .expect("a file");
        let written = match waits {
            true => layout.write_to(&sources, &file),
            false => layout.fill(&sources, &file, &mut |_| ()),
        };
        written.expect("room")
    };
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let (input, out_text) = (text(&input), text(&out));
    let boot = "-R -J -b isolinux/isolinux.bin -c boot.cat -no-emul-boot -boot-load-size 4 -boot-info-table -eltorito-alt-boot \
                -e efi.img -no-emul-boot";
    let commands = [
        (
            "xorriso",
            format!("xorriso -as mkisofs -quiet {boot} -o {out_text} {input}"),
        ),
        (
            "genisoimage",
            format!("genisoimage -quiet {boot} -o {out_text} {input}"),
        ),
        (
            "cp of the ramdisk",
            format!("cp --reflink=never {input}/initrd {out_text}"),
        ),
        (
            "cp --reflink=auto",
            format!("cp --reflink=auto {input}/initrd {out_text}"),
        ),
    ];
    let mut written = Written::default();
    let mut times = vec![Vec::new(); 2 + commands.len()];
    let mut memory = vec![0; commands.len()];
    for round in 0..=RUNS {
        for (index, times) in times.iter_mut().enumerate() {
            let _ = fs::remove_file(&out);
            rustix::fs::sync();
            let start = Instant::now();
            match index {
                0 | 1 => written = make(index == 0),
                _ => memory[index - 2] = run(&commands[index - 2].1).max(memory[index - 2]),
            }
            if round > 0 {
                times.push(start.elapsed());
            }
        }
    }
    let figures: Vec<[f64; 2]> = times
        .into_iter()
        .map(|mut times| {
            times.sort_unstable();
            [times[0], times[RUNS / 2]].map(|time| time.as_secs_f64() * 1000.0)
        })
        .collect();
    let [on_disk, written_only] = [figures[0], figures[1]];
    let both = |[best, median]: [f64; 2]| format!("best {best:.1} ms, median {median:.1} ms");
    println!("  farrier, until it is on the disk: {}", both(on_disk));
    println!("  farrier, until it is written:     {}", both(written_only));
    println!(
        "    {} MiB shared, {} MiB copied, {} KiB written, {} KiB holes; peak memory {} MiB",
        written.cloned >> 20,
        written.copied >> 20,
        written.written >> 10,
        written.holes >> 10,
        peak("self") >> 10,
    );
    for (((name, _), theirs), memory) in commands.iter().zip(&figures[2..]).zip(memory) {
        println!(
            "  {name}: {}; medians {:.1} times ours until written, {:.1} times ours on the disk; peak memory {} MiB",
            both(*theirs),
            theirs[1] / written_only[1],
            theirs[1] / on_disk[1],
            memory >> 10
        );
    }
    match kind {
        "ext4" => println!("  promised: written in at most half of xorriso's time"),
        _ => println!("  promised: on the disk in at most 20 ms"),
    }
}

/// A source of that length in a file, in the page cache and on the disk.
fn source(sources: &mut SourceMap, at: &Path, seed: u8, len: usize) -> SourceFile {
    const BLOCK: usize = 1 << 20;
    let mut file = File::create(at).expect("a file");
    let mut state = u64::from(seed);
    for _ in 0..len / BLOCK {
        let block: Vec<u8> = std::iter::repeat_with(|| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state.to_be_bytes()
        })
        .take(BLOCK / 8)
        .flatten()
        .collect();
        file.write_all(&block).expect("room");
    }
    let sha256 = Sha256([seed; 32]);
    sources.insert(sha256, Arc::new(FileSource::open(at).expect("the file")));
    SourceFile {
        sha256,
        len: len as u64,
    }
}

/// Runs a command line; its peak memory in KiB.
fn run(command: &str) -> u64 {
    let mut words = command.split_whitespace();
    let mut child = Command::new(words.next().expect("a program"))
        .args(words)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("{command}: {error}; the Debian packages are named above"));
    let mut memory = 0;
    loop {
        memory = memory.max(peak(&child.id().to_string()));
        match child.try_wait().expect("a child") {
            Some(status) => {
                assert!(status.success(), "{command}: {status}");
                return memory;
            }
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// What a process has had in memory at most, in KiB.
fn peak(process: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or(0)
}

//! Measures what the design promises: `cargo bench -p image`. Each line is the median of many runs.

#![expect(clippy::print_stdout, reason = "a bench prints")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use image::{
    BootFile, BootIsoSpec, Content, EspSpec, Firmware, FloppySpec, NoSources, SourceFile, boot_iso, esp, floppy,
};
use model::Sha256;

fn main() {
    let floppy_spec = FloppySpec {
        parameters: vec![
            ("ipa-api-url".into(), "http://192.0.2.1:6385".into()),
            ("ipa-agent-token".into(), "t".repeat(43)),
            ("boot_method".into(), "vmedia".into()),
        ],
        ..FloppySpec::default()
    };
    measure(
        "floppy, 1.44 MB, with its digest",
        Duration::from_micros(280),
        2000,
        || floppy(&floppy_spec).expect("the spec is right").digest(),
    );

    let source = |byte, len| SourceFile {
        sha256: Sha256([byte; 32]),
        len,
    };
    let mut spec = BootIsoSpec::new(source(1, 12 << 20), source(2, 512 << 20), Firmware::Both);
    let mut isolinux = vec![0x90; 40_960];
    isolinux[100..108].copy_from_slice(b"ISOLINUX");
    let isolinux = Bytes::from(isolinux);
    let efi: Vec<(String, Content)> = vec![
        ("EFI/BOOT/BOOTX64.EFI".into(), Bytes::from(vec![0x5A; 950_000]).into()),
        ("EFI/BOOT/grubx64.efi".into(), Bytes::from(vec![0xA5; 2_600_000]).into()),
    ];
    spec.ldlinux = Some(source(4, 120_000).into());
    spec.parameters = floppy_spec.parameters.clone();
    let budget = Duration::from_millis(5);

    spec.isolinux = Some(BootFile {
        bytes: isolinux.clone(),
        kept_as: Some(Sha256([3; 32])),
    });
    spec.esp = Some(source(5, 4 << 20).into());
    measure("boot ISO, 512 MiB ramdisk, boot loaders cached", budget, 1000, || {
        boot_iso(&spec).expect("the spec is right").digest()
    });

    spec.isolinux = Some(isolinux.into());
    spec.esp = Some(esp(&EspSpec { files: efi.clone() }).expect("the spec is right").into());
    measure("the same, boot loaders as literals (4 MB hashed)", budget, 200, || {
        boot_iso(&spec).expect("the spec is right").digest()
    });
    measure("ESP of two EFI binaries", budget, 200, || {
        esp(&EspSpec { files: efi.clone() })
            .expect("the spec is right")
            .digest()
    });

    let layout = floppy(&floppy_spec).expect("the spec is right");
    let mut buffer = vec![0; 64 * 1024];
    measure("reading 64 KiB of a floppy", Duration::from_micros(50), 2000, || {
        layout.read_at(&NoSources, 0, &mut buffer).expect("in range");
        buffer[510]
    });
}

fn measure<T>(what: &str, budget: Duration, runs: u32, mut work: impl FnMut() -> T) {
    let mut times: Vec<Duration> = (0..runs)
        .map(|_| {
            let start = Instant::now();
            black_box(work());
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    let median = times[times.len() / 2];
    let worst = times[times.len() * 99 / 100];
    println!("{what}: median {median:?}, p99 {worst:?}, budget {budget:?}");
}

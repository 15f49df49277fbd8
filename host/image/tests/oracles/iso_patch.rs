//! Patched ISOs that genisoimage, xorriso and we made, read back by xorriso and isoinfo.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use image::{
    Content, Extent, FileSource, IsoPatch, Kind, Layout, LayoutSource, PatchedHow, PatchedIso, Recipe, Source as _,
    SourceFile, SourceMap, patch_iso,
};

use crate::{Written, efi_binaries, pattern, run, run_bytes, sha256, write};

/// An ISO on disk as a layout that refers to it whole.
struct Base {
    layout: Layout,
    sources: SourceMap,
    bytes: Bytes,
}

fn base(iso: &Path) -> Base {
    let bytes = Bytes::from(fs::read(iso).unwrap());
    let mut sources = SourceMap::default();
    sources.insert(sha256(&bytes), Arc::new(FileSource::open(iso).unwrap()));
    let whole = Extent::Source {
        sha256: sha256(&bytes),
        offset: 0,
        len: bytes.len() as u64,
    };
    Base {
        layout: Layout::from_extents(Kind::Other, vec![whole]).unwrap(),
        sources,
        bytes,
    }
}

const ISOLINUX: &str = "default live\nlabel live\n  kernel /boot/vmlinuz\n  append initrd=/boot/initrd quiet\n";
const GRUB: &str = "menuentry 'Live' {\n  linux /boot/vmlinuz quiet\n  initrd /boot/initrd\n}\n";

/// A folder of a live system.
fn folder(dir: &Path) -> std::path::PathBuf {
    let root = dir.join("root");
    let esp = write(
        &image::esp(&image::EspSpec {
            files: [
                efi_binaries(),
                vec![("EFI/fedora/grub.cfg".to_owned(), Bytes::from(GRUB).into())],
            ]
            .concat(),
        })
        .unwrap(),
        &SourceMap::default(),
    );
    for (path, content) in [
        ("boot/vmlinuz", pattern(1, 300_000)),
        ("boot/initrd", pattern(2, 900_001)),
        ("boot/efi.img", fs::read(esp.path()).unwrap().into()),
        ("boot/grub/grub.cfg", Bytes::from(GRUB)),
        ("images/ignition.img", Bytes::from(vec![0; 262_144])),
        ("isolinux/isolinux.cfg", Bytes::from(ISOLINUX)),
        (
            "isolinux/isolinux.bin",
            fs::read("/usr/lib/ISOLINUX/isolinux.bin").unwrap().into(),
        ),
        ("docs/readme.txt", Bytes::from_static(b"read me\n")),
    ] {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
    }
    // Two names of one content, of which one is patched.
    fs::hard_link(root.join("docs/readme.txt"), root.join("docs/same.txt")).unwrap();
    for i in 0..40 {
        fs::write(
            root.join(format!("docs/a rather long name that fills directories {i}.txt")),
            format!("{i}"),
        )
        .unwrap();
    }
    root
}

const BOOT: [&str; 14] = [
    "-b",
    "isolinux/isolinux.bin",
    "-c",
    "boot/boot.cat",
    "-no-emul-boot",
    "-boot-load-size",
    "4",
    "-boot-info-table",
    "-eltorito-alt-boot",
    "-e",
    "boot/efi.img",
    "-no-emul-boot",
    "-V",
    "LIVE",
];

/// The same tree by different makers.
fn bases(dir: &Path) -> Vec<(&'static str, Base)> {
    let root = folder(dir);
    let root = root.to_str().unwrap();
    let out = dir.join("image.iso");
    let out = out.to_str().unwrap();
    let mut bases = Vec::new();
    let gen_boot: Vec<&str> = BOOT
        .iter()
        .map(|word| if *word == "-e" { "-b" } else { *word })
        .collect();
    run(
        "genisoimage",
        "genisoimage",
        &[
            &["-quiet", "-R", "-J", "-cache-inodes"][..],
            &gen_boot,
            &["-o", out, root],
        ]
        .concat(),
    );
    bases.push(("genisoimage", base(out.as_ref())));
    let hybrid = ["-isohybrid-mbr", "/usr/lib/ISOLINUX/isohdpfx.bin"];
    let xorriso = ["-as", "mkisofs", "-quiet", "-R", "-J", "-o", out];
    for (maker, first, last) in [
        ("xorriso", &[][..], &[][..]),
        ("xorriso without Joliet", &["-R"], &[]),
        ("xorriso as isohybrid", &hybrid, &["-isohybrid-gpt-basdat"]),
        (
            "xorriso with an appended ESP and a GPT",
            &hybrid,
            &["-appended_part_as_gpt", "-append_partition", "2", "0xef", "ESP"],
        ),
    ] {
        fs::remove_file(out).unwrap();
        let esp = format!("{root}/boot/efi.img");
        let last: Vec<&str> = last
            .iter()
            .map(|word| if *word == "ESP" { esp.as_str() } else { *word })
            .collect();
        let start: Vec<&str> = if maker.contains("without Joliet") {
            xorriso.iter().copied().filter(|word| *word != "-J").collect()
        } else {
            xorriso.to_vec()
        };
        let first = if maker.contains("without Joliet") {
            &[][..]
        } else {
            first
        };
        run(
            "xorriso",
            "xorriso",
            &[&start, first, &BOOT[..], &last, &[root]].concat(),
        );
        bases.push((maker, base(out.as_ref())));
    }
    bases
}

fn long_text() -> Bytes {
    pattern(77, 50_000)
}

fn patch() -> IsoPatch {
    IsoPatch {
        files: vec![
            (
                "docs/readme.txt".to_owned(),
                Bytes::from_static(b"read this instead\n").into(),
            ),
            ("boot/initrd".to_owned(), pattern(3, 950_000).into()),
            (
                "ignition/a/b/config.ign".to_owned(),
                Bytes::from_static(b"{\"ignition\": {}}\n").into(),
            ),
            ("docs/a new one.txt".to_owned(), long_text().into()),
        ],
        embed: vec![("images/ignition.img".to_owned(), Bytes::from_static(b"embedded").into())],
        parameters: vec![("ipa-api-url".to_owned(), "http://[2001:db8::1]:6385".to_owned())],
        kernel_arguments: "console=ttyS0,115200".to_owned(),
    }
}

fn extract(image: &Written, path: &str, tree: &str) -> Vec<u8> {
    let out = image.path.with_extension("out");
    let _ = fs::remove_file(&out);
    let line = [
        "-osirrox",
        "on",
        "-read_fs",
        tree,
        "-indev",
        image.path(),
        "-extract",
        path,
        out.to_str().unwrap(),
    ];
    run("xorriso", "xorriso", &line);
    fs::read(out).unwrap()
}

fn all_files(image: &Written, tree: &str) -> BTreeMap<String, Vec<u8>> {
    let out = tempfile::tempdir().unwrap();
    let to = out.path().join("tree");
    let line = [
        "-osirrox",
        "on",
        "-read_fs",
        tree,
        "-indev",
        image.path(),
        "-extract",
        "/",
        to.to_str().unwrap(),
    ];
    run("xorriso", "xorriso", &line);
    run("coreutils", "chmod", &["-R", "u+w", to.to_str().unwrap()]);
    let found = run(
        "findutils",
        "find",
        &[to.to_str().unwrap(), "-type", "f", "-printf", "%P\\n"],
    );
    found
        .lines()
        .map(|path| (path.to_owned(), fs::read(to.join(path)).unwrap()))
        .collect()
}

/// What the files should be after the patch.
fn expected(before: BTreeMap<String, Vec<u8>>) -> BTreeMap<String, Vec<u8>> {
    let mut files = before;
    for (path, content) in patch().files {
        let Content::Literal(bytes) = content else {
            panic!("{path} is a literal")
        };
        files.insert(path, bytes.to_vec());
    }
    let words = "ipa-api-url=http://[2001:db8::1]:6385 console=ttyS0,115200";
    let grub = "'ipa-api-url=http://[2001:db8::1]:6385' console=ttyS0,115200";
    files.insert(
        "isolinux/isolinux.cfg".to_owned(),
        ISOLINUX.replace(" quiet", &format!(" quiet {words}")).into(),
    );
    files.insert(
        "boot/grub/grub.cfg".to_owned(),
        GRUB.replace(" quiet", &format!(" quiet {grub}")).into(),
    );
    let embed = files.get_mut("images/ignition.img").unwrap();
    embed[..8].copy_from_slice(b"embedded");
    files
}

fn how(patched: &PatchedIso, path: &str) -> PatchedHow {
    patched
        .files
        .iter()
        .find(|file| file.path == path)
        .unwrap_or_else(|| panic!("{path}: {:?}", patched.files))
        .how
}

#[test]
fn xorriso_and_isoinfo_read_back_every_file_of_a_patched_image() {
    let dir = tempfile::tempdir().unwrap();
    for (maker, base) in bases(dir.path()) {
        let trees: &[&str] = if maker.contains("without Joliet") {
            &["nojoliet"]
        } else {
            &["nojoliet", "norock"]
        };
        let before = write(&base.layout, &base.sources);
        let patched =
            patch_iso(&base.layout, &base.sources, &patch()).unwrap_or_else(|error| panic!("{maker}: {error}"));
        // One of two names of a content gets content of its own.
        assert_eq!(how(&patched, "docs/readme.txt"), PatchedHow::Moved, "{maker}");
        assert_eq!(how(&patched, "boot/initrd"), PatchedHow::Moved, "{maker}");
        assert_eq!(how(&patched, "isolinux/isolinux.cfg"), PatchedHow::InPlace, "{maker}");
        assert_eq!(how(&patched, "EFI/fedora/grub.cfg"), PatchedHow::InEsp, "{maker}");
        let image = write(&patched.layout, &base.sources);
        for tree in trees {
            let expected = expected(all_files(&before, tree));
            let found = all_files(&image, tree);
            let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
            assert_eq!(names(&found), names(&expected), "{maker} {tree}");
            for (path, bytes) in &expected {
                let is_esp = path == "boot/efi.img";
                assert!(is_esp || found[path] == *bytes, "{maker} {tree}: {path}");
            }
        }
        assert!(
            extract(&image, "/boot/vmlinuz", "any") == pattern(1, 300_000),
            "{maker}"
        );
        // Another reader, which goes by path tables and directories of its own.
        let content = run_bytes(
            "genisoimage",
            "isoinfo",
            &["-R", "-i", image.path(), "-x", "/docs/a new one.txt"],
        );
        assert!(content == long_text(), "{maker}");
        let listed = run("genisoimage", "isoinfo", &["-R", "-l", "-i", image.path()]);
        assert!(
            listed.contains("config.ign") && listed.contains("/ignition/a/b"),
            "{maker}: {listed}"
        );
        if trees.len() == 2 {
            let content = run_bytes(
                "genisoimage",
                "isoinfo",
                &["-J", "-i", image.path(), "-x", "/ignition/a/b/config.ign;1"],
            );
            assert_eq!(content, b"{\"ignition\": {}}\n", "{maker}");
        }
        check_boot(maker, &before, &image);
        check_references(&base, &patched, &image);
    }
}

/// Boot entries are where they were, and the ESP is a clean volume with the parameters.
fn check_boot(maker: &str, before: &Written, image: &Written) {
    let report = |image: &Written| {
        let line = ["-indev", image.path(), "-report_el_torito", "plain"];
        let report = run("xorriso", "xorriso", &line);
        let lines = report.lines().filter(|line| line.starts_with("El Torito"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(report(before), report(image), "{maker}");
    let esp = image.path.with_extension("esp");
    fs::write(&esp, extract(image, "/boot/efi.img", "any")).unwrap();
    let esp = esp.to_str().unwrap();
    let checked = run("dosfstools", "fsck.vfat", &["-n", esp]);
    assert!(
        !checked.contains("differ") && !checked.contains("Dirty"),
        "{maker}: {checked}"
    );
    let config = run("mtools", "mtype", &["-i", esp, "::EFI/fedora/grub.cfg"]);
    assert!(
        config.contains("quiet 'ipa-api-url=http://[2001:db8::1]:6385' console=ttyS0,115200\n"),
        "{maker}: {config}"
    );
    let config = image.path.with_extension("cfg");
    fs::write(&config, extract(image, "/boot/grub/grub.cfg", "any")).unwrap();
    run("grub-common", "grub-script-check", &[config.to_str().unwrap()]);
    if maker.contains("GPT") {
        let verified = run("gdisk", "sgdisk", &["-v", image.path()]);
        assert!(verified.contains("No problems found"), "{maker}: {verified}");
    }
    if maker.contains("isohybrid") {
        let sector = &fs::read(image.path()).unwrap()[446..462];
        let count = u32::from_le_bytes(sector[12..16].try_into().unwrap());
        assert_eq!(
            u64::from(count) * 512,
            fs::metadata(image.path()).unwrap().len(),
            "{maker}"
        );
    }
}

/// The image is made of the base and of what is new; its recipe makes it again; ranges of it are the file.
fn check_references(base: &Base, patched: &PatchedIso, image: &Written) {
    let layout = &patched.layout;
    let literal: u64 = layout
        .extents()
        .iter()
        .filter(|extent| matches!(extent, Extent::Literal(_)))
        .map(Extent::len)
        .sum();
    // The new files, a few directories, and the sectors that were patched.
    assert!(literal < 950_000 + 50_000 + 60_000, "{literal}");
    let references = BTreeMap::from([(sha256(&base.bytes), "https://192.0.2.1/live.iso".to_owned())]);
    let json = Recipe::of(layout, &references).unwrap().to_json().unwrap();
    assert_eq!(&Recipe::from_json(&json).unwrap().layout().unwrap(), layout);
    let whole = fs::read(image.path()).unwrap();
    let source = LayoutSource::new(layout, &base.sources);
    for (at, len) in [
        (0u64, 100),
        (32_768, 2048),
        (1_000_001, 300_000),
        (source.len() - 5000, 5000),
    ] {
        let mut part = vec![0; len];
        source.read_at(at, &mut part).unwrap();
        let at = usize::try_from(at).unwrap();
        assert!(part == whole[at..at + len], "{at}");
    }
}

#[test]
fn an_image_of_plain_names_is_patched_too() {
    let dir = tempfile::tempdir().unwrap();
    let root = folder(dir.path());
    let out = dir.path().join("image.iso");
    let line = [
        "-quiet",
        "-iso-level",
        "3",
        "-o",
        out.to_str().unwrap(),
        root.to_str().unwrap(),
    ];
    run("genisoimage", "genisoimage", &line);
    let base = base(&out);
    let patch = IsoPatch {
        files: vec![
            ("boot/initrd".to_owned(), pattern(3, 950_000).into()),
            ("ignition/config.ign".to_owned(), long_text().into()),
        ],
        kernel_arguments: "a=1".to_owned(),
        ..IsoPatch::default()
    };
    let patched = patch_iso(&base.layout, &base.sources, &patch).unwrap();
    let image = write(&patched.layout, &base.sources);
    let read = |path: &str| run_bytes("genisoimage", "isoinfo", &["-i", image.path(), "-x", path]);
    assert!(read("/BOOT/INITRD.;1") == pattern(3, 950_000));
    assert!(read("/IGNITION/CONFIG.IGN;1") == long_text());
    assert!(read("/BOOT/VMLINUZ.;1") == pattern(1, 300_000));
    assert!(
        String::from_utf8(read("/ISOLINUX/ISOLINUX.CFG;1"))
            .unwrap()
            .contains("quiet a=1\n")
    );
}

#[test]
fn a_change_in_place_is_the_file_with_those_bytes_changed_by_hand() {
    let dir = tempfile::tempdir().unwrap();
    for (maker, base) in bases(dir.path()) {
        let new = pattern(9, 900_001);
        let source = SourceFile {
            sha256: sha256(&new),
            len: new.len() as u64,
        };
        let mut sources = base.sources.clone();
        sources.insert(source.sha256, Arc::new(image::MemorySource(new.clone())));
        let patch = IsoPatch {
            files: vec![("boot/initrd".to_owned(), source.into())],
            ..IsoPatch::default()
        };
        let patched = patch_iso(&base.layout, &base.sources, &patch).unwrap();
        // Its place as it was found by looking for the bytes, without reading a directory.
        let old = pattern(2, 900_001);
        let at = base.bytes.windows(64).position(|window| *window == old[..64]).unwrap();
        let mut by_hand = base.bytes.to_vec();
        by_hand[at..at + new.len()].copy_from_slice(&new);
        let image = write(&patched.layout, &sources);
        assert!(fs::read(image.path()).unwrap() == by_hand, "{maker}");
        assert_eq!(patched.layout.sources().len(), 2, "{maker}");
    }
}

#[test]
fn a_rescue_image_of_grub_is_patched_and_stays_the_disk_that_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    fs::create_dir_all(root.join("boot/grub")).unwrap();
    fs::write(root.join("boot/grub/grub.cfg"), GRUB).unwrap();
    fs::write(root.join("boot/vmlinuz"), pattern(1, 300_000)).unwrap();
    let out = dir.path().join("image.iso");
    run(
        "grub-common",
        "grub-mkrescue",
        &["-o", out.to_str().unwrap(), root.to_str().unwrap()],
    );
    let base = base(&out);
    let before = write(&base.layout, &base.sources);
    let patch = IsoPatch {
        files: vec![("config/big.img".to_owned(), pattern(5, 3_000_000).into())],
        kernel_arguments: "added=1".to_owned(),
        ..IsoPatch::default()
    };
    let patched = patch_iso(&base.layout, &base.sources, &patch).unwrap();
    let image = write(&patched.layout, &base.sources);
    let verified = run("gdisk", "sgdisk", &["-v", image.path()]);
    let verified_before = run("gdisk", "sgdisk", &["-v", before.path()]);
    assert_eq!(
        verified.contains("No problems found"),
        verified_before.contains("No problems found"),
        "{verified}"
    );
    let found = all_files(&image, "any");
    let mut expected = all_files(&before, "any");
    expected.insert("config/big.img".to_owned(), pattern(5, 3_000_000).to_vec());
    expected.insert(
        "boot/grub/grub.cfg".to_owned(),
        GRUB.replace("quiet", "quiet added=1").into(),
    );
    assert!(found == expected);
    let system = |image: &Written| {
        let report = run(
            "xorriso",
            "xorriso",
            &["-indev", image.path(), "-report_system_area", "plain"],
        );
        let lines = report.lines().filter(|line| line.starts_with("System area summary"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(system(&image), system(&before));
}

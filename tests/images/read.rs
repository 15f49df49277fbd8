//! `farrier image inspect | ls | cat | extract` on images that other tools made.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::run::{Folder, farrier, make, tool, words};
use crate::share::{files, foreign_fat, foreign_iso, pattern};

fn json(line: &str) -> Value {
    let ran = farrier(words(line).into_iter().chain(["-o", "json"]));
    assert_eq!(ran.code, Some(0), "{line}: {}", ran.stderr);
    assert_eq!(ran.stderr, "", "{line}");
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{line}: {error}: {}", ran.stdout))
}

fn paths(listing: &Value) -> BTreeSet<String> {
    let entries = listing.as_array().unwrap().iter();
    entries
        .map(|entry| entry["path"].as_str().unwrap().to_owned())
        .collect()
}

fn cat(image: &str, path: &str) -> Vec<u8> {
    let output = Command::new(env!("CARGO_BIN_EXE_farrier"))
        .args(["image", "cat", image, path])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Each file by `cat`, and all of them by `extract`.
fn assert_holds_the_files(folder: &Folder, image: &str) {
    for (path, content) in files() {
        assert!(cat(image, path) == content, "{path} of {image}");
    }
    let to = folder.at("extracted");
    let told = json(&format!("image extract {image} --to {to}"));
    assert_eq!(told["files"], 4, "{told}");
    let sum: usize = files().iter().map(|(_, content)| content.len()).sum();
    assert_eq!(told["size"], sum, "{told}");
    let moved: u64 = ["cloned", "copied", "written"]
        .iter()
        .map(|how| told[*how].as_u64().unwrap())
        .sum();
    assert_eq!(moved, sum as u64, "{told}");
    for (path, content) in files() {
        assert!(
            fs::read(Path::new(&to).join(path)).unwrap() == content,
            "{path} of {image}"
        );
    }
    assert!(Path::new(&to).join("hollow").is_dir());
    fs::remove_dir_all(to).unwrap();
}

#[test]
fn fat_volumes_of_every_type_by_mkfs_are_told_listed_and_taken_apart() {
    let folder = Folder::new();
    for (bits, kilobytes) in [("12", "1440"), ("16", "20480"), ("32", "70000")] {
        let image = foreign_fat(&folder, bits, kilobytes);
        let told = json(&format!("image inspect {image}"));
        assert_eq!(told["format"], format!("FAT{bits}"), "{told}");
        assert_eq!(
            (&told["label"], &told["uuid"], &told["files"], &told["folders"]),
            (&"FOREIGN".into(), &"1234-5678".into(), &4.into(), &4.into()),
            "{told}"
        );
        assert_eq!(told["size"], kilobytes.parse::<u64>().unwrap() * 1024);
        // With spaces between the thousands.
        let mdir = tool("mtools", "mdir", &["-i", &image, "::"]);
        let line = mdir.lines().find(|line| line.contains("bytes free")).unwrap();
        let free: String = line.chars().filter(char::is_ascii_digit).collect();
        assert_eq!(told["free"].to_string(), free, "{mdir}");
        let all = paths(&json(&format!("image ls -R {image}")));
        let wanted = files().into_iter().map(|(path, _)| path.to_owned());
        let folders = ["boot", "boot/deep", "boot/deep/er", "hollow"].map(str::to_owned);
        // Some tools write `empty` as it is, others as an 8.3 name that has no case.
        assert_eq!(all, wanted.chain(folders).collect(), "FAT{bits}");
        assert_holds_the_files(&folder, &image);
    }
}

#[test]
fn isos_by_xorriso_are_told_listed_and_taken_apart_by_every_sort_of_names() {
    let folder = Folder::new();
    let image = foreign_iso(&folder, &["-J", "-joliet-long", "-r"]);
    let told = json(&format!("image inspect {image}"));
    assert_eq!(
        (&told["format"], &told["label"]),
        (&"ISO 9660".into(), &"FOREIGN".into()),
        "{told}"
    );
    assert_eq!(told["names"].to_string(), "[\"rock-ridge\",\"joliet\",\"plain\"]");
    assert_eq!(
        (&told["files"], &told["farrier-boot-iso"]),
        (&4.into(), &false.into()),
        "{told}"
    );
    let listing = json(&format!("image ls -R {image}"));
    for (path, content) in files() {
        let entry = listing
            .as_array()
            .unwrap()
            .iter()
            .find(|entry| entry["path"] == path)
            .unwrap();
        assert_eq!(
            (&entry["kind"], &entry["size"]),
            (&"file".into(), &content.len().into())
        );
    }
    let link = listing
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["path"] == "outside")
        .unwrap();
    assert_eq!(
        (&link["kind"], &link["target"]),
        (&"link".into(), &"/etc/passwd".into())
    );
    let joliet = paths(&json(&format!("image ls -R --names joliet {image}")));
    assert!(joliet.contains("boot/A longer name than 8.3.bin"), "{joliet:?}");
    let plain = paths(&json(&format!("image ls -R --names plain {image}")));
    assert!(
        plain.iter().any(|path| path.eq_ignore_ascii_case("readme.txt")),
        "{plain:?}"
    );
    assert!(plain.iter().all(|path| !path.contains(' ')), "{plain:?}");
}

#[test]
fn links_that_stay_inside_are_extracted_and_those_that_lead_out_are_named_and_left_out() {
    let folder = Folder::new();
    let image = foreign_iso(&folder, &[]);
    let to = folder.at("out");
    let ran = farrier(["image", "extract", &image, "--to", &to, "-o", "json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let told: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&told["links"], &told["files"]), (&1.into(), &4.into()), "{told}");
    assert_eq!(fs::read_to_string(format!("{to}/boot/inside")).unwrap(), "hello\n");
    for link in ["outside", "up"] {
        assert!(fs::symlink_metadata(format!("{to}/{link}")).is_err(), "{link}");
        assert!(ran.stderr.contains(&format!("{link:?}")), "{}", ran.stderr);
        assert!(told["left-out"].to_string().contains(link), "{told}");
    }
    for (path, content) in files() {
        assert!(fs::read(Path::new(&to).join(path)).unwrap() == content, "{path}");
    }
}

#[test]
fn a_part_of_an_image_is_extracted_under_its_paths_and_programs_stay_programs() {
    let folder = Folder::new();
    let image = foreign_iso(&folder, &[]);
    let to = folder.at("out");
    fs::create_dir(&to).unwrap();
    fs::write(format!("{to}/mine"), "stays").unwrap();
    let told = json(&format!("image extract {image} boot/deep readme.txt --to {to}"));
    assert_eq!((&told["files"], &told["folders"]), (&2.into(), &2.into()), "{told}");
    let mut names: Vec<_> = fs::read_dir(&to)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["boot", "mine", "readme.txt"]);
    assert!(fs::read(format!("{to}/boot/deep/er/file")).unwrap() == pattern(2, 5000));

    let program = folder.write("program", "#!/bin/sh\n");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    let other = folder.at("program.iso");
    tool(
        "xorriso",
        "xorriso",
        &["-as", "mkisofs", "-quiet", "-R", "-o", &other, &program],
    );
    json(&format!("image extract {other} --to {to}"));
    let mode = fs::metadata(format!("{to}/program")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7111, 0o111 & mode, "runs, and as nobody else: {mode:o}");
    assert_ne!(mode & 0o100, 0, "{mode:o}");
}

#[test]
fn folders_of_an_image_are_listed_one_by_one_or_with_all_below() {
    let folder = Folder::new();
    let image = foreign_fat(&folder, "16", "20480");
    let list = |more: &str| {
        paths(&json(&format!("image ls {image} {more}")))
            .into_iter()
            .collect::<Vec<_>>()
    };
    assert_eq!(list(""), ["boot", "empty", "hollow", "readme.txt"]);
    assert_eq!(list("/boot/"), ["boot/A longer name than 8.3.bin", "boot/deep"]);
    assert_eq!(list("-R boot/deep"), ["boot/deep/er", "boot/deep/er/file"]);
    assert_eq!(list("BOOT/DEEP/ER/FILE"), ["boot/deep/er/file"]);
    assert_eq!(list("hollow"), [""; 0]);
    let text = farrier(["image", "ls", &image]);
    assert_eq!(text.code, Some(0));
    let lines: Vec<&str> = text.stdout.lines().collect();
    assert!(
        lines[0].starts_with('d') && lines[0].ends_with(" boot/"),
        "{}",
        text.stdout
    );
    assert!(
        lines[3].starts_with('-') && lines[3].ends_with(" readme.txt"),
        "{}",
        text.stdout
    );
}

#[test]
fn what_lies_inside_an_image_in_an_image_is_reached() {
    let folder = Folder::new();
    let inner = foreign_fat(&folder, "12", "1440");
    let held = folder.at("held");
    fs::create_dir_all(format!("{held}/images")).unwrap();
    fs::rename(&inner, format!("{held}/images/floppy.img")).unwrap();
    let outer = folder.at("outer.iso");
    tool(
        "xorriso",
        "xorriso",
        &["-as", "mkisofs", "-quiet", "-R", "-o", &outer, &held],
    );
    let listing = json(&format!("image ls {outer} --inside /images/floppy.img"));
    assert_eq!(
        paths(&listing).into_iter().collect::<Vec<_>>(),
        ["boot", "empty", "hollow", "readme.txt"]
    );
    let told = json(&format!("image inspect {outer} --inside images/floppy.img"));
    assert_eq!((&told["format"], &told["size"]), (&"FAT12".into(), &1_474_560.into()));
    let ran = farrier(["image", "cat", &outer, "--inside", "images/floppy.img", "readme.txt"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "hello\n"), "{}", ran.stderr);
}

/// By the boot catalogue of an ISO, and by the partition table of a hybrid one and of a disk.
#[test]
fn an_efi_system_partition_is_found_wherever_it_lies() {
    let folder = Folder::new();
    let loader = folder.write("BOOTX64.EFI", "MZ loader");
    let esp = folder.at("esp.img");
    make(&format!("image esp --efi {loader} -o {esp}"));
    let content = |image: &str, how: &[&str]| {
        let args = ["image", "cat", image]
            .into_iter()
            .chain(how.iter().copied())
            .chain(["EFI/BOOT/BOOTX64.EFI"]);
        let ran = farrier(args);
        assert_eq!(ran.code, Some(0), "{image}: {}", ran.stderr);
        ran.stdout
    };
    assert_eq!(content(&esp, &["--esp"]), "MZ loader");

    let held = folder.at("held");
    fs::create_dir(&held).unwrap();
    fs::copy(&esp, format!("{held}/efi.img")).unwrap();
    let iso = folder.at("boot.iso");
    let boot = [
        "-as",
        "mkisofs",
        "-quiet",
        "-R",
        "-e",
        "efi.img",
        "-no-emul-boot",
        "-o",
        &iso,
        &held,
    ];
    tool("xorriso", "xorriso", &boot);
    assert_eq!(content(&iso, &["--esp"]), "MZ loader");
    let told = json(&format!("image inspect {iso}"));
    assert_eq!(
        (&told["boot"][0]["platform"], &told["boot"][0]["path"]),
        (&"UEFI".into(), &"efi.img".into()),
        "{told}"
    );

    let hybrid = folder.at("hybrid.iso");
    let boot = [
        "-as",
        "mkisofs",
        "-quiet",
        "-R",
        "-append_partition",
        "2",
        "0xef",
        &esp,
        "-appended_part_as_gpt",
        "-e",
        "--interval:appended_partition_2:all::",
        "-no-emul-boot",
        "-o",
        &hybrid,
        &held,
    ];
    tool("xorriso", "xorriso", &boot);
    assert_eq!(content(&hybrid, &["--esp"]), "MZ loader");
    assert_eq!(content(&hybrid, &["--partition", "2"]), "MZ loader");

    let disk = folder.at("disk.img");
    let size = fs::metadata(&esp).unwrap().len();
    fs::write(
        &disk,
        [vec![0; 1 << 20], fs::read(&esp).unwrap(), vec![0; 1 << 20]].concat(),
    )
    .unwrap();
    let script = format!("label: gpt\nstart=2048, size={}, type=U, name=esp\n", size / 512);
    let table = folder.write("table", script);
    tool("fdisk", "sh", &["-c", &format!("sfdisk -q {disk} < {table}")]);
    assert_eq!(content(&disk, &["--esp"]), "MZ loader");
    assert_eq!(content(&disk, &["--partition", "1"]), "MZ loader");
    let told = json(&format!("image inspect {disk}"));
    assert_eq!(
        (&told["format"], &told["partitions"]["gpt"][0]["name"]),
        (&"disk".into(), &"esp".into()),
        "{told}"
    );
    let ran = farrier(["image", "ls", &disk]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains("a disk with partitions") && ran.stderr.contains("--partition"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_large_image_is_read_by_ranges_and_never_whole() {
    let folder = Folder::new();
    let image = folder.at("sparse.img");
    make(&format!("image floppy --size {} --param k=v -o {image}", 8u64 << 30));
    assert!(std::os::unix::fs::MetadataExt::blocks(&fs::metadata(&image).unwrap()) * 512 < 64 << 20);
    // Memory for a small part of it is all there is.
    let script = format!(
        "ulimit -v 2000000; {0} image cat {image} parameters.txt && {0} image ls {image}",
        env!("CARGO_BIN_EXE_farrier")
    );
    let started = std::time::Instant::now();
    let text = tool("dash", "sh", &["-c", &script]);
    assert!(text.starts_with("k=v\n") && text.contains("parameters.txt"), "{text}");
    assert!(
        started.elapsed() < std::time::Duration::from_secs(60),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn what_an_image_holds_does_not_command_a_terminal() {
    let folder = Folder::new();
    let file = folder.write("file", "plain \u{1b}[2Jtext");
    let image = folder.at("f.img");
    make(&format!("image floppy --file {file}:file -o {image}"));
    let line = format!("{} image cat {image} file", env!("CARGO_BIN_EXE_farrier"));
    let terminal = tool("bsdutils", "script", &["-qec", &line, "/dev/null"]);
    assert!(terminal.contains("plain \u{fffd}[2Jtext"), "{terminal:?}");
    let piped = farrier(["image", "cat", &image, "file"]);
    assert_eq!(piped.stdout, "plain \u{1b}[2Jtext");
}

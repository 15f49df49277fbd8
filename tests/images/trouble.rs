//! What the reading commands cannot use: each says what, where and what to do, ends with the right code, and leaves nothing
//! behind.

use std::fs;
use std::process::Command;

use crate::run::{Folder, Ran, farrier, make, tool, words};
use crate::share::{files, foreign_fat, foreign_iso, pattern};

const FAILED: Option<i32> = Some(1);
const USAGE: Option<i32> = Some(2);

fn check(ran: &Ran, line: &str, code: Option<i32>, says: &[&str]) {
    assert_eq!(ran.code, code, "{line}: {}", ran.stderr);
    assert_eq!(ran.stdout, "", "{line}");
    assert!(ran.stderr.starts_with("error: "), "{line}: {}", ran.stderr);
    for said in says {
        assert!(ran.stderr.contains(said), "{line}: `{said}` in: {}", ran.stderr);
    }
}

/// Each reading command on something that is no image, and `serve` where it minds.
fn refuse(folder: &Folder, image: &str, says: &[&str], serves: bool) {
    let before = folder.names();
    let to = folder.at("to");
    for line in [
        format!("image inspect {image}"),
        format!("image ls {image}"),
        format!("image cat {image} file"),
        format!("image extract {image} --to {to}"),
    ] {
        check(&farrier(words(&line)), &line, FAILED, says);
    }
    if !serves {
        let line = format!("image serve {image} --listen 127.0.0.1:0 --for 1s");
        check(&farrier(words(&line)), &line, FAILED, &says[..1]);
    }
    assert_eq!(folder.names(), before, "{image}");
}

#[test]
fn what_is_no_image_is_called_what_it_is() {
    let folder = Folder::new();
    let missing = folder.at("missing");
    refuse(&folder, &missing, &[&missing, "name an image that is there"], false);
    let here = folder.path().display().to_string();
    refuse(&folder, &here, &[&here, "is a folder"], false);
    let pipe = folder.at("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    refuse(&folder, &pipe, &[&pipe, "device or a pipe"], false);
    refuse(&folder, "/dev/zero", &["/dev/zero", "device or a pipe"], false);
    let empty = folder.write("empty", "");
    refuse(&folder, &empty, &[&empty, "is empty"], false);
    for (name, content, says) in [
        ("zipped", &b"\x1F\x8B\x08\0rest"[..], "gunzip"),
        ("xz", b"\xFD7zXZ\0rest", "unxz"),
        ("zstd", b"\x28\xB5\x2F\xFDrest", "unzstd"),
        ("qcow2", b"QFI\xFB\0\0\0\x03", "qemu-img convert"),
        ("loader.efi", b"MZ\0\0", "farrier image esp"),
    ] {
        let path = folder.write(name, content);
        refuse(&folder, &path, &[&path, says], false);
    }
    let noise = folder.write("noise", pattern(1, 100_000));
    refuse(&folder, &noise, &[&noise, "neither an ISO nor a FAT volume"], true);
    let short = folder.write("short", "hi");
    refuse(&folder, &short, &[&short, "neither an ISO nor a FAT volume"], true);
}

#[test]
fn images_that_were_cut_short_are_said_to_be() {
    let folder = Folder::new();
    let fat = foreign_fat(&folder, "16", "20480");
    let cut = |path: &str, len: usize| {
        let bytes = fs::read(path).unwrap();
        fs::write(path, &bytes[..len]).unwrap();
    };
    cut(&fat, 10_000_000);
    refuse(&folder, &fat, &[&fat, "cut short", "20971520", "10000000"], true);
    cut(&fat, 200);
    refuse(&folder, &fat, &[&fat, "shorter than a boot sector"], true);
    let iso = foreign_iso(&folder, &["-R"]);
    let len = fs::metadata(&iso).unwrap().len();
    cut(&iso, 33_000);
    refuse(&folder, &iso, &[&iso, "damaged or was cut short"], true);
    fs::remove_file(&iso).unwrap();
    let iso = foreign_iso(&folder, &["-R"]);
    // xorriso pads with 300 KiB; before that lie the files.
    cut(&iso, usize::try_from(len).unwrap() - 320_000);
    let (path, content) = files().remove(2);
    let ran = farrier(["image", "cat", &iso, path]);
    assert!(ran.stderr.contains("was cut short"), "{}", ran.stderr);
    assert!(
        ran.code == FAILED || ran.stdout.len() == content.len(),
        "{}",
        ran.stderr
    );
    let to = folder.at("to");
    let ran = farrier(["image", "extract", &iso, "--to", &to]);
    assert_eq!(ran.code, FAILED, "{}", ran.stderr);
    assert!(
        fs::metadata(format!("{to}/{path}")).is_err(),
        "no part of a file is left"
    );
}

#[test]
fn what_an_image_does_not_hold_is_named() {
    let folder = Folder::new();
    let iso = foreign_iso(&folder, &["-R"]);
    for (line, says) in [
        (
            format!("image cat {iso} nothing"),
            &["\"nothing\"", "farrier image ls"][..],
        ),
        (format!("image cat {iso} boot"), &["\"boot\"", "is a folder"]),
        (
            format!("image cat {iso} outside"),
            &["\"outside\"", "a link", "/etc/passwd"],
        ),
        (format!("image ls {iso} no/such"), &["\"no/such\""]),
        (
            format!("image extract {iso} nothing --to {}", folder.at("to")),
            &["\"nothing\""],
        ),
        (format!("image ls {iso} --esp"), &["nothing that UEFI firmware boots"]),
        (format!("image ls {iso} --partition 1"), &["no partition"]),
        (
            format!("image ls {iso} --inside readme.txt"),
            &["readme.txt", "neither an ISO nor a FAT"],
        ),
        (format!("image ls {iso} --inside boot"), &["is a folder"]),
        (format!("image ls {iso} --names joliet"), &["rock-ridge, plain"]),
    ] {
        check(&farrier(words(&line)), &line, FAILED, says);
    }
    for (line, says) in [
        (format!("image cat {iso}"), "<PATH>"),
        (format!("image extract {iso}"), "--to <FOLDER>"),
        (format!("image ls {iso} --names posix"), "rock-ridge"),
        ("image serve".to_owned(), "<FILE>"),
        (format!("image serve {iso} --for 5"), "90s, 30m or 2h"),
        (format!("image ls {iso} --esp --partition 1"), "cannot be used with"),
    ] {
        check(&farrier(words(&line)), &line, USAGE, &[says]);
    }
}

#[test]
fn files_that_are_in_the_way_of_an_extraction_stay_unless_force_is_given() {
    let folder = Folder::new();
    let iso = foreign_iso(&folder, &["-R"]);
    let to = folder.at("to");
    fs::create_dir_all(format!("{to}/boot/deep/er")).unwrap();
    fs::write(format!("{to}/boot/deep/er/file"), "mine").unwrap();
    let line = format!("image extract {iso} --to {to}");
    check(
        &farrier(words(&line)),
        &line,
        FAILED,
        &["boot/deep/er/file", "is there already", "--force"],
    );
    assert!(
        fs::metadata(format!("{to}/readme.txt")).is_err(),
        "nothing was extracted before"
    );
    let ran = farrier(words(&format!("{line} --force")));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for (path, content) in files() {
        assert!(fs::read(format!("{to}/{path}")).unwrap() == content, "{path}");
    }
    let nowhere = folder.at("no/such/folder");
    let line = format!("image extract {iso} --to {nowhere}");
    check(&farrier(words(&line)), &line, FAILED, &[&nowhere, "--to"]);
    let line = format!("image extract {iso} --to {iso}");
    check(&farrier(words(&line)), &line, FAILED, &[&iso, "--to"]);
}

/// What lies in the folder may be somebody else's trap.
#[test]
fn a_link_in_the_folder_is_not_followed_out_of_it() {
    let folder = Folder::new();
    let iso = foreign_iso(&folder, &["-R"]);
    let (to, precious) = (folder.at("to"), folder.at("precious"));
    fs::create_dir(&to).unwrap();
    fs::create_dir(&precious).unwrap();
    std::os::unix::fs::symlink(&precious, format!("{to}/boot")).unwrap();
    let line = format!("image extract {iso} --force --to {to}");
    check(&farrier(words(&line)), &line, FAILED, &["boot", "in the way"]);
    assert_eq!(fs::read_dir(&precious).unwrap().count(), 0);
    fs::remove_file(format!("{to}/boot")).unwrap();
    let victim = folder.write("victim", "keep");
    std::os::unix::fs::symlink(&victim, format!("{to}/readme.txt")).unwrap();
    assert_eq!(farrier(words(&line)).code, Some(0));
    assert_eq!(fs::read_to_string(&victim).unwrap(), "keep");
    assert_eq!(fs::read_to_string(format!("{to}/readme.txt")).unwrap(), "hello\n");
}

/// Rock Ridge and FAT names of a hostile maker: the same number of bytes, so nothing else has to change.
#[test]
fn an_image_whose_names_lead_elsewhere_writes_nothing() {
    let folder = Folder::new();
    let held = folder.at("held");
    fs::create_dir(&held).unwrap();
    fs::write(format!("{held}/zz"), "evil").unwrap();
    let iso = folder.at("evil.iso");
    tool(
        "xorriso",
        "xorriso",
        &["-as", "mkisofs", "-quiet", "-R", "-o", &iso, &held],
    );
    let fat = folder.at("evil.img");
    let file = folder.write("file", "evil");
    make(&format!("image floppy --file {file}:folder-zz/file -o {fat}"));
    let patched = |path: &str, from: &[u8], to: &[u8]| {
        let mut bytes = fs::read(path).unwrap();
        let places: Vec<usize> = (0..bytes.len() - from.len())
            .filter(|at| bytes[*at..].starts_with(from))
            .collect();
        assert!(!places.is_empty(), "{path}");
        places
            .into_iter()
            .for_each(|at| bytes[at..at + to.len()].copy_from_slice(to));
        fs::write(path, bytes).unwrap();
    };
    patched(&iso, b"NM\x07\x01\0zz", b"NM\x07\x01\0..");
    let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
    // The last four units of the first piece of a long name lie side by side.
    patched(&fat, &utf16("-zz"), &utf16("/.."));
    let to = folder.at("to");
    for image in [&iso, &fat] {
        let ran = farrier(["image", "extract", image, "--to", &to]);
        let out: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert!(!out.iter().any(|name| name == "zz"), "{out:?}");
        if ran.code == Some(0) {
            // The reader went by other names.
            let inside = tool("findutils", "find", &[&to, "-type", "f"]);
            assert!(
                inside.lines().all(|path| path.starts_with(&to) && !path.contains("..")),
                "{inside}"
            );
        }
        assert!(fs::metadata(folder.at("zz")).is_err());
    }
}

#[test]
fn a_full_disk_is_named_and_no_part_of_a_file_is_left() {
    let folder = Folder::new();
    let (file, image) = (folder.write("file", pattern(1, 20_000_000)), folder.at("f.img"));
    make(&format!("image floppy --file {file}:big -o {image}"));
    let disk = folder.at("disk");
    fs::create_dir(&disk).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=4m none {disk} || exit 99
         {} image extract {image} --to {disk}/to; code=$?; find {disk} -type f; exit $code",
        env!("CARGO_BIN_EXE_farrier")
    );
    let output = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", &script])
        .output()
        .unwrap_or_else(|error| panic!("unshare is needed (Debian package util-linux): {error}"));
    let ran = Ran::from(output);
    assert_ne!(
        ran.code,
        Some(99),
        "this machine lets nobody mount a tmpfs: {}",
        ran.stderr
    );
    check(&ran, "extract", FAILED, &["no room", "to/big", "No space left"]);
}

#[test]
fn a_port_that_is_taken_is_named() {
    let folder = Folder::new();
    let image = folder.write("x.img", pattern(1, 1000));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let line = format!("image serve {image} --listen {address}");
    check(&farrier(words(&line)), &line, FAILED, &[&address, "--listen"]);
}

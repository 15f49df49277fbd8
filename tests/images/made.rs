//! What the making commands say and leave behind: their JSON, recipes, folders, blocks shared with their sources.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::run::{Folder, Ran, farrier, make, tool, words};
use crate::share::{files, foreign_iso, pattern, tree};

#[test]
fn json_tells_size_digest_time_and_how_every_byte_came_there() {
    let folder = Folder::new();
    let (file, out) = (folder.write("file", pattern(1, 200_000)), folder.at("f.img"));
    let made = make(&format!("image floppy --param a=b --file {file}:file -o {out}"));
    let keys: Vec<&str> = made.as_object().unwrap().keys().map(String::as_str).collect();
    let mut wanted = [
        "path",
        "recipe",
        "size",
        "digest",
        "milliseconds",
        "cloned",
        "copied",
        "written",
        "holes",
    ];
    wanted.sort_unstable();
    let mut sorted = keys;
    sorted.sort_unstable();
    assert_eq!(sorted, wanted);
    assert_eq!(
        (&made["path"], &made["size"], &made["recipe"]),
        (&out.into(), &1_474_560.into(), &Value::Null)
    );
    assert!(made["digest"].as_str().unwrap().starts_with("sha256:"), "{made}");
    let count = |how: &str| made[how].as_u64().unwrap();
    assert_eq!(
        count("cloned") + count("copied") + count("written") + count("holes"),
        1_474_560,
        "{made}"
    );
    assert!(count("holes") > 1_000_000 && count("milliseconds") < 60_000, "{made}");
    let text = farrier(["image", "floppy", "--force", "-o", made["path"].as_str().unwrap()]);
    assert_eq!(text.code, Some(0));
    assert!(
        text.stdout.contains("1.4 MiB, sha256:") && text.stdout.contains(" written)"),
        "{}",
        text.stdout
    );
}

#[test]
fn a_file_that_is_there_stays_unless_force_is_given() {
    let folder = Folder::new();
    let out = folder.write("f.img", "mine");
    for line in [format!("image floppy -o {out}"), format!("image floppy --recipe {out}")] {
        let ran = farrier(words(&line));
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{line}");
        assert!(
            ran.stderr.contains("is there already") && ran.stderr.contains("--force"),
            "{}",
            ran.stderr
        );
        assert_eq!(
            (fs::read_to_string(&out).unwrap().as_str(), folder.names()),
            ("mine", vec!["f.img".to_owned()])
        );
    }
    make(&format!("image floppy --force -o {out}"));
    assert_eq!(fs::metadata(&out).unwrap().len(), 1_474_560);
    assert_eq!(folder.names(), ["f.img"]);
}

#[test]
fn a_folder_is_taken_with_all_that_lies_in_it() {
    let folder = Folder::new();
    let root = tree(&folder, false);
    let out = folder.at("f.img");
    make(&format!("image floppy --file {root}:data -o {out}"));
    for (path, content) in files() {
        let copy = folder.at("copy");
        tool("mtools", "mcopy", &["-n", "-i", &out, &format!("::data/{path}"), &copy]);
        assert!(fs::read(copy).unwrap() == content, "{path}");
    }
    std::os::unix::fs::symlink("/etc", format!("{root}/etc")).unwrap();
    let ran = farrier(words(&format!("image floppy --force --file {root}:data -o {out}")));
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains("tree/etc") && ran.stderr.contains("link to a folder"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_config_drive_is_fat_or_iso_and_is_found_by_its_label() {
    let folder = Folder::new();
    let meta = folder.write("meta", "{\"uuid\": \"6e3ae9d5\"}");
    let user = folder.write("user", "#cloud-config\n");
    let network = folder.write("network", "{\"links\": []}");
    let line = format!("image config-drive --meta-data {meta} --user-data {user} --network-data {network}");
    for (more, kind) in [("", "vfat"), ("--size 67108864", "vfat"), ("--iso", "iso9660")] {
        let out = folder.at("drive");
        make(&format!("{line} {more} --force -o {out}"));
        let said = tool("util-linux", "blkid", &["-p", "-o", "export", &out]);
        assert!(
            said.contains("LABEL=config-2\n") && said.contains(&format!("TYPE={kind}\n")),
            "{said}"
        );
        for (path, content) in [
            ("meta_data.json", "{\"uuid\": \"6e3ae9d5\"}"),
            ("user_data", "#cloud-config\n"),
        ] {
            let ran = farrier(["image", "cat", &out, &format!("openstack/latest/{path}")]);
            assert_eq!(ran.stdout, content, "{more} {path}: {}", ran.stderr);
        }
    }
    let bad = folder.write("bad", "{\"uuid\": ");
    let ran = farrier(words(&format!(
        "image config-drive --meta-data {bad} -o {}",
        folder.at("x")
    )));
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains("meta_data.json") && ran.stderr.contains("line 1"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_recipe_stands_for_the_image_as_long_as_its_files_stay_what_they_are() {
    let folder = Folder::new();
    let (file, recipe, out) = (
        folder.write("file", pattern(1, 200_000)),
        folder.at("r.json"),
        folder.at("f.img"),
    );
    let line = format!("image floppy --param ipa-agent-token=hunter2 --file {file}:d/file");
    let made = make(&format!("{line} --recipe {recipe}"));
    assert_eq!((&made["path"], &made["recipe"]), (&Value::Null, &recipe.clone().into()));
    let mode = fs::metadata(&recipe).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "it holds a token: {mode:o}");
    let image = make(&format!("{line} -o {out}"));
    assert_eq!(made["digest"], image["digest"]);
    let told = farrier(["image", "inspect", &recipe, "-o", "json"]);
    let told: Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!(
        (&told["recipe"]["digest"], &told["recipe"]["kind"]),
        (&made["digest"], &"floppy".into())
    );
    let ran = farrier(["image", "cat", &recipe, "parameters.txt"]);
    assert_eq!(ran.stdout, "ipa-agent-token=hunter2\n");
    let to = folder.at("to");
    assert_eq!(farrier(["image", "extract", &recipe, "--to", &to]).code, Some(0));
    assert!(fs::read(format!("{to}/d/file")).unwrap() == pattern(1, 200_000));

    fs::write(&file, pattern(2, 200_000)).unwrap();
    let ran = farrier(["image", "ls", &recipe]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains(&file) && ran.stderr.contains("make the image again"),
        "{}",
        ran.stderr
    );
    fs::remove_file(&file).unwrap();
    let ran = farrier(["image", "ls", &recipe]);
    assert!(
        ran.code == Some(1) && ran.stderr.contains(&file) && ran.stderr.contains(&recipe),
        "{}",
        ran.stderr
    );
    let text = fs::read_to_string(&recipe).unwrap();
    fs::write(
        &recipe,
        text.replacen("\"kind\":\"floppy\"", "\"kind\":\"esp\"", 1)
            .replacen("\"size\":1", "\"size\":2", 1),
    )
    .unwrap();
    let ran = farrier(["image", "ls", &recipe]);
    assert!(ran.code == Some(1) && !ran.stderr.contains("hunter2"), "{}", ran.stderr);
    fs::write(&recipe, "{\"hunter2\": 1}").unwrap();
    let ran = farrier(["image", "ls", &recipe]);
    assert!(
        ran.stderr.contains("neither an image nor a recipe") && !ran.stderr.contains("hunter2"),
        "{}",
        ran.stderr
    );
}

#[test]
fn an_iso_of_somebody_elses_gets_new_files_and_stays_as_it_is() {
    let folder = Folder::new();
    let iso = foreign_iso(&folder, &["-R", "-J"]);
    let before = fs::read(&iso).unwrap();
    let (ignition, other) = (
        folder.write("ignition", "{\"ignition\": {}}"),
        folder.write("other", pattern(9, 70_000)),
    );
    let out = folder.at("patched.iso");
    let made = make(&format!(
        "image patch {iso} --file {ignition}:config.ign --file {other}:readme.txt --file {other}:new/folder/file -o {out}"
    ));
    assert!(fs::read(&iso).unwrap() == before);
    let changed = made["changed"].as_array().unwrap().iter();
    let changed: Vec<(&str, &str)> = changed
        .map(|file| (file["path"].as_str().unwrap(), file["how"].as_str().unwrap()))
        .collect();
    assert_eq!(
        changed,
        [
            ("config.ign", "added"),
            ("readme.txt", "at the end"),
            ("new/folder/file", "added")
        ]
    );
    let to = folder.at("to");
    tool(
        "xorriso",
        "xorriso",
        &["-osirrox", "on", "-indev", &out, "-extract", "/", &to],
    );
    assert_eq!(
        fs::read_to_string(format!("{to}/config.ign")).unwrap(),
        "{\"ignition\": {}}"
    );
    for path in ["readme.txt", "new/folder/file"] {
        assert!(
            fs::read(format!("{to}/{path}")).unwrap() == pattern(9, 70_000),
            "{path}"
        );
    }
    for (path, content) in files().into_iter().filter(|(path, _)| *path != "readme.txt") {
        assert!(fs::read(format!("{to}/{path}")).unwrap() == content, "{path}");
    }

    let x = folder.at("x.iso");
    for (line, says) in [
        (
            format!("image patch {iso} --param a=b -o {x}"),
            &[iso.as_str(), "no configuration of isolinux or GRUB"][..],
        ),
        (
            format!("image patch {iso} --file {other}:boot -o {x}"),
            &["\"boot\"", "no file"],
        ),
        (
            format!("image patch {iso} --embed {other}:images/ignition.img -o {x}"),
            &["images/ignition.img", "no file"],
        ),
        (
            format!("image patch {iso} --embed {other}:readme.txt -o {x}"),
            &["readme.txt", "has room for"],
        ),
        (
            format!("image patch {other} --file {iso}:x -o {x}"),
            &[other.as_str(), "no ISO 9660"],
        ),
        (
            format!("image patch {iso} --file {other}:x --force -o {iso}"),
            &[iso.as_str(), "would be replaced"],
        ),
        (
            format!("image patch http://127.0.0.1/x.iso --file {other}:x -o {x}"),
            &["download it"],
        ),
    ] {
        let ran = farrier(words(&line));
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{line}");
        assert!(
            says.iter().all(|said| ran.stderr.contains(said)),
            "{line}: {}",
            ran.stderr
        );
        assert!(fs::metadata(&x).is_err(), "{line}");
    }
    let ran = farrier(words(&format!("image patch {iso} -o {x}")));
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("--param <K=V>"), "{}", ran.stderr);
}

/// Runs a script with a file system of this kind mounted at the folder `at`, where only the script sees it.
fn with_disk(at: &str, make: &str, package: &str, script: &str) -> Ran {
    let script = format!(
        "PATH=$PATH:/usr/sbin:/sbin
         {{ disk=$(mktemp) && trap 'rm -f $disk' EXIT && truncate -s 400M $disk && {make} $disk >&2 && mount -o loop $disk {at}; }} || exit 97
         {script}"
    );
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", &script])
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("unshare is needed (Debian package util-linux): {error}"));
    let ran = Ran::from(output);
    assert_ne!(
        ran.code,
        Some(97),
        "this test mounts a disk in a file: run it as root, where there are loop devices, with the Debian package {package}: {}",
        ran.stderr
    );
    ran
}

#[test]
fn an_image_beside_its_sources_shares_their_blocks_and_so_does_what_is_extracted() {
    let folder = Folder::new();
    let disk = folder.at("disk");
    fs::create_dir(&disk).unwrap();
    let file = folder.write("file", pattern(1, 30_000_001));
    let farrier = env!("CARGO_BIN_EXE_farrier");
    for (make, package) in [
        ("mkfs.xfs -q -m reflink=1", "xfsprogs"),
        ("mkfs.btrfs -q", "btrfs-progs"),
    ] {
        let ran = with_disk(
            &disk,
            make,
            package,
            &format!(
                "set -e; cp {file} {disk}/file; sync
                 {farrier} image floppy --file {disk}/file:file -o {disk}/f.img --format json
                 {farrier} image extract {disk}/f.img file --to {disk}/out -o json
                 cmp {disk}/file {disk}/out/file; ls -A {disk}"
            ),
        );
        assert_eq!(ran.code, Some(0), "{make}: {}", ran.stderr);
        let mut values = serde_json::Deserializer::from_str(&ran.stdout).into_iter::<Value>();
        let made = values.next().unwrap().unwrap();
        let extracted = values.next().unwrap().unwrap();
        let whole_blocks = 30_000_001 / 4096 * 4096;
        assert_eq!(made["cloned"], whole_blocks, "{make}: {made}");
        assert_eq!(extracted["cloned"], whole_blocks, "{make}: {extracted}");
        assert!(
            ran.stdout.ends_with("f.img\nfile\nout\n"),
            "nothing else is left: {}",
            ran.stdout
        );
    }
}

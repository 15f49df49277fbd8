//! Disk images that real tools made: packed, in their formats, and dressed up as something else; and checksum files.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sources::{Checksum, Compression, DiskFormat, GivenChecksum, Look, SourceError, Sources, SourcesConfig};

use crate::server::{Answer, Server, head, header, ok};
use crate::{Site, content, sha256, text};

/// Runs a tool; one that is missing fails the test by its name.
fn run(tool: &str, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new(tool).args(arguments).stderr(Stdio::piped()).output();
    let output = output.unwrap_or_else(|error| panic!("this test needs {tool}: {error}"));
    assert!(
        output.status.success(),
        "{tool} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

fn packed(tool: &str, options: &[&str], path: &str) -> Vec<u8> {
    run(tool, &[options, &["-c", path]].concat())
}

fn qemu_img(site: &Site, name: &str, arguments: &[&str]) -> PathBuf {
    let path = site.files().join(name);
    let mut all = vec!["create", "-q"];
    all.extend(arguments);
    let (path_text, size) = (text(&path), "8M");
    all.extend([path_text.as_str(), size]);
    run("qemu-img", &all);
    path
}

/// Something that looks like a disk and packs neither to nothing nor not at all.
fn disk() -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..2_000_000u32).map(|at| (at / 7 % 253).to_le_bytes()[0]).collect();
    bytes[510..512].copy_from_slice(&[0x55, 0xaa]);
    bytes
}

#[tokio::test]
async fn what_gzip_xz_and_zstd_packed_comes_out_as_it_went_in() {
    let (site, server) = (Site::new(), Server::start().await);
    let sources = site.sources();
    let disk = disk();
    let plain = site.file("disk.raw", &disk);
    let zstd = packed("zstd", &["-q"], &plain);
    let cut = disk.len() / 2;
    let halves = [site.file("a", &disk[..cut]), site.file("b", &disk[cut..])];
    let joined =
        |tool, options: &[&str]| [packed(tool, options, &halves[0]), packed(tool, options, &halves[1])].concat();
    // A frame that decoders skip, before and between.
    let note = [b"\x52\x2a\x4d\x18\x05\x00\x00\x00".as_slice(), b"notes"].concat();
    for (name, bytes, how) in [
        ("gz", packed("gzip", &[], &plain), Compression::Gzip),
        ("gz-two", joined("gzip", &[]), Compression::Gzip),
        ("xz", packed("xz", &["-T2"], &plain), Compression::Xz),
        ("xz-strongest", packed("xz", &["-9e"], &plain), Compression::Xz),
        ("xz-two", joined("xz", &[]), Compression::Xz),
        ("zstd", zstd.clone(), Compression::Zstd),
        (
            "zstd-strongest",
            packed("zstd", &["-q", "--ultra", "-22"], &plain),
            Compression::Zstd,
        ),
        ("zstd-two", joined("zstd", &["-q"]), Compression::Zstd),
        ("zstd-noted", [note.clone(), zstd, note].concat(), Compression::Zstd),
    ] {
        let url = server.on(&format!("/{name}"), [ok(&[], &bytes)]);
        let given = Some(Checksum::from(sha256(&bytes)));
        assert_eq!(
            sources.look(&url, Some(DiskFormat::Raw)).await.unwrap(),
            Look::Packed(how),
            "{name}"
        );
        // Twice: the second time from the cache.
        for _ in 0..2 {
            let image = sources.disk_image(&url, given, Some(DiskFormat::Raw)).await.unwrap();
            assert_eq!(image.fetched.sha256, sha256(&disk), "{name}");
            assert_eq!(
                (image.disk.format, image.disk.size),
                (DiskFormat::Raw, Some(disk.len() as u64))
            );
            assert_eq!(image.compression, Some(how));
        }
        assert_eq!(
            server
                .requests()
                .iter()
                .filter(|request| request.starts_with(&format!("get /{name} ")))
                .count(),
            2
        );
    }
    assert_eq!(site.under_way(), 0);
}

#[tokio::test]
async fn what_is_packed_is_bounded_in_what_comes_out_and_in_memory() {
    let site = Site::new();
    let sources = Sources::new(SourcesConfig {
        max_unpacked_bytes: 1 << 20,
        ..site.config()
    })
    .unwrap();
    let zeros = site.file("zeros", &vec![0; 64 << 20]);
    for (tool, options) in [("gzip", &[][..]), ("xz", &[]), ("zstd", &["-q"])] {
        let bomb = site.file(&format!("bomb.{tool}"), &packed(tool, options, &zeros));
        let error = sources.disk_image(&bomb, None, None).await.unwrap_err();
        assert!(
            matches!(error, SourceError::TooBig { max: 1_048_576, .. }),
            "{tool}: {error:?}"
        );
    }
    // A quarter of a gigabyte of window would be held in memory; without a known length none is made smaller.
    for command in ["xz --lzma2=dict=256MiB", "zstd -q --long=28"] {
        let greedy = run("sh", &["-c", &format!("{command} -c < {zeros}")]);
        let greedy = site.file("greedy", &greedy);
        let error = sources.disk_image(&greedy, None, None).await.unwrap_err();
        assert!(matches!(error, SourceError::Packed { .. }), "{command}: {error:?}");
        assert!(error.to_string().contains("128 MiB"), "{error}");
    }
    assert_eq!(site.under_way(), 0);
}

#[tokio::test]
async fn damaged_packs_are_refused_wherever_they_are_damaged() {
    let site = Site::new();
    let sources = site.sources();
    let plain = site.file("disk.raw", &disk());
    for (tool, options) in [("gzip", &[][..]), ("xz", &[]), ("zstd", &["-q", "--check"])] {
        let whole = packed(tool, options, &plain);
        let (middle, end) = (whole.len() / 2, whole.len());
        let flipped = |at: usize| {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x55;
            bytes
        };
        for (name, bytes) in [
            ("cut", whole[..middle].to_vec()),
            ("short", whole[..end - 1].to_vec()),
            ("middle", flipped(middle)),
            ("checksum", flipped(end - 6)),
            ("trailing", [whole.as_slice(), b"garbage"].concat()),
        ] {
            // gzip ends where its last member does, as the tool itself has it.
            if (tool, name) == ("gzip", "trailing") {
                continue;
            }
            let path = site.file(&format!("{name}.{tool}"), &bytes);
            let error = sources.disk_image(&path, None, Some(DiskFormat::Raw)).await;
            assert!(
                matches!(error, Err(SourceError::Packed { .. })),
                "{tool} {name}: {error:?}"
            );
        }
    }
    assert_eq!(site.under_way(), 0);
}

#[tokio::test]
async fn images_are_what_qemu_img_made_them() {
    let site = Site::new();
    let sources = site.sources();
    let raw = qemu_img(&site, "plain.raw", &["-f", "raw"]);
    for (name, options) in [
        ("v3", &["-f", "qcow2"][..]),
        ("v2", &["-f", "qcow2", "-o", "compat=0.10"]),
        ("small-clusters", &["-f", "qcow2", "-o", "cluster_size=512"]),
        ("big-clusters", &["-f", "qcow2", "-o", "cluster_size=2M"]),
        ("zstd-clusters", &["-f", "qcow2", "-o", "compression_type=zstd"]),
        ("subclusters", &["-f", "qcow2", "-o", "extended_l2=on"]),
        ("lazy", &["-f", "qcow2", "-o", "lazy_refcounts=on"]),
    ] {
        let path = text(&qemu_img(&site, name, options));
        for declared in [None, Some(DiskFormat::Qcow2)] {
            let image = sources.disk_image(&path, None, declared).await.unwrap();
            assert_eq!(
                (image.disk.format, image.disk.size),
                (DiskFormat::Qcow2, Some(8 << 20)),
                "{name}"
            );
        }
        let error = sources
            .disk_image(&path, None, Some(DiskFormat::Raw))
            .await
            .unwrap_err();
        assert!(
            error.to_string().contains("declared as raw, but it is a qcow2"),
            "{name}: {error}"
        );
    }
    let image = sources
        .disk_image(&text(&raw), None, Some(DiskFormat::Raw))
        .await
        .unwrap();
    assert_eq!((image.disk.size, image.compression), (Some(8 << 20), None));
    let error = sources
        .disk_image(&text(&raw), None, Some(DiskFormat::Qcow2))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("declared as qcow2, but it is raw"),
        "{error}"
    );
}

#[tokio::test]
async fn images_that_need_other_files_or_other_tools_are_refused() {
    let site = Site::new();
    let sources = site.sources();
    let base = text(&qemu_img(&site, "base.qcow2", &["-f", "qcow2"]));
    let data = text(&site.files().join("data.raw"));
    let data_file = format!("data_file={data}");
    let secret = [
        "--object",
        "secret,id=s,data=abc",
        "-o",
        "encrypt.format=luks,encrypt.key-secret=s",
    ];
    for (name, options, said) in [
        (
            "backed",
            &["-f", "qcow2", "-b", &base, "-F", "qcow2"][..],
            "backing file",
        ),
        (
            "backed-old",
            &["-f", "qcow2", "-o", "compat=0.10", "-b", &base, "-F", "qcow2"],
            "backing file",
        ),
        ("outside", &["-f", "qcow2", "-o", &data_file], "data file"),
        (
            "locked",
            &["-f", "qcow2", secret[0], secret[1], secret[2], secret[3]],
            "encrypted",
        ),
        ("disk.vmdk", &["-f", "vmdk"], "VMDK"),
        ("disk.vdi", &["-f", "vdi"], "VDI"),
        ("disk.vhdx", &["-f", "vhdx"], "VHDX"),
        ("disk.vhd", &["-f", "vpc"], "VHD"),
        ("fixed.vhd", &["-f", "vpc", "-o", "subformat=fixed"], "VHD"),
        ("disk.qed", &["-f", "qed"], "QED"),
    ] {
        let path = text(&qemu_img(&site, name, options));
        let declared = [None, Some(DiskFormat::Raw)];
        for declared in declared {
            let error = sources.disk_image(&path, None, declared).await.unwrap_err();
            assert!(matches!(error, SourceError::Image { .. }), "{name}: {error:?}");
            let text = error.to_string();
            assert!(text.contains(said) || text.contains("a qcow2"), "{name}: {text}");
        }
        let look = sources.look(&path, None).await.unwrap_err();
        assert!(look.to_string().contains(said), "{name}: {look}");
    }
}

/// Serves a file as a good server does, by ranges.
fn ranged(bytes: Vec<u8>) -> Answer {
    Answer::to(move |request| {
        let len = bytes.len();
        let range = match header(request, "range").and_then(|range| range.strip_prefix("bytes=")) {
            None => return ok(&[], &bytes),
            Some(range) => range.split_once('-').unwrap(),
        };
        let (first, last) = match range {
            ("", count) => (len.saturating_sub(count.parse().unwrap()), len - 1),
            (first, last) => (first.parse().unwrap(), last.parse::<usize>().unwrap().min(len - 1)),
        };
        let range = format!("content-range: bytes {first}-{last}/{len}");
        let length = format!("content-length: {}", last + 1 - first);
        head(206, &[&length, &range], &bytes[first..=last])
    })
}

#[tokio::test]
async fn a_look_reads_a_beginning_and_an_end_and_keeps_nothing() {
    let (site, server) = (Site::new(), Server::start().await);
    let sources = site.sources();
    let read = |path: &Path| std::fs::read(path).unwrap();
    let fixed = read(&qemu_img(&site, "fixed.vhd", &["-f", "vpc", "-o", "subformat=fixed"]));
    let qcow2 = read(&qemu_img(&site, "disk.qcow2", &["-f", "qcow2"]));
    let raw = disk();
    let plain = |look: Look| match look {
        Look::Plain(disk) => disk,
        Look::Packed(_) => panic!("it is not packed"),
    };
    let disk = plain(
        sources
            .look(&server.on("/raw", [ranged(raw.clone())]), None)
            .await
            .unwrap(),
    );
    assert_eq!((disk.format, disk.size), (DiskFormat::Raw, Some(raw.len() as u64)));
    let disk = plain(
        sources
            .look(&server.on("/qcow2", [ranged(qcow2.clone())]), None)
            .await
            .unwrap(),
    );
    assert_eq!((disk.format, disk.size), (DiskFormat::Qcow2, Some(8 << 20)));
    let error = sources
        .look(&server.on("/vhd", [ranged(fixed)]), Some(DiskFormat::Raw))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("VHD"), "{error}");
    // A server without ranges, one that does not tell the length, and an empty file.
    assert_eq!(
        plain(sources.look(&server.on("/whole", [ok(&[], &raw)]), None).await.unwrap()).size,
        Some(raw.len() as u64)
    );
    assert_eq!(
        plain(
            sources
                .look(&server.on("/open", [head(200, &[], &raw)]), None)
                .await
                .unwrap()
        )
        .size,
        None
    );
    for answer in [ok(&[], b""), head(416, &["content-length: 0"], b"")] {
        let error = sources.look(&server.on("/empty", [answer]), None).await.unwrap_err();
        assert!(error.to_string().contains("empty"), "{error}");
    }
    let error = sources.look(&format!("{}/gone", server.url), None).await.unwrap_err();
    assert!(matches!(error, SourceError::NotFound { .. }), "{error:?}");
    assert!(sources.entries().unwrap().is_empty());
    assert!(
        server
            .requests()
            .iter()
            .all(|request| header(request, "range").is_some())
    );
}

#[tokio::test]
async fn sha512_is_checked_remembered_and_computed_for_what_is_there_already() {
    let (site, server) = (Site::new(), Server::start().await);
    let sources = site.sources();
    let path = site.file("image", b"image");
    let listed = run("sha512sum", &[&path]);
    let digits = String::from_utf8(listed).unwrap()[..128].to_owned();
    let right = Checksum::parse(&digits, None).unwrap();
    let wrong = Checksum::parse(&"0".repeat(128), None).unwrap();
    let url = server.on("/image", [ok(&[], b"image")]);
    for reference in [&url, &path] {
        let error = sources.fetch_checked(reference, &[wrong]).await.unwrap_err();
        assert!(
            matches!(
                error,
                SourceError::Checksum {
                    algorithm: "sha512",
                    ..
                }
            ),
            "{error:?}"
        );
        assert!(sources.entries().unwrap().is_empty());
    }
    sources.fetch_checked(&url, &[right]).await.unwrap();
    let asked = server.requests().len();
    // By its SHA-512 alone, from anywhere.
    sources
        .fetch_checked(&format!("{}/other", server.url), &[right])
        .await
        .unwrap();
    assert_eq!(server.requests().len(), asked);
    // What was fetched without one, by a reference that is still fresh.
    let site = Site::new();
    let sources = site.sources();
    let url = server.on("/again", [ok(&[], b"image"), ok(&[], b"forged")]);
    sources.fetch(&url, None).await.unwrap();
    sources
        .fetch_checked(&url, &[right, sha256(b"image").into()])
        .await
        .unwrap();
    let error = sources.fetch_checked(&url, &[wrong]).await.unwrap_err();
    assert!(matches!(error, SourceError::Checksum { .. }), "{error:?}");
}

#[tokio::test]
async fn a_checksum_file_vouches_for_the_name_in_the_reference() {
    let (site, server) = (Site::new(), Server::start().await);
    let sources = site.sources();
    let path = site.file("disk a.raw", b"image");
    let other = site.file("other.raw", b"other");
    let folder = site.files();
    let sums = |tool: &str, options: &[&str]| {
        let output = Command::new(tool)
            .args(options)
            .args(["disk a.raw", "other.raw"])
            .current_dir(&folder)
            .output();
        output
            .unwrap_or_else(|error| panic!("this test needs {tool}: {error}"))
            .stdout
    };
    let image = format!("{}/images/disk%20a.raw?sig=1", server.url);
    for (tool, options, algorithm) in [
        ("sha256sum", &[][..], "sha256"),
        ("sha256sum", &["-b"], "sha256"),
        ("sha256sum", &["--tag"], "sha256"),
        ("sha512sum", &["--tag"], "sha512"),
        ("sha512sum", &[], "sha512"),
    ] {
        let list = server.on("/SUMS", [ok(&[], &sums(tool, options))]);
        let given = GivenChecksum::parse(&list, None).unwrap();
        let checksum = sources.checksum(&image, &given).await.unwrap();
        assert_eq!(checksum.algorithm(), algorithm);
        sources.fetch_checked(&path, &[checksum]).await.unwrap();
        let checksum = sources.checksum(&other, &given).await.unwrap();
        assert_eq!(
            content(
                &sources,
                &sources.fetch_checked(&other, &[checksum]).await.unwrap().sha256
            ),
            b"other"
        );
        let error = sources.checksum("/srv/none.raw", &given).await.unwrap_err();
        assert!(matches!(error, SourceError::ChecksumFile { .. }), "{error:?}");
    }
    let md5 = server.on("/SUMS", [ok(&[], &sums("md5sum", &[]))]);
    let error = sources.checksum(&image, &GivenChecksum::File(md5)).await.unwrap_err();
    assert!(error.to_string().contains("forged"), "{error}");
    let endless = server.on("/SUMS", [head(200, &[], &vec![b'a'; 3 << 20])]);
    let error = sources
        .checksum(&image, &GivenChecksum::File(endless))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("1 MiB"), "{error}");
    let missing = GivenChecksum::File(format!("{}/missing", server.url));
    let error = sources.checksum(&image, &missing).await.unwrap_err();
    assert!(matches!(error, SourceError::NotFound { .. }), "{error:?}");
}

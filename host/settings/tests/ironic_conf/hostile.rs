//! Files that nobody wrote by hand.

use expect_test::expect;
use settings::Settings;

use crate::{Folder, SWIFT, load};

#[test]
fn files_without_end_and_of_other_kinds_are_refused() {
    let folder = Folder::new();
    folder.write("huge.conf", vec![b'#'; 5 << 20]);
    folder.write("latin.conf", b"[DEFAULT]\n# \xe9\n");
    folder.write("bom.conf", "\u{feff}[DEFAULT]\n");
    folder.write("zero.conf", "[DEFAULT]\nhost = a\0b\n[swift]\n");
    std::fs::create_dir(folder.path("strange.conf.d")).unwrap();
    std::fs::create_dir(folder.path("strange.conf.d/x.conf")).unwrap();
    folder.write("strange.conf", "");
    let error = folder
        .load(
            None,
            &["huge.conf", "latin.conf", "bom.conf", "zero.conf", "strange.conf"],
        )
        .unwrap_err();
    expect![[r#"
        bom.conf:1: begins with a byte order mark; save the file as UTF-8 without one
        latin.conf:2: is not UTF-8 text; save the file as UTF-8
        huge.conf: is no settings file: at most 4194304 bytes are read of one file, and 16777216 of all
        strange.conf.d/x.conf: is no settings file: it must be a regular file"#]]
    .assert_eq(&folder.plain(&error.to_string()));
    let files = settings::Files {
        site: None,
        ironic: vec!["/dev/zero".into()],
    };
    let error = Settings::load(&files, &settings::Overrides::default()).unwrap_err();
    assert!(error.to_string().contains("it must be a regular file"), "{error}");
}

#[test]
fn a_folder_of_very_many_files_is_read_to_a_bound() {
    let folder = Folder::new();
    for place in 0..400 {
        folder.write(&format!("d/{place:03}.conf"), "[DEFAULT]\n");
    }
    let error = folder.load(None, &["d"]).unwrap_err().to_string();
    assert!(error.contains("one file too many; at most 256 are read"), "{error}");
}

#[test]
fn very_many_options_and_very_long_ones_are_read_in_bounded_time() {
    let many: String = (0..60_000).map(|place| format!("x{place} = {place}\n")).collect();
    let loaded = load(&format!("{SWIFT}[other]\n{many}")).unwrap();
    // Of a section that nobody knows one word is enough.
    assert!(loaded.warnings.len() < 20, "{}", loaded.warnings.len());
    let loaded = load(&format!("{SWIFT}[conductor]\n{many}")).unwrap();
    assert!(loaded.warnings.len() < 320, "{}", loaded.warnings.len());
    let long = "a".repeat(1 << 20);
    let error = load(&format!(
        "{SWIFT}[DEFAULT]\nhost = {long}\n[{long}]\n[ilo]\n{long} = 1\n"
    ))
    .unwrap_err();
    assert!(error.to_string().len() < 10_000, "{}", error.to_string().len());
}

#[test]
fn a_chain_of_references_ends_somewhere() {
    let mut chain = format!("{SWIFT}[DEFAULT]\nhost = $a0\n");
    for place in 0..10_000 {
        chain.push_str(&format!("a{place} = $a{}\n", place + 1));
    }
    let error = load(&chain).unwrap_err().to_string();
    assert!(error.contains("deep"), "{error}");
}

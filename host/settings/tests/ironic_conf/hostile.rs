//! Files that nobody wrote by hand.

use expect_test::expect;
use proptest::prelude::*;
use settings::{Secrets, Settings};

use crate::{Folder, SWIFT, load, machine, sample};

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

/// Whole files as operators have them.
const SAMPLES: [&str; 5] = [
    "standalone.conf",
    "swift.conf",
    "former.conf",
    "spec-names.conf",
    "pxe-names.conf",
];

/// A text with some of it taken out and something else put in, again and again.
fn damaged(text: String) -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just(String::new()),
        ".{0,8}",
        prop::sample::select(vec![
            "[",
            "]",
            "=",
            ":",
            "$",
            "${",
            "}",
            "\n",
            "\n ",
            "\r",
            "'",
            "\"",
            "#",
            "$host",
            "${ilo.client_port}",
            "%default%",
            "-1",
            "99999999999999999999",
            "true",
            "[ilo]\n",
            "[[backend]]\n",
            "{",
            ",",
            "\u{0}",
            "é",
            "inf",
        ])
        .prop_map(str::to_owned),
    ];
    let edit = (any::<prop::sample::Index>(), 0..12usize, piece);
    prop::collection::vec(edit, 1..8).prop_map(move |edits| {
        let mut chars: Vec<char> = text.chars().collect();
        for (at, gone, piece) in edits {
            let at = at.index(chars.len() + 1);
            let end = (at + gone).min(chars.len());
            chars.splice(at..end, piece.chars());
        }
        chars.into_iter().collect()
    })
}

/// It can be used, or every mistake says where it is and shows no password.
fn is_read_or_refused(folder: &Folder, site: Option<&str>, ironic: &[&str]) -> Result<(), TestCaseError> {
    match folder.load(site, ironic) {
        Ok(loaded) => {
            let _ = loaded.migrated(&machine(), &Secrets::Inline).unwrap();
            for warning in &loaded.warnings {
                prop_assert!(!warning.to_string().contains("k3yst0ne"), "{}", warning);
            }
        }
        Err(error) => {
            let text = error.to_string();
            prop_assert!(!error.problems.is_empty() && !text.contains("k3yst0ne"), "{}", text);
        }
    }
    Ok(())
}

// As many cases as PROPTEST_CASES asks for.
proptest! {
    #[test]
    fn any_text_like_an_ironic_conf_is_read_or_refused(
        text in prop::sample::select(SAMPLES.to_vec())
            .prop_flat_map(|name| damaged(std::fs::read_to_string(sample(name)).unwrap()))
    ) {
        let folder = Folder::new();
        folder.write("ironic.conf", text);
        is_read_or_refused(&folder, None, &["ironic.conf"])?;
    }

    #[test]
    fn any_text_like_a_site_file_is_read_or_refused(
        text in prop::sample::select(SAMPLES.to_vec()).prop_flat_map(|name| {
            let files = settings::Files { site: None, ironic: vec![sample(name)] };
            let loaded = Settings::load_on(&files, &settings::Overrides::default(), &machine());
            let text = match loaded {
                Ok(loaded) => loaded.migrated(&machine(), &Secrets::Inline).unwrap().toml.expose().to_owned(),
                Err(_) => String::new(),
            };
            damaged(text)
        })
    ) {
        let folder = Folder::new();
        folder.write("farrier.toml", text);
        is_read_or_refused(&folder, Some("farrier.toml"), &[])?;
    }
}

//! ISO 9660 identifiers (level 2: 30 characters, upper case) and Joliet names (64 UTF-16 units) of files and directories.
//!
//! Rock Ridge carries the real names; these are what readers without it see, so they may be shortened but never collide.

use crate::unique::Taken;

const MAX_ISO: usize = 30;
const MAX_EXTENSION: usize = 8;
const MAX_JOLIET: usize = 64;
/// Characters of the largest number with its mark, `_65536`, which a stem has to leave room for.
const NUMBER: usize = 6;

/// The identifier of a directory or file, unlike every one in `taken`. A file's ends in `;1`, and has its dot even without
/// an extension (ECMA-119 §7.5.1).
pub(super) fn iso(name: &str, is_dir: bool, taken: &mut Taken<Vec<u8>>) -> Vec<u8> {
    let (base, extension) = match name.rfind('.') {
        Some(dot) if dot > 0 && !is_dir => (&name[..dot], &name[dot + 1..]),
        _ => (name, ""),
    };
    let mut extension = d_characters(extension);
    extension.truncate(MAX_EXTENSION);
    let mut base = d_characters(base);
    base.truncate(MAX_ISO - extension.len());
    let finish = |base: &[u8]| {
        let mut identifier = base.to_vec();
        if !is_dir {
            identifier.push(b'.');
            identifier.extend_from_slice(&extension);
            identifier.extend_from_slice(b";1");
        }
        identifier
    };
    let plain = finish(&base);
    if taken.take(plain.clone()) {
        return plain;
    }
    let stem = |room: usize| &base[..base.len().min(MAX_ISO - extension.len() - room)];
    taken.take_numbered(finish(stem(NUMBER)), |number| {
        let tail = format!("_{number}");
        finish(&[stem(tail.len()), tail.as_bytes()].concat())
    })
}

fn d_characters(part: &str) -> Vec<u8> {
    let d_character = |c: char| match c.to_ascii_uppercase() {
        c @ ('A'..='Z' | '0'..='9') => u8::try_from(c).unwrap_or(b'_'),
        _ => b'_',
    };
    part.chars().map(d_character).collect()
}

/// The name in Joliet's UCS-2 (big-endian on disk), unlike every one in `taken`.
pub(super) fn joliet(name: &str, taken: &mut Taken<Vec<u16>>) -> Vec<u16> {
    let legal = |c: char| {
        if matches!(c, '*' | '/' | ':' | ';' | '?' | '\\') {
            '_'
        } else {
            c
        }
    };
    let units: Vec<u16> = name.chars().map(legal).collect::<String>().encode_utf16().collect();
    if units.len() <= MAX_JOLIET && taken.take(units.clone()) {
        return units;
    }
    let extension = units
        .iter()
        .rposition(|unit| *unit == u16::from(b'.'))
        .filter(|dot| units.len() - dot <= 17);
    let (base, extension) = units.split_at(extension.unwrap_or(units.len()));
    let stem = |room: usize| {
        let stem = &base[..base.len().min(MAX_JOLIET - extension.len() - room)];
        // Half of a surrogate pair is no character.
        match stem.split_last() {
            Some((last, before)) if (0xD800..0xDC00).contains(last) => before,
            _ => stem,
        }
    };
    taken.take_numbered([stem(NUMBER), extension].concat(), |number| {
        let tail: Vec<u16> = format!("~{number}").encode_utf16().collect();
        [stem(tail.len()), &tail, extension].concat()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::time::{Duration, Instant};

    #[test]
    fn identifiers_are_upper_case_and_unlike_each_other() {
        let mut taken = Taken::default();
        let mut check = |name: &str, is_dir: bool, expected: &str| {
            assert_eq!(
                std::str::from_utf8(&iso(name, is_dir, &mut taken)).unwrap(),
                expected,
                "{name}"
            );
        };
        check("vmlinuz", false, "VMLINUZ.;1");
        check("isolinux.cfg", false, "ISOLINUX.CFG;1");
        check("ISOLINUX.cfg", false, "ISOLINUX_1.CFG;1");
        check("network_data.json", false, "NETWORK_DATA.JSON;1");
        check("a.b.tar", false, "A_B.TAR;1");
        check(".disk", true, "_DISK");
        check("b.d", true, "B_D");
        check(&"x".repeat(200), false, &format!("{}.;1", "X".repeat(30)));
        check(
            &format!("{}y", "x".repeat(200)),
            false,
            &format!("{}_1.;1", "X".repeat(28)),
        );
    }

    #[test]
    fn twenty_thousand_like_names_get_as_many_others_soon() {
        let (mut iso_taken, mut joliet_taken) = (Taken::default(), Taken::default());
        let (mut isos, mut joliets) = (BTreeSet::new(), BTreeSet::new());
        let start = Instant::now();
        for i in 0..20_000 {
            let name = format!("{}{i}.json", "n".repeat(70));
            isos.insert(iso(&name, false, &mut iso_taken));
            joliets.insert(joliet(&name, &mut joliet_taken));
        }
        assert_eq!((isos.len(), joliets.len()), (20_000, 20_000));
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    }

    #[test]
    fn joliet_names_end_at_64_units_and_keep_their_extension() {
        let mut taken = Taken::default();
        let mut check = |name: &str, expected: &str| {
            assert_eq!(
                String::from_utf16(&joliet(name, &mut taken)).unwrap(),
                expected,
                "{name}"
            );
        };
        check("ünï.json", "ünï.json");
        check("a:b?", "a_b_");
        check("a*b;", "a_b_~1");
        let long = "n".repeat(90);
        check(&format!("{long}.json"), &format!("{}~1.json", "n".repeat(57)));
        check(&format!("{long}x.json"), &format!("{}~2.json", "n".repeat(57)));
        check(&format!("{}😀z", "n".repeat(61)), &format!("{}😀z", "n".repeat(61)));
        check(&format!("{}😀zz", "n".repeat(61)), &format!("{}~1", "n".repeat(61)));
    }
}

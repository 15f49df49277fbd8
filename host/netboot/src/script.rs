//! The scripts that iPXE runs.
//!
//! A script ends at the first command that fails, so every command that may fail says what follows: `||` and nothing goes on
//! with the next line. A script that was chained hands its status back to the one that chained it.

use model::{MacAddress, NodeId};
use url::Url;

use crate::pack::Pair;
use crate::path::{NetbootPath, NodeFile};

/// Cards that the entry script looks at beside the one that was booted from.
const CARDS: u32 = 16;
/// Seconds between two tries. A server waits as long as it takes: whoever told it to boot has a time-out and its power button.
const PAUSE: u32 = 5;

/// Why a site's URL cannot stand in a script.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the URL that servers fetch their boot files from {reason}; write http://ADDRESS[:PORT][/PATH]")]
pub struct BaseUrlError {
    reason: String,
}

/// `boot.ipxe`: the machine's own script, under the HTTP root's URL; its path is kept.
pub(crate) fn entry(base_url: &str) -> Result<String, BaseUrlError> {
    let base = base(base_url)?;
    let card = |name: &str| {
        // One name for all cards: iPXE puts the address in.
        let sample = NetbootPath::Card(MacAddress::from([0; 6])).to_string();
        let folder = sample.rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("chain --autofree {base}/{folder}/${{{name}:hexhyp}} && goto over ||")
    };
    let (first, other) = (card("mac"), card("net${card}/mac"));
    Ok(format!(
        "#!ipxe\n\
         # Written by Farrier. Runs the script of this machine, found by the address of the card that it boots from or of another.\n\
         {first}\n\
         set card:int32 0\n\
         :card\n\
         isset ${{net${{card}}/mac}} || goto none\n\
         iseq ${{net${{card}}/mac}} ${{mac}} && goto next ||\n\
         {other}\n\
         :next\n\
         inc card\n\
         iseq ${{card}} {CARDS} || goto card\n\
         :none\n\
         echo Farrier has nothing more for this machine to boot over the network\n\
         :over\n\
         exit 1\n"
    ))
}

/// The node's script that boots a kernel and a ramdisk of its own folder, with this line.
pub(crate) fn kernel(node: &NodeId, kernel: NodeFile, ramdisk: NodeFile, pair: &Pair) -> String {
    let name = ramdisk.as_str();
    // Relative to the script, which lies in one folder or the other: both are one below the root.
    let place = |file| format!("../{}", NetbootPath::Node(*node, file));
    let (kernel, ramdisk) = (place(kernel), place(ramdisk));
    let line = match pair.line.as_str() {
        "" => String::new(),
        line => format!(" {line}"),
    };
    let timeout = pair
        .timeout
        .map_or_else(String::new, |timeout| format!(" --timeout {}", timeout.as_millis()));
    format!(
        "#!ipxe\n\
         # Written by Farrier for node {node}.\n\
         :again\n\
         imgfree\n\
         kernel{timeout} {kernel} initrd={name} BOOTIF=01-${{mac:hexhyp}}{line} || goto failed\n\
         initrd{timeout} --name {name} {ramdisk} || goto failed\n\
         boot || goto failed\n\
         :failed\n\
         echo The files of node {node} could not be booted. Trying again in {PAUSE} s\n\
         sleep {PAUSE}\n\
         goto again\n"
    )
}

/// The node's script that boots its disk: a BIOS is asked for its first disk; UEFI firmware goes on with its next boot option
/// where one ends in an error, and stops where one ends well.
pub(crate) fn disk(node: &NodeId) -> String {
    format!(
        "#!ipxe\n\
         # Written by Farrier for node {node}, which boots from its own disk.\n\
         iseq ${{platform}} efi && exit 1 ||\n\
         sanboot --no-describe --drive 0x80 ||\n\
         exit 1\n"
    )
}

/// The URL without a slash at its end, checked to arrive in a script as it is.
fn base(text: &str) -> Result<String, BaseUrlError> {
    let wrong = |reason: &str| BaseUrlError {
        reason: reason.to_owned(),
    };
    let url = Url::parse(text).map_err(|error| wrong(&format!("does not parse ({error})")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(wrong("is neither http:// nor https:// with a host"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("has a `?` or a `#`, and names are appended to it"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("carries a user name or a password, which everybody could read"));
    }
    let text = url.as_str().trim_end_matches('/');
    if text.contains("${") || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(wrong("holds `${` or a character that iPXE does not take as it is"));
    }
    Ok(text.to_owned())
}

/// iPXE's grammar, for tests: what every script of ours must be, whatever stands in it.
#[cfg(test)]
pub(crate) mod grammar {
    use std::collections::BTreeSet;

    /// What each command takes at least and at most, options and their values included; kernel lines are as long as they are.
    const COMMANDS: [(&str, usize, usize); 12] = [
        ("boot", 0, 0),
        ("chain", 1, 2),
        ("echo", 0, usize::MAX),
        ("exit", 0, 1),
        ("goto", 1, 1),
        ("imgfree", 0, 0),
        ("inc", 1, 2),
        ("initrd", 1, 5),
        ("iseq", 2, 2),
        ("isset", 1, 1),
        ("kernel", 1, usize::MAX),
        ("sanboot", 1, 3),
    ];
    /// Those that end a script if they fail, so that the line has to say what follows.
    const MAY_FAIL: [&str; 7] = ["boot", "chain", "initrd", "iseq", "isset", "kernel", "sanboot"];

    /// Panics with the line that iPXE would not run as it was meant.
    #[track_caller]
    pub(crate) fn assert_legal(script: &str) {
        let mut lines = script.split('\n');
        assert_eq!(lines.next(), Some("#!ipxe"));
        assert!(script.ends_with('\n') && script.is_ascii(), "{script}");
        let (mut labels, mut targets) = (BTreeSet::new(), BTreeSet::new());
        for line in lines.filter(|line| !line.is_empty()) {
            assert!(
                !line.ends_with('\\') && !line.contains(|c: char| c.is_control()),
                "{line}"
            );
            if line.starts_with('#') {
                continue;
            }
            if let Some(label) = line.strip_prefix(':') {
                assert!(labels.insert(label) && !label.contains(' '), "{line}");
                continue;
            }
            let words: Vec<_> = line.split_ascii_whitespace().collect();
            assert!(
                words.iter().all(|word| !word.starts_with('#')),
                "a comment cuts: {line}"
            );
            let commands: Vec<_> = words.split(|word| ["||", "&&", ";"].contains(word)).collect();
            for command in &commands {
                let Some((name, arguments)) = command.split_first() else {
                    continue;
                };
                if *name == "set" || *name == "sleep" {
                    continue;
                }
                let known = COMMANDS.iter().find(|(known, ..)| known == name);
                let (_, least, most) = known.unwrap_or_else(|| panic!("{name}: {line}"));
                assert!((*least..=*most).contains(&arguments.len()), "{line}");
                targets.extend((*name == "goto").then(|| arguments[0]));
            }
            let first = commands[0].first().copied().unwrap_or_default();
            assert!(
                !MAY_FAIL.contains(&first) || words.contains(&"||"),
                "ends the script: {line}"
            );
        }
        assert!(targets.is_subset(&labels), "{targets:?} are not all among {labels:?}");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use expect_test::expect;
    use image::SourceFile;
    use model::Sha256;

    use super::grammar::assert_legal;
    use super::*;
    use crate::line::KernelLine;

    fn node() -> NodeId {
        "1be26c0b-03f2-4d2e-ae87-c02d7f33c123".parse().unwrap()
    }

    #[test]
    fn scripts_are_legal_to_ipxe() {
        assert_legal(&entry("http://[fd00::1]:6386/x").unwrap());
        assert_legal(&disk(&node()));
    }

    #[test]
    fn the_entry_script_looks_for_the_machines_own_under_the_whole_url() {
        expect![[r#"
            #!ipxe
            # Written by Farrier. Runs the script of this machine, found by the address of the card that it boots from or of another.
            chain --autofree http://10.1.10.30/httpboot/pxelinux.cfg/${mac:hexhyp} && goto over ||
            set card:int32 0
            :card
            isset ${net${card}/mac} || goto none
            iseq ${net${card}/mac} ${mac} && goto next ||
            chain --autofree http://10.1.10.30/httpboot/pxelinux.cfg/${net${card}/mac:hexhyp} && goto over ||
            :next
            inc card
            iseq ${card} 16 || goto card
            :none
            echo Farrier has nothing more for this machine to boot over the network
            :over
            exit 1
        "#]]
        .assert_eq(&entry("http://10.1.10.30/httpboot/").unwrap());
    }

    #[test]
    fn a_url_keeps_its_port_and_path_and_one_that_would_not_arrive_is_refused() {
        for (url, start) in [
            ("http://10.1.0.1:6386", "http://10.1.0.1:6386/pxelinux.cfg/"),
            ("http://10.1.0.1/a/b", "http://10.1.0.1/a/b/pxelinux.cfg/"),
            ("https://[fd00::1]/x/", "https://[fd00::1]/x/pxelinux.cfg/"),
            ("http://h/a b", "http://h/a%20b/pxelinux.cfg/"),
        ] {
            let script = entry(url).unwrap();
            assert!(script.contains(&format!("chain --autofree {start}")), "{script}");
        }
        for (url, says) in [
            ("10.1.0.1/httpboot", "does not parse"),
            ("tftp://10.1.0.1/", "neither"),
            ("http://u:s3cret@h/", "password"),
            ("http://h/?a", "`?`"),
            ("http://h/#a", "`#`"),
            ("http://h/${x}", ""),
        ] {
            match entry(url) {
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.contains(says) && !text.contains("s3cret"), "{text}");
                }
                // A brace is percent-encoded in a path.
                Ok(script) => assert!(script.contains("http://h/$%7Bx%7D/"), "{script}"),
            }
        }
    }

    #[test]
    fn a_kernel_script_names_its_files_beside_itself() {
        let file = SourceFile {
            sha256: Sha256([1; 32]),
            len: 1,
        };
        let mut pair = Pair {
            kernel: file,
            ramdisk: file,
            line: KernelLine::new(&[("ipa-api-url".into(), "http://10.1.0.1:6387".into())], "nofb").unwrap(),
            timeout: None,
        };
        expect![[r#"
            #!ipxe
            # Written by Farrier for node 1be26c0b-03f2-4d2e-ae87-c02d7f33c123.
            :again
            imgfree
            kernel ../1be26c0b-03f2-4d2e-ae87-c02d7f33c123/deploy_kernel initrd=deploy_ramdisk BOOTIF=01-${mac:hexhyp} ipa-api-url=http://10.1.0.1:6387 nofb || goto failed
            initrd --name deploy_ramdisk ../1be26c0b-03f2-4d2e-ae87-c02d7f33c123/deploy_ramdisk || goto failed
            boot || goto failed
            :failed
            echo The files of node 1be26c0b-03f2-4d2e-ae87-c02d7f33c123 could not be booted. Trying again in 5 s
            sleep 5
            goto again
        "#]]
        .assert_eq(&kernel(&node(), NodeFile::DeployKernel, NodeFile::DeployRamdisk, &pair));
        pair.line = KernelLine::new(&[], "").unwrap();
        pair.timeout = Some(Duration::from_secs(7));
        let script = kernel(&node(), NodeFile::Kernel, NodeFile::Ramdisk, &pair);
        for line in [
            "kernel --timeout 7000 ../1be26c0b-03f2-4d2e-ae87-c02d7f33c123/kernel initrd=ramdisk BOOTIF=01-${mac:hexhyp} || goto failed\n",
            "initrd --timeout 7000 --name ramdisk ../1be26c0b-03f2-4d2e-ae87-c02d7f33c123/ramdisk || goto failed\n",
        ] {
            assert!(script.contains(line), "{script}");
        }
    }

    #[test]
    fn a_disk_script_knows_what_each_firmware_wants() {
        expect![[r#"
            #!ipxe
            # Written by Farrier for node 1be26c0b-03f2-4d2e-ae87-c02d7f33c123, which boots from its own disk.
            iseq ${platform} efi && exit 1 ||
            sanboot --no-describe --drive 0x80 ||
            exit 1
        "#]]
        .assert_eq(&disk(&node()));
    }
}

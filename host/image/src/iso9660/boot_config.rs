//! The kernel line and the boot loaders' configuration files that hold it.

use super::{IsoError, KERNEL_PATH, MARKER_PATH, RAMDISK_PATH};
use crate::parameters::{Loaders, Reader, bad_character, check, described, shown};

/// Without it an agent ignores floppy and ISO altogether.
const BOOT_METHOD: (&str, &str) = ("boot_method", "vmedia");
/// What x86 kernels take: 2048 bytes with the zero that ends them.
pub(super) const MAX_KERNEL_LINE: usize = 2047;
/// The same, less what isolinux and GRUB put in front: `BOOT_IMAGE=/boot/vmlinuz initrd=/boot/initrd `.
const MAX_LINE: usize = MAX_KERNEL_LINE - 64;
/// A kernel hands what it does not know to its first process, and panics over 32 such values; `HOME`, `TERM`, `BOOT_IMAGE` and
/// `boot_method` are four of them. A name with a dot is a module's and does not count.
const MAX_PARAMETERS: usize = 28;
/// Words that a boot loader writes or takes for itself.
const RESERVED: [&str; 2] = ["initrd", "BOOT_IMAGE"];

/// Puts the kernel line together: `boot_method=vmedia` once, then parameters, then arguments. Last come the arguments,
/// since a `--` in them hands what follows to the first process instead of the kernel.
pub(super) fn kernel_line(
    parameters: &[(String, String)],
    arguments: &str,
    loaders: Loaders,
) -> Result<String, IsoError> {
    let (method, vmedia) = BOOT_METHOD;
    let mut line = format!("{method}={vmedia}");
    for word in kernel_words(parameters, arguments, loaders)? {
        let refuse = |reason: &str| IsoError::KernelArgument {
            argument: shown(&word),
            reason: reason.to_owned(),
        };
        if word.split('=').next() == Some(method) {
            if word != format!("{method}={vmedia}") {
                return Err(refuse("is always `vmedia` on a boot ISO; leave it out"));
            }
            continue;
        }
        line.push(' ');
        line.push_str(&word);
    }
    if line.len() > MAX_LINE {
        return Err(IsoError::KernelLineTooLong {
            len: line.len(),
            max: MAX_LINE,
        });
    }
    Ok(line)
}

/// Parameters and arguments as words of a kernel line, each checked to arrive as it is.
pub(super) fn kernel_words(
    parameters: &[(String, String)],
    arguments: &str,
    loaders: Loaders,
) -> Result<Vec<String>, IsoError> {
    check(parameters, Reader::KernelLine(loaders))?;
    let handed_on = parameters.iter().filter(|(key, _)| !key.contains('.')).count();
    if handed_on > MAX_PARAMETERS {
        return Err(IsoError::TooManyParameters {
            count: handed_on,
            max: MAX_PARAMETERS,
        });
    }
    let mut words: Vec<String> = parameters.iter().map(|(key, value)| format!("{key}={value}")).collect();
    words.extend(argument_words(arguments, loaders)?);
    for word in &words {
        if word.split('=').next().is_some_and(|key| RESERVED.contains(&key)) {
            return Err(IsoError::KernelArgument {
                argument: shown(word),
                reason: "is set by the boot loader; leave it out".to_owned(),
            });
        }
    }
    Ok(words)
}

/// The words of free arguments, split as the kernel does: at spaces and tabs outside of double quotes.
fn argument_words(arguments: &str, loaders: Loaders) -> Result<Vec<String>, IsoError> {
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut is_quoted = false;
    let refuse = |word: &str, reason: String| {
        Err(IsoError::KernelArgument {
            argument: shown(word),
            reason,
        })
    };
    for c in arguments.chars() {
        match c {
            ' ' | '\t' if !is_quoted => {
                words.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty()));
                continue;
            }
            '"' if !loaders.grub => is_quoted = !is_quoted,
            '"' => {
                return refuse(
                    &word,
                    format!("holds {}, before which GRUB puts a backslash", described(c)),
                );
            }
            ' ' => {}
            c => {
                if let Some(reason) = bad_character(c, Reader::KernelLine(loaders)) {
                    return refuse(&word, format!("holds {}, {reason}", described(c)));
                }
            }
        }
        word.push(c);
    }
    if is_quoted {
        return refuse(&word, "opens a quote that does not end".to_owned());
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    Ok(words)
}

/// `isolinux.cfg`: boots at once. The loader talks to the serial port that the kernel is told to talk to, and to none
/// otherwise.
pub(super) fn isolinux(line: &str) -> String {
    let serial = serial_port(line)
        .map(|(port, baud)| format!("serial {port} {baud}\n"))
        .unwrap_or_default();
    format!(
        "{serial}default farrier\nprompt 0\ntimeout 1\nlabel farrier\n  kernel {KERNEL_PATH}\n  append initrd={RAMDISK_PATH} {line}\n"
    )
}

/// `grub.cfg`. The serial console is left to the firmware, whose console GRUB writes to.
///
/// Each word stands in single quotes, in which GRUB changes nothing; no word of a line for GRUB holds one.
pub(super) fn grub(line: &str) -> String {
    let words: String = line.split(' ').map(|word| format!(" '{word}'")).collect();
    format!(
        "search --no-floppy --set=root --hint cd0 --file {MARKER_PATH}\nset default=0\nset timeout=0\nmenuentry 'Farrier' {{\n  linux {KERNEL_PATH}{words}\n  initrd {RAMDISK_PATH}\n}}\n"
    )
}

/// Number and speed of the last serial port among the kernel's consoles.
fn serial_port(line: &str) -> Option<(u8, u32)> {
    let console = line
        .split(' ')
        .filter_map(|word| word.strip_prefix("console=ttyS"))
        .next_back()?;
    let (port, options) = console.split_once(',').unwrap_or((console, ""));
    let digits = options.find(|c: char| !c.is_ascii_digit()).unwrap_or(options.len());
    let port = port.parse().ok().filter(|port| *port < 4)?;
    Some((port, options[..digits].parse().unwrap_or(9600)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Loaders = Loaders {
        isolinux: true,
        grub: true,
    };
    const ISOLINUX: Loaders = Loaders {
        isolinux: true,
        grub: false,
    };

    fn line(parameters: &[(&str, &str)], arguments: &str) -> Result<String, IsoError> {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        kernel_line(&parameters.iter().map(owned).collect::<Vec<_>>(), arguments, BOTH)
    }

    #[test]
    fn boot_method_is_there_exactly_once() {
        let plain = "boot_method=vmedia";
        assert_eq!(line(&[], "").unwrap(), plain);
        assert_eq!(
            line(&[("boot_method", "vmedia")], " boot_method=vmedia ").unwrap(),
            plain
        );
        assert_eq!(
            line(&[("ipa-api-url", "http://a")], "nofb  vga=normal\t-- text").unwrap(),
            "boot_method=vmedia ipa-api-url=http://a nofb vga=normal -- text"
        );
        for (parameters, arguments) in [
            (&[("boot_method", "pxe")][..], ""),
            (&[], "boot_method=pxe"),
            (&[], "boot_method"),
        ] {
            assert!(
                matches!(line(parameters, arguments), Err(IsoError::KernelArgument { .. })),
                "{arguments}"
            );
        }
    }

    #[test]
    fn what_a_boot_loader_would_change_is_refused() {
        for arguments in [
            "a\nkernel /other",
            "a\r",
            "\u{1b}[2J",
            "a='b c'",
            "a=\"b\"",
            "a\\b",
            "ü",
            "initrd=/x",
            "BOOT_IMAGE=x",
        ] {
            assert!(
                matches!(line(&[], arguments), Err(IsoError::KernelArgument { .. })),
                "{arguments:?}"
            );
        }
        assert!(matches!(
            line(&[("initrd", "x")], ""),
            Err(IsoError::KernelArgument { .. })
        ));
        assert!(matches!(line(&[("k", "a b")], ""), Err(IsoError::Parameter(_))));
        assert!(line(&[], &"x".repeat(MAX_LINE)).is_err());
        let longest = "x".repeat(MAX_LINE - "boot_method=vmedia ".len());
        assert!(line(&[], &longest).is_ok());
    }

    #[test]
    fn more_parameters_than_a_kernel_survives_are_refused() {
        let parameters = |count: usize, dot: &str| -> Vec<(String, String)> {
            (0..count).map(|i| (format!("k{dot}{i}"), String::new())).collect()
        };
        assert!(kernel_line(&parameters(28, ""), "", BOTH).is_ok());
        assert!(kernel_line(&parameters(29, "."), "", BOTH).is_ok());
        let refused = kernel_line(&parameters(29, ""), "", BOTH);
        assert_eq!(refused, Err(IsoError::TooManyParameters { count: 29, max: 28 }));
    }

    #[test]
    fn no_error_shows_a_value() {
        for (parameters, arguments) in [
            (&[("token", "hunter2 x")][..], ""),
            (&[], "token=hunter2'"),
            (&[], "token=hunter2\n"),
        ] {
            let error = line(parameters, arguments).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn isolinux_alone_takes_quotes_as_the_kernel_does() {
        let line = |arguments| kernel_line(&[], arguments, ISOLINUX);
        assert_eq!(
            line("dyndbg=\"file a.c +p; file b.c +p\"  \tuser=D\\it's").unwrap(),
            "boot_method=vmedia dyndbg=\"file a.c +p; file b.c +p\" user=D\\it's"
        );
        for bad in ["a=\"b", "\"a\tb\"", "\"a\nb\""] {
            assert!(line(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_error_names_the_argument_and_the_character() {
        let check = |arguments, expected: &[&str]| {
            let text = line(&[], arguments).unwrap_err().to_string();
            assert!(expected.iter().all(|part| text.contains(part)), "{text}");
        };
        check("quiet root='x'", &["\"root\"", "`'` (U+0027)", "GRUB"]);
        check("quiet root=\"x\"", &["\"root\"", "`\"` (U+0022)", "GRUB"]);
        check("quiet x=a\nb", &["\"x\"", "line break (U+000A)"]);
    }

    #[test]
    fn the_loader_uses_the_serial_port_of_the_kernel() {
        let check = |line: &str, expected| assert_eq!(serial_port(line), expected, "{line}");
        check("boot_method=vmedia", None);
        check("console=tty0 console=ttyS1,115200n8", Some((1, 115_200)));
        check("console=ttyS0", Some((0, 9600)));
        check("console=ttyS99,1", None);
        check("console=ttySx", None);
        assert!(isolinux("console=ttyS0,115200").starts_with("serial 0 115200\n"));
        assert!(isolinux("quiet").starts_with("default "));
    }

    #[test]
    fn grub_takes_every_word_as_it_is() {
        let config = grub("boot_method=vmedia a=$b;c");
        assert!(
            config.contains("linux /boot/vmlinuz 'boot_method=vmedia' 'a=$b;c'\n"),
            "{config}"
        );
    }
}

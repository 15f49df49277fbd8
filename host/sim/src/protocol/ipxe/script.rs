//! A script taken apart: lines, labels, commands and what joins them.

/// How a command depends on the one before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Joined {
    Always,
    OnSuccess,
    OnFailure,
}

/// One command; its words are not expanded yet.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Command {
    pub(super) joined: Joined,
    pub(super) words: Vec<String>,
}

/// A script.
pub(super) struct Script(Vec<Line>);

struct Line {
    label: Option<String>,
    commands: Vec<Command>,
}

impl Script {
    /// `None` if it does not open as a script does.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let opening = bytes.strip_prefix(b"#!ipxe")?;
        opening.first().filter(|byte| byte.is_ascii_whitespace())?;
        let text = String::from_utf8_lossy(bytes);
        let (mut lines, mut joined) = (Vec::new(), String::new());
        for piece in text.split('\n') {
            joined.push_str(piece.strip_suffix('\r').unwrap_or(piece));
            // A backslash at the end of a line joins it with the next.
            if joined.ends_with('\\') {
                joined.pop();
                continue;
            }
            lines.push(line(&joined));
            joined.clear();
        }
        Some(Self(lines))
    }

    pub(super) fn line(&self, at: usize) -> Option<&[Command]> {
        self.0.get(at).map(|line| line.commands.as_slice())
    }

    /// The line that has this label; the first, if several do.
    pub(super) fn label(&self, label: &str) -> Option<usize> {
        self.0.iter().position(|line| line.label.as_deref() == Some(label))
    }
}

fn line(text: &str) -> Line {
    let text = text.trim_start();
    let (label, rest) = match text.strip_prefix(':') {
        None => (None, text),
        Some(named) => {
            let (label, rest) = named.split_once(char::is_whitespace).unwrap_or((named, ""));
            (Some(label.to_owned()), rest)
        }
    };
    let mut commands = vec![Command {
        joined: Joined::Always,
        words: Vec::new(),
    }];
    for word in rest.split_ascii_whitespace() {
        let joined = match word {
            word if word.starts_with('#') => break,
            "&&" => Joined::OnSuccess,
            "||" => Joined::OnFailure,
            ";" => Joined::Always,
            word => {
                if let Some(last) = commands.last_mut() {
                    last.words.push(word.to_owned());
                }
                continue;
            }
        };
        let words = Vec::new();
        commands.push(Command { joined, words });
    }
    Line { label, commands }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[Command]) -> Vec<(Joined, String)> {
        line.iter()
            .map(|command| (command.joined, command.words.join(" ")))
            .collect()
    }

    #[test]
    fn a_script_is_taken_apart_as_ipxe_does() {
        let text =
            b"#!ipxe\n# nothing\n:again  kernel a b=\"c || x\" && goto d ||\r\necho one \\\n two ; echo #three\n";
        let script = Script::parse(text).unwrap();
        let again = script.label("again").unwrap();
        use Joined::{Always, OnFailure, OnSuccess};
        let expected = [
            (Always, "kernel a b=\"c"),
            (OnFailure, "x\""),
            (OnSuccess, "goto d"),
            (OnFailure, ""),
        ];
        assert_eq!(
            words(script.line(again).unwrap()),
            expected.map(|(joined, text)| (joined, text.to_owned()))
        );
        let joined = [(Always, "echo one two"), (Always, "echo")];
        let next = words(script.line(again + 1).unwrap());
        assert_eq!(next, joined.map(|(joined, text)| (joined, text.to_owned())));
        assert_eq!(script.label("d"), None);
        for bad in [&b"#!ipxe"[..], b"#!ipxelinux\n", b"", b"\x7fELF", b"#!gpxe\n"] {
            assert!(Script::parse(bad).is_none());
        }
    }
}

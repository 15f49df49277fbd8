//! RIBCL requests: one command in its wrapper, after the login. Whatever is put in is escaped; what no escape can carry is
//! refused.

use super::commands::{Command, Place};

/// Goes ahead of the document; iLO 2 wants it as a write of its own.
pub(super) const DECLARATION: &str = "<?xml version=\"1.0\"?>\r\n";
/// Longest value. The longest that firmware is documented to take is an image URL.
const VALUE_CAP: usize = 1024;
/// Most arguments of one command.
const ARGUMENTS_CAP: usize = 64;

/// The document, without its declaration. The error says what is wrong with an argument, without its value.
pub(super) fn document(
    user: &str,
    password: &str,
    command: &Command,
    arguments: &[(&str, &str)],
) -> Result<String, String> {
    let user = escaped("the user name", user)?;
    let password = escaped("the password", password)?;
    let mode = if command.writes { "write" } else { "read" };
    let (name, wrapper) = (command.name, command.wrapper);
    let body = element(command, arguments)?;
    debug_assert!(body.starts_with(&format!("<{name}")));
    Ok(format!(
        "<RIBCL VERSION=\"2.0\">\r\n<LOGIN USER_LOGIN=\"{user}\" PASSWORD=\"{password}\">\r\n\
         <{wrapper} MODE=\"{mode}\">\r\n{body}\r\n</{wrapper}>\r\n</LOGIN>\r\n</RIBCL>\r\n"
    ))
}

/// The command's own element.
fn element(command: &Command, arguments: &[(&str, &str)]) -> Result<String, String> {
    let name = command.name;
    if arguments.len() > ARGUMENTS_CAP {
        return Err(format!("{name} takes at most {ARGUMENTS_CAP} arguments"));
    }
    let known = |argument: &str| {
        let mut parameters = command.parameters.iter();
        parameters.find(|parameter| parameter.name.eq_ignore_ascii_case(argument))
    };
    for (argument, _) in arguments {
        if known(argument).is_none() {
            let takes: Vec<&str> = command.parameters.iter().map(|parameter| parameter.name).collect();
            let takes = if takes.is_empty() {
                "none".to_owned()
            } else {
                takes.join(", ")
            };
            return Err(format!("{name} takes no such attribute; it takes: {takes}"));
        }
    }
    let (mut attributes, mut children) = (String::new(), String::new());
    for parameter in command.parameters {
        let given: Vec<&str> = arguments
            .iter()
            .filter(|(argument, _)| parameter.name.eq_ignore_ascii_case(argument))
            .map(|(_, value)| *value)
            .collect();
        if given.is_empty() && parameter.required {
            return Err(format!("{name} needs {}", parameter.name));
        }
        if given.len() > 1 && parameter.place != Place::Children {
            return Err(format!("{name} takes {} once", parameter.name));
        }
        for value in given {
            let value = escaped(parameter.name, value)?;
            match parameter.place {
                Place::Attribute => attributes.push_str(&format!(" {}=\"{value}\"", parameter.name)),
                Place::Child | Place::Children => {
                    children.push_str(&format!("<{} VALUE=\"{value}\"/>", parameter.name));
                }
            }
        }
    }
    Ok(if children.is_empty() {
        format!("<{name}{attributes}/>")
    } else {
        format!("<{name}{attributes}>{children}</{name}>")
    })
}

fn escaped(what: &str, value: &str) -> Result<String, String> {
    if value.chars().any(char::is_control) {
        return Err(format!("{what} holds a control character"));
    }
    if value.len() > VALUE_CAP {
        return Err(format!("{what} is longer than {VALUE_CAP} bytes"));
    }
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            other => out.push(other),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::super::commands::{COMMANDS, find};
    use super::*;

    fn body(name: &str, arguments: &[(&str, &str)]) -> Result<String, String> {
        element(find(name).unwrap(), arguments)
    }

    #[test]
    fn every_command_is_written_in_its_wrapper() {
        for command in COMMANDS {
            let arguments: Vec<(&str, &str)> = command.parameters.iter().map(|p| (p.name, "X")).collect();
            let text = document("u", "p", command, &arguments).unwrap();
            let mode = if command.writes { "write" } else { "read" };
            let open = format!("<{} MODE=\"{mode}\">\r\n<{}", command.wrapper, command.name);
            assert!(text.contains(&open), "{text}");
        }
    }

    #[test]
    fn a_whole_document_reads_so() {
        let vm = document(
            "admin",
            "p",
            find("SET_VM_STATUS").unwrap(),
            &[
                ("VM_WRITE_PROTECT", "YES"),
                ("device", "CDROM"),
                ("VM_BOOT_OPTION", "BOOT_ONCE"),
            ],
        );
        assert_eq!(
            vm.unwrap().replace("\r\n", "\n"),
            "<RIBCL VERSION=\"2.0\">\n<LOGIN USER_LOGIN=\"admin\" PASSWORD=\"p\">\n<RIB_INFO MODE=\"write\">\n\
             <SET_VM_STATUS DEVICE=\"CDROM\"><VM_BOOT_OPTION VALUE=\"BOOT_ONCE\"/><VM_WRITE_PROTECT VALUE=\"YES\"/></SET_VM_STATUS>\n\
             </RIB_INFO>\n</LOGIN>\n</RIBCL>\n"
        );
        assert_eq!(
            body("SET_PERSISTENT_BOOT", &[("DEVICE", "CDROM"), ("DEVICE", "HDD")]).unwrap(),
            "<SET_PERSISTENT_BOOT><DEVICE VALUE=\"CDROM\"/><DEVICE VALUE=\"HDD\"/></SET_PERSISTENT_BOOT>"
        );
        assert_eq!(body("RESET_SERVER", &[]).unwrap(), "<RESET_SERVER/>");
    }

    #[test]
    fn nothing_that_is_put_in_breaks_out() {
        let text = document(
            "a\"/><RESET_SERVER/>",
            "p'&<>\"",
            find("SET_HOST_POWER").unwrap(),
            &[("HOST_POWER", "Yes\"/><RESET_SERVER/><X A=\"")],
        )
        .unwrap();
        assert!(!text.contains("<RESET_SERVER"), "{text}");
        assert!(text.contains("PASSWORD=\"p&apos;&amp;&lt;&gt;&quot;\""), "{text}");
    }

    #[test]
    fn arguments_that_a_command_does_not_take_are_refused_and_not_repeated() {
        for (name, arguments, part) in [
            ("GET_VM_STATUS", &[][..], "needs DEVICE"),
            ("GET_FW_VERSION", &[("s3cret", "x")][..], "it takes: none"),
            ("GET_VM_STATUS", &[("DEVICE", "A"), ("device", "B")][..], "once"),
            ("SET_HOST_POWER", &[("HOST_POWER", "s3cret\n")][..], "control character"),
        ] {
            let error = body(name, arguments).unwrap_err();
            assert!(error.contains(part) && !error.contains("s3cret"), "{error}");
        }
        assert!(body("SET_HOST_POWER", &[("HOST_POWER", &"x".repeat(2000))]).is_err());
    }
}

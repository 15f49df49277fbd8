//! What does not go is refused with what to do about it.

use crate::desk::{Desk, both};

#[test]
fn a_folder_with_something_in_it_is_not_filled() {
    let desk = Desk::bare();
    let project = desk.work().join("acme-slots");
    std::fs::create_dir(&project).expect("a folder");
    std::fs::write(project.join("mine"), "x").expect("a file");
    let (_, err) = desk.plugin(&["new", "--role", "vmedia", "--lang", "c", "acme-slots"], 1);
    assert!(err.contains("acme-slots is there and not empty"), "{err}");
    let entries: Vec<_> = std::fs::read_dir(&project).expect("a folder").collect();
    assert_eq!(entries.len(), 1, "nothing was written");
    std::fs::remove_file(project.join("mine")).expect("gone");
    desk.plugin(&["new", "--role", "vmedia", "--lang", "c", "acme-slots"], 0);
}

#[test]
fn bad_names_roles_and_languages_are_refused_and_nothing_is_made() {
    let desk = Desk::bare();
    for name in ["Acme", "../acme", "a/b", "core", "a_b"] {
        let (_, err) = desk.plugin(&["new", "--role", "vendor", "--lang", "rust", name], 1);
        assert!(err.contains("cannot be a plugin's name"), "{name}: {err}");
    }
    let (_, err) = desk.plugin(&["new", "--role", "thief", "--lang", "rust", "acme"], 2);
    assert!(err.contains("backend-selection, vmedia, take-over, vendor"), "{err}");
    let (_, err) = desk.plugin(&["new", "--role", "vendor", "--lang", "cobol", "acme"], 2);
    assert!(err.contains("rust, python, js, c"), "{err}");
    assert_eq!(std::fs::read_dir(desk.work()).expect("a folder").count(), 0);
}

/// No tool at all but the binary.
fn without_tools(language: &str) -> String {
    let desk = Desk::bare();
    desk.plugin(&["new", "--role", "take-over", "--lang", language, "acme"], 0);
    let mut command = desk.command("farrier");
    // Of all that a machine has, the binary alone.
    command.env("PATH", &desk.path()[0]).args(["plugin", "build", "acme"]);
    let output = command.output().expect("the binary starts");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(!desk.work().join("acme/acme.wasm").exists());
    both(&output).1
}

#[test]
fn a_tool_that_is_missing_is_named_with_how_to_get_it() {
    for (language, tool, remedy) in [
        ("rust", "`cargo` is not on PATH", "https://rustup.rs"),
        (
            "python",
            "`componentize-py` is neither in .venv/bin",
            "pip install componentize-py==0.25.1",
        ),
        ("js", "`node` is not on PATH", "apt-get install nodejs"),
        ("c", "`clang` is not on PATH", "apt-get install clang lld wasi-libc"),
    ] {
        let said = without_tools(language);
        assert!(said.contains(tool) && said.contains(remedy), "{language}: {said}");
    }
}

#[test]
fn a_plugin_that_talks_to_a_system_is_refused_by_the_build() {
    let desk = Desk::equipped();
    desk.plugin(&["new", "--role", "take-over", "--lang", "c", "acme"], 0);
    let source = desk.work().join("acme/src/plugin.c");
    let text = std::fs::read_to_string(&source).expect("a source");
    let chatty = text
        .replace("#include <string.h>", "#include <stdio.h>\n#include <string.h>")
        .replace("steps->len = step", "printf(\"%d\\n\", waiting);\n  steps->len = step");
    assert_ne!(chatty, text);
    std::fs::write(&source, chatty).expect("written");
    let (_, err) = desk.plugin(&["build", "acme"], 1);
    assert!(
        err.contains("the plugin wants WASI") && err.contains("<stdio.h>"),
        "{err}"
    );
    assert!(!desk.work().join("acme/acme.wasm").exists());
}

#[test]
fn a_source_that_does_not_compile_is_told_by_the_compiler_and_leaves_the_old_component() {
    let desk = Desk::equipped();
    for (language, source, broken, says) in [
        ("c", "src/plugin.c", "int f(void) { return nothing; }", "nothing"),
        ("rust", "src/lib.rs", "fn f() -> u8 { nothing }", "nothing"),
        ("js", "src/plugin.js", "export const = ;", "plugin"),
        ("python", "app.py", "def f(:", "app"),
    ] {
        let project = format!("acme-{language}");
        desk.plugin(&["new", "--role", "take-over", "--lang", language, &project], 0);
        let component = desk.work().join(&project).join(format!("{project}.wasm"));
        std::fs::write(&component, "the old one").expect("written");
        std::fs::write(desk.work().join(&project).join(source), broken).expect("written");
        let (_, err) = desk.plugin(&["build", &project], 1);
        assert!(err.contains(says), "{language}: {err}");
        assert_eq!(std::fs::read(&component).expect("it is there"), b"the old one");
    }
}

#[test]
fn what_is_no_plugin_is_refused_by_inspect() {
    let desk = Desk::bare();
    let file = desk.work().join("x.wasm");
    std::fs::write(&file, "no wasm").expect("written");
    let (_, err) = desk.plugin(&["inspect", "x.wasm"], 1);
    assert!(err.contains("x.wasm is no component"), "{err}");
    let other = wat::parse_str("(component)").expect("a component");
    std::fs::write(&file, other).expect("written");
    let (out, err) = desk.plugin(&["inspect", "x.wasm"], 1);
    assert!(
        out.contains("it exports no role") && err.contains("does not take the plugin"),
        "{out}{err}"
    );
    desk.plugin(&["inspect", "not-there.wasm"], 1);
}

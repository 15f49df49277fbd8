//! What a new project is made of. The source and the scenarios of a role do the same in every language.

use runtime::Role;

use super::project::Language;

/// A file of a new project.
pub(super) struct File {
    /// Relative to the project.
    pub(super) path: String,
    pub(super) text: String,
}

macro_rules! template {
    ($path:literal) => {
        include_str!(concat!("../../../templates/", $path))
    };
}

/// The files of a new project, but for the contract.
pub(super) fn files(role: Role, language: Language, name: &str) -> Vec<File> {
    let fill = |text: &str| {
        text.replace("{{name}}", name)
            .replace("{{role}}", role.as_str())
            .replace("{{language}}", language.as_str())
            .replace("{{world}}", &super::contract::world(role))
            .replace("{{description}}", description(role))
    };
    let project = [template!("projects/farrier-plugin.toml"), requests(role, language)].concat();
    let mut files = vec![
        ("farrier-plugin.toml", project.as_str()),
        ("scenarios/first.yaml", scenario(role)),
    ];
    files.extend(beside(language));
    files.push(match (language, role) {
        (Language::Rust, Role::BackendSelection) => ("src/lib.rs", template!("rust/backend-selection.rs")),
        (Language::Rust, Role::Vmedia) => ("src/lib.rs", template!("rust/vmedia.rs")),
        (Language::Rust, Role::TakeOver) => ("src/lib.rs", template!("rust/take-over.rs")),
        (Language::Rust, Role::Vendor) => ("src/lib.rs", template!("rust/vendor.rs")),
        (Language::Python, Role::BackendSelection) => ("app.py", template!("python/backend-selection.py")),
        (Language::Python, Role::Vmedia) => ("app.py", template!("python/vmedia.py")),
        (Language::Python, Role::TakeOver) => ("app.py", template!("python/take-over.py")),
        (Language::Python, Role::Vendor) => ("app.py", template!("python/vendor.py")),
        (Language::Js, Role::BackendSelection) => ("src/plugin.js", template!("js/backend-selection.js")),
        (Language::Js, Role::Vmedia) => ("src/plugin.js", template!("js/vmedia.js")),
        (Language::Js, Role::TakeOver) => ("src/plugin.js", template!("js/take-over.js")),
        (Language::Js, Role::Vendor) => ("src/plugin.js", template!("js/vendor.js")),
        (Language::C, Role::BackendSelection) => ("src/plugin.c", template!("c/backend-selection.c")),
        (Language::C, Role::Vmedia) => ("src/plugin.c", template!("c/vmedia.c")),
        (Language::C, Role::TakeOver) => ("src/plugin.c", template!("c/take-over.c")),
        (Language::C, Role::Vendor) => ("src/plugin.c", template!("c/vendor.c")),
    });
    let file = |(path, text): (&str, &str)| File {
        path: path.to_owned(),
        text: fill(text),
    };
    files.into_iter().map(file).collect()
}

/// What to do before the first build, and what for.
pub(super) fn next(language: Language) -> &'static [(&'static str, &'static str)] {
    match language {
        Language::Rust => &[("rustup target add wasm32-unknown-unknown", "once a machine")],
        Language::Python => &[
            ("python3 -m venv .venv", "once a project"),
            (".venv/bin/pip install -r requirements.txt", "once a project"),
        ],
        Language::Js => &[("npm install", "once a project")],
        Language::C => &[("apt-get install clang lld wasi-libc", "once a machine")],
    }
}

fn beside(language: Language) -> &'static [(&'static str, &'static str)] {
    match language {
        Language::Rust => &[
            ("Cargo.toml", template!("rust/Cargo.toml")),
            (".gitignore", "/target\n/*.wasm\n"),
            ("README.md", template!("rust/README.md")),
        ],
        Language::Python => &[
            ("requirements.txt", template!("python/requirements.txt")),
            (".gitignore", "/.venv\n__pycache__\n/*.wasm\n"),
            ("README.md", template!("python/README.md")),
        ],
        Language::Js => &[
            ("package.json", template!("js/package.json")),
            (".gitignore", "/node_modules\n/*.wasm\n"),
            ("README.md", template!("js/README.md")),
        ],
        Language::C => &[
            (".gitignore", "/bindings\n/*.wasm\n"),
            ("README.md", template!("c/README.md")),
        ],
    }
}

fn description(role: Role) -> &'static str {
    match role {
        Role::BackendSelection => "Takes the backend that the site prefers, else the first healthy one with room.",
        Role::Vmedia => "Leaves empty slots alone, and hands all else down the chain.",
        Role::TakeOver => "Serves a dead conductor's artefacts again, and leaves active servers alone.",
        Role::Vendor => "Switches the light of a server's chassis.",
    }
}

fn scenario(role: Role) -> &'static str {
    match role {
        Role::BackendSelection => template!("scenarios/backend-selection.yaml"),
        Role::Vmedia => template!("scenarios/vmedia.yaml"),
        Role::TakeOver => template!("scenarios/take-over.yaml"),
        Role::Vendor => template!("scenarios/vendor.yaml"),
    }
}

/// The part of `farrier-plugin.toml` that says what the plugin asks for, where it cannot be read off the component.
fn requests(role: Role, language: Language) -> &'static str {
    match role {
        Role::Vendor => template!("projects/vendor.toml"),
        Role::Vmedia if !language.imports_what_it_calls() => template!("projects/vmedia.toml"),
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn new_rust_projects_use_the_release_of_the_bindings_that_the_host_was_built_with() {
        let workspace: toml::Table = toml::from_str(include_str!("../../../../../Cargo.toml")).unwrap();
        let version = workspace["workspace"]["dependencies"]["wit-bindgen"]["version"]
            .as_str()
            .unwrap();
        let cargo = template!("rust/Cargo.toml");
        assert!(
            cargo.contains(&format!("wit-bindgen = {{ version = \"={version}\"")),
            "{cargo}"
        );
    }
}

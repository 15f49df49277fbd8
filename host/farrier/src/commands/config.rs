//! `farrier config`: what the settings files say, where each setting came from, and the site file that says the same.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use model::Secret;
use serde_json::{Value, json};
use settings::{Files, Loaded, Machine, Origin, Overrides, Plain, Problem, Secrets, Settings};

use crate::output::{self, Format, OutputArgs};

/// Which settings files.
#[derive(clap::Args)]
pub(crate) struct FileArgs {
    /// Site file; without one, every setting has its default
    #[arg(long, env = "FARRIER_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Ironic's settings, a file (and the folder FILE.d beside it) or a folder of `*.conf`; the site file beats it, later ones
    /// beat earlier ones
    #[arg(long, value_name = "FILE")]
    ironic_conf: Vec<PathBuf>,
}

impl FileArgs {
    /// Paths in the files are relative to their folders, and end up in records: they must not depend on where we started.
    pub(crate) fn files(&self) -> std::io::Result<Files> {
        let absolute = |path: &PathBuf| std::path::absolute(path);
        Ok(Files {
            site: self.config.as_ref().map(absolute).transpose()?,
            ironic: self.ironic_conf.iter().map(absolute).collect::<Result<_, _>>()?,
        })
    }

    fn load(&self) -> Result<Loaded> {
        let loaded = Settings::load(&self.files()?, &Overrides::default())?;
        for warning in &loaded.warnings {
            output::note(format_args!("warning: {warning}"));
        }
        Ok(loaded)
    }
}

/// What to do with the settings.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Read the files as `serve` would, and tell all that is wrong or doubtful
    Check(Check),
    /// Show what each setting is
    Show(Show),
    /// Print the site file that alone says what these files say
    Migrate(Migrate),
}

#[derive(clap::Args)]
pub(crate) struct Check {
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(clap::Args)]
pub(crate) struct Show {
    #[command(flatten)]
    files: FileArgs,
    /// Show where each setting came from
    #[arg(long)]
    origin: bool,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(clap::Args)]
pub(crate) struct Migrate {
    #[command(flatten)]
    files: FileArgs,
    /// Put secrets that stand in ironic.conf into files of their own in this folder, for their owner alone
    #[arg(long, value_name = "FOLDER", conflicts_with = "inline_secrets")]
    secrets: Option<PathBuf>,
    /// Put secrets into the site file itself; it is for its owner alone then
    #[arg(long)]
    inline_secrets: bool,
}

pub(super) async fn run(command: Command) -> Result<()> {
    match command {
        Command::Check(args) => check(&args),
        Command::Show(args) => show(&args),
        Command::Migrate(args) => migrate(&args),
    }
}

fn check(args: &Check) -> Result<()> {
    let loaded = Settings::load(&args.files.files()?, &Overrides::default());
    let (problems, warnings) = match &loaded {
        Ok(loaded) => (&[][..], &loaded.warnings[..]),
        Err(error) => (&error.problems[..], &error.warnings[..]),
    };
    match args.output.format {
        Format::Json => output::json(&json!({
            "problems": problems.iter().map(told).collect::<Vec<_>>(),
            "warnings": warnings.iter().map(told).collect::<Vec<_>>(),
        }))?,
        Format::Table => {
            for problem in problems {
                output::say(format_args!("error: {problem}"));
            }
            for warning in warnings {
                output::say(format_args!("warning: {warning}"));
            }
        }
    }
    match (problems.len(), warnings.len()) {
        (0, _) if args.output.format == Format::Json => {}
        (0, 0) => output::say("these settings can be used"),
        (0, n) => output::say(format_args!("these settings can be used ({})", count(n, "warning"))),
        (n, _) => bail!("these settings cannot be used ({})", count(n, "error")),
    }
    Ok(())
}

fn count(n: usize, what: &str) -> String {
    match n {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}

fn told(problem: &Problem) -> Value {
    json!({"origin": origin(&problem.origin), "message": problem.message})
}

/// `null` for defaults, a text for the command line, else file, line and the option of ironic.conf.
fn origin(origin: &Origin) -> Value {
    match (origin, origin.place()) {
        (_, Some((file, line))) => json!({"file": file, "line": line, "option": origin.option()}),
        (Origin::CommandLine(option), None) => json!(option),
        (_, None) => Value::Null,
    }
}

fn show(args: &Show) -> Result<()> {
    let loaded = args.files.load()?;
    let entries = loaded.entries();
    if args.output.format == Format::Json {
        let entries = entries.iter().map(|entry| {
            let value = match &entry.value {
                Plain::Unset => Value::Null,
                Plain::Text(text) => json!(text),
                Plain::Secret(secret) => json!(secret.to_string()),
                Plain::Integer(number) => json!(number),
                Plain::Boolean(truth) => json!(truth),
                Plain::Texts(texts) => json!(texts),
                Plain::Json(value) => value.clone(),
            };
            json!({"name": entry.name, "value": value, "origin": origin(&entry.origin)})
        });
        return output::json(&entries.collect::<Vec<_>>());
    }
    let whence = |origin: &Origin| match origin.option() {
        Some(option) => format!("{origin} {option}"),
        None => origin.to_string(),
    };
    if args.origin {
        let rows = entries
            .iter()
            .map(|entry| [entry.name.clone(), entry.value.to_string(), whence(&entry.origin)]);
        output::table(["setting", "value", "origin"], rows);
    } else {
        let rows = entries
            .iter()
            .map(|entry| [entry.name.clone(), entry.value.to_string()]);
        output::table(["setting", "value"], rows);
    }
    Ok(())
}

fn migrate(args: &Migrate) -> Result<()> {
    let loaded = args.files.load()?;
    let secrets = match (&args.secrets, args.inline_secrets) {
        (Some(folder), _) => Secrets::Folder(std::path::absolute(folder)?),
        (None, true) => Secrets::Inline,
        (None, false) => Secrets::Refuse,
    };
    let migrated = loaded.migrated(&Machine::here(), &secrets).map_err(|error| {
        anyhow!("{error}; put secrets into files of their own by --secrets FOLDER, or print them by --inline-secrets")
    })?;
    if let Secrets::Folder(folder) = &secrets
        && !migrated.secrets.is_empty()
    {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .with_context(|| format!("could not make the folder {}", folder.display()))?;
    }
    for (path, secret) in &migrated.secrets {
        keep(path, secret).with_context(|| format!("could not write the secret {}", path.display()))?;
    }
    output::say(
        "# What Ironic's settings say, as a site file of Farrier's. `farrier config check --config FILE` reads it.",
    );
    output::say(migrated.toml.expose().trim_end());
    Ok(())
}

/// Writes a secret for its owner alone. One that is there stays, and must be the same.
fn keep(path: &Path, secret: &Secret) -> Result<()> {
    let new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match new {
        Ok(mut file) => {
            file.write_all(secret.expose().as_bytes())?;
            Ok(file.sync_all()?)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let same = std::fs::read(path).is_ok_and(|there| there == secret.expose().as_bytes());
            match same {
                true => Ok(()),
                false => bail!("another one is there; remove it, or name another folder by --secrets"),
            }
        }
        Err(error) => Err(error.into()),
    }
}

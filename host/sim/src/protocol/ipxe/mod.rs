//! A network card with iPXE in its ROM: fetches the script that DHCP names, and does what it says.
//!
//! The commands and their rules are those of iPXE (`src/core/exec.c`, `src/image/script.c`, `src/hci/commands`), as far as boot
//! scripts use them; a command or an option that is not here is an error, as one that a ROM was built without. This ROM
//! was built without https, as those that QEMU brings are.

mod script;

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::{Client, StatusCode};
use url::Url;

use crate::config::BootMode;
use crate::protocol::agent::map_host;
use crate::protocol::boot_disk;
use crate::server::Server;

use script::{Command, Joined, Script};

/// Longest script in bytes.
const SCRIPT_CAP: u64 = 1 << 20;
/// Longest kernel or ramdisk in bytes.
const FILE_CAP: u64 = 4 << 30;
/// Commands that one boot may take, so that a script which runs in a circle ends.
const BUDGET: u32 = 20_000;
/// Scripts that chain each other.
const DEPTH: usize = 8;
/// How long a server may be silent.
const SILENCE: Duration = Duration::from_secs(10);
/// What an x86 kernel takes; the rest is cut without a word.
const KERNEL_LINE: usize = 2047;

/// What was started and now has the machine.
pub(crate) enum Loaded {
    /// A kernel with this line.
    Kernel(String),
    /// What is on the first disk.
    Disk,
}

/// Boots from the network; the error says why control came back to the firmware.
pub(crate) async fn boot(server: &Server, bootfile: &str) -> Result<Loaded, String> {
    let client = Client::builder()
        .no_proxy()
        .connect_timeout(SILENCE)
        .read_timeout(SILENCE)
        .build()
        .map_err(|error| error.to_string())?;
    let settings = [("mac", server.mac.clone()), ("net0/mac", server.mac.clone())]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value));
    let mut rom = Rom {
        server,
        client,
        mode: server.state().boot_mode(),
        settings: settings.collect(),
        kernel: None,
        ramdisks: Vec::new(),
        budget: BUDGET,
    };
    let url = Url::parse(bootfile).map_err(|error| format!("{bootfile}: {error}"))?;
    match rom.run(&url, 0).await {
        Ended::Loaded(loaded) => Ok(loaded),
        Ended::Status(Ok(())) => Err("the script came to its end".into()),
        Ended::Status(Err(reason)) => Err(reason),
    }
}

/// How a script ended.
enum Ended {
    /// It did not: something else runs now.
    Loaded(Loaded),
    /// With this status.
    Status(Result<(), String>),
}

/// What a command did.
enum Did {
    Status(Result<(), String>),
    Goto(String),
    Exit(Result<(), String>),
    Loaded(Loaded),
}

struct Rom<'a> {
    server: &'a Server,
    client: Client,
    mode: BootMode,
    settings: BTreeMap<String, String>,
    /// Its line.
    kernel: Option<String>,
    /// By name.
    ramdisks: Vec<String>,
    budget: u32,
}

impl Rom<'_> {
    /// Fetches a script and runs it; relative names in it are relative to it.
    async fn run(&mut self, url: &Url, depth: usize) -> Ended {
        if depth >= DEPTH {
            return Ended::Status(Err("scripts chain each other without end".into()));
        }
        let script = match self.fetch_script(url).await {
            Ok(script) => script,
            Err(reason) => return Ended::Status(Err(reason)),
        };
        let mut at = 0;
        while let Some(line) = script.line(at) {
            at += 1;
            match self.line(line, url, depth).await {
                // A script goes on after a line that ended well, and ends at any other.
                Did::Status(Ok(())) => {}
                Did::Status(Err(reason)) => return Ended::Status(Err(reason)),
                Did::Exit(status) => return Ended::Status(status),
                Did::Loaded(loaded) => return Ended::Loaded(loaded),
                Did::Goto(label) => match script.label(&label) {
                    Some(target) => at = target,
                    None => return Ended::Status(Err(format!("there is no label :{label}"))),
                },
            }
        }
        Ended::Status(Ok(()))
    }

    async fn line(&mut self, line: &[Command], url: &Url, depth: usize) -> Did {
        let mut status = Ok(());
        for command in line {
            let wanted = match command.joined {
                Joined::Always => true,
                Joined::OnSuccess => status.is_ok(),
                Joined::OnFailure => status.is_err(),
            };
            if !wanted {
                continue;
            }
            let words: Vec<String> = command.words.iter().map(|word| self.expand(word)).collect();
            match Box::pin(self.command(&words, url, depth)).await {
                Did::Status(ended) => status = ended,
                other => return other,
            }
        }
        Did::Status(status)
    }

    async fn command(&mut self, words: &[String], url: &Url, depth: usize) -> Did {
        // An empty command does nothing, successfully.
        let Some((name, arguments)) = words.split_first() else {
            return Did::Status(Ok(()));
        };
        let Some(left) = self.budget.checked_sub(1) else {
            return Did::Exit(Err("the script runs in a circle".into()));
        };
        self.budget = left;
        match (name.as_str(), arguments) {
            ("echo", _) => {
                tracing::debug!(server = self.server.index, text = arguments.join(" "), "iPXE says");
                Did::Status(Ok(()))
            }
            ("goto", [label]) => Did::Goto(label.clone()),
            ("exit", []) => Did::Exit(Ok(())),
            ("exit", [status]) => Did::Exit(match status.as_str() {
                "0" => Ok(()),
                other => Err(format!("the script ended with status {other}")),
            }),
            ("sanboot", _) => self.sanboot(arguments).await,
            ("boot", []) => match self.start_kernel() {
                Ok(line) => Did::Loaded(Loaded::Kernel(line)),
                Err(reason) => Did::Status(Err(reason)),
            },
            ("chain", _) => match self.options(arguments, &["--autofree"], &[]) {
                Ok((_, [target])) => match resolve(url, target) {
                    Ok(target) => match Box::pin(self.run(&target, depth + 1)).await {
                        Ended::Loaded(loaded) => Did::Loaded(loaded),
                        Ended::Status(status) => Did::Status(status),
                    },
                    Err(reason) => Did::Status(Err(reason)),
                },
                Ok(_) => Did::Status(Err("chain takes one script".into())),
                Err(reason) => Did::Status(Err(reason)),
            },
            _ => Did::Status(self.plain(name, arguments, url).await),
        }
    }

    /// Commands that leave the script where it is.
    async fn plain(&mut self, name: &str, arguments: &[String], url: &Url) -> Result<(), String> {
        match (name, arguments) {
            ("isset", [value]) if value.is_empty() => Err("the setting is empty".into()),
            ("isset", [_]) => Ok(()),
            ("iseq", [one, other]) if one == other => Ok(()),
            ("iseq", [one, other]) => Err(format!("{one} is not {other}")),
            ("set", [setting, value @ ..]) => {
                let (key, _) = setting.split_once(':').unwrap_or((setting, ""));
                self.settings.insert(key.to_owned(), value.join(" "));
                Ok(())
            }
            ("inc", [setting]) => {
                let value = self.settings.get(setting).and_then(|value| value.parse::<i32>().ok());
                let value = value.unwrap_or(0).wrapping_add(1);
                self.settings.insert(setting.clone(), value.to_string());
                Ok(())
            }
            ("sleep", [seconds]) => {
                let seconds = seconds.parse().map_err(|_| format!("sleep {seconds}: no number"))?;
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                Ok(())
            }
            ("imgfree", []) => {
                self.kernel = None;
                self.ramdisks.clear();
                Ok(())
            }
            ("kernel", _) => {
                let (name, rest) = self.options(arguments, &[], &["--name", "--timeout"])?;
                let (file, line) = rest.split_first().ok_or("kernel takes a file")?;
                self.fetch_file(&resolve(url, file)?).await?;
                let mut words = line.to_vec();
                if self.mode == BootMode::Uefi {
                    // To UEFI a kernel is a program, whose first argument is its own name.
                    words.insert(0, name.unwrap_or_else(|| last_part(file)));
                }
                self.kernel = Some(words.join(" "));
                Ok(())
            }
            ("initrd", _) => {
                let (name, rest) = self.options(arguments, &[], &["--name", "--timeout"])?;
                let file = rest.first().ok_or("initrd takes a file")?;
                self.fetch_file(&resolve(url, file)?).await?;
                self.ramdisks.push(name.unwrap_or_else(|| last_part(file)));
                Ok(())
            }
            _ => Err(format!("{name} {}: command not found", arguments.join(" "))),
        }
    }

    async fn sanboot(&self, arguments: &[String]) -> Did {
        let drive = match self.options(arguments, &["--no-describe", "--keep"], &["--drive"]) {
            Ok((drive, [])) => drive,
            Ok(_) => return Did::Status(Err("sanboot of a network disk is not there".into())),
            Err(reason) => return Did::Status(Err(reason)),
        };
        if self.mode == BootMode::Uefi || drive.as_deref() != Some("0x80") {
            return Did::Status(Err("there is no such drive".into()));
        }
        match boot_disk(&self.server.files.disk).await {
            Ok(_) => Did::Loaded(Loaded::Disk),
            Err(_) => Did::Status(Err("the disk is not bootable".into())),
        }
    }

    /// Takes options off the front, as iPXE does: they end at the first word without a dash. The value is that of the first
    /// of `valued`.
    fn options<'w>(
        &self,
        words: &'w [String],
        flags: &[&str],
        valued: &[&str],
    ) -> Result<(Option<String>, &'w [String]), String> {
        let (mut rest, mut value) = (words, None);
        while let Some((word, after)) = rest.split_first()
            && word.starts_with('-')
        {
            rest = after;
            if word == "--" {
                break;
            }
            if flags.contains(&word.as_str()) {
                continue;
            }
            let place = valued.iter().position(|option| option == word);
            let place = place.ok_or_else(|| format!("unrecognised option {word}"))?;
            let (given, after) = rest
                .split_first()
                .ok_or_else(|| format!("{word} requires an argument"))?;
            rest = after;
            if place == 0 {
                value = Some(given.clone());
            }
        }
        Ok((value, rest))
    }

    /// What the kernel makes of what was loaded.
    fn start_kernel(&self) -> Result<String, String> {
        let line = self.kernel.clone().ok_or("no kernel was loaded")?;
        let line: String = line.chars().take(KERNEL_LINE).collect();
        if self.mode == BootMode::Uefi {
            let named = line.split(' ').filter_map(|word| word.strip_prefix("initrd="));
            if let Some(missing) = named
                .into_iter()
                .find(|name| !self.ramdisks.iter().any(|own| own == name))
            {
                return Err(format!("the kernel finds no ramdisk called {missing}"));
            }
        }
        if self.ramdisks.is_empty() {
            return Err("the kernel has no ramdisk and finds no root".into());
        }
        Ok(line)
    }

    /// Puts settings in for `${…}`, the innermost first.
    fn expand(&self, word: &str) -> String {
        let mut word = word.to_owned();
        while let Some(end) = word.find('}') {
            let Some(start) = word[..end].rfind("${") else {
                break;
            };
            let value = self.setting(&word[start + 2..end]);
            word.replace_range(start..=end, &value);
        }
        word
    }

    fn setting(&self, name: &str) -> String {
        let (name, kind) = name.split_once(':').unwrap_or((name, ""));
        let value = match name {
            "platform" if self.mode == BootMode::Uefi => "efi".to_owned(),
            "platform" => "pcbios".to_owned(),
            _ => self.settings.get(name).cloned().unwrap_or_default(),
        };
        match kind {
            "hexhyp" => value.replace(':', "-"),
            _ => value,
        }
    }

    async fn fetch_script(&self, url: &Url) -> Result<Script, String> {
        let bytes = self.fetch(url, SCRIPT_CAP, true).await?;
        Script::parse(&bytes).ok_or_else(|| format!("{url}: exec format error, this is no script"))
    }

    async fn fetch_file(&self, url: &Url) -> Result<(), String> {
        self.fetch(url, FILE_CAP, false).await.map(drop)
    }

    /// Reads all of a file; keeps it only where it is wanted.
    async fn fetch(&self, url: &Url, cap: u64, keep: bool) -> Result<Vec<u8>, String> {
        if url.scheme() != "http" {
            return Err(format!("{url}: this ROM knows no {}", url.scheme()));
        }
        let wrong = |error: reqwest::Error| format!("{url}: {}", error.without_url());
        let reply = self.client.get(map_host(url.as_str())?).send().await;
        let mut reply = reply.map_err(wrong)?;
        if reply.status() != StatusCode::OK {
            return Err(format!("{url}: {}", reply.status()));
        }
        let (mut bytes, mut len) = (Vec::new(), 0_u64);
        while let Some(chunk) = reply.chunk().await.map_err(wrong)? {
            len += chunk.len() as u64;
            if len > cap {
                return Err(format!("{url}: longer than {cap} bytes"));
            }
            if keep {
                bytes.extend_from_slice(&chunk);
            }
        }
        Ok(bytes)
    }
}

fn resolve(base: &Url, target: &str) -> Result<Url, String> {
    base.join(target).map_err(|error| format!("{target}: {error}"))
}

fn last_part(file: &str) -> String {
    file.rsplit('/').next().unwrap_or(file).to_owned()
}

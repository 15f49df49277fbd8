//! Which BMC, as whom, and how far it is believed.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bmc::probe::Transport;
use bmc::{Bmc, BmcConfig, Ca, Deadlines, ProbedBmc, Protocols, Tls};
use model::{BmcAddress, Secret};

use crate::client::first_line;
use crate::output;

/// Where the password is looked for when no file is given.
const PASSWORD: &str = "FARRIER_BMC_PASSWORD";

/// Shared by all commands.
#[derive(clap::Args)]
pub(super) struct Target {
    /// Host, host:port, or https://host:port
    pub(super) address: String,
    /// Account of the BMC
    #[arg(long, value_name = "NAME")]
    user: String,
    /// File whose first line is its password; without it FARRIER_BMC_PASSWORD is taken, or the password is asked for
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// PEM file with the BMC's CA, or with the BMC's own certificate; default: the machine's CAs
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,
    /// Believe any certificate: whoever is on the wire can read the password
    #[arg(long)]
    insecure: bool,
    /// Which TLS the BMC may choose: legacy is TLS 1.0 and old ciphers, for iLO 2, iLO 3 and early iLO 4
    #[arg(long, value_enum, default_value = "modern")]
    tls: TlsAge,
    /// What to speak, instead of finding out
    #[arg(long, value_enum)]
    transport: Option<Speech>,
    /// Seconds that one request may take
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum TlsAge {
    Modern,
    Legacy,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Speech {
    Redfish,
    Ris,
    Ribcl,
    RibclRaw,
}

impl Target {
    pub(super) fn transport(&self) -> Option<Transport> {
        self.transport.map(|speech| match speech {
            Speech::Redfish => Transport::Redfish,
            Speech::Ris => Transport::Ris,
            Speech::Ribcl => Transport::Ribcl,
            Speech::RibclRaw => Transport::RibclRaw,
        })
    }

    /// Reads the password, from the prompt if it must be.
    pub(super) fn config(&self) -> Result<BmcConfig> {
        let address = BmcAddress(origin(&self.address));
        let password = match &self.password_file {
            Some(path) => first_line(path)?,
            None => match std::env::var(PASSWORD) {
                Ok(password) => Secret::new(password),
                Err(std::env::VarError::NotPresent) => asked(&self.user, &address)?,
                Err(std::env::VarError::NotUnicode(_)) => bail!("{PASSWORD} is not UTF-8"),
            },
        };
        let request = Duration::from_secs(self.timeout);
        let usual = Deadlines::default();
        Ok(BmcConfig {
            tls: match (&self.ca, self.insecure) {
                (_, true) => Tls::Insecure,
                (ca, false) => Tls::Verify {
                    ca: ca.clone().map(Ca::File),
                },
            },
            protocols: match self.tls {
                TlsAge::Modern => Protocols::Modern,
                TlsAge::Legacy => Protocols::Legacy,
            },
            deadlines: Deadlines {
                request,
                verb: usual.verb.max(request * 4),
                ..usual
            },
            ..BmcConfig::new(address, self.user.clone(), password)
        })
    }

    /// Runs `work` with the BMC and ends its session afterwards, also when it is interrupted.
    pub(super) async fn with<T, W>(&self, work: impl FnOnce(std::sync::Arc<ProbedBmc>) -> W) -> Result<T>
    where
        W: Future<Output = Result<T>>,
    {
        let bmc = std::sync::Arc::new(ProbedBmc::new(self.config()?, self.transport())?);
        let result = interruptible(work(std::sync::Arc::clone(&bmc))).await;
        bmc.close().await;
        result
    }
}

/// The result, or an error at Ctrl-C.
pub(super) async fn interruptible<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::select! {
        result = work => result,
        signal = tokio::signal::ctrl_c() => {
            signal.context("could not wait for the interrupt")?;
            bail!("interrupted; what was asked of the BMC last may still happen")
        }
    }
}

/// An address as an origin: `https://` where nothing else is said, IPv6 literals in brackets.
fn origin(address: &str) -> String {
    if address.contains("://") {
        return address.to_owned();
    }
    match address.parse::<std::net::Ipv6Addr>() {
        Ok(address) => format!("https://[{address}]"),
        Err(_) => format!("https://{address}"),
    }
}

fn asked(user: &str, address: &BmcAddress) -> Result<Secret> {
    let prompt = format!("Password of {user} at {address}: ");
    let password = rpassword::prompt_password(output::harmless(&prompt))
        .with_context(|| format!("no password: name a file (--password-file), or set {PASSWORD}"))?;
    Ok(Secret::new(password))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_becomes_an_origin() {
        for (address, want) in [
            ("10.0.0.1", "https://10.0.0.1"),
            ("ilo.example:8443", "https://ilo.example:8443"),
            ("fd00::1", "https://[fd00::1]"),
            ("http://10.0.0.1", "http://10.0.0.1"),
        ] {
            assert_eq!(origin(address), want);
        }
    }
}

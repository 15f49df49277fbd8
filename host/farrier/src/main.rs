//! The `farrier` binary: one file a command, and the wiring of one room's trait to another room's type.

mod client;
mod commands;
mod lab;
mod output;
mod wiring;

use std::process::ExitCode;

use clap::Parser;

/// Bare-metal driver host: boots and deploys servers over BMC virtual media.
#[derive(Parser)]
#[command(name = "farrier", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: commands::Command,
}

/// Exit codes: 0 done, 1 failed, 2 not begun: usage (clap's own), or a file that it goes by is wrong.
fn main() -> ExitCode {
    let cli = Cli::parse();
    // The provider can be installed once a process; nobody did before us.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            output::complain(&anyhow::Error::new(error).context("could not start"));
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(cli.command.run()) {
        Ok(()) if output::is_lost() => ExitCode::FAILURE,
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&error);
            ExitCode::from(commands::exit_code(&error))
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// An option that is taken below as well, by the id of an argument there, would be refused or, worse, take its value.
    fn check(command: &clap::Command, above: &[String]) {
        let ids = |global: bool| {
            let of = command.get_arguments().filter(move |arg| arg.is_global_set() == global);
            of.map(|arg| arg.get_id().to_string()).collect::<Vec<_>>()
        };
        let mut taken = above.to_vec();
        for id in ids(false) {
            assert!(
                !above.contains(&id),
                "`{}` has an argument of its own with the id `{id}`",
                command.get_name()
            );
        }
        taken.extend(ids(true));
        for below in command.get_subcommands() {
            check(below, &taken);
        }
    }

    #[test]
    fn no_verb_has_an_argument_by_the_id_of_an_option_that_all_verbs_take() {
        Cli::command().debug_assert();
        check(&Cli::command(), &[]);
    }

    #[test]
    fn the_iso_to_boot_is_not_taken_for_the_api() {
        let line = [
            "farrier",
            "node",
            "boot-into-iso",
            "--api",
            "http://192.0.2.1:6385",
            "n1",
            "http://192.0.2.9/x.iso",
        ];
        assert!(Cli::try_parse_from(line).is_ok());
    }
}

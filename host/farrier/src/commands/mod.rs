//! The commands, one file each.

mod backend;
mod bmc;
mod cache;
mod config;
mod demo;
mod image;
mod node;
mod plugin;
mod serve;
mod sim;

use anyhow::Result;

/// What `farrier` can do.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Run a conductor with its API, agent and image listeners
    Serve(serve::Args),
    /// Deploy simulated servers from nothing, kill a conductor, watch the take-over
    Demo(demo::Args),
    /// Work with nodes
    Node(Box<node::Args>),
    /// Talk to one BMC by hand: what it speaks, what it holds, what it is told
    Bmc(Box<bmc::Args>),
    /// Try plugins out
    #[command(subcommand)]
    Plugin(plugin::Command),
    /// Make images
    #[command(subcommand)]
    Image(image::Command),
    /// See and try out the places that images are published to
    #[command(subcommand)]
    Backend(backend::Command),
    /// See and prune what was fetched for images
    #[command(subcommand)]
    Cache(cache::Command),
    /// See what the settings files say, and what is wrong with them
    #[command(subcommand)]
    Config(config::Command),
    /// Run simulated servers with a BMC
    Sim(sim::Args),
}

impl Command {
    pub(crate) async fn run(self) -> Result<()> {
        match self {
            Self::Serve(args) => serve::run(args).await,
            Self::Demo(args) => demo::run(args).await,
            Self::Node(command) => node::run(*command).await,
            Self::Bmc(args) => bmc::run(*args).await,
            Self::Plugin(command) => plugin::run(command).await,
            Self::Image(command) => image::run(command).await,
            Self::Backend(command) => backend::run(command).await,
            Self::Cache(command) => cache::run(command).await,
            Self::Config(command) => config::run(command).await,
            Self::Sim(args) => sim::run(args).await,
        }
    }
}

/// Exit code of a command that ended in this error: 2 if it could not be begun as it was asked for, as for a wrong option.
pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    match error.is::<plugin::NotRun>() || error.is::<backend::Unknown>() {
        true => 2,
        false => 1,
    }
}

//! The machine behind a BMC: power verbs in order, one running boot at a time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::BootKind;
use crate::protocol;
use crate::qemu;
use crate::server::{PostState, PowerCommand, PowerState, Server};

/// How long a machine gets to end by itself before its task is aborted.
const END_DEADLINE: Duration = Duration::from_secs(10);

/// One period of power, from on to off; resets happen inside it.
pub(crate) struct Power {
    pub(crate) server: Arc<Server>,
    /// Pull the plug.
    pub(crate) off: CancellationToken,
    /// What the BMC asks of the running system.
    pub(crate) asks: watch::Receiver<Ask>,
}

/// What a BMC asks of a running machine. The count tells a new request from an old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Nothing,
    Shutdown(u64),
    /// Restart in an orderly way.
    Restart(u64),
    Reset(u64),
}

struct Running {
    off: CancellationToken,
    asks: watch::Sender<Ask>,
    task: JoinHandle<()>,
}

/// Obeys power commands until the server stops.
pub(crate) async fn run(server: Arc<Server>, mut commands: mpsc::Receiver<PowerCommand>) {
    let mut running: Option<Running> = None;
    let mut asked = 0;
    loop {
        let command = tokio::select! {
            () = server.stop.cancelled() => break,
            command = commands.recv() => command,
        };
        let Some(command) = command else { break };
        asked += 1;
        match (command, &running) {
            (PowerCommand::On, None) => running = Some(start(&server)),
            (PowerCommand::ForceOff, Some(_)) => stop(&server, &mut running).await,
            (PowerCommand::OffFromInside(boot), Some(_)) => {
                let now = server.state().boots;
                if now == boot {
                    stop(&server, &mut running).await;
                }
            }
            (PowerCommand::GracefulShutdown, Some(machine)) => {
                machine.asks.send_replace(Ask::Shutdown(asked));
            }
            (PowerCommand::GracefulRestart, Some(machine)) => {
                machine.asks.send_replace(Ask::Restart(asked));
            }
            (PowerCommand::ForceRestart, Some(machine)) => {
                server.state().post = PostState::InPost;
                machine.asks.send_replace(Ask::Reset(asked));
            }
            // The state changed between the BMC's check and now; a real machine ignores the verb too.
            (PowerCommand::On, Some(_))
            | (
                PowerCommand::ForceOff
                | PowerCommand::GracefulShutdown
                | PowerCommand::GracefulRestart
                | PowerCommand::ForceRestart
                | PowerCommand::OffFromInside(_),
                None,
            ) => {}
        }
    }
    stop(&server, &mut running).await;
}

fn start(server: &Arc<Server>) -> Running {
    {
        let mut state = server.state();
        state.power = PowerState::On;
        state.post = PostState::InPost;
    }
    let off = CancellationToken::new();
    let (asks, receiver) = watch::channel(Ask::Nothing);
    let power = Power {
        server: Arc::clone(server),
        off: off.clone(),
        asks: receiver,
    };
    let task = match &server.boot {
        BootKind::Protocol => tokio::spawn(protocol::run(power)),
        BootKind::Qemu(config) => tokio::spawn(qemu::run(power, config.clone())),
    };
    Running { off, asks, task }
}

async fn stop(server: &Arc<Server>, running: &mut Option<Running>) {
    let Some(machine) = running.take() else {
        return;
    };
    machine.off.cancel();
    let abort = machine.task.abort_handle();
    if tokio::time::timeout(END_DEADLINE, machine.task).await.is_err() {
        abort.abort();
    }
    let mut state = server.state();
    state.power = PowerState::Off;
    state.post = PostState::PowerOff;
}

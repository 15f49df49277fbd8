//! Every verb against every fault: it ends within its deadline with a success or a typed error, leaves no session behind, and
//! tells no secret, neither in its error nor in a log nor in a recording.

use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use bmc::record::Recorder;
use bmc::trace::Trace;
use bmc::{Bmc, BmcConfig, BmcError, Deadlines, ProbedBmc};
use model::{BootDevice, BootMode, Device, PowerAction, Secret};
use sim::Faults;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::support::*;

/// Cases under way at once.
const AT_ONCE: usize = 32;
/// What no error, log or recording holds.
const SECRETS: [&str; 3] = ["Hunter2", "t0k3n-of-the-image", "operator-7"];

const VERBS: [&str; 20] = [
    "identity",
    "power_state",
    "set_power on",
    "set_power off",
    "set_power soft off",
    "set_power restart",
    "media",
    "insert_media",
    "insert_media boot once",
    "eject_media",
    "set_boot_device once",
    "set_boot_device persistent",
    "boot_settings",
    "set_http_boot_url",
    "boot_mode",
    "set_boot_mode",
    "secure_boot",
    "set_secure_boot",
    "raw_redfish",
    "raw_ribcl",
];

async fn run(verb: &str, bmc: &ProbedBmc) -> Result<(), BmcError> {
    match verb {
        "identity" => drop(bmc.identity().await?),
        "power_state" => drop(bmc.power_state().await?),
        "set_power on" => bmc.set_power(PowerAction::On).await?,
        "set_power off" => bmc.set_power(PowerAction::Off).await?,
        "set_power soft off" => bmc.set_power(PowerAction::SoftOff).await?,
        "set_power restart" => bmc.set_power(PowerAction::ForceRestart).await?,
        "media" => drop(bmc.media(Device::Cdrom).await?),
        "insert_media" => bmc.insert_media(Device::Cdrom, &image(URL)).await?,
        "insert_media boot once" => {
            let image = bmc::InsertMedia {
                boot_once: true,
                ..image(URL)
            };
            bmc.insert_media(Device::Cdrom, &image).await?;
        }
        "eject_media" => bmc.eject_media(Device::Cdrom).await?,
        "set_boot_device once" => bmc.set_boot_device(BootDevice::Cdrom, false).await?,
        "set_boot_device persistent" => bmc.set_boot_device(BootDevice::Disk, true).await?,
        "boot_settings" => drop(bmc.boot_settings().await?),
        "set_http_boot_url" => bmc.set_http_boot_url(&Secret::new(URL)).await?,
        "boot_mode" => drop(bmc.boot_mode().await?),
        "set_boot_mode" => bmc.set_boot_mode(BootMode::Bios).await?,
        "secure_boot" => drop(bmc.secure_boot().await?),
        "set_secure_boot" => bmc.set_secure_boot(true).await?,
        "raw_redfish" => drop(bmc.raw_redfish("GET", "/redfish/v1/Managers/", None).await?),
        "raw_ribcl" => drop(bmc.raw_ribcl("GET_FW_VERSION", &[]).await?),
        other => panic!("no verb {other}"),
    }
    Ok(())
}

/// Each kind of fault, as the effect of a rule.
const FAULTS: [&str; 27] = [
    "delay-ms = 30",
    "status = 500",
    "status = 503\nheaders = { Retry-After = '1' }",
    "status = 400\nmessage = 'iLO.2.14.UnableToModifyDuringSystemPOST'",
    "status = 400\nmessage = 'iLO.2.14.LicenseKeyRequired'",
    "status = 401",
    "status = 404",
    "status = 200\nmessage = '0x003C'",
    "status = 200\nbody = '[[[['",
    "status = 308\nheaders = { Location = 'https://192.0.2.1/redfish/v1/' }",
    "hang = true",
    "drop = true",
    "reset = 'request'",
    "reset = 'answer'",
    "truncate = 20",
    "split = 7",
    "content = 'garbage'",
    "content = 'html'",
    "content = 'wrong-type'",
    "content = 'empty'",
    "content = 'unfinished'",
    "stale = true",
    "stale-inserted-ms = 400",
    "session-table-full = true",
    "not-mounted = true",
    "bmc-reset = true",
    "clock-skew-s = 7200",
];

/// A verb that hangs must not take long, and on a busy machine an honest answer may be slow: a login whose answer is not waited for
/// leaves its session to the BMC.
fn impatient(sessions: bool) -> Deadlines {
    let (request, verb) = if sessions { (6, 8) } else { (2, 3) };
    Deadlines {
        connect: Duration::from_secs(5),
        request: Duration::from_secs(request),
        verb: Duration::from_secs(verb),
        settle: Duration::from_millis(500),
        ..quick()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_verb_of_redfish_survives_every_fault() {
    // Wherever a verb goes but for the login, whose answer may get lost with the only name of its session.
    sweep("ilo5", &["/redfish/v1/Systems*", "/redfish/v1/Managers*"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_verb_of_ris_survives_every_fault() {
    sweep("ilo4-ris", &["/rest/v1/Systems*", "/rest/v1/Managers*"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_verb_of_ribcl_survives_every_fault() {
    sweep("ilo3", &["/ribcl*"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_verb_of_raw_ribcl_survives_every_fault() {
    sweep("ilo2", &["/ribcl*"]).await;
}

/// One server for each verb and fault, the fault once or always.
async fn sweep(profile: &str, paths: &[&str]) {
    listen_to_logs();
    let mut cases = Vec::new();
    for verb in VERBS {
        for fault in FAULTS {
            cases.extend(["times = 1", ""].map(|times| (verb, fault, times)));
        }
    }
    let mut rules = String::new();
    for (server, (_, fault, times)) in cases.iter().enumerate() {
        for path in paths {
            rules.push_str(&format!(
                "[[rule]]\nserver = {server}\npath = '{path}'\n{times}\n{fault}\n"
            ));
        }
    }
    let faults = Faults::parse(&rules).unwrap();
    let lab = Arc::new(
        lab(profile, |config| {
            config.servers = cases.len();
            config.faults = faults.clone();
        })
        .await,
    );
    let sessions = profile == "ilo5";
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let mut running = JoinSet::new();
    for (server, (verb, fault, times)) in cases.into_iter().enumerate() {
        let (lab, turns) = (Arc::clone(&lab), Arc::clone(&turns));
        running.spawn(async move {
            let _turn = turns.acquire_owned().await.unwrap();
            let case = format!("{verb} against {fault:?} {times}");
            one(&lab, server, verb, &case, sessions).await;
        });
    }
    while let Some(done) = running.join_next().await {
        done.unwrap();
    }
    let unused: Vec<String> = faults
        .applied()
        .into_iter()
        .filter(|(_, count)| *count == 0)
        .map(|(name, _)| name)
        .collect();
    let all = faults.applied().len();
    assert!(
        unused.len() < all * 3 / 4,
        "{} of {all} rules never met a request",
        unused.len()
    );
    let trace = std::fs::read_to_string(lab.folder.path().join("trace.jsonl")).unwrap();
    assert!(!trace.contains("Hunter2"), "the simulator's trace holds the password");
    assert_eq!(*leaks(), Vec::<String>::new());
}

async fn one(lab: &Lab, server: usize, verb: &str, case: &str, sessions: bool) {
    let recorder = Arc::new(Recorder::default());
    let config = BmcConfig {
        deadlines: impatient(sessions),
        trace: Some(Arc::clone(&recorder) as Arc<dyn Trace>),
        ..lab.config(server)
    };
    let bmc = ProbedBmc::new(config.clone(), None).unwrap();
    let start = Instant::now();
    let ended = tokio::time::timeout(PATIENCE, run(verb, &bmc)).await;
    let ended = ended.unwrap_or_else(|_| panic!("{case}: did not end after {:?}", start.elapsed()));
    if let Err(error) = ended {
        let said = format!("{error} {error:?}");
        for secret in SECRETS {
            assert!(!said.contains(secret), "{case}: {said}");
        }
    }
    bmc.close().await;
    if case.contains("status = 401") {
        // A BMC that disowns a session which it keeps: what it said was gone is left to its own clock.
        assert!(lab.running.sessions(server).unwrap() <= 4, "{case}");
    } else {
        lab.no_session(server, case).await;
    }
    let lines = recorder
        .lines(&config)
        .unwrap_or_else(|error| panic!("{case}: {error}"));
    for line in lines {
        for secret in SECRETS {
            assert!(!line.contains(secret), "{case}: {secret} is recorded: {line}");
        }
    }
}

#[tokio::test]
async fn a_login_that_fails_in_any_way_leaves_no_session() {
    for fault in [
        "status = 503",
        "hang = true",
        "drop = true",
        "reset = 'request'",
        "session-table-full = true",
    ] {
        for times in ["times = 1", ""] {
            let lab = faulty("ilo5", &format!("[[rule]]\npath = '*/Sessions'\n{times}\n{fault}")).await;
            let config = BmcConfig {
                deadlines: impatient(true),
                ..lab.config(0)
            };
            let bmc = ProbedBmc::new(config, None).unwrap();
            let ended = tokio::time::timeout(PATIENCE, bmc.power_state()).await;
            assert!(ended.is_ok(), "{fault} {times}");
            bmc.close().await;
            lab.no_session(0, fault).await;
        }
    }
}

/// Lines of the log that hold a secret.
static LEAKS: OnceLock<Mutex<Vec<String>>> = OnceLock::new();

fn leaks() -> MutexGuard<'static, Vec<String>> {
    LEAKS.get_or_init(Mutex::default).lock().unwrap()
}

/// Looks through everything that is logged, at every level.
struct Listener;

impl Write for Listener {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        if SECRETS.iter().any(|secret| text.contains(secret)) {
            leaks().push(text.into_owned());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn listen_to_logs() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        tracing_subscriber::fmt()
            .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
            .with_ansi(false)
            .with_writer(|| Listener)
            .init();
        // It does hear.
        tracing::trace!("Hunter2 is said once to see that it would be heard");
        assert_eq!(std::mem::take(&mut *leaks()).len(), 1);
    });
}

//! Guests that trap, spin, hoard or shout: their call ends with a typed error, and nothing else does.

use std::time::{Duration, Instant};

use model::ProvisionState;
use runtime::{CallError, CallFailure, DriverError, Limits, Outcome, PluginConfig};

use crate::support::{context, grants, hostile, node, parameters, with_plugins, world};
use crate::world::TestWorld;

fn deploying() -> std::sync::Arc<runtime::CallContext> {
    context(node(ProvisionState::Deploying))
}

async fn run(world: &TestWorld, plugin: PluginConfig) -> runtime::Called<()> {
    with_plugins(world, vec![plugin])
        .await
        .unwrap()
        .prepare_ramdisk(&deploying(), &parameters())
        .await
}

async fn failure(plugin: PluginConfig) -> CallFailure {
    let called = run(&world(), plugin).await;
    match called.result {
        Err(CallError::Failed {
            plugin,
            function: "prepare-ramdisk",
            failure,
        }) if plugin == "hostile" => {
            assert_eq!(called.report.outcome, Outcome::Failed(failure.cause()));
            failure
        }
        other => panic!("{other:?}"),
    }
}

async fn answer(plugin: PluginConfig) -> DriverError {
    match run(&world(), plugin).await.result {
        Err(CallError::Answered(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_a_trap_and_an_error_is_an_answer() {
    assert!(matches!(failure(hostile("panic")).await, CallFailure::Trapped(_)));
    let expected = DriverError::Other {
        code: "not-today".into(),
        message: "as a policy may say".into(),
        retry_after_ms: Some(7),
    };
    assert_eq!(answer(hostile("answer")).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_recursion_is_a_trap() {
    assert!(matches!(failure(hostile("recurse")).await, CallFailure::Trapped(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_spinning_guest_is_stopped_while_other_calls_go_on() {
    let world = world();
    let limits = Limits {
        cpu: Duration::from_millis(1000),
        ..Limits::default()
    };
    let spin = PluginConfig {
        limits,
        matches: [("vendor".to_owned(), "Spinner".to_owned())].into(),
        ..hostile("spin")
    };
    let runtime = with_plugins(&world, vec![spin]).await.unwrap();
    let mut spinner = node(ProvisionState::Deploying);
    spinner.facts.insert("vendor".into(), "Spinner".into());
    let spinning = {
        let runtime = runtime.clone();
        tokio::spawn(async move { runtime.prepare_ramdisk(&context(spinner), &[]).await })
    };
    // One thread for all: were the spinning guest not made to yield, these would have to wait for its end.
    let mut done = 0;
    while !spinning.is_finished() {
        runtime
            .prepare_ramdisk(&deploying(), &parameters())
            .await
            .result
            .unwrap();
        done += 1;
    }
    // Each wait of theirs costs a tick of the spinning guest: a dozen calls a second are to be had, on a calm machine.
    assert!(done >= 2, "only {done} calls went on meanwhile");
    let called = spinning.await.unwrap();
    let Err(CallError::Failed {
        failure: CallFailure::CpuBudget(limit),
        ..
    }) = called.result
    else {
        panic!("{:?}", called.result)
    };
    assert_eq!(limit, Duration::from_millis(1000));
    assert!(
        called.report.cpu >= limit && called.report.cpu < limit * 3,
        "{:?}",
        called.report.cpu
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_a_slow_bmc_costs_no_cpu_time() {
    let world = world();
    world.model().delays.insert("bmc.insert", Duration::from_millis(300));
    let limits = Limits {
        cpu: Duration::from_millis(100),
        ..Limits::default()
    };
    let plugin = PluginConfig {
        limits,
        grant: grants(r#"{"vmedia-service":["prepare-ramdisk"]}"#),
        ..hostile("each")
    };
    // The chain ends in the built-in policy, which inserts twice; ticks go on all the while.
    let called = run(&world, plugin).await;
    let Err(CallError::Answered(DriverError::Invalid(said))) = called.result else {
        panic!("{:?}", called.result)
    };
    assert!(said.contains("vmedia-service.prepare-ramdisk: ok"), "{said}");
    assert!(called.report.wall >= Duration::from_millis(600));
    assert!(
        called.report.cpu < Duration::from_millis(100),
        "{:?}",
        called.report.cpu
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_without_end_is_refused() {
    let limits = Limits {
        memory: 8 << 20,
        ..Limits::default()
    };
    assert_eq!(
        failure(PluginConfig {
            limits,
            ..hostile("allocate")
        })
        .await,
        CallFailure::Memory(8 << 20)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_sleeps_too_long_is_stopped_at_its_wall_time() {
    let wall = Duration::from_millis(200);
    let began = Instant::now();
    let limits = Limits {
        wall,
        ..Limits::default()
    };
    assert_eq!(
        failure(PluginConfig {
            limits,
            ..hostile("sleep")
        })
        .await,
        CallFailure::WallBudget(wall)
    );
    assert!(began.elapsed() < Duration::from_secs(30));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_host_calls_ends() {
    assert_eq!(failure(hostile("storm")).await, CallFailure::HostCalls(200));
    // Functions that can fail say so first; a guest that does not listen is stopped.
    let world = world();
    let called = run(&world, hostile("stubborn")).await;
    assert!(matches!(
        called.result,
        Err(CallError::Failed {
            failure: CallFailure::HostCalls(200),
            ..
        })
    ));
    assert_eq!(
        world.asked().matches("bmc.media-state").count(),
        199,
        "one of the 200 read the setting"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn handles_that_are_never_dropped_run_out() {
    let limits = Limits {
        handles: 16,
        ..Limits::default()
    };
    assert_eq!(
        answer(PluginConfig {
            limits,
            ..hostile("hoard-handles")
        })
        .await,
        DriverError::Budget("handles".into())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shouting_guest_is_cut_short_and_goes_on() {
    let world = world();
    let limits = Limits {
        host_bytes: 16 << 20,
        ..Limits::default()
    };
    run(
        &world,
        PluginConfig {
            limits,
            ..hostile("shout")
        },
    )
    .await
    .result
    .unwrap();
    assert_eq!(world.model().logs.len(), 16, "64 KiB of log are 16 lines of 4 KiB");
}

#[tokio::test(flavor = "multi_thread")]
async fn more_bytes_than_allowed_never_reach_the_world() {
    let world = world();
    let called = run(&world, hostile("flood")).await;
    assert!(called.result.is_err());
    assert!(world.model().values.is_empty() && world.asked() == "\n");
    // Wasmtime refuses to copy what is larger than the call's own limit; what is smaller is counted by the broker.
    assert!(
        matches!(
            called.result,
            Err(CallError::Failed {
                failure: CallFailure::HostBytes(_),
                ..
            })
        ),
        "{:?}",
        called.result
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_function_that_was_not_granted_is_denied_by_name() {
    let DriverError::Invalid(said) = answer(PluginConfig {
        grant: grants("{}"),
        ..hostile("each")
    })
    .await
    else {
        panic!()
    };
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 20);
    for line in lines {
        let (name, answer) = line.split_once(": ").unwrap();
        assert!(answer.starts_with("Error::Denied(") && answer.contains(name), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stands_above_grants_is_denied_to_the_default_grant() {
    for (what, denied) in [
        ("steal-secret", "secrets: ilo_password"),
        ("outside-iso", "image.sources"),
        ("insert", "image.sources"),
    ] {
        assert_eq!(
            answer(hostile(what)).await,
            DriverError::Denied(denied.into()),
            "{what}"
        );
    }
    run(&world(), hostile("pass-on")).await.result.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_grant_makes_a_bmc_password_nameable() {
    let grant = grants(r#"{"image":{},"secrets":["ilo_password"]}"#);
    let world = world();
    run(
        &world,
        PluginConfig {
            grant,
            ..hostile("steal-secret")
        },
    )
    .await
    .result
    .unwrap();
    let asked = world.asked();
    // The name went to the world, which knows no such secret (see the live world's tests); the text is nowhere.
    assert!(asked.contains("ilo_password") && !asked.contains("hunter2"), "{asked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_effect_outlives_the_call_that_began_it() {
    let world = world();
    world.model().delays.insert("bmc.eject", Duration::from_millis(400));
    let runtime = with_plugins(&world, vec![hostile("eject")]).await.unwrap();
    let call = {
        let runtime = runtime.clone();
        tokio::spawn(async move { runtime.prepare_ramdisk(&deploying(), &[]).await })
    };
    let bound = Instant::now() + Duration::from_secs(20);
    while world.model().journal.is_empty() {
        assert!(Instant::now() < bound);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    while world.model().journal[0].1.is_none() {
        assert!(Instant::now() < bound, "the effect's result was never journalled");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(world.model().journal[0].1.as_deref(), Some("done"));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_happens_that_cannot_be_journalled() {
    let world = world();
    world
        .model()
        .faults
        .insert("journal", DriverError::Conflict("the lease is lost".into()));
    let called = run(&world, hostile("eject")).await;
    assert_eq!(
        called.result,
        Err(CallError::Answered(DriverError::Conflict("the lease is lost".into())))
    );
    assert_eq!(world.asked(), "\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_without_an_end_is_cut() {
    // Each hands on to the next: more of them than a chain may be long.
    let chain: Vec<PluginConfig> = (0..6).map(|_| hostile("eject-service")).collect();
    let world = world();
    let runtime = with_plugins(&world, chain).await.unwrap();
    let called = runtime.detach(&deploying(), model::Device::Cdrom).await;
    assert_eq!(
        called.result,
        Err(CallError::Answered(DriverError::Budget("depth of calls".into())))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_beyond_the_permits_wait_and_then_run() {
    let world = world();
    world.model().delays.insert("bmc.eject", Duration::from_millis(30));
    let engine = runtime::Engine::new(2).unwrap();
    let config = runtime::RuntimeConfig {
        plugins: vec![hostile("eject")],
        ..Default::default()
    };
    let observed = (std::sync::Arc::new(world.clone()), std::sync::Arc::new(world.clone()));
    let runtime = runtime::Runtime::new(&engine, config, observed.0, observed.1)
        .await
        .unwrap();
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let runtime = runtime.clone();
            tokio::spawn(async move { runtime.prepare_ramdisk(&deploying(), &[]).await.result })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(world.asked().matches("bmc.eject").count(), 20);
}

fn guest(fields: &str, body: &str) -> PluginConfig {
    PluginConfig {
        component: runtime::ComponentSource::Bytes {
            name: "hostile".to_owned(),
            bytes: crate::contract::vmedia_guest(fields, body).into(),
        },
        ..hostile("")
    }
}

async fn failure_of(plugin: PluginConfig) -> CallFailure {
    let runtime = with_plugins(&world(), vec![plugin]).await.unwrap();
    match runtime.clean_up_instance(&deploying()).await.result {
        Err(CallError::Failed { failure, .. }) => failure,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_and_memories_without_end_are_refused() {
    let grow = "(loop $more (drop (table.grow $t (ref.null func) (i32.const 1000))) (br $more)) unreachable";
    let table = guest("(table $t 10 funcref)", grow);
    assert_eq!(failure_of(table).await, CallFailure::Tables(10_000));
    let grow = "(loop $more (drop (memory.grow (i32.const 16))) (br $more)) unreachable";
    assert_eq!(failure_of(guest("", grow)).await, CallFailure::Memory(32 << 20));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spin_in_the_smallest_loop_is_stopped() {
    let cpu = Duration::from_millis(50);
    let limits = Limits {
        cpu,
        ..Limits::default()
    };
    let spin = PluginConfig {
        limits,
        ..guest("", "(loop $again (br $again)) unreachable")
    };
    assert_eq!(failure_of(spin).await, CallFailure::CpuBudget(cpu));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_pool_never_keeps_nested_calls_waiting() {
    let world = world();
    world.model().delays.insert("bmc.insert", Duration::from_millis(20));
    let engine = runtime::Engine::new(2).unwrap();
    // Each call leads to the next vmedia plugin, that to the built-in one, and that to backend selection: all four deep.
    let config = runtime::RuntimeConfig {
        plugins: vec![hand_on(), hand_on()],
        site_facts: [("callback-timeout-s".to_owned(), "1800".to_owned())].into(),
        ..Default::default()
    };
    let observed = (std::sync::Arc::new(world.clone()), std::sync::Arc::new(world.clone()));
    let runtime = runtime::Runtime::new(&engine, config, observed.0, observed.1)
        .await
        .unwrap();
    let calls: Vec<_> = (0..24)
        .map(|_| {
            let runtime = runtime.clone();
            tokio::spawn(async move { runtime.prepare_ramdisk(&deploying(), &parameters()).await.result })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    let deepest = world.model().reports.iter().map(|report| report.depth).max();
    assert_eq!(deepest, Some(3), "the chain is as deep as a chain may be");
}

fn hand_on() -> PluginConfig {
    hostile("hand-on")
}

//! A deploy ramdisk's agent: heartbeats into the store as the API would, and answers commands over HTTP.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use agent::CallbackPolicy;
use conductor::heartbeat::{self, Heartbeat, HeartbeatRefusal};
use model::{NodeId, Secret};
use nodes::{NodeRef, StoreError, Writer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::world::World;

/// What the ramdisk has been told and has done, for one boot.
#[derive(Default)]
struct Memory {
    commands: Vec<Value>,
    polls: u32,
}

/// One boot of a ramdisk; it ends when this is dropped.
pub(crate) struct Boot {
    _tasks: JoinSet<()>,
}

/// Boots a ramdisk that knows `token`.
pub(crate) async fn boot(world: Arc<World>, node: NodeId, token: Secret) -> Boot {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let callback_url = format!("http://{}", listener.local_addr().unwrap());
    let memory = Arc::new(Mutex::new(Memory::default()));
    let mut tasks = JoinSet::new();
    tasks.spawn(heartbeats(world.clone(), node, token.clone(), callback_url));
    tasks.spawn(async move {
        let mut open = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            open.spawn(answer(stream, world.clone(), node, token.clone(), memory.clone()));
        }
    });
    Boot { _tasks: tasks }
}

async fn heartbeats(world: Arc<World>, node: NodeId, token: Secret, callback_url: String) {
    let beat = Heartbeat {
        callback_url,
        agent_version: Some("sim".to_owned()),
        agent_token: Some(token),
        agent_verify_ca: None,
    };
    loop {
        tokio::time::sleep(Duration::from_millis(150)).await;
        if let Ok(Some(mut record)) = world.store.node(&NodeRef::Id(node)).await {
            match heartbeat::accept(&record.node, &beat, &policy(), SystemTime::now()) {
                Ok(contact) => record.node.agent = contact,
                // The last one often comes when the node is done with already.
                Err(HeartbeatRefusal::Unexpected) => continue,
                Err(refusal) => {
                    world.note(&node, &format!("heartbeat refused: {refusal}"));
                    continue;
                }
            }
            match world.store.update_node(&record, &Writer::User).await {
                Ok(_) | Err(StoreError::VersionConflict { .. }) => {}
                Err(error) => panic!("heartbeat: {error}"),
            }
        }
    }
}

pub(crate) fn policy() -> CallbackPolicy {
    CallbackPolicy {
        require_tls: false,
        networks: vec!["127.0.0.0/8".parse().unwrap()],
    }
}

async fn answer(mut stream: TcpStream, world: Arc<World>, node: NodeId, token: Secret, memory: Arc<Mutex<Memory>>) {
    let Some((line, body)) = read(&mut stream).await else {
        return;
    };
    let (status, reply) = if !line.contains(&format!("agent_token={}", token.expose())) {
        ("401 Unauthorized", json!({"faultstring": "Token invalid."}))
    } else if line.starts_with("GET") {
        let mut memory = memory.lock().unwrap();
        memory.polls += 1;
        if memory.polls >= 3 {
            finish(&world, node, &mut memory);
        }
        ("200 OK", json!({"commands": memory.commands}))
    } else {
        let request: Value = serde_json::from_str(&body).unwrap();
        let name = request["name"].as_str().unwrap().to_owned();
        let effect = format!("agent {name}");
        world.before(&node, &effect).await;
        let (status, reply) = take(&world, node, &name, &request, &memory);
        world.after(&node, &effect).await;
        (status, reply)
    };
    let body = reply.to_string();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all((head + &body).as_bytes()).await;
}

async fn read(stream: &mut TcpStream) -> Option<(String, String)> {
    let mut got = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let count = stream.read(&mut chunk).await.ok().filter(|count| *count > 0)?;
        got.extend_from_slice(&chunk[..count]);
        let text = String::from_utf8_lossy(&got).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let head = head.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.map_or(0, |digits| digits.parse().unwrap()) {
            return Some((text.lines().next()?.to_owned(), body.to_owned()));
        }
    }
}

/// Ends the command under way, as the world wants it.
fn finish(world: &World, node: NodeId, memory: &mut Memory) {
    let fails = world.lock(&node).image_fails;
    for command in memory
        .commands
        .iter_mut()
        .filter(|command| command["command_status"] == "RUNNING")
    {
        if fails {
            command["command_status"] = json!("FAILED");
            command["command_error"] = json!({"type": "ImageChecksumError", "message": "the digest is another one"});
        } else {
            command["command_status"] = json!("SUCCEEDED");
            let step = command["step"].clone();
            command["command_result"] = json!({"clean_result": null, "clean_step": step});
        }
    }
}

fn take(world: &World, node: NodeId, name: &str, request: &Value, memory: &Mutex<Memory>) -> (&'static str, Value) {
    let mut memory = memory.lock().unwrap();
    if memory
        .commands
        .iter()
        .any(|command| command["command_status"] == "RUNNING")
    {
        return (
            "409 Conflict",
            json!({"type": "AgentIsBusy", "message": "agent is busy"}),
        );
    }
    world.note(&node, &format!("agent {name}"));
    memory.polls = 0;
    let (status, result) = match name {
        "deploy.get_deploy_steps" => ("SUCCEEDED", json!({"deploy_steps": {}})),
        "clean.get_clean_steps" => (
            "SUCCEEDED",
            json!({"hardware_manager_version": {"m": "1"}, "clean_steps": {"m": [
                {"step": "erase", "interface": "deploy", "priority": 10},
                {"step": "wipe", "interface": "deploy", "priority": 99},
                {"step": "manual", "interface": "deploy", "priority": 0}]}}),
        ),
        "standby.prepare_image" => {
            let url = &request["params"]["image_info"]["urls"][0];
            world.note(&node, &format!("image {}", url.as_str().unwrap()));
            ("RUNNING", json!({"percent": 40}))
        }
        "clean.execute_clean_step" => {
            let step = &request["params"]["step"]["step"];
            world.note(&node, &format!("clean step {}", step.as_str().unwrap()));
            ("RUNNING", Value::Null)
        }
        "standby.power_off" => {
            if !world.lock(&node).ignores_power_off {
                world.power_fails(node);
            }
            ("SUCCEEDED", Value::Null)
        }
        _ => ("SUCCEEDED", Value::Null),
    };
    let id = format!("command-{}", memory.commands.len());
    // Agents do not all repeat the parameters; this one does not.
    let short = name.rsplit('.').next().unwrap();
    let command = json!({"id": id, "command_name": short, "command_status": status, "command_params": {},
        "command_result": result, "command_error": null, "step": request["params"]["step"]});
    memory.commands.push(command.clone());
    ("200 OK", command)
}

//! `TaskService`: what became of changes that were accepted. Tasks here are done as soon as they are made.

use std::sync::Arc;

use serde_json::{Value, json};

use super::reply::Reply;
use crate::server::{Server, Task};

/// Answers 202 for a change that was just made.
pub(super) fn accept(server: &Arc<Server>) -> Reply {
    let missing = server.config.profile.redfish.insert.task_missing;
    let id = server.state().add_task(missing);
    let path = path(id);
    let body = json!({
        "@odata.id": path,
        "@odata.type": "#Task.v1_4_3.Task",
        "Id": id.to_string(),
        "Name": "Task",
        "TaskState": "New",
    });
    Reply::accepted(&path, body)
}

pub(super) fn service() -> Value {
    json!({
        "@odata.id": "/redfish/v1/TaskService",
        "@odata.type": "#TaskService.v1_1_4.TaskService",
        "Id": "TaskService",
        "Name": "Task Service",
        "ServiceEnabled": true,
        "Tasks": {"@odata.id": "/redfish/v1/TaskService/Tasks"},
    })
}

pub(super) fn collection(server: &Arc<Server>) -> Value {
    let state = server.state();
    let known = state.tasks.iter().filter(|task| task.missing == 0);
    let members: Vec<Value> = known.map(|task| json!({"@odata.id": path(task.id)})).collect();
    json!({
        "@odata.id": "/redfish/v1/TaskService/Tasks",
        "@odata.type": "#TaskCollection.TaskCollection",
        "Name": "Tasks",
        "Members@odata.count": members.len(),
        "Members": members,
    })
}

/// One task; one that is still missing is looked for in vain, and once less from then on.
pub(super) fn one(server: &Arc<Server>, id: &str) -> Option<Value> {
    let id: u64 = id.parse().ok()?;
    let mut state = server.state();
    let task = state.tasks.iter_mut().find(|task| task.id == id)?;
    if task.missing > 0 {
        task.missing -= 1;
        return None;
    }
    Some(document(task))
}

fn document(task: &Task) -> Value {
    json!({
        "@odata.id": path(task.id),
        "@odata.type": "#Task.v1_4_3.Task",
        "Id": task.id.to_string(),
        "Name": "Virtual media",
        "TaskState": "Completed",
        "TaskStatus": "OK",
        "StartTime": task.made,
        "EndTime": task.made,
        "Messages": [],
    })
}

fn path(id: u64) -> String {
    format!("/redfish/v1/TaskService/Tasks/{id}")
}

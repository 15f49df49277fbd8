//! QEMU's machine protocol: one command at a time, events beside it.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// How long QEMU may take to answer.
const DEADLINE: Duration = Duration::from_secs(30);
/// Longest line in bytes.
const LINE_CAP: u64 = 1 << 20;

/// A connection to a running QEMU.
pub(crate) struct Qmp {
    writer: OwnedWriteHalf,
    replies: mpsc::Receiver<Value>,
    pub(crate) events: mpsc::Receiver<Event>,
    reader: JoinHandle<()>,
}

/// Something that happened in QEMU.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) data: Value,
}

impl Qmp {
    /// Connects as soon as QEMU listens and leaves the negotiation behind.
    pub(crate) async fn connect(path: &Path) -> Result<Self, String> {
        let stream = timeout(DEADLINE, async {
            loop {
                match UnixStream::connect(path).await {
                    Ok(stream) => return stream,
                    Err(_) => sleep(Duration::from_millis(20)).await,
                }
            }
        })
        .await
        .map_err(|_| format!("QEMU did not open its control socket within {DEADLINE:?}"))?;
        let (read, writer) = stream.into_split();
        let (reply_to, replies) = mpsc::channel(16);
        let (event_to, events) = mpsc::channel(256);
        let reader = tokio::spawn(async move {
            let mut reader = BufReader::new(read);
            let mut line = Vec::new();
            loop {
                line.clear();
                let got = (&mut reader).take(LINE_CAP).read_until(b'\n', &mut line).await;
                if got.is_err() || line.last() != Some(&b'\n') {
                    return;
                }
                let Ok(value) = serde_json::from_slice::<Value>(&line) else {
                    return;
                };
                if let Some(name) = value.get("event").and_then(Value::as_str) {
                    let event = Event {
                        name: name.to_owned(),
                        data: value.get("data").cloned().unwrap_or(Value::Null),
                    };
                    // A flood of events must not stall the replies; the ones that matter come singly.
                    let _ = event_to.try_send(event);
                } else if value.get("QMP").is_none() && reply_to.send(value).await.is_err() {
                    return;
                }
            }
        });
        let mut qmp = Self {
            writer,
            replies,
            events,
            reader,
        };
        qmp.execute("qmp_capabilities", json!({})).await?;
        Ok(qmp)
    }

    /// Runs one command and returns what it returns.
    pub(crate) async fn execute(&mut self, command: &str, arguments: Value) -> Result<Value, String> {
        let mut line = json!({"execute": command, "arguments": arguments}).to_string();
        line.push('\n');
        let reply = timeout(DEADLINE, async {
            self.writer
                .write_all(line.as_bytes())
                .await
                .map_err(|error| error.to_string())?;
            self.replies.recv().await.ok_or_else(|| "QEMU is gone".to_owned())
        })
        .await
        .map_err(|_| format!("QEMU did not answer {command} within {DEADLINE:?}"))??;
        match reply.get("error") {
            Some(error) => {
                let reason = error.get("desc").and_then(Value::as_str).unwrap_or("no reason");
                Err(format!("QEMU refused {command}: {reason}"))
            }
            None => Ok(reply.get("return").cloned().unwrap_or(Value::Null)),
        }
    }
}

impl Drop for Qmp {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

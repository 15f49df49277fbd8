//! What happened, for people.

use std::time::SystemTime;

use model::{ConductorName, NodeId};
use rusqlite::Row;

use super::Session;
use super::rows::{corrupt, cut, int, number, parsed_option};
use super::trouble::Trouble;
use crate::Event;
use crate::document::{nanos, time};

/// Events that are kept, over all nodes.
const KEPT: i64 = 1_000_000;
/// Old ones are removed each time that so many were added.
const SWEEP: i64 = 256;
/// Characters of a message; more is cut.
const TEXT: usize = 4096;
/// Events in one answer.
const PAGE: u32 = 10_000;

pub(super) fn append(
    s: &Session<'_>,
    node: Option<&NodeId>,
    conductor: Option<&ConductorName>,
    kind: &str,
    message: &str,
) -> Result<u64, Trouble> {
    let seq: i64 =
        s.db.prepare_cached(
            "INSERT INTO event(at, node, conductor, kind, message) VALUES(?1, ?2, ?3, ?4, ?5) RETURNING seq",
        )?
        .query_row(
            (
                nanos(SystemTime::now()),
                node.map(NodeId::to_string),
                conductor.map(ConductorName::as_str),
                cut(kind, TEXT),
                cut(message, TEXT),
            ),
            |row| row.get(0),
        )?;
    if seq % SWEEP == 0 {
        s.db.prepare_cached("DELETE FROM event WHERE seq <= ?1")?
            .execute([seq - KEPT])?;
    }
    u64::try_from(seq).map_err(|_| corrupt("event", "its number is negative"))
}

pub(super) fn list(s: &Session<'_>, node: Option<&NodeId>, after: u64, limit: u32) -> Result<Vec<Event>, Trouble> {
    let mut found = Vec::new();
    let limit = limit.min(PAGE);
    match node {
        Some(node) => {
            let mut statement =
                s.db.prepare_cached("SELECT * FROM event WHERE node = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3")?;
            let mut rows = statement.query((node.to_string(), int(after), limit))?;
            while let Some(row) = rows.next()? {
                found.push(event(row)?);
            }
        }
        None => {
            let mut statement =
                s.db.prepare_cached("SELECT * FROM event WHERE seq > ?1 ORDER BY seq LIMIT ?2")?;
            let mut rows = statement.query((int(after), limit))?;
            while let Some(row) = rows.next()? {
                found.push(event(row)?);
            }
        }
    }
    Ok(found)
}

fn event(row: &Row<'_>) -> Result<Event, Trouble> {
    Ok(Event {
        seq: number(row, "seq")?,
        at: time(row.get("at")?),
        node: parsed_option(row, "node")?,
        conductor: parsed_option(row, "conductor")?,
        kind: row.get("kind")?,
        message: row.get("message")?,
    })
}

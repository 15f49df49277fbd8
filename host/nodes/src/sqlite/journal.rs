//! Effects on the world, journalled before they happen.

use std::time::SystemTime;

use model::{NodeId, Tenure};
use rusqlite::{OptionalExtension, Row};

use super::rows::{cut, int, number, parsed};
use super::trouble::Trouble;
use super::{Session, leases};
use crate::document::{nanos, time};
use crate::{Effect, Outcome, StoreError};

/// Ended effects that are kept of each node; one whose end is unknown is kept until the node goes.
const KEPT: i64 = 100;
/// Characters of a detail or a failure; more is cut.
const TEXT: usize = 4096;

pub(super) fn begin(
    s: &Session<'_>,
    node: &NodeId,
    tenure: &Tenure,
    action: &str,
    detail: &str,
) -> Result<u64, Trouble> {
    leases::held(s, node, tenure)?;
    let id: i64 = s
        .db
        .prepare_cached(
            "INSERT INTO effect(node, conductor, term, action, detail, began_at) VALUES(?1, ?2, ?3, ?4, ?5, ?6) RETURNING id",
        )?
        .query_row(
            (
                node.to_string(),
                tenure.conductor.as_str(),
                int(tenure.term),
                cut(action, TEXT),
                cut(detail, TEXT),
                nanos(SystemTime::now()),
            ),
            |row| row.get(0),
        )?;
    s.db.prepare_cached(
        "DELETE FROM effect WHERE node = ?1 AND ended = 1
             AND id <= (SELECT id FROM effect WHERE node = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
    )?
    .execute((node.to_string(), KEPT))?;
    u64::try_from(id).map_err(|_| super::rows::corrupt("effect", "its id is negative"))
}

pub(super) fn end(s: &Session<'_>, id: u64, outcome: &Outcome) -> Result<(), Trouble> {
    let failure = match outcome {
        Outcome::Done => None,
        Outcome::Failed(reason) => Some(cut(reason, TEXT)),
    };
    let ended =
        s.db.prepare_cached("UPDATE effect SET ended = 1, failure = ?2 WHERE id = ?1 AND ended = 0")?
            .execute((int(id), failure))?;
    if ended > 0 {
        return Ok(());
    }
    let known: Option<i64> =
        s.db.prepare_cached("SELECT 1 FROM effect WHERE id = ?1")?
            .query_row([int(id)], |row| row.get(0))
            .optional()?;
    match known {
        Some(_) => Ok(()),
        None => Err(Trouble::Refused(StoreError::NotFound {
            what: "effect",
            value: id.to_string(),
        })),
    }
}

pub(super) fn list(s: &Session<'_>, node: &NodeId, limit: u32) -> Result<Vec<Effect>, Trouble> {
    let mut statement = s.db.prepare_cached(
        "SELECT id, node, conductor, term, action, detail, began_at, ended, failure
         FROM effect WHERE node = ?1 ORDER BY id DESC LIMIT ?2",
    )?;
    let mut rows = statement.query((node.to_string(), limit))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(effect(row)?);
    }
    Ok(found)
}

fn effect(row: &Row<'_>) -> Result<Effect, Trouble> {
    let ended: bool = row.get("ended")?;
    let failure: Option<String> = row.get("failure")?;
    Ok(Effect {
        id: number(row, "id")?,
        node: parsed(row, "node")?,
        tenure: Tenure {
            conductor: parsed(row, "conductor")?,
            term: number(row, "term")?,
        },
        action: row.get("action")?,
        detail: row.get("detail")?,
        began_at: time(row.get("began_at")?),
        outcome: ended.then(|| failure.map_or(Outcome::Done, Outcome::Failed)),
    })
}

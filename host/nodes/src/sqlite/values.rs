//! Values that plugins keep for a node: compare and set.

use model::NodeId;
use rusqlite::OptionalExtension;

use super::Session;
use super::nodes::not_found;
use super::rows::{cut, int, number};
use super::trouble::Trouble;
use crate::{PluginValue, StoreError};

const VALUE_BYTES: usize = 512 << 10;

pub(super) fn get(s: &Session<'_>, node: &NodeId, plugin: &str, key: &str) -> Result<Option<PluginValue>, Trouble> {
    let mut statement =
        s.db.prepare_cached("SELECT version, value FROM plugin_value WHERE node = ?1 AND plugin = ?2 AND key = ?3")?;
    let mut rows = statement.query((node.to_string(), plugin, key))?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    Ok(Some(PluginValue {
        version: number(row, "version")?,
        value: row.get("value")?,
    }))
}

pub(super) fn put(
    s: &Session<'_>,
    node: &NodeId,
    plugin: &str,
    key: &str,
    value: &str,
    expect: Option<u64>,
) -> Result<u64, Trouble> {
    if value.len() > VALUE_BYTES {
        return Err(Trouble::Refused(StoreError::TooBig {
            what: format!("the value `{}`", cut(key, 80)),
            reason: format!("{} bytes of {VALUE_BYTES} at most", value.len()),
        }));
    }
    let node_exists =
        s.db.prepare_cached("SELECT 1 FROM node WHERE id = ?1")?
            .exists([node.to_string()])?;
    if !node_exists {
        return Err(not_found(node));
    }
    let found: Option<i64> =
        s.db.prepare_cached("SELECT version FROM plugin_value WHERE node = ?1 AND plugin = ?2 AND key = ?3")?
            .query_row((node.to_string(), plugin, key), |row| row.get(0))
            .optional()?;
    if found != expect.map(int) {
        return Err(Trouble::Refused(StoreError::ValueConflict {
            key: cut(key, 80).to_owned(),
            found: found.and_then(|found| u64::try_from(found).ok()).unwrap_or(0),
        }));
    }
    let version = expect.unwrap_or(0).saturating_add(1);
    s.db.prepare_cached(
        "INSERT OR REPLACE INTO plugin_value(node, plugin, key, version, value) VALUES(?1, ?2, ?3, ?4, ?5)",
    )?
    .execute((node.to_string(), plugin, key, int(version), value))?;
    Ok(version)
}

pub(super) fn delete(s: &Session<'_>, node: &NodeId, plugin: &str, key: &str) -> Result<(), Trouble> {
    s.db.prepare_cached("DELETE FROM plugin_value WHERE node = ?1 AND plugin = ?2 AND key = ?3")?
        .execute((node.to_string(), plugin, key))?;
    Ok(())
}

//! Network ports: addresses are unique in the store.

use model::{MacAddress, NodeId, Port};
use rusqlite::{OptionalExtension, Row, params_from_iter};

use super::Session;
use super::nodes::{not_found, one};
use super::rows::parsed;
use super::trouble::Trouble;
use crate::{NodeRef, Record, StoreError};

pub(super) fn create(s: &Session<'_>, port: &Port) -> Result<(), Trouble> {
    let node_exists =
        s.db.prepare_cached("SELECT 1 FROM node WHERE id = ?1")?
            .exists([port.node.to_string()])?;
    if !node_exists {
        return Err(not_found(&port.node));
    }
    let id_is_taken =
        s.db.prepare_cached("SELECT 1 FROM port WHERE id = ?1")?
            .exists([&port.id])?;
    if id_is_taken {
        return Err(duplicate("port UUID", port.id.clone(), String::new()));
    }
    let holder: Option<String> =
        s.db.prepare_cached("SELECT node FROM port WHERE address = ?1")?
            .query_row([port.address.to_string()], |row| row.get(0))
            .optional()?;
    if let Some(node) = holder {
        let by = format!(" by a port of node {node}");
        return Err(duplicate("MAC address", port.address.to_string(), by));
    }
    s.db.prepare_cached("INSERT INTO port(id, node, address) VALUES(?1, ?2, ?3)")?
        .execute((&port.id, port.node.to_string(), port.address.to_string()))?;
    Ok(())
}

pub(super) fn list(s: &Session<'_>, node: Option<&NodeId>) -> Result<Vec<Port>, Trouble> {
    let sql = match node {
        Some(_) => "SELECT id, node, address FROM port WHERE node = ?1 ORDER BY id",
        None => "SELECT id, node, address FROM port ORDER BY id",
    };
    let mut statement = s.db.prepare_cached(sql)?;
    let mut rows = statement.query(params_from_iter(node.map(NodeId::to_string)))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(port(row)?);
    }
    Ok(found)
}

pub(super) fn delete(s: &Session<'_>, id: &str) -> Result<(), Trouble> {
    let removed = s.db.prepare_cached("DELETE FROM port WHERE id = ?1")?.execute([id])?;
    if removed == 0 {
        return Err(Trouble::Refused(StoreError::NotFound {
            what: "port",
            value: super::rows::cut(id, 80).to_owned(),
        }));
    }
    Ok(())
}

/// Asked one by one: a server shows a handful of addresses, and each is an index look-up.
pub(super) fn node_by_macs(s: &Session<'_>, macs: &[MacAddress]) -> Result<Option<Record>, Trouble> {
    let mut statement = s.db.prepare_cached("SELECT node FROM port WHERE address = ?1")?;
    for mac in macs {
        let mut rows = statement.query([mac.to_string()])?;
        if let Some(row) = rows.next()? {
            return one(s, &NodeRef::Id(parsed(row, "node")?));
        }
    }
    Ok(None)
}

fn port(row: &Row<'_>) -> Result<Port, Trouble> {
    Ok(Port {
        id: row.get("id")?,
        node: parsed(row, "node")?,
        address: parsed(row, "address")?,
    })
}

fn duplicate(what: &'static str, value: String, by: String) -> Trouble {
    Trouble::Refused(StoreError::Duplicate { what, value, by })
}

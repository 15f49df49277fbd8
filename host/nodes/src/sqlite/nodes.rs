//! Node records: read, listed, written against their version.

use std::collections::BTreeMap;
use std::time::SystemTime;

use model::{Node, NodeId, Port, ProvisionState};
use rusqlite::{OptionalExtension, Row, named_params, params_from_iter, types::Value};

use super::rows::{corrupt, int, number, parsed, parsed_option};
use super::trouble::Trouble;
use super::{Session, leases, ports};
use crate::document::{self, Columns, nanos, time};
use crate::{Filter, NodeRef, Record, StoreError, Writer};

/// What a record may weigh: the document that users fill, and what is sealed (a config drive among it).
const DOCUMENT_BYTES: usize = 1 << 20;
const SEALED_BYTES: usize = 96 << 20;
const DEPTH: usize = 64;

const COLUMNS: &str =
    "id, name, state, grp, maintenance, owner, term, version, change, created_at, updated_at, document, sealed";

const COUNTS: &str = "SELECT state, count(*) AS nodes FROM node GROUP BY state";

/// What goes into the columns that a node fills.
struct Written {
    document: String,
    sealed: Option<Vec<u8>>,
}

pub(super) fn create(s: &Session<'_>, node: &Node, ports: &[Port]) -> Result<Record, Trouble> {
    let taken: Option<Option<String>> =
        s.db.prepare_cached("SELECT name FROM node WHERE id = ?1")?
            .query_row([node.id.to_string()], |row| row.get(0))
            .optional()?;
    if let Some(name) = taken {
        return Err(Trouble::Refused(StoreError::Duplicate {
            what: "node UUID",
            value: node.id.to_string(),
            by: name.map_or(String::new(), |name| format!(" by node `{name}`")),
        }));
    }
    name_is_free(s, node)?;
    let Written { document, sealed } = written(s, node)?;
    let now = nanos(SystemTime::now());
    s.db.prepare_cached(
        "INSERT INTO node(id, name, state, grp, maintenance, term, version, change, created_at, updated_at, document, sealed)
         VALUES(:id, :name, :state, :grp, :maintenance, 0, 1, :change, :now, :now, :document, :sealed)",
    )?
    .execute(named_params! {
        ":id": node.id.to_string(),
        ":name": node.name.as_ref().map(|name| name.as_str()),
        ":state": node.provision_state.as_str(),
        ":grp": node.conductor_group,
        ":maintenance": node.maintenance,
        ":change": next_change(s)?,
        ":now": now,
        ":document": document,
        ":sealed": sealed,
    })?;
    for port in ports {
        let port = Port {
            node: node.id,
            ..port.clone()
        };
        ports::create(s, &port)?;
    }
    Ok(Record {
        node: node.clone(),
        version: 1,
        owner: None,
        term: 0,
        created_at: time(now),
        updated_at: time(now),
    })
}

pub(super) fn one(s: &Session<'_>, node: &NodeRef) -> Result<Option<Record>, Trouble> {
    let (column, value) = match node {
        NodeRef::Id(id) => ("id", id.to_string()),
        NodeRef::Name(name) => ("name", name.as_str().to_owned()),
    };
    let sql = format!("SELECT {COLUMNS} FROM node WHERE {column} = ?1");
    let mut statement = s.db.prepare_cached(&sql)?;
    let mut rows = statement.query([value])?;
    rows.next()?.map(|row| record(s, row)).transpose()
}

pub(super) fn list(s: &Session<'_>, filter: &Filter) -> Result<Vec<Record>, Trouble> {
    let (sql, values) = listing(filter);
    let mut statement = s.db.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(record(s, row)?);
    }
    Ok(found)
}

fn listing(filter: &Filter) -> (String, Vec<Value>) {
    let mut sql = format!("SELECT {COLUMNS} FROM node WHERE true");
    let mut values: Vec<Value> = Vec::new();
    if let Some(state) = filter.provision_state {
        sql.push_str(" AND state = ?");
        values.push(state.as_str().to_owned().into());
    }
    if let Some(owner) = &filter.owner {
        sql.push_str(" AND owner = ?");
        values.push(owner.as_str().to_owned().into());
    }
    match filter.maintenance {
        // Literals, so that the partial index is seen to fit.
        Some(true) => sql.push_str(" AND maintenance = 1"),
        Some(false) => sql.push_str(" AND maintenance = 0"),
        None => {}
    }
    if let Some(after) = &filter.after {
        sql.push_str(" AND id > ?");
        values.push(after.to_string().into());
    }
    sql.push_str(" ORDER BY id");
    if let Some(limit) = filter.limit {
        sql.push_str(" LIMIT ?");
        values.push(i64::from(limit).into());
    }
    (sql, values)
}

pub(super) fn changed_after(s: &Session<'_>, change: u64, limit: u32) -> Result<Vec<(u64, Record)>, Trouble> {
    let sql = changes();
    let mut statement = s.db.prepare_cached(&sql)?;
    let mut rows = statement.query((int(change), limit))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push((number(row, "change")?, record(s, row)?));
    }
    Ok(found)
}

fn changes() -> String {
    format!("SELECT {COLUMNS} FROM node WHERE change > ?1 ORDER BY change LIMIT ?2")
}

pub(super) fn update(s: &Session<'_>, seen: &Record, writer: &Writer) -> Result<Record, Trouble> {
    let node = &seen.node;
    if let Writer::Conductor(tenure) = writer {
        leases::held(s, &node.id, tenure)?;
    }
    version_is(s, seen)?;
    name_is_free(s, node)?;
    let Written { document, sealed } = written(s, node)?;
    let now = nanos(SystemTime::now());
    s.db.prepare_cached(
        "UPDATE node SET name = :name, state = :state, grp = :grp, maintenance = :maintenance,
             version = version + 1, change = :change, updated_at = :now, document = :document, sealed = :sealed
         WHERE id = :id",
    )?
    .execute(named_params! {
        ":id": node.id.to_string(),
        ":name": node.name.as_ref().map(|name| name.as_str()),
        ":state": node.provision_state.as_str(),
        ":grp": node.conductor_group,
        ":maintenance": node.maintenance,
        ":change": next_change(s)?,
        ":now": now,
        ":document": document,
        ":sealed": sealed,
    })?;
    one(s, &NodeRef::Id(node.id))?.ok_or_else(|| not_found(&node.id))
}

pub(super) fn delete(s: &Session<'_>, seen: &Record) -> Result<(), Trouble> {
    version_is(s, seen)?;
    s.db.prepare_cached("DELETE FROM node WHERE id = ?1")?
        .execute([seen.node.id.to_string()])?;
    next_change(s)?;
    Ok(())
}

pub(super) fn counts(s: &Session<'_>) -> Result<BTreeMap<&'static str, u64>, Trouble> {
    let mut statement = s.db.prepare_cached(COUNTS)?;
    let mut rows = statement.query([])?;
    let mut counts = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let state: ProvisionState = parsed(row, "state")?;
        counts.insert(state.as_str(), number(row, "nodes")?);
    }
    Ok(counts)
}

pub(super) fn change_number(s: &Session<'_>) -> Result<u64, Trouble> {
    let mut statement = s.db.prepare_cached("SELECT value FROM meta WHERE name = 'change'")?;
    let mut rows = statement.query([])?;
    match rows.next()? {
        Some(row) => number(row, "value"),
        None => Err(corrupt("change", "it is missing")),
    }
}

/// Counts one more change of a node.
pub(super) fn next_change(s: &Session<'_>) -> Result<i64, Trouble> {
    Ok(s.db
        .prepare_cached("UPDATE meta SET value = value + 1 WHERE name = 'change' RETURNING value")?
        .query_row([], |row| row.get(0))?)
}

pub(super) fn not_found(node: &NodeId) -> Trouble {
    Trouble::Refused(StoreError::NotFound {
        what: "node",
        value: node.to_string(),
    })
}

fn version_is(s: &Session<'_>, seen: &Record) -> Result<(), Trouble> {
    let id = seen.node.id;
    let version: Option<i64> =
        s.db.prepare_cached("SELECT version FROM node WHERE id = ?1")?
            .query_row([id.to_string()], |row| row.get(0))
            .optional()?;
    match version {
        None => Err(not_found(&id)),
        Some(version) if version == int(seen.version) => Ok(()),
        Some(_) => Err(Trouble::Refused(StoreError::VersionConflict { node: id.to_string() })),
    }
}

fn name_is_free(s: &Session<'_>, node: &Node) -> Result<(), Trouble> {
    let Some(name) = &node.name else {
        return Ok(());
    };
    let holder: Option<String> =
        s.db.prepare_cached("SELECT id FROM node WHERE name = ?1 AND id <> ?2")?
            .query_row((name.as_str(), node.id.to_string()), |row| row.get(0))
            .optional()?;
    match holder {
        None => Ok(()),
        Some(id) => Err(Trouble::Refused(StoreError::Duplicate {
            what: "node name",
            value: name.to_string(),
            by: format!(" by node {id}"),
        })),
    }
}

fn written(s: &Session<'_>, node: &Node) -> Result<Written, Trouble> {
    let too_big = |reason: String| {
        Trouble::Refused(StoreError::TooBig {
            what: format!("the record of node {}", node.id),
            reason,
        })
    };
    if document::is_deeper_than(node, DEPTH) {
        let reason = format!("its fields are nested deeper than {DEPTH} levels");
        return Err(too_big(reason));
    }
    let (document, secrets) = document::take_apart(node);
    let json = |error: serde_json::Error| too_big(error.to_string());
    let document = serde_json::to_string(&document).map_err(json)?;
    let secrets = (!secrets.is_empty())
        .then(|| serde_json::to_vec(&secrets))
        .transpose()
        .map_err(json)?;
    for (what, size, limit) in [
        ("fields take", document.len(), DOCUMENT_BYTES),
        (
            "secrets and config drive take",
            secrets.as_ref().map_or(0, Vec::len),
            SEALED_BYTES,
        ),
    ] {
        if size > limit {
            return Err(too_big(format!("its {what} {size} bytes of {limit} at most")));
        }
    }
    let sealed = secrets.map(|text| s.shared.sealer.seal(&seal_place(&node.id), &text));
    Ok(Written { document, sealed })
}

pub(super) fn record(s: &Session<'_>, row: &Row<'_>) -> Result<Record, Trouble> {
    let columns = Columns {
        id: parsed(row, "id")?,
        name: parsed_option(row, "name")?,
        state: parsed(row, "state")?,
        group: row.get("grp")?,
        maintenance: row.get("maintenance")?,
    };
    let id = columns.id;
    let broken = |reason: String| corrupt(&format!("node {id}"), &reason);
    let document = row.get_ref("document")?.as_str().map_err(rusqlite::Error::from)?;
    let document = serde_json::from_str(document).map_err(|error| broken(error.to_string()))?;
    let sealed: Option<Vec<u8>> = row.get("sealed")?;
    let secrets = match sealed {
        None => document::Secrets::default(),
        Some(sealed) => {
            let text = s
                .shared
                .sealer
                .open(&seal_place(&id), &sealed)
                .ok_or_else(|| broken(s.shared.unsealable()))?;
            serde_json::from_slice(&text).map_err(|error| broken(error.to_string()))?
        }
    };
    Ok(Record {
        node: document::put_together(columns, document, secrets).map_err(broken)?,
        version: number(row, "version")?,
        owner: parsed_option(row, "owner")?,
        term: number(row, "term")?,
        created_at: time(row.get("created_at")?),
        updated_at: time(row.get("updated_at")?),
    })
}

fn seal_place(node: &NodeId) -> String {
    format!("node {node} secrets")
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    #[test]
    fn no_listing_sorts_and_none_but_that_of_every_node_reads_more_than_it_returns() {
        let folder = tempfile::tempdir().unwrap();
        let sealer = crate::Sealer::from_file(&folder.path().join("key")).unwrap();
        let mut db = Connection::open(folder.path().join("db")).unwrap();
        super::super::schema::migrate(&mut db, &sealer, "db").unwrap();
        let plan = |sql: &str| {
            let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let mut rows = statement.raw_query();
            let mut plan = String::new();
            while let Some(row) = rows.next().unwrap() {
                plan.push_str(&row.get::<_, String>("detail").unwrap());
            }
            assert!(!plan.contains("TEMP B-TREE"), "{sql}: {plan}");
            plan
        };
        let filter = Filter::default();
        let by_state = Filter {
            provision_state: Some(ProvisionState::Active),
            ..filter.clone()
        };
        let by_owner = Filter {
            owner: Some("c1".parse().unwrap()),
            ..filter.clone()
        };
        let in_maintenance = Filter {
            maintenance: Some(true),
            ..filter.clone()
        };
        for (filter, expected) in [
            (by_state, "node_by_state (state=? AND id>?)"),
            (by_owner, "node_by_owner (owner=? AND id>?)"),
            (in_maintenance, "node_in_maintenance (id>?)"),
            (filter, "sqlite_autoindex_node_1 (id>?)"),
        ] {
            let page = Filter {
                after: Some(NodeId::random()),
                limit: Some(100),
                ..filter
            };
            let plan = plan(&listing(&page).0);
            assert!(plan.contains(expected), "{plan}");
        }
        assert!(plan(&changes()).contains("node_by_change (change>?)"));
        assert!(plan(COUNTS).contains("COVERING INDEX node_by_state"));
    }
}

//! Artefact records. Name, URL and recipe are sealed; the name is found by its keyed hash.

use model::{ArtefactKind, ArtefactName, NodeId, Secret, Tenure};
use rusqlite::{OptionalExtension, Row, named_params};
use serde::{Deserialize, Serialize};

use super::rows::{corrupt, int, number, parsed};
use super::trouble::Trouble;
use super::{Session, leases};
use crate::document::{nanos, time};
use crate::{ArtefactRecord, StoreError};

const COLUMNS: &str = "node, kind, backend, digest, size, published_by, published_at, expires, sealed";

/// A recipe's literal bytes (a whole floppy among them) fit; a wrong one does not fill the disk.
const SEALED_BYTES: usize = 32 << 20;

/// What of an artefact is sealed.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sealed {
    name: String,
    url: String,
    recipe: String,
}

pub(super) fn put(s: &Session<'_>, artefact: &ArtefactRecord, tenure: &Tenure) -> Result<(), Trouble> {
    leases::held(s, &artefact.node, tenure)?;
    let node = artefact.node.to_string();
    let index = s.shared.sealer.index(artefact.name.expose());
    let holder: Option<String> =
        s.db.prepare_cached("SELECT node FROM artefact WHERE name_index = ?1 AND NOT (node = ?2 AND kind = ?3)")?
            .query_row((index, &node, artefact.kind.as_str()), |row| row.get(0))
            .optional()?;
    if let Some(holder) = holder {
        return Err(Trouble::Refused(StoreError::Duplicate {
            what: "artefact name",
            value: artefact.name.to_string(),
            by: format!(" by node {holder}"),
        }));
    }
    let sealed = Sealed {
        name: artefact.name.expose().to_owned(),
        url: artefact.url.expose().to_owned(),
        recipe: artefact.recipe.expose().to_owned(),
    };
    let too_big = |reason| {
        Trouble::Refused(StoreError::TooBig {
            what: format!("the {} of node {node}", artefact.kind),
            reason,
        })
    };
    let text = serde_json::to_vec(&sealed).map_err(|error| too_big(error.to_string()))?;
    if text.len() > SEALED_BYTES {
        return Err(too_big(format!(
            "its recipe takes {} bytes of {SEALED_BYTES} at most",
            text.len()
        )));
    }
    s.db.prepare_cached(
        "INSERT OR REPLACE INTO artefact(node, kind, backend, name_index, digest, size, published_by, published_at, expires, sealed)
         VALUES(:node, :kind, :backend, :name_index, :digest, :size, :published_by, :published_at, :expires, :sealed)",
    )?
    .execute(named_params! {
        ":node": node,
        ":kind": artefact.kind.as_str(),
        ":backend": artefact.backend,
        ":name_index": index,
        ":digest": artefact.digest.to_string(),
        ":size": int(artefact.size),
        ":published_by": artefact.published_by.as_str(),
        ":published_at": nanos(artefact.published_at),
        ":expires": artefact.expires.map(nanos),
        ":sealed": s.shared.sealer.seal(&seal_place(&node, artefact.kind.as_str()), &text),
    })?;
    Ok(())
}

pub(super) fn list(s: &Session<'_>, node: &NodeId) -> Result<Vec<ArtefactRecord>, Trouble> {
    let sql = format!("SELECT {COLUMNS} FROM artefact WHERE node = ?1 ORDER BY kind");
    let mut statement = s.db.prepare_cached(&sql)?;
    let mut rows = statement.query([node.to_string()])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(record(s, row)?);
    }
    Ok(found)
}

pub(super) fn by_name(s: &Session<'_>, name: &ArtefactName) -> Result<Option<ArtefactRecord>, Trouble> {
    let sql = format!("SELECT {COLUMNS} FROM artefact WHERE name_index = ?1");
    let mut statement = s.db.prepare_cached(&sql)?;
    let mut rows = statement.query([s.shared.sealer.index(name.expose())])?;
    rows.next()?.map(|row| record(s, row)).transpose()
}

pub(super) fn remove(s: &Session<'_>, node: &NodeId, kind: ArtefactKind, tenure: &Tenure) -> Result<(), Trouble> {
    leases::held(s, node, tenure)?;
    s.db.prepare_cached("DELETE FROM artefact WHERE node = ?1 AND kind = ?2")?
        .execute((node.to_string(), kind.as_str()))?;
    Ok(())
}

fn record(s: &Session<'_>, row: &Row<'_>) -> Result<ArtefactRecord, Trouble> {
    let node: NodeId = parsed(row, "node")?;
    let kind_text: String = row.get("kind")?;
    let broken = |reason: &str| corrupt(&format!("the {kind_text} of node {node}"), reason);
    let kind = ArtefactKind::ALL
        .into_iter()
        .find(|kind| kind.as_str() == kind_text)
        .ok_or_else(|| broken("there is no such kind"))?;
    let sealed: Vec<u8> = row.get("sealed")?;
    let text = s
        .shared
        .sealer
        .open(&seal_place(&node.to_string(), &kind_text), &sealed)
        .ok_or_else(|| broken(&s.shared.unsealable()))?;
    let sealed: Sealed = serde_json::from_slice(&text).map_err(|error| broken(&error.to_string()))?;
    Ok(ArtefactRecord {
        node,
        kind,
        backend: row.get("backend")?,
        name: ArtefactName::parse(&sealed.name).ok_or_else(|| broken("its name is none"))?,
        url: Secret::new(sealed.url),
        digest: parsed(row, "digest")?,
        size: number(row, "size")?,
        recipe: Secret::new(sealed.recipe),
        published_by: parsed(row, "published_by")?,
        published_at: time(row.get("published_at")?),
        expires: row.get::<_, Option<i64>>("expires")?.map(time),
    })
}

fn seal_place(node: &str, kind: &str) -> String {
    format!("node {node} artefact {kind}")
}

//! Conductors, their leases, and who holds which node.
//!
//! A holder is a conductor *and* its run (`instance`, new at each join): what an earlier run held counts as held by somebody
//! dead, even if the name is back already, so nobody inherits a node without a new term.

use std::time::{Duration, SystemTime};

use model::{ConductorName, NodeId, Tenure};
use rusqlite::{OptionalExtension, Row, named_params};

use super::Session;
use super::nodes::{next_change, not_found, one};
use super::rows::{corrupt, parsed};
use super::trouble::Trouble;
use crate::boot::{BootInstant, Process};
use crate::document::{nanos, time};
use crate::{Claim, Conductor, NodeRef, Record, StoreError};

/// A conductor as its row says.
struct Stored {
    instance: String,
    lease_end: BootInstant,
    lease: i64,
    replaced_lease_end: BootInstant,
    process: Process,
}

impl Stored {
    /// Its lease runs.
    fn is_alive(&self, s: &Session<'_>, now: BootInstant) -> bool {
        self.process.boot_id == s.shared.process.boot_id && now < self.lease_end
    }
}

const COLUMNS: &str = "instance, lease_end, lease, replaced_lease_end, boot_id, pid, pid_started, pid_namespace";

/// Joins; `began` is when the call began. Returns the run's identifier, which the store object keeps.
pub(super) fn join(s: &Session<'_>, me: &Conductor, lease: Duration, began: BootInstant) -> Result<String, Trouble> {
    let now = BootInstant::now();
    let mut replaced_lease_end = BootInstant(0);
    if let Some(old) = stored(s, &me.name)? {
        let is_ours = s.shared.instance(&me.name).as_ref() == Some(&old.instance);
        let is_alive = old.is_alive(s, now);
        if is_alive && !is_ours && !s.shared.process.knows_dead(&old.process) {
            return Err(Trouble::Refused(StoreError::NameInUse {
                name: me.name.to_string(),
            }));
        }
        if old.process.boot_id == s.shared.process.boot_id {
            replaced_lease_end = old.lease_end.max(old.replaced_lease_end);
        }
    }
    let agent_urls =
        serde_json::to_string(&me.agent_urls).map_err(|error| corrupt("agent_urls", &error.to_string()))?;
    agrees_with_site(s, me, &agent_urls, now)?;
    let instance = uuid::Uuid::new_v4().to_string();
    s.db.prepare_cached(
        "INSERT OR REPLACE INTO conductor(name, instance, grp, api_url, images_url, agent_urls, boot_id, lease_end, lease,
             replaced_lease_end, pid, pid_started, pid_namespace, seen_at)
         VALUES(:name, :instance, :grp, :api_url, :images_url, :agent_urls, :boot_id, :lease_end, :lease,
             :replaced_lease_end, :pid, :pid_started, :pid_namespace, :seen_at)",
    )?
    .execute(named_params! {
        ":name": me.name.as_str(),
        ":instance": instance,
        ":grp": me.group,
        ":api_url": me.api_url,
        ":images_url": me.images_url,
        ":agent_urls": agent_urls,
        ":boot_id": s.shared.process.boot_id,
        ":lease_end": began.after(lease).0,
        ":lease": i64::try_from(lease.as_nanos()).unwrap_or(i64::MAX),
        ":replaced_lease_end": replaced_lease_end.0,
        ":pid": s.shared.process.pid,
        ":pid_started": s.shared.process.started,
        ":pid_namespace": s.shared.process.namespace,
        ":seen_at": nanos(SystemTime::now()),
    })?;
    Ok(instance)
}

fn agrees_with_site(s: &Session<'_>, me: &Conductor, ours: &str, now: BootInstant) -> Result<(), Trouble> {
    let theirs: Option<String> =
        s.db.prepare_cached(
            "SELECT agent_urls FROM conductor
             WHERE name <> ?1 AND boot_id = ?2 AND lease_end > ?3 AND agent_urls <> ?4 LIMIT 1",
        )?
        .query_row((me.name.as_str(), &s.shared.process.boot_id, now.0, ours), |row| {
            row.get(0)
        })
        .optional()?;
    match theirs {
        None => Ok(()),
        Some(theirs) => Err(Trouble::Refused(StoreError::SiteMismatch {
            ours: ours.to_owned(),
            theirs,
        })),
    }
}

/// Prolongs the lease from `began`; returns its new end.
pub(super) fn keep_alive(s: &Session<'_>, me: &ConductorName, began: BootInstant) -> Result<BootInstant, Trouble> {
    let mine = own_lease(s, me)?;
    let lease = u64::try_from(mine.lease).map_err(|_| corrupt("lease", "it is negative"))?;
    // Two keep-alives may overtake each other; the lease never gets shorter.
    let end = began.after(Duration::from_nanos(lease)).max(mine.lease_end);
    s.db.prepare_cached("UPDATE conductor SET lease_end = ?2, seen_at = ?3 WHERE name = ?1")?
        .execute((me.as_str(), end.0, nanos(SystemTime::now())))?;
    Ok(end)
}

/// Gives back what this run holds and ends its lease. What an earlier run held stays with the dead.
pub(super) fn leave(s: &Session<'_>, me: &ConductorName) -> Result<(), Trouble> {
    let Ok(mine) = own_lease(s, me) else {
        // Somebody may have taken our nodes and our name; there is nothing left to give back.
        return Ok(());
    };
    // Each node gets a change number of its own, since changes are read in pages.
    let given_back =
        s.db.prepare_cached(
            "UPDATE node SET owner = NULL, owner_instance = NULL, version = version + 1,
                 change = (SELECT value FROM meta WHERE name = 'change') + mine.place
             FROM (SELECT id, row_number() OVER (ORDER BY id) AS place FROM node
                   WHERE owner = ?1 AND owner_instance = ?2) AS mine
             WHERE node.id = mine.id",
        )?
        .execute((me.as_str(), &mine.instance))?;
    s.db.prepare_cached("UPDATE meta SET value = value + ?1 WHERE name = 'change'")?
        .execute([i64::try_from(given_back).unwrap_or(i64::MAX)])?;
    s.db.prepare_cached("UPDATE conductor SET lease_end = 0, replaced_lease_end = 0 WHERE name = ?1")?
        .execute([me.as_str()])?;
    Ok(())
}

pub(super) fn list(s: &Session<'_>) -> Result<Vec<Conductor>, Trouble> {
    let now = BootInstant::now();
    let mut statement = s.db.prepare_cached(&format!(
        "SELECT name, grp, api_url, images_url, agent_urls, seen_at, {COLUMNS} FROM conductor ORDER BY name"
    ))?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let urls: String = row.get("agent_urls")?;
        found.push(Conductor {
            name: parsed(row, "name")?,
            group: row.get("grp")?,
            api_url: row.get("api_url")?,
            images_url: row.get("images_url")?,
            agent_urls: serde_json::from_str(&urls).map_err(|error| corrupt("agent_urls", &error.to_string()))?,
            alive: read(row)?.is_alive(s, now),
            seen_at: time(row.get("seen_at")?),
        });
    }
    Ok(found)
}

pub(super) fn claim(s: &Session<'_>, node: &NodeId, me: &ConductorName) -> Result<Option<Claim>, Trouble> {
    let mine = own_lease(s, me)?;
    let Some(holder) = holder(s, node)? else {
        return Err(not_found(node));
    };
    let mut lease_left = Duration::ZERO;
    if let Some((name, instance)) = &holder {
        if (name, instance) == (me, &mine.instance) {
            let record = fresh(s, node)?;
            return Ok(Some(Claim {
                record,
                predecessor: None,
                predecessor_lease_left: Duration::ZERO,
            }));
        }
        let now = BootInstant::now();
        if let Some(row) = stored(s, name)? {
            if &row.instance == instance {
                if row.is_alive(s, now) {
                    return Ok(None);
                }
            } else if row.process.boot_id == s.shared.process.boot_id {
                lease_left = row.replaced_lease_end.since(now);
            }
        }
    }
    s.db.prepare_cached(
        "UPDATE node SET owner = ?2, owner_instance = ?3, term = term + 1, version = version + 1, change = ?4 WHERE id = ?1",
    )?
    .execute((
        node.to_string(),
        me.as_str(),
        &mine.instance,
        next_change(s)?,
    ))?;
    Ok(Some(Claim {
        record: fresh(s, node)?,
        predecessor: holder.map(|(name, _)| name),
        predecessor_lease_left: lease_left,
    }))
}

pub(super) fn release(s: &Session<'_>, node: &NodeId, tenure: &Tenure) -> Result<(), Trouble> {
    held(s, node, tenure)?;
    s.db.prepare_cached(
        "UPDATE node SET owner = NULL, owner_instance = NULL, version = version + 1, change = ?2 WHERE id = ?1",
    )?
    .execute((node.to_string(), next_change(s)?))?;
    Ok(())
}

/// Whoever writes under `tenure` holds the node in this very run, and its lease runs. Part of every conductor's write, in the
/// same transaction: a claim by somebody else comes wholly before or wholly after it.
pub(super) fn held(s: &Session<'_>, node: &NodeId, tenure: &Tenure) -> Result<(), Trouble> {
    let mine = own_lease(s, &tenure.conductor)?;
    let term: Option<Option<i64>> = s
        .db
        .prepare_cached("SELECT CASE WHEN owner = ?2 AND owner_instance = ?3 THEN term END FROM node WHERE id = ?1")?
        .query_row((node.to_string(), tenure.conductor.as_str(), &mine.instance), |row| {
            row.get(0)
        })
        .optional()?;
    match term {
        None => Err(not_found(node)),
        Some(Some(term)) if u64::try_from(term) == Ok(tenure.term) => Ok(()),
        Some(_) => Err(Trouble::Refused(StoreError::StaleTerm {
            node: node.to_string(),
            conductor: tenure.conductor.to_string(),
            term: tenure.term,
        })),
    }
}

/// The row of a conductor that joined through this very store object and whose lease runs.
fn own_lease(s: &Session<'_>, me: &ConductorName) -> Result<Stored, Trouble> {
    let lost = || {
        Trouble::Refused(StoreError::LeaseLost {
            conductor: me.to_string(),
        })
    };
    let instance = s.shared.instance(me).ok_or_else(lost)?;
    let row = stored(s, me)?.ok_or_else(lost)?;
    if row.instance == instance && row.is_alive(s, BootInstant::now()) {
        Ok(row)
    } else {
        Err(lost())
    }
}

fn stored(s: &Session<'_>, name: &ConductorName) -> Result<Option<Stored>, Trouble> {
    let sql = format!("SELECT {COLUMNS} FROM conductor WHERE name = ?1");
    let mut statement = s.db.prepare_cached(&sql)?;
    let mut rows = statement.query([name.as_str()])?;
    rows.next()?.map(read).transpose()
}

fn read(row: &Row<'_>) -> Result<Stored, Trouble> {
    Ok(Stored {
        instance: row.get("instance")?,
        lease_end: BootInstant(row.get("lease_end")?),
        lease: row.get("lease")?,
        replaced_lease_end: BootInstant(row.get("replaced_lease_end")?),
        process: Process {
            boot_id: row.get("boot_id")?,
            pid: row.get("pid")?,
            started: row.get("pid_started")?,
            namespace: row.get("pid_namespace")?,
        },
    })
}

/// Who holds a node: nobody, or a conductor in one of its runs. Outer `None` = no such node.
fn holder(s: &Session<'_>, node: &NodeId) -> Result<Option<Option<(ConductorName, String)>>, Trouble> {
    let mut statement =
        s.db.prepare_cached("SELECT owner, owner_instance FROM node WHERE id = ?1")?;
    let mut rows = statement.query([node.to_string()])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let owner = super::rows::parsed_option(row, "owner")?;
    let instance: Option<String> = row.get("owner_instance")?;
    Ok(Some(owner.zip(instance)))
}

fn fresh(s: &Session<'_>, node: &NodeId) -> Result<Record, Trouble> {
    one(s, &NodeRef::Id(*node))?.ok_or_else(|| not_found(node))
}

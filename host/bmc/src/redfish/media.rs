//! Virtual media: eject what is there, insert, and believe it only when it can be read back.

use model::{Device, Media};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::json::{at, text};
use super::ladder::{Ask, Way, eject_ways, hpe, insert_ways};
use super::message::{Cause, Complaint};
use super::turn::{Again, Turn, Unchanged};
use crate::{BmcError, InsertMedia, image_url};

impl Turn {
    pub(super) async fn media(&mut self, device: Device) -> Result<Media, BmcError> {
        let mut first = None;
        for path in self.slots(device).await? {
            let slot = self.get(&path).await?;
            if is_occupied(&slot) {
                return Ok(read(&slot));
            }
            first.get_or_insert_with(|| read(&slot));
        }
        Ok(first.unwrap_or_default())
    }

    pub(super) async fn eject(&mut self, device: Device) -> Result<(), BmcError> {
        for path in self.slots(device).await? {
            self.empty(&path).await?;
        }
        Ok(())
    }

    pub(super) async fn insert(&mut self, device: Device, image: &InsertMedia) -> Result<(), BmcError> {
        image_url::check(image.url.expose()).map_err(|rule| self.says_no(rule))?;
        // Every slot that stands for the device is emptied: what another one holds might be booted instead.
        let (mut free, mut stuck) = (Vec::new(), None);
        for path in self.slots(device).await? {
            match self.empty(&path).await {
                Ok(slot) => free.push((path, slot)),
                // This one will not give it up (a remote console holds it); there may be others.
                Err(error @ (BmcError::Busy { .. } | BmcError::Refused { .. } | BmcError::Unsupported { .. })) => {
                    let _ = stuck.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        let mut first_refusal = None;
        for (path, slot) in free {
            match self.insert_into(&path, &slot, image).await? {
                None => return Ok(()),
                Some(complaint) => drop(first_refusal.get_or_insert(complaint)),
            }
        }
        Err(match (first_refusal, stuck) {
            (Some(complaint), _) => self.refused(complaint),
            (None, Some(error)) => error,
            (None, None) => self.unsupported("it has no virtual media slot for it"),
        })
    }

    /// `Some`: this slot will not have it, another may.
    async fn insert_into(
        &mut self,
        path: &str,
        slot: &Value,
        image: &InsertMedia,
    ) -> Result<Option<Complaint>, BmcError> {
        let boots_once = hpe(slot);
        if image.boot_once && boots_once.is_none() {
            return Err(
                self.unsupported("only HPE's virtual media can boot once by themselves: set the boot device instead")
            );
        }
        let url = image.url.expose();
        let certificate = image
            .server_certificate
            .as_deref()
            .filter(|_| url.starts_with("https:"));
        let mut refusal = None;
        for way in insert_ways(slot, path, certificate.is_some()) {
            let mut outcome = self.ask(&way, Ask::insert(way.kind, url, certificate)).await;
            if matches!(&outcome, Err(Unchanged::Refused(complaint)) if complaint.says_occupied())
                && !self.holds(path, url).await
            {
                // It holds something after all, whatever it showed.
                self.throw_out(path, slot).await;
                outcome = self.ask(&way, Ask::insert(way.kind, url, certificate)).await;
            }
            match outcome {
                Ok(()) => {
                    refusal = None;
                    break;
                }
                // It may be in all the same; reading back decides.
                Err(Unchanged::Unanswered(error, true)) => {
                    return if self.holds(path, url).await {
                        self.finish(path, image, boots_once).await
                    } else {
                        Err(error)
                    };
                }
                Err(Unchanged::Unanswered(error, false)) => return Err(error),
                Err(Unchanged::Refused(complaint)) => {
                    let definite = matches!(
                        complaint.cause,
                        Cause::Refused | Cause::NotSupported | Cause::NotFound | Cause::Precondition
                    );
                    // A retried request may be refused because the first one got through.
                    if !definite {
                        return if complaint.cause != Cause::Login && self.holds(path, url).await {
                            self.finish(path, image, boots_once).await
                        } else {
                            Err(self.refused(complaint))
                        };
                    }
                    refusal.get_or_insert(complaint);
                }
            }
        }
        match refusal {
            // The slot was empty before, so an earlier try whose answer got lost went through.
            Some(complaint) if !self.holds(path, url).await => return Ok(Some(complaint)),
            Some(_) => {}
            None => self.until_inserted(path, url).await?,
        }
        self.finish(path, image, boots_once).await
    }

    async fn finish(
        &mut self,
        path: &str,
        image: &InsertMedia,
        hpe: Option<&'static str>,
    ) -> Result<Option<Complaint>, BmcError> {
        if let Some(namespace) = hpe.filter(|_| image.boot_once) {
            let body = json!({"Oem": {namespace: {"BootOnNextServerReset": true}}});
            self.change(Method::PATCH, path, &body, Again::Freely)
                .await
                .map_err(|why| self.unchanged(why))?;
        }
        Ok(None)
    }

    /// Sends one ask, changed as often as the BMC names something to add or to leave out.
    async fn ask(&mut self, way: &Way, mut ask: Ask) -> Result<(), Unchanged> {
        loop {
            let body = ask.body(way.kind);
            match self.change(way.method(), &way.path, &body, Again::Freely).await {
                Ok(reply) => return self.settled(reply).await,
                Err(Unchanged::Refused(complaint)) if complaint.cause == Cause::Refused => {
                    ask = ask.after(&complaint).ok_or(Unchanged::Refused(complaint))?;
                }
                Err(why) => return Err(why),
            }
        }
    }

    /// Empties one slot, waits until the BMC says so, and returns what it then shows.
    async fn empty(&mut self, path: &str) -> Result<Value, BmcError> {
        let slot = self.get(path).await?;
        if !is_occupied(&slot) {
            return Ok(slot);
        }
        let mut failure = None;
        for way in eject_ways(&slot, path) {
            match self.ask(&way, Ask::eject(way.kind)).await {
                Ok(()) => {
                    failure = None;
                    break;
                }
                Err(Unchanged::Unanswered(error, false)) => return Err(error),
                Err(why) => drop(failure.get_or_insert(why)),
            }
        }
        if let Some(why) = failure {
            // Somebody else may have emptied it, or a lost answer was a yes.
            let slot = self.get(path).await?;
            return if is_occupied(&slot) {
                Err(self.unchanged(why))
            } else {
                Ok(slot)
            };
        }
        self.until_empty(path).await
    }

    /// Ejects whatever the slot may hold without showing it. Only what follows tells whether it did.
    async fn throw_out(&mut self, path: &str, slot: &Value) {
        for way in eject_ways(slot, path) {
            if self.ask(&way, Ask::eject(way.kind)).await.is_ok() {
                break;
            }
        }
        // Why it does not get empty, the insert will tell.
        drop(self.until_empty(path).await);
    }

    /// BMCs go on saying `Inserted` for seconds after an eject; what is inserted meanwhile gets lost.
    async fn until_empty(&mut self, path: &str) -> Result<Value, BmcError> {
        let end = Instant::now() + self.bmc.deadlines.settle;
        loop {
            let slot = self.get(path).await?;
            if !is_occupied(&slot) {
                return Ok(slot);
            }
            if Instant::now() >= end || !self.pause(self.bmc.deadlines.poll).await {
                return Err(self.busy(format!(
                    "it took the eject, but {:?} later the media are still inserted",
                    self.bmc.deadlines.settle
                )));
            }
        }
    }

    async fn until_inserted(&mut self, path: &str, url: &str) -> Result<(), BmcError> {
        let end = Instant::now() + self.bmc.deadlines.settle;
        loop {
            let slot = self.get(path).await?;
            if shows(&slot, url) {
                return Ok(());
            }
            if Instant::now() >= end || !self.pause(self.bmc.deadlines.poll).await {
                let instead = if is_occupied(&slot) {
                    "another image is inserted"
                } else {
                    "nothing is inserted"
                };
                return Err(self.says_no(format!(
                    "it took the image, but {:?} later {instead}: check that the BMC itself can reach the image server",
                    self.bmc.deadlines.settle
                )));
            }
        }
    }

    async fn holds(&mut self, path: &str, url: &str) -> bool {
        self.get(path).await.is_ok_and(|slot| shows(&slot, url))
    }
}

fn read(slot: &Value) -> Media {
    let inserted = is_occupied(slot);
    let connected = match text(slot, &["ConnectedVia"]) {
        Some(via) => via != "NotConnected",
        None => inserted,
    };
    // Some go on showing what they held.
    let url = text(slot, &["Image"]).filter(|url| inserted && !url.is_empty());
    Media {
        inserted,
        connected: inserted && connected,
        write_protected: at(slot, &["WriteProtected"]).and_then(Value::as_bool).unwrap_or(false),
        url: url.map(|url| url.chars().take(2048).collect()),
    }
}

/// `Inserted` counts where there is one, since some leave a stale `Image` behind an eject.
fn is_occupied(slot: &Value) -> bool {
    match at(slot, &["Inserted"]).and_then(Value::as_bool) {
        Some(inserted) => inserted,
        None => text(slot, &["Image"]).is_some_and(|image| !image.is_empty()),
    }
}

/// Whether the slot holds this image. Credentials in the URL are not shown by every BMC, and some show no URL at all.
fn shows(slot: &Value, url: &str) -> bool {
    if !is_occupied(slot) {
        return false;
    }
    match text(slot, &["Image"]).filter(|image| !image.is_empty()) {
        Some(image) => image_url::is_same(image, url),
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_judged_by_inserted_and_by_the_image_without_credentials() {
        let url = "http://u:p@h/a.iso";
        for (slot, occupied, holds) in [
            (json!({"Inserted": true, "Image": url}), true, true),
            (json!({"Inserted": true, "Image": "http://h/a.iso"}), true, true),
            (json!({"Inserted": true, "Image": "http://h/b.iso"}), true, false),
            (json!({"Inserted": true, "Image": null}), true, true),
            (json!({"Inserted": false, "Image": url}), false, false),
            (json!({"Image": url}), true, true),
            (json!({"Image": ""}), false, false),
            (json!({"Inserted": "yes", "Image": 7}), false, false),
        ] {
            assert_eq!((is_occupied(&slot), shows(&slot, url)), (occupied, holds), "{slot}");
        }
    }
}

//! Virtual media by RIBCL. `INSERT_VIRTUAL_MEDIA` only notes the URL; the option that is set afterwards makes the BMC fetch it:
//! `CONNECT` at once (firmware then reads `BOOT_ALWAYS`), `BOOT_ONCE` at the next boot, and ejects at the one after.

use model::{Device, Media};
use tokio::time::Instant;

use super::answer::Answer;
use super::talk::Talk;
use crate::{BmcError, InsertMedia, image_url};

impl Talk<'_> {
    pub(super) async fn media(&mut self, device: Device) -> Result<Media, BmcError> {
        let answer = self.call("GET_VM_STATUS", &[("DEVICE", name(device))]).await?;
        self.read_media(&answer)
    }

    fn read_media(&self, answer: &Answer) -> Result<Media, BmcError> {
        let is = |attribute: &str, word: &str| {
            let value = answer.attribute(attribute);
            value.is_some_and(|value| value.eq_ignore_ascii_case(word))
        };
        if answer.attribute("IMAGE_INSERTED").is_none() {
            return Err(self.protocol("its answer to GET_VM_STATUS does not tell IMAGE_INSERTED"));
        }
        let inserted = is("IMAGE_INSERTED", "YES");
        let booted = is("BOOT_OPTION", "BOOT_ONCE") || is("BOOT_OPTION", "BOOT_ALWAYS");
        Ok(Media {
            inserted,
            connected: inserted && (booted || is("VM_APPLET", "CONNECTED")),
            write_protected: is("WRITE_PROTECT", "YES"),
            url: answer
                .attribute("IMAGE_URL")
                .map(|url| url.chars().take(2048).collect()),
        })
    }

    pub(super) async fn eject(&mut self, device: Device) -> Result<(), BmcError> {
        if !self.media(device).await?.inserted {
            return Ok(());
        }
        if let Err(error) = self.call("EJECT_VIRTUAL_MEDIA", &[("DEVICE", name(device))]).await {
            // Somebody else may have emptied it, or a lost answer was a yes.
            return match self.media(device).await {
                Ok(media) if !media.inserted => Ok(()),
                _ => Err(error),
            };
        }
        let end = Instant::now() + self.bmc.deadlines.settle;
        while self.media(device).await?.inserted {
            if Instant::now() >= end || !self.pause(self.bmc.deadlines.poll).await {
                return Err(self.busy(format!(
                    "it took the eject, but {:?} later the media are still inserted",
                    self.bmc.deadlines.settle
                )));
            }
        }
        Ok(())
    }

    pub(super) async fn insert(&mut self, device: Device, image: &InsertMedia) -> Result<(), BmcError> {
        let url = image.url.expose();
        image_url::check(url).map_err(|rule| self.says_no(rule))?;
        if url.contains(',') {
            let rule = "the image URL holds a comma, behind which RIBCL expects a helper script: percent-encode it";
            return Err(self.says_no(rule));
        }
        self.eject(device).await?;
        let device_name = name(device);
        let refusal = self.put_in(device_name, url, image.boot_once).await.err();
        let end = Instant::now() + self.bmc.deadlines.settle;
        loop {
            let media = match self.media(device).await {
                Ok(media) => media,
                // Why it is not in tells more than why it cannot be read back.
                Err(error) => return Err(refusal.unwrap_or(error)),
            };
            let there = media.url.as_deref().is_none_or(|shown| image_url::is_same(shown, url));
            // What was refused, or whose answer was lost, may be in all the same.
            if media.inserted && media.connected && there {
                return Ok(());
            }
            if let Some(error) = refusal {
                return Err(error);
            }
            if Instant::now() >= end || !self.pause(self.bmc.deadlines.poll).await {
                let instead = match (media.inserted, there) {
                    (false, _) => "nothing is inserted",
                    (true, false) => "another image is inserted",
                    (true, true) => "it is inserted and not connected",
                };
                return Err(self.says_no(format!(
                    "it took the image, but {:?} later {instead}: check that the BMC itself can reach the image server",
                    self.bmc.deadlines.settle
                )));
            }
        }
    }

    async fn put_in(&mut self, device: &str, url: &str, boot_once: bool) -> Result<(), BmcError> {
        self.call("INSERT_VIRTUAL_MEDIA", &[("DEVICE", device), ("IMAGE_URL", url)])
            .await?;
        let option = if boot_once { "BOOT_ONCE" } else { "CONNECT" };
        self.call(
            "SET_VM_STATUS",
            &[
                ("DEVICE", device),
                ("VM_BOOT_OPTION", option),
                ("VM_WRITE_PROTECT", "YES"),
            ],
        )
        .await?;
        Ok(())
    }
}

fn name(device: Device) -> &'static str {
    match device {
        Device::Cdrom => "CDROM",
        Device::Floppy => "FLOPPY",
    }
}

//! One verb's turn with the BMC: a command and its answer, the fence, tries again where that is harmless.

use std::time::Duration;

use reqwest::StatusCode;
use tokio::time::{Instant, sleep, timeout};

use super::RibclBmc;
use super::answer::Answer;
use super::commands::{self, Command};
use super::status::{self, Cause};
use super::write::document;
use crate::backoff::before_retry;
use crate::http::FailureKind;
use crate::names::NO_SERVICE;
use crate::{BmcError, text};

/// How often a command is sent in all when the BMC fails inside or drops the connection.
const TRIES: u32 = 3;
/// Longest wait for a BMC that says it is busy, as a number of tries.
const BUSY_TRIES: u32 = 20;

/// What one verb needs to talk: who, until when, and what must not be repeated in errors.
pub(super) struct Talk<'a> {
    pub(super) bmc: &'a RibclBmc,
    pub(super) action: &'static str,
    pub(super) until: Instant,
    pub(super) hide: Vec<String>,
}

/// Why one try brought nothing.
enum Miss {
    /// For good.
    Final(BmcError),
    /// The BMC did nothing and may do it later.
    Undone(BmcError),
    /// It may or may not have done it.
    Unknown(BmcError),
}

impl Talk<'_> {
    /// Sends a command and returns its answer, which holds no failure.
    pub(super) async fn call(&mut self, name: &str, arguments: &[(&str, &str)]) -> Result<Answer, BmcError> {
        let command = commands::find(name).ok_or_else(|| {
            let shown = text::fit(name, &self.hide);
            let known: Vec<&str> = commands::COMMANDS.iter().map(|command| command.name).collect();
            self.says_no(format!("`{shown}` is none of the RIBCL commands {}", known.join(", ")))
        })?;
        let text = document(&self.bmc.user, self.bmc.password.expose(), command, arguments)
            .map_err(|reason| self.says_no(reason))?;
        let (mut tries, mut failures) = (0, 0);
        loop {
            tries += 1;
            let error = match self.once(command, &text).await {
                Ok(answer) => return Ok(answer),
                Err(Miss::Final(error)) => return Err(error),
                Err(Miss::Unknown(error)) if !command.repeatable => return Err(error),
                Err(Miss::Unknown(error)) => {
                    failures += 1;
                    error
                }
                Err(Miss::Undone(error)) => error,
            };
            let given_up = failures >= TRIES || tries >= BUSY_TRIES;
            if given_up || !self.pause(before_retry(self.bmc.deadlines.pause, tries)).await {
                return Err(error);
            }
        }
    }

    async fn once(&self, command: &Command, text: &str) -> Result<Answer, Miss> {
        let allowed = self.allowed(command).map_err(Miss::Final)?;
        let address = self.bmc.address.clone();
        let action = self.action;
        let letter = match timeout(allowed, self.bmc.wire.send(text.to_owned())).await {
            Ok(Ok(letter)) => letter,
            Ok(Err(failure)) => {
                let reason = text::fit(&failure.reason, &self.hide);
                return Err(match failure.kind {
                    FailureKind::Distrust => Miss::Final(BmcError::Settings { address, reason }),
                    FailureKind::TooBig => Miss::Final(BmcError::Protocol {
                        address,
                        action,
                        reason,
                    }),
                    // No listener is a matter of minutes; a broken answer may come whole the next time.
                    FailureKind::Broken if !failure.arrived => Miss::Final(BmcError::Unreachable {
                        address,
                        action,
                        reason,
                    }),
                    FailureKind::Broken => Miss::Unknown(BmcError::Unreachable {
                        address,
                        action,
                        reason,
                    }),
                });
            }
            Err(_) => {
                let after = allowed;
                return Err(Miss::Final(BmcError::Timeout { address, action, after }));
            }
        };
        self.check(letter.status)?;
        let answer = Answer::read(&letter.text).map_err(|reason| Miss::Final(self.protocol(reason)))?;
        for inform in &answer.informs {
            tracing::debug!(bmc = %self.bmc.address, inform = text::fit(inform, &self.hide), "remark of the BMC");
        }
        match answer.failure() {
            None => Ok(answer),
            Some(failure) => {
                let error = status::error(failure, command, &self.bmc.address, self.action, &self.hide);
                Err(match status::cause(failure) {
                    Cause::Busy => Miss::Undone(error),
                    _ => Miss::Final(error),
                })
            }
        }
    }

    fn check(&self, status: StatusCode) -> Result<(), Miss> {
        if status.is_success() {
            return Ok(());
        }
        let said = format!("HTTP {} at /ribcl", status.as_u16());
        Err(if status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED {
            Miss::Unknown(self.busy(said))
        } else {
            // RIBCL has its login and its refusals in its documents; what speaks HTTP instead is not RIBCL.
            let why = format!("{NO_SERVICE} /ribcl ({said}): RIBCL is switched off, or its firmware has none");
            Miss::Final(self.unsupported(why))
        })
    }

    /// How long the next command may take; what changes something asks the fence.
    fn allowed(&self, command: &Command) -> Result<Duration, BmcError> {
        let left = self.until.saturating_duration_since(Instant::now());
        let allowed = self.bmc.deadlines.request.min(left);
        if !command.writes {
            return Ok(allowed);
        }
        match self.bmc.fence.window() {
            Some(window) if window >= self.bmc.deadlines.least_window => Ok(allowed.min(window)),
            _ => Err(BmcError::LeaseEnding {
                address: self.bmc.address.clone(),
                action: self.action,
            }),
        }
    }

    /// Waits, unless the verb's time would leave too little for a request afterwards; `false` then.
    pub(super) async fn pause(&self, time: Duration) -> bool {
        let fits = Instant::now() + time + self.bmc.deadlines.least_window < self.until;
        if fits {
            sleep(time).await;
        }
        fits
    }

    /// A command as a vendor extension names it.
    pub(super) async fn raw(&mut self, command: &str, arguments: &[(String, String)]) -> Result<String, BmcError> {
        let arguments: Vec<(&str, &str)> = arguments
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        Ok(self.call(command, &arguments).await?.to_xml())
    }

    pub(super) fn protocol(&self, reason: &str) -> BmcError {
        BmcError::Protocol {
            address: self.bmc.address.clone(),
            action: self.action,
            reason: reason.to_owned(),
        }
    }

    pub(super) fn unsupported(&self, reason: impl Into<String>) -> BmcError {
        BmcError::Unsupported {
            address: self.bmc.address.clone(),
            action: self.action,
            reason: reason.into(),
        }
    }

    pub(super) fn says_no(&self, reason: impl Into<String>) -> BmcError {
        BmcError::Refused {
            address: self.bmc.address.clone(),
            action: self.action,
            reason: reason.into(),
        }
    }

    pub(super) fn busy(&self, reason: impl Into<String>) -> BmcError {
        BmcError::Busy {
            address: self.bmc.address.clone(),
            action: self.action,
            reason: reason.into(),
            retry_after: None,
        }
    }
}

//! How an RIBCL document travels: posted to `/ribcl` (iLO 3 and newer), or straight on TLS (iLO 2).

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use reqwest::{Method, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use url::Url;

use super::answer::{Whole, whole};
use super::write::DECLARATION;
use crate::BmcConfig;
use crate::access::Protocols;
use crate::http::legacy::{LegacyClient, LegacyStream};
use crate::http::{BODY_CAP, Failure, FailureKind, HttpClient, Record, Request, text_of};
use crate::trace::{Exchange, Form, Outcome, Trace};

/// How many times as long a silence must last before an answer counts as whole that does not look so.
const PATIENCE: u32 = 10;

/// How documents travel to one BMC.
pub(super) enum Wire {
    /// Posted.
    Https { client: HttpClient, url: Url },
    /// Written on a connection that the BMC does not close.
    Raw {
        client: LegacyClient,
        quiet: Duration,
        trace: Option<Arc<dyn Trace>>,
    },
}

/// What came back.
pub(super) struct Letter {
    /// 200 on the raw form.
    pub(super) status: StatusCode,
    pub(super) text: String,
}

impl Wire {
    /// The error is the reason in words.
    pub(super) fn new(config: &BmcConfig, origin: &Url, form: Form) -> Result<Self, String> {
        match form {
            Form::Http => {
                let url = origin.join("/ribcl").map_err(|error| error.to_string())?;
                let client = HttpClient::new(config, origin)?;
                Ok(Self::Https { client, url })
            }
            Form::Raw if config.protocols == Protocols::Legacy && origin.scheme() == "https" => Ok(Self::Raw {
                client: LegacyClient::new(config, origin)?,
                quiet: config.deadlines.quiet,
                trace: config.trace.clone(),
            }),
            Form::Raw => Err(
                "RIBCL straight on TLS is iLO 2's, which speaks TLS 1.0 at most: allow it (driver_info/bmc_tls = legacy, or --tls legacy)"
                    .to_owned(),
            ),
        }
    }

    /// Sends a document and returns what came back.
    pub(super) async fn send(&self, document: String) -> Result<Letter, Failure> {
        match self {
            Self::Https { client, url } => {
                let request = Request::new(Method::POST, url.clone());
                let request = request.body("text/xml", format!("{DECLARATION}{document}"));
                let reply = client.send(request).await?;
                Ok(Letter {
                    status: reply.status,
                    text: text_of(&reply.body),
                })
            }
            Self::Raw { client, quiet, trace } => {
                let mut record = trace
                    .as_ref()
                    .map(|trace| Record::new(Arc::clone(trace), exchange(&document)));
                let result = converse(client, *quiet, &document).await;
                if let Some(record) = &mut record {
                    record.end(match &result {
                        Ok(body) => Outcome::Reply {
                            status: 200,
                            headers: Vec::new(),
                            body: text_of(body),
                        },
                        Err(failure) => Outcome::Failure(failure.reason.clone()),
                    });
                }
                Ok(Letter {
                    status: StatusCode::OK,
                    text: text_of(&result?),
                })
            }
        }
    }
}

fn exchange(document: &str) -> Exchange {
    Exchange {
        at: SystemTime::now(),
        took: Duration::ZERO,
        form: Form::Raw,
        method: "POST".to_owned(),
        path: "/ribcl".to_owned(),
        headers: Vec::new(),
        body: Some(format!("{DECLARATION}{document}")),
        outcome: Outcome::Failure("given up".to_owned()),
    }
}

async fn converse(client: &LegacyClient, quiet: Duration, document: &str) -> Result<Vec<u8>, Failure> {
    let mut stream = client.connect().await?;
    // The declaration tells iLO 2 that no HTTP follows; it looks at the first record alone.
    for part in [DECLARATION, document] {
        let written = async {
            stream.write_all(part.as_bytes()).await?;
            stream.flush().await
        };
        written.await.map_err(|error| broken(&error))?;
    }
    let answer = read(&mut stream, quiet).await?;
    // It may not answer a farewell; the connection ends either way.
    let _ = timeout(quiet, stream.shutdown()).await;
    Ok(answer)
}

/// Reads until the BMC closes, or until it is silent after what looks like the whole answer.
async fn read(stream: &mut LegacyStream, quiet: Duration) -> Result<Vec<u8>, Failure> {
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let so_far = whole(&text_of(&answer));
        let patience = match so_far {
            Whole::Likely => Some(quiet),
            Whole::Perhaps => Some(quiet * PATIENCE),
            // The declaration is answered at once, and the command only after it was read.
            Whole::No | Whole::Early => None,
        };
        let is_short = matches!(so_far, Whole::No | Whole::Early);
        let read = stream.read(&mut buffer);
        let result = match patience {
            None => read.await,
            Some(patience) => match timeout(patience, read).await {
                Ok(result) => result,
                Err(_) => return Ok(answer),
            },
        };
        match result {
            Ok(0) if is_short => return Err(cut_off("it closed the connection midway")),
            Ok(0) => return Ok(answer),
            Ok(count) if answer.len() + count > BODY_CAP => {
                return Err(Failure {
                    kind: FailureKind::TooBig,
                    reason: "the answer is bigger than 1 MiB".to_owned(),
                    arrived: true,
                });
            }
            Ok(count) => answer.extend_from_slice(&buffer[..count]),
            // Firmwares drop the connection without a farewell; what came before it stands or falls by itself.
            Err(error) if is_short => return Err(broken(&error)),
            Err(_) => return Ok(answer),
        }
    }
}

fn broken(error: &std::io::Error) -> Failure {
    cut_off(&format!("the connection broke: {error}"))
}

fn cut_off(reason: &str) -> Failure {
    Failure {
        kind: FailureKind::Broken,
        reason: reason.to_owned(),
        arrived: true,
    }
}

//! Running a shadow along with a call that has ended.

use std::sync::Arc;

use tokio::time::timeout_at;

use crate::abi::v0_1 as abi;
use crate::broker::Broker;
use crate::catalog::Bound;
use crate::grants::Given;
use crate::run::{Answer, Entry, Inner, Nested, failure};
use crate::shadow::{Echo, EchoSession, Recording, ShadowReport, Verdict, differences};
use crate::world::CallContext;
use crate::{CallError, CallFailure, CallReport};

/// A call that has ended, with all that a shadow needs of it.
pub(crate) struct Watched {
    pub(crate) context: Arc<CallContext>,
    pub(crate) entry: Entry,
    pub(crate) recording: Arc<Recording>,
    pub(crate) given: Given,
    pub(crate) result: Result<Answer, CallError>,
    pub(crate) report: CallReport,
}

impl Inner {
    /// Starts the shadow in a task of its own, unless as many run as may.
    pub(crate) fn run_shadow(self: &Arc<Self>, shadow: Arc<Bound>, watched: Watched) {
        let runtime = Arc::clone(self);
        tokio::spawn(async move {
            let engine = &runtime.engine.0;
            let Ok(_place) = engine.shadow_queue.try_acquire() else {
                tracing::debug!(shadow = %shadow.id, call = watched.report.call, "not compared: too many shadows wait");
                return;
            };
            let Ok(_permit) = engine.shadows.acquire().await else {
                return;
            };
            let verdict = runtime.verdict(&shadow, &watched).await;
            let report = ShadowReport {
                at: watched.recording.began,
                call: watched.report.call,
                node: watched.report.node,
                function: watched.report.function,
                active: watched.report.plugin.clone(),
                active_digest: watched.report.digest,
                shadow: shadow.id.clone(),
                shadow_digest: shadow.plugin.digest,
                verdict,
            };
            let (node, call) = (&report.node, report.call);
            match &report.verdict {
                Verdict::Same => tracing::debug!(shadow = %report.shadow, %node, call, "does the same"),
                other => tracing::info!(shadow = %report.shadow, %node, call, function = report.function, "{other:?}"),
            }
            runtime.observer.shadow_ended(&report);
        });
    }

    async fn verdict(self: &Arc<Self>, shadow: &Arc<Bound>, watched: &Watched) -> Verdict {
        let root = self.root(Arc::default(), &shadow.limits);
        let nested = Nested {
            root: Arc::clone(&root),
            depth: 0,
            number: 0,
        };
        let recording = &watched.recording;
        let session = Arc::new(EchoSession::new(recording.began));
        let context = Arc::clone(&watched.context);
        let mut broker = Broker::new(Arc::clone(self), context, Arc::clone(shadow), nested, session);
        broker.take_given(watched.given.clone(), &recording.given);
        broker.echo = Some(Echo::new(Arc::clone(recording)));
        let mut store = self.store(broker, &shadow.limits);
        let ended = timeout_at(root.deadline, async {
            let instance = shadow.plugin.pre.instantiate_async(&mut store).await?;
            abi::enter(&mut store, &instance, &shadow.plugin.exports, &watched.entry).await
        })
        .await;
        let answer = match ended {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                return match failure(&error, &shadow.limits) {
                    CallFailure::Diverged(function) => Verdict::Diverged(function),
                    other => Verdict::Failed(other.to_string()),
                };
            }
            Err(_) => return Verdict::Failed(CallFailure::WallBudget(root.wall).to_string()),
        };
        let own: &[(String, String)] = store.data().broker.echo.as_ref().map_or(&[], Echo::deeds);
        let mut found = deeds(&recording.deeds(), own);
        let active = describe(match &watched.result {
            Ok(answer) => Ok(answer),
            Err(error) => Err(error.to_string()),
        });
        let shadow = describe(answer.as_ref().map_err(ToString::to_string));
        if active != shadow {
            found.push(format!("- answer {active}"));
            found.push(format!("+ answer {shadow}"));
        }
        match found.is_empty() {
            true => Verdict::Same,
            false => Verdict::Differs(found),
        }
    }
}

/// Where deeds differ. Two with the same words may differ in arguments that no report shows; then they are told apart by number.
fn deeds(active: &[(String, String)], shadow: &[(String, String)]) -> Vec<String> {
    let keys = |deeds: &[(String, String)]| -> Vec<String> {
        deeds.iter().map(|(key, words)| format!("{words}\n{key}")).collect()
    };
    let words = |line: String| line.split('\n').next().unwrap_or_default().to_owned();
    differences(&keys(active), &keys(shadow))
        .into_iter()
        .map(words)
        .collect()
}

fn describe(answer: Result<&Answer, String>) -> String {
    match answer {
        Ok(Answer::Done) => "done".to_owned(),
        // Why is for people; which one is what counts.
        Ok(Answer::Choice(choice)) => format!("backend {}", choice.backend),
        Ok(Answer::Steps(steps)) => format!("{steps:?}"),
        Ok(Answer::Methods(methods)) => {
            let names: Vec<&str> = methods.iter().map(|method| method.name.as_str()).collect();
            format!("methods {}", names.join(", "))
        }
        Ok(Answer::Text(text)) => format!("text {}", crate::error::shortened(text)),
        Err(error) => format!("error {}", crate::error::shortened(&error)),
    }
}

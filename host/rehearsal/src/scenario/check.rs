//! From the keys of a scenario file to a [`Suite`]: what they mean, whether they fit together, and the line of what does not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use model::{ConductorName, Tenure};
use runtime::{CallContext, Candidate, ComponentSource, Grants, Limits, Role};
use serde_json::{Value as Json, json};
use serde_saphyr::{Location, Spanned};

use super::matrix::{Combination, combinations};
use super::shape::{CaseFile, ExchangeFile, ExpectFile, LimitsFile, SuiteFile, SweepFile};
use super::{Case, Ending, Expect, MAX_CASES, ScenarioError, Suite, Sweep, read, world, wrong};
use crate::functions;
use crate::invocation::{self, Invocation};
use crate::nearest::unknown;
use crate::reply::{self, Answer, typed};
use crate::script::{Entry, Script};
use crate::world::Player;

/// Most host calls that a case may allow, by its limits and by `times`.
const MAX_CALLS: u32 = 10_000;
/// Largest component.
const MAX_COMPONENT: u64 = 64 << 20;
/// Longest CPU time that a case may allow.
const MAX_CPU_MS: u64 = 60_000;
/// What the host gives the built-in policies.
const BUILT_IN_WALL: Duration = Duration::from_secs(900);
/// Most runs with several faults of one case.
const MAX_STORMS: u32 = 10_000;

/// Makes domain types of what was parsed, and knows which file it is about.
pub(super) struct Reader<'a> {
    pub(super) file: &'a str,
    pub(super) path: &'a Path,
}

impl Reader<'_> {
    fn at<T>(&self, location: Location, result: Result<T, String>) -> Result<T, ScenarioError> {
        result.map_err(|message| wrong(self.file, Some(location), message))
    }

    pub(super) fn suite(&self, file: SuiteFile, given: Option<ComponentSource>) -> Result<Suite, ScenarioError> {
        let mut names = BTreeSet::new();
        let mut roles = file.cases.iter().map(|case| {
            let case = &case.value;
            if !names.insert(case.name.value.clone()) {
                let message = format!("there are two cases `{}`", case.name.value);
                return Err(wrong(self.file, Some(case.name.referenced), message));
            }
            self.at(case.call.referenced, invocation::role(&case.call.value))
        });
        // Not empty, as `parse` has seen.
        let role = roles.next().unwrap_or(Ok(Role::Vmedia))?;
        for (other, case) in roles.zip(&file.cases[1..]) {
            if other? != role {
                let message = format!("the first case calls a function of the role `{role}`; a suite has one role");
                return Err(wrong(self.file, Some(case.value.call.referenced), message));
            }
        }
        let (component, component_path) = match given {
            Some(component) => (Some(component), None),
            None => self.plugin(&file.plugin, role)?.unzip(),
        };
        if component.is_none() {
            let granted = file.grants.as_ref().map(|grants| grants.referenced);
            let limited = file.limits.as_ref().map(|limits| limits.referenced);
            let own = file.cases.iter().find_map(|case| {
                let grants = case.value.grants.as_ref().map(|grants| grants.referenced);
                grants.or(case.value.limits.as_ref().map(|limits| limits.referenced))
            });
            if let Some(location) = granted.or(limited).or(own) {
                let message = "the built-in plugins have the grants and limits of the host: leave this out";
                return Err(wrong(self.file, Some(location), message));
            }
        }
        let built_in = component.is_none();
        let mut cases = Vec::with_capacity(file.cases.len());
        for case in &file.cases {
            for combination in self.combinations(case, &file)? {
                if cases.len() == MAX_CASES {
                    let message = format!("with its `matrix` it has more than {MAX_CASES} cases: split it");
                    return Err(wrong(self.file, Some(case.referenced), message));
                }
                cases.push(Arc::new(self.case(case, &file, combination, built_in)?));
            }
        }
        Ok(Suite {
            name: file.suite,
            file: self.file.to_owned(),
            role,
            component,
            component_path,
            cases,
        })
    }

    /// What stands under `matrix`, of the suite and of the case.
    fn combinations(&self, case: &Spanned<CaseFile>, suite: &SuiteFile) -> Result<Vec<Combination>, ScenarioError> {
        let given = [suite.matrix.as_ref(), case.value.matrix.as_ref()];
        let Some(at) = given.iter().flatten().next_back().map(|matrix| matrix.referenced) else {
            return Ok(vec![Combination::default()]);
        };
        let mut all = BTreeMap::new();
        for matrix in given.into_iter().flatten() {
            all.extend(matrix.value.clone());
        }
        self.at(at, combinations(&all))
    }

    /// A path beside the scenario file, or `{built-in: <role>}`.
    fn plugin(&self, plugin: &Spanned<Json>, role: Role) -> Result<Option<(ComponentSource, PathBuf)>, ScenarioError> {
        let location = plugin.referenced;
        match &plugin.value {
            Json::String(path) => {
                let path: PathBuf = self.path.parent().unwrap_or(Path::new("")).join(path);
                let bytes = read(&path, MAX_COMPONENT)?.into();
                let name = path.display().to_string();
                Ok(Some((ComponentSource::Bytes { name, bytes }, path)))
            }
            Json::Object(map) if map.len() == 1 && map.contains_key("built-in") => {
                let named = map.get("built-in").and_then(Json::as_str).unwrap_or_default();
                if named == role.as_str() && role != Role::Vendor {
                    return Ok(None);
                }
                let known = ["vmedia", "backend-selection", "take-over"];
                self.at(
                    location,
                    Err(if known.contains(&named) {
                        format!("the built-in `{named}` has no function of the role `{role}`, which the cases call")
                    } else {
                        unknown("built-in plugin", named, &known)
                    }),
                )
            }
            _ => self.at(location, Err("`plugin` is a path, or {built-in: vmedia}".to_owned())),
        }
    }

    fn case(
        &self,
        case: &Spanned<CaseFile>,
        suite: &SuiteFile,
        combination: Combination,
        built_in: bool,
    ) -> Result<Case, ScenarioError> {
        let (begin, case) = (case.referenced, &case.value);
        let node = case.node.as_ref().map(|node| node.value.clone()).unwrap_or_default();
        let node = combination.node.laid_over(&node).laid_over(&suite.defaults.node);
        let node_at = case.node.as_ref().map_or(begin, |node| node.referenced);
        let args = case.args.as_ref();
        let (limits, wall) = self.limits(suite.limits.as_ref(), case.limits.as_ref(), built_in)?;
        let grants = case.grants.as_ref().or(suite.grants.as_ref());
        let grants = grants.map(|grants| self.at(grants.referenced, typed::<Grants>(grants.value.clone())));
        let settings = case.settings.as_ref().or(suite.settings.as_ref());
        if let Some(settings) = settings.filter(|settings| !settings.value.is_object()) {
            return Err(wrong(self.file, Some(settings.referenced), "`settings` is a mapping"));
        }
        let clock = case.clock.as_ref().or(suite.clock.as_ref());
        let clock = match clock {
            Some(clock) => self.at(clock.referenced, instant(&clock.value))?,
            None => SystemTime::UNIX_EPOCH + Duration::from_secs(946_684_800),
        };
        let seed = case.seed.unwrap_or(suite.seed);
        let backends = case.backends.as_ref().or(suite.backends.as_ref());
        let backends: Vec<Candidate> = match backends {
            Some(backends) => backends.iter().cloned().map(Candidate::from).collect(),
            None => vec![
                typed::<invocation::CandidateFile>(json!({"id": "local"}))
                    .expect("an id is all that a backend needs")
                    .into(),
            ],
        };
        let player = self.player(case, suite, seed, clock, &backends)?;
        let mut site = suite.site.clone();
        site.extend(case.site.clone());
        Ok(Case {
            name: format!("{}{}", case.name.value, combination.suffix),
            line: begin.line(),
            context: Arc::new(CallContext {
                node: self.at(node_at, node.node())?,
                tenure: Tenure {
                    conductor: "rehearsal"
                        .parse::<ConductorName>()
                        .expect("a lower-case word is a conductor's name"),
                    term: 1,
                },
                by_operator: case.by_operator,
            }),
            invocation: self.at(
                args.map_or(case.call.referenced, |args| args.referenced),
                Invocation::new(
                    &case.call.value,
                    args.map(|args| args.value.clone()).unwrap_or_default(),
                ),
            )?,
            expect: self.expect(&case.expect, &player)?,
            sweep: self.sweep(case, suite, &player)?,
            player,
            settings: settings.map_or(Json::Null, |settings| settings.value.clone()),
            grants: grants.transpose()?,
            limits,
            wall,
            site,
            backends: backends.into(),
            clock,
            seed,
        })
    }

    /// Who answers: the list under `host`, or the world; a case without either asks for nothing.
    fn player(
        &self,
        case: &CaseFile,
        suite: &SuiteFile,
        seed: u64,
        clock: SystemTime,
        backends: &[Candidate],
    ) -> Result<Player, ScenarioError> {
        if let (Some(_), Some(world)) = (&case.host, &case.world) {
            let message = "a case has `host` or `world`: either its answers are listed, or a world gives them";
            return Err(wrong(self.file, Some(world.referenced), message));
        }
        let given = [suite.world.as_ref(), case.world.as_ref()];
        if let Some(at) = given.iter().flatten().next_back().map(|world| world.referenced)
            && case.host.is_none()
        {
            let [suite, case] = given.map(|world| world.map(|world| &world.value));
            let machine =
                world::merged(suite, case).and_then(|file| world::machine(file, seed, clock, backends.to_vec()));
            return Ok(Player::Machine(Box::new(self.at(at, machine)?)));
        }
        let entries = case.host.iter().flat_map(|host| &host.value);
        let entries = entries.map(|entry| self.entry(entry)).collect::<Result<_, _>>()?;
        Ok(Player::Script(Script::new(case.order, entries)))
    }

    fn sweep(&self, case: &CaseFile, suite: &SuiteFile, player: &Player) -> Result<Sweep, ScenarioError> {
        let is_world = matches!(player, Player::Machine(_));
        let sweep = match (&case.sweep, &suite.sweep) {
            (Some(own), _) if !is_world => {
                let message = "a sweep needs a `world`: the answers of a list fit one run only";
                return Err(wrong(self.file, Some(own.referenced), message));
            }
            (Some(sweep), _) => sweep,
            (None, Some(sweep)) if is_world => sweep,
            _ => return Ok(Sweep::default()),
        };
        let SweepFile {
            faults,
            grants,
            storms,
            re_run,
        } = sweep.value;
        if storms > MAX_STORMS {
            return self.at(sweep.referenced, Err(format!("`storms` is at most {MAX_STORMS}")));
        }
        Ok(Sweep {
            faults,
            grants,
            storms,
            re_run: re_run.unwrap_or(true),
        })
    }

    fn entry(&self, entry: &Spanned<ExchangeFile>) -> Result<Entry, ScenarioError> {
        let (location, entry) = (entry.referenced, &entry.value);
        let function = self.at(entry.on.referenced, functions::find(&entry.on.value))?;
        let with = entry.with.as_ref().map_or(json!({}), |with| with.value.clone());
        let with_at = entry.with.as_ref().map_or(location, |with| with.referenced);
        let Json::Object(map) = &with else {
            return self.at(with_at, Err("`with` is a mapping of arguments".to_owned()));
        };
        let stranger = map.keys().find(|key| !function.arguments.contains(&key.as_str()));
        if let Some(stranger) = stranger {
            let kind = format!("argument of {}", function.name);
            return self.at(with_at, Err(unknown(&kind, stranger, function.arguments)));
        }
        let times = entry.times.unwrap_or(1);
        if times == 0 || times > MAX_CALLS {
            return self.at(location, Err(format!("`times` is 1 to {MAX_CALLS}")));
        }
        let answer = match (&entry.reply, &entry.error) {
            (Some(_), Some(error)) => {
                let message = "an entry has `reply` or `error`, not both".to_owned();
                return self.at(error.referenced, Err(message));
            }
            (None, Some(error)) => Err(self.at(error.referenced, reply::error(error.value.clone()))?),
            (reply, None) => {
                let at = reply.as_ref().map_or(location, |reply| reply.referenced);
                let value = reply.as_ref().map(|reply| reply.value.clone());
                Ok(self.at(at, reply::answer(function, value, &with))?)
            }
        };
        let name = match &answer {
            Ok(Answer::Image(_, file)) => file.name.as_ref(),
            Ok(Answer::Location(file) | Answer::Found(file)) => file.name.as_ref(),
            _ => None,
        };
        if let Some(name) = name.filter(|_| times > 1) {
            let message = format!("`{name}` can be handed out once: leave the name out, or `times`");
            return self.at(location, Err(message));
        }
        Ok(Entry {
            line: location.line(),
            function,
            with,
            answer,
            times,
        })
    }

    fn expect(&self, expect: &Spanned<ExpectFile>, player: &Player) -> Result<Expect, ScenarioError> {
        let (location, expect) = (expect.referenced, &expect.value);
        if expect.world.is_some() && !matches!(player, Player::Machine(_)) {
            let message = "`expect.world` needs a `world` to look at".to_owned();
            return self.at(location, Err(message));
        }
        let outcome = match (expect.outcome, &expect.error, &expect.reason) {
            (Some(outcome), ..) => outcome,
            (None, Some(_), _) => Ending::Error,
            (None, None, Some(_)) => Ending::Trapped,
            (None, None, None) => Ending::Ok,
        };
        let excluded = [
            ("error", expect.error.is_some(), outcome == Ending::Error),
            ("reason", expect.reason.is_some(), outcome == Ending::Trapped),
            ("result", expect.result.is_some(), outcome == Ending::Ok),
            ("message", expect.message.is_some(), outcome != Ending::Ok),
        ];
        for (key, given, fits) in excluded {
            if given && !fits {
                let message = format!("`{key}` does not go with the outcome `{}`", outcome.as_str());
                return self.at(location, Err(message));
            }
        }
        for name in expect.calls.keys() {
            self.at(location, functions::check_counted(name))?;
        }
        for name in &expect.never {
            self.at(name.referenced, functions::check_counted(&name.value))?;
        }
        Ok(Expect {
            outcome,
            error: expect.error.clone(),
            message: expect.message.clone(),
            reason: expect.reason.clone(),
            result: expect.result.clone(),
            world: expect.world.clone(),
            calls: expect.calls.clone().into_iter().collect(),
            never: expect.never.iter().map(|name| name.value.clone()).collect(),
        })
    }

    /// The limits of the runtime, and how much time the call may take by the scenario's clock.
    fn limits(
        &self,
        suite: Option<&Spanned<LimitsFile>>,
        case: Option<&Spanned<LimitsFile>>,
        built_in: bool,
    ) -> Result<(Limits, Duration), ScenarioError> {
        let mut limits = Limits::default();
        for given in [suite, case].into_iter().flatten() {
            let LimitsFile {
                cpu_ms,
                wall_s,
                memory,
                host_calls,
            } = given.value;
            let refuse = |message: String| self.at(given.referenced, Err(message));
            if cpu_ms.is_some_and(|ms| ms > MAX_CPU_MS) {
                return refuse(format!("`cpu-ms` is at most {MAX_CPU_MS}"));
            }
            if host_calls.is_some_and(|calls| calls > MAX_CALLS) {
                return refuse(format!("`host-calls` is at most {MAX_CALLS}"));
            }
            limits.cpu = cpu_ms.map_or(limits.cpu, Duration::from_millis);
            limits.wall = wall_s.map_or(limits.wall, |s| Duration::from_secs(s.into()));
            limits.host_calls = host_calls.unwrap_or(limits.host_calls);
            if let Some(memory) = memory {
                limits.memory = self.at(
                    given.referenced,
                    usize::try_from(memory).map_err(|_| "`memory` is too large".to_owned()),
                )?;
            }
        }
        let wall = if built_in { BUILT_IN_WALL } else { limits.wall };
        // By the real clock a call takes next to nothing; a slow machine must not decide how a case ends.
        limits.wall = limits.wall.max(Duration::from_secs(120));
        Ok((limits, wall))
    }
}

/// RFC 3339, not before 1970.
fn instant(text: &str) -> Result<SystemTime, String> {
    text.parse::<jiff::Timestamp>()
        .ok()
        .and_then(|time| u64::try_from(time.as_millisecond()).ok())
        .and_then(|ms| SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(ms)))
        .ok_or_else(|| format!("`clock` is a time from 1970 on, as 2026-11-30T12:00:00Z, not `{text}`"))
}

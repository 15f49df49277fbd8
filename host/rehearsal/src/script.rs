//! The list under `host`: which entry answers a call, and, if none does, why not.

use runtime::DriverError;
use serde_json::Value as Json;

use crate::calls::{differences, show_call};
use crate::functions::Function;
use crate::reply::Answer;

/// In which order entries are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Order {
    /// As they stand.
    #[default]
    Ordered,
    /// A call takes the first entry that fits it and is not used up.
    AnyOrder,
}

/// One scripted exchange.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Where it stands in the file.
    pub(crate) line: u64,
    pub(crate) function: &'static Function,
    /// Arguments that a call must have.
    pub(crate) with: Json,
    pub(crate) answer: Result<Answer, DriverError>,
    /// How often it answers.
    pub(crate) times: u32,
}

impl Entry {
    fn show(&self) -> String {
        show_call(self.function.name, &self.with)
    }

    fn fits(&self, function: &str, arguments: &Json) -> bool {
        self.function.name == function && differences(&self.with, arguments).is_empty()
    }
}

/// A list of exchanges and how far it is used.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    pub(crate) order: Order,
    pub(crate) entries: Vec<Entry>,
    used: Vec<u32>,
}

impl Script {
    pub(crate) fn new(order: Order, entries: Vec<Entry>) -> Self {
        Self {
            order,
            used: vec![0; entries.len()],
            entries,
        }
    }

    /// The answer to a call; `None` if no entry is there for it.
    pub(crate) fn take(&mut self, function: &str, arguments: &Json) -> Option<Result<Answer, DriverError>> {
        let found = match self.order {
            Order::Ordered => self
                .next()
                .filter(|index| self.entries[*index].fits(function, arguments)),
            Order::AnyOrder => self.left().find(|index| self.entries[*index].fits(function, arguments)),
        }?;
        self.used[found] += 1;
        Some(self.entries[found].answer.clone())
    }

    /// What a person must know of a call that no entry answered.
    pub(crate) fn explain(&self, function: &str, arguments: &Json) -> String {
        let mut text = format!("the plugin called   {}", show_call(function, arguments));
        let mut add = |line: String| {
            text.push_str("\n  ");
            text.push_str(&line);
        };
        let nearest = match self.order {
            Order::Ordered => self.next(),
            Order::AnyOrder => self
                .left()
                .filter(|index| self.entries[*index].function.name == function)
                .min_by_key(|index| differences(&self.entries[*index].with, arguments).len()),
        };
        let Some(index) = nearest else {
            add(if self.left().next().is_none() {
                "every entry under `host` is used up".to_owned()
            } else {
                format!("no entry under `host` answers `{function}` any more")
            });
            return text;
        };
        let entry = &self.entries[index];
        let label = if self.order == Order::Ordered {
            "expected next"
        } else {
            "nearest entry"
        };
        add(format!("{label}       {} (line {})", entry.show(), entry.line));
        if entry.function.name == function {
            for difference in differences(&entry.with, arguments) {
                add(format!("difference          {difference}"));
            }
        } else if let Some(later) = self.left().find(|index| self.entries[*index].fits(function, arguments)) {
            let line = self.entries[later].line;
            add(format!(
                "out of order        an entry for this call stands at line {line}"
            ));
        }
        text
    }

    /// Entries that were used less often than they say.
    pub(crate) fn unused(&self) -> Vec<String> {
        self.left()
            .map(|index| {
                let entry = &self.entries[index];
                let often = match (self.used[index], entry.times) {
                    (0, _) => "was never called".to_owned(),
                    (used, times) => format!("was called {used} of {times} times"),
                };
                format!("{} (line {}) {often}", entry.show(), entry.line)
            })
            .collect()
    }

    fn left(&self) -> impl Iterator<Item = usize> {
        (0..self.entries.len()).filter(|index| self.used[*index] < self.entries[*index].times)
    }

    fn next(&self) -> Option<usize> {
        self.left().next()
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use model::Device;
    use runtime::Reply;
    use serde_json::json;

    use super::*;
    use crate::functions::find;

    fn entry(line: u64, name: &str, with: Json, times: u32) -> Entry {
        Entry {
            line,
            function: find(name).unwrap(),
            with,
            answer: Ok(Answer::Reply(Reply::Done)),
            times,
        }
    }

    fn script(order: Order) -> Script {
        let device = |device: Device| json!({ "device": device.as_str() });
        Script::new(
            order,
            vec![
                entry(5, "bmc.eject", device(Device::Floppy), 2),
                entry(6, "bmc.eject", device(Device::Cdrom), 1),
                entry(7, "storage.withdraw", json!({}), 1),
            ],
        )
    }

    #[test]
    fn an_ordered_script_answers_in_its_order_only() {
        let mut script = script(Order::Ordered);
        let (floppy, cd) = (json!({"device": "floppy"}), json!({"device": "cdrom"}));
        assert!(script.take("bmc.eject", &cd).is_none());
        assert!(script.take("bmc.eject", &floppy).is_some());
        assert!(script.take("bmc.eject", &cd).is_none(), "twice for the floppy");
        assert!(script.take("bmc.eject", &floppy).is_some());
        assert!(script.take("bmc.eject", &cd).is_some());
        assert_eq!(script.unused(), ["storage.withdraw (line 7) was never called"]);
    }

    #[test]
    fn any_order_takes_the_first_entry_that_fits() {
        let mut script = script(Order::AnyOrder);
        assert!(script.take("storage.withdraw", &json!({"kind": "floppy"})).is_some());
        assert!(script.take("storage.withdraw", &json!({"kind": "floppy"})).is_none());
        assert!(script.take("bmc.eject", &json!({"device": "cdrom"})).is_some());
        assert!(script.take("bmc.eject", &json!({"device": "floppy"})).is_some());
        assert_eq!(
            script.unused(),
            ["bmc.eject {device: floppy} (line 5) was called 1 of 2 times"]
        );
    }

    #[test]
    fn an_unanswered_call_is_explained_by_what_was_expected() {
        let ordered = script(Order::Ordered);
        expect![[r#"
            the plugin called   bmc.eject {device: cdrom}
              expected next       bmc.eject {device: floppy} (line 5)
              difference          device: wanted floppy, is cdrom"#]]
        .assert_eq(&ordered.explain("bmc.eject", &json!({"device": "cdrom"})));
        expect![[r#"
            the plugin called   storage.withdraw {kind: floppy}
              expected next       bmc.eject {device: floppy} (line 5)
              out of order        an entry for this call stands at line 7"#]]
        .assert_eq(&ordered.explain("storage.withdraw", &json!({"kind": "floppy"})));
        let any = script(Order::AnyOrder);
        expect![[r#"
            the plugin called   bmc.insert {device: floppy}
              no entry under `host` answers `bmc.insert` any more"#]]
        .assert_eq(&any.explain("bmc.insert", &json!({"device": "floppy"})));
        expect![[r#"
            the plugin called   bmc.boot-mode-of
              every entry under `host` is used up"#]]
        .assert_eq(&Script::default().explain("bmc.boot-mode-of", &json!({})));
    }
}

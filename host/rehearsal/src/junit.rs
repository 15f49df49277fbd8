//! Reports as JUnit XML, the form that continuous-integration servers read.

use std::fmt::Write as _;

use crate::SuiteReport;

/// One document for all suites.
pub fn junit(suites: &[SuiteReport]) -> String {
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for suite in suites {
        let us: u64 = suite.cases.iter().map(|case| case.wall_us).sum();
        let _ = writeln!(
            xml,
            "  <testsuite name=\"{}\" file=\"{}\" tests=\"{}\" failures=\"{}\" time=\"{}\">",
            escape(&suite.suite),
            escape(&suite.file),
            suite.cases.len(),
            suite.failed(),
            seconds(us)
        );
        for case in &suite.cases {
            let _ = write!(
                xml,
                "    <testcase name=\"{}\" classname=\"{}\" line=\"{}\" time=\"{}\"",
                escape(&case.name),
                escape(&suite.suite),
                case.line,
                seconds(case.wall_us)
            );
            if case.passed && case.sweeps.is_empty() {
                xml.push_str("/>\n");
                continue;
            }
            xml.push_str(">\n");
            if !case.passed {
                let first = case.failures.first().and_then(|failure| failure.lines().next());
                let _ = writeln!(
                    xml,
                    "      <failure message=\"{}\">{}</failure>",
                    escape(first.unwrap_or_default()),
                    escape(&case.failures.join("\n"))
                );
            }
            for sweep in &case.sweeps {
                let _ = writeln!(
                    xml,
                    "      <system-out>sweep of {}: {} runs, {} failed</system-out>",
                    sweep.kind, sweep.runs, sweep.failed
                );
            }
            xml.push_str("    </testcase>\n");
        }
        xml.push_str("  </testsuite>\n");
    }
    xml.push_str("</testsuites>\n");
    xml
}

fn seconds(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}

/// Text that is legal in an attribute and in an element (XML 1.0 §2.2: most control characters are legal nowhere).
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::{CaseReport, SweepReport};

    #[test]
    fn hostile_names_stay_text() {
        let case = |name: &str, failures: &[&str]| CaseReport {
            name: name.to_owned(),
            line: 7,
            passed: failures.is_empty(),
            outcome: "ok".to_owned(),
            failures: failures.iter().map(|text| (*text).to_owned()).collect(),
            calls: vec![],
            wall_us: 1_000_042,
            guest_us: 1,
            sweeps: failures
                .iter()
                .take(1)
                .map(|_| SweepReport {
                    kind: "faults",
                    runs: 9,
                    failed: 1,
                })
                .collect(),
        };
        let report = SuiteReport {
            suite: "a \"b\" <c>".to_owned(),
            file: "s.yaml".to_owned(),
            plugin: "p".to_owned(),
            digest: "d".to_owned(),
            cases: vec![
                case("good", &[]),
                case("bad\u{1b}", &["]]></x> & more\nsecond", "third"]),
            ],
            coverage: crate::Met::default(),
        };
        expect![[r#"
            <?xml version="1.0" encoding="UTF-8"?>
            <testsuites>
              <testsuite name="a &quot;b&quot; &lt;c&gt;" file="s.yaml" tests="2" failures="1" time="2.000084">
                <testcase name="good" classname="a &quot;b&quot; &lt;c&gt;" line="7" time="1.000042"/>
                <testcase name="bad�" classname="a &quot;b&quot; &lt;c&gt;" line="7" time="1.000042">
                  <failure message="]]&gt;&lt;/x&gt; &amp; more">]]&gt;&lt;/x&gt; &amp; more
            second
            third</failure>
                  <system-out>sweep of faults: 9 runs, 1 failed</system-out>
                </testcase>
              </testsuite>
            </testsuites>
        "#]]
        .assert_eq(&junit(&[report]));
    }
}

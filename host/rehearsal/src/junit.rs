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
            if case.passed {
                xml.push_str("/>\n");
                continue;
            }
            let first = case.failures.first().and_then(|failure| failure.lines().next());
            let _ = writeln!(
                xml,
                ">\n      <failure message=\"{}\">{}</failure>\n    </testcase>",
                escape(first.unwrap_or_default()),
                escape(&case.failures.join("\n"))
            );
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
    use crate::CaseReport;

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
                </testcase>
              </testsuite>
            </testsuites>
        "#]]
        .assert_eq(&junit(&[report]));
    }
}

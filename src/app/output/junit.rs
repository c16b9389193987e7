//! JUnit XML of `clk test`: a suite for each file, a case for each test. Continuous integration systems read it.

use std::fmt::Write as _;

use clk_base::diag::Diagnostic;
use clk_base::escape;
use clk_base::render::{self, RenderStyle};
use clk_base::source::SourceMap;

/// The result of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CaseStatus {
    Passed,
    Failed,
    /// The test did not run.
    NotRun,
}

struct JunitCase {
    suite: String,
    name: String,
    status: CaseStatus,
    seconds: f64,
    /// The title and the code of the first error.
    cause: Option<(String, &'static str)>,
    /// The diagnostics as text.
    details: String,
    printed: String,
}

/// The tests that have run so far, in order.
#[derive(Default)]
pub(crate) struct JunitReport {
    cases: Vec<JunitCase>,
    /// The diagnostics since the last test.
    cause: Option<(String, &'static str)>,
    details: String,
}

impl JunitReport {
    /// Adds a diagnostic of the next test that [`JunitReport::add_case`] adds.
    pub fn add_diagnostic(&mut self, diagnostic: &Diagnostic, sources: &SourceMap) {
        if self.cause.is_none() && diagnostic.is_error() {
            self.cause = Some((diagnostic.title.clone(), diagnostic.code));
        }
        let style = RenderStyle { ascii: false, color: false, width: 100 };
        self.details += &render::text(diagnostic, sources, style);
        self.details.push('\n');
    }

    /// Drops the diagnostics that belong to none of the tests so far, such as warnings about a whole file.
    pub fn start_suite(&mut self) {
        self.cause = None;
        self.details.clear();
    }

    pub fn add_case(&mut self, suite: &str, name: &str, status: CaseStatus, seconds: Option<f64>, printed: &str) {
        self.cases.push(JunitCase {
            suite: suite.to_owned(),
            name: name.to_owned(),
            status,
            seconds: seconds.unwrap_or_default(),
            cause: self.cause.take(),
            details: std::mem::take(&mut self.details),
            printed: printed.to_owned(),
        });
    }

    /// Returns the document.
    pub fn finish(&self) -> String {
        let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        let _ = writeln!(text, "<testsuites name=\"clk\" {}>", totals(&self.cases));
        for suite in self.cases.chunk_by(|a, b| a.suite == b.suite) {
            let name = suite.first().map_or("", |case| &case.suite);
            let _ = writeln!(text, "  <testsuite name=\"{}\" {} skipped=\"0\">", attribute(name), totals(suite));
            suite.iter().for_each(|case| case.write(&mut text));
            text += "  </testsuite>\n";
        }
        text + "</testsuites>\n"
    }
}

impl JunitCase {
    fn write(&self, text: &mut String) {
        let (suite, name) = (attribute(&self.suite), attribute(&self.name));
        let _ = write!(text, "    <testcase classname=\"{suite}\" name=\"{name}\" time=\"{:.6}\">", self.seconds);
        let element = match self.status {
            CaseStatus::Passed => None,
            CaseStatus::Failed => Some("failure"),
            CaseStatus::NotRun => Some("error"),
        };
        if let Some(element) = element {
            let (title, code) = self.cause.as_ref().map_or(("the test failed", ""), |(title, code)| (title, code));
            let (title, details) = (attribute(title), content(&self.details));
            let _ = write!(text, "\n      <{element} message=\"{title}\" type=\"{code}\">{details}</{element}>");
        } else if !self.details.is_empty() {
            let _ = write!(text, "\n      <system-err>{}</system-err>", content(&self.details));
        }
        if !self.printed.is_empty() {
            let _ = write!(text, "\n      <system-out>{}</system-out>", content(&self.printed));
        }
        let is_empty = element.is_none() && self.printed.is_empty() && self.details.is_empty();
        *text += if is_empty { "</testcase>\n" } else { "\n    </testcase>\n" };
    }
}

/// Returns the attributes with the numbers of tests and the time.
fn totals(cases: &[JunitCase]) -> String {
    let count = |status| cases.iter().filter(|case| case.status == status).count();
    let seconds: f64 = cases.iter().map(|case| case.seconds).sum();
    format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\" time=\"{seconds:.6}\"",
        cases.len(),
        count(CaseStatus::Failed),
        count(CaseStatus::NotRun)
    )
}

/// Escapes the text of an element. XML has no control characters except tabs and line ends.
fn content(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in escape::lines(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Escapes the value of an attribute, in which parsers replace line ends by blanks.
fn attribute(text: &str) -> String {
    content(text).replace('\n', "&#10;").replace('\t', "&#9;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_grouped_by_file() {
        let mut report = JunitReport::default();
        report.add_case("a.clk", "one", CaseStatus::Passed, Some(0.5), "");
        report.add_diagnostic(&Diagnostic::error("E0530", "1 < 2 & \"x\""), &SourceMap::default());
        report.add_case("a.clk", "two\n<b>", CaseStatus::Failed, Some(0.25), "\u{1b}[1m]]>\u{ffff}");
        report.add_case("b.clk", "(all)", CaseStatus::NotRun, None, "");
        let text = report.finish();
        assert!(text.contains("<testsuites name=\"clk\" tests=\"3\" failures=\"1\" errors=\"1\" time=\"0.750000\">"));
        assert!(text.contains("<testcase classname=\"a.clk\" name=\"one\" time=\"0.500000\"></testcase>"), "{text}");
        assert!(text.contains("name=\"two&#10;&lt;b&gt;\""), "{text}");
        assert!(text.contains("<failure message=\"1 &lt; 2 &amp; &quot;x&quot;\" type=\"E0530\">"), "{text}");
        assert!(text.contains("<system-out>\\u{1b}[1m]]&gt;\u{fffd}</system-out>"), "{text}");
        assert!(text.contains("<error message=\"the test failed\" type=\"\"></error>"), "{text}");
    }
}

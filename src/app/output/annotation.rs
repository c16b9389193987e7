//! Annotations of GitHub workflows, which GitHub shows at their places:
//! `::error file=a.clk,line=3,title=Clk E0610::a data race`.

use clk_base::diag::{Diagnostic, Severity};
use clk_base::escape;
use clk_base::source::{SourceMap, Span};

use super::sarif::message_text;

/// Returns the annotation of a diagnostic, without a line end.
pub(crate) fn of_diagnostic(diagnostic: &Diagnostic, sources: &SourceMap) -> String {
    let diagnostic = &*diagnostic.at_origins(sources);
    let command = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "notice",
    };
    let title = format!("Clk {}", diagnostic.code);
    annotation(command, &title, &message_text(diagnostic), diagnostic.primary(), sources)
}

/// Returns an annotation; `command` is `error`, `warning` or `notice`.
pub(crate) fn annotation(
    command: &str,
    title: &str,
    message: &str,
    place: Option<Span>,
    sources: &SourceMap,
) -> String {
    let mut properties: Vec<String> = vec![];
    if let Some(place) = place.map(|place| sources.original(place)) {
        let (line, column) = sources.line_column(place);
        let (end_line, end_column) = sources.line_column(place.after());
        properties.push(format!("file={}", property(sources.name(place.file))));
        properties.push(format!("line={line},endLine={end_line}"));
        // GitHub ignores annotations with columns whose range has several lines. It includes the end column.
        if line == end_line {
            properties.push(format!("col={column},endColumn={}", end_column.saturating_sub(1).max(column)));
        }
    }
    properties.push(format!("title={}", property(title)));
    format!("::{command} {}::{}", properties.join(","), data(message))
}

/// Escapes a message. GitHub decodes `%25`, `%0D` and `%0A`.
fn data(text: &str) -> String {
    let encoded = text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    escape::name(&encoded).into_owned()
}

/// Escapes the value of a property, in which GitHub also decodes `%3A` and `%2C`.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: &str, text: &str, range: (usize, usize), title: &str) -> String {
        let mut sources = SourceMap::default();
        let file = sources.add(name, text);
        of_diagnostic(&Diagnostic::error("E0610", title).at(Span::new(file, range.0, range.1), "here"), &sources)
    }

    #[test]
    fn annotations_have_places() {
        let expected = "::error file=a.clk,line=2,endLine=2,col=1,endColumn=3,title=Clk E0610::a race%0Ahere";
        assert_eq!(shown("a.clk", "x\nabc\n", (2, 5), "a race"), expected);
        let several = shown("a.clk", "x\nabc\n", (0, 5), "a race");
        assert_eq!(several, "::error file=a.clk,line=1,endLine=2,title=Clk E0610::a race%0Ahere");
    }

    #[test]
    fn text_is_escaped() {
        let line = shown("a,b:%\n.clk", "x", (0, 1), "50 %\r\n::error::\u{1b}[31m");
        assert!(line.starts_with("::error file=a%2Cb%3A%25%0A.clk,line=1"), "{line}");
        assert!(line.ends_with("::50 %25%0D%0A::error::\\u{1b}[31m%0Ahere"), "{line}");
        assert_eq!(line.lines().count(), 1);
    }
}

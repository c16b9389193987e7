//! Finds the source texts of definitions.

use crate::repl::entry::RELOAD_NAME;
use crate::repl::state::Repl;
use clk_check::typed::NameBinding;

impl Repl<'_> {
    /// Returns the source text of a definition, including its documentation comment.
    pub(super) fn source_of(&self, name: &str) -> Option<String> {
        if let Some((span, _)) = self.session.definitions.place(name) {
            let text = self.session.sources.text(span.file);
            let start = comment_start(text, span.start as usize);
            return text.get(start..span.end as usize).map(str::to_string);
        }
        // The source text of a variable is the whole entry that declared it.
        let NameBinding::Global(id) = self.binding(name)? else { return None };
        let span = self.session.program.globals.get(id)?.span;
        let text = self.session.sources.text(span.file);
        (!text.is_empty()).then(|| text.trim_end().to_string())
    }

    /// Runs an earlier entry again. It gets no new number, and its value is not shown.
    pub(super) fn run_again(&mut self, text: &str) -> bool {
        self.run_text(RELOAD_NAME, text, None)
    }
}

/// Returns the offset of the first comment line directly above an offset; without comments, the start of the line.
fn comment_start(text: &str, start: usize) -> usize {
    let mut begin = text.get(..start).and_then(|t| t.rfind('\n')).map_or(0, |at| at + 1);
    while begin > 0 {
        let line_start = text.get(..begin - 1).and_then(|t| t.rfind('\n')).map_or(0, |at| at + 1);
        if !text.get(line_start..begin).unwrap_or("").trim_start().starts_with("//") {
            break;
        }
        begin = line_start;
    }
    begin
}

#[cfg(test)]
mod tests {
    use super::comment_start;

    #[test]
    fn comments_belong_to_the_next_item() {
        let text = "let x = 1\n/// Doc.\n// more\nfn f() {}\n";
        assert_eq!(comment_start(text, text.find("fn").expect("there")), 10);
        assert_eq!(comment_start("fn f() {}", 0), 0);
    }
}

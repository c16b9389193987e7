//! Source texts of definitions.

use crate::app::repl::entry::AGAIN;
use crate::app::repl::state::Repl;
use crate::check::typed::Binding;

impl Repl<'_> {
    /// Returns the source text of a definition, with its documentation.
    pub(super) fn source_of(&self, name: &str) -> Option<String> {
        if let Some((span, _)) = self.session.definitions.place(name) {
            let text = self.session.sources.text(span.file);
            let start = above(text, span.start as usize);
            return text.get(start..span.end as usize).map(str::to_string);
        }
        // For a variable, the entry that declared it.
        let Binding::Global(id) = self.binding(name)? else { return None };
        let span = self.session.program.globals.get(id)?.span;
        let text = self.session.sources.text(span.file);
        (!text.is_empty()).then(|| text.trim_end().to_string())
    }

    /// Repeats an earlier entry, without a number.
    pub(super) fn again(&mut self, text: &str) -> bool {
        self.run_text(AGAIN, text, None)
    }
}

/// Returns the offset where the comment lines above an offset begin.
fn above(text: &str, start: usize) -> usize {
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
    use super::above;

    #[test]
    fn comments_belong_to_what_follows() {
        let text = "let x = 1\n/// Doc.\n// more\nfn f() {}\n";
        assert_eq!(above(text, text.find("fn").expect("there")), 10);
        assert_eq!(above("fn f() {}", 0), 0);
    }
}

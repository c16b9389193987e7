//! Places in the sources of an analysis, as the protocol's JSON.

use std::ops::Range;

use serde_json::{Value, json};

use super::text::Text;
use clk_base::diag::{Diagnostic, Fix, Severity};
use clk_base::source::{FileId, SourceMap};
use clk_ide::TextLocation;

/// The sources of the analysis of a document.
pub(crate) struct SourcePlaces<'a> {
    pub sources: &'a SourceMap,
    /// The document among the sources.
    pub file: FileId,
    pub text: &'a Text,
    pub address: &'a str,
}

impl SourcePlaces<'_> {
    /// Converts a diagnostic. If it is about another file, `blamed` returns the place in the document to show it at.
    pub fn diagnostic(&self, found: &Diagnostic, blamed: &dyn Fn(&Diagnostic) -> Range<usize>) -> Value {
        let primary = found.labels.iter().find(|l| l.is_primary()).or(found.labels.first());
        let own = primary.filter(|l| l.span.file == self.file);
        let range = own.map_or_else(|| blamed(found), |l| l.span.range());
        let mut message = found.title.clone();
        if let Some(label) = own.filter(|l| !l.text.is_empty()) {
            message += &format!("\n{}", label.text);
        }
        found.help.iter().for_each(|help| message += &format!("\nhelp: {help}"));
        found.notes.iter().for_each(|note| message += &format!("\nnote: {note}"));
        let others = found.labels.iter().filter(|l| own.is_none_or(|own| l.span != own.span || l.text != own.text));
        let related: Vec<Value> = others
            .map(|label| {
                let place =
                    TextLocation { file: self.sources.name(label.span.file).to_owned(), range: label.span.range() };
                json!({ "location": self.location(&place), "message": label.text })
            })
            .collect();
        let severity = match found.severity {
            Severity::Error => 1,
            Severity::Warning => 2,
            Severity::Note => 3,
        };
        let mut out = json!({
            "range": self.text.json_range(&range),
            "severity": severity,
            "code": found.code,
            "source": "clk",
            "message": message,
            "relatedInformation": related,
        });
        if found.code.starts_with('W') && found.title.contains("never used") {
            out["tags"] = json!([1]);
        }
        out
    }

    /// Converts a location in the document or in another source.
    pub fn location(&self, place: &TextLocation) -> Value {
        if place.file == self.sources.name(self.file) {
            return json!({ "uri": self.address, "range": self.text.json_range(&place.range) });
        }
        let source = self.sources.files().find(|(_, s)| *s.name == *place.file).map(|(_, s)| s.text.to_string());
        let other = Text::new(source.unwrap_or_default(), self.text.encoding);
        json!({ "uri": super::source_uri::address_of(&place.file), "range": other.json_range(&place.range) })
    }

    /// Converts fixes to a workspace edit; `None` if they change another file.
    pub fn fix(&self, fixes: &[&Fix]) -> Option<Value> {
        let mut edits = Vec::new();
        for (span, new) in fixes.iter().flat_map(|f| &f.edits) {
            if span.file != self.file {
                return None;
            }
            edits.push(json!({ "range": self.text.json_range(&span.range()), "newText": new }));
        }
        Some(json!({ "changes": { self.address: edits } }))
    }
}

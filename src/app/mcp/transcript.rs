//! Collects the output of a tool, within a limit: the text that a terminal would show, and the data of `--json`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use crate::console::DisplaySink;
use clk_base::diag::Diagnostic;
use clk_base::render::{self, RenderStyle};
use clk_base::source::SourceMap;
use clk_host::picture::shown::ShownPicture;
use clk_host::value::HostValue;

/// Style of the text.
pub(super) const STYLE: RenderStyle = RenderStyle { color: false, ascii: false, width: 100 };

/// The output of a tool. Receives everything that its console writes.
pub(super) struct Transcript(Mutex<CollectedOutput>);

struct CollectedOutput {
    /// Everything, in order.
    text: LimitedText,
    /// Bytes left for the text.
    text_left: usize,
    /// The part that programs print.
    printed: LimitedText,
    diagnostics: Vec<Value>,
    results: Vec<Value>,
    notes: Vec<Value>,
    /// Bytes left for the data: the printed part and the lists share one budget.
    data_left: usize,
    /// Bytes left for the printed part, so that it leaves room for diagnostics.
    printed_left: usize,
    /// Number of diagnostics, results and notes that were left out.
    items_left_out: u64,
}

/// A text that ends at a limit.
#[derive(Default)]
struct LimitedText {
    text: String,
    bytes_left_out: u64,
}

impl LimitedText {
    /// Adds the beginning of a text that takes at most `left` bytes in JSON; returns how many it takes.
    fn push(&mut self, text: &str, left: usize) -> usize {
        // After a part was left out, all later parts are left out too, so that the text has no gap.
        let (fits, size) = if self.bytes_left_out > 0 { (0, 0) } else { json_prefix(text, left) };
        self.text.push_str(&text[..fits]);
        self.bytes_left_out += (text.len() - fits) as u64;
        size
    }
}

/// Returns the length of the longest beginning of a text that takes at most `most` bytes in a JSON string, and how many
/// it takes.
fn json_prefix(text: &str, most: usize) -> (usize, usize) {
    let mut size = 0;
    for (at, character) in text.char_indices() {
        let more = match character {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            '\0'..='\u{1f}' => 6,
            other => other.len_utf8(),
        };
        if size + more > most {
            return (at, size);
        }
        size += more;
    }
    (text.len(), size)
}

impl Transcript {
    /// Creates a transcript with a limit in bytes for the text, and the same for the data. The sizes are those in JSON.
    pub fn new(limit: usize) -> Transcript {
        Transcript(Mutex::new(CollectedOutput {
            text: LimitedText::default(),
            text_left: limit,
            printed: LimitedText::default(),
            printed_left: limit - limit / 4,
            diagnostics: vec![],
            results: vec![],
            notes: vec![],
            data_left: limit,
            items_left_out: 0,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, CollectedOutput> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line to the text only.
    pub fn conclude(&self, line: &str) {
        let mut collected = self.lock();
        if !collected.text.text.is_empty() && !collected.text.text.ends_with('\n') {
            collected.text.text.push('\n');
        }
        if collected.text.bytes_left_out > 0 {
            let left_out = collected.text.bytes_left_out;
            collected.text.text += &format!("… ({left_out} bytes are left out)\n");
        }
        // The conclusion always has room.
        collected.text.text += line;
    }

    /// Returns whether a tool has produced results.
    pub fn has_results(&self) -> bool {
        !self.lock().results.is_empty()
    }

    /// Returns the text and the structured content.
    pub fn content(&self) -> (String, Value) {
        let collected = self.lock();
        let data = json!({
            "output": collected.printed.text,
            "diagnostics": collected.diagnostics,
            "results": collected.results,
            "notes": collected.notes,
            "left_out": {
                "output_bytes": collected.printed.bytes_left_out,
                "text_bytes": collected.text.bytes_left_out,
                "items": collected.items_left_out,
            },
        });
        (collected.text.text.clone(), data)
    }
}

impl CollectedOutput {
    fn add_text(&mut self, text: &str) {
        self.text_left -= self.text.push(text, self.text_left);
    }

    fn add_printed(&mut self, text: &str) {
        let size = self.printed.push(text, self.printed_left.min(self.data_left));
        self.printed_left -= size;
        self.data_left -= size;
    }

    /// Adds a value to one of the lists if it fits.
    fn add(&mut self, list: impl FnOnce(&mut CollectedOutput) -> &mut Vec<Value>, value: Value) {
        // With the comma that separates it from the next value.
        let size = value.to_string().len() + 1;
        if size > self.data_left || self.items_left_out > 0 {
            self.items_left_out += 1;
            return;
        }
        self.data_left -= size;
        list(self).push(value);
    }
}

impl DisplaySink for Transcript {
    fn print(&self, text: &str) {
        let mut collected = self.lock();
        collected.add_text(text);
        collected.add_printed(text);
    }

    fn error(&self, lines: &str) {
        let mut collected = self.lock();
        collected.add_text(lines);
        collected.add_text("\n");
        collected.add(|collected| &mut collected.notes, json!(lines));
    }

    fn report(&self, diagnostic: &Diagnostic, sources: &SourceMap) {
        let text = render::text(diagnostic, sources, STYLE) + "\n";
        let data = serde_json::from_str(&render::json(diagnostic, sources));
        let mut collected = self.lock();
        collected.add_text(&text);
        collected.add(|collected| &mut collected.diagnostics, data.unwrap_or(Value::Null));
    }

    fn show(&self, _: &ShownPicture) {
        self.error("note: a picture was shown, which is not part of the result");
    }

    fn value(&self, _: &HostValue, text: &str) {
        self.print(text);
    }

    fn results(&self, data: Vec<Value>, text: &str) {
        let mut collected = self.lock();
        collected.add_text(text);
        for value in data {
            collected.add(|collected| &mut collected.results, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_ends_at_the_limit() {
        let transcript = Transcript::new(20);
        transcript.print("1234é67\n\t\"\\\u{1}");
        transcript.print("abc");
        transcript.results(vec![json!([1]), json!("too long to fit"), json!(1)], "");
        transcript.conclude("end");
        let (text, data) = transcript.content();
        assert_eq!(text, "1234é67\n\t\"\\\n… (4 bytes are left out)\nend");
        assert_eq!(data["output"], "1234é67\n\t\"");
        assert_eq!(data["results"], json!([[1]]));
        assert_eq!(data["left_out"], json!({ "output_bytes": 5, "text_bytes": 4, "items": 2 }));
        let cut = Transcript::new(5);
        cut.print("1234é");
        assert_eq!(cut.content().0, "1234", "a character is not divided");
        let one_budget = Transcript::new(40);
        one_budget.print(&"\u{1}".repeat(40));
        one_budget.error("a note");
        one_budget.error("another note");
        let (_, data) = one_budget.content();
        assert_eq!((data["output"].as_str().map(str::len), &data["notes"]), (Some(5), &json!(["a note"])));
    }
}

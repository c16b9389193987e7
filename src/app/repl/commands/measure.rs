//! `:time` and `:bench`: repeated evaluation of an expression in a copy of the session, which is not changed.

use crate::app::disk::Disk;
use crate::app::repl::state::{Answer, Repl};
use crate::base::source::FileId;
use crate::check::typed::Binding;
use crate::host::format;
use crate::host::value::Value;
use crate::syntax::{lex, token::Tok};

impl Repl<'_> {
    pub(super) fn time(&mut self, expression: &str) -> Answer {
        if expression.is_empty() {
            return Err("`:time` wants an expression, as in `:time sum(x)`".into());
        }
        let measured = self.aside(|repl| repl.evaluate("<time>", &format!("time {{\n{expression}\n}}")));
        let text = measured.map(|value| format::print(&value)).transpose().map_err(|problem| problem.title)?;
        Ok(text.map(|text| text + "\n").unwrap_or_default())
    }

    pub(super) fn bench(&mut self, expression: &str) -> Answer {
        if expression.is_empty() {
            return Err("`:bench` wants an expression, as in `:bench saxpy(2.0, x, y)`".into());
        }
        let rate = match self.moved(expression) {
            0 => String::new(),
            bytes => format!(" bytes = {bytes}"),
        };
        let title = expression.replace('\\', "\\\\").replace('"', "\\\"").replace('{', "{{").replace('}', "}}");
        let title = title.lines().next().unwrap_or("").to_string();
        let text = format!("bench \"{title}\"{rate} {{\n{expression}\n}}");
        self.aside(|repl| {
            let outcome = repl.session.enter("<bench>", &text, &Disk).outcome;
            repl.report_all(&outcome.diagnostics);
            let new = repl.session.program.benches.iter().map(|(id, _)| id).next_back();
            if let (false, Some(id)) = (outcome.failed(), new) {
                repl.run_bench(id);
            }
        });
        if !rate.is_empty() {
            return Ok("  bytes: every array that is named, and the result, counted once\n".into());
        }
        Ok(String::new())
    }

    /// Evaluates a text that is added to the session; `None` after a failure was reported.
    fn evaluate(&mut self, name: &str, text: &str) -> Option<Value> {
        let outcome = self.session.enter(name, text, &Disk).outcome;
        self.report_all(&outcome.diagnostics);
        if outcome.failed() {
            return None;
        }
        let mut value = None;
        for chunk in outcome.chunks {
            let mut world = crate::app::world::Captured::default();
            match self.interpreter.run_entry(&self.session, chunk, &mut world) {
                Ok(last) => value = last.map(|last| last.value),
                Err(diagnostic) => {
                    self.report_all(&[*diagnostic]);
                    return None;
                }
            }
        }
        value
    }

    /// Returns the size in bytes of the value and of all arrays that an expression names: a lower bound of the data moved.
    fn moved(&mut self, expression: &str) -> usize {
        let lexed = lex(FileId(0), expression);
        let mut names: Vec<&str> =
            lexed.tokens.iter().filter(|t| t.kind == Tok::Name).map(|t| t.text(expression)).collect();
        names.sort_unstable();
        names.dedup();
        let named = names.iter().filter_map(|name| match self.binding(name)? {
            Binding::Global(id) => self.value(id),
            _ => None,
        });
        let named: usize = named.map(Value::byte_len).sum();
        if named == 0 {
            return 0;
        }
        let result = self.aside(|repl| {
            // Diagnostics are reported once, when the expression is timed.
            let outcome = repl.session.enter("<bench>", expression, &Disk).outcome;
            let mut world = crate::app::world::Captured::default();
            let mut size = 0;
            for chunk in outcome.chunks {
                let last = repl.interpreter.run_entry(&repl.session, chunk, &mut world).ok().flatten();
                size = last.map_or(0, |last| last.value.byte_len());
            }
            size
        });
        named + result
    }
}

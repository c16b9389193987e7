//! `:time` and `:bench`: evaluate an expression repeatedly, in a copy of the session.

use crate::command_error::CommandResult;
use crate::disk::Disk;
use crate::repl::state::Repl;
use clk_base::source::FileId;
use clk_check::typed::NameBinding;
use clk_host::format;
use clk_host::value::HostValue;
use clk_syntax::{lex, token::Tok};

impl Repl<'_> {
    pub(super) fn time(&mut self, expression: &str) -> CommandResult {
        if expression.is_empty() {
            return Err("`:time` wants an expression, as in `:time sum(x)`".into());
        }
        let measured = self.run_and_discard(|repl| repl.evaluate("<time>", &format!("time {{\n{expression}\n}}")));
        let text = measured.map(|value| format::print(&value)).transpose().map_err(|problem| problem.title)?;
        Ok(text.map(|text| text + "\n").unwrap_or_default())
    }

    pub(super) fn bench(&mut self, expression: &str) -> CommandResult {
        if expression.is_empty() {
            return Err("`:bench` wants an expression, as in `:bench saxpy(2.0, x, y)`".into());
        }
        let rate = match self.bytes_moved(expression) {
            0 => String::new(),
            bytes => format!(" bytes = {bytes}"),
        };
        let title = expression.replace('\\', "\\\\").replace('"', "\\\"").replace('{', "{{").replace('}', "}}");
        let title = title.lines().next().unwrap_or("").to_string();
        let text = format!("bench \"{title}\"{rate} {{\n{expression}\n}}");
        self.run_and_discard(|repl| {
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

    /// Adds a text to the session and returns its value; reports a failure and returns `None`.
    fn evaluate(&mut self, name: &str, text: &str) -> Option<HostValue> {
        let outcome = self.session.enter(name, text, &Disk).outcome;
        self.report_all(&outcome.diagnostics);
        if outcome.failed() {
            return None;
        }
        let mut value = None;
        for chunk in outcome.chunks {
            let mut world = crate::effects::CapturedEffects::default();
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

    /// Returns the total size, in bytes, of an expression's result and of all variables that it uses. This is a lower
    /// bound for the bytes moved.
    fn bytes_moved(&mut self, expression: &str) -> usize {
        let lexed = lex(FileId(0), expression);
        let mut names: Vec<&str> =
            lexed.tokens.iter().filter(|t| t.kind == Tok::Name).map(|t| t.text(expression)).collect();
        names.sort_unstable();
        names.dedup();
        let values = names.iter().filter_map(|name| match self.binding(name)? {
            NameBinding::Global(id) => self.value(id),
            _ => None,
        });
        let values: usize = values.map(HostValue::byte_len).sum();
        if values == 0 {
            return 0;
        }
        let result = self.run_and_discard(|repl| {
            // Diagnostics are reported once, when the expression is timed.
            let outcome = repl.session.enter("<bench>", expression, &Disk).outcome;
            let mut world = crate::effects::CapturedEffects::default();
            let mut size = 0;
            for chunk in outcome.chunks {
                let last = repl.interpreter.run_entry(&repl.session, chunk, &mut world).ok().flatten();
                size = last.map_or(0, |last| last.value.byte_len());
            }
            size
        });
        values + result
    }
}

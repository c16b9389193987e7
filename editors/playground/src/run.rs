//! Runs and formats scripts.

use std::sync::Arc;

use crate::world::BrowserEffects;
use crate::{EventSink, PageEvent};
use clk_base::diag::Diagnostic;
use clk_base::escape;
use clk_base::render::{self, RenderStyle};
#[cfg(target_family = "wasm")]
use clk_base::source::Span;
use clk_base::source::{FileId, SourceMap};
use clk_compile::{NoFiles, Session};
use clk_host::format;
use clk_host::interp::{Interpreter, ScriptOptions, UncoveredSizes};
#[cfg(target_family = "wasm")]
use clk_host::problem::RuntimeError;
use clk_host::value::HostValue;
use clk_ir::Checks;
use clk_prove::{RaceEvidence, UntestedSizes, settle_warnings};
use clk_runtime::Control;
use clk_sim::{Proofs, Simulator};

/// The name of the script in messages.
const NAME: &str = "playground.clk";

/// The style of diagnostics. The width is smaller than that of a terminal, because pages are also read on phones.
const STYLE: RenderStyle = RenderStyle { color: true, ascii: false, width: 80 };

const FAILURE: u8 = 1;

/// A script and the state of its run.
pub(crate) struct ScriptRun {
    session: Session,
    interpreter: Interpreter,
}

impl ScriptRun {
    pub fn new(check: bool, stack_end: usize) -> ScriptRun {
        let checks = Checks { memory: check, arithmetic: check, nan: false };
        let control = Control { workers: 1, checks, ..Control::default() };
        let device = Arc::new(Simulator::default().with_proofs(Proofs::Used));
        let mut interpreter = Interpreter::new(ScriptOptions { args: vec![], control, seed: None, device });
        interpreter.observers.coverage_hints = check;
        interpreter.observers.race_evidence = Some(Arc::new(RaceEvidence));
        interpreter.stack.end = stack_end;
        ScriptRun { session: Session::default(), interpreter }
    }

    /// Converts an error to a diagnostic, located at the running statement if there is one.
    #[cfg(target_family = "wasm")]
    pub fn locate_error(&self, error: RuntimeError) -> (Diagnostic, &SourceMap) {
        let span = self.interpreter.current_statement();
        let is_known = span != Span::default();
        (if is_known { error.at(span) } else { error.anywhere() }, &self.session.sources)
    }

    /// Returns the new warnings of the run. Omits those that a proof refutes, and those that repeat the fault that
    /// ended the run.
    fn take_warnings(&mut self, fault: Option<&Diagnostic>) -> Vec<Diagnostic> {
        let warnings = self.interpreter.take_warnings();
        let kernels = self.interpreter.observers.coverage.undercovered_kernels();
        let small = kernels.map(|(kernel, UncoveredSizes { blocks, warps })| UntestedSizes { kernel, blocks, warps });
        settle_warnings((warnings, fault), small, &self.session.program, self.session.main, &|| false)
    }

    /// Runs a script; returns its exit code.
    pub fn script(&mut self, text: &str, page: EventSink<'_>) -> u8 {
        let mut outcome = self.session.add(NAME, text, &NoFiles);
        if !outcome.failed() {
            outcome.diagnostics.extend(self.session.examine());
        }
        for diagnostic in &outcome.diagnostics {
            report(diagnostic, &self.session.sources, page);
        }
        if outcome.failed() {
            return FAILURE;
        }
        let mut world = BrowserEffects::new(page);
        for chunk in outcome.chunks {
            let result = self.interpreter.run_chunk(&self.session, chunk, &mut world);
            for warning in self.take_warnings(result.as_ref().err().map(|fault| &**fault)) {
                report(&warning, &self.session.sources, world.page);
            }
            if let Some(code) = self.interpreter.exit_code {
                return code;
            }
            match result.and_then(|value| value.as_ref().map(value_text).transpose()) {
                Ok(Some(text)) => (world.page)(PageEvent::Value(&text)),
                Ok(None) => {}
                Err(diagnostic) => {
                    report(&diagnostic, &self.session.sources, world.page);
                    return FAILURE;
                }
            }
        }
        0
    }
}

/// Runs a script and returns its exit code. If `check`, launches check for races and other faults. `stack_end` is the
/// lowest address that the stack may reach; 0 if it is unknown.
pub fn run(text: &str, check: bool, stack_end: usize, page: EventSink<'_>) -> u8 {
    ScriptRun::new(check, stack_end).script(text, page)
}

/// Formats a program. Returns an exit code.
pub fn format(text: &str, page: EventSink<'_>) -> u8 {
    let mut sources = SourceMap::default();
    let file: FileId = sources.add(NAME, text);
    match clk_fmt::format(file, text) {
        Ok(formatted) => {
            page(PageEvent::Formatted(&formatted.text));
            0
        }
        Err(diagnostics) => {
            diagnostics.iter().for_each(|diagnostic| report(diagnostic, &sources, page));
            FAILURE
        }
    }
}

pub(crate) fn report(diagnostic: &Diagnostic, sources: &SourceMap, page: EventSink<'_>) {
    page(PageEvent::Report(&render::json(diagnostic, sources), &render::text(diagnostic, sources, STYLE)));
}

/// Returns a value as an interactive session shows it.
fn value_text(value: &HostValue) -> Result<String, Box<Diagnostic>> {
    match value {
        // Escapes control sequences in strings.
        HostValue::Str(text) => Ok(escape::lines(text).into_owned()),
        value => format::print(value).map_err(|problem| Box::new(problem.anywhere())),
    }
}

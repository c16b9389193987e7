//! Runs and formats scripts. Input: a text. Output: events, and an exit code.

use std::sync::Arc;

use crate::base::diag::Diagnostic;
use crate::base::escape;
use crate::base::render::{self, Style};
#[cfg(target_family = "wasm")]
use crate::base::source::Span;
use crate::base::source::{FileId, Sources};
use crate::compile::{NoFiles, Session};
use crate::device::Control;
use crate::device::sim::{Proofs, Simulator};
use crate::host::format;
use crate::host::interp::{Interpreter, Missed, Options};
#[cfg(target_family = "wasm")]
use crate::host::problem::Problem;
use crate::host::value::Value;
use crate::ir::Checks;
use crate::prove::{Small, Witness, settled};
use crate::world::Browser;
use crate::{Event, Page, fmt};

/// The name of the script in messages.
const NAME: &str = "playground.clk";

/// Columns of messages: less than in a terminal, as pages are read on phones, too.
const STYLE: Style = Style { color: true, ascii: false, width: 80 };

const FAILURE: u8 = 1;

/// A script and the state of its run.
pub(crate) struct Running {
    session: Session,
    interpreter: Interpreter,
}

impl Running {
    pub fn new(check: bool, stack_end: usize) -> Running {
        let checks = Checks { memory: check, arithmetic: check, nan: false };
        let control = Control { workers: 1, checks, ..Control::default() };
        let device = Arc::new(Simulator::default().with_proofs(Proofs::Used));
        let mut interpreter = Interpreter::new(Options { args: vec![], control, seed: None, device });
        interpreter.hints = check;
        interpreter.evidence = Some(Arc::new(Witness));
        interpreter.stack_end = stack_end;
        Running { session: Session::default(), interpreter }
    }

    /// Returns an error of the statement that runs, if one does.
    #[cfg(target_family = "wasm")]
    pub fn failed(&self, problem: Problem) -> (Diagnostic, &Sources) {
        let place = self.interpreter.place();
        let is_known = place != Span::default();
        (if is_known { problem.at(place) } else { problem.anywhere() }, &self.session.sources)
    }

    /// Takes the warnings of the run, settled by proofs; the fault with which it has failed is not among them.
    fn warnings(&mut self, failed: Option<&Diagnostic>) -> Vec<Diagnostic> {
        let warnings = self.interpreter.take_warnings();
        let kernels = self.interpreter.small.kernels();
        let small = kernels.map(|(kernel, Missed { blocks, warps })| Small { kernel, blocks, warps });
        settled((warnings, failed), small, &self.session.program, self.session.main, &|| false)
    }

    /// Runs a script; returns its exit code.
    pub fn script(&mut self, text: &str, page: Page<'_>) -> u8 {
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
        let mut world = Browser::new(page);
        for chunk in outcome.chunks {
            let ran = self.interpreter.run_chunk(&self.session, chunk, &mut world);
            for warning in self.warnings(ran.as_ref().err().map(|failed| &**failed)) {
                report(&warning, &self.session.sources, world.page);
            }
            if let Some(code) = self.interpreter.ended {
                return code;
            }
            match ran.and_then(|value| value.as_ref().map(shown).transpose()) {
                Ok(Some(text)) => (world.page)(Event::Value(&text)),
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

/// Runs a script; returns its exit code. With `check`, launches look for races and the like. `stack_end` is the lowest address that
/// the stack may reach; 0 if that is not known.
pub fn run(text: &str, check: bool, stack_end: usize, page: Page<'_>) -> u8 {
    Running::new(check, stack_end).script(text, page)
}

/// Formats a program; returns an exit code.
pub fn format(text: &str, page: Page<'_>) -> u8 {
    let mut sources = Sources::default();
    let file: FileId = sources.add(NAME, text);
    match fmt::format(file, text) {
        Ok(formatted) => {
            page(Event::Formatted(&formatted.text));
            0
        }
        Err(diagnostics) => {
            diagnostics.iter().for_each(|diagnostic| report(diagnostic, &sources, page));
            FAILURE
        }
    }
}

pub(crate) fn report(diagnostic: &Diagnostic, sources: &Sources, page: Page<'_>) {
    page(Event::Report(&render::json(diagnostic, sources), &render::text(diagnostic, sources, STYLE)));
}

fn shown(value: &Value) -> Result<String, Box<Diagnostic>> {
    match value {
        // A text may have control sequences.
        Value::Str(text) => Ok(escape::lines(text).into_owned()),
        value => format::print(value).map_err(|problem| Box::new(problem.anywhere())),
    }
}

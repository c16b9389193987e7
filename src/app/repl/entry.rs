//! Entries of a session: compiling, running, showing and keeping their values, and rolling back failed ones.

use std::io::IsTerminal;
use std::path::Path;

use super::state::Repl;
use super::transcript::Kept;
use crate::app::cli;
use crate::app::console::paint;
use crate::app::disk::Disk;
use crate::app::memory;
use crate::app::progress::{self, Notes};
use crate::app::world::Terminal;
use crate::base::aligned;
use crate::base::arena::Id;
use crate::base::diag::Diagnostic;
use crate::base::escape;
use crate::base::source::Span;
use crate::check::typed::{Binding, Global, Section};
use crate::compile::{Entered, Session};
use crate::host;
use crate::host::interp::{Draws, Interpreter, Last};
use crate::host::problem::Outcome;
use crate::host::unwind;
use crate::host::value::Value;

/// Number of last values that keep a name such as `_3`, and their most bytes; older ones are freed. The last value always stays.
const VALUES: usize = 20;
const MOST_BYTES: usize = 256 << 20;

/// Source name of imports that are repeated; they are in the log already.
pub(super) const AGAIN: &str = "<reload>";

/// The state that an entry can change, for rollback.
struct State {
    session: Session,
    globals: Vec<Option<Value>>,
    draws: Draws,
}

impl Repl<'_> {
    /// Runs an entry with the next number; returns false after a failure was reported.
    pub(super) fn program(&mut self, text: &str) -> bool {
        self.entries += 1;
        let name = format!("<entry {}>", self.entries);
        let number = Some(self.entries);
        self.run_text(&name, text, number)
    }

    /// Runs a file as if it were typed.
    pub(super) fn run_file(&mut self, path: &Path, text: &str) -> bool {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let usual = std::mem::replace(&mut self.session.folder, folder.to_path_buf());
        let ran = self.run_text(&path.display().to_string(), text, None);
        self.session.folder = usual;
        ran
    }

    /// Runs a text. `number` is that of an entry, whose value is shown and kept.
    pub(super) fn run_text(&mut self, name: &str, text: &str, number: Option<usize>) -> bool {
        let before = self.state();
        let entered = self.session.enter(name, text, &Disk);
        self.report_all(&entered.outcome.diagnostics);
        if entered.outcome.failed() {
            return false;
        }
        let Some(last) = self.run_chunks(&entered, number.is_some()) else {
            self.put_back(before);
            return false;
        };
        let tests = before.session.program.tests.len()..self.session.program.tests.len();
        let benches = before.session.program.benches.len()..self.session.program.benches.len();
        self.tell(&entered);
        let value = last.as_ref().map(|last| last.quiet);
        if let (Some(last), Some(number)) = (last, number) {
            self.keep(last, number);
        }
        if name != AGAIN {
            let kept = Kept::new((&before.session, &self.session), &entered, name, text, number, value);
            self.log_entry(kept, number.is_some());
        }
        self.run_sections(tests, benches)
    }

    /// Adds an entry to the log. A file reread by `:reload` keeps its position before the entries that use it; one that is loaded
    /// again moves to the end.
    fn log_entry(&mut self, kept: Kept, typed: bool) {
        let before = if typed { None } else { self.log.iter().position(|other| other.name == kept.name) };
        match before {
            Some(at) if self.reloading => self.log[at] = kept,
            Some(at) => {
                self.log.remove(at);
                self.log.push(kept);
            }
            None => self.log.push(kept),
        }
    }

    fn state(&self) -> State {
        let Interpreter { globals, draws, .. } = &self.interpreter;
        State { session: self.session.clone(), globals: globals.clone(), draws: *draws }
    }

    /// Runs `work` and rolls back the session if it unwinds, because of a stop request or lack of memory; returns `None` after that
    /// was reported.
    pub(super) fn undone_if_unwound<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.context.interrupt.clear();
        let (before, folder) = (self.state(), self.session.folder.clone());
        let (device, checks) = (self.interpreter.options.device.clone(), self.interpreter.options.control.checks);
        let flag = self.context.interrupt.flag();
        match unwind::caught(flag, || work(self)) {
            Ok(result) => Some(result),
            Err(why) => {
                self.session.folder = folder;
                self.interpreter.use_device(device);
                self.interpreter.use_checks(checks);
                self.put_back(before);
                self.report_all(&[why.anywhere()]);
                None
            }
        }
    }

    /// Restores a state, but keeps the sources, to which messages may refer.
    fn put_back(&mut self, before: State) {
        let sources = std::mem::take(&mut self.session.sources);
        let folder = std::mem::take(&mut self.session.folder);
        self.session = Session { sources, folder, ..before.session };
        self.interpreter.globals = before.globals;
        self.interpreter.draws = before.draws;
        self.interpreter.forget_kernels();
    }

    /// Runs the new chunks and shows the value; `None` after a failure was reported.
    fn run_chunks(&mut self, entered: &Entered, show: bool) -> Option<Option<Last>> {
        let mut last = None;
        let notes = || Some(Notes::new(&self.session.sources, "`:check ENTRY`"));
        let watch = progress::watch(&self.interpreter.options.control.progress, progress::OF_LAUNCHES, notes);
        for chunk in entered.outcome.chunks.clone() {
            let console = &mut self.context.console;
            let result = self.interpreter.run_entry(&self.session, chunk, &mut Terminal { console });
            let warnings = self.interpreter.take_warnings();
            self.report_all(&warnings);
            match result {
                Ok(found) => last = found,
                // `exit` in an entry ends the session; in a loaded file it ends only that file, with this error.
                Err(_) if show && self.interpreter.ended.is_some() => {
                    self.ended = self.interpreter.ended;
                    return None;
                }
                Err(diagnostic) => {
                    drop(watch);
                    if self.context.interrupt.is_set() && std::io::stderr().is_terminal() {
                        // The terminal has echoed `^C` on this line.
                        self.context.console.error_line("");
                    }
                    self.report_all(&[*diagnostic]);
                    return None;
                }
            }
        }
        drop(watch);
        if let Some(last) = last.as_ref().filter(|last| show && !last.quiet)
            && let Err(problem) = self.show(&last.value)
        {
            self.report_all(&[problem.anywhere()]);
            return None;
        }
        Some(last)
    }

    /// Shows a value; an array is followed by its type and size.
    fn show(&mut self, value: &Value) -> Outcome<()> {
        let console = &mut self.context.console;
        if let Some(stage) = &console.stage {
            stage.value(value, &host::format::print_in(value, console.style.width)?);
            return Ok(());
        }
        let mut text = match value {
            // Unlike the output of `print`, a shown string must not control the terminal; it may come from a file.
            Value::Str(text) => escape::lines(text).into_owned(),
            _ => host::format::print_in(value, console.style.width)?,
        };
        if let Value::Array(array) = value {
            text += &format!("\n{}", paint(console.style, "2", &host::format::describe(array)));
        }
        console.line(&text);
        Ok(())
    }

    /// Binds the last value to `_` and to its number, such as `_3`.
    fn keep(&mut self, last: Last, number: usize) {
        for name in ["_".to_string(), format!("_{number}")] {
            let Some(main) = self.session.main else { return };
            let global =
                Global { name: name.as_str().into(), ty: last.ty.clone(), mutable: false, span: Span::default() };
            let id = self.session.program.globals.push(global);
            self.session.program.modules[main].names.insert(name.into(), Binding::Global(id));
            self.interpreter.globals.resize(id.index() + 1, None);
            self.interpreter.globals[id.index()] = Some(last.value.clone());
        }
        self.values.push_back((number, last.value.byte_len()));
        while self.values.len() > 1 && (self.values.len() > VALUES || self.kept_bytes() > MOST_BYTES) {
            if let Some((old, _)) = self.values.pop_front() {
                self.forget(&format!("_{old}"));
            }
        }
    }

    fn kept_bytes(&self) -> usize {
        self.values.iter().fold(0, |all, (_, bytes)| all.saturating_add(*bytes))
    }

    /// Frees what no later entry can reach: values of variables that were defined again, and memory of arrays that are gone.
    pub(super) fn release(&mut self) {
        self.interpreter.release_shadowed(&self.session);
        match std::mem::take(&mut self.was_reset) {
            true => memory::give_back(),
            false => {
                aligned::retire();
                memory::trim();
            }
        }
    }

    fn forget(&mut self, name: &str) {
        if let Some(main) = self.session.main {
            self.session.program.modules[main].names.shift_remove(name);
        }
    }

    /// Reports the definitions that were recompiled because of a replaced one: those changed with it, and those that are valid again.
    fn tell(&mut self, entered: &Entered) {
        let list = |names: &[smol_str::SmolStr]| {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            names.join(", ")
        };
        let style = self.context.console.style;
        if !entered.followed.is_empty() {
            let text = format!("also in {}", list(&entered.followed));
            self.context.console.line(&paint(style, "2", &text));
        }
        if !entered.restored.is_empty() {
            let verb = if entered.restored.len() == 1 { "fits" } else { "fit" };
            let text = format!("{} {verb} again", list(&entered.restored));
            self.context.console.line(&paint(style, "2", &text));
        }
    }

    /// Runs the tests and benches of an entry.
    fn run_sections(&mut self, tests: std::ops::Range<usize>, benches: std::ops::Range<usize>) -> bool {
        let mut passed = true;
        let program = &self.session.program;
        let new = |range: &std::ops::Range<usize>, id: Id<Section>| range.contains(&id.index());
        let tests: Vec<Id<Section>> = program.tests.iter().map(|(id, _)| id).filter(|id| new(&tests, *id)).collect();
        let benches: Vec<Id<Section>> =
            program.benches.iter().map(|(id, _)| id).filter(|id| new(&benches, *id)).collect();
        let main = self.session.main;
        for id in tests.into_iter().filter(|id| Some(program.tests[*id].module) == main).collect::<Vec<_>>() {
            passed &= self.run_test(id);
        }
        let program = &self.session.program;
        for id in benches.into_iter().filter(|id| Some(program.benches[*id].module) == main).collect::<Vec<_>>() {
            passed &= self.run_bench(id);
        }
        passed
    }

    fn run_test(&mut self, id: Id<Section>) -> bool {
        let title = self.session.program.tests[id].title.clone();
        let console = &mut self.context.console;
        let result = self.interpreter.run_test(&self.session, id, &mut Terminal { console });
        let word = if result.is_ok() { console.paint("32", "ok    ") } else { console.paint("31", "FAILED") };
        console.line(&format!("  {word}  {}", escape::name(&title)));
        match result {
            Ok(()) => true,
            Err(diagnostic) => {
                self.report_all(&[*diagnostic]);
                false
            }
        }
    }

    pub(super) fn run_bench(&mut self, id: Id<Section>) -> bool {
        let title = self.session.program.benches[id].title.clone();
        let console = &mut self.context.console;
        match self.interpreter.run_bench(&self.session, id, &mut Terminal { console }) {
            Ok(result) => {
                let line = cli::bench_summary(&escape::name(&title), &result, console.style);
                console.line(&line);
                true
            }
            Err(diagnostic) => {
                self.report_all(&[*diagnostic]);
                false
            }
        }
    }

    pub(super) fn report_all(&mut self, diagnostics: &[Diagnostic]) {
        if let Some(error) = diagnostics.iter().find(|d| d.is_error()) {
            self.last_code = Some(error.code);
        }
        self.context.console.report_all(diagnostics, &self.session.sources);
    }

    /// Runs `work` on a copy of the session's state and discards its changes; its output is shown.
    pub(super) fn aside<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        let before = self.state();
        let result = work(self);
        self.put_back(before);
        result
    }
}

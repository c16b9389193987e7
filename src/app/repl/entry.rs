//! Compiles and runs the entries of a session, shows and keeps their values, and rolls back failed entries.

use std::io::IsTerminal;
use std::path::Path;

use super::state::Repl;
use super::transcript::TranscriptEntry;
use crate::cli;
use crate::console::paint;
use crate::disk::Disk;
use crate::effects::TerminalEffects;
use crate::memory;
use crate::progress::{self, StallNotes};
use clk_base::aligned;
use clk_base::arena::Id;
use clk_base::diag::Diagnostic;
use clk_base::escape;
use clk_base::shared::CopyOnWrite;
use clk_base::source::Span;
use clk_check::typed::{Global, NameBinding, TestSection};
use clk_compile::{EntryResult, SessionSnapshot};
use clk_host::interp::{Interpreter, LastValue, RandomPosition};
use clk_host::problem::HostResult;
use clk_host::unwind;
use clk_host::value::HostValue;

/// Maximum number of entry values that stay bound to a name such as `_3`. Beyond this number or [`MAX_VALUE_BYTES`],
/// the oldest values are freed, but never the last one.
const MAX_VALUES: usize = 20;
const MAX_VALUE_BYTES: usize = 256 << 20;

/// Source name of entries that `:reload` runs again. They are already in the log.
pub(super) const RELOAD_NAME: &str = "<reload>";

/// The state that an entry can change. A failed entry is rolled back to it.
pub(super) struct EntrySnapshot {
    session: SessionSnapshot,
    /// The number of global variables, and the values of those that have one.
    global_count: usize,
    values: Vec<(usize, HostValue)>,
    draws: RandomPosition,
}

impl Repl<'_> {
    /// Runs an entry under the next number, as part of a command. Reports a failure and returns false.
    pub(super) fn program(&mut self, text: &str) -> bool {
        self.program_after(&self.state(), text)
    }

    /// Like [`Repl::program`], with the state before the entry.
    pub(super) fn program_after(&mut self, before: &EntrySnapshot, text: &str) -> bool {
        self.entries += 1;
        let name = format!("<entry {}>", self.entries);
        let number = Some(self.entries);
        self.run_text_after(before, &name, text, number)
    }

    /// Runs the text of a file like an entry.
    pub(super) fn run_file(&mut self, path: &Path, text: &str) -> bool {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let usual = std::mem::replace(&mut self.session.folder, folder.to_path_buf());
        let ran = self.run_text(&path.display().to_string(), text, None);
        self.session.folder = usual;
        ran
    }

    /// Runs a text. If it has an entry number, its value is shown and bound to `_` and to that number.
    pub(super) fn run_text(&mut self, name: &str, text: &str, number: Option<usize>) -> bool {
        self.run_text_after(&self.state(), name, text, number)
    }

    /// Like [`Repl::run_text`], with the state before the text.
    fn run_text_after(&mut self, before: &EntrySnapshot, name: &str, text: &str, number: Option<usize>) -> bool {
        // `:save` renames definitions that were replaced, so it needs the meaning that each name has now.
        self.session.program.names = Some(CopyOnWrite::default());
        let entered = self.session.enter_after(&before.session, name, text, &Disk);
        let table = self.session.program.names.take().unwrap_or_default();
        self.report_all(&entered.outcome.diagnostics);
        if entered.outcome.failed() {
            return false;
        }
        let Some(last) = self.run_chunks(&entered, number.is_some()) else {
            self.restore(before);
            return false;
        };
        let tests = before.session.tests()..self.session.program.tests.len();
        let benches = before.session.benches()..self.session.program.benches.len();
        self.report_recompiled(&entered);
        let value = last.as_ref().map(|last| last.is_quiet);
        if let (Some(last), Some(number)) = (last, number) {
            self.keep(last, number);
        }
        if name != RELOAD_NAME {
            let names = table.in_file(entered.outcome.file);
            let names = clk_ide::item_ranges(&before.session, &self.session, &names, text);
            let folder = &self.session.folder;
            let logged = TranscriptEntry::new(folder, &entered, names, name, text, number, value);
            self.log_entry(logged, number.is_some());
        }
        self.run_sections(tests, benches)
    }

    /// Adds an entry to the log. A file that `:reload` runs again keeps its position, before the entries that use it. A
    /// file that `:load` runs again moves to the end.
    fn log_entry(&mut self, kept: TranscriptEntry, typed: bool) {
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

    fn state(&self) -> EntrySnapshot {
        let Interpreter { globals, random_position: draws, .. } = &self.interpreter;
        let values = globals.iter().enumerate().filter_map(|(at, value)| Some((at, value.clone()?)));
        EntrySnapshot {
            session: self.session.snapshot(),
            global_count: globals.len(),
            values: values.collect(),
            draws: *draws,
        }
    }

    /// Runs `work` with the current state. If it unwinds because of a stop request or lack of memory, rolls back the
    /// session, reports the reason and returns `None`.
    pub(super) fn rolled_back_if_unwound<T>(&mut self, work: impl FnOnce(&mut Self, &EntrySnapshot) -> T) -> Option<T> {
        self.context.interrupt.clear();
        let (before, folder) = (self.state(), self.session.folder.clone());
        let (device, checks) = (self.interpreter.options.device.clone(), self.interpreter.options.control.checks);
        let flag = self.context.interrupt.flag();
        match unwind::catch_stop(flag, || work(self, &before)) {
            Ok(result) => Some(result),
            Err(why) => {
                self.session.folder = folder;
                self.hides_values = false;
                self.interpreter.switch_device(device);
                self.interpreter.set_checks(checks);
                self.restore(&before);
                self.report_all(&[why.anywhere()]);
                None
            }
        }
    }

    /// Restores the state before an entry. Keeps its source text, because messages may refer to it.
    fn restore(&mut self, before: &EntrySnapshot) {
        if self.was_reset {
            // `:reset` has removed the items that the snapshot counts.
            return;
        }
        self.session.restore(&before.session);
        let globals = &mut self.interpreter.globals;
        globals.clear();
        globals.resize(before.global_count, None);
        before.values.iter().for_each(|(at, value)| globals[*at] = Some(value.clone()));
        self.interpreter.random_position = before.draws;
        self.interpreter.discard_compiled();
    }

    /// Runs the chunks of an entry and shows its value. Returns `None` if it failed, after reporting the failure.
    fn run_chunks(&mut self, entered: &EntryResult, show: bool) -> Option<Option<LastValue>> {
        let mut last = None;
        let notes = || Some(StallNotes::new(&self.session.sources, "`:check ENTRY`"));
        let watch = progress::watch(&self.interpreter.options.control.progress, progress::OF_LAUNCHES, notes);
        for chunk in entered.outcome.chunks.clone() {
            let console = &mut self.context.console;
            let result = self.interpreter.run_entry(&self.session, chunk, &mut TerminalEffects { console });
            let warnings = self.interpreter.take_warnings();
            self.report_all(&warnings);
            match result {
                Ok(found) => last = found,
                // `exit` in a typed entry ends the session. In a loaded file, it ends only that file and is reported as
                // an error.
                Err(_) if show && self.interpreter.exit_code.is_some() => {
                    self.ended = self.interpreter.exit_code;
                    return None;
                }
                Err(diagnostic) => {
                    drop(watch);
                    if self.context.interrupt.is_set() && std::io::stderr().is_terminal() {
                        // The terminal has echoed `^C` on the current line, so the message starts on a new line.
                        self.context.console.error_line("");
                    }
                    self.report_all(&[*diagnostic]);
                    return None;
                }
            }
        }
        drop(watch);
        if let Some(last) = last.as_ref().filter(|last| show && !last.is_quiet)
            && let Err(problem) = self.show(&last.value)
        {
            self.report_all(&[problem.anywhere()]);
            return None;
        }
        Some(last)
    }

    /// Shows a value; an array is followed by its type and size.
    fn show(&mut self, value: &HostValue) -> HostResult<()> {
        if self.hides_values {
            // Formatting computes a lazy array.
            return clk_host::format::print(value).map(drop);
        }
        let console = &mut self.context.console;
        if let Some(stage) = &console.stage {
            stage.value(value, &clk_host::format::print_in(value, console.style.width)?);
            return Ok(());
        }
        let mut text = match value {
            // Unlike the output of `print`, a shown string must not control the terminal; it may come from a file.
            HostValue::Str(text) => escape::lines(text).into_owned(),
            _ => clk_host::format::print_in(value, console.style.width)?,
        };
        if let HostValue::Array(array) = value {
            text += &format!("\n{}", paint(console.style, "2", &clk_host::format::describe(array)));
        }
        console.line(&text);
        Ok(())
    }

    /// Binds the last value to `_` and to its number, such as `_3`.
    fn keep(&mut self, last: LastValue, number: usize) {
        for name in ["_".to_string(), format!("_{number}")] {
            let Some(main) = self.session.main else { return };
            let global =
                Global { name: name.as_str().into(), ty: last.ty.clone(), mutable: false, span: Span::default() };
            let id = self.session.program.globals.push(global);
            self.session.program.modules[main].names.insert(name.into(), NameBinding::Global(id));
            self.interpreter.globals.resize(id.index() + 1, None);
            self.interpreter.globals[id.index()] = Some(last.value.clone());
        }
        self.values.push_back((number, last.value.byte_len()));
        while self.values.len() > 1 && (self.values.len() > MAX_VALUES || self.kept_bytes() > MAX_VALUE_BYTES) {
            if let Some((old, _)) = self.values.pop_front() {
                self.forget(&format!("_{old}"));
            }
        }
    }

    fn kept_bytes(&self) -> usize {
        self.values.iter().fold(0, |all, (_, bytes)| all.saturating_add(*bytes))
    }

    /// Frees memory that later entries cannot use: the values of shadowed variables, and freed array buffers.
    pub(super) fn release(&mut self) {
        self.interpreter.release_shadowed(&self.session);
        match std::mem::take(&mut self.was_reset) {
            true => memory::return_memory(),
            false => {
                aligned::free_stale_buffers();
                memory::trim();
            }
        }
    }

    fn forget(&mut self, name: &str) {
        if let Some(main) = self.session.main {
            self.session.program.modules[main].names.shift_remove(name);
        }
    }

    /// Reports which definitions were recompiled because an entry replaced a definition that they use, and which are
    /// valid again.
    fn report_recompiled(&mut self, entered: &EntryResult) {
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

    /// Runs the tests and benches that an entry has added.
    fn run_sections(&mut self, tests: std::ops::Range<usize>, benches: std::ops::Range<usize>) -> bool {
        let mut has_passed = true;
        let program = &self.session.program;
        let new = |range: &std::ops::Range<usize>, id: Id<TestSection>| range.contains(&id.index());
        let tests: Vec<Id<TestSection>> =
            program.tests.iter().map(|(id, _)| id).filter(|id| new(&tests, *id)).collect();
        let benches: Vec<Id<TestSection>> =
            program.benches.iter().map(|(id, _)| id).filter(|id| new(&benches, *id)).collect();
        let main = self.session.main;
        for id in tests.into_iter().filter(|id| Some(program.tests[*id].module) == main).collect::<Vec<_>>() {
            has_passed &= self.run_test(id);
        }
        let program = &self.session.program;
        for id in benches.into_iter().filter(|id| Some(program.benches[*id].module) == main).collect::<Vec<_>>() {
            has_passed &= self.run_bench(id);
        }
        has_passed
    }

    fn run_test(&mut self, id: Id<TestSection>) -> bool {
        let title = self.session.program.tests[id].title.clone();
        let console = &mut self.context.console;
        let result = self.interpreter.run_test(&self.session, id, &mut TerminalEffects { console });
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

    pub(super) fn run_bench(&mut self, id: Id<TestSection>) -> bool {
        let title = self.session.program.benches[id].title.clone();
        let console = &mut self.context.console;
        match self.interpreter.run_bench(&self.session, id, &mut TerminalEffects { console }) {
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

    /// Runs `work`, shows its output, and then rolls back its changes to the session.
    pub(super) fn run_and_discard<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        let before = self.state();
        let result = work(self);
        self.restore(&before);
        result
    }
}

//! The session: one entry at a time, its value at once. A failed entry leaves every variable as it was.

mod commands;
mod helper;
mod history;

use std::io::{BufRead, IsTerminal};
use std::path::Path;

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};

use super::cli::Context;
use super::disk::Disk;
use super::world::Terminal;
use super::{exit, script};
use crate::compile::Session;
use crate::host::interp::Interpreter;
use crate::syntax;
use helper::Entry;

const PROMPT: &str = "clk> ";

/// The state of a session.
pub(super) struct Repl<'a> {
    context: &'a mut Context,
    session: Session,
    interpreter: Interpreter,
    entries: usize,
}

/// Reads entries until the end. Without a terminal, standard input is a script, unless `plain` says that it holds entries:
/// then they are read without line editing, and nothing but their results is written.
pub fn main(plain: bool, context: &mut Context) -> u8 {
    if plain {
        return Repl::new(context).read_plain();
    }
    if !std::io::stdin().is_terminal() {
        return super::cli::run_stdin(context);
    }
    let mut repl = Repl::new(context);
    repl.greet();
    match repl.read_all() {
        Ok(()) => exit::OK,
        Err(error) => {
            repl.context.console.error_line(&format!("error: the terminal cannot be read: {error}"));
            exit::FAILURE
        }
    }
}

fn editor() -> rustyline::Result<Editor<Entry, FileHistory>> {
    let config = Config::builder()
        .max_history_size(10_000)?
        .history_ignore_dups(true)?
        .completion_type(CompletionType::List)
        .auto_add_history(false)
        .build();
    let mut editor = Editor::with_config(config)?;
    editor.set_helper(Some(Entry::default()));
    Ok(editor)
}

impl<'a> Repl<'a> {
    fn new(context: &'a mut Context) -> Self {
        let interpreter = context.limits.interpreter(&context.interrupt, vec![]);
        Repl { context, session: fresh(), interpreter, entries: 0 }
    }

    fn greet(&mut self) {
        let text = format!("Clk {}. :help lists commands, Ctrl-D ends.", env!("CARGO_PKG_VERSION"));
        self.context.console.line(&text);
    }

    fn read_all(&mut self) -> rustyline::Result<()> {
        let mut editor = editor()?;
        let history = history::path();
        if let Some(path) = &history {
            // The first session has no history yet.
            let _ = editor.load_history(path);
        }
        loop {
            if let Some(helper) = editor.helper_mut() {
                helper.names = self.names();
            }
            match editor.readline(PROMPT) {
                Ok(entry) => {
                    let _ = editor.add_history_entry(entry.trim_end());
                    if let Some(path) = &history {
                        // A history that cannot be kept is no reason to end the session.
                        let _ = editor.append_history(path);
                    }
                    if self.enter(&entry).is_break() {
                        return Ok(());
                    }
                }
                // Ctrl-C at the prompt drops the line.
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Entries from standard input, one by one.
    fn read_plain(&mut self) -> u8 {
        let mut entry = String::new();
        for line in std::io::stdin().lock().lines() {
            let line = match line {
                Ok(line) => line,
                Err(error) => {
                    let complaint = format!("error: standard input cannot be read: {}", super::disk::reason(&error));
                    self.context.console.error_line(&complaint);
                    return exit::FAILURE;
                }
            };
            entry += &line;
            if !entry.trim_start().starts_with(':') && syntax::is_incomplete(&entry) {
                entry.push('\n');
                continue;
            }
            if self.enter(&std::mem::take(&mut entry)).is_break() {
                return exit::OK;
            }
            self.context.console.flush();
        }
        if !entry.trim().is_empty() {
            // What the end of the input cut short is a mistake like any other.
            let _ = self.enter(&entry);
        }
        exit::OK
    }

    /// What completion may offer: the session's own names.
    fn names(&self) -> Vec<String> {
        let module = self.session.main.and_then(|main| self.session.program.modules.get(main));
        module.map(|m| m.names.keys().map(|k| k.to_string()).collect()).unwrap_or_default()
    }

    /// Does what an entry says: a command or a piece of program.
    pub(super) fn enter(&mut self, entry: &str) -> std::ops::ControlFlow<()> {
        let trimmed = entry.trim();
        if trimmed.is_empty() {
            return std::ops::ControlFlow::Continue(());
        }
        match trimmed.strip_prefix(':') {
            Some(command) => self.command(command),
            None => {
                self.program(entry);
                std::ops::ControlFlow::Continue(())
            }
        }
    }

    fn program(&mut self, text: &str) {
        self.context.interrupt.clear();
        self.entries += 1;
        let before = (self.session.clone(), self.interpreter.globals.clone());
        let name = format!("<entry {}>", self.entries);
        let outcome = self.session.add(&name, text, &Disk);
        self.context.console.report_all(&outcome.diagnostics, &self.session.sources);
        let ran = !outcome.failed() && self.run(outcome.chunks);
        if !ran {
            self.session.program = before.0.program;
            self.session.main = before.0.main;
            self.interpreter.globals = before.1;
            self.interpreter.forget_kernels();
        }
    }

    /// Runs chunks and prints their values; false after a failure was reported.
    fn run(&mut self, chunks: std::ops::Range<usize>) -> bool {
        for chunk in chunks {
            let console = &mut self.context.console;
            match self.interpreter.run_chunk(&self.session, chunk, &mut Terminal { console }) {
                Ok(Some(value)) => self.context.console.line(&script::shown(&value)),
                Ok(None) => {}
                Err(diagnostic) => {
                    self.context.console.report(&diagnostic, &self.session.sources);
                    return false;
                }
            }
        }
        true
    }

    fn reset(&mut self) {
        self.session = fresh();
        self.interpreter = self.context.limits.interpreter(&self.context.interrupt, vec![]);
    }
}

fn fresh() -> Session {
    Session { folder: Path::new(".").to_path_buf(), ..Session::default() }
}

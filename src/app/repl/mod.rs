//! The session: one entry at a time, its value at once. A failed entry leaves every variable as it was.

mod commands;
mod entry;
mod guide;
mod helper;
mod history;
mod keys;
mod settings;
mod terminal;
mod transcript;

use std::collections::{HashMap, VecDeque};
use std::io::{BufRead, IsTerminal};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::cli::Context;
use super::exit;
use crate::compile::Session;
use crate::host::interp::Interpreter;
use crate::syntax;
use settings::Settings;
pub(crate) use terminal::leave as leave_terminal;
use transcript::Kept;

/// The state of a session.
pub(super) struct Repl<'a> {
    context: &'a mut Context,
    session: Session,
    interpreter: Interpreter,
    settings: Settings,
    /// Entries so far, failed ones included: the number in the prompt and in `<entry 3>` is one more.
    entries: usize,
    /// The entries that `_3` and its kind still stand for, oldest first.
    values: VecDeque<usize>,
    /// What succeeded, for `:save`.
    log: Vec<Kept>,
    /// Everything that was typed, for `:history`, with the number in the prompt.
    typed: Vec<(usize, String)>,
    /// Files that were loaded, for `:reload`.
    loaded: Vec<PathBuf>,
    /// Files that this session has saved, and what it has written: it may do so again.
    saved: HashMap<PathBuf, String>,
    /// `:reload` is at work.
    reloading: bool,
    /// The code of the last error, for `:explain`.
    last_code: Option<&'static str>,
    /// An entry has called for the end of the session, with this exit code.
    ended: Option<u8>,
}

/// Reads entries until the end. Without a terminal, standard input is a script, unless `plain` says that it holds entries:
/// then they are read without line editing, and nothing but their results is written.
pub(crate) fn main(plain: bool, context: &mut Context) -> u8 {
    if plain {
        context.interrupt.be_patient(1);
        let code = Repl::new(context).read_plain();
        return context.interrupt.ending().unwrap_or(code);
    }
    if !std::io::stdin().is_terminal() {
        return super::cli::run_stdin(context);
    }
    context.interrupt.be_patient(2);
    let mut repl = Repl::new(context);
    match terminal::read_all(&mut repl) {
        Ok(()) => repl.context.interrupt.ending().or(repl.ended).unwrap_or(exit::OK),
        Err(error) => {
            repl.context.console.error_line(&format!("error: the terminal cannot be read: {error}"));
            exit::FAILURE
        }
    }
}

/// Whether more lines have to come before an entry can be read.
fn is_unfinished(entry: &str) -> bool {
    let is_command = entry.trim_start().starts_with([':', '?']);
    !is_command && syntax::is_incomplete(entry)
}

impl<'a> Repl<'a> {
    fn new(context: &'a mut Context) -> Self {
        let interpreter = context.limits.interpreter(&context.interrupt, vec![]);
        Repl {
            context,
            session: fresh(),
            interpreter,
            settings: Settings::default(),
            entries: 0,
            values: VecDeque::new(),
            log: vec![],
            typed: vec![],
            loaded: vec![],
            saved: HashMap::new(),
            reloading: false,
            last_code: None,
            ended: None,
        }
    }

    /// Entries from standard input, one by one.
    fn read_plain(&mut self) -> u8 {
        let mut entry = String::new();
        let (mut input, mut bytes, mut number) = (std::io::stdin().lock(), Vec::new(), 0);
        loop {
            bytes.clear();
            number += 1;
            match input.read_until(b'\n', &mut bytes) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => {
                    let complaint = format!("error: standard input cannot be read: {}", super::disk::reason(&error));
                    self.context.console.error_line(&complaint);
                    return exit::FAILURE;
                }
            }
            let Ok(line) = std::str::from_utf8(&bytes) else {
                // Only a part of an entry must not run.
                entry.clear();
                let complaint = format!("error: line {number} of standard input is not UTF-8; its entry was dropped");
                self.context.console.error_line(&complaint);
                continue;
            };
            let line = line.strip_suffix('\n').unwrap_or(line);
            entry += line.strip_suffix('\r').unwrap_or(line);
            if is_unfinished(&entry) {
                entry.push('\n');
                continue;
            }
            if self.enter(&std::mem::take(&mut entry)).is_break() {
                return self.ended.unwrap_or(exit::OK);
            }
            self.context.console.flush();
        }
        if !entry.trim().is_empty() {
            // What the end of the input cut short is a mistake like any other.
            let _ = self.enter(&entry);
        }
        self.ended.unwrap_or(exit::OK)
    }

    /// Does what an entry says.
    fn enter(&mut self, entry: &str) -> ControlFlow<()> {
        let flow = self.undone_if_unwound(|repl| repl.perform(entry)).unwrap_or(ControlFlow::Continue(()));
        let is_over = self.context.interrupt.ending().is_some() || self.ended.is_some();
        if is_over { ControlFlow::Break(()) } else { flow }
    }

    /// A command or a piece of program.
    fn perform(&mut self, entry: &str) -> ControlFlow<()> {
        let trimmed = entry.trim();
        if trimmed.is_empty() {
            return ControlFlow::Continue(());
        }
        self.typed.push((self.entries + 1, trimmed.to_string()));
        if let Some(command) = trimmed.strip_prefix(':') {
            return self.command(command);
        }
        if let Some(command) = command_elsewhere(trimmed).filter(|(word, _)| self.binding(word).is_none()) {
            return self.command(&command.1);
        }
        match asked_about(trimmed) {
            Some(name) => return self.command(&format!("doc {name}")),
            None => drop(self.program(entry)),
        }
        ControlFlow::Continue(())
    }

    fn reset(&mut self) {
        self.session = fresh();
        self.interpreter = self.context.limits.interpreter(&self.context.interrupt, vec![]);
        self.values.clear();
        self.log.clear();
        self.loaded.clear();
    }
}

fn fresh() -> Session {
    Session { folder: Path::new(".").to_path_buf(), ..Session::default() }
}

/// What other sessions are asked and left by: `help`, `help(sqrt)`, `quit`, `exit()`; the word, and the command it means.
fn command_elsewhere(entry: &str) -> Option<(&str, String)> {
    let (word, inside) = match entry.split_once('(') {
        Some((word, rest)) => (word.trim(), rest.strip_suffix(')')?.trim().trim_matches('"')),
        None => (entry, ""),
    };
    match (word, inside) {
        ("help", "") => Some((word, "help".into())),
        ("help", about) => Some((word, format!("doc {about}"))),
        ("quit" | "exit", "") => Some((word, "quit".into())),
        _ => None,
    }
}

/// The name in `?name` and `name?`; behind the first it may also be words to look for.
fn asked_about(entry: &str) -> Option<&str> {
    if let Some(words) = entry.strip_prefix('?') {
        return Some(words.trim());
    }
    let name = entry.strip_suffix('?')?.trim();
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    (name.chars().all(is_path)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_other_sessions() {
        let command = |entry| command_elsewhere(entry).map(|(_, command)| command);
        assert_eq!(command("exit()").as_deref(), Some("quit"));
        assert_eq!(command("quit").as_deref(), Some("quit"));
        assert_eq!(command("help(sqrt)").as_deref(), Some("doc sqrt"));
        assert_eq!(command("help(\"std.nn\")").as_deref(), Some("doc std.nn"));
        assert_eq!(command("exit(1) + 2"), None);
    }

    #[test]
    fn questions() {
        assert_eq!(asked_about("?sqrt"), Some("sqrt"));
        assert_eq!(asked_about("std.nn.softmax?"), Some("std.nn.softmax"));
        assert_eq!(asked_about("a + b?"), None);
        assert_eq!(asked_about("sqrt"), None);
        assert_eq!(asked_about("? matrix product"), Some("matrix product"));
    }
}

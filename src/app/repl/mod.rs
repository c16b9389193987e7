//! The interactive session (REPL): runs entries one at a time and shows their values. A failed entry changes no
//! variable.

mod commands;
mod entry;
mod guide;
mod helper;
mod history;
mod keys;
pub(super) mod notebook;
mod settings;
mod state;
mod terminal;
mod transcript;

use std::io::{BufRead, IsTerminal};
use std::ops::ControlFlow;

pub(crate) use self::guide::{NAMES as TOPICS, find as topic};

use self::entry::EntrySnapshot;
use self::keys::is_unfinished;
use self::state::Repl;
use super::context::AppContext;
use super::{disk, exit, user_dirs};
use clk_base::file_error::FileError;

/// The startup file, in the folder for configuration.
const STARTUP: &str = "startup.clk";

/// Runs a session until it ends. Input that is not from a terminal is run as one script, unless `plain` is set: it is
/// then read as entries, and only their results are written. With `startup`, a session at a terminal begins with the
/// user's startup file.
pub(crate) fn main(plain: bool, startup: bool, context: &mut AppContext) -> u8 {
    if plain {
        context.interrupt.be_patient(1);
        let code = Repl::new(context).read_plain();
        return context.interrupt.exit_code_of_signal().unwrap_or(code);
    }
    if !std::io::stdin().is_terminal() {
        return super::cli::run_stdin(vec![], context);
    }
    context.interrupt.be_patient(2);
    let mut repl = Repl::new(context);
    if startup {
        repl.start_up();
    }
    match terminal::read_all(&mut repl) {
        Ok(()) => repl.context.interrupt.exit_code_of_signal().or(repl.ended).unwrap_or(exit::OK),
        Err(error) => {
            repl.context.console.error_line(&format!("error: the terminal cannot be read: {error}"));
            exit::FAILURE
        }
    }
}

impl Repl<'_> {
    /// Runs the user's startup file, if it exists, like `:load`. The session begins even if the file fails.
    fn start_up(&mut self) {
        let Some(folder) = user_dirs::configuration(&user_dirs::environment) else { return };
        let path = folder.join(STARTUP);
        if !path.exists() {
            return;
        }
        match disk::read_source(&path) {
            Ok(text) if self.rolled_back_if_unwound(|repl, _| repl.run_file(&path, &text)) == Some(true) => {
                self.context.console.fact(&format!("ran {}", path.display()));
            }
            Ok(_) => self.context.console.error_line("the startup file has failed; `clk --no-startup` leaves it out"),
            Err(why) => self.report_all(&[disk::unreadable(&path, &why)]),
        }
    }

    /// Reads entries from standard input without line editing, and runs them.
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
                    let complaint = format!("error: standard input cannot be read: {}", FileError::from(error));
                    self.context.console.error_line(&complaint);
                    return exit::FAILURE;
                }
            }
            let Ok(line) = std::str::from_utf8(&bytes) else {
                // An entry with an error in the input must not run, so its lines are discarded.
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
            // Input that ends within an entry is reported as a syntax error.
            let _ = self.enter(&entry);
        }
        self.ended.unwrap_or(exit::OK)
    }

    /// Runs an entry, and returns whether the session continues.
    fn enter(&mut self, entry: &str) -> ControlFlow<()> {
        let flow = self.rolled_back_if_unwound(|repl, before| repl.perform(before, entry));
        let flow = flow.unwrap_or(ControlFlow::Continue(()));
        self.release();
        let is_over = self.context.interrupt.exit_code_of_signal().is_some() || self.ended.is_some();
        if is_over { ControlFlow::Break(()) } else { flow }
    }

    /// Runs a command or program text. `before` is the current state.
    fn perform(&mut self, before: &EntrySnapshot, entry: &str) -> ControlFlow<()> {
        let trimmed = entry.trim();
        if trimmed.is_empty() {
            return ControlFlow::Continue(());
        }
        self.typed.push((self.entries + 1, trimmed.to_string()));
        if let Some(command) = trimmed.strip_prefix(':') {
            return self.command(command);
        }
        if let Some(command) = command_of_other_repls(trimmed).filter(|(word, _)| self.binding(word).is_none()) {
            return self.command(&command.1);
        }
        match queried_name(trimmed) {
            Some(name) => return self.command(&format!("doc {name}")),
            None => drop(self.program_after(before, entry)),
        }
        ControlFlow::Continue(())
    }
}

/// Recognizes commands of other REPLs, such as `help`, `help(sqrt)`, `quit` and `exit()`. Returns the first word and
/// the equivalent command.
fn command_of_other_repls(entry: &str) -> Option<(&str, String)> {
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

/// Returns the name in `?name` or `name?`. The text after a leading `?` may also be words to search for.
fn queried_name(entry: &str) -> Option<&str> {
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
    fn commands_of_other_repls_are_recognized() {
        let command = |entry| command_of_other_repls(entry).map(|(_, command)| command);
        assert_eq!(command("exit()").as_deref(), Some("quit"));
        assert_eq!(command("quit").as_deref(), Some("quit"));
        assert_eq!(command("help(sqrt)").as_deref(), Some("doc sqrt"));
        assert_eq!(command("help(\"std.nn\")").as_deref(), Some("doc std.nn"));
        assert_eq!(command("exit(1) + 2"), None);
    }

    #[test]
    fn names_in_questions_are_found() {
        assert_eq!(queried_name("?sqrt"), Some("sqrt"));
        assert_eq!(queried_name("std.nn.softmax?"), Some("std.nn.softmax"));
        assert_eq!(queried_name("a + b?"), None);
        assert_eq!(queried_name("sqrt"), None);
        assert_eq!(queried_name("? matrix product"), Some("matrix product"));
    }
}

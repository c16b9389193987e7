//! The prompt of the debugger: line editing, history and completion of commands.

use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{Config, Context, Editor, Helper};

use super::command_table::WORDS;

/// Completes the command name at the start of a line.
struct Commands;

impl Helper for Commands {}
impl Highlighter for Commands {}
impl Validator for Commands {}

impl Hinter for Commands {
    type Hint = String;
}

impl Completer for Commands {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let begun = line.get(..at).unwrap_or(line);
        if begun.contains(' ') {
            return Ok((at, vec![]));
        }
        let matches = WORDS.iter().filter(|word| word.name.starts_with(begun));
        let pair = |word: &super::command_table::DebugCommand| Pair {
            display: format!("{}  {}", word.name, word.about),
            replacement: format!("{} ", word.name),
        };
        Ok((0, matches.map(pair).collect()))
    }
}

/// The prompt, with a history of the lines that were entered.
#[derive(Default)]
pub(crate) struct Prompt {
    lines: Vec<String>,
}

impl Prompt {
    /// Reads a line; `None` if the user ends the input. Creates a new editor each time, because an editor must stay on
    /// one thread.
    pub fn read(&mut self, prompt: &str) -> Option<String> {
        let mut editor: Editor<Commands, MemHistory> =
            Editor::with_history(Config::default(), MemHistory::with_config(&Config::default())).ok()?;
        editor.set_helper(Some(Commands));
        for line in &self.lines {
            let _ = editor.add_history_entry(line);
        }
        loop {
            match editor.readline(prompt) {
                Ok(line) => {
                    if !line.trim().is_empty() && self.lines.last() != Some(&line) {
                        self.lines.push(line.clone());
                    }
                    return Some(line);
                }
                // Ctrl-C at the prompt discards the line.
                Err(ReadlineError::Interrupted) => {}
                Err(_) => return None,
            }
        }
    }
}

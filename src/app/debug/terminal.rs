//! The debugger's terminal front end: reads commands from a prompt, a pipe or the command line, and shows their
//! results.

use std::collections::VecDeque;
use std::io::{BufRead, IsTerminal};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::command_table;
use super::commands::{self, CommandOutcome};
use super::device::{DebugContinuation, DebuggerFrontEnd};
use super::prompt::Prompt;
use super::session::{Debug, DebugSettings, SearchDirection, StopLocation};
use super::stop_search::Goal;
use crate::command_error::CommandResult;
use crate::console::Console;
use crate::interrupt::Interrupt;
use crate::picture;

/// Text before the user's input.
const PROMPT: &str = "(clk) ";

/// The source of the debugger's commands.
enum CommandInput {
    Person(Box<Prompt>),
    Pipe,
    Given(VecDeque<String>),
}

pub(crate) struct DebugTerminal {
    console: Arc<Mutex<Console>>,
    interrupt: Interrupt,
    input: CommandInput,
    /// The last command, which an empty line repeats.
    last: String,
    /// Set for `--debug-on-fault`: the script runs at once, and only a fault opens the debugger. The text is the note
    /// shown at a fault if there is no interactive terminal.
    only_faults: Option<String>,
    /// Whether the user asked to restart the script.
    again: bool,
    began: bool,
}

impl DebugTerminal {
    pub fn new(console: Arc<Mutex<Console>>, interrupt: Interrupt, given: Vec<String>) -> DebugTerminal {
        let input = match given.is_empty() {
            false => CommandInput::Given(given.into()),
            true if std::io::stdin().is_terminal() => CommandInput::Person(Box::default()),
            true => CommandInput::Pipe,
        };
        let (last, only_faults, again, began) = (String::new(), None, false, false);
        DebugTerminal { console, interrupt, input, last, only_faults, again, began }
    }

    pub fn for_faults(self, how: String) -> DebugTerminal {
        DebugTerminal { only_faults: Some(how), ..self }
    }

    fn console(&self) -> MutexGuard<'_, Console> {
        self.console.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, text: &str) {
        let mut console = self.console();
        // File names and printed text may contain control sequences.
        console.print(&clk_base::escape::lines(text));
        console.flush();
    }

    /// Reads the next command; `None` at the end of the input.
    fn read(&mut self) -> Option<String> {
        self.console().flush();
        let line = match &mut self.input {
            CommandInput::Person(prompt) => prompt.read(PROMPT)?,
            CommandInput::Pipe => {
                let mut line = String::new();
                match std::io::stdin().lock().read_line(&mut line) {
                    Ok(0) | Err(_) => return None,
                    Ok(_) => line,
                }
            }
            CommandInput::Given(lines) => lines.pop_front()?,
        };
        let line = line.trim().to_string();
        if !matches!(self.input, CommandInput::Person(_)) {
            self.say(&format!("{PROMPT}{line}\n"));
        }
        if line.is_empty() {
            return Some(self.last.clone());
        }
        self.last.clone_from(&line);
        Some(line)
    }

    /// Splits a command into its name and arguments; reports unknown commands.
    fn parsed(&self, line: &str) -> Option<(&'static str, String)> {
        let line = line.split(" //").next().unwrap_or("").trim();
        if line.is_empty() {
            return None;
        }
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match command_table::find(word) {
            Ok(found) => Some((found.name, rest.trim().to_string())),
            Err(why) => {
                self.say(&format!("{why}\n"));
                None
            }
        }
    }

    fn show(&self, answer: CommandResult<CommandOutcome>) -> Option<CommandOutcome> {
        match answer {
            Ok(CommandOutcome::Text(text)) => self.say(&text),
            Ok(CommandOutcome::Picture(shown)) => {
                let mut console = self.console();
                let drawn = picture::draw(&shown, console.style, console.graphics());
                console.print(&drawn);
            }
            Ok(other) => return Some(other),
            Err(why) => self.say(&format!("{why}\n")),
        }
        None
    }
}

impl DebuggerFrontEnd for DebugTerminal {
    fn between(&mut self, settings: &mut DebugSettings) -> bool {
        if std::mem::take(&mut self.again) {
            return true;
        }
        if self.only_faults.is_some() {
            return !std::mem::replace(&mut self.began, true);
        }
        if std::mem::replace(&mut self.began, true) {
            self.say("the script is over; `run` runs it again\n");
        }
        loop {
            self.interrupt.clear();
            let Some(line) = self.read() else { return false };
            let Some((name, rest)) = self.parsed(&line) else { continue };
            let answer = match (name, commands::run_outside_launch(name, &rest, settings)) {
                (_, Some(answer)) => answer,
                ("run" | "continue", None) => return true,
                ("launch" | "step" | "next", None) => {
                    settings.stop_at_launch = true;
                    return true;
                }
                _ => Err(format!("`{name}` needs a launch; `run` runs the script, `launch` stops at its first launch")
                    .into()),
            };
            if let Some(CommandOutcome::Quit) = self.show(answer) {
                return false;
            }
        }
    }

    fn launch(&mut self, debug: &mut Debug<'_, '_>) -> DebugContinuation {
        if let (Some(how), false) = (&self.only_faults, matches!(self.input, CommandInput::Person(_))) {
            self.console().error_line(how);
            return DebugContinuation::GoOn;
        }
        let at_launch = std::mem::take(&mut debug.settings.stop_at_launch);
        if debug.arrival == StopLocation::Start && !at_launch {
            debug.go(SearchDirection::Forward, Goal::Nothing);
        }
        if matches!(debug.arrival, StopLocation::End) {
            return DebugContinuation::GoOn;
        }
        commands::remove_temporary(debug);
        self.say(&commands::arrival_text(debug));
        loop {
            self.interrupt.clear();
            let Some(line) = self.read() else { return DebugContinuation::Quit };
            let Some((name, rest)) = self.parsed(&line) else { continue };
            let answer = commands::run_in_launch(name, &rest, debug);
            match self.show(answer) {
                Some(CommandOutcome::GoOn) => return DebugContinuation::GoOn,
                Some(CommandOutcome::Run) => {
                    self.again = true;
                    return DebugContinuation::Quit;
                }
                Some(CommandOutcome::Quit) => return DebugContinuation::Quit,
                _ => {}
            }
        }
    }

    fn note(&mut self, text: &str) {
        self.say(&format!("note: {text}\n"));
    }

    fn restarts(&self) -> bool {
        self.again
    }

    fn is_for_faults(&self) -> bool {
        self.only_faults.is_some()
    }
}

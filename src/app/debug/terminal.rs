//! The debugger in a terminal: reads commands, from a person, a pipe or the command line, and shows what they give.

use std::collections::VecDeque;
use std::io::{BufRead, IsTerminal};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::commands::{self, Answer};
use super::device::{Front, Wish};
use super::prompt::Prompt;
use super::seek::Goal;
use super::session::{Arrival, Debug, Settings, Way};
use super::words;
use crate::app::console::Console;
use crate::app::interrupt::Interrupt;
use crate::app::picture;

/// What is shown before a command.
const PROMPT: &str = "(clk) ";

/// Where commands come from.
enum Input {
    Person(Box<Prompt>),
    Pipe,
    Given(VecDeque<String>),
}

pub(crate) struct Terminal {
    console: Arc<Mutex<Console>>,
    interrupt: Interrupt,
    input: Input,
    /// The last command, which an empty line repeats.
    last: String,
    /// Faults alone open the debugger, and the script runs at once. What to say where nobody is there to use it.
    only_faults: Option<String>,
    /// The user wants the script from its start.
    again: bool,
    began: bool,
}

impl Terminal {
    pub fn new(console: Arc<Mutex<Console>>, interrupt: Interrupt, given: Vec<String>) -> Terminal {
        let input = match given.is_empty() {
            false => Input::Given(given.into()),
            true if std::io::stdin().is_terminal() => Input::Person(Box::default()),
            true => Input::Pipe,
        };
        let (last, only_faults, again, began) = (String::new(), None, false, false);
        Terminal { console, interrupt, input, last, only_faults, again, began }
    }

    pub fn for_faults(self, how: String) -> Terminal {
        Terminal { only_faults: Some(how), ..self }
    }

    fn console(&self) -> MutexGuard<'_, Console> {
        self.console.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, text: &str) {
        let mut console = self.console();
        // Names of files and what a script prints may contain anything.
        console.print(&crate::base::escape::lines(text));
        console.flush();
    }

    /// Reads a command; `None` at the end of the input.
    fn read(&mut self) -> Option<String> {
        self.console().flush();
        let line = match &mut self.input {
            Input::Person(prompt) => prompt.read(PROMPT)?,
            Input::Pipe => {
                let mut line = String::new();
                match std::io::stdin().lock().read_line(&mut line) {
                    Ok(0) | Err(_) => return None,
                    Ok(_) => line,
                }
            }
            Input::Given(lines) => lines.pop_front()?,
        };
        let line = line.trim().to_string();
        if !matches!(self.input, Input::Person(_)) {
            self.say(&format!("{PROMPT}{line}\n"));
        }
        if line.is_empty() {
            return Some(self.last.clone());
        }
        self.last.clone_from(&line);
        Some(line)
    }

    /// Splits a command into its word and the rest; says what is wrong with it.
    fn parsed(&self, line: &str) -> Option<(&'static str, String)> {
        let line = line.split(" //").next().unwrap_or("").trim();
        if line.is_empty() {
            return None;
        }
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match words::find(word) {
            Ok(found) => Some((found.name, rest.trim().to_string())),
            Err(why) => {
                self.say(&format!("{why}\n"));
                None
            }
        }
    }

    fn show(&self, answer: Result<Answer, String>) -> Option<Answer> {
        match answer {
            Ok(Answer::Text(text)) => self.say(&text),
            Ok(Answer::Picture(shown)) => {
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

impl Front for Terminal {
    fn between(&mut self, settings: &mut Settings) -> bool {
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
            let answer = match (name, commands::outside(name, &rest, settings)) {
                (_, Some(answer)) => answer,
                ("run" | "continue", None) => return true,
                ("launch" | "step" | "next", None) => {
                    settings.stop_at_launch = true;
                    return true;
                }
                _ => Err(format!("`{name}` needs a launch; `run` runs the script, `launch` stops at its first launch")),
            };
            if let Some(Answer::Quit) = self.show(answer) {
                return false;
            }
        }
    }

    fn launch(&mut self, debug: &mut Debug<'_, '_>) -> Wish {
        if let (Some(how), false) = (&self.only_faults, matches!(self.input, Input::Person(_))) {
            self.console().error_line(how);
            return Wish::GoOn;
        }
        let at_launch = std::mem::take(&mut debug.settings.stop_at_launch);
        if debug.arrival == Arrival::Start && !at_launch {
            debug.go(Way::Forward, Goal::Nothing);
        }
        if matches!(debug.arrival, Arrival::End) {
            return Wish::GoOn;
        }
        commands::forget_once(debug);
        self.say(&commands::arrived(debug));
        loop {
            self.interrupt.clear();
            let Some(line) = self.read() else { return Wish::Quit };
            let Some((name, rest)) = self.parsed(&line) else { continue };
            let answer = commands::inside(name, &rest, debug);
            match self.show(answer) {
                Some(Answer::GoOn) => return Wish::GoOn,
                Some(Answer::Run) => {
                    self.again = true;
                    return Wish::Quit;
                }
                Some(Answer::Quit) => return Wish::Quit,
                _ => {}
            }
        }
    }

    fn note(&mut self, text: &str) {
        self.say(&format!("note: {text}\n"));
    }

    fn is_again(&self) -> bool {
        self.again
    }

    fn is_for_faults(&self) -> bool {
        self.only_faults.is_some()
    }
}

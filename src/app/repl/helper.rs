//! Line editing services for rustyline: detection of incomplete entries, highlighting, completion and hints. They use
//! the compiler and the current state of the session.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::atomic::Ordering;

use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::{Hinter, HistoryHinter};
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};

use super::commands::{self, COMMANDS, Wants};
use super::guide;
use super::keys::{StepsBack, is_unfinished};
use super::settings::{self, EditorSettings};
use crate::disk::Disk;
use crate::tty;
use clk_check::typed::NameBinding;
use clk_compile::{Session, library};
use clk_ide::{Analysis, HighlightClass};

/// If there are at most this many completions, each is listed with its type.
const MAX_WITH_DETAILS: usize = 12;

pub(crate) struct LineHelper {
    /// A copy of the session, to which the edited entry will be added.
    pub session: Session,
    pub settings: EditorSettings,
    pub color: bool,
    /// Shared with the key binding of `}`, which requests the replacement of indentation.
    pub steps_back: StepsBack,
    files: FilenameCompleter,
    history: HistoryHinter,
    /// The last analysis. It is reused because rustyline makes several queries about each text.
    last: RefCell<Option<Analysis>>,
}

/// Gray text shown after the cursor.
pub(crate) struct GhostText {
    shown: String,
    /// The text that the right arrow key inserts, if any.
    taken: Option<String>,
}

impl rustyline::hint::Hint for GhostText {
    fn display(&self) -> &str {
        &self.shown
    }

    fn completion(&self) -> Option<&str> {
        self.taken.as_deref()
    }
}

impl LineHelper {
    pub fn new(color: bool) -> Self {
        LineHelper {
            session: Session::default(),
            settings: EditorSettings::default(),
            color,
            steps_back: StepsBack::default(),
            files: FilenameCompleter::new(),
            history: HistoryHinter::new(),
            last: RefCell::new(None),
        }
    }

    /// Copies the session and its settings.
    pub fn follow(&mut self, session: &Session, settings: &EditorSettings) {
        self.session = session.clone();
        self.settings = settings.clone();
        self.last.replace(None);
    }

    /// Exchanges the session with the one of the helper: the helper has the session only while a line is edited. An
    /// entry then changes its program in place, because no copy of it exists.
    pub fn exchange_session(&mut self, session: &mut Session) {
        std::mem::swap(&mut self.session, session);
        self.last.replace(None);
    }

    pub fn set_settings(&mut self, settings: &EditorSettings) {
        self.settings = settings.clone();
    }

    /// Analyzes a text (or reuses the last analysis) and answers a query about it.
    fn ask<R>(&self, text: &str, question: impl FnOnce(&Analysis) -> R) -> R {
        let mut last = self.last.borrow_mut();
        if last.as_ref().is_some_and(|analysis| analysis.text != text) {
            *last = None;
        }
        question(last.get_or_insert_with(|| Analysis::after(self.session.clone(), "<entry>", text, &Disk)))
    }

    /// Returns the offset at which program text starts in a line: 0, or after a command that takes program text. `None`
    /// for other commands.
    fn program(line: &str) -> Option<usize> {
        let Some(command) = line.strip_prefix(':') else { return Some(0) };
        let (word, rest) = command.split_once(' ')?;
        let program = |wants| matches!(wants, Wants::Program | Wants::Doc | Wants::WordOrProgram(_));
        let wants = commands::find(word).is_ok_and(|c| program(c.wants));
        wants.then_some(line.len() - rest.len())
    }

    /// Returns completions at the end of a program text, and the offset of the text that they replace.
    fn candidates(&self, text: &str) -> (usize, Vec<Pair>) {
        self.ask(text, |analysis| {
            let completions = analysis.complete(text.len(), &Disk);
            let start = completions.first().map_or(text.len(), |first| first.replace.start);
            let few = completions.len() <= MAX_WITH_DETAILS;
            let columns = tty::width();
            let pairs = completions.into_iter().map(|one| {
                let detail = one.detail.lines().next().unwrap_or("");
                let display = match few && !detail.is_empty() {
                    true => format!("{}  {detail}", one.label),
                    false => one.label,
                };
                Pair { display: shortened(display, columns), replacement: one.insert }
            });
            (start, pairs.collect())
        })
    }

    /// Returns completions for the argument of a command that takes a kernel, a diagnostic code, a help topic or a
    /// module name.
    fn of_session(&self, before: &str) -> Option<(usize, Vec<String>)> {
        let (wants, rest) = match before.strip_prefix('?') {
            Some(rest) => (Wants::Doc, rest.trim_start()),
            None => {
                let (word, rest) = before.strip_prefix(':')?.split_once(' ')?;
                (commands::find(word).ok()?.wants, rest.trim_start())
            }
        };
        let names: Vec<String> = match wants {
            Wants::Kernel => self.kernels(),
            Wants::Code => clk_codes::pages().map(|page| page.code.to_string()).collect(),
            Wants::Topic => {
                let topics = guide::NAMES.iter().copied().chain(COMMANDS.iter().map(|c| c.name));
                topics.map(str::to_string).collect()
            }
            Wants::Doc if rest.starts_with("std") => library_paths(rest),
            _ => return None,
        };
        let begins = |name: &String| name.to_lowercase().starts_with(&rest.to_lowercase());
        Some((before.len() - rest.len(), names.into_iter().filter(begins).collect()))
    }

    /// Returns the names of the kernels in the session and in the modules it imports.
    fn kernels(&self) -> Vec<String> {
        let program = &self.session.program;
        let Some(main) = self.session.main.and_then(|main| program.modules.get(main)) else { return vec![] };
        let mut names = Vec::new();
        for (name, binding) in &main.names {
            match binding {
                NameBinding::Kernel(_) => names.push(name.to_string()),
                NameBinding::Module(id) => {
                    let members = program.modules.get(*id).into_iter().flat_map(|module| &module.names);
                    let kernels = members.filter(|(_, binding)| matches!(binding, NameBinding::Kernel(_)));
                    names.extend(kernels.map(|(member, _)| format!("{name}.{member}")));
                }
                _ => {}
            }
        }
        names
    }

    /// Returns a hint with the remaining parameters of a call, after `(` or a comma.
    fn parameters(&self, text: &str) -> Option<GhostText> {
        if !text.trim_end().ends_with(['(', ',']) {
            return None;
        }
        let signature = self.ask(text, |analysis| analysis.signature(text.len()))?;
        let from = signature.parameters.get(signature.active?)?.start;
        let rest = signature.label.get(from..)?;
        // The hint ends after the last parameter: the result type is not something that the user types.
        let end = signature.parameters.last()?.end.checked_sub(from)?;
        Some(GhostText { shown: format!("{})", rest.get(..end)?), taken: None })
    }
}

impl Helper for LineHelper {}

impl Validator for LineHelper {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match is_unfinished(context.input()) {
            true => ValidationResult::Incomplete,
            false => ValidationResult::Valid(None),
        })
    }
}

impl Highlighter for LineHelper {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        if !self.color || !self.settings.highlight {
            return Cow::Borrowed(line);
        }
        let start = LineHelper::program(line).unwrap_or(line.len());
        let (command, text) = line.split_at(start);
        let command = if command.is_empty() { String::new() } else { format!("\x1b[1m{command}\x1b[0m") };
        Cow::Owned(command + &colored(text))
    }

    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        if self.color { Cow::Owned(format!("\x1b[1;34m{prompt}\x1b[0m")) } else { Cow::Borrowed(prompt) }
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(format!("\x1b[2m{hint}\x1b[0m"))
    }

    fn highlight_char(&self, _: &str, _: usize, _: CmdKind) -> bool {
        self.color && self.settings.highlight
    }
}

/// Returns the program text with ANSI colors.
fn colored(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let mut end = 0;
    for (range, class) in clk_ide::highlight(text) {
        let (Some(between), Some(word)) = (text.get(end..range.start), text.get(range.clone())) else { continue };
        out.push_str(between);
        match color(class) {
            Some(color) => {
                // Each line is colored separately, because the terminal may move the cursor between lines.
                let lines: Vec<String> = word.split('\n').map(|line| format!("\x1b[{color}m{line}\x1b[0m")).collect();
                out.push_str(&lines.join("\n"));
            }
            None => out.push_str(word),
        }
        end = range.end;
    }
    out.push_str(text.get(end..).unwrap_or(""));
    out
}

fn color(class: HighlightClass) -> Option<&'static str> {
    Some(match class {
        HighlightClass::Keyword => "35",
        HighlightClass::Type | HighlightClass::Constant | HighlightClass::Dimension => "33",
        HighlightClass::Function | HighlightClass::Kernel => "34",
        HighlightClass::Builtin | HighlightClass::Namespace => "36",
        HighlightClass::Number | HighlightClass::String => "32",
        HighlightClass::Comment => "2",
        HighlightClass::Error => "31",
        HighlightClass::Variable
        | HighlightClass::Parameter
        | HighlightClass::Property
        | HighlightClass::Operator
        | HighlightClass::Punctuation => return None,
    })
}

impl Hinter for LineHelper {
    type Hint = GhostText;

    fn hint(&self, line: &str, position: usize, context: &Context<'_>) -> Option<GhostText> {
        if !self.color || !self.settings.hints || position < line.len() || line.is_empty() {
            return None;
        }
        if let Some(hint) = command_hint(line) {
            return Some(hint);
        }
        let parameters = LineHelper::program(line).and_then(|start| self.parameters(&line[start..]));
        parameters.or_else(|| {
            let earlier = self.history.hint(line, position, context)?;
            // For a multiline entry, only the first line is shown.
            let shown = earlier.lines().next().unwrap_or("").to_string();
            (!shown.is_empty()).then_some(GhostText { taken: Some(earlier), shown })
        })
    }
}

/// Hints the rest of a command: `ad FILE` after `:lo`.
fn command_hint(line: &str) -> Option<GhostText> {
    let word = line.strip_prefix(':').filter(|word| !word.is_empty() && !word.contains(' '))?;
    let command = commands::find(word).ok()?;
    let rest = command.name.strip_prefix(word)?;
    let arguments = command.usage.strip_prefix(&format!(":{}", command.name)).unwrap_or("");
    let shown = format!("{rest}{}", arguments.split(',').next().unwrap_or(""));
    (!shown.is_empty()).then(|| GhostText { shown, taken: (!rest.is_empty()).then(|| rest.to_string()) })
}

impl Completer for LineHelper {
    type Candidate = Pair;

    fn complete(&self, line: &str, position: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        self.at(line, position)
    }
}

impl LineHelper {
    /// Returns the completions at a position of a line, and the offset of the text that they replace.
    pub fn at(&self, line: &str, position: usize) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = line.get(..position).unwrap_or(line);
        match self.steps_back.swap(0, Ordering::Relaxed) {
            0 => {}
            blanks => {
                let brace = Pair { display: "}".into(), replacement: "}".into() };
                return Ok((before.len().saturating_sub(blanks), vec![brace]));
            }
        }
        if is_in_path(before) {
            return self.files.complete_path(before, before.len());
        }
        if let Some((start, names)) = self.of_session(before) {
            let pair = |name: String| Pair { display: name.clone(), replacement: name };
            return Ok((start, names.into_iter().map(pair).collect()));
        }
        if let Some((start, names)) = command_completions(before) {
            let pair = |name: &str| Pair { display: name.to_string(), replacement: name.to_string() };
            return Ok((start, names.into_iter().map(pair).collect()));
        }
        let start = LineHelper::program(before).unwrap_or(before.len());
        let (at, found) = self.candidates(&before[start..]);
        Ok((start + at, found))
    }
}

/// Cuts an item of a completion list so that the terminal does not wrap it.
fn shortened(item: String, columns: usize) -> String {
    // The list ends each item with two spaces.
    let most = columns.saturating_sub(3);
    match item.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &item[..end]),
        None => item,
    }
}

/// Completes the name of a standard library module. After a complete module name, completes its public names.
fn library_paths(begun: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (module, _) in library::MODULES {
        let path = format!("std.{module}");
        match begun.starts_with(&format!("{path}.")) {
            true => names.extend(library::members(module).into_iter().map(|member| format!("{path}.{}", member.name))),
            false => names.push(path),
        }
    }
    names
}

/// Whether a file name is expected at the cursor: after `:load`, or in a string.
fn is_in_path(before: &str) -> bool {
    if let Some(command) = before.strip_prefix(':') {
        let word = command.split_once(' ').map(|(word, _)| commands::find(word));
        return matches!(word, Some(Ok(command)) if command.wants == Wants::File);
    }
    let line = before.rsplit('\n').next().unwrap_or(before);
    line.matches('"').count() % 2 == 1
}

/// Returns completions of a command's name or of its first argument.
fn command_completions(before: &str) -> Option<(usize, Vec<&'static str>)> {
    let command = before.strip_prefix(':')?;
    match command.split_once(' ') {
        None => Some((1, COMMANDS.iter().map(|c| c.name).filter(|n| n.starts_with(command)).collect())),
        Some((word, rest)) => {
            let names = match commands::find(word).ok()?.wants {
                Wants::Setting => match rest.split_once(' ') {
                    Some((setting, value)) => {
                        let values = settings::values(setting).iter().copied().filter(|n| n.starts_with(value));
                        return Some((before.len() - value.len(), values.collect()));
                    }
                    None => settings::NAMES,
                },
                Wants::Word(names) => names,
                // If the argument is not a prefix of these words, it is program text.
                Wants::WordOrProgram(names) if names.iter().any(|n| n.starts_with(rest)) => names,
                _ => return None,
            };
            let names = names.iter().copied().filter(|n| n.starts_with(rest));
            Some((before.len() - rest.len(), names.collect()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(definitions: &str) -> LineHelper {
        let mut session = Session::default();
        let outcome = session.enter("<entry 1>", definitions, &Disk).outcome;
        assert!(!outcome.failed(), "{:?}", outcome.diagnostics);
        LineHelper { session, ..LineHelper::new(true) }
    }

    fn words(entry: &LineHelper, text: &str) -> (usize, Vec<String>) {
        let (start, pairs) = entry.candidates(text);
        (start, pairs.into_iter().map(|pair| pair.replacement).collect())
    }

    #[test]
    fn names_and_commands_are_completed() {
        let entry = entry("struct Body { mass: f32 }\nlet mymatrix = 3\nfn heavy(b: Body) -> f32 { b.mass }\n");
        // Prefix matches come before substring matches.
        assert_eq!(words(&entry, "let y = sq"), (8, vec!["sqrt".to_string(), "rsqrt".to_string()]));
        assert_eq!(words(&entry, "1 + mymat"), (4, vec!["mymatrix".to_string()]));
        assert_eq!(words(&entry, "let b = Body { mass: 1.0 }; b.ma").1, ["mass"]);
        assert_eq!(command_completions(":exp"), Some((1, vec!["explain"])));
        assert_eq!(command_completions(":set w"), Some((5, vec!["workers", "width"])));
        assert_eq!(command_completions(":dev s"), Some((5, vec!["sim"])));
        assert_eq!(command_completions(":check o"), Some((7, vec!["on", "off"])));
        assert_eq!(command_completions(":check saxpy"), None);
        assert_eq!(command_completions(":type x"), None);
        assert_eq!(command_completions(":set vi o"), Some((8, vec!["on", "off"])));
    }

    #[test]
    fn arguments_of_commands_are_completed() {
        let entry = entry(
            "import std.nn\nkernel inc(x: [i32; N], out y: [i32; N]) threads(i: N) { y[i] = x[i] }\nfn incident() -> i32 { 1 }\n",
        );
        let completed = |before: &str| entry.of_session(before).map(|(start, names)| (start, names.join(" ")));
        assert_eq!(completed(":cuda in"), Some((6, "inc".into())));
        assert_eq!(completed(":explain e060"), completed(":explain E060"));
        assert!(completed(":explain E060").is_some_and(|(_, names)| names.starts_with("E0601 E0602")));
        assert_eq!(completed(":doc std.mat"), Some((5, "std.math".into())));
        assert_eq!(completed("?std.math.ler"), Some((1, "std.math.lerp".into())));
        assert!(completed("?std.reduce.").is_some_and(|(_, n)| n.contains("total") && !n.contains("THREADS")));
        assert_eq!(completed(":help sav"), Some((6, "save".into())));
        assert_eq!(completed(":type in"), None);
    }

    #[test]
    fn hints_show_parameters() {
        let entry = entry("fn heavy(mass: f32, count: i32) -> f32 { mass * f32(count) }\n");
        let shown = |text: &str| entry.parameters(text).map(|hint| hint.shown);
        assert_eq!(shown("heavy(").as_deref(), Some("mass: f32, count: i32)"));
        assert_eq!(shown("heavy(1.0,").as_deref(), Some("count: i32)"));
        assert_eq!(shown("heavy(1.0, 2)"), None);
        assert_eq!(command_hint(":lo").map(|hint| hint.shown).as_deref(), Some("ad FILE"));
        assert!(command_hint(":re").is_none() && command_hint("lo").is_none());
    }

    #[test]
    fn input_is_highlighted() {
        assert_eq!(colored("let x = 1"), "\x1b[35mlet\x1b[0m x = \x1b[32m1\x1b[0m");
        assert_eq!(colored("/* a\nb */ x"), "\x1b[2m/* a\x1b[0m\n\x1b[2mb */\x1b[0m x");
    }

    #[test]
    fn paths_are_completed_at_the_cursor() {
        assert!(is_in_path(":load exa") && is_in_path(":sav x") && is_in_path("load(\"da") && is_in_path("image(\"a"));
        assert!(!is_in_path(":loa") && !is_in_path("print(\"a\", x") && !is_in_path(":type x"));
    }
}

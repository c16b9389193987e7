//! What rustyline asks while an entry is typed: whether it is complete, and what a word could become.

use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};

use super::commands::COMMANDS;
use crate::lang::builtin;
use crate::syntax;

const KEYWORDS: &[&str] = &[
    "kernel", "fn", "struct", "const", "let", "var", "shared", "if", "else", "for", "in", "while", "loop", "break",
    "continue", "return", "import", "as", "test", "bench", "out", "inout", "true", "false", "threads", "grid", "block",
    "step",
];

#[derive(Default)]
pub struct Entry {
    /// The session's own names.
    pub names: Vec<String>,
}

impl Helper for Entry {}
impl Highlighter for Entry {}
impl Hinter for Entry {
    type Hint = String;
}

impl Validator for Entry {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let text = context.input();
        let is_command = text.trim_start().starts_with(':');
        Ok(if !is_command && syntax::is_incomplete(text) {
            ValidationResult::Incomplete
        } else {
            ValidationResult::Valid(None)
        })
    }
}

impl Completer for Entry {
    type Candidate = String;

    fn complete(&self, line: &str, position: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(complete(line.get(..position).unwrap_or(line), &self.names))
    }
}

/// Where the word before the cursor starts, and what it could become.
fn complete(before: &str, names: &[String]) -> (usize, Vec<String>) {
    if let Some(command) = before.strip_prefix(':')
        && !command.contains(' ')
    {
        return (1, COMMANDS.iter().map(|c| c.name).filter(|n| n.starts_with(command)).map(str::to_string).collect());
    }
    let start = before
        .rfind(|c: char| !c.is_alphanumeric() && c != '_')
        .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
    let word = &before[start..];
    if word.is_empty() {
        return (start, vec![]);
    }
    let all =
        names.iter().map(String::as_str).chain(builtin::TABLE.iter().map(|e| e.name)).chain(KEYWORDS.iter().copied());
    let mut found: Vec<String> = all.filter(|name| name.starts_with(word)).map(str::to_string).collect();
    found.sort();
    found.dedup();
    (start, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_commands_complete() {
        assert_eq!(complete("let y = sq", &[]), (8, vec!["sqrt".to_string()]));
        assert_eq!(complete(":exp", &[]), (1, vec!["explain".to_string()]));
        assert_eq!(complete("é + my", &["mymatrix".into()]), (5, vec!["mymatrix".to_string()]));
        assert_eq!(complete("1 + ", &[]).1, Vec::<String>::new());
    }
}

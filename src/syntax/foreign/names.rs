//! Translates expressions whose names or arguments belong to another language, in texts without syntax errors.
//!
//! The checker reports an unknown name, field or argument: `__shfl_down_sync`, `m.T`, `keepdims`. The translation of
//! the whole call or access, with its arguments, becomes the fix.

use super::cursor::ForeignParser;
use super::print_expressions::ExpressionPrinter;
use super::tokens::read_tokens;
use super::tree::Dialect;
use super::{LONGEST, MAX_ATTEMPTS, MAX_TOKENS, Translator, translation_fix};
use crate::token::Tok;
use clk_base::diag::Diagnostic;
use clk_base::source::{FileId, Span};
use clk_scalar::foreign_names;

/// Adds fixes to diagnostics about unknown names, fields and named arguments that have none.
pub fn translate_names(file: FileId, text: &str, diagnostics: &mut [Diagnostic]) {
    // The name of a type may be an argument of a call: `zeros(Float64, 3)`.
    let is_type = |d: &Diagnostic| {
        let name = d.primary().and_then(|span| text.get(span.range()));
        d.code == "E0201" && name.is_some_and(|name| foreign_names::find_type(name).is_some())
    };
    let is_unknown = |d: &Diagnostic| {
        matches!(d.code, "E0201" | "E0205" | "E0206") && (d.fixes.is_empty() || is_type(d)) && d.misspelled.is_none()
    };
    if text.len() > LONGEST || !diagnostics.iter().any(is_unknown) {
        return;
    }
    let lexed = crate::lex(file, text);
    let translator = Translator { file, text, tokens: &lexed.tokens, places: &[] };
    for diagnostic in diagnostics.iter_mut().filter(|d| is_unknown(d)).take(MAX_ATTEMPTS) {
        let Some(unknown) = diagnostic.primary().filter(|span| span.file == file) else { continue };
        // The translation of an unknown function replaces its name, not only its arguments.
        let is_solved =
            |clk: &str| diagnostic.code != "E0201" || !keeps_name(clk, text.get(unknown.range()).unwrap_or(""));
        let own =
            || translator.expression(unknown, false).filter(|(_, clk)| diagnostic.code != "E0206" && is_solved(clk));
        let call = || translator.expression(unknown, true);
        let translated = if is_type(diagnostic) { call() } else { own().or_else(call) };
        if let Some((span, clk)) = translated {
            diagnostic.fixes = vec![translation_fix(span, clk)];
        }
    }
}

impl Translator<'_> {
    /// Translates the call, access or name around `unknown`. The name of an unknown argument is inside the call.
    fn expression(&self, unknown: Span, is_argument: bool) -> Option<(Span, String)> {
        let index = self.tokens.partition_point(|token| token.end <= unknown.start);
        let index = if is_argument { self.open_parenthesis(index)?.checked_sub(1)? } else { index };
        let first = self.tokens.get(self.postfix_start(index))?;
        // A call of a library function is not a method call of another language.
        if is_argument && self.text.get(first.start as usize..first.end as usize).is_some_and(|name| self.imports(name))
        {
            return None;
        }
        let start = first.start as usize;
        let out = read_tokens(self.text, start, Dialect::C, MAX_TOKENS)?;
        let mut parser = ForeignParser::new(self.text, Dialect::C, out.tokens, out.comments);
        let e = parser.postfix()?;
        let end = parser.last_end();
        let scope = self.scope_before(start);
        let printer = ExpressionPrinter { scope: &scope, dialect: Dialect::C };
        let clk = if self.is_whole(start, end) { printer.print(&e) } else { printer.operand_text(&e) }?;
        let old = self.text.get(start..end)?;
        let without_blanks = |text: &str| text.replace(char::is_whitespace, "");
        if end < unknown.end as usize || without_blanks(old) == without_blanks(&clk) {
            return None;
        }
        let whole = format!("{}{clk}{}", &self.text[..start], &self.text[end..]);
        self.is_correct(&whole, start..start + clk.len()).then(|| (Span::new(self.file, start, end), clk))
    }

    /// Returns whether the program imports a module under this name.
    fn imports(&self, module: &str) -> bool {
        let path = |line: &str| line.trim().strip_prefix("import ").map(str::trim_end).map(str::to_owned);
        let is_named = |path: String| path.rsplit(['.', ' ']).next() == Some(module);
        self.text.lines().filter_map(path).any(is_named)
    }

    /// Returns whether a range is a whole argument or value, so that an operator in it needs no parentheses.
    fn is_whole(&self, start: usize, end: usize) -> bool {
        let first = self.tokens.partition_point(|token| (token.start as usize) < start);
        let next = self.tokens.partition_point(|token| (token.start as usize) < end);
        let before = first.checked_sub(1).map_or(Tok::Newline, |before| self.token(before));
        let begins =
            matches!(before, Tok::Assign | Tok::LParen | Tok::LBracket | Tok::Comma | Tok::Newline | Tok::LBrace);
        begins
            && matches!(
                self.token(next),
                Tok::RParen | Tok::RBracket | Tok::Comma | Tok::Newline | Tok::Semi | Tok::Eof
            )
    }

    /// Returns the first token of the chain of accesses and calls that contains a token: `x` for the `T` of `x.y[0].T`.
    fn postfix_start(&self, index: usize) -> usize {
        let mut start = index;
        loop {
            let before = start.checked_sub(1).map_or(Tok::Eof, |before| self.token(before));
            start = match self.token(start) {
                Tok::RParen | Tok::RBracket => match self.opening(start) {
                    Some(open) => open,
                    None => return start,
                },
                _ if before == Tok::Dot && start >= 2 => start - 2,
                Tok::LParen | Tok::LBracket if matches!(before, Tok::Name | Tok::RParen | Tok::RBracket) => start - 1,
                _ => return start,
            };
        }
    }

    /// Returns the bracket that a closing bracket belongs to.
    fn opening(&self, close: usize) -> Option<usize> {
        let mut depth = 0usize;
        (0..=close).rev().find(|&at| {
            match self.token(at) {
                Tok::RParen | Tok::RBracket | Tok::RBrace => depth += 1,
                Tok::LParen | Tok::LBracket | Tok::LBrace => depth -= 1,
                _ => {}
            }
            depth == 0
        })
    }
}

/// Returns whether a translation still calls the unknown function or names the unknown variable.
fn keeps_name(clk: &str, unknown: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    clk.split(|c| !is_part(c)).any(|word| word == unknown)
}

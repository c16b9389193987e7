//! Translates statements and functions of Python, C, CUDA, Numba, Rust and Julia to Clk.
//!
//! Input: a text with syntax errors. Output: the errors, where those of one construct are one error with its
//! translation as the fix. `docs/internals/foreign-names.md` describes the steps and the files.

mod cursor;
mod expressions;
mod functions;
mod kernels;
mod launch_indices;
mod names;
mod print_expressions;
mod print_functions;
mod print_loops;
mod print_statements;
mod statements;
#[cfg(test)]
mod tests;
mod tokens;
mod tree;
mod triton;
mod usage;
mod value_types;

pub use self::names::translate_names;

use self::cursor::ForeignParser;
use self::print_statements::{StatementPrinter, stated_type};
use self::tokens::{ForeignTokenKind, read_tokens};
use self::tree::{Dialect, ForeignExpr, ForeignStmt, StmtShape, Subscript};
use self::value_types::{ForeignScope, ForeignType};
use crate::ast::{self, ItemKind};
use crate::token::{Tok, Token};
use clk_base::diag::{Applicability, Diagnostic, Fix};
use clk_base::source::{FileId, Span};
use std::ops::Range;

/// The title of the fix that replaces a construct by its translation.
const TITLE: &str = "write it in Clk";
/// Longer texts are not translated.
const LONGEST: usize = 50_000;
/// Only the first errors are explained by a translation, because each attempt parses the text again.
const MAX_ATTEMPTS: usize = 10;
/// Maximum number of statements of a construct, with the correct ones in and after it.
const MAX_STATEMENTS: usize = 300;
/// Maximum number of tokens of a construct with the statements after it.
const MAX_TOKENS: usize = 8_000;

/// Returns the span that a fix replaces by its translation from another language.
pub fn translated_span(diagnostic: &Diagnostic) -> Option<Span> {
    let fix = diagnostic.fixes.iter().find(|fix| fix.title == TITLE)?;
    fix.edits.first().map(|(span, _)| *span)
}

/// A construct of another language and its translation.
struct Translation {
    range: Range<usize>,
    text: String,
    /// Names that the construct defines: functions and kernels, and variables.
    items: Vec<String>,
    variables: Vec<String>,
}

/// Translates the constructs with syntax errors. Errors inside a translated construct become one error.
pub(crate) fn translate(
    file: FileId,
    text: &str,
    tokens: &[Token],
    tree: &mut ast::SourceFile,
    diagnostics: Vec<Diagnostic>,
) -> Vec<Diagnostic> {
    if text.len() > LONGEST {
        return diagnostics;
    }
    let places: Vec<usize> = diagnostics.iter().filter_map(Diagnostic::primary).map(|s| s.start as usize).collect();
    let translator = Translator { file, text, tokens, places: &places };
    let mut kept = Vec::new();
    let (mut covered, mut attempts) = (0, 0);
    for mut diagnostic in diagnostics {
        let Some(place) = diagnostic.primary().map(|span| span.start as usize) else {
            kept.push(diagnostic);
            continue;
        };
        if place < covered {
            continue;
        }
        attempts += 1;
        // Chains of comparisons and unclosed braces are the same in all languages, and have a fix of their own.
        // A cast of C++ looks like a chain: `static_cast<float>(n)`.
        let has_own_fix = diagnostic.code == "E0103"
            || diagnostic.code == "E0130" && !text[..place].ends_with("_cast")
            || diagnostic.code == "E0102" && text[place..].starts_with('{');
        let translation =
            if attempts <= MAX_ATTEMPTS && !has_own_fix { translator.at(place, &diagnostic) } else { None };
        if let Some(translation) = translation {
            covered = translation.range.end;
            let span = Span::new(file, translation.range.start, translation.range.end);
            mark_items(tree, span, &translation);
            diagnostic.help.truncate(0);
            diagnostic.fixes = vec![translation_fix(span, translation.text)];
        }
        kept.push(diagnostic);
    }
    kept
}

/// Returns the fix that replaces code of another language. It is never certain, because types and extents are guessed.
fn translation_fix(span: Span, text: String) -> Fix {
    Fix { title: TITLE.to_owned(), edits: vec![(span, text)], applicability: Applicability::MaybeIncorrect }
}

/// Replaces the items in a translated span by error nodes that keep their names, so that uses cause no further errors.
fn mark_items(tree: &mut ast::SourceFile, span: Span, translation: &Translation) {
    let is_nested = tree.items.iter().any(|item| item.span.start < span.start && item.span.end > span.start);
    if is_nested {
        return;
    }
    tree.items.retain(|item| !span.contains(item.span.start));
    let name = |text: &String| ast::Name { text: text.as_str().into(), span };
    for text in &translation.items {
        tree.items.push(ast::Item { kind: ItemKind::Error(Some(name(text))), span, doc: None });
    }
    for text in &translation.variables {
        let value = ast::Expr { kind: ast::ExprKind::Error, span };
        let pattern = ast::Pattern::Name(name(text));
        let kind = ast::StmtKind::Let { mutable: true, pattern, ty: None, value: Some(value) };
        tree.items.push(ast::Item { kind: ItemKind::Stmt(ast::Stmt { kind, span }), span, doc: None });
    }
    tree.items.sort_by_key(|item| item.span.start);
}

struct Translator<'t> {
    file: FileId,
    text: &'t str,
    tokens: &'t [Token],
    /// The places of all syntax errors.
    places: &'t [usize],
}

impl Translator<'_> {
    /// Translates the construct that contains a syntax error.
    fn at(&self, place: usize, diagnostic: &Diagnostic) -> Option<Translation> {
        let start = self.statement_start(place);
        // Statements that their own fixes correct are no construct.
        if let Some(alone) = self.beginning_at(start, place, (1, diagnostic.code))
            && self.is_fixed_by(diagnostic, &alone)
        {
            return None;
        }
        let translation = self.beginning_at(start, place, (MAX_STATEMENTS, diagnostic.code)).or_else(|| {
            // The statement may be a part of a construct with braces, such as a field of a struct.
            let brace = self.enclosing_brace(start)?;
            let outer = self.tokens.get(self.statement_token(brace))?.start as usize;
            self.beginning_at(outer, place, (MAX_STATEMENTS, diagnostic.code))
        })?;
        (!self.is_fixed_by(diagnostic, &translation)).then_some(translation)
    }

    /// Translates the statements from `start` on in the language that they seem to have.
    fn beginning_at(&self, start: usize, place: usize, limits: (usize, &str)) -> Option<Translation> {
        let (most, code) = limits;
        let guess = dialect(self.text, start);
        let others: &[Dialect] = match guess {
            Dialect::Python => &[Dialect::Python],
            Dialect::Julia => &[Dialect::Julia],
            // Braces in a string of Clk are not those of Python.
            Dialect::C if matches!(code, "E0104" | "E0109" | "E0110") => &[Dialect::C],
            Dialect::C => &[Dialect::C, Dialect::Python],
        };
        others.iter().find_map(|dialect| self.in_dialect(start, place, *dialect, most))
    }

    /// Returns whether the diagnostic's own fix gives the same program as the translation.
    fn is_fixed_by(&self, diagnostic: &Diagnostic, translation: &Translation) -> bool {
        let [fix] = &diagnostic.fixes[..] else { return false };
        let range = &translation.range;
        let mut edits: Vec<&(Span, String)> = fix.edits.iter().collect();
        edits.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
        let mut text = self.text.to_owned();
        let mut end = range.end as isize;
        for (span, replacement) in edits {
            if text.get(span.range()).is_none() {
                return false;
            }
            text.replace_range(span.range(), replacement);
            end += replacement.len() as isize - span.range().len() as isize;
        }
        let without_blanks = |text: &str| text.replace(char::is_whitespace, "");
        let own = text.get(range.start..end.max(0) as usize).unwrap_or("");
        without_blanks(own) == without_blanks(&translation.text)
    }

    /// Returns whether a text has no syntax errors in a range.
    fn is_correct(&self, text: &str, range: Range<usize>) -> bool {
        let (_, errors, _) = crate::parse::file(self.file, text);
        !errors.iter().filter_map(Diagnostic::primary).any(|span| {
            let place = span.start as usize;
            range.start <= place && place <= range.end
        })
    }

    fn token(&self, index: usize) -> Tok {
        self.tokens.get(index).map_or(Tok::Eof, |token| token.kind)
    }

    /// Returns the byte offset at which the statement around `place` begins.
    fn statement_start(&self, place: usize) -> usize {
        let index = self.tokens.partition_point(|token| (token.end as usize) <= place && token.start as usize != place);
        let next = self.tokens.get(index).map_or(place, |token| token.start as usize);
        // The error is in a comment or a line of the preprocessor.
        let before = index.checked_sub(1).map_or(Tok::Newline, |before| self.token(before));
        let is_between = matches!(before, Tok::Newline | Tok::Semi | Tok::LBrace | Tok::RBrace);
        if self.text[place..].starts_with('#') && place < next && is_between {
            return place;
        }
        let first = self.statement_token(index);
        self.tokens.get(first).map_or(place, |token| token.start as usize).min(place)
    }

    /// Returns the first token of the statement that contains a token.
    fn statement_token(&self, index: usize) -> usize {
        use Tok::*;
        let (mut first, mut depth) = (index, 0usize);
        let mut at = index;
        // A statement may contain `;` in parentheses, so the search begins again at each open parenthesis.
        while at > 0 {
            at -= 1;
            match self.token(at) {
                RParen | RBracket | RBrace | InterpClose => depth += 1,
                LBrace if depth == 0 => return first,
                LParen | LBracket | InterpOpen if depth == 0 => return self.statement_token(at),
                LParen | LBracket | LBrace | InterpOpen => depth -= 1,
                Newline | Semi if depth == 0 => {
                    // A `;` inside parentheses that are still open does not end the statement.
                    return match self.open_parenthesis(at) {
                        Some(open) => self.statement_token(open),
                        None => first,
                    };
                }
                _ => {}
            }
            if depth == 0 && !matches!(self.token(at), Newline | Semi) {
                first = at;
            }
        }
        first
    }

    /// Returns the innermost bracket that is open at a token, if it is a parenthesis.
    fn open_parenthesis(&self, index: usize) -> Option<usize> {
        use Tok::*;
        let mut depth = 0usize;
        for at in (0..index).rev() {
            match self.token(at) {
                RParen | RBracket | RBrace | InterpClose => depth += 1,
                LParen if depth == 0 => return Some(at),
                LBracket | LBrace | InterpOpen if depth == 0 => return None,
                LParen | LBracket | LBrace | InterpOpen => depth -= 1,
                _ => {}
            }
        }
        None
    }

    /// Translates the statements from `start` on that contain syntax errors.
    fn in_dialect(&self, start: usize, place: usize, dialect: Dialect, limit: usize) -> Option<Translation> {
        let start = if dialect == Dialect::Python { self.with_assignments_before(start) } else { start };
        let out = read_tokens(self.text, start, dialect, MAX_TOKENS)?;
        let mut parser = ForeignParser::new(self.text, dialect, out.tokens, out.comments);
        let indent = parser.token().indent;
        let mut stmts: Vec<ForeignStmt> = Vec::new();
        // The number of statements up to the last one with an error.
        let (mut count, mut correct, mut continues) = (0, 0, false);
        let most = if dialect == Dialect::Python { 8 } else { 3 };
        while stmts.len() < MAX_STATEMENTS {
            parser.skip_line_ends();
            if parser.kind() == ForeignTokenKind::End || parser.word() == "}" {
                break;
            }
            if dialect == Dialect::Python && !stmts.is_empty() && parser.token().indent != indent {
                break;
            }
            let Some(stmt) = parser.attempt(|p| p.statement()) else { break };
            let from = if stmts.is_empty() { start } else { stmt.start };
            let has_error = self.places.iter().any(|place| (from..stmt.end.max(from + 1)).contains(place));
            let is_item = matches!(&stmt.shape, StmtShape::Raw(text) if !text.starts_with("shared"));
            stmts.push(stmt);
            if stmts.len() <= limit && (has_error || std::mem::take(&mut continues)) && correct <= most {
                count = stmts.len();
                correct = 0;
            } else {
                correct += if is_item { most + 1 } else { 1 };
            }
            continues = std::mem::take(&mut parser.must_continue);
        }
        let last = stmts.get(count.checked_sub(1)?)?;
        let range = start..last.end;
        if !(range.start..=range.end).contains(&place) {
            return None;
        }
        let text = self.print(&stmts, count, start, indent, dialect)?;
        let mut end = range.end;
        if self.text[end..].starts_with(';') && !self.text[end..].starts_with(";;") {
            end += 1;
        }
        let range = start..end;
        let old = self.text.get(range.clone())?;
        if old == text {
            return None;
        }
        let whole = format!("{}{text}{}", &self.text[..range.start], &self.text[range.end..]);
        if !self.is_correct(&whole, range.start..range.start + text.len()) {
            return None;
        }
        let mut items = Vec::new();
        let mut variables = Vec::new();
        for stmt in &stmts[..count] {
            match &stmt.shape {
                StmtShape::Function(function) => items.push(function.name.clone()),
                // A struct of C.
                StmtShape::Raw(text) if text.starts_with("struct ") => {
                    items.extend(text.split_whitespace().nth(1).map(str::to_owned));
                }
                // `f(x) = …` of Julia.
                StmtShape::Assign(places, "", _) if matches!(&places[..], [ForeignExpr::Call(..)]) => {
                    if let [ForeignExpr::Call(callee, _)] = &places[..] {
                        items.extend(callee.path());
                    }
                }
                StmtShape::Declare { variables: declared, .. } => {
                    variables.extend(declared.iter().map(|v| v.name.clone()))
                }
                StmtShape::Bind(_, pattern, _) => {
                    variables.push(pattern.split(':').next().unwrap_or_default().trim().to_owned());
                }
                StmtShape::Assign(places, ..) => variables.extend(places.iter().filter_map(ForeignExpr::path)),
                _ => {}
            }
        }
        variables.retain(|name| name.chars().all(|c| c.is_alphanumeric() || c == '_'));
        let scope = self.scope_before(start);
        variables.retain(|name| !scope.declares(name));
        variables.sort();
        variables.dedup();
        Some(Translation { range, text, items, variables })
    }

    fn print(
        &self,
        stmts: &[ForeignStmt],
        count: usize,
        start: usize,
        indent: usize,
        dialect: Dialect,
    ) -> Option<String> {
        let mut scope = self.scope_before(start);
        let is_nested = self.is_nested(start);
        scope.counts_from_zero = is_nested || stmts[..count].iter().any(|stmt| has_indices_of_clk(stmt, &scope));
        let mut printer = StatementPrinter::new(scope, dialect, indent);
        printer.nested = is_nested;
        printer.print(stmts, count)?;
        let text = printer.lines.join("\n");
        Some(text.trim_start().to_owned())
    }

    fn is_nested(&self, start: usize) -> bool {
        self.enclosing_brace(start).is_some()
    }

    /// Returns the innermost `{` that is open at a byte offset.
    fn enclosing_brace(&self, start: usize) -> Option<usize> {
        let mut depth = 0usize;
        let end = self.tokens.partition_point(|token| (token.start as usize) < start);
        for at in (0..end).rev() {
            match self.token(at) {
                Tok::RBrace => depth += 1,
                Tok::LBrace if depth == 0 => return Some(at),
                Tok::LBrace => depth -= 1,
                _ => {}
            }
        }
        None
    }

    /// Returns the variables that the text before `start` declares, with their types where they are stated.
    fn scope_before(&self, start: usize) -> ForeignScope {
        let mut scope = ForeignScope::default();
        let word = |index: usize| self.tokens.get(index).map_or("", |token| token.text(self.text));
        for index in 0..self.tokens.len() {
            let token = self.tokens[index];
            if token.start as usize >= start {
                break;
            }
            let declares = matches!(token.kind, Tok::Let | Tok::Var | Tok::Shared | Tok::Const | Tok::For);
            if declares && self.token(index + 1) == Tok::Name {
                let ty = match self.token(index + 2) {
                    Tok::In => ForeignType::scalar("i32"),
                    Tok::Assign => match self.token(index + 3) {
                        Tok::Int if matches!(self.token(index + 4), Tok::Newline | Tok::Semi) => {
                            ForeignType::scalar("i32")
                        }
                        Tok::Float if matches!(self.token(index + 4), Tok::Newline | Tok::Semi) => {
                            ForeignType::scalar("f32")
                        }
                        Tok::LBracket => match self.token(index + 4) {
                            Tok::Float => ForeignType::Array("f32".into()),
                            Tok::Int => ForeignType::Array("i32".into()),
                            _ => ForeignType::Unknown,
                        },
                        Tok::Name if matches!(word(index + 3), "zeros" | "ones" | "linspace" | "random") => {
                            ForeignType::Array("f32".into())
                        }
                        Tok::Name if word(index + 3) == "arange" => ForeignType::Array("i32".into()),
                        _ => ForeignType::Unknown,
                    },
                    _ => ForeignType::Unknown,
                };
                scope.variables.insert(word(index + 1).to_owned(), ty);
            }
            if token.kind == Tok::Name && self.token(index + 1) == Tok::Colon {
                let ty = match self.token(index + 2) {
                    Tok::LBracket => stated_type(&format!("[{}", word(index + 3))),
                    Tok::Name if clk_scalar::Scalar::from_name(word(index + 2)).is_some() => {
                        ForeignType::scalar(word(index + 2))
                    }
                    // An index of `threads(i: N)`.
                    Tok::Name | Tok::Int => {
                        let open = self.open_parenthesis(index).and_then(|open| open.checked_sub(1));
                        if open.is_some_and(|before| word(before) == "threads") {
                            scope.thread_indices.push(token.text(self.text).to_owned());
                        }
                        ForeignType::scalar("i32")
                    }
                    _ => ForeignType::Unknown,
                };
                scope.variables.insert(token.text(self.text).to_owned(), ty);
            }
            if token.kind == Tok::Kernel {
                scope.thread_indices.clear();
                scope.block_extent = None;
            }
            let is_block = token.text(self.text) == "block" && self.token(index + 1) == Tok::LParen;
            if is_block && matches!(self.token(index + 2), Tok::Int | Tok::Name) {
                scope.block_extent = Some(word(index + 2).to_owned());
            }
            // An extent in a type: `[f32; M, N]`.
            let before = index.checked_sub(1).map_or(Tok::Eof, |before| self.token(before));
            let is_upper = token.text(self.text).chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit());
            if token.kind == Tok::Name && is_upper && matches!(before, Tok::Semi | Tok::Comma) {
                scope.variables.insert(token.text(self.text).to_owned(), ForeignType::scalar("i32"));
            }
            if matches!(token.kind, Tok::Fn | Tok::Kernel) && self.token(index + 1) == Tok::Name {
                scope.results.insert(word(index + 1).to_owned(), ForeignType::Unknown);
            }
        }
        scope
    }

    /// Returns the start of the lines directly before a construct of Python that assign to new variables.
    fn with_assignments_before(&self, start: usize) -> usize {
        let line_start = |at: usize| self.text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let own = line_start(start);
        let indent = start - own;
        if !self.text[own..start].trim().is_empty() {
            return start;
        }
        let scope = self.scope_before(start);
        let mut first = start;
        let mut line = own;
        while line > 0 {
            let before = line_start(line - 1);
            let text = &self.text[before..line - 1];
            let blanks = text.len() - text.trim_start().len();
            let is_comment = blanks == indent && text.trim_start().starts_with(['#', '/']);
            if is_comment {
                line = before;
                continue;
            }
            let name = text.trim().split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("");
            let rest = text.trim().get(name.len()..).unwrap_or("").trim_start();
            let assigns = rest.starts_with('=') && !rest.starts_with("==");
            let is_launch_index = ["cuda.grid(", "wp.tid(", "get_global_id("].iter().any(|call| rest.contains(call));
            let is_new = !name.is_empty()
                && !name.starts_with(|c: char| c.is_ascii_digit())
                && (!scope.declares(name) || is_launch_index);
            if blanks != indent || !assigns || !is_new {
                break;
            }
            first = before + blanks;
            line = before;
        }
        first
    }
}

/// Returns whether a statement has a range of Clk such as `0..n`, or indices that consist of variables of Clk.
fn has_indices_of_clk(stmt: &ForeignStmt, scope: &ForeignScope) -> bool {
    let mut found = false;
    stmt.visit(&mut |inner| {
        for e in inner.expressions() {
            e.visit(&mut |part| match part {
                ForeignExpr::Range(_, false) => found = true,
                ForeignExpr::Index(_, subscripts) => {
                    found |= subscripts.iter().any(|subscript| match subscript {
                        Subscript::Element(index) => {
                            index.contains(|e| matches!(e, ForeignExpr::Name(name) if scope.declares(name)))
                        }
                        _ => false,
                    });
                }
                _ => {}
            });
        }
    });
    found
}

/// Guesses the language of the text from `start` on.
fn dialect(text: &str, start: usize) -> Dialect {
    let rest = &text[start..];
    let code = |line: &str| line.split('#').next().unwrap_or("").trim_end().to_owned();
    let mut lines = rest.lines().filter(|line| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with("# ") && !line.starts_with("//")
    });
    let first = lines.next().unwrap_or("");
    let first = if first.trim_start().starts_with('#') { first.to_owned() } else { code(first) };
    let words: Vec<&str> = first.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty()).collect();
    let word = words.first().copied().unwrap_or("");
    let begins_block = matches!(
        word,
        "def"
            | "if"
            | "for"
            | "while"
            | "elif"
            | "with"
            | "class"
            | "else"
            | "try"
            | "kernel"
            | "fn"
            | "test"
            | "bench"
    );
    let is_item = matches!(word, "kernel" | "fn" | "test" | "bench");
    let one_line = begins_block && !is_item && first.contains(": ") && !first.contains(['{', '?', ';']);
    if begins_block && first.ends_with(':') || one_line || first.trim_start().starts_with('@') || word == "def" {
        return Dialect::Python;
    }
    if matches!(word, "function" | "for" | "if" | "while") && !first.contains('{') {
        let indent = text[..start].rfind('\n').map_or(start, |newline| start - newline - 1);
        let is_end = |line: &str| line.trim() == "end" && line.len() - line.trim_start().len() == indent;
        let single = first.trim_end().ends_with(" end");
        if single || lines.take(100).any(is_end) {
            return Dialect::Julia;
        }
    }
    let dotted = [" .* ", " .+ ", " ./ ", " .- ", " .^ ", ".^"].iter().any(|op| first.contains(op));
    if dotted {
        return Dialect::Julia;
    }
    let is_python =
        words.iter().any(|word| matches!(*word, "and" | "or" | "not" | "lambda" | "None" | "True" | "False" | "is"))
            || first.contains(" if ") && first.contains(" else ") && !first.contains('{')
            || ["f\"", "f'", "='", "('", "= '", " for ", "[:", ":]", "['"].iter().any(|mark| first.contains(mark))
                && !first.contains('{')
            || first.contains("f\"")
            || first.contains(" // ") && first.contains(['[', '(']) && first.contains(':');
    let is_c = first.contains(';') || first.contains('?');
    if is_python && !is_c { Dialect::Python } else { Dialect::C }
}

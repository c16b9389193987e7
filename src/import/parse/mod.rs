//! The parser: recursive descent with knowledge of type and template names.
//!
//! A declaration that does not parse never stops the file: host code is skipped, device code refused, and parsing
//! continues after its end. Where C++ is ambiguous without a full analysis, the parser tries one reading and goes back.
//! The depth of the tree ([`MAX_DEPTH`]) and the number of steps are bounded.

mod bodies;
mod declarations;
mod declarators;
#[cfg(test)]
mod dump;
mod expressions;
mod functions;
mod loop_counters;
mod names;
mod operands;
mod records;
mod specifiers;
mod statements;
mod templates;
#[cfg(test)]
mod tests;

use self::names::{NameRole, NameScopes};
use crate::ast::{CppDecl, CppName, MAX_DEPTH, QualifiedName, Refusal, SmolStr};
use crate::lex::CppTok;
use crate::preprocess::CppToken;
use crate::source::{Provenance, SourceSpan};
use clk_base::diag::Diagnostic;
use rustc_hash::FxHashSet;

/// The number of steps for each token, after which the text counts as too ambiguous.
const STEPS_PER_TOKEN: usize = 60;

/// A place at which the text is not the expected syntax.
#[derive(Clone, Debug)]
pub(super) struct SyntaxProblem {
    pub message: String,
    pub span: SourceSpan,
    /// A construct that is recognized but not parsed.
    pub construct: Option<&'static str>,
}

type Parsed<T> = Result<T, Box<SyntaxProblem>>;

/// The meaning of `>` at the current position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AngleContext {
    /// An operator.
    Operator,
    /// The end of template arguments.
    Template,
    /// An operator, except that `>>>` ends a launch configuration.
    Launch,
}

struct CppParser<'t> {
    tokens: &'t [CppToken],
    next: usize,
    /// For each opening bracket, the position of its closing one; 0 if it has none.
    closing: Vec<u32>,
    scopes: NameScopes,
    /// All function templates of the file, for `object.f<int>()`.
    templates: FxHashSet<SmolStr>,
    angle: AngleContext,
    depth: usize,
    steps_left: usize,
    /// The positions of `<` that do not start template arguments.
    type_failures: FxHashSet<usize>,
    /// The positions of the bodies of the open class's methods, which are parsed at its end.
    deferred: Vec<usize>,
    /// Whether the declaration of a `for` is parsed, in which `:` starts the range.
    in_for_header: bool,
    /// The number of notes about skipped host code.
    skip_notes: usize,
    provenance: &'t Provenance,
    diagnostics: Vec<Diagnostic>,
}

/// Parses the tokens of a file.
pub(crate) fn parse(tokens: &[CppToken], provenance: &Provenance) -> (Vec<CppDecl>, Vec<Diagnostic>) {
    let mut parser = CppParser {
        tokens,
        next: 0,
        closing: match_brackets(tokens),
        scopes: NameScopes::default(),
        templates: FxHashSet::default(),
        angle: AngleContext::Operator,
        depth: 0,
        steps_left: tokens.len() * STEPS_PER_TOKEN + 10_000,
        type_failures: FxHashSet::default(),
        deferred: vec![],
        in_for_header: false,
        skip_notes: 0,
        provenance,
        diagnostics: vec![],
    };
    parser.scopes.push();
    let decls = parser.declarations_until(CppTok::Eof);
    (decls, parser.diagnostics)
}

/// Returns for each opening bracket the position of its closing one. Brackets inside of an unclosed one count as well.
fn match_brackets(tokens: &[CppToken]) -> Vec<u32> {
    let mut closing = vec![0; tokens.len()];
    let mut open: Vec<(usize, CppTok)> = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let opening = match token.kind {
            CppTok::LParen | CppTok::LBracket | CppTok::LBrace => {
                open.push((at, token.kind));
                continue;
            }
            CppTok::RParen => CppTok::LParen,
            CppTok::RBracket => CppTok::LBracket,
            CppTok::RBrace => CppTok::LBrace,
            _ => continue,
        };
        // A brace closes parentheses that lack their end; parentheses never close a brace.
        let found = open.iter().rposition(|&(_, kind)| kind == opening || kind == CppTok::LBrace);
        if let Some(found) = found.filter(|&found| open[found].1 == opening) {
            closing[open[found].0] = at as u32;
            open.truncate(found);
        }
    }
    closing
}

// ---- tokens ----

impl<'t> CppParser<'t> {
    fn kind(&self) -> CppTok {
        self.kind_at(0)
    }

    fn kind_at(&self, ahead: usize) -> CppTok {
        self.tokens.get(self.next + ahead).map_or(CppTok::Eof, |token| token.kind)
    }

    /// Returns the text of the current token, empty for literals of text, so that keywords can be compared.
    fn word(&self) -> &'t str {
        self.word_at(0)
    }

    fn word_at(&self, ahead: usize) -> &'t str {
        let tokens = self.tokens;
        match tokens.get(self.next + ahead) {
            Some(token) if token.kind == CppTok::Ident => &token.text,
            _ => "",
        }
    }

    fn text(&self) -> SmolStr {
        self.tokens.get(self.next).map_or(SmolStr::default(), |token| token.text.clone())
    }

    fn span(&self) -> SourceSpan {
        let last = self.tokens.last().map_or(SourceSpan::default(), |token| token.span);
        self.tokens.get(self.next).map_or(last, |token| token.span)
    }

    /// Returns the place from a start to the last token that was read.
    fn span_from(&self, start: usize) -> SourceSpan {
        self.span_between(start, self.next.max(start + 1))
    }

    /// Returns the place of the tokens from `start` to before `end`, which is greater.
    fn span_between(&self, start: usize, end: usize) -> SourceSpan {
        let first = self.tokens.get(start).map_or(self.span(), |token| token.span);
        let last = self.tokens.get(end - 1).map_or(first, |token| token.span);
        // A span has one macro and one file. If the two tokens differ, it has no macro, or the place of the first
        // token.
        first.to(last)
    }

    fn advance(&mut self) {
        if self.kind() != CppTok::Eof {
            self.next += 1;
        }
        self.steps_left = self.steps_left.saturating_sub(1);
    }

    fn accept(&mut self, kind: CppTok) -> bool {
        let found = self.kind() == kind;
        if found {
            self.advance();
        }
        found
    }

    fn accept_word(&mut self, word: &str) -> bool {
        let found = self.word() == word;
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, kind: CppTok, text: &str) -> Parsed<()> {
        if self.accept(kind) { Ok(()) } else { Err(self.expected(&format!("`{text}`"))) }
    }

    fn expected(&self, what: &str) -> Box<SyntaxProblem> {
        let found = match self.kind() {
            CppTok::Eof => "the end of the file".to_string(),
            _ => format!("`{}`", self.text()),
        };
        self.problem(format!("expected {what}, found {found}"))
    }

    fn problem(&self, message: String) -> Box<SyntaxProblem> {
        Box::new(SyntaxProblem { message, span: self.span(), construct: None })
    }

    /// Returns an error for a construct that is recognized but not parsed.
    fn unsupported(&self, construct: &'static str) -> Box<SyntaxProblem> {
        Box::new(SyntaxProblem {
            message: format!("{construct} is not supported"),
            span: self.span(),
            construct: Some(construct),
        })
    }

    /// Returns whether a token follows the one before it without white space.
    fn adjacent(&self, ahead: usize, kind: CppTok) -> bool {
        self.tokens.get(self.next + ahead).is_some_and(|token| token.kind == kind && !token.space)
    }

    fn at_launch_close(&self) -> bool {
        self.kind() == CppTok::Greater && self.adjacent(1, CppTok::Greater) && self.adjacent(2, CppTok::Greater)
    }

    /// Moves after the bracket that closes the current one. Returns `false` if it is not closed.
    fn skip_brackets(&mut self) -> bool {
        let close = self.closing.get(self.next).map_or(0, |&close| close as usize);
        if close > self.next {
            self.next = close + 1;
        }
        close > 0
    }

    fn expect_brackets(&mut self) -> Parsed<()> {
        if self.skip_brackets() { Ok(()) } else { Err(self.expected("brackets that are closed")) }
    }

    fn name(&mut self) -> Parsed<CppName> {
        if self.kind() != CppTok::Ident {
            return Err(self.expected("a name"));
        }
        let name = CppName { text: self.text(), span: self.span() };
        self.advance();
        Ok(name)
    }

    // ---- limits and readings ----

    /// Parses something one level deeper.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        let depth = self.depth;
        self.deepen()?;
        let result = parse(self);
        self.depth = depth;
        result
    }

    fn deepen(&mut self) -> Parsed<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.unsupported("code that is nested more than 256 levels deep"));
        }
        if self.steps_left == 0 {
            return Err(self.unsupported("code that is too ambiguous"));
        }
        Ok(())
    }

    /// Parses with another meaning of `>`.
    fn in_angle<T>(&mut self, angle: AngleContext, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        let outer = std::mem::replace(&mut self.angle, angle);
        let result = parse(self);
        self.angle = outer;
        result
    }

    /// Tries to parse something; goes back if that fails.
    fn attempt<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Option<T> {
        let (next, depth, angle, scopes, reports) =
            (self.next, self.depth, self.angle, self.scopes.depth(), self.diagnostics.len());
        let result = parse(self).ok();
        if result.is_none() {
            self.next = next;
            self.scopes.pop_to(scopes);
            self.diagnostics.truncate(reports);
        }
        self.depth = depth;
        self.angle = angle;
        result
    }

    /// Returns whether a reading fits, without moving.
    fn looks_like(&mut self, test: impl FnOnce(&mut Self) -> Parsed<bool>) -> bool {
        let next = self.next;
        let result = self.attempt(test).unwrap_or(false);
        self.next = next;
        result
    }

    fn role(&self, name: &QualifiedName) -> NameRole {
        self.scopes.find_qualified(name)
    }

    fn refusal(&self, construct: &'static str, start: usize, help: Option<&'static str>) -> Refusal {
        Refusal {
            construct: SmolStr::new_static(construct),
            span: self.span_from(start),
            help: help.map(SmolStr::new_static),
        }
    }
}

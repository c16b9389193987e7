//! The lexer: string interpolation, balanced brackets, and the newline rule.
//!
//! The parser relies on three guarantees: brackets are balanced (missing ones are reported and inserted as empty
//! tokens, surplus ones are dropped), a [`Tok::Newline`] occurs only at the end of a statement, and the last token is
//! [`Tok::Eof`]. The newline rule is described at [`LexReader::line_start`].

mod brackets;
mod reader;
mod report;
mod strings;

pub use self::reader::Lexed;
pub(crate) use self::reader::MAX_DEPTH;
use self::reader::{LexReader, LexerBracket};
use crate::literal;
use crate::token::{Tok, Token, skip_block_comment};
use clk_base::diag::Diagnostic;
use clk_base::source::{FileId, Span};
use clk_base::stop;
use logos::Logos;

/// Maximum number of diagnostics of a file.
pub(crate) const MAX_ERRORS: usize = 20;

/// Lexes a text.
pub fn lex(file: FileId, text: &str) -> Lexed {
    let mut reader = LexReader::new(file, text);
    reader.run();
    reader.finish()
}

impl<'t> LexReader<'t> {
    fn new(file: FileId, text: &'t str) -> Self {
        let mut lexer = Tok::lexer(text);
        lexer.bump(prologue(text));
        let mut out = Lexed::default();
        out.tokens.reserve(text.len().min(1 << 28) / 4 + 8);
        LexReader {
            file,
            text,
            lexer,
            out,
            open: Vec::new(),
            newline: false,
            header: false,
            bad_until: usize::MAX,
            suspect: None,
        }
    }

    fn run(&mut self) {
        while !self.out.too_deep
            && let Some(token) = self.lexer.next()
        {
            stop::poll();
            self.token(token);
        }
    }

    fn finish(mut self) -> Lexed {
        let end = self.text.len();
        if !self.open.is_empty() && !self.out.too_deep {
            self.out.open_at_end = true;
            self.unclosed_at_end();
        }
        self.close_above(0, end);
        self.emit(Tok::Newline, end, end);
        self.emit(Tok::Eof, end, end);
        self.out
    }

    /// Handles one token of the generated lexer (`logos`).
    fn token(&mut self, token: Result<Tok, ()>) {
        let at = self.lexer.span();
        match token {
            Ok(Tok::Newline) => self.newline = true,
            Ok(Tok::BlockComment) => {
                if !skip_block_comment(&mut self.lexer) {
                    self.out.open_at_end = true;
                    self.unterminated_comment(at.start);
                }
            }
            Ok(Tok::StrStart) => self.string(at.start),
            Ok(Tok::Quoted) => self.quoted(at.start, at.end),
            Ok(Tok::Hash) => self.hash(at.start, at.end),
            Ok(kind @ (Tok::Int | Tok::Float)) => self.number(kind, at.start, at.end),
            Ok(kind) => self.push(kind, at.start, at.end),
            Err(()) => self.bad_character(at.start, at.end),
        }
    }

    /// Appends a token and updates the state of brackets and newlines.
    fn push(&mut self, kind: Tok, start: usize, end: usize) {
        if self.newline {
            self.newline = false;
            self.line_start(kind, start, end);
        }
        match kind {
            Tok::LParen | Tok::LBracket | Tok::LBrace => {
                self.emit(kind, start, end);
                self.open_bracket(kind);
            }
            Tok::RParen | Tok::RBracket | Tok::RBrace => self.close(kind, start, end),
            Tok::Semi => {
                self.header = false;
                self.emit(kind, start, end);
            }
            _ => {
                self.header |= begins_header(kind);
                self.emit(kind, start, end);
            }
        }
    }

    fn emit(&mut self, kind: Tok, start: usize, end: usize) {
        self.out.tokens.push(Token::new(kind, start, end));
    }

    fn open_bracket(&mut self, kind: Tok) {
        let token = self.out.tokens.last().copied().unwrap_or(Token::new(kind, 0, 0));
        let header = self.header && kind != Tok::LBrace;
        self.open.push(LexerBracket { kind, token, header });
        self.header = false;
        if self.open.len() > MAX_DEPTH {
            self.out.too_deep = true;
            self.report_too_deep(token);
        }
    }

    /// Handles the first token of a line: ends the previous statement according to the newline rule.
    ///
    /// A newline ends the statement if the token before it can end a line, the innermost bracket is not `(` or `[`, and
    /// the token after it does not continue the line. These tokens continue it:
    /// - `.`, `else` and all binary operators except `-`, which also starts a statement (`-x`);
    /// - a `{` while a header (`kernel`, `fn`, `if`, `for`, …) lacks its body;
    /// - `threads`, `grid`, `block`, `assume`, `expect` and `tune` after a kernel's parameters.
    ///
    /// A line that starts with `let`, `for` or another statement keyword begins a new statement even after an operator,
    /// so that a missing operand affects only one line.
    fn line_start(&mut self, kind: Tok, start: usize, end: usize) {
        if !self.open.is_empty() {
            self.recover_bracket(kind, start);
        }
        let bracketed = self.open.last().is_some_and(|o| o.kind != Tok::LBrace);
        let Some(before) = self.out.tokens.last().copied() else { return };
        let forced = brackets::starts_statement(kind) && before.kind.needs_statement_end();
        let ends = before.kind.can_end_line() || self.ends_with_decrement();
        if bracketed || kind.continues_line() || !(ends || forced) || self.ends_with_unroll() {
            return;
        }
        let header = self.header || kind == Tok::LBrace && before.kind == Tok::RParen && self.in_foreign_header();
        if header && (kind == Tok::LBrace || kind == Tok::Name && is_clause(self.text.get(start..end))) {
            return;
        }
        self.header = false;
        self.emit(Tok::Newline, before.end as usize, before.end as usize);
    }

    /// Returns whether the statement begins like a function of CUDA C++, Python or a similar language. The body on the
    /// next line is then part of the same error.
    fn in_foreign_header(&self) -> bool {
        let ends = |t: &&Token| matches!(t.kind, Tok::Newline | Tok::Semi | Tok::LBrace | Tok::RBrace);
        let first_index = self.out.tokens.iter().rposition(|t| ends(&t)).map_or(0, |index| index + 1);
        let two = [first_index, first_index + 1].map(|index| self.out.tokens.get(index));
        let [Some(first), Some(second)] = two else { return false };
        let word = first.text(self.text);
        let foreign =
            word.starts_with("__") || matches!(word, "def" | "func" | "function" | "void" | "static" | "inline");
        first.kind == Tok::Name && second.kind == Tok::Name && foreign
    }

    /// Returns whether the line ends with `i--`, which is an error. The next line must not become a part of it.
    fn ends_with_decrement(&self) -> bool {
        matches!(self.out.tokens.as_slice(), [.., a, b]
            if a.kind == Tok::Minus && b.kind == Tok::Minus && a.end == b.start)
    }

    /// Returns whether the line ends with `#unroll(4)`, which belongs to the loop on the next line.
    fn ends_with_unroll(&self) -> bool {
        matches!(self.out.tokens.as_slice(), [.., hint, _, _, close] if hint.kind == Tok::Unroll && close.kind == Tok::RParen)
    }

    fn number(&mut self, kind: Tok, start: usize, end: usize) {
        let text = self.text.get(start..end).unwrap_or("");
        if let Some(problem) = literal::problem(text) {
            self.bad_number(problem, text, start, end);
        }
        let plain = kind == Tok::Float || text.bytes().all(|b| b.is_ascii_digit());
        let float = kind == Tok::Float || !plain && literal::split(text).float;
        self.push(if float { Tok::Float } else { Tok::Int }, start, end);
    }

    fn span(&self, start: usize, end: usize) -> Span {
        Span::new(self.file, start, end)
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        if self.out.diagnostics.len() < MAX_ERRORS {
            self.out.diagnostics.push(diagnostic);
        }
    }
}

/// Returns the number of bytes before the first token: a byte order mark and a `#!` line.
fn prologue(text: &str) -> usize {
    let mark = if text.starts_with('\u{feff}') { 3 } else { 0 };
    match text.get(mark..) {
        Some(rest) if rest.starts_with("#!") => mark + rest.find('\n').unwrap_or(rest.len()),
        _ => mark,
    }
}

fn begins_header(kind: Tok) -> bool {
    use Tok::*;
    matches!(kind, Kernel | Fn | Struct | Test | Bench | If | Else | For | While | Loop)
}

/// Returns whether a line that begins with this word continues a kernel's header.
fn is_clause(word: Option<&str>) -> bool {
    matches!(word, Some("threads" | "grid" | "block" | "assume" | "expect" | "tune"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Tok> {
        let lexed = lex(FileId(0), text);
        lexed.tokens.iter().map(|t| t.kind).take_while(|k| *k != Tok::Eof).collect()
    }

    #[test]
    fn newlines_follow_the_newline_rule() {
        use Tok::*;
        assert_eq!(kinds("a\nb"), [Name, Newline, Name, Newline]);
        assert_eq!(kinds("a\n+ b"), [Name, Plus, Name, Newline]);
        assert_eq!(kinds("a\n- b"), [Name, Newline, Minus, Name, Newline]);
        assert_eq!(kinds("a +\nb"), [Name, Plus, Name, Newline]);
        assert_eq!(kinds("(a\nb)"), [LParen, Name, Name, RParen, Newline]);
        assert_eq!(kinds("0..\nb"), [Int, DotDot, Newline, Name, Newline]);
        assert_eq!(kinds("0..=\nb"), [Int, DotDotEq, Name, Newline]);
        assert_eq!(kinds("a\n.b"), [Name, Dot, Name, Newline]);
        assert_eq!(kinds("if a\n{\n}\nelse\n{\n}"), [If, Name, LBrace, RBrace, Else, LBrace, RBrace, Newline]);
        assert_eq!(kinds("a\n{\n}"), [Name, Newline, LBrace, RBrace, Newline]);
    }

    #[test]
    fn strings_are_split_into_tokens() {
        use Tok::*;
        assert_eq!(
            kinds(r#""a {f("b{c}")[1]:.3}{{d}}""#),
            [
                StrStart,
                StrText,
                InterpOpen,
                Name,
                LParen,
                StrStart,
                StrText,
                InterpOpen,
                Name,
                InterpClose,
                StrEnd,
                RParen,
                LBracket,
                Int,
                RBracket,
                Format,
                InterpClose,
                StrText,
                StrEnd,
                Newline
            ]
        );
    }

    #[test]
    fn brackets_always_match() {
        for text in ["(((", ")))", "(]", "{(}", "[{)]", "\"{(\"", "\"{", "}{"] {
            let lexed = lex(FileId(0), text);
            let mut depth = 0i32;
            for token in &lexed.tokens {
                match token.kind {
                    Tok::LParen | Tok::LBracket | Tok::LBrace | Tok::InterpOpen => depth += 1,
                    Tok::RParen | Tok::RBracket | Tok::RBrace | Tok::InterpClose => depth -= 1,
                    _ => {}
                }
                assert!(depth >= 0, "{text}");
            }
            assert_eq!(depth, 0, "{text}");
            assert!(!lexed.diagnostics.is_empty(), "{text}");
        }
    }
}

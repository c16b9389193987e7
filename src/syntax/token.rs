//! The tokens of Clk and the tables of its keywords and operators.
//!
//! Grammar, editors, documentation and diagnostics take the spellings from these tables. `lex` converts text to tokens.

use clk_base::source::{FileId, Span};
use logos::{Lexer, Logos};

/// A kind of token. [`Tok::text`] returns the spelling of kinds that have a fixed one.
#[derive(Logos, Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[logos(skip r"[ \t\r\f]+")]
#[logos(skip(r"//([^/\n][^\n]*)?|////[^\n]*", allow_greedy = true))]
#[repr(u8)]
pub enum Tok {
    // Keywords
    #[token("kernel")]
    Kernel,
    #[token("fn")]
    Fn,
    #[token("struct")]
    Struct,
    #[token("const")]
    Const,
    #[token("let")]
    Let,
    #[token("var")]
    Var,
    #[token("shared")]
    Shared,
    #[token("if")]
    If,
    #[token("else")]
    Else,
    #[token("for")]
    For,
    #[token("in")]
    In,
    #[token("while")]
    While,
    #[token("loop")]
    Loop,
    #[token("break")]
    Break,
    #[token("continue")]
    Continue,
    #[token("return")]
    Return,
    #[token("import")]
    Import,
    #[token("test")]
    Test,
    #[token("bench")]
    Bench,
    #[token("out")]
    Out,
    #[token("inout")]
    InOut,
    #[token("true")]
    True,
    #[token("false")]
    False,
    // Names and numbers
    #[regex(r"[A-Za-z_][A-Za-z0-9_]*")]
    Name,
    #[regex(r"[0-9][0-9A-Za-z_]*")]
    Int,
    #[regex(r"[0-9][0-9_]*\.[0-9][0-9A-Za-z_]*")]
    #[regex(r"[0-9][0-9_]*(\.[0-9][0-9_]*)?[eE][+-][0-9][0-9A-Za-z_]*")]
    Float,
    #[regex(r"///[^/\n][^\n]*|///", allow_greedy = true)]
    Doc,
    // Operators
    #[token("+")]
    Plus,
    #[token("-")]
    Minus,
    #[token("*")]
    Star,
    #[token("/")]
    Slash,
    #[token("%")]
    Percent,
    #[token("**")]
    StarStar,
    #[token("@")]
    At,
    #[token("&")]
    And,
    #[token("|")]
    Pipe,
    #[token("^")]
    Caret,
    #[token("<<")]
    Shl,
    #[token(">>")]
    Shr,
    #[token("==")]
    EqEq,
    #[token("!=")]
    NotEq,
    #[token("<")]
    Lt,
    #[token("<=")]
    Le,
    #[token(">")]
    Gt,
    #[token(">=")]
    Ge,
    #[token("&&")]
    AndAnd,
    #[token("||")]
    PipePipe,
    #[token("!")]
    Bang,
    #[token("=")]
    Assign,
    #[token("+=")]
    PlusAssign,
    #[token("-=")]
    MinusAssign,
    #[token("*=")]
    StarAssign,
    #[token("/=")]
    SlashAssign,
    #[token("%=")]
    PercentAssign,
    #[token("**=")]
    StarStarAssign,
    #[token("@=")]
    AtAssign,
    #[token("&=")]
    AndAssign,
    #[token("|=")]
    PipeAssign,
    #[token("^=")]
    CaretAssign,
    #[token("<<=")]
    ShlAssign,
    #[token(">>=")]
    ShrAssign,
    #[token("..")]
    DotDot,
    #[token("..=")]
    DotDotEq,
    #[token("<<<")]
    LaunchOpen,
    #[token(">>>")]
    LaunchClose,
    #[token("->")]
    Arrow,
    // Punctuation
    #[token(".")]
    Dot,
    #[token(",")]
    Comma,
    #[token(":")]
    Colon,
    #[token(";")]
    Semi,
    #[token("(")]
    LParen,
    #[token(")")]
    RParen,
    #[token("[")]
    LBracket,
    #[token("]")]
    RBracket,
    #[token("{")]
    LBrace,
    #[token("}")]
    RBrace,
    #[token("#unroll")]
    Unroll,
    #[token("#nounroll")]
    NoUnroll,
    /// The opening quote of a string. `lex` replaces it with the tokens of the string.
    #[token("\"")]
    StrStart,
    /// Literal text inside a string, as written.
    StrText,
    /// The `{` that opens an interpolation, and the `}` that closes it.
    InterpOpen,
    InterpClose,
    /// The format of an interpolation: `:.3` of `{x:.3}`, without the colon.
    Format,
    StrEnd,
    /// A newline that ends a statement.
    #[token("\n")]
    Newline,
    // Tokens of other languages. The lexer recognizes them so that diagnostics are better than "unexpected character".
    #[token("?")]
    Question,
    #[token("++")]
    PlusPlus,
    #[token("~")]
    Tilde,
    #[token("::")]
    ColonColon,
    #[token("=>")]
    FatArrow,
    /// A single-quoted string: `'c'`.
    #[regex(r"'(\\[^\n]|[^'\\\n])*'")]
    Quoted,
    /// `#` with the word after it: `#include`, `# comment`.
    #[regex(r"#[A-Za-z0-9_!]*")]
    Hash,
    /// `/* … */`, nested. `lex` finds the end and drops the comment.
    #[token("/*")]
    BlockComment,
    /// The end of the file.
    Eof,
}

/// The reserved words.
pub static KEYWORDS: &[(&str, Tok)] = &[
    ("kernel", Tok::Kernel),
    ("fn", Tok::Fn),
    ("struct", Tok::Struct),
    ("const", Tok::Const),
    ("let", Tok::Let),
    ("var", Tok::Var),
    ("shared", Tok::Shared),
    ("if", Tok::If),
    ("else", Tok::Else),
    ("for", Tok::For),
    ("in", Tok::In),
    ("while", Tok::While),
    ("loop", Tok::Loop),
    ("break", Tok::Break),
    ("continue", Tok::Continue),
    ("return", Tok::Return),
    ("import", Tok::Import),
    ("test", Tok::Test),
    ("bench", Tok::Bench),
    ("out", Tok::Out),
    ("inout", Tok::InOut),
    ("true", Tok::True),
    ("false", Tok::False),
];

/// Words that are keywords only in certain positions, and names everywhere else.
pub static CONTEXTUAL: &[&str] =
    &["threads", "grid", "block", "step", "on", "batch", "time", "as", "assume", "expect", "tune"];

/// Operators and punctuation.
pub static OPERATORS: &[(&str, Tok)] = &[
    ("+", Tok::Plus),
    ("-", Tok::Minus),
    ("*", Tok::Star),
    ("/", Tok::Slash),
    ("%", Tok::Percent),
    ("**", Tok::StarStar),
    ("@", Tok::At),
    ("&", Tok::And),
    ("|", Tok::Pipe),
    ("^", Tok::Caret),
    ("<<", Tok::Shl),
    (">>", Tok::Shr),
    ("==", Tok::EqEq),
    ("!=", Tok::NotEq),
    ("<", Tok::Lt),
    ("<=", Tok::Le),
    (">", Tok::Gt),
    (">=", Tok::Ge),
    ("&&", Tok::AndAnd),
    ("||", Tok::PipePipe),
    ("!", Tok::Bang),
    ("=", Tok::Assign),
    ("+=", Tok::PlusAssign),
    ("-=", Tok::MinusAssign),
    ("*=", Tok::StarAssign),
    ("/=", Tok::SlashAssign),
    ("%=", Tok::PercentAssign),
    ("**=", Tok::StarStarAssign),
    ("@=", Tok::AtAssign),
    ("&=", Tok::AndAssign),
    ("|=", Tok::PipeAssign),
    ("^=", Tok::CaretAssign),
    ("<<=", Tok::ShlAssign),
    (">>=", Tok::ShrAssign),
    ("..", Tok::DotDot),
    ("..=", Tok::DotDotEq),
    ("<<<", Tok::LaunchOpen),
    (">>>", Tok::LaunchClose),
    ("->", Tok::Arrow),
    (".", Tok::Dot),
    (",", Tok::Comma),
    (":", Tok::Colon),
    (";", Tok::Semi),
    ("(", Tok::LParen),
    (")", Tok::RParen),
    ("[", Tok::LBracket),
    ("]", Tok::RBracket),
    ("{", Tok::LBrace),
    ("}", Tok::RBrace),
    ("#unroll", Tok::Unroll),
    ("#nounroll", Tok::NoUnroll),
];

impl Tok {
    /// Returns the spelling of a keyword, operator or punctuation token.
    pub fn text(self) -> Option<&'static str> {
        KEYWORDS.iter().chain(OPERATORS).find(|(_, tok)| *tok == self).map(|(text, _)| *text)
    }

    pub fn is_keyword(self) -> bool {
        (self as u8) <= (Tok::False as u8)
    }

    /// Returns whether this is `=` or a compound assignment operator.
    pub fn is_assignment(self) -> bool {
        use Tok::*;
        matches!(self, Assign | PlusAssign | MinusAssign | StarAssign | SlashAssign | PercentAssign | StarStarAssign)
            || matches!(self, AtAssign | AndAssign | PipeAssign | CaretAssign | ShlAssign | ShrAssign)
    }

    /// Returns whether a newline after this token ends the statement.
    pub fn can_end_line(self) -> bool {
        use Tok::*;
        matches!(
            self,
            Name | Int
                | Float
                | True
                | False
                | StrEnd
                | RParen
                | RBracket
                | RBrace
                | Break
                | Continue
                | Return
                | DotDot
                | PlusPlus
        )
    }

    /// Returns whether a statement keyword on the next line begins a new statement, even if the current one is
    /// incomplete.
    pub(crate) fn needs_statement_end(self) -> bool {
        use Tok::*;
        !matches!(self, Doc | Unroll | NoUnroll | Newline | Semi | LBrace)
    }

    /// Returns whether a line that starts with this token continues the previous one, because no statement starts with
    /// it.
    pub fn continues_line(self) -> bool {
        use Tok::*;
        matches!(
            self,
            Dot | Else
                | Plus
                | Star
                | Slash
                | Percent
                | StarStar
                | At
                | And
                | Pipe
                | Caret
                | Shl
                | Shr
                | EqEq
                | NotEq
                | Lt
                | Le
                | Gt
                | Ge
                | AndAnd
                | PipePipe
                | Assign
                | PlusAssign
                | MinusAssign
                | StarAssign
                | SlashAssign
                | PercentAssign
                | StarStarAssign
                | AtAssign
                | AndAssign
                | PipeAssign
                | CaretAssign
                | ShlAssign
                | ShrAssign
                | DotDot
                | DotDotEq
                | LaunchOpen
                | LaunchClose
                | Arrow
                | FatArrow
                | Comma
                | Colon
                | ColonColon
                | Question
                | RParen
                | RBracket
                | RBrace
                | InterpClose
        )
    }

    /// Returns whether an expression may start with this token.
    pub(crate) fn starts_expression(self) -> bool {
        use Tok::*;
        matches!(
            self,
            Name | Int | Float | True | False | StrStart | LParen | LBracket | LBrace | If | Minus | Bang | DotDot
        )
    }
}

/// A token and its byte range in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub kind: Tok,
    pub start: u32,
    pub end: u32,
}

impl Token {
    pub fn new(kind: Tok, start: usize, end: usize) -> Self {
        Token { kind, start: start as u32, end: end as u32 }
    }

    pub fn span(self, file: FileId) -> Span {
        Span { file, start: self.start, end: self.end }
    }

    pub fn text(self, text: &str) -> &str {
        text.get(self.start as usize..self.end as usize).unwrap_or("")
    }
}

/// Skips a nested comment whose `/*` was just read; returns false if it is unterminated.
pub(crate) fn skip_block_comment(lexer: &mut Lexer<'_, Tok>) -> bool {
    let bytes = lexer.remainder().as_bytes();
    let (mut at, mut depth) = (0, 1);
    while depth > 0 {
        match bytes.get(at..at + 2) {
            Some(b"/*") => (at, depth) = (at + 2, depth + 1),
            Some(b"*/") => (at, depth) = (at + 2, depth - 1),
            Some(_) => at += 1,
            None => {
                lexer.bump(bytes.len());
                return false;
            }
        }
    }
    lexer.bump(at);
    true
}

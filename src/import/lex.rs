//! The lexer for C++: the text of a file, with comments and line splices, becomes preprocessing tokens.
//!
//! It never fails: characters outside of the grammar, digraphs among them, become [`CppTok::Unknown`], which only
//! matters where the token is used. `>` is always a token of one character, because it also ends template arguments;
//! the parser joins adjacent ones to `>>` and `>>>`.

use crate::ast::CppComment;
use clk_base::source::{FileId, Span};
use logos::{Lexer, Logos, Skip};
use smol_str::SmolStr;

/// The kinds of tokens. The text of a token distinguishes keywords.
#[derive(Logos, Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[logos(skip r"[ \t\r\x0b\x0c]+")]
#[logos(extras = LexedComments)]
pub enum CppTok {
    #[token("\n")]
    Newline,
    #[regex(r"//[^\n]*", line_comment, allow_greedy = true)]
    #[token("/*", block_comment)]
    Comment,
    #[regex(r"[\p{XID_Start}_$][\p{XID_Continue}$]*")]
    Ident,
    #[regex(r"\.?[0-9](?:[eEpP][+\-]|'[0-9A-Za-z_]|[0-9A-Za-z_.])*")]
    Number,
    #[regex(r#"(?:u8|u|U|L)?"(?:[^"\\\n]|\\[^\n])*""#)]
    #[regex(r#"(?:u8|u|U|L)?R""#, raw_string)]
    Str,
    #[regex(r"(?:u8|u|U|L)?'(?:[^'\\\n]|\\[^\n])+'")]
    Char,
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
    #[token(";")]
    Semi,
    #[token(",")]
    Comma,
    #[token(":")]
    Colon,
    #[token("::")]
    ColonColon,
    #[token("?")]
    Question,
    #[token(".")]
    Dot,
    #[token(".*")]
    DotStar,
    #[token("...")]
    Ellipsis,
    #[token("->")]
    Arrow,
    #[token("->*")]
    ArrowStar,
    #[token("+")]
    Plus,
    #[token("++")]
    PlusPlus,
    #[token("+=")]
    PlusEq,
    #[token("-")]
    Minus,
    #[token("--")]
    MinusMinus,
    #[token("-=")]
    MinusEq,
    #[token("*")]
    Star,
    #[token("*=")]
    StarEq,
    #[token("/")]
    Slash,
    #[token("/=")]
    SlashEq,
    #[token("%")]
    Percent,
    #[token("%=")]
    PercentEq,
    #[token("&")]
    Amp,
    #[token("&&")]
    AmpAmp,
    #[token("&=")]
    AmpEq,
    #[token("|")]
    Pipe,
    #[token("||")]
    PipePipe,
    #[token("|=")]
    PipeEq,
    #[token("^")]
    Caret,
    #[token("^=")]
    CaretEq,
    #[token("~")]
    Tilde,
    #[token("!")]
    Not,
    #[token("!=")]
    NotEq,
    #[token("=")]
    Eq,
    #[token("==")]
    EqEq,
    #[token("<")]
    Less,
    #[token("<=")]
    LessEq,
    #[token("<<")]
    LessLess,
    #[token("<<=")]
    LessLessEq,
    /// The start of a launch configuration.
    #[token("<<<")]
    LaunchOpen,
    #[token(">")]
    Greater,
    #[token(">=")]
    GreaterEq,
    #[token("#")]
    Hash,
    #[token("##")]
    HashHash,
    /// A character outside of the grammar, or a literal without an end.
    Unknown,
    /// `#pragma unroll`. The tokens of the count follow, then `PragmaEnd`.
    PragmaUnroll,
    PragmaEnd,
    Eof,
}

/// A preprocessing token of a file.
#[derive(Clone, Debug)]
pub(crate) struct RawToken {
    pub kind: CppTok,
    pub text: SmolStr,
    pub span: Span,
    /// Whether white space, a comment or a line break precedes it.
    pub space: bool,
    /// Whether it is the first token of a line.
    pub line_start: bool,
}

/// Comments that the generated lexer has found, as ranges of the spliced text.
#[derive(Default)]
pub struct LexedComments {
    ranges: Vec<(usize, usize)>,
}

fn line_comment(lexer: &mut Lexer<'_, CppTok>) -> Skip {
    let range = lexer.span();
    lexer.extras.ranges.push((range.start, range.end));
    Skip
}

/// Skips to the end of a block comment; a comment without an end reaches to the end of the file.
fn block_comment(lexer: &mut Lexer<'_, CppTok>) -> Skip {
    let rest = lexer.remainder();
    let length = rest.find("*/").map_or(rest.len(), |at| at + 2);
    lexer.bump(length);
    line_comment(lexer)
}

/// Lexes `delimiter(text)delimiter"` after `R"`. Returns `false` if the literal has no end.
fn raw_string(lexer: &mut Lexer<'_, CppTok>) -> bool {
    let rest = lexer.remainder();
    let Some(open) = rest.find('(').filter(|&at| at <= 16) else { return false };
    let end = format!("){}\"", &rest[..open]);
    let Some(close) = rest[open..].find(&end) else { return false };
    lexer.bump(open + close + end.len());
    true
}

/// A text without line splices (a backslash before a line break), and the way back to the original offsets.
struct SplicedText {
    text: String,
    /// For each splice, its offset in `text` and the number of bytes that were removed up to and including it.
    splices: Vec<(usize, usize)>,
}

impl SplicedText {
    fn new(original: &str) -> SplicedText {
        let mut spliced = SplicedText { text: String::with_capacity(original.len()), splices: vec![] };
        let (mut from, mut removed, mut search) = (0, 0, 0);
        while let Some(at) = original[search..].find('\\').map(|at| at + search) {
            let after = &original[at + 1..];
            let blank = after.len() - after.trim_start_matches([' ', '\t', '\r']).len();
            search = at + 1;
            if after[blank..].starts_with('\n') {
                spliced.text.push_str(&original[from..at]);
                from = at + 1 + blank + 1;
                search = from;
                removed += from - at;
                spliced.splices.push((spliced.text.len(), removed));
            }
        }
        spliced.text.push_str(&original[from..]);
        spliced
    }

    /// Returns the original offset of the character at an offset.
    fn start(&self, offset: usize) -> usize {
        self.original(self.splices.partition_point(|&(at, _)| at <= offset), offset)
    }

    /// Returns the original offset after the character before an offset.
    fn end(&self, offset: usize) -> usize {
        self.original(self.splices.partition_point(|&(at, _)| at < offset), offset)
    }

    fn original(&self, splices_before: usize, offset: usize) -> usize {
        offset + splices_before.checked_sub(1).map_or(0, |last| self.splices[last].1)
    }
}

/// The tokens and comments of a file. The last token is `Eof`.
pub(crate) struct LexedFile {
    pub tokens: Vec<RawToken>,
    pub comments: Vec<CppComment>,
}

/// Lexes a file.
pub(crate) fn lex(file: FileId, text: &str) -> LexedFile {
    let spliced = SplicedText::new(text);
    let mut lexer = CppTok::lexer(&spliced.text);
    if spliced.text.starts_with('\u{feff}') {
        lexer.bump('\u{feff}'.len_utf8());
    }
    let mut tokens: Vec<RawToken> = Vec::with_capacity(text.len() / 4 + 2);
    let (mut line_start, mut last_end) = (true, 0);
    while let Some(kind) = lexer.next() {
        let range = lexer.span();
        if kind == Ok(CppTok::Newline) {
            line_start = true;
            continue;
        }
        let span = Span::new(file, spliced.start(range.start), spliced.end(range.end));
        // White space, comments and line breaks leave a gap between the tokens.
        let space = line_start || range.start != last_end;
        last_end = range.end;
        let mut token_text = &spliced.text[range];
        // Line splices do not apply inside of raw strings.
        if kind == Ok(CppTok::Str) && is_raw_string(token_text) {
            token_text = text.get(span.range()).unwrap_or(token_text);
        }
        let kind = kind.unwrap_or(CppTok::Unknown);
        tokens.push(RawToken { kind, text: SmolStr::new(token_text), span, space, line_start });
        line_start = false;
    }
    let comments = lexer.extras.ranges.iter().map(|&(start, end)| {
        let (written, block) = (&spliced.text[start..end], spliced.text[start..].starts_with("/*"));
        let inner = written.get(2..).unwrap_or("");
        let inner = if block { inner.strip_suffix("*/").unwrap_or(inner) } else { inner };
        let span = Span::new(file, spliced.start(start), spliced.end(end));
        let before = tokens.partition_point(|token| token.span.end <= span.start);
        let line_code = before.checked_sub(1).map(|at| tokens[at].span.end);
        let line_code = line_code.filter(|&end| !text[end as usize..span.start as usize].contains('\n'));
        CppComment { span, text: SmolStr::new(inner.trim_end_matches('\r')), block, line_code }
    });
    let comments = comments.collect();
    let span = Span::new(file, text.len(), text.len());
    tokens.push(RawToken { kind: CppTok::Eof, text: SmolStr::default(), span, space: true, line_start: true });
    LexedFile { tokens, comments }
}

/// Lexes a text that is not part of a file, such as the value of a macro option: all tokens get the span.
pub(crate) fn lex_fragment(text: &str, span: Span) -> Vec<RawToken> {
    let mut tokens = lex(span.file, text).tokens;
    tokens.pop();
    for token in &mut tokens {
        token.span = span;
        token.line_start = false;
    }
    tokens
}

/// Returns whether the text of a string token is a raw string, `R"delimiter(…)delimiter"`.
pub(crate) fn is_raw_string(text: &str) -> bool {
    text.split('"').next().is_some_and(|prefix| prefix.ends_with('R'))
}

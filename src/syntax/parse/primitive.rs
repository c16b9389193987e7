//! Primitives of the parser: its state, token access, and recording of expected tokens.

use crate::ast::Name;
use crate::lex::MAX_ERRORS;
pub(crate) use crate::syntax_error::ExpectedConstruct;
use crate::syntax_error::{SyntaxError, UnexpectedToken};
use crate::token::{Tok, Token};
use chumsky::error::EmptyErr;
use chumsky::input::{Checkpoint, Cursor, InputRef};
use chumsky::inspector::Inspector;
use chumsky::prelude::*;
use clk_base::diag::Diagnostic;
use clk_base::source::{FileId, Span};
use clk_base::stop;

pub(crate) type Extra<'t> = extra::Full<EmptyErr, ParserState<'t>, ()>;
pub(crate) type ParserInput<'t, 'p> = InputRef<'t, 'p, &'t [Token], Extra<'t>>;
pub(crate) type ParseResult<T> = Result<T, EmptyErr>;

/// Maximum height of a syntax tree, counting operators, calls and fields. It limits the recursion depth of functions
/// that walk the tree.
pub(crate) const MAX_HEIGHT: u32 = 400;

/// The state of parsing one piece.
pub(crate) struct ParserState<'t> {
    pub file: FileId,
    pub text: &'t str,
    /// All tokens of the file; the parser input is a slice of them.
    pub tokens: &'t [Token],
    /// Index of the first input token in `tokens`.
    base: usize,
    pub unexpected: UnexpectedToken,
    pub errors: Vec<SyntaxError>,
    /// Positions of the lexer's diagnostics. A statement that contains such a position gets no syntax error in
    /// addition.
    pub lexer_errors: &'t [u32],
    depth: u32,
    max_depth: u32,
    /// Whether the depth limit was exceeded.
    pub overflow: bool,
    /// The first token at which a limit was exceeded. Unlike `errors`, it survives backtracking.
    pub too_deep_at: Option<Span>,
    /// Height of the most recently parsed tree.
    pub height: u32,
    /// Whether the parser is in the head of `if`, `while` or `for`, where `Name {` begins the body, not a struct
    /// literal.
    pub in_head: bool,
}

impl<'t> ParserState<'t> {
    pub fn new(file: FileId, text: &'t str, tokens: &'t [Token], base: usize, max_depth: u32) -> Self {
        ParserState {
            file,
            text,
            tokens,
            base,
            unexpected: UnexpectedToken::default(),
            errors: Vec::new(),
            lexer_errors: &[],
            depth: 0,
            max_depth,
            overflow: false,
            too_deep_at: None,
            height: 0,
            in_head: false,
        }
    }

    pub fn token(&self, index: usize) -> Token {
        let end = || Token::new(Tok::Eof, self.text.len(), self.text.len());
        self.tokens.get(index).copied().unwrap_or_else(end)
    }

    pub fn text_of(&self, token: Token) -> &'t str {
        self.text.get(token.start as usize..token.end as usize).unwrap_or("")
    }

    pub fn name_of(&self, token: Token) -> Name {
        Name { text: self.text_of(token).into(), span: token.span(self.file) }
    }

    fn lexer_reported_in(&self, start: u32, end: u32) -> bool {
        let first = self.lexer_errors.partition_point(|f| *f < start);
        self.lexer_errors.get(first).is_some_and(|f| *f <= end)
    }
}

/// Drops the errors of an abandoned path when the parser backtracks.
impl<'t> Inspector<'t, &'t [Token]> for ParserState<'t> {
    type Checkpoint = usize;
    #[inline(always)]
    fn on_token(&mut self, _: &Token) {}
    #[inline(always)]
    fn on_save<'p>(&self, _: &Cursor<'t, 'p, &'t [Token]>) -> usize {
        self.errors.len()
    }
    #[inline(always)]
    fn on_rewind<'p>(&mut self, marker: &Checkpoint<'t, 'p, &'t [Token], usize>) {
        self.errors.truncate(*marker.inspector());
    }
}

/// Returns the index of the next token in the file.
#[inline]
pub(crate) fn position(inp: &mut ParserInput<'_, '_>) -> usize {
    let offset = *inp.cursor().inner();
    inp.state().base + offset
}

/// Returns the kind of the next token; [`Tok::Eof`] at the end of the piece.
#[inline]
pub(crate) fn peek(inp: &mut ParserInput<'_, '_>) -> Tok {
    inp.peek().map_or(Tok::Eof, |t| t.kind)
}

/// Returns the kind of the token `n` tokens after the next one.
#[inline]
pub(crate) fn peek_at(inp: &mut ParserInput<'_, '_>, n: usize) -> Tok {
    let at = position(inp) + n;
    inp.state().tokens.get(at).map_or(Tok::Eof, |t| t.kind)
}

/// Returns the source text of the next token.
#[inline]
pub(crate) fn peek_text<'t>(inp: &mut ParserInput<'t, '_>) -> &'t str {
    match inp.peek() {
        Some(token) => inp.state().text_of(token),
        None => "",
    }
}

/// Returns whether the next token is the contextual keyword `word`.
#[inline]
pub(crate) fn at_word(inp: &mut ParserInput<'_, '_>, word: &str) -> bool {
    peek(inp) == Tok::Name && peek_text(inp) == word
}

/// Consumes the next token, of any kind.
#[inline]
pub(crate) fn bump(inp: &mut ParserInput<'_, '_>) -> Token {
    stop::poll();
    match inp.next() {
        Some(token) => token,
        None => {
            let at = position(inp);
            inp.state().token(at)
        }
    }
}

/// Consumes the next token if it is of this kind.
#[inline]
pub(crate) fn eat(inp: &mut ParserInput<'_, '_>, kind: Tok) -> Option<Token> {
    if peek(inp) == kind {
        return Some(bump(inp));
    }
    let at = position(inp);
    let unexpected = &mut inp.state().unexpected;
    if unexpected.move_to(at) {
        unexpected.tokens |= 1 << kind as u32;
    }
    None
}

/// Consumes a token of this kind or fails.
#[inline]
pub(crate) fn expect(inp: &mut ParserInput<'_, '_>, kind: Tok) -> ParseResult<Token> {
    eat(inp, kind).ok_or_else(EmptyErr::default)
}

/// [`expect`] as a chumsky parser.
#[inline]
pub(crate) fn tok<'t>(kind: Tok) -> impl Parser<'t, &'t [Token], Token, Extra<'t>> + Copy {
    custom(move |inp| expect(inp, kind))
}

/// Records that `label` was expected here.
pub(crate) fn record_expected(inp: &mut ParserInput<'_, '_>, label: ExpectedConstruct) {
    let at = position(inp);
    let unexpected = &mut inp.state().unexpected;
    if unexpected.move_to(at) {
        unexpected.labels |= 1 << label as u32;
    }
}

/// Fails because `label` was expected here.
pub(crate) fn fail_expecting<T>(inp: &mut ParserInput<'_, '_>, label: ExpectedConstruct) -> ParseResult<T> {
    record_expected(inp, label);
    Err(EmptyErr::default())
}

/// Parses an identifier.
pub(crate) fn name(inp: &mut ParserInput<'_, '_>) -> ParseResult<Name> {
    if peek(inp) != Tok::Name {
        return fail_expecting(inp, ExpectedConstruct::Name);
    }
    let token = bump(inp);
    Ok(inp.state().name_of(token))
}

/// Parses a comma-separated list in brackets; a trailing comma is allowed.
pub(crate) fn list<'t, T>(
    open: Tok,
    item: impl Fn(&mut ParserInput<'t, '_>) -> ParseResult<T> + Copy,
    close: Tok,
) -> impl Parser<'t, &'t [Token], Vec<T>, Extra<'t>> {
    // An item that fails does not restore the nesting depth, so it is restored here.
    let item = custom(move |inp: &mut ParserInput<'t, '_>| {
        let depth = inp.state().depth;
        item(inp).inspect_err(|_| inp.state().depth = depth)
    });
    item.separated_by(tok(Tok::Comma)).allow_trailing().collect().delimited_by(tok(open), tok(close))
}

/// Returns the span from token `start` to the last consumed token.
#[inline]
pub(crate) fn span_from(inp: &mut ParserInput<'_, '_>, start: usize) -> Span {
    let end = position(inp);
    let state = inp.state();
    let first = state.token(start);
    let last = if end > start { state.token(end - 1) } else { Token { end: first.start, ..first } };
    Span { file: state.file, start: first.start, end: last.end.max(first.start) }
}

/// Adds a diagnostic without failing.
pub(crate) fn report(inp: &mut ParserInput<'_, '_>, diagnostic: Diagnostic) {
    let errors = &mut inp.state().errors;
    if errors.len() < 4 * MAX_ERRORS {
        errors.push(SyntaxError::Reported(Box::new(diagnostic)));
    }
}

/// Enters a nesting level; fails with a diagnostic if the limit is exceeded.
pub(crate) fn enter(inp: &mut ParserInput<'_, '_>) -> ParseResult<()> {
    let at = position(inp);
    let state = inp.state();
    state.depth += 1;
    if state.depth <= state.max_depth {
        return Ok(());
    }
    state.overflow = true;
    too_deep(inp, at)
}

pub(crate) fn leave(inp: &mut ParserInput<'_, '_>) {
    let state = inp.state();
    state.depth = state.depth.saturating_sub(1);
}

/// Increments the height of the tree just parsed; fails if it exceeds the limit.
pub(crate) fn grow(inp: &mut ParserInput<'_, '_>) -> ParseResult<()> {
    let at = position(inp);
    let state = inp.state();
    state.height += 1;
    if state.height <= MAX_HEIGHT { Ok(()) } else { too_deep(inp, at) }
}

/// Returns the error for nesting that exceeds a limit of the parser.
pub(super) fn nested_too_deeply(span: Span) -> Diagnostic {
    Diagnostic::error("E0111", "an expression is nested too deeply")
        .at(span, "too many levels or operators here")
        .help("name the inner parts with `let`, or move them to functions")
}

fn too_deep<T>(inp: &mut ParserInput<'_, '_>, at: usize) -> ParseResult<T> {
    let state = inp.state();
    let span = state.token(at).span(state.file);
    state.too_deep_at.get_or_insert(span);
    report(inp, nested_too_deeply(span));
    // The error has been reported, so no unexpected token is reported in addition.
    inp.state().unexpected = UnexpectedToken { at: usize::MAX, ..UnexpectedToken::default() };
    Err(EmptyErr::default())
}

/// The parser state at the start of a statement, restored if the statement fails.
pub(crate) struct ParserCheckpoint {
    depth: u32,
    height: u32,
    in_head: bool,
    start: usize,
    /// Number of diagnostics so far.
    errors: usize,
}

/// Starts a statement that may fail.
pub(crate) fn checkpoint(inp: &mut ParserInput<'_, '_>) -> ParserCheckpoint {
    let start = position(inp);
    let state = inp.state();
    state.unexpected = UnexpectedToken::default();
    ParserCheckpoint {
        depth: state.depth,
        height: state.height,
        in_head: state.in_head,
        start,
        errors: state.errors.len(),
    }
}

/// Recovers from a failed statement: records the error and skips to the statement's end, without consuming the end.
/// `from` is the start of the statement. Returns the span of the statement.
pub(crate) fn recover<'t, 'p>(
    inp: &mut ParserInput<'t, 'p>,
    checkpoint: &ParserCheckpoint,
    from: Checkpoint<'t, 'p, &'t [Token], usize>,
) -> Span {
    let errors = std::mem::take(&mut inp.state().errors);
    inp.rewind(from);
    let state = inp.state();
    state.errors = errors;
    (state.depth, state.height, state.in_head) = (checkpoint.depth, checkpoint.height, checkpoint.in_head);
    let unexpected = std::mem::take(&mut state.unexpected);
    skip_statement(inp);
    let span = span_from(inp, checkpoint.start);
    let end = position(inp);
    let state = inp.state();
    // Only the first error of a statement is reported, because most later ones are consequences of it.
    let already_reported = unexpected.at == usize::MAX
        || state.errors.len() > checkpoint.errors
        || state.lexer_reported_in(span.start, span.end);
    if !already_reported && state.errors.len() < 4 * MAX_ERRORS {
        state.errors.push(SyntaxError::Unexpected { unexpected, statement: checkpoint.start..end });
    }
    span
}

/// Skips to the next end of a statement, skipping whole brackets.
fn skip_statement(inp: &mut ParserInput<'_, '_>) {
    let mut depth = 0usize;
    loop {
        match peek(inp) {
            Tok::Eof => return,
            Tok::Newline | Tok::Semi if depth == 0 => return,
            Tok::LParen | Tok::LBracket | Tok::LBrace | Tok::InterpOpen => depth += 1,
            Tok::RParen | Tok::RBracket | Tok::RBrace | Tok::InterpClose => {
                if depth == 0 {
                    return;
                }
                depth -= 1;
            }
            _ => {}
        }
        bump(inp);
    }
}

//! Primitives of the grammar: the parser state, token access, and recording what was expected.

use crate::base::diag::Diagnostic;
use crate::base::source::{FileId, Span};
use crate::base::stop;
use crate::syntax::ast::Name;
use crate::syntax::lex::MAX_ERRORS;
pub(crate) use crate::syntax::miss::Label;
use crate::syntax::miss::{Miss, Mistake};
use crate::syntax::token::{Tok, Token};
use chumsky::error::EmptyErr;
use chumsky::input::{Checkpoint, Cursor, InputRef};
use chumsky::inspector::Inspector;
use chumsky::prelude::*;

pub(crate) type Extra<'t> = extra::Full<EmptyErr, State<'t>, ()>;
pub(crate) type Input<'t, 'p> = InputRef<'t, 'p, &'t [Token], Extra<'t>>;
pub(crate) type Parsed<T> = Result<T, EmptyErr>;

/// Maximum height of a tree, counting operators, calls and fields; it bounds the recursion of tree walkers.
pub(crate) const MAX_HEIGHT: u32 = 400;

/// The state of parsing one piece.
pub(crate) struct State<'t> {
    pub file: FileId,
    pub text: &'t str,
    /// All tokens of the file; the parser input is a slice of them.
    pub tokens: &'t [Token],
    /// Index of the first input token in `tokens`.
    base: usize,
    pub miss: Miss,
    pub errors: Vec<Mistake>,
    /// Positions of the lexer's diagnostics; a statement that contains one gets no second diagnostic.
    pub faults: &'t [u32],
    depth: u32,
    max_depth: u32,
    /// The depth limit was exceeded.
    pub overflow: bool,
    /// Where a limit was first exceeded. What is tried after that takes the message back, but not this.
    pub refused: Option<Span>,
    /// Height of the most recently parsed tree.
    pub height: u32,
    /// In the head of `if`, `while` or `for`, where `Name {` begins the body, not a struct literal.
    pub in_head: bool,
}

impl<'t> State<'t> {
    pub fn new(file: FileId, text: &'t str, tokens: &'t [Token], base: usize, max_depth: u32) -> Self {
        State {
            file,
            text,
            tokens,
            base,
            miss: Miss::default(),
            errors: Vec::new(),
            faults: &[],
            depth: 0,
            max_depth,
            overflow: false,
            refused: None,
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
        let first = self.faults.partition_point(|f| *f < start);
        self.faults.get(first).is_some_and(|f| *f <= end)
    }
}

/// Backtracking also drops the diagnostics of the abandoned path.
impl<'t> Inspector<'t, &'t [Token]> for State<'t> {
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
pub(crate) fn here(inp: &mut Input<'_, '_>) -> usize {
    let offset = *inp.cursor().inner();
    inp.state().base + offset
}

/// Returns the kind of the next token; [`Tok::Eof`] at the end of the piece.
#[inline]
pub(crate) fn peek(inp: &mut Input<'_, '_>) -> Tok {
    inp.peek().map_or(Tok::Eof, |t| t.kind)
}

/// Returns the kind of the token `n` tokens after the next one.
#[inline]
pub(crate) fn peek_at(inp: &mut Input<'_, '_>, n: usize) -> Tok {
    let at = here(inp) + n;
    inp.state().tokens.get(at).map_or(Tok::Eof, |t| t.kind)
}

/// Returns the source text of the next token.
#[inline]
pub(crate) fn peek_text<'t>(inp: &mut Input<'t, '_>) -> &'t str {
    match inp.peek() {
        Some(token) => inp.state().text_of(token),
        None => "",
    }
}

/// Whether the next token is the contextual keyword `word`.
#[inline]
pub(crate) fn at_word(inp: &mut Input<'_, '_>, word: &str) -> bool {
    peek(inp) == Tok::Name && peek_text(inp) == word
}

/// Consumes the next token, of any kind.
#[inline]
pub(crate) fn bump(inp: &mut Input<'_, '_>) -> Token {
    stop::poll();
    match inp.next() {
        Some(token) => token,
        None => {
            let at = here(inp);
            inp.state().token(at)
        }
    }
}

/// Consumes the next token if it is of this kind.
#[inline]
pub(crate) fn eat(inp: &mut Input<'_, '_>, kind: Tok) -> Option<Token> {
    if peek(inp) == kind {
        return Some(bump(inp));
    }
    let at = here(inp);
    let miss = &mut inp.state().miss;
    if miss.move_to(at) {
        miss.tokens |= 1 << kind as u32;
    }
    None
}

/// Consumes a token of this kind or fails.
#[inline]
pub(crate) fn expect(inp: &mut Input<'_, '_>, kind: Tok) -> Parsed<Token> {
    eat(inp, kind).ok_or_else(EmptyErr::default)
}

/// [`expect`] as a chumsky parser.
#[inline]
pub(crate) fn tok<'t>(kind: Tok) -> impl Parser<'t, &'t [Token], Token, Extra<'t>> + Copy {
    custom(move |inp| expect(inp, kind))
}

/// Records that `label` was expected here.
pub(crate) fn wanted(inp: &mut Input<'_, '_>, label: Label) {
    let at = here(inp);
    let miss = &mut inp.state().miss;
    if miss.move_to(at) {
        miss.labels |= 1 << label as u32;
    }
}

/// Fails because `label` was expected here.
pub(crate) fn missing<T>(inp: &mut Input<'_, '_>, label: Label) -> Parsed<T> {
    wanted(inp, label);
    Err(EmptyErr::default())
}

/// Parses an identifier.
pub(crate) fn name(inp: &mut Input<'_, '_>) -> Parsed<Name> {
    if peek(inp) != Tok::Name {
        return missing(inp, Label::Name);
    }
    let token = bump(inp);
    Ok(inp.state().name_of(token))
}

/// Parses a comma-separated list in brackets; a trailing comma is allowed.
pub(crate) fn list<'t, T>(
    open: Tok,
    item: impl Fn(&mut Input<'t, '_>) -> Parsed<T> + Copy,
    close: Tok,
) -> impl Parser<'t, &'t [Token], Vec<T>, Extra<'t>> {
    // An item that is not there has entered levels that it did not leave.
    let item = custom(move |inp: &mut Input<'t, '_>| {
        let depth = inp.state().depth;
        item(inp).inspect_err(|_| inp.state().depth = depth)
    });
    item.separated_by(tok(Tok::Comma)).allow_trailing().collect().delimited_by(tok(open), tok(close))
}

/// Returns the span from token `start` to the last consumed token.
#[inline]
pub(crate) fn span_from(inp: &mut Input<'_, '_>, start: usize) -> Span {
    let end = here(inp);
    let state = inp.state();
    let first = state.token(start);
    let last = if end > start { state.token(end - 1) } else { Token { end: first.start, ..first } };
    Span { file: state.file, start: first.start, end: last.end.max(first.start) }
}

/// Adds a diagnostic without failing.
pub(crate) fn say(inp: &mut Input<'_, '_>, diagnostic: Diagnostic) {
    let errors = &mut inp.state().errors;
    if errors.len() < 4 * MAX_ERRORS {
        errors.push(Mistake::Said(Box::new(diagnostic)));
    }
}

/// Enters a nesting level; fails with a diagnostic if the limit is exceeded.
pub(crate) fn enter(inp: &mut Input<'_, '_>) -> Parsed<()> {
    let at = here(inp);
    let state = inp.state();
    state.depth += 1;
    if state.depth <= state.max_depth {
        return Ok(());
    }
    state.overflow = true;
    too_deep(inp, at)
}

pub(crate) fn leave(inp: &mut Input<'_, '_>) {
    let state = inp.state();
    state.depth = state.depth.saturating_sub(1);
}

/// Counts one more level of height for the tree just parsed; fails if the limit is exceeded.
pub(crate) fn grow(inp: &mut Input<'_, '_>) -> Parsed<()> {
    let at = here(inp);
    let state = inp.state();
    state.height += 1;
    if state.height <= MAX_HEIGHT { Ok(()) } else { too_deep(inp, at) }
}

/// Returns the error of what is nested more deeply than the parser follows.
pub(super) fn nested_too_deeply(span: Span) -> Diagnostic {
    Diagnostic::error("E0111", "an expression is nested too deeply")
        .at(span, "too many levels or operators here")
        .help("name the inner parts with `let`, or move them to functions")
}

fn too_deep<T>(inp: &mut Input<'_, '_>, at: usize) -> Parsed<T> {
    let state = inp.state();
    let span = state.token(at).span(state.file);
    state.refused.get_or_insert(span);
    say(inp, nested_too_deeply(span));
    // The error has been reported; the miss must not add a second diagnostic.
    inp.state().miss = Miss { at: usize::MAX, ..Miss::default() };
    Err(EmptyErr::default())
}

/// The parser state at the start of a statement, restored if the statement fails.
pub(crate) struct Mark {
    depth: u32,
    height: u32,
    in_head: bool,
    start: usize,
    /// Number of diagnostics so far.
    errors: usize,
}

/// Starts a statement that may fail.
pub(crate) fn mark(inp: &mut Input<'_, '_>) -> Mark {
    let start = here(inp);
    let state = inp.state();
    state.miss = Miss::default();
    Mark { depth: state.depth, height: state.height, in_head: state.in_head, start, errors: state.errors.len() }
}

/// Recovers from a failed statement: records the error and skips to the statement's end, which is not consumed. `from` is the
/// input position where the statement began. Returns the span of the statement.
pub(crate) fn recover<'t, 'p>(
    inp: &mut Input<'t, 'p>,
    mark: &Mark,
    from: Checkpoint<'t, 'p, &'t [Token], usize>,
) -> Span {
    let errors = std::mem::take(&mut inp.state().errors);
    inp.rewind(from);
    let state = inp.state();
    state.errors = errors;
    (state.depth, state.height, state.in_head) = (mark.depth, mark.height, mark.in_head);
    let miss = std::mem::take(&mut state.miss);
    skip_statement(inp);
    let span = span_from(inp, mark.start);
    let end = here(inp);
    let state = inp.state();
    // Errors after the first one in a statement are mostly consequences of it.
    let said =
        miss.at == usize::MAX || state.errors.len() > mark.errors || state.lexer_reported_in(span.start, span.end);
    if !said && state.errors.len() < 4 * MAX_ERRORS {
        state.errors.push(Mistake::Miss { miss, statement: mark.start..end });
    }
    span
}

/// Skips to the next statement end outside of brackets that open on the way.
fn skip_statement(inp: &mut Input<'_, '_>) {
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

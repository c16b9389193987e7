//! Statements and blocks. After a syntax error, a block continues with the next statement, so that all errors are
//! reported.

use super::expressions::{continue_expression, continues_expression, expression, head, if_expression};
use super::primitive::*;
use super::types::{annotation, ty};
use crate::ast::{Block, Expr, ExprKind, Name, Pattern, Stmt, StmtKind, TypeKind, Unroll, bare};
use crate::literal;
use crate::mistakes::c_type;
use crate::syntax_error::multiple_assignment_error;
use crate::token::{Tok, Token};
use chumsky::Parser;
use chumsky::primitive::custom;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_scalar::ops::BinaryOp;

/// Parses `{ … }`.
pub(crate) fn block(inp: &mut ParserInput<'_, '_>) -> ParseResult<Block> {
    enter(inp)?;
    let outer = std::mem::take(&mut inp.state().in_head);
    let start = position(inp);
    expect(inp, Tok::LBrace)?;
    let mut stmts = statements(inp);
    expect(inp, Tok::RBrace)?;
    inp.state().in_head = outer;
    leave(inp);
    let tail = take_tail(&mut stmts);
    // Most blocks are short, but a vector starts with capacity for four statements, which are large.
    stmts.shrink_to_fit();
    Ok(Block { stmts, tail, span: span_from(inp, start) })
}

/// Removes and returns the value of a block: its last statement, if that is an expression without a `;`.
fn take_tail(stmts: &mut Vec<Stmt>) -> Option<Box<Expr>> {
    match stmts.pop() {
        Some(Stmt { kind: StmtKind::Expr { expr, quiet: false }, .. }) => Some(Box::new(expr)),
        Some(last) => {
            stmts.push(last);
            None
        }
        None => None,
    }
}

/// Parses statements up to a `}` or the end of the input.
fn statements(inp: &mut ParserInput<'_, '_>) -> Vec<Stmt> {
    let mut stmts = Vec::new();
    loop {
        match peek(inp) {
            Tok::Newline | Tok::Semi | Tok::Doc => {
                bump(inp);
            }
            Tok::RBrace | Tok::Eof => return stmts,
            _ => {
                let before = position(inp);
                stmts.push(statement_or_error(inp));
                if position(inp) == before {
                    bump(inp);
                }
            }
        }
    }
}

/// Parses a statement with its end; returns an error node if that fails.
fn statement_or_error(inp: &mut ParserInput<'_, '_>) -> Stmt {
    let checkpoint = checkpoint(inp);
    let from = inp.save();
    // The statement's height is independent of the statements before it.
    let before = std::mem::take(&mut inp.state().height);
    let stmt = match statement(inp).and_then(|stmt| check_end(inp, stmt)) {
        Ok(stmt) => stmt,
        Err(_) => {
            let kind = error_node(inp, from.clone());
            let span = recover(inp, &checkpoint, from);
            Stmt { kind, span }
        }
    };
    let state = inp.state();
    state.height = state.height.max(before);
    stmt
}

/// Returns the node for a statement that failed to parse. A declaration, even in C syntax, keeps its name, so that its
/// uses cause no further errors.
fn error_node<'t, 'p>(
    inp: &mut ParserInput<'t, 'p>,
    from: chumsky::input::Checkpoint<'t, 'p, &'t [crate::token::Token], usize>,
) -> StmtKind {
    let at = *from.cursor().inner();
    let current = *inp.cursor().inner();
    let first = (position(inp) + at).saturating_sub(current);
    let state = inp.state();
    let Some(name_token) = declared_name(state, first) else { return StmtKind::Error };
    let mutable = declares_mutable(state, first);
    let name = state.name_of(name_token);
    let value = Expr { kind: ExprKind::Error, span: name.span };
    StmtKind::Let { mutable, pattern: Pattern::Name(name), ty: None, value: Some(value) }
}

/// Returns whether a malformed declaration is one of a variable that may change.
pub(crate) fn declares_mutable(state: &ParserState<'_>, first: usize) -> bool {
    state.token(first).kind != Tok::Let || state.text_of(state.token(first + 1)) == "mut"
}

/// Returns the name that a malformed statement declares: `let x`, `let mut x`, `float x`, `shared float x`,
/// `__shared__ unsigned int x`.
pub(crate) fn declared_name(state: &ParserState<'_>, first: usize) -> Option<Token> {
    let foreign =
        |word: &str| matches!(word, "__shared__" | "__constant__" | "__managed__" | "mut") || c_type(word).is_some();
    let is_name = |at: usize| state.token(at).kind == Tok::Name;
    let mut at = first;
    if matches!(state.token(at).kind, Tok::Let | Tok::Var | Tok::Shared | Tok::Const) {
        at += 1;
    }
    while is_name(at) && is_name(at + 1) && foreign(state.text_of(state.token(at))) {
        at += 1;
    }
    (at > first && is_name(at)).then(|| state.token(at))
}

/// Checks that a statement ends here. Marks an expression statement as quiet if a `;` follows.
fn check_end(inp: &mut ParserInput<'_, '_>, mut stmt: Stmt) -> ParseResult<Stmt> {
    match peek(inp) {
        Tok::Semi => {
            if let StmtKind::Expr { quiet, .. } = &mut stmt.kind {
                *quiet = true;
            }
            Ok(stmt)
        }
        Tok::Newline | Tok::RBrace | Tok::Eof => Ok(stmt),
        _ if ends_with_block(&stmt) => Ok(stmt),
        _ => fail_expecting(inp, ExpectedConstruct::End),
    }
}

/// Returns whether a statement ends with its own `}`. Then no newline needs to follow it.
pub(crate) fn ends_with_block(stmt: &Stmt) -> bool {
    match &stmt.kind {
        StmtKind::For { .. }
        | StmtKind::While { .. }
        | StmtKind::Loop { .. }
        | StmtKind::On { .. }
        | StmtKind::Batch { .. } => true,
        StmtKind::Expr { expr, .. } => matches!(expr.kind, ExprKind::If { .. } | ExprKind::Block(_)),
        _ => false,
    }
}

/// Parses one statement, without the newline or `;` after it.
pub(crate) fn statement(inp: &mut ParserInput<'_, '_>) -> ParseResult<Stmt> {
    let start = position(inp);
    let kind = match peek(inp) {
        Tok::Let => binding(inp, false)?,
        Tok::Var => binding(inp, true)?,
        Tok::Shared => shared(inp)?,
        Tok::For | Tok::While | Tok::Loop => loop_statement(inp, Unroll::Auto)?,
        Tok::Unroll | Tok::NoUnroll => {
            let unroll = unroll(inp)?;
            loop_statement(inp, unroll)?
        }
        Tok::Break => {
            bump(inp);
            StmtKind::Break
        }
        Tok::Continue => {
            bump(inp);
            StmtKind::Continue
        }
        Tok::Return => return_statement(inp)?,
        Tok::Name => match peek_text(inp) {
            "on" if matches!(peek_at(inp, 1), Tok::Name | Tok::StrStart) => on(inp)?,
            "batch" if peek_at(inp, 1) == Tok::LBrace => {
                bump(inp);
                StmtKind::Batch { body: block(inp)? }
            }
            _ => expression_or_assignment(inp)?,
        },
        Tok::If | Tok::LBrace => block_statement(inp, start)?,
        kind if kind.starts_expression() => expression_or_assignment(inp)?,
        _ => return fail_expecting(inp, ExpectedConstruct::Statement),
    };
    Ok(Stmt { kind, span: span_from(inp, start) })
}

/// Parses an expression, or an assignment to one.
fn expression_or_assignment(inp: &mut ParserInput<'_, '_>) -> ParseResult<StmtKind> {
    let mut place = expression(inp)?;
    let Some(op) = assignment(peek(inp)) else {
        return Ok(StmtKind::Expr { expr: place, quiet: false });
    };
    let token = bump(inp);
    let value = expression(inp)?;
    let operator = token.span(value.span.file);
    let op = op.map(|op| (op, operator));
    let is_valid = match parts_of_tuple(&place) {
        Some(_) if op.is_some() => {
            report(inp, multiple_assignment_error(place.span, operator));
            false
        }
        Some(parts) => parts.iter().all(|part| check_place(inp, part, operator)),
        None => check_place(inp, &place, operator),
    };
    if !is_valid {
        place.kind = ExprKind::Error;
    }
    Ok(StmtKind::Assign { place: Box::new(place), op, value })
}

/// Returns the operator of an assignment token; `Some(None)` is the plain `=`.
fn assignment(kind: Tok) -> Option<Option<BinaryOp>> {
    use BinaryOp::*;
    Some(Some(match kind {
        Tok::Assign => return Some(None),
        Tok::PlusAssign => Add,
        Tok::MinusAssign => Sub,
        Tok::StarAssign => Mul,
        Tok::SlashAssign => Div,
        Tok::PercentAssign => Rem,
        Tok::StarStarAssign => Pow,
        Tok::AtAssign => MatMul,
        Tok::AndAssign => BitAnd,
        Tok::PipeAssign => BitOr,
        Tok::CaretAssign => BitXor,
        Tok::ShlAssign => Shl,
        Tok::ShrAssign => Shr,
        _ => return None,
    }))
}

/// Returns the lvalue inside a cache hint: `cached(x[i])` or `streaming(x[i])`.
fn strip_cache_hint(call: &Expr) -> Option<&Expr> {
    let ExprKind::Call { callee, args } = &call.kind else { return None };
    match (&callee.kind, args.as_slice()) {
        (ExprKind::Name(name), [place]) if matches!(name.text.as_str(), "cached" | "streaming") => Some(&place.value),
        _ => None,
    }
}

/// Returns the places of `(a, b) = …`.
fn parts_of_tuple(place: &Expr) -> Option<&[Expr]> {
    match &bare(place).kind {
        ExprKind::Tuple(parts) if !parts.is_empty() => Some(parts),
        _ => None,
    }
}

/// Checks that the target of an assignment is a name, an element or a field; reports anything else.
fn check_place(inp: &mut ParserInput<'_, '_>, place: &Expr, operator: Span) -> bool {
    let inner = bare(place);
    let inner = strip_cache_hint(inner).unwrap_or(inner);
    if matches!(inner.kind, ExprKind::Name(_) | ExprKind::Index { .. } | ExprKind::Field { .. } | ExprKind::Error) {
        return true;
    }
    let mut diagnostic = Diagnostic::error("E0135", "this cannot be assigned to")
        .at(place.span, "not a place: a variable, an element `a[i]` or a field `v.x`")
        .because(operator, "assigned here");
    if matches!(inner.kind, ExprKind::Binary { .. }) {
        diagnostic = diagnostic.help("to compare, write `==`");
    }
    report(inp, diagnostic);
    false
}

/// Parses a statement that begins with `if` or `{`. It ends with its last `}` unless the next token can only continue
/// an expression.
fn block_statement(inp: &mut ParserInput<'_, '_>, start: usize) -> ParseResult<StmtKind> {
    enter(inp)?;
    let first = if peek(inp) == Tok::If {
        if_expression(inp)?
    } else {
        let block = block(inp)?;
        Expr { kind: ExprKind::Block(block), span: span_from(inp, start) }
    };
    leave(inp);
    let expr = if continues_expression(peek(inp)) { continue_expression(inp, start, first)? } else { first };
    Ok(StmtKind::Expr { expr, quiet: false })
}

/// Parses `let pattern: type = value`, `var name: type`.
fn binding(inp: &mut ParserInput<'_, '_>, mutable: bool) -> ParseResult<StmtKind> {
    bump(inp);
    let (pattern, ty) = inp.parse(custom(pattern).then(custom(annotation)))?;
    let value = match eat(inp, Tok::Assign) {
        Some(_) => Some(expression(inp)?),
        None if mutable && ty.is_some() => None,
        None => return Err(Default::default()),
    };
    Ok(StmtKind::Let { mutable, pattern, ty: ty.map(Box::new), value })
}

/// Parses `x`, `(a, (b, _))`.
fn pattern(inp: &mut ParserInput<'_, '_>) -> ParseResult<Pattern> {
    match peek(inp) {
        Tok::Name => Ok(Pattern::Name(name(inp)?)),
        Tok::LParen => {
            enter(inp)?;
            let start = position(inp);
            let parts = inp.parse(list(Tok::LParen, pattern, Tok::RParen))?;
            leave(inp);
            Ok(Pattern::Tuple(parts, span_from(inp, start)))
        }
        _ => fail_expecting(inp, ExpectedConstruct::Pattern),
    }
}

/// Parses `shared name: type`.
fn shared(inp: &mut ParserInput<'_, '_>) -> ParseResult<StmtKind> {
    let whole = tok(Tok::Shared).ignore_then(custom(name)).then_ignore(tok(Tok::Colon)).then(custom(ty));
    let (name, ty) = inp.parse(whole)?;
    if let Some(at) = eat(inp, Tok::Assign) {
        let value = expression(inp)?;
        let is_array = matches!(ty.kind, TypeKind::Array { .. });
        report(inp, shared_initializer_error(&name, is_array, at.span(value.span.file).to(value.span)));
    }
    Ok(StmtKind::Shared { name, ty: Box::new(ty) })
}

fn shared_initializer_error(name: &Name, is_array: bool, value: Span) -> Diagnostic {
    let name = &name.text;
    let error =
        Diagnostic::error("E0115", "shared memory has no initial value").at(value, "each thread would write it");
    error.help(match is_array {
        true => format!("a statement of its own sets all elements: `{name} = 0.0`"),
        false => {
            format!("let one thread write `{name}`, then wait for it: `if thread_idx.x == 0 {{ … }}`, then `barrier()`")
        }
    })
}

/// Parses `#unroll`, `#unroll(4)`, `#nounroll`, with the newline after it.
fn unroll(inp: &mut ParserInput<'_, '_>) -> ParseResult<Unroll> {
    if bump(inp).kind == Tok::NoUnroll {
        return Ok(Unroll::Never);
    }
    if eat(inp, Tok::LParen).is_none() {
        return Ok(Unroll::Full);
    }
    let count = expect(inp, Tok::Int)?;
    expect(inp, Tok::RParen)?;
    if peek(inp) == Tok::Newline {
        bump(inp);
    }
    let value = literal::integer(literal::split(inp.state().text_of(count)));
    Ok(Unroll::By(u32::try_from(value).unwrap_or(u32::MAX)))
}

/// Parses `for`, `while` and `loop`.
fn loop_statement(inp: &mut ParserInput<'_, '_>, unroll: Unroll) -> ParseResult<StmtKind> {
    let kind = peek(inp);
    match kind {
        Tok::For => {
            bump(inp);
            let whole = custom(pattern).then_ignore(tok(Tok::In)).then(custom(head)).then(custom(block));
            let ((pattern, iter), body) = inp.parse(whole)?;
            Ok(StmtKind::For { pattern, iter, body: Box::new(body), unroll })
        }
        Tok::While => {
            bump(inp);
            let (cond, body) = inp.parse(custom(head).then(custom(block)))?;
            Ok(StmtKind::While { cond, body: Box::new(body), unroll })
        }
        Tok::Loop => {
            bump(inp);
            Ok(StmtKind::Loop { body: block(inp)? })
        }
        _ => {
            eat(inp, Tok::For);
            eat(inp, Tok::While);
            Err(Default::default())
        }
    }
}

fn return_statement(inp: &mut ParserInput<'_, '_>) -> ParseResult<StmtKind> {
    bump(inp);
    let bare = matches!(peek(inp), Tok::Newline | Tok::Semi | Tok::RBrace | Tok::Eof);
    Ok(StmtKind::Return(if bare { None } else { Some(expression(inp)?) }))
}

/// Parses `on gpu(0) { … }`.
fn on(inp: &mut ParserInput<'_, '_>) -> ParseResult<StmtKind> {
    bump(inp);
    let (device, body) = inp.parse(custom(head).then(custom(block)))?;
    Ok(StmtKind::On { device, body })
}

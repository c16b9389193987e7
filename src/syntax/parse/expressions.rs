//! Expressions: atoms, postfix operations, binary operators by precedence, ranges.

use super::primitive::*;
use super::statements::block;
use super::strings::string;
use crate::base::diag::{Applicability, Diagnostic};
use crate::base::source::Span;
use crate::lang::ops::{BinaryOp, UnaryOp};
use crate::syntax::ast::{Arg, Block, Expr, ExprKind, Name};
use crate::syntax::literal;
use crate::syntax::token::{Tok, Token};
use chumsky::primitive::custom;
use chumsky::{IterParser, Parser};

/// Binding powers; a higher one binds tighter.
const OR: u8 = 1;
const COMPARISON: u8 = 3;
const POWER: u8 = 11;

/// Returns the binary operator of a token and its binding power. All are left-associative but `**`; comparisons do not associate.
fn infix(kind: Tok) -> Option<(BinaryOp, u8)> {
    use BinaryOp::*;
    Some(match kind {
        Tok::PipePipe => (Or, OR),
        Tok::AndAnd => (And, 2),
        Tok::EqEq => (Eq, COMPARISON),
        Tok::NotEq => (Ne, COMPARISON),
        Tok::Lt => (Lt, COMPARISON),
        Tok::Le => (Le, COMPARISON),
        Tok::Gt => (Gt, COMPARISON),
        Tok::Ge => (Ge, COMPARISON),
        Tok::Pipe => (BitOr, 4),
        Tok::Caret => (BitXor, 5),
        Tok::And => (BitAnd, 6),
        Tok::Shl => (Shl, 7),
        Tok::Shr => (Shr, 7),
        Tok::Plus => (Add, 8),
        Tok::Minus => (Sub, 8),
        Tok::Star => (Mul, 9),
        Tok::Slash => (Div, 9),
        Tok::Percent => (Rem, 9),
        Tok::At => (MatMul, 9),
        Tok::StarStar => (Pow, POWER),
        _ => return None,
    })
}

/// Parses an expression, including ranges.
pub(crate) fn expression(inp: &mut Input<'_, '_>) -> Parsed<Expr> {
    enter(inp)?;
    let start = here(inp);
    let expr = match peek(inp) {
        Tok::DotDot | Tok::DotDotEq => range(inp, start, None)?,
        _ => {
            let left = binary(inp, OR)?;
            or_range(inp, start, left)?
        }
    };
    leave(inp);
    Ok(expr)
}

/// Parses the head of `if`, `while` or `for`, where a struct literal needs parentheses.
pub(crate) fn head(inp: &mut Input<'_, '_>) -> Parsed<Expr> {
    let outer = std::mem::replace(&mut inp.state().in_head, true);
    let expr = expression(inp)?;
    inp.state().in_head = outer;
    Ok(expr)
}

/// Parses an expression without comparisons, for contexts where `>` is a delimiter.
pub(crate) fn above_comparison(inp: &mut Input<'_, '_>) -> Parsed<Expr> {
    binary(inp, COMPARISON + 1)
}

/// Runs `parse` inside brackets, where struct literals are allowed again.
fn inside<T>(inp: &mut Input<'_, '_>, parse: impl FnOnce(&mut Input<'_, '_>) -> Parsed<T>) -> Parsed<T> {
    let outer = std::mem::take(&mut inp.state().in_head);
    let parsed = parse(inp)?;
    inp.state().in_head = outer;
    Ok(parsed)
}

/// Continues a statement that began with an `if` or a block as an expression: `if a { b } else { c }.x + 1`.
pub(crate) fn continued(inp: &mut Input<'_, '_>, start: usize, first: Expr) -> Parsed<Expr> {
    let base = postfix(inp, start, first)?;
    let left = climb(inp, start, base, OR)?;
    or_range(inp, start, left)
}

/// Whether a token continues an expression that could end here.
pub(crate) fn goes_on(kind: Tok) -> bool {
    kind == Tok::Dot || kind != Tok::Minus && infix(kind).is_some()
}

fn or_range(inp: &mut Input<'_, '_>, start: usize, left: Expr) -> Parsed<Expr> {
    match peek(inp) {
        Tok::DotDot | Tok::DotDotEq => range(inp, start, Some(left)),
        _ => Ok(left),
    }
}

fn range(inp: &mut Input<'_, '_>, start: usize, from: Option<Expr>) -> Parsed<Expr> {
    let inclusive = bump(inp).kind == Tok::DotDotEq;
    let next = peek(inp);
    let body_next = next == Tok::LBrace && inp.state().in_head;
    let word_next = at_word(inp, "step") && step_follows(inp);
    let has_end = next.starts_expression() && next != Tok::DotDot && !body_next && !word_next;
    let end = if has_end || inclusive { Some(Box::new(binary(inp, OR)?)) } else { None };
    let step = if at_word(inp, "step") {
        bump(inp);
        Some(Box::new(binary(inp, OR)?))
    } else {
        None
    };
    grow(inp)?;
    let span = span_from(inp, start);
    Ok(Expr { kind: ExprKind::Range { start: from.map(Box::new), end, inclusive, step }, span })
}

/// Whether the next `step` is the keyword of a range without end; in `0..step step 2` it is a name.
fn step_follows(inp: &mut Input<'_, '_>) -> bool {
    let at = here(inp) + 1;
    let state = inp.state();
    let next = state.token(at);
    next.kind.starts_expression()
        && !matches!(next.kind, Tok::LParen | Tok::LBracket | Tok::LBrace)
        && state.text_of(next) != "step"
}

/// Parses binary operators that bind at least as tightly as `min`.
fn binary(inp: &mut Input<'_, '_>, min: u8) -> Parsed<Expr> {
    let start = here(inp);
    let outer = std::mem::take(&mut inp.state().height);
    let left = unary(inp)?;
    let expr = climb(inp, start, left, min)?;
    let state = inp.state();
    state.height = state.height.max(outer);
    Ok(expr)
}

/// Precedence climbing: `left` has been parsed, operators follow.
fn climb(inp: &mut Input<'_, '_>, start: usize, mut left: Expr, min: u8) -> Parsed<Expr> {
    let (mut compared, mut reported): (Option<Token>, bool) = (None, false);
    while let Some((op, power)) = infix(peek(inp)).filter(|(_, power)| *power >= min) {
        let token = bump(inp);
        let height = std::mem::take(&mut inp.state().height);
        let right = match op {
            BinaryOp::Pow => {
                enter(inp)?;
                let right = binary(inp, POWER)?;
                leave(inp);
                right
            }
            _ => binary(inp, power + 1)?,
        };
        let state = inp.state();
        state.height = state.height.max(height);
        let op_span = token.span(state.file);
        grow(inp)?;
        let span = span_from(inp, start);
        let chained = compared.filter(|_| power == COMPARISON);
        compared = if power == COMPARISON { Some(token) } else { compared };
        left = match chained {
            Some(first) if !reported => {
                reported = true;
                match compile_time_arguments(inp, (first, token), &left) {
                    Some(diagnostic) => {
                        say(inp, diagnostic);
                        Expr { kind: ExprKind::Error, span }
                    }
                    None => {
                        report_chain(inp, first, token, &left, &right);
                        compared_twice(left, (op, op_span), right, span)
                    }
                }
            }
            Some(_) => Expr { kind: ExprKind::Error, span },
            None => Expr { kind: ExprKind::Binary { op, op_span, left: Box::new(left), right: Box::new(right) }, span },
        };
    }
    Ok(left)
}

/// Explains `zeros<i32>(10)`, as other languages write compile-time arguments: a name, `<…>` and parentheses without a gap.
fn compile_time_arguments(inp: &mut Input<'_, '_>, (first, second): (Token, Token), left: &Expr) -> Option<Diagnostic> {
    let state = inp.state();
    let (file, text) = (state.file, state.text);
    let ExprKind::Binary { left: callee, right: given, .. } = &left.kind else { return None };
    let (opening, closing) = (first.span(file), second.span(file));
    let touch = callee.span.end == opening.start && opening.end == given.span.start && given.span.end == closing.start;
    let rest = text.get(closing.end as usize..)?;
    let is_name =
        |span: Span| text.get(span.range()).is_some_and(|s| s.chars().all(|c| c.is_alphanumeric() || c == '_'));
    let is_list = (first.kind, second.kind) == (Tok::Lt, Tok::Gt) && touch && rest.starts_with('(');
    if !is_list || !is_name(callee.span) || !is_name(given.span) {
        return None;
    }
    let (name, given_text) = (text.get(callee.span.range())?, text.get(given.span.range())?);
    let diagnostic =
        Diagnostic::error("E0130", "`<…>` behind a name compares: a call has its arguments in parentheses alone")
            .at(opening.to(closing), "compile-time arguments are inferred, or given by name");
    let is_maker = matches!(name, "zeros" | "ones" | "eye" | "random" | "random_normal");
    Some(diagnostic.help(match is_maker {
        true => format!("write `{name}(…, type = {given_text})`"),
        false => {
            format!("types follow from the arguments; `{name}(…, T = {given_text})` names a parameter `T` of `{name}`")
        }
    }))
}

/// Reports `a < b < c`: comparisons do not chain. In `a < b & c < d` the `&` was meant to join them, but binds tighter.
fn report_chain(inp: &mut Input<'_, '_>, first: Token, second: Token, left: &Expr, right: &Expr) {
    let state = inp.state();
    let (file, text) = (state.file, state.text);
    let slice = |span: Span| text.get(span.range()).unwrap_or("…");
    let ExprKind::Binary { right: middle, left: outer, .. } = &left.kind else { return };
    let whole = left.span.to(right.span);
    if let ExprKind::Binary {
        op: op @ (BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor),
        op_span,
        left: l,
        right: r,
    } = &middle.kind
    {
        let symbol = op.symbol();
        let (first, second) = (slice(first.span(file)), slice(second.span(file)));
        let fixed = format!(
            "({} {first} {}) {symbol} ({} {second} {})",
            slice(outer.span),
            slice(l.span),
            slice(r.span),
            slice(right.span)
        );
        let diagnostic = Diagnostic::error("E0130", format!("`{symbol}` binds tighter than `{first}`"))
            .at(*op_span, format!("this joins `{}` and `{}`, not the comparisons", slice(l.span), slice(r.span)))
            .help("`&&` and `||` bind looser than comparisons; of arrays, `&` and `|` join the elements")
            .fix("put the comparisons in parentheses", whole, fixed, Applicability::MachineApplicable);
        return say(inp, diagnostic);
    }
    let fixed =
        format!("{} && {} {} {}", slice(left.span), slice(middle.span), slice(second.span(file)), slice(right.span));
    // The fix duplicates the middle operand, which evaluates it twice.
    let applicability = match middle.kind {
        ExprKind::Call { .. } | ExprKind::Launch { .. } | ExprKind::Block(_) => Applicability::MaybeIncorrect,
        _ => Applicability::MachineApplicable,
    };
    let diagnostic = Diagnostic::error("E0130", "comparisons do not chain")
        .at(second.span(file), "a second comparison")
        .because(first.span(file), "this one already gives a `bool`")
        .help(format!("compare twice: `{fixed}`"))
        .fix("join two comparisons with `&&`", whole, fixed, applicability);
    say(inp, diagnostic);
}

/// Rebuilds `a < b < c` and `a < b & c < d` as they were meant, so that the checker reports nothing else about them.
fn compared_twice(left: Expr, (op, op_span): (BinaryOp, Span), right: Expr, span: Span) -> Expr {
    let ExprKind::Binary { op: first, op_span: first_span, left: outer, right: middle } = left.kind else {
        return Expr { kind: ExprKind::Error, span };
    };
    let binary = |op, op_span, left: Expr, right: Expr| {
        let span = left.span.to(right.span);
        Expr { kind: ExprKind::Binary { op, op_span, left: Box::new(left), right: Box::new(right) }, span }
    };
    let (joint, joint_span, end, start) = match middle.kind {
        ExprKind::Binary {
            op: joint @ (BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor),
            op_span,
            left,
            right,
        } => (joint, op_span, *left, *right),
        kind => {
            let middle = Expr { kind, span: middle.span };
            (BinaryOp::And, op_span, middle.clone(), middle)
        }
    };
    let whole = binary(joint, joint_span, binary(first, first_span, *outer, end), binary(op, op_span, start, right));
    Expr { kind: whole.kind, span }
}

/// Parses `-x`, `!x`; both bind looser than `**`.
fn unary(inp: &mut Input<'_, '_>) -> Parsed<Expr> {
    let op = match peek(inp) {
        Tok::Minus => UnaryOp::Neg,
        Tok::Bang => UnaryOp::Not,
        _ => {
            let start = here(inp);
            let base = atom(inp, start)?;
            return postfix(inp, start, base);
        }
    };
    enter(inp)?;
    let start = here(inp);
    let token = bump(inp);
    let expr = Box::new(binary(inp, POWER)?);
    grow(inp)?;
    leave(inp);
    let op_span = token.span(inp.state().file);
    Ok(Expr { kind: ExprKind::Unary { op, op_span, expr }, span: span_from(inp, start) })
}

/// Parses field accesses, indices, calls and launches after a value.
fn postfix(inp: &mut Input<'_, '_>, start: usize, mut base: Expr) -> Parsed<Expr> {
    loop {
        let kind = match peek(inp) {
            Tok::Dot => {
                bump(inp);
                base = field(inp, base)?;
                grow(inp)?;
                continue;
            }
            Tok::LBracket => ExprKind::Index { base: Box::new(base), args: index(inp)? },
            Tok::LParen => ExprKind::Call { callee: Box::new(base), args: args(inp)? },
            Tok::LaunchOpen => launch(inp, base)?,
            Tok::LBrace if starts_struct(inp, &base) => match struct_literal(inp, base)? {
                Ok(kind) => kind,
                Err(base) => return Ok(base),
            },
            _ => return Ok(base),
        };
        grow(inp)?;
        base = Expr { kind, span: span_from(inp, start) };
    }
}

/// Parses the name or number after a dot; in `t.0.1` the lexer produces the number `0.1`.
fn field(inp: &mut Input<'_, '_>, base: Expr) -> Parsed<Expr> {
    match peek(inp) {
        Tok::Name | Tok::Int => {
            let token = bump(inp);
            let name = inp.state().name_of(token);
            Ok(with_field(base, name))
        }
        Tok::Float => {
            let token = bump(inp);
            let state = inp.state();
            let text = state.text_of(token);
            let dot = token.start + text.find('.').unwrap_or(0) as u32;
            let first = state.name_of(Token { end: dot, ..token });
            let second = state.name_of(Token { start: dot + 1, ..token });
            Ok(with_field(with_field(base, first), second))
        }
        _ => missing(inp, Label::Name),
    }
}

fn with_field(base: Expr, name: Name) -> Expr {
    let span = base.span.to(name.span);
    Expr { kind: ExprKind::Field { base: Box::new(base), name }, span }
}

fn index(inp: &mut Input<'_, '_>) -> Parsed<Vec<Expr>> {
    inside(inp, |inp| {
        let places = custom(expression).separated_by(tok(Tok::Comma)).allow_trailing().at_least(1).collect();
        inp.parse(places.delimited_by(tok(Tok::LBracket), tok(Tok::RBracket)))
    })
}

fn args(inp: &mut Input<'_, '_>) -> Parsed<Vec<Arg>> {
    inside(inp, |inp| inp.parse(list(Tok::LParen, arg, Tok::RParen)))
}

/// Parses `x` or `T = 32`; a keyword may name an argument (`out = y`).
fn arg(inp: &mut Input<'_, '_>) -> Parsed<Arg> {
    let first = peek(inp);
    let name = if (first == Tok::Name || first.is_keyword()) && peek_at(inp, 1) == Tok::Assign {
        let token = bump(inp);
        bump(inp);
        Some(inp.state().name_of(token))
    } else {
        None
    };
    Ok(Arg { name, value: expression(inp)? })
}

/// Parses `k<<<grid, block>>>(args)`.
fn launch(inp: &mut Input<'_, '_>, callee: Expr) -> Parsed<ExprKind> {
    let shape = custom(|inp| inside(inp, expression));
    let geometry = shape.then_ignore(tok(Tok::Comma)).then(shape);
    let whole = geometry.delimited_by(tok(Tok::LaunchOpen), tok(Tok::LaunchClose)).then(custom(args));
    let ((grid, block), args) = inp.parse(whole)?;
    Ok(ExprKind::Launch { callee: Box::new(callee), grid: Box::new(grid), block: Box::new(block), args })
}

/// Whether `Body {` begins a struct literal: fields follow, and this is not the head of a statement with a body.
fn starts_struct(inp: &mut Input<'_, '_>, base: &Expr) -> bool {
    let named = matches!(base.kind, ExprKind::Name(_) | ExprKind::Field { .. });
    named
        && !inp.state().in_head
        && (peek_at(inp, 1) == Tok::RBrace || peek_at(inp, 1) == Tok::Name && peek_at(inp, 2) == Tok::Colon)
}

/// Parses a struct literal; returns `base` unchanged if it is not a path.
fn struct_literal(inp: &mut Input<'_, '_>, base: Expr) -> Parsed<Result<ExprKind, Expr>> {
    let mut path = Vec::new();
    if !collect_path(&base, &mut path) {
        return Ok(Err(base));
    }
    let field = |inp: &mut Input<'_, '_>| inp.parse(custom(name).then_ignore(tok(Tok::Colon)).then(custom(expression)));
    let fields = inp.parse(list(Tok::LBrace, field, Tok::RBrace))?;
    Ok(Ok(ExprKind::Struct { path, fields }))
}

fn collect_path(expr: &Expr, path: &mut Vec<Name>) -> bool {
    match &expr.kind {
        ExprKind::Name(name) => path.push(name.clone()),
        ExprKind::Field { base, name } => {
            if !collect_path(base, path) {
                return false;
            }
            path.push(name.clone());
        }
        _ => return false,
    }
    true
}

/// Parses a primary expression.
fn atom(inp: &mut Input<'_, '_>, start: usize) -> Parsed<Expr> {
    let kind = match peek(inp) {
        Tok::Name => return word(inp, start),
        Tok::Int | Tok::Float => number(inp),
        Tok::True | Tok::False => ExprKind::Bool(bump(inp).kind == Tok::True),
        Tok::StrStart => return string(inp),
        Tok::LParen => parenthesized(inp)?,
        Tok::LBracket => ExprKind::Array(inside(inp, |inp| inp.parse(list(Tok::LBracket, expression, Tok::RBracket)))?),
        Tok::LBrace if !inp.state().in_head => ExprKind::Block(block(inp)?),
        Tok::If => return if_expression(inp),
        _ => return missing(inp, Label::Expression),
    };
    Ok(Expr { kind, span: span_from(inp, start) })
}

fn word(inp: &mut Input<'_, '_>, start: usize) -> Parsed<Expr> {
    let token = bump(inp);
    let text = inp.state().text_of(token);
    let kind = match text {
        "time" if peek(inp) == Tok::LBrace && !inp.state().in_head => ExprKind::Time(block(inp)?),
        "True" | "False" | "TRUE" | "FALSE" | "None" | "null" | "nil" | "nullptr" | "NULL" => {
            foreign_word(inp, token, text)
        }
        _ => ExprKind::Name(inp.state().name_of(token)),
    };
    Ok(Expr { kind, span: span_from(inp, start) })
}

/// Reports `True`, `None` and similar words of other languages.
fn foreign_word(inp: &mut Input<'_, '_>, token: Token, text: &str) -> ExprKind {
    let span = token.span(inp.state().file);
    let lower = text.to_ascii_lowercase();
    let error = Diagnostic::error("E0128", format!("`{text}` is not a word of Clk"));
    match lower.as_str() {
        "true" | "false" => {
            let title = format!("write `{lower}`");
            let truth = ExprKind::Bool(lower == "true");
            say(
                inp,
                error.at(span, "truth values are lower case").fix(title, span, lower, Applicability::MachineApplicable),
            );
            truth
        }
        _ => {
            say(
                inp,
                error.at(span, "there is no empty value").help(
                    "every value has its type; mark a missing one by a value of your choice, for example `-1` or `0.0`",
                ),
            );
            ExprKind::Error
        }
    }
}

fn number(inp: &mut Input<'_, '_>) -> ExprKind {
    let token = bump(inp);
    let state = inp.state();
    let text = state.text_of(token);
    let number = literal::split(text);
    let start = token.end - number.suffix.len() as u32;
    let suffix = (!number.suffix.is_empty() && crate::lang::scalar::Scalar::from_name(number.suffix).is_some())
        .then(|| state.name_of(Token { start, ..token }));
    match token.kind {
        Tok::Float => ExprKind::Float { text: literal::float_text(number), suffix },
        _ => ExprKind::Int { value: literal::integer(number), suffix },
    }
}

/// Parses `(a)`, `(a, b)`, `(a,)`, `()`.
fn parenthesized(inp: &mut Input<'_, '_>) -> Parsed<ExprKind> {
    inside(inp, |inp| {
        expect(inp, Tok::LParen)?;
        if eat(inp, Tok::RParen).is_some() {
            return Ok(ExprKind::Tuple(Vec::new()));
        }
        let first = expression(inp)?;
        if eat(inp, Tok::RParen).is_some() {
            return Ok(ExprKind::Paren(Box::new(first)));
        }
        expect(inp, Tok::Comma)?;
        let rest = custom(expression).separated_by(tok(Tok::Comma)).allow_trailing().collect::<Vec<_>>();
        let mut elements = vec![first];
        elements.extend(inp.parse(rest.then_ignore(tok(Tok::RParen)))?);
        Ok(ExprKind::Tuple(elements))
    })
}

/// Parses `if a { … } else if b { … } else { … }`; iterative, since chains may be long.
pub(crate) fn if_expression(inp: &mut Input<'_, '_>) -> Parsed<Expr> {
    let mut arms: Vec<(usize, Expr, Block)> = Vec::new();
    let mut other = None;
    loop {
        let start = here(inp);
        expect(inp, Tok::If)?;
        let cond = head(inp)?;
        let then = block(inp)?;
        grow(inp)?;
        arms.push((start, cond, then));
        if eat(inp, Tok::Else).is_none() {
            break;
        }
        if peek(inp) != Tok::If {
            eat(inp, Tok::If);
            let start = here(inp);
            let block = block(inp)?;
            other = Some(Expr { kind: ExprKind::Block(block), span: span_from(inp, start) });
            break;
        }
    }
    let mut chain = other;
    for (start, cond, then) in arms.into_iter().rev() {
        let span = span_from(inp, start);
        chain = Some(Expr {
            kind: ExprKind::If { cond: Box::new(cond), then: Box::new(then), other: chain.map(Box::new) },
            span,
        });
    }
    match chain {
        Some(expr) => Ok(expr),
        None => missing(inp, Label::Expression),
    }
}

//! Expressions: atoms, postfix operations, binary operators by precedence, ranges.

use super::primitive::*;
use super::statements::block;
use super::strings::string;
use crate::ast::{Arg, Block, Expr, ExprKind, Name};
use crate::literal;
use crate::token::{Tok, Token};
use chumsky::primitive::custom;
use chumsky::{IterParser, Parser};
use clk_base::diag::{Applicability, Diagnostic};
use clk_base::source::Span;
use clk_scalar::ops::{BinaryOp, UnaryOp};

/// Binding powers of the binary operators. An operator with a higher binding power binds tighter.
const OR: u8 = 1;
const COMPARISON: u8 = 3;
const POWER: u8 = 11;

/// Returns the binary operator of a token and its binding power. `**` is right-associative, comparisons are
/// non-associative, all others are left-associative.
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
pub(crate) fn expression(inp: &mut ParserInput<'_, '_>) -> ParseResult<Expr> {
    enter(inp)?;
    let start = position(inp);
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

/// Parses the head of `if`, `while` or `for`: the expression before the `{`. A struct literal in it needs parentheses.
pub(crate) fn head(inp: &mut ParserInput<'_, '_>) -> ParseResult<Expr> {
    let outer = std::mem::replace(&mut inp.state().in_head, true);
    let expr = expression(inp)?;
    inp.state().in_head = outer;
    Ok(expr)
}

/// Parses an expression without comparisons, for contexts where `>` is a delimiter.
pub(crate) fn above_comparison(inp: &mut ParserInput<'_, '_>) -> ParseResult<Expr> {
    binary(inp, COMPARISON + 1)
}

/// Runs `parse` inside brackets, where struct literals are allowed even in a head.
fn inside_brackets<T>(
    inp: &mut ParserInput<'_, '_>,
    parse: impl FnOnce(&mut ParserInput<'_, '_>) -> ParseResult<T>,
) -> ParseResult<T> {
    let outer = std::mem::take(&mut inp.state().in_head);
    let parsed = parse(inp)?;
    inp.state().in_head = outer;
    Ok(parsed)
}

/// Parses the rest of an expression that begins with an `if` or a block: `if a { b } else { c }.x + 1`.
pub(crate) fn continue_expression(inp: &mut ParserInput<'_, '_>, start: usize, first: Expr) -> ParseResult<Expr> {
    let base = postfix(inp, start, first)?;
    let left = climb(inp, start, base, OR)?;
    or_range(inp, start, left)
}

/// Returns whether a token continues an expression that could end before it.
pub(crate) fn continues_expression(kind: Tok) -> bool {
    kind == Tok::Dot || kind != Tok::Minus && infix(kind).is_some()
}

fn or_range(inp: &mut ParserInput<'_, '_>, start: usize, left: Expr) -> ParseResult<Expr> {
    match peek(inp) {
        Tok::DotDot | Tok::DotDotEq => range(inp, start, Some(left)),
        _ => Ok(left),
    }
}

fn range(inp: &mut ParserInput<'_, '_>, start: usize, from: Option<Expr>) -> ParseResult<Expr> {
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

/// Returns whether the next `step` is the keyword in a range without an end. In `0..step step 2`, the first `step` is a
/// name.
fn step_follows(inp: &mut ParserInput<'_, '_>) -> bool {
    let at = position(inp) + 1;
    let state = inp.state();
    let next = state.token(at);
    next.kind.starts_expression()
        && !matches!(next.kind, Tok::LParen | Tok::LBracket | Tok::LBrace)
        && state.text_of(next) != "step"
}

/// Parses binary operators that bind at least as tightly as `min`.
fn binary(inp: &mut ParserInput<'_, '_>, min: u8) -> ParseResult<Expr> {
    let start = position(inp);
    let outer = std::mem::take(&mut inp.state().height);
    let left = unary(inp)?;
    let expr = climb(inp, start, left, min)?;
    let state = inp.state();
    state.height = state.height.max(outer);
    Ok(expr)
}

/// Parses operators after `left` by precedence climbing.
fn climb(inp: &mut ParserInput<'_, '_>, start: usize, mut left: Expr, min: u8) -> ParseResult<Expr> {
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
                match compile_time_arguments(inp, first, token, &left) {
                    Some(diagnostic) => {
                        report(inp, diagnostic);
                        Expr { kind: ExprKind::Error, span }
                    }
                    None => {
                        report_chain(inp, first, token, &left, &right);
                        repaired_chain(left, op, op_span, right, span)
                    }
                }
            }
            Some(_) => Expr { kind: ExprKind::Error, span },
            None => Expr { kind: ExprKind::Binary { op, op_span, left: Box::new(left), right: Box::new(right) }, span },
        };
    }
    Ok(left)
}

/// Explains `zeros<i32>(10)`, the syntax of other languages for compile-time arguments.
fn compile_time_arguments(
    inp: &mut ParserInput<'_, '_>,
    first: Token,
    second: Token,
    left: &Expr,
) -> Option<Diagnostic> {
    let state = inp.state();
    let (file, text) = (state.file, state.text);
    let ExprKind::Binary { left: callee, right: argument, .. } = &left.kind else { return None };
    let (opening, closing) = (first.span(file), second.span(file));
    let touch =
        callee.span.end == opening.start && opening.end == argument.span.start && argument.span.end == closing.start;
    let rest = text.get(closing.end as usize..)?;
    let is_name =
        |span: Span| text.get(span.range()).is_some_and(|s| s.chars().all(|c| c.is_alphanumeric() || c == '_'));
    let is_list = (first.kind, second.kind) == (Tok::Lt, Tok::Gt) && touch && rest.starts_with('(');
    if !is_list || !is_name(callee.span) || !is_name(argument.span) {
        return None;
    }
    let (name, argument_text) = (text.get(callee.span.range())?, text.get(argument.span.range())?);
    let diagnostic =
        Diagnostic::error("E0130", "`<…>` after a name is a comparison: a call takes its arguments in parentheses")
            .at(opening.to(closing), "compile-time arguments are inferred, or given by name");
    let is_maker = matches!(name, "zeros" | "ones" | "eye" | "random" | "random_normal");
    Some(diagnostic.help(match is_maker {
        true => format!("write `{name}(…, type = {argument_text})`"),
        false => {
            format!(
                "types follow from the arguments; `{name}(…, T = {argument_text})` names a parameter `T` of `{name}`"
            )
        }
    }))
}

/// Reports `a < b < c`, since comparisons do not chain. `a < b & c < d` is such a chain, because `&` binds tighter than
/// `<`.
fn report_chain(inp: &mut ParserInput<'_, '_>, first: Token, second: Token, left: &Expr, right: &Expr) {
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
            .help("`&&` and `||` bind looser than comparisons; on arrays, `&` and `|` combine elements")
            .fix("put the comparisons in parentheses", whole, fixed, Applicability::MachineApplicable);
        return report(inp, diagnostic);
    }
    let fixed =
        format!("{} && {} {} {}", slice(left.span), slice(middle.span), slice(second.span(file)), slice(right.span));
    // The fix duplicates the middle operand, so the program evaluates it twice.
    let applicability = match middle.kind {
        ExprKind::Call { .. } | ExprKind::Launch { .. } | ExprKind::Block(_) => Applicability::MaybeIncorrect,
        _ => Applicability::MachineApplicable,
    };
    let diagnostic = Diagnostic::error("E0130", "comparisons do not chain")
        .at(second.span(file), "a second comparison")
        .because(first.span(file), "this one already gives a `bool`")
        .help(format!("compare twice: `{fixed}`; arrays are compared with `(a < b) & (b < c)`"))
        .fix("join two comparisons with `&&`", whole, fixed, applicability);
    report(inp, diagnostic);
}

/// Rebuilds `a < b < c` and `a < b & c < d` as they were probably meant, so that the checker reports no further errors.
fn repaired_chain(left: Expr, op: BinaryOp, op_span: Span, right: Expr, span: Span) -> Expr {
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
fn unary(inp: &mut ParserInput<'_, '_>) -> ParseResult<Expr> {
    let op = match peek(inp) {
        Tok::Minus => UnaryOp::Neg,
        Tok::Bang => UnaryOp::Not,
        _ => {
            let start = position(inp);
            let base = atom(inp, start)?;
            return postfix(inp, start, base);
        }
    };
    enter(inp)?;
    let start = position(inp);
    let token = bump(inp);
    let expr = Box::new(binary(inp, POWER)?);
    grow(inp)?;
    leave(inp);
    let op_span = token.span(inp.state().file);
    Ok(Expr { kind: ExprKind::Unary { op, op_span, expr }, span: span_from(inp, start) })
}

/// Parses field accesses, indices, calls and launches after a value.
fn postfix(inp: &mut ParserInput<'_, '_>, start: usize, mut base: Expr) -> ParseResult<Expr> {
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

/// Parses the name or number after a dot. In `t.0.1`, the lexer produces the number `0.1`.
fn field(inp: &mut ParserInput<'_, '_>, base: Expr) -> ParseResult<Expr> {
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
        _ => fail_expecting(inp, ExpectedConstruct::Name),
    }
}

fn with_field(base: Expr, name: Name) -> Expr {
    let span = base.span.to(name.span);
    Expr { kind: ExprKind::Field { base: Box::new(base), name }, span }
}

fn index(inp: &mut ParserInput<'_, '_>) -> ParseResult<Vec<Expr>> {
    inside_brackets(inp, |inp| {
        let places = custom(expression).separated_by(tok(Tok::Comma)).allow_trailing().at_least(1).collect();
        inp.parse(places.delimited_by(tok(Tok::LBracket), tok(Tok::RBracket)))
    })
}

fn args(inp: &mut ParserInput<'_, '_>) -> ParseResult<Vec<Arg>> {
    inside_brackets(inp, |inp| inp.parse(list(Tok::LParen, arg, Tok::RParen)))
}

/// Parses `x` or `T = 32`; a keyword may name an argument (`out = y`).
fn arg(inp: &mut ParserInput<'_, '_>) -> ParseResult<Arg> {
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
fn launch(inp: &mut ParserInput<'_, '_>, callee: Expr) -> ParseResult<ExprKind> {
    let shape = custom(|inp| inside_brackets(inp, expression));
    let geometry = shape.then_ignore(tok(Tok::Comma)).then(shape);
    let whole = geometry.delimited_by(tok(Tok::LaunchOpen), tok(Tok::LaunchClose)).then(custom(args));
    let ((grid, block), args) = inp.parse(whole)?;
    Ok(ExprKind::Launch { callee: Box::new(callee), grid: Box::new(grid), block: Box::new(block), args })
}

/// Returns whether `Body {` begins a struct literal: fields follow, and it is not in the head of `if`, `while` or
/// `for`.
fn starts_struct(inp: &mut ParserInput<'_, '_>, base: &Expr) -> bool {
    let is_path = matches!(base.kind, ExprKind::Name(_) | ExprKind::Field { .. });
    is_path
        && !inp.state().in_head
        && (peek_at(inp, 1) == Tok::RBrace || peek_at(inp, 1) == Tok::Name && peek_at(inp, 2) == Tok::Colon)
}

/// Parses a struct literal; returns `base` unchanged if it is not a path.
fn struct_literal(inp: &mut ParserInput<'_, '_>, base: Expr) -> ParseResult<Result<ExprKind, Expr>> {
    let mut path = Vec::new();
    if !collect_path(&base, &mut path) {
        return Ok(Err(base));
    }
    let field =
        |inp: &mut ParserInput<'_, '_>| inp.parse(custom(name).then_ignore(tok(Tok::Colon)).then(custom(expression)));
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
fn atom(inp: &mut ParserInput<'_, '_>, start: usize) -> ParseResult<Expr> {
    let kind = match peek(inp) {
        Tok::Name => return word(inp, start),
        Tok::Int | Tok::Float => number(inp),
        Tok::True | Tok::False => ExprKind::Bool(bump(inp).kind == Tok::True),
        Tok::StrStart => return string(inp),
        Tok::LParen => parenthesized(inp)?,
        Tok::LBracket => {
            ExprKind::Array(inside_brackets(inp, |inp| inp.parse(list(Tok::LBracket, expression, Tok::RBracket)))?)
        }
        Tok::LBrace if !inp.state().in_head => ExprKind::Block(block(inp)?),
        Tok::If => return if_expression(inp),
        _ => return fail_expecting(inp, ExpectedConstruct::Expression),
    };
    Ok(Expr { kind, span: span_from(inp, start) })
}

fn word(inp: &mut ParserInput<'_, '_>, start: usize) -> ParseResult<Expr> {
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
fn foreign_word(inp: &mut ParserInput<'_, '_>, token: Token, text: &str) -> ExprKind {
    let span = token.span(inp.state().file);
    let lower = text.to_ascii_lowercase();
    let error = Diagnostic::error("E0128", format!("`{text}` is not a word of Clk"));
    match lower.as_str() {
        "true" | "false" => {
            let title = format!("write `{lower}`");
            let truth = ExprKind::Bool(lower == "true");
            report(
                inp,
                error.at(span, "truth values are lower case").fix(title, span, lower, Applicability::MachineApplicable),
            );
            truth
        }
        _ => {
            report(
                inp,
                error.at(span, "there is no empty value").help(
                    "every value has its type; mark a missing one by a value of your choice, for example `-1` or `0.0`",
                ),
            );
            ExprKind::Error
        }
    }
}

fn number(inp: &mut ParserInput<'_, '_>) -> ExprKind {
    let token = bump(inp);
    let state = inp.state();
    let text = state.text_of(token);
    let number = literal::split(text);
    let start = token.end - number.suffix.len() as u32;
    let suffix = (!number.suffix.is_empty() && clk_scalar::Scalar::from_name(number.suffix).is_some())
        .then(|| state.name_of(Token { start, ..token }));
    match token.kind {
        Tok::Float => ExprKind::Float { text: literal::float_text(number), suffix },
        _ => ExprKind::Int { value: literal::integer(number), suffix },
    }
}

/// Parses `(a)`, `(a, b)`, `(a,)`, `()`.
fn parenthesized(inp: &mut ParserInput<'_, '_>) -> ParseResult<ExprKind> {
    inside_brackets(inp, |inp| {
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

/// Parses `if a { … } else if b { … } else { … }`. Uses a loop instead of recursion, because chains of `else if` can be
/// long.
pub(crate) fn if_expression(inp: &mut ParserInput<'_, '_>) -> ParseResult<Expr> {
    let mut arms: Vec<(usize, Expr, Block)> = Vec::new();
    let mut other = None;
    loop {
        let start = position(inp);
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
            let start = position(inp);
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
        None => fail_expecting(inp, ExpectedConstruct::Expression),
    }
}

//! String literals with interpolated values.

use super::expressions::expression;
use super::primitive::*;
use crate::ast::{Expr, ExprKind, FormatSpec, SmolStr, StrPart};
use crate::literal::unescape;
use crate::token::Tok;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;

/// Parses `"text {value:.3}"`.
pub(crate) fn string(inp: &mut ParserInput<'_, '_>) -> ParseResult<Expr> {
    let start = position(inp);
    expect(inp, Tok::StrStart)?;
    let outer = std::mem::take(&mut inp.state().in_head);
    let mut parts = Vec::new();
    loop {
        match peek(inp) {
            Tok::StrText => {
                let token = bump(inp);
                parts.push(StrPart::Text(unescape(inp.state().text_of(token))));
            }
            Tok::InterpOpen => parts.push(value(inp)?),
            _ => {
                expect(inp, Tok::StrEnd)?;
                inp.state().in_head = outer;
                return Ok(Expr { kind: ExprKind::Str(parts), span: span_from(inp, start) });
            }
        }
    }
}

fn value(inp: &mut ParserInput<'_, '_>) -> ParseResult<StrPart> {
    expect(inp, Tok::InterpOpen)?;
    let expr = expression(inp)?;
    let format = eat(inp, Tok::Format).map(|token| {
        let state = inp.state();
        FormatSpec { text: state.text_of(token).into(), span: token.span(state.file) }
    });
    expect(inp, Tok::InterpClose)?;
    Ok(StrPart::Value { expr, format })
}

/// Parses a string without interpolation: a title or a path.
pub(crate) fn plain(inp: &mut ParserInput<'_, '_>) -> ParseResult<(SmolStr, Span)> {
    if peek(inp) != Tok::StrStart {
        return fail_expecting(inp, ExpectedConstruct::Text);
    }
    let literal = string(inp)?;
    let ExprKind::Str(parts) = literal.kind else { return fail_expecting(inp, ExpectedConstruct::Text) };
    let mut text = String::new();
    for part in parts {
        match part {
            StrPart::Text(part) => text.push_str(&part),
            StrPart::Value { expr, .. } => report(
                inp,
                Diagnostic::error("E0110", "this text must not depend on values")
                    .at(expr.span, "a value is interpolated here")
                    .help("titles and paths are fixed before anything runs; for the braces themselves write `{{` and `}}`"),
            ),
        }
    }
    Ok((text.into(), literal.span))
}

//! String literals with interpolated values.

use super::expressions::expression;
use super::primitive::*;
use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::syntax::ast::{Expr, ExprKind, Format, SmolStr, StrPart};
use crate::syntax::literal::unescape;
use crate::syntax::token::Tok;

/// Parses `"text {value:.3}"`.
pub(crate) fn string(inp: &mut Input<'_, '_>) -> Parsed<Expr> {
    let start = here(inp);
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

fn value(inp: &mut Input<'_, '_>) -> Parsed<StrPart> {
    expect(inp, Tok::InterpOpen)?;
    let expr = expression(inp)?;
    let format = eat(inp, Tok::Format).map(|token| {
        let state = inp.state();
        Format { text: state.text_of(token).into(), span: token.span(state.file) }
    });
    expect(inp, Tok::InterpClose)?;
    Ok(StrPart::Value { expr, format })
}

/// Parses a string without interpolation: a title or a path.
pub(crate) fn plain(inp: &mut Input<'_, '_>) -> Parsed<(SmolStr, Span)> {
    if peek(inp) != Tok::StrStart {
        return missing(inp, Label::Text);
    }
    let literal = string(inp)?;
    let ExprKind::Str(parts) = literal.kind else { return missing(inp, Label::Text) };
    let mut text = String::new();
    for part in parts {
        match part {
            StrPart::Text(part) => text.push_str(&part),
            StrPart::Value { expr, .. } => say(
                inp,
                Diagnostic::error("E0110", "this text must not depend on values")
                    .at(expr.span, "a value is interpolated here")
                    .help("titles and paths are fixed before anything runs; for the braces themselves write `{{` and `}}`"),
            ),
        }
    }
    Ok((text.into(), literal.span))
}

//! Macro definitions, and tokens during macro expansion.

use crate::ast::SmolStr;
use crate::lex::{CppTok, RawToken};
use crate::source::SourceSpan;
use clk_base::source::Span;
use std::rc::Rc;

/// A token during macro expansion.
#[derive(Clone, Debug)]
pub(super) struct PpToken {
    pub kind: CppTok,
    pub text: SmolStr,
    pub span: SourceSpan,
    pub space: bool,
    pub line_start: bool,
    /// The macros that have produced this token.
    pub hidden: Option<Rc<Vec<SmolStr>>>,
}

impl From<&RawToken> for PpToken {
    fn from(token: &RawToken) -> PpToken {
        PpToken {
            kind: token.kind,
            text: token.text.clone(),
            span: token.span.into(),
            space: token.space,
            line_start: token.line_start,
            hidden: None,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct MacroDefinition {
    /// The name in the `#define`; `None` for predefined macros and options.
    pub place: Option<Span>,
    /// The parameters of a function-like macro.
    pub params: Option<Vec<SmolStr>>,
    /// Whether the last parameter takes all further arguments.
    pub variadic: bool,
    pub body: Rc<Vec<RawToken>>,
}

/// Parses the tokens after `#define`: name, parameters, body.
pub(super) fn parse_definition(
    tokens: &[RawToken],
    place: Option<Span>,
) -> Result<(SmolStr, MacroDefinition), &'static str> {
    let Some((name, rest)) = tokens.split_first().filter(|(name, _)| name.kind == CppTok::Ident) else {
        return Err("expected the name of a macro");
    };
    if name.text == "defined" {
        return Err("`defined` cannot be a macro");
    }
    let (mut params, mut variadic, mut body) = (None, false, rest);
    if let Some((open, after)) = rest.split_first()
        && open.kind == CppTok::LParen
        && !open.space
    {
        let close = after.iter().position(|token| token.kind == CppTok::RParen);
        let Some(close) = close else { return Err("expected `)` after the parameters of this macro") };
        let mut names: Vec<SmolStr> = Vec::new();
        let list = &after[..close];
        for (at, part) in list.split(|token| token.kind == CppTok::Comma).enumerate() {
            let name = match part {
                [] if at == 0 && list.is_empty() => break,
                [name] if name.kind == CppTok::Ident => name.text.clone(),
                [dots] if dots.kind == CppTok::Ellipsis => SmolStr::new_static("__VA_ARGS__"),
                [name, dots] if name.kind == CppTok::Ident && dots.kind == CppTok::Ellipsis => name.text.clone(),
                _ => return Err("expected a parameter name in this macro"),
            };
            if variadic || names.contains(&name) {
                return Err("the parameters of this macro are not distinct, or follow `...`");
            }
            variadic = part.last().is_some_and(|token| token.kind == CppTok::Ellipsis);
            names.push(name);
        }
        params = Some(names);
        body = &after[close + 1..];
    }
    let edge = |token: Option<&RawToken>| token.is_some_and(|token| token.kind == CppTok::HashHash);
    if edge(body.first()) || edge(body.last()) {
        return Err("`##` cannot be at the start or the end of a macro");
    }
    Ok((name.text.clone(), MacroDefinition { place, params, variadic, body: Rc::new(body.to_vec()) }))
}

/// Tokens that are about to be expanded.
#[derive(Default)]
pub(super) struct PpStream {
    /// The next tokens, the first one last.
    pub pending: Vec<PpToken>,
    /// Whether tokens of the open files follow.
    pub files: bool,
}

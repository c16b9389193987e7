//! Decides whether a REPL entry needs more lines.

use crate::base::source::FileId;
use crate::syntax::lex::lex;
use crate::syntax::token::{Tok, Token};

/// Whether the text has an open bracket or comment, a trailing operator, or a header without its body.
pub(crate) fn is_incomplete(text: &str) -> bool {
    let lexed = lex(FileId(0), text);
    if lexed.open_at_end {
        return true;
    }
    if !lexed.diagnostics.is_empty() {
        return false;
    }
    let tokens: Vec<Token> =
        lexed.tokens.iter().copied().filter(|t| !matches!(t.kind, Tok::Newline | Tok::Eof)).collect();
    let Some(last) = tokens.last() else { return false };
    trailing_operator(last.kind) || header_without_body(&tokens)
}

/// Whether a statement cannot end with this token.
fn trailing_operator(kind: Tok) -> bool {
    use Tok::*;
    match kind {
        Doc | Comma | Assign | Arrow | Dot | Minus | Bang | Colon | Unroll | NoUnroll | In | Else => true,
        // Tokens that continue a line cannot end one either, except for closing brackets and the like.
        RParen | RBracket | RBrace | InterpClose | Question | DotDot => false,
        kind => kind.continues_line(),
    }
}

/// Whether the last statement is a header that requires a `{` which has not come yet.
fn header_without_body(tokens: &[Token]) -> bool {
    let (mut depth, mut waiting) = (0usize, false);
    for token in tokens {
        match token.kind {
            Tok::LParen | Tok::LBracket | Tok::InterpOpen => depth += 1,
            Tok::RParen | Tok::RBracket | Tok::InterpClose => depth = depth.saturating_sub(1),
            Tok::LBrace => {
                depth += 1;
                waiting = false;
            }
            Tok::RBrace => depth = depth.saturating_sub(1),
            Tok::Kernel | Tok::Struct | Tok::Test | Tok::Bench | Tok::If | Tok::For | Tok::While | Tok::Loop
                if depth == 0 =>
            {
                waiting = true;
            }
            Tok::Fn if depth == 0 => waiting = true,
            Tok::Let | Tok::Var | Tok::Const | Tok::Import | Tok::Semi if depth == 0 => waiting = false,
            _ => {}
        }
    }
    waiting && promises_body(tokens)
}

/// Whether the header is complete enough for its body to follow on the next line, and not obviously wrong.
fn promises_body(tokens: &[Token]) -> bool {
    let ends_header = |kind| {
        use Tok::*;
        matches!(kind, RParen | RBracket | Name | Int | Float | True | False | StrEnd | Loop | Kernel | Fn | Struct)
            || matches!(kind, If | For | While | Test | Bench | Gt)
    };
    tokens.last().is_some_and(|t| ends_header(t.kind))
}

#[cfg(test)]
mod tests {
    use super::is_incomplete;

    #[test]
    fn beginnings_are_incomplete() {
        for text in [
            "kernel f(x: [f32; N]) threads(i: N) {",
            "kernel f(x: [f32; N])",
            "kernel f(x: [f32; N]) threads(i: N)\n",
            "f(1,",
            "let x = [1, 2,\n",
            "let y = 1 +",
            "let y =",
            "/* a comment",
            "a &&",
            "if x > 0 {\n 1\n} else",
            "/// doc",
            "#unroll",
        ] {
            assert!(is_incomplete(text), "{text}");
        }
    }

    #[test]
    fn whole_entries_are_complete() {
        for text in
            ["", "1 + 1", "let x = 3", "f(x)", "if a { 1 }", "x[0..]", "print(\"a\")", "\"open", "a)", "fn f() {}"]
        {
            assert!(!is_incomplete(text), "{text}");
        }
    }
}

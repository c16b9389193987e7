//! Decides whether a REPL entry needs more lines.

use crate::lex::lex;
use crate::token::{Tok, Token};
use clk_base::source::FileId;

/// Returns whether the text has an open bracket or comment, a trailing operator, or a header without a body.
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
    is_trailing_operator(last.kind) || has_header_without_body(&tokens)
}

/// Returns whether a statement cannot end with this token.
fn is_trailing_operator(kind: Tok) -> bool {
    use Tok::*;
    match kind {
        Doc | Comma | Assign | Arrow | Dot | Minus | Bang | Colon | Unroll | NoUnroll | In | Else => true,
        // Closing brackets, `?` and `..` can end a statement although they continue a line. All other tokens that
        // continue a line need an operand after them.
        RParen | RBracket | RBrace | InterpClose | Question | DotDot => false,
        kind => kind.continues_line(),
    }
}

/// Returns whether the last statement is a header whose `{` is missing.
fn has_header_without_body(tokens: &[Token]) -> bool {
    let (mut depth, mut needs_body) = (0usize, false);
    for token in tokens {
        match token.kind {
            Tok::LParen | Tok::LBracket | Tok::InterpOpen => depth += 1,
            Tok::RParen | Tok::RBracket | Tok::InterpClose => depth = depth.saturating_sub(1),
            Tok::LBrace => {
                depth += 1;
                needs_body = false;
            }
            Tok::RBrace => depth = depth.saturating_sub(1),
            Tok::Kernel | Tok::Struct | Tok::Test | Tok::Bench | Tok::If | Tok::For | Tok::While | Tok::Loop
                if depth == 0 =>
            {
                needs_body = true;
            }
            Tok::Fn if depth == 0 => needs_body = true,
            Tok::Let | Tok::Var | Tok::Const | Tok::Import | Tok::Semi if depth == 0 => needs_body = false,
            _ => {}
        }
    }
    needs_body && is_complete_header(tokens)
}

/// Returns whether the header is complete, so that its body may follow on the next line.
fn is_complete_header(tokens: &[Token]) -> bool {
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
    fn unfinished_entries_are_incomplete() {
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
    fn finished_entries_are_complete() {
        for text in
            ["", "1 + 1", "let x = 3", "f(x)", "if a { 1 }", "x[0..]", "print(\"a\")", "\"open", "a)", "fn f() {}"]
        {
            assert!(!is_incomplete(text), "{text}");
        }
    }
}

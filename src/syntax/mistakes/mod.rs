//! Explains syntax errors: converts the token at which parsing stopped to a diagnostic that guesses the intention and
//! shows how to write it in Clk.
//!
//! `statement` recognizes errors by the beginning of the statement (declarations, loops and keywords of other
//! languages). `expression` and `unexpected_token` recognize errors by the unexpected token and the tokens before it.
//! Other errors get the message "expected …, found …".

mod c_head;
mod context;
mod expression;
mod statement;
mod unexpected_token;

pub(crate) use context::{c_type, joined_type};

use self::context::MistakeContext;
use crate::syntax_error::{ExpectedConstruct, SyntaxError, UnexpectedToken};
use crate::token::{KEYWORDS, OPERATORS, Tok, Token};
use clk_base::diag::Diagnostic;
use clk_base::source::FileId;

/// Builds the diagnostic for a syntax error.
pub(crate) fn explain(file: FileId, text: &str, tokens: &[Token], mistake: SyntaxError) -> Diagnostic {
    match mistake {
        SyntaxError::Reported(diagnostic) => *diagnostic,
        SyntaxError::Unexpected { unexpected, statement } => {
            let cx = MistakeContext { file, text, tokens, unexpected, start: statement.start, end: statement.end };
            statement::explain(&cx)
                .or_else(|| expression::explain(&cx))
                .or_else(|| unexpected_token::explain(&cx))
                .unwrap_or_else(|| plain(&cx))
        }
    }
}

/// Builds the generic diagnostic "expected …, found …".
fn plain(cx: &MistakeContext<'_>) -> Diagnostic {
    let expected = expectation(&cx.unexpected);
    let description = describe(cx, cx.unexpected.at);
    let title = match expected.is_empty() {
        true => format!("{description} is not expected here"),
        false => format!("expected {expected}, found {description}"),
    };
    let span = match cx.found_token() {
        Tok::Newline | Tok::Eof => cx.span_after_previous(),
        _ => cx.span(cx.unexpected.at),
    };
    let label = if expected.is_empty() { "unexpected".to_owned() } else { format!("expected {expected}") };
    let mut diagnostic = Diagnostic::error("E0101", title).at(span, label);
    if let Some(open) = cx.bracket().filter(|open| open + 1 < cx.unexpected.at) {
        diagnostic = diagnostic.because(cx.span(open), "inside this");
    }
    diagnostic
}

/// Describes the expected tokens and constructs.
fn expectation(unexpected: &UnexpectedToken) -> String {
    let mut words: Vec<String> = unexpected.labels().map(|label| label_text(label).to_owned()).collect();
    let has_operand = unexpected.expected_label(ExpectedConstruct::Expression)
        || unexpected.expected_label(ExpectedConstruct::Statement);
    if !has_operand {
        let tokens = unexpected.tokens_of(KEYWORDS).chain(unexpected.tokens_of(OPERATORS));
        words.extend(tokens.map(|(text, _)| format!("`{text}`")));
    }
    words.truncate(4);
    match words.len() {
        0 => String::new(),
        1 => words.remove(0),
        _ => {
            let last = words.pop().unwrap_or_default();
            format!("{} or {last}", words.join(", "))
        }
    }
}

fn label_text(label: ExpectedConstruct) -> &'static str {
    match label {
        ExpectedConstruct::Expression => "an expression",
        ExpectedConstruct::Type => "a type",
        ExpectedConstruct::Name => "a name",
        ExpectedConstruct::Statement => "a statement",
        ExpectedConstruct::End => "the end of the statement",
        ExpectedConstruct::Geometry => "`threads(…)` or `grid(…) block(…)`",
        ExpectedConstruct::Pattern => "a name",
        ExpectedConstruct::Text => "a string",
    }
}

/// Describes a token for a diagnostic.
fn describe(cx: &MistakeContext<'_>, index: usize) -> String {
    let token = cx.token(index);
    match token.kind {
        Tok::Newline => "the end of the line".into(),
        Tok::Eof => "the end of the text".into(),
        Tok::StrStart | Tok::StrText | Tok::StrEnd => "a string".into(),
        Tok::InterpClose => "`}`".into(),
        kind if token.start == token.end => kind.text().map_or("the end".into(), |t| format!("`{t}`")),
        kind if kind.is_keyword() => format!("the keyword `{}`", token.text(cx.text)),
        _ => format!("`{}`", token.text(cx.text)),
    }
}

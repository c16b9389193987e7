//! Explains syntax errors: from the point where parsing stopped to a diagnostic that says what was probably meant and how to
//! write it in Clk.
//!
//! `statement` recognizes errors by the beginning of the statement (declarations, loops and keywords of other languages),
//! `expression` and `place` by the unexpected token and the tokens before it; everything else becomes "expected …, found …"
//! here.

mod expression;
mod here;
mod place;
mod statement;

pub(crate) use here::c_type;

use self::here::Here;
use crate::base::diag::Diagnostic;
use crate::base::source::FileId;
use crate::syntax::miss::{Label, Miss, Mistake};
use crate::syntax::token::{KEYWORDS, OPERATORS, Tok, Token};

/// Builds the diagnostic for a syntax error.
pub(crate) fn explain(file: FileId, text: &str, tokens: &[Token], mistake: Mistake) -> Diagnostic {
    match mistake {
        Mistake::Said(diagnostic) => *diagnostic,
        Mistake::Miss { miss, statement } => {
            let here = Here { file, text, tokens, miss, start: statement.start, end: statement.end };
            statement::explain(&here)
                .or_else(|| expression::explain(&here))
                .or_else(|| place::explain(&here))
                .unwrap_or_else(|| plain(&here))
        }
    }
}

/// Builds the generic diagnostic "expected …, found …".
fn plain(here: &Here<'_>) -> Diagnostic {
    let expected = expectation(&here.miss);
    let found = describe(here, here.miss.at);
    let title = match expected.is_empty() {
        true => format!("{found} is not expected here"),
        false => format!("expected {expected}, found {found}"),
    };
    let span = match here.found() {
        Tok::Newline | Tok::Eof => here.behind_before(),
        _ => here.span(here.miss.at),
    };
    let label = if expected.is_empty() { "unexpected".to_owned() } else { format!("expected {expected}") };
    let mut diagnostic = Diagnostic::error("E0101", title).at(span, label);
    if let Some(open) = here.bracket().filter(|open| open + 1 < here.miss.at) {
        diagnostic = diagnostic.because(here.span(open), "inside this");
    }
    diagnostic
}

/// Describes the expected tokens and constructs.
fn expectation(miss: &Miss) -> String {
    let mut words: Vec<String> = miss.labels().map(|label| label_text(label).to_owned()).collect();
    let has_operand = miss.expected_label(Label::Expression) || miss.expected_label(Label::Statement);
    if !has_operand {
        let tokens = miss.tokens_of(KEYWORDS).chain(miss.tokens_of(OPERATORS));
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

fn label_text(label: Label) -> &'static str {
    match label {
        Label::Expression => "an expression",
        Label::Type => "a type",
        Label::Name => "a name",
        Label::Statement => "a statement",
        Label::End => "the end of the statement",
        Label::Geometry => "`threads(…)` or `grid(…) block(…)`",
        Label::Pattern => "a name",
        Label::Text => "a string",
    }
}

/// Describes a token for a diagnostic.
fn describe(here: &Here<'_>, index: usize) -> String {
    let token = here.token(index);
    match token.kind {
        Tok::Newline => "the end of the line".into(),
        Tok::Eof => "the end of the text".into(),
        Tok::StrStart | Tok::StrText | Tok::StrEnd => "a string".into(),
        Tok::InterpClose => "`}`".into(),
        kind if token.start == token.end => kind.text().map_or("the end".into(), |t| format!("`{t}`")),
        kind if kind.is_keyword() => format!("the keyword `{}`", token.text(here.text)),
        _ => format!("`{}`", token.text(here.text)),
    }
}

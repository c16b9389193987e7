//! Verifies that formatting preserves the program: its tokens (except separators), its comments, and its syntax tree
//! (except spans). Returns the differences in whitespace and separators as edits.

use thiserror::Error;

use super::elements::{ElementKind, FormatElement};
use super::tokenized_text::{Edit, TokenizedText};
use clk_syntax::token::Tok;
use clk_syntax::{ast, dump};

/// How formatting would change the program: its first difference.
#[derive(Debug, Error)]
pub(crate) enum FormatDifference {
    #[error("the new text has an error: {0}")]
    SyntaxError(String),
    #[error("{old} would become {new}")]
    Replaced { old: String, new: String },
    #[error("a part of the tree would be lost")]
    Lost,
    #[error("the layout did not converge after {0} passes")]
    NoFixpoint(usize),
}

/// Compares a text and its tree with the formatted text.
pub(crate) fn check(
    old: &TokenizedText,
    tree: &ast::SourceFile,
    new: &TokenizedText,
) -> Result<Vec<Edit>, FormatDifference> {
    let edits = edits(old, new)?;
    let (other, diagnostics) = clk_syntax::parse(new.file, new.text);
    if let Some(error) = diagnostics.iter().find(|d| d.is_error()) {
        return Err(FormatDifference::SyntaxError(error.title.clone()));
    }
    let (old, new) = (dump(tree), dump(&other));
    match old.lines().zip(new.lines()).find(|(a, b)| a != b) {
        Some((old, new)) => {
            let quoted = |line: &str| format!("`{}`", line.trim());
            Err(FormatDifference::Replaced { old: quoted(old), new: quoted(new) })
        }
        None if old.len() != new.len() => Err(FormatDifference::Lost),
        None => Ok(edits),
    }
}

/// Returns the differences between two texts outside the tokens and comments that they share.
fn edits(old: &TokenizedText, new: &TokenizedText) -> Result<Vec<Edit>, FormatDifference> {
    let (mut ours, mut theirs) = (old.elements.iter().filter(is_compared), new.elements.iter().filter(is_compared));
    let (mut edits, mut at, mut place) = (Vec::new(), 0, 0);
    let mut gap = |range: std::ops::Range<usize>, other: std::ops::Range<usize>| {
        let text = new.text.get(other).unwrap_or("");
        if old.text.get(range.clone()) != Some(text) {
            edits.push(Edit { range, text: text.to_owned() });
        }
    };
    loop {
        match (ours.next(), theirs.next()) {
            (None, None) => break,
            (Some(a), Some(b)) if a.kind == b.kind && a.text(old.text) == b.text(new.text) => {
                gap(at..a.start as usize, place..b.start as usize);
                (at, place) = (a.end as usize, b.end as usize);
            }
            (a, b) => {
                let shown = |e: Option<&FormatElement>, of| e.map_or("the end".into(), |e| format!("`{}`", e.text(of)));
                return Err(FormatDifference::Replaced { old: shown(a, old.text), new: shown(b, new.text) });
            }
        }
    }
    gap(at..old.text.len(), place..new.text.len());
    Ok(edits)
}

/// Returns whether an element must be the same in both texts. Separators may differ; if that changes the meaning, the
/// syntax trees differ.
fn is_compared(element: &&FormatElement) -> bool {
    !matches!(element.kind, ElementKind::Token(Tok::Semi | Tok::Comma))
}

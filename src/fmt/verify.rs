//! Verifies that formatting preserves the program: its tokens (except separators), its comments, and its syntax tree
//! (except spans). Returns the differences in whitespace and separators as edits.

use super::elements::{ElementKind, FormatElement};
use super::tokenized_text::{Edit, TokenizedText};
use clk_syntax::token::Tok;
use clk_syntax::{ast, dump};

/// Compares a text and its tree with the formatted text; the error describes the first difference.
pub(crate) fn check(old: &TokenizedText, tree: &ast::SourceFile, new: &TokenizedText) -> Result<Vec<Edit>, String> {
    let edits = edits(old, new)?;
    let (other, diagnostics) = clk_syntax::parse(new.file, new.text);
    if let Some(error) = diagnostics.iter().find(|d| d.is_error()) {
        return Err(format!("the new text has an error: {}", error.title));
    }
    let (old, new) = (dump(tree), dump(&other));
    match old.lines().zip(new.lines()).find(|(a, b)| a != b) {
        Some((a, b)) => Err(format!("`{}` would become `{}`", a.trim(), b.trim())),
        None if old.len() != new.len() => Err("a part of the tree would be lost".into()),
        None => Ok(edits),
    }
}

/// Returns the differences between two texts outside the tokens and comments that they share.
fn edits(old: &TokenizedText, new: &TokenizedText) -> Result<Vec<Edit>, String> {
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
                return Err(format!("{} would become {}", shown(a, old.text), shown(b, new.text)));
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

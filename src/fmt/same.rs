//! Verification that formatting preserves the program: the same tokens except for separators, the same comments, and the same
//! tree except for spans. The differences between them are returned as edits.

use super::elements::{Element, Kind};
use super::laid::{Edit, Laid};
use crate::syntax::token::Tok;
use crate::syntax::{self, ast, dump};

/// Compares a text (with its tree) with another; the error describes the first difference.
pub(crate) fn check(old: (&Laid, &ast::File), new: &Laid) -> Result<Vec<Edit>, String> {
    let (old, tree) = old;
    let edits = edits(old, new)?;
    let (other, diagnostics) = syntax::parse(new.file, new.text);
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

/// Returns the differences between the tokens and comments that two texts share.
fn edits(old: &Laid, new: &Laid) -> Result<Vec<Edit>, String> {
    let (mut ours, mut theirs) = (old.elements.iter().filter(counts), new.elements.iter().filter(counts));
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
                let shown = |e: Option<&Element>, of| e.map_or("the end".into(), |e| format!("`{}`", e.text(of)));
                return Err(format!("{} would become {}", shown(a, old.text), shown(b, new.text)));
            }
        }
    }
    gap(at..old.text.len(), place..new.text.len());
    Ok(edits)
}

/// Whether an element is compared. Separators may differ; comparing the trees shows whether that matters.
fn counts(element: &&Element) -> bool {
    !matches!(element.kind, Kind::Token(Tok::Semi | Tok::Comma))
}

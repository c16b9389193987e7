//! Whether a text means what it meant before: the same tokens but for separators, and the same tree but for places.

use crate::base::source::FileId;
use crate::syntax::ast;
use crate::syntax::token::{Tok, Token};
use crate::syntax::{self, dump};

/// Compares a text (with its tokens and tree) with another; an error says where they part.
pub fn check(file: FileId, before: (&str, &[Token], &ast::File), after: &str) -> Result<(), String> {
    let (text, tokens, tree) = before;
    let lexed = syntax::lex(file, after);
    let mut old = tokens.iter().filter(counts);
    let mut new = lexed.tokens.iter().filter(counts);
    loop {
        match (old.next(), new.next()) {
            (None, None) => break,
            (Some(a), Some(b)) if a.kind == b.kind && a.text(text).trim_end() == b.text(after).trim_end() => {}
            (a, b) => {
                let shown = |t: Option<&Token>, of: &str| t.map_or("the end".into(), |t| format!("`{}`", t.text(of)));
                return Err(format!("{} would become {}", shown(a, text), shown(b, after)));
            }
        }
    }
    let (other, diagnostics) = syntax::parse(file, after);
    if let Some(error) = diagnostics.iter().find(|d| d.is_error()) {
        return Err(format!("the new text has an error: {}", error.title));
    }
    let (old, new) = (dump(tree), dump(&other));
    match old.lines().zip(new.lines()).find(|(a, b)| a != b) {
        Some((a, b)) => Err(format!("`{}` would become `{}`", a.trim(), b.trim())),
        None if old.len() != new.len() => Err("a part of the tree would be lost".into()),
        None => Ok(()),
    }
}

/// Separators may come and go; the tree says whether that mattered.
fn counts(token: &&Token) -> bool {
    !matches!(token.kind, Tok::Newline | Tok::Semi | Tok::Comma)
}

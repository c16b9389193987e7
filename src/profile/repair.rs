//! Edits of a kernel's text that leave its results as they are.
//!
//! Input: the text, the kernel's place in it, and a change. Output: the edits, and whether nothing speaks against them. What is looked at is
//! the text itself: each use of an array, and the kernel's head.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::base::source::{FileId, Sources, Span};
use crate::syntax::ast::{Geometry, Item, ItemKind, Kernel, StmtKind, TypeKind};
use crate::syntax::token::{Tok, Token};
use crate::syntax::{self, ast};

/// Edits that belong together.
pub(super) struct Repair {
    pub edits: Vec<(Span, String)>,
    /// What the text becomes, to be shown.
    pub text: String,
    /// Nothing in the text speaks against it.
    pub sure: bool,
}

/// A parsed kernel and the span of its item.
type Written = (Span, Rc<Kernel>);

/// The kernels of the sources, by place. Each file is parsed once, however many of its kernels are looked up.
pub struct Kernels<'s> {
    pub sources: &'s Sources,
    files: RefCell<HashMap<FileId, Vec<Written>>>,
}

impl<'s> Kernels<'s> {
    pub fn new(sources: &'s Sources) -> Self {
        Kernels { sources, files: RefCell::default() }
    }

    /// Returns the kernel at a place.
    pub fn at(&self, place: Span) -> Option<Written> {
        let mut files = self.files.borrow_mut();
        let kernels = files.entry(place.file).or_insert_with(|| {
            let (file, _) = syntax::parse(place.file, self.sources.text(place.file));
            let kernel = |Item { kind, span, .. }| match kind {
                ItemKind::Kernel(kernel) => Some((span, Rc::new(kernel))),
                _ => None,
            };
            file.items.into_iter().filter_map(kernel).collect()
        });
        let last = kernels.partition_point(|(span, _)| span.start <= place.start).checked_sub(1)?;
        kernels.get(last).filter(|(span, _)| span.contains(place.start)).cloned()
    }
}

/// Exchanges two indices in the head of a kernel `threads(…)`.
pub(super) fn swap(kernels: &Kernels<'_>, place: Span, a: u8, b: u8) -> Option<Repair> {
    let ((item, kernel), sources) = (kernels.at(place)?, kernels.sources);
    let Geometry::Threads { indices, block, .. } = &kernel.geometry else { return None };
    let whole = |(name, extent): &(ast::Name, ast::Expr)| name.span.to(extent.span);
    let (first, second) = (whole(indices.get(usize::from(a))?), whole(indices.get(usize::from(b))?));
    let text = |span: Span| sources.slice(span).to_string();
    let mut order: Vec<String> = indices.iter().map(|index| text(whole(index))).collect();
    order.swap(a.into(), b.into());
    // A launch `<<<…>>>` has blocks of its own.
    let sure = block.is_none() && !sources.text(item.file).contains("<<<");
    let edits = vec![(first, text(second)), (second, text(first))];
    Some(Repair { edits, text: format!("threads({})", order.join(", ")), sure })
}

/// Makes the last extent of a shared array larger by one.
pub(super) fn pad(kernels: &Kernels<'_>, place: Span, array: &str, last: u32) -> Option<Repair> {
    let ((item, kernel), sources) = (kernels.at(place)?, kernels.sources);
    let mut found = vec![];
    declared(&kernel.body, array, &mut found);
    let [ty] = &found[..] else { return None };
    let TypeKind::Array { dims, .. } = &ty.kind else { return None };
    let extent = dims.last()?;
    let written = sources.slice(extent.span);
    let new =
        if written.parse::<u32>() == Ok(last) { (u64::from(last) + 1).to_string() } else { format!("{written} + 1") };
    let text = sources.slice(ty.span);
    let at = (extent.span.start - ty.span.start) as usize;
    let shown = format!("{}{new}{}", text.get(..at)?, text.get(at + written.len()..)?);
    let sure = only_elements(sources.slice(item), array, dims.len());
    Some(Repair { edits: vec![(extent.span, new)], text: format!("shared {array}: {shown}"), sure })
}

/// Adds the types with which an array of the block is declared.
fn declared<'a>(block: &'a ast::Block, array: &str, found: &mut Vec<&'a ast::Type>) {
    for stmt in &block.stmts {
        match &stmt.kind {
            StmtKind::Shared { name, ty } if name.text == array => found.push(ty),
            StmtKind::For { body, .. } | StmtKind::While { body, .. } => declared(body, array, found),
            StmtKind::Loop { body } => declared(body, array, found),
            _ => {}
        }
    }
}

/// Returns whether a text names an array only where it is declared, and for single elements: `t[i, j]`.
fn only_elements(text: &str, array: &str, axes: usize) -> bool {
    let tokens: Vec<Token> = syntax::lex(crate::base::source::FileId(0), text).tokens;
    let word = |at: usize| tokens.get(at).map(|token| token.kind);
    let is_use = |at: &usize| tokens[*at].kind == Tok::Name && tokens[*at].text(text) == array;
    let is_declaration = |at: usize| at > 0 && tokens[at - 1].text(text) == "shared";
    (0..tokens.len()).filter(is_use).filter(|&at| !is_declaration(at)).all(|at| {
        let (mut depth, mut commas) = (0, 0);
        if word(at + 1) != Some(Tok::LBracket) {
            return false;
        }
        for token in &tokens[at + 1..] {
            match token.kind {
                Tok::LBracket | Tok::LParen | Tok::LBrace => depth += 1,
                Tok::RBracket | Tok::RParen | Tok::RBrace => depth -= 1,
                Tok::DotDot | Tok::DotDotEq => return false,
                Tok::Comma if depth == 1 => commas += 1,
                _ => {}
            }
            if depth == 0 {
                return commas + 1 == axes;
            }
        }
        false
    })
}

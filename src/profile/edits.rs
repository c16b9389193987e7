//! Source edits that preserve a kernel's results.
//!
//! Input: the source text, the kernel's location, and a change. Output: the edits, and whether they are known to
//! preserve the results. The analysis looks at the syntax of the kernel's header and of the array's uses.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use clk_base::source::{FileId, SourceMap, Span};
use clk_syntax::ast;
use clk_syntax::ast::{Geometry, Item, ItemKind, Kernel, StmtKind, TypeKind};
use clk_syntax::token::{Tok, Token};

/// A set of edits that must be applied together.
pub(super) struct Repair {
    pub edits: Vec<(Span, String)>,
    /// The new text of the edited code, for display.
    pub text: String,
    /// Whether the edits are known to preserve the kernel's results.
    pub sure: bool,
}

/// A parsed kernel, with the span of its definition.
type ParsedKernel = (Span, Rc<Kernel>);

/// Finds kernels in the sources by location. Caches the syntax trees, so that each file is parsed only once.
pub struct ParsedKernels<'s> {
    pub sources: &'s SourceMap,
    files: RefCell<HashMap<FileId, Vec<ParsedKernel>>>,
}

impl<'s> ParsedKernels<'s> {
    pub fn new(sources: &'s SourceMap) -> Self {
        ParsedKernels { sources, files: RefCell::default() }
    }

    /// Returns the kernel whose definition contains a location.
    pub fn at(&self, place: Span) -> Option<ParsedKernel> {
        let mut files = self.files.borrow_mut();
        let kernels = files.entry(place.file).or_insert_with(|| {
            let (file, _) = clk_syntax::parse(place.file, self.sources.text(place.file));
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

/// Exchanges two indices in the header of a `threads(…)` kernel.
pub(super) fn swap_indices(kernels: &ParsedKernels<'_>, place: Span, a: u8, b: u8) -> Option<Repair> {
    let ((item, kernel), sources) = (kernels.at(place)?, kernels.sources);
    let Geometry::Threads { indices, block, .. } = &kernel.geometry else { return None };
    let whole = |(name, extent): &(ast::Name, ast::Expr)| name.span.to(extent.span);
    let (first, second) = (whole(indices.get(usize::from(a))?), whole(indices.get(usize::from(b))?));
    let text = |span: Span| sources.slice(span).to_string();
    let mut order: Vec<String> = indices.iter().map(|index| text(whole(index))).collect();
    order.swap(a.into(), b.into());
    // A launch with `<<<…>>>` specifies a block shape for the original order of the indices.
    let sure = block.is_none() && !sources.text(item.file).contains("<<<");
    let edits = vec![(first, text(second)), (second, text(first))];
    Some(Repair { edits, text: format!("threads({})", order.join(", ")), sure })
}

/// Increases the last extent of a shared array by one.
pub(super) fn pad_array(kernels: &ParsedKernels<'_>, place: Span, array: &str, last: u32) -> Option<Repair> {
    let ((item, kernel), sources) = (kernels.at(place)?, kernels.sources);
    let mut declarations = vec![];
    find_declarations(&kernel.body, array, &mut declarations);
    let [ty] = &declarations[..] else { return None };
    let TypeKind::Array { dims, .. } = &ty.kind else { return None };
    let extent = dims.last()?;
    let extent_text = sources.slice(extent.span);
    let new = if extent_text.parse::<u32>() == Ok(last) {
        (u64::from(last) + 1).to_string()
    } else {
        format!("{extent_text} + 1")
    };
    let text = sources.slice(ty.span);
    let at = (extent.span.start - ty.span.start) as usize;
    let shown = format!("{}{new}{}", text.get(..at)?, text.get(at + extent_text.len()..)?);
    let sure = is_only_indexed(sources.slice(item), array, dims.len());
    Some(Repair { edits: vec![(extent.span, new)], text: format!("shared {array}: {shown}"), sure })
}

/// Collects the types with which a shared array is declared.
fn find_declarations<'a>(block: &'a ast::Block, array: &str, declarations: &mut Vec<&'a ast::Type>) {
    for stmt in &block.stmts {
        match &stmt.kind {
            StmtKind::Shared { name, ty } if name.text == array => declarations.push(ty),
            StmtKind::For { body, .. } | StmtKind::While { body, .. } => find_declarations(body, array, declarations),
            StmtKind::Loop { body } => find_declarations(body, array, declarations),
            _ => {}
        }
    }
}

/// Returns whether all uses of an array in a text, apart from its declaration, have an index for each axis, such as
/// `t[i, j]`.
fn is_only_indexed(text: &str, array: &str, axes: usize) -> bool {
    let tokens: Vec<Token> = clk_syntax::lex(clk_base::source::FileId(0), text).tokens;
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

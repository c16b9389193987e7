//! Advice on an index variable whose range is named after another axis than the one it indexes.
//!
//! `for k in 0..N { s += a[i, k] }` with `a: [f32; M, K]` counts to `N` along an axis of length `K`. A guard would hide
//! the mistake, so the advice is to exchange the indices or to change the range.

use super::context::{BoundsAccess, FaultContext};
use clk_base::diag::{Applicability, Diagnostic};
use clk_base::source::Span;
use clk_check::typed::*;
use clk_check::visit;
use clk_scalar::Scalar;
use clk_scalar::ops::BinaryOp;

/// The range of an index variable that counts from 0.
struct IndexRange {
    var: LocalId,
    /// The name of the variable.
    name: String,
    /// The source text of the range's extent: `N` in `0..N` and in `threads(k: N)`.
    extent: String,
    extent_span: Span,
    is_thread_index: bool,
}

/// Returns the diagnostic with advice if the ranges of the indices name other axes.
pub(super) fn advise(
    case: &FaultContext<'_>,
    array: &str,
    access: &BoundsAccess,
    axis: usize,
    diagnostic: &Diagnostic,
) -> Option<Diagnostic> {
    let extents: Option<Vec<String>> = access.array.dims.iter().map(|dim| case.extent(dim)).collect();
    let ranges: Vec<Option<IndexRange>> = access.indices.iter().map(|index| index_range(case, index)).collect();
    let (extents, Some(range)) = (extents?, ranges.get(axis)?) else { return None };
    let extent = extents.get(axis)?;
    if range.extent == *extent || !is_dimension(case, &range.extent) || !is_dimension(case, extent) {
        return None;
    }
    let diagnostic = Diagnostic { help: vec![], notes: vec![], ..diagnostic.clone() };
    if let Some(order) = order_by_extent(&ranges, &extents) {
        let names: Vec<&str> = order.iter().map(|range| range.name.as_str()).collect();
        let title = format!("`{}` counts to `{}`: write `{array}[{}]`", range.name, range.extent, names.join(", "));
        let edits = access.indices.iter().zip(&names).map(|(index, name)| (index.span, (*name).to_owned())).collect();
        return Some(diagnostic.fix_all(title, edits, Applicability::MaybeIncorrect));
    }
    let uses = indexed_extents(case, range.var);
    if uses.iter().all(|used| used.as_ref() == Some(extent)) {
        let corrected = match range.is_thread_index {
            true => format!("threads(… {}: {extent} …)", range.name),
            false => format!("for {} in 0..{extent}", range.name),
        };
        let title = format!(
            "`{}` counts to `{}`, but indexes only axes of length `{extent}`: `{corrected}`",
            range.name, range.extent
        );
        return Some(diagnostic.fix(title, range.extent_span, extent.clone(), Applicability::MaybeIncorrect));
    }
    // The lengths of vectors are often meant to be equal, and the names do not show which of them is wrong.
    if extents.len() == 1 {
        return None;
    }
    Some(diagnostic.help(format!(
        "`{}` counts to `{}`, but axis {axis} of `{array}` has length `{extent}`: is another index meant?",
        range.name, range.extent
    )))
}

/// Returns whether each index is a variable that counts to the length of its axis, or the sum or difference of such a
/// variable and a number.
pub(super) fn match_axes(case: &FaultContext<'_>, access: &BoundsAccess) -> bool {
    access.indices.iter().zip(&access.array.dims).all(|(index, dim)| {
        let variable = match &index.kind {
            ExprKind::Binary { op: BinaryOp::Add | BinaryOp::Sub, left, right } if is_number(right) => left,
            _ => index,
        };
        let range = index_range(case, variable);
        range.is_some_and(|range| is_dimension(case, &range.extent) && case.extent(dim) == Some(range.extent))
    })
}

fn is_number(e: &Expr) -> bool {
    matches!(e.kind, ExprKind::Int(_))
}

/// Returns the range of an index, if it is an index of the kernel's threads or the variable of a loop from 0.
fn index_range(case: &FaultContext<'_>, index: &Expr) -> Option<IndexRange> {
    let ExprKind::Local(id) = index.kind else { return None };
    let name = case.body.locals.get(id)?.name.to_string();
    if let Geometry::Threads { indices, extents, .. } = &case.kernel.geometry
        && let Some(at) = indices.iter().position(|index| *index == id)
    {
        let extent = extents.get(at)?;
        let (extent, extent_span) = (case.text(extent)?, extent.span);
        return Some(IndexRange { var: id, name, extent, extent_span, is_thread_index: true });
    }
    let mut found = None;
    visit::stmts(&case.body.root, &mut |stmt| {
        if let StmtKind::For { var, iter, .. } = &stmt.kind
            && *var == id
            && let ExprKind::Range { start, end: Some(end), inclusive: false, .. } = &iter.kind
            && start.as_ref().is_none_or(|start| matches!(start.kind, ExprKind::Int(0)))
        {
            found = case.text(end).map(|extent| (extent, end.span));
        }
    });
    let (extent, extent_span) = found?;
    Some(IndexRange { var: id, name, extent, extent_span, is_thread_index: false })
}

/// Returns whether the text is the name of a dimension of the kernel that no local shadows.
fn is_dimension(case: &FaultContext<'_>, text: &str) -> bool {
    case.kernel.sig.dims.iter().any(|dim| dim.name == text) && !case.body.locals.iter().any(|(_, l)| l.name == text)
}

/// Returns the ranges in the order of the axes whose lengths they count to, if each axis has exactly one.
fn order_by_extent<'r>(ranges: &'r [Option<IndexRange>], extents: &[String]) -> Option<Vec<&'r IndexRange>> {
    let one_of = |extent: &String| {
        let mut matching = ranges.iter().flatten().filter(|range| range.extent == *extent);
        matching.next().filter(|_| matching.next().is_none())
    };
    let order: Vec<&IndexRange> = extents.iter().map(one_of).collect::<Option<_>>()?;
    let distinct = |at: usize| order.iter().skip(at + 1).all(|range| Some(range.var) != order.get(at).map(|r| r.var));
    (0..order.len()).all(distinct).then_some(order)
}

/// Returns the lengths of the axes that a variable indexes. An entry is `None` if the index contains other operands, or
/// if the length has no name.
fn indexed_extents(case: &FaultContext<'_>, var: LocalId) -> Vec<Option<String>> {
    let mut extents = vec![];
    visit::exprs(&case.body.root, &mut |e| {
        let ExprKind::Index { base, indices } = &e.kind else { return };
        let Type::Array(array) = &base.ty else { return };
        for (index, dim) in indices.iter().zip(&array.dims) {
            let mut is_used = false;
            visit::expr(index, &mut |e| is_used |= matches!(e.kind, ExprKind::Local(id) if id == var));
            if is_used {
                let is_alone = matches!(index.kind, ExprKind::Local(_)) && index.ty == Type::Scalar(Scalar::I32);
                extents.push(case.extent(dim).filter(|_| is_alone));
            }
        }
    });
    extents
}

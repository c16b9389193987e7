//! An index out of bounds: a guard made of the index and the extent as they are written.

use std::sync::Arc;

use super::case::Case;
use super::threads::Number;
use crate::base::diag::Diagnostic;
use crate::check::typed::*;
use crate::check::walk;
use crate::device::Extents;
use crate::lang::builtin::Builtin;
use crate::lang::ops::BinaryOp;
use crate::lang::scalar::Scalar;

/// An access, and the array that it is to.
struct Access {
    array: Arc<ArrayType>,
    kind: LocalKind,
    indices: Vec<Expr>,
}

pub(super) fn advised(
    case: &Case<'_>,
    (name, indices, shape, axis): (&str, &[i64], &[u32], usize),
    diagnostic: Diagnostic,
) -> Diagnostic {
    let (Some(access), Some(&index), Some(&extent)) =
        (access(case, name, shape.len()), indices.get(axis), shape.get(axis))
    else {
        return diagnostic;
    };
    let Some(expr) = access.indices.get(axis) else { return diagnostic };
    if !can_be_guarded(case) {
        return diagnostic;
    }
    if index < 0 {
        return match below(case, expr) {
            Some(guard) => diagnostic.help(format!("guard the access: `if {guard} {{ … }}`")),
            None => diagnostic,
        };
    }
    // Indices in the wrong order have their help.
    if diagnostic.notes.iter().any(|note| note.starts_with("the last axis")) {
        return diagnostic;
    }
    match access.kind {
        LocalKind::Param(_) => argument(case, &access, axis, diagnostic),
        LocalKind::Shared => shared(case, (name, &access), (expr, extent), axis, diagnostic),
        _ => diagnostic,
    }
}

/// An array that the launch gives the kernel: threads without an element have to leave it alone.
fn argument(case: &Case<'_>, access: &Access, axis: usize, mut diagnostic: Diagnostic) -> Diagnostic {
    let Some(guard) = guard(case, access, axis) else { return diagnostic };
    diagnostic.help.clear();
    let number = access.indices.get(axis).and_then(|index| case.number(index));
    if matches!(number, Some((Number::Grid, _))) {
        diagnostic =
            diagnostic.note("a grid is made of whole blocks, so its last block can reach past the end of an array");
    }
    let threads = match (&access.indices[..], &access.array.dims[..]) {
        ([Expr { kind: ExprKind::Local(id), .. }], [dim])
            if number == Some((Number::Grid, 0)) && could_be_threads(case) =>
        {
            let (name, extent) = (case.body.locals.get(*id).map(|local| &local.name), case.extent(dim));
            name.zip(extent.filter(|_| fits_all(case, *id, dim)))
                .map(|(name, n)| format!(", or write the kernel with `threads({name}: {n})`"))
        }
        _ => None,
    };
    diagnostic.help(format!("guard the access: `if {guard} {{ … }}`{}", threads.unwrap_or_default()))
}

/// A shared array has no element for each thread of the grid: which one a thread means is another question than for an argument.
fn shared(
    case: &Case<'_>,
    (name, access): (&str, &Access),
    (expr, extent): (&Expr, u32),
    axis: usize,
    mut diagnostic: Diagnostic,
) -> Diagnostic {
    let Extents::Grid { block, .. } = case.extents else { return diagnostic };
    diagnostic.help.clear();
    let plural = if extent == 1 { "element" } else { "elements" };
    if let (Some((Number::Grid, lane)), Some(text)) = (case.number(expr), case.text(expr))
        && block.get(usize::from(lane)).is_some_and(|&n| n <= extent)
    {
        let letter = ["x", "y", "z"].get(usize::from(lane)).copied().unwrap_or("x");
        let what = match access.array.dims.len() {
            1 => format!("has {extent} {plural}"),
            _ => format!("is {extent} long along axis {axis}"),
        };
        return diagnostic
            .note(format!("`{name}` belongs to one block and {what}; `{text}` numbers the threads of the whole grid"))
            .help(format!("the thread's number in its block is `thread_idx.{letter}`"));
    }
    if extent == 0 {
        return diagnostic.note(format!("`{name}` has no elements along axis {axis}"));
    }
    diagnostic.help(format!(
        "valid indices are 0 to {}: does `{name}` need more elements, or do more threads come here than should?",
        i64::from(extent) - 1
    ))
}

/// Returns the access that a fault is about: the one at its place, else the only one in it.
fn access(case: &Case<'_>, name: &str, rank: usize) -> Option<Access> {
    let at = case.fault.span;
    let (mut exact, mut within) = (vec![], vec![]);
    walk::exprs(&case.body.root, &mut |e| {
        if let (true, ExprKind::Index { base, indices }) = (e.span.is_in(at), &e.kind)
            && let ExprKind::Local(id) = &base.kind
            && let Some(local) = case.body.locals.get(*id)
            && let Type::Array(array) = &local.ty
            && local.name == name
            && indices.len() == rank
        {
            let access = Access { array: array.clone(), kind: local.kind, indices: indices.clone() };
            if e.span == at { exact.push(access) } else { within.push(access) }
        }
    });
    let mut found = if exact.is_empty() { within } else { exact };
    if found.len() == 1 { found.pop() } else { None }
}

/// Returns the condition under which a thread may make the access: that the index is inside, and so are those other indices that
/// number threads.
fn guard(case: &Case<'_>, access: &Access, axis: usize) -> Option<String> {
    let one = |at: usize| {
        let (index, dim) = (access.indices.get(at)?, access.array.dims.get(at)?);
        // An extent is an `i32`, and no number is compared with one of another type.
        let is_own = index.ty == Type::Scalar(Scalar::I32);
        let extent = case.extent(dim).filter(|extent| is_own && !is_hidden(case, extent))?;
        Some(format!("{} < {extent}", case.text(index)?))
    };
    let own = one(axis)?;
    let is_constant = |e: &Expr| matches!(e.kind, ExprKind::Int(_) | ExprKind::Const(_) | ExprKind::Dim(_));
    if access.indices.get(axis).is_none_or(is_constant) {
        return None;
    }
    let others = (0..access.indices.len()).filter_map(|at| match at == axis {
        true => Some(own.clone()),
        false => case.number(access.indices.get(at)?).and_then(|_| one(at)),
    });
    Some(others.collect::<Vec<_>>().join(" && "))
}

/// Whether a local has the name of a dimension that a guard would compare with.
fn is_hidden(case: &Case<'_>, extent: &str) -> bool {
    case.body.locals.iter().any(|(_, local)| local.name == extent)
}

/// Whether an index is only used for arrays of this extent: threads for one of several leave elements of another out.
fn fits_all(case: &Case<'_>, index: LocalId, extent: &Dim) -> bool {
    let mut fits = true;
    walk::exprs(&case.body.root, &mut |e| {
        if let ExprKind::Index { base, indices } = &e.kind
            && let Type::Array(array) = &base.ty
        {
            let mut own =
                indices.iter().zip(&array.dims).filter(|(i, _)| matches!(i.kind, ExprKind::Local(id) if id == index));
            fits &= own.all(|(_, dim)| dim == extent);
        }
    });
    fits
}

/// Whether an `if` around the access would do: not around the condition of a loop, nor around what all threads do together.
fn can_be_guarded(case: &Case<'_>) -> bool {
    let at = case.fault.span;
    let mut can = true;
    walk::stmts(&case.body.root, &mut |stmt| {
        if let StmtKind::While { cond, .. } = &stmt.kind {
            can &= !at.is_in(cond.span);
        }
    });
    walk::exprs(&case.body.root, &mut |e| {
        if let ExprKind::Builtin { builtin: Builtin::Warp(_) | Builtin::Barrier(_), .. } = &e.kind {
            can &= !at.is_in(e.span);
        }
    });
    can
}

/// Returns the condition under which `i - 1` is not negative.
fn below(case: &Case<'_>, index: &Expr) -> Option<String> {
    let ExprKind::Binary { op: BinaryOp::Sub, left, right } = &index.kind else { return None };
    Some(format!("{} >= {}", case.text(left)?, case.text(right)?))
}

/// Whether a grid kernel does nothing that a `threads` kernel cannot do.
fn could_be_threads(case: &Case<'_>) -> bool {
    let mut plain = matches!(case.kernel.geometry, Geometry::Grid { .. });
    plain &= !case.body.locals.iter().any(|(_, local)| local.kind == LocalKind::Shared);
    walk::exprs(&case.body.root, &mut |e| match &e.kind {
        ExprKind::Variable(variable) => plain &= *variable == Builtin::GlobalIdx,
        ExprKind::Swizzle { base, lanes } if matches!(base.kind, ExprKind::Variable(_)) => plain &= lanes[..] == [0],
        ExprKind::Builtin { builtin, .. } => plain &= !matches!(builtin, Builtin::Barrier(_) | Builtin::Warp(_)),
        // A function may do any of it.
        ExprKind::Call { .. } => plain = false,
        _ => {}
    });
    plain
}

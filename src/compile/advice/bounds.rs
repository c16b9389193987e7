//! Advice on an index out of bounds: suggests a guard that consists of the index and the extent, as written in the
//! source.

use super::context::{BoundsAccess, FaultContext};
use super::enclosing::enclosing_blocks;
use super::index_ranges;
use super::thread_variance::{EXCHANGE_INDICES, ThreadCount};
use clk_base::diag::{Applicability, Diagnostic};
use clk_base::source::Span;
use clk_check::typed::*;
use clk_check::visit;
use clk_runtime::{LaunchExtents, are_indices_swapped};
use clk_scalar::Scalar;
use clk_scalar::builtin::Builtin;
use clk_scalar::ops::BinaryOp;

pub(super) fn advise(
    case: &FaultContext<'_>,
    name: &str,
    indices: &[i64],
    shape: &[u32],
    axis: usize,
    diagnostic: Diagnostic,
) -> Diagnostic {
    let (Some(access), Some(&index), Some(&extent)) =
        (faulting_access(case, name, shape.len()), indices.get(axis), shape.get(axis))
    else {
        return diagnostic;
    };
    let Some(expr) = access.indices.get(axis) else { return diagnostic };
    if !can_be_guarded(case) {
        return diagnostic;
    }
    if let Some((title, edits)) = exchanged_guards(case, &access) {
        let mut diagnostic = diagnostic;
        (diagnostic.help, diagnostic.notes) = (vec![], vec![]);
        return diagnostic.fix_all(title, edits, Applicability::MaybeIncorrect);
    }
    if let Some(guard) = stencil_guard(case, name, &access, axis) {
        let mut diagnostic = diagnostic;
        diagnostic.help.clear();
        return diagnostic.help(format!("guard the accesses: `if {guard} {{ … }}`"));
    }
    if let Some(advised) = index_ranges::advise(case, name, &access, axis, &diagnostic) {
        return advised;
    }
    if index < 0 {
        if let Some((title, span, text)) = positive_remainder(case, expr) {
            return diagnostic.fix(title, span, text, Applicability::MaybeIncorrect);
        }
        return match nonnegative_guard(case, expr) {
            Some(guard) => diagnostic.help(format!("guard the access: `if {guard} {{ … }}`")),
            None => diagnostic,
        };
    }
    // If the indices seem to be in the wrong order, the diagnostic already has a better help text, unless the names of
    // the ranges show that the order is right.
    let mut diagnostic = diagnostic;
    let ranges_match = index_ranges::match_axes(case, &access);
    if are_indices_swapped(indices, shape) {
        if !ranges_match {
            return diagnostic;
        }
        (diagnostic.help, diagnostic.notes) = (vec![], vec![]);
    }
    if ranges_match && let Some(guard) = upper_guard(case, name, &access) {
        diagnostic.help.clear();
        return diagnostic.help(format!("guard the accesses: `if {guard} {{ … }}`"));
    }
    match access.kind {
        LocalKind::Param(_) => advise_argument(case, name, &access, axis, diagnostic),
        LocalKind::Shared => advise_shared(case, name, &access, expr, extent, axis, diagnostic),
        _ => diagnostic,
    }
}

/// Advice on an array argument: threads for which there is no element must not access the array.
fn advise_argument(
    case: &FaultContext<'_>,
    name: &str,
    access: &BoundsAccess,
    axis: usize,
    mut diagnostic: Diagnostic,
) -> Diagnostic {
    if let [index] = &access.indices[..]
        && let Some((text, least)) = lower_bound(case, index)
    {
        diagnostic.help.clear();
        let offset = if least.contains(' ') { format!("({least})") } else { least.clone() };
        let title = format!("`{text}` is at least `{least}` here; to begin at 0, write `{name}[{text} - {offset}]`");
        return diagnostic.fix(title, index.span.after(), format!(" - {offset}"), Applicability::MaybeIncorrect);
    }
    if let Some(edits) = one_based_indices(case, access.indices.get(axis)) {
        diagnostic.help.clear();
        let title = "leave the `+ 1` off: indices count from 0";
        return diagnostic.fix_all(title, edits, Applicability::MaybeIncorrect);
    }
    if let Some((help, fix)) = inclusive_loop(case, access, axis) {
        diagnostic.help.clear();
        return match fix {
            Some((span, text)) => diagnostic.fix(help, span, text, Applicability::MaybeIncorrect),
            None => diagnostic.help(help),
        };
    }
    let Some(guard) = guard(case, access, axis) else { return diagnostic };
    diagnostic.help.clear();
    let number = access.indices.get(axis).and_then(|index| case.number(index));
    if matches!(number, Some((ThreadCount::Grid, _))) {
        diagnostic =
            diagnostic.note("a grid is made of whole blocks, so its last block can reach past the end of an array");
    }
    let threads = match (&access.indices[..], &access.array.dims[..]) {
        ([Expr { kind: ExprKind::Local(id), .. }], [dim])
            if number == Some((ThreadCount::Grid, 0)) && could_be_threads(case) =>
        {
            let (name, extent) = (case.body.locals.get(*id).map(|local| &local.name), case.extent(dim));
            name.zip(extent.filter(|_| fits_all(case, *id, dim)))
                .map(|(name, n)| format!(", or write the kernel with `threads({name}: {n})`"))
        }
        _ => None,
    };
    diagnostic.help(format!("guard the access: `if {guard} {{ … }}`{}", threads.unwrap_or_default()))
}

/// Advice on an index that a loop `for k in 0..=N` or `for k in 1..=N` counts up to the extent. Only the first has a
/// fix, because the body of the second may count from 1 as well.
fn inclusive_loop(
    case: &FaultContext<'_>,
    access: &BoundsAccess,
    axis: usize,
) -> Option<(String, Option<(Span, String)>)> {
    let (ExprKind::Local(id), dim) = (&access.indices.get(axis)?.kind, access.array.dims.get(axis)?) else {
        return None;
    };
    let (name, extent) = (&case.body.locals.get(*id)?.name, case.extent(dim)?);
    let mut found = None;
    visit::stmts(&case.body.root, &mut |stmt| {
        if let StmtKind::For { var, iter, .. } = &stmt.kind
            && let ExprKind::Range { start: Some(start), end: Some(end), inclusive: true, .. } = &iter.kind
            && var == id
        {
            let is_extent = case.text(end).as_ref() == Some(&extent);
            let dots = Span { start: start.span.end, end: end.span.start, ..iter.span };
            found = Some((matches!(start.kind, ExprKind::Int(1)), is_extent.then_some(dots)));
        }
    });
    match found? {
        (true, _) => Some((format!("indices start at 0: `for {name} in 0..{extent}` visits all"), None)),
        (false, Some(dots)) => {
            Some((format!("`..=` includes `{extent}`, the index after the last"), Some((dots, "..".into()))))
        }
        (false, None) => None,
    }
}

/// Returns the edits that exchange the extents in the guard `row < W && col < H` of an access `x[row, col]` to an array
/// of the shape [H, W].
fn exchanged_guards(case: &FaultContext<'_>, access: &BoundsAccess) -> Option<(String, Vec<(Span, String)>)> {
    let ([row_index, column_index], [rows, columns]) = (&access.indices[..], &access.array.dims[..]) else {
        return None;
    };
    let (row, column) = (case.text(row_index)?, case.text(column_index)?);
    let (rows, columns) = (case.extent(rows)?, case.extent(columns)?);
    let (mut row_guard, mut column_guard) = (None, None);
    visit::exprs(&case.body.root, &mut |e| {
        let ExprKind::If { cond, then, .. } = &e.kind else { return };
        if !case.fault.span.is_in(then.span) {
            return;
        }
        visit::expr(cond, &mut |e| {
            let ExprKind::Binary { op: BinaryOp::Lt, left, right } = &e.kind else { return };
            let (Some(index), Some(extent)) = (case.text(left), case.text(right)) else { return };
            if index == row {
                row_guard = Some((extent, right.span));
            } else if index == column {
                column_guard = Some((extent, right.span));
            }
        });
    });
    let ((row_extent, row_span), (column_extent, column_span)) = (row_guard?, column_guard?);
    let are_exchanged = rows != columns && row_extent == columns && column_extent == rows;
    if !are_exchanged {
        return None;
    }
    let condition = format!("`{row} < {rows} && {column} < {columns}`");
    let mut edits = vec![(row_span, rows), (column_span, columns)];
    Some(match case.exchanged_indices(row_index, column_index, case.fault.span) {
        Some(indices) => {
            edits.extend(indices);
            (EXCHANGE_INDICES.to_owned(), edits)
        }
        None => (format!("the condition exchanges the extents: {condition}"), edits),
    })
}

/// Returns the condition under which all accesses to neighbors in the statement, such as `x[i - 1] + x[i + 1]`, are in
/// bounds. Without a neighbor on both sides, or with a condition that has part of it already, there is none.
fn stencil_guard(case: &FaultContext<'_>, name: &str, access: &BoundsAccess, axis: usize) -> Option<String> {
    let (center, _) = neighbor(case, access.indices.get(axis)?)?;
    let extent = case.extent(access.array.dims.get(axis)?).filter(|extent| !is_hidden(case, extent))?;
    let enclosing = enclosing_blocks(&case.body.root, case.fault.span);
    let is_guarded = enclosing.iter().filter_map(|block| block.on).any(|on| {
        let mut reads = false;
        visit::expr(on, &mut |e| reads |= case.text(e).as_ref() == Some(&center));
        reads
    });
    let (least, most) = neighbor_offsets(case, name, axis, &center)?;
    (least < 0 && most > 0 && !is_guarded).then(|| format!("{center} >= {} && {center} + {most} < {extent}", -least))
}

/// Returns the least and the greatest offset of the accesses to neighbors of `center` in the faulting statement: -1
/// and 1 for `x[i - 1] + x[i + 1]`.
fn neighbor_offsets(case: &FaultContext<'_>, name: &str, axis: usize, center: &str) -> Option<(i128, i128)> {
    let mut statement = None;
    visit::stmts(&case.body.root, &mut |stmt| {
        if case.fault.span.is_in(stmt.span) {
            statement = Some(stmt);
        }
    });
    let (mut least, mut most) = (0, 0);
    visit::stmt_exprs(statement?, &mut |e| {
        if let ExprKind::Index { base, indices } = &e.kind
            && let ExprKind::Local(id) = base.kind
            && case.body.locals.get(id).is_some_and(|local| local.name == name)
            && let Some((text, offset)) = indices.get(axis).and_then(|index| neighbor(case, index))
            && text == center
        {
            (least, most) = (offset.min(least), offset.max(most));
        }
    });
    Some((least, most))
}

/// Returns the condition under which all accesses to following neighbors in the statement are in bounds, along all
/// axes: `r + 1 < H && c + 1 < W`.
fn upper_guard(case: &FaultContext<'_>, name: &str, access: &BoundsAccess) -> Option<String> {
    let guards = access.indices.iter().zip(&access.array.dims).enumerate().filter_map(|(axis, (index, dim))| {
        let (center, _) = neighbor(case, index)?;
        let (_, most) = neighbor_offsets(case, name, axis, &center).filter(|(_, most)| *most > 0)?;
        Some(format!("{center} + {most} < {}", case.extent(dim)?))
    });
    let guards: Vec<String> = guards.collect();
    (guards.len() > 1).then(|| guards.join(" && "))
}

/// Splits an index into a variable and a constant: `i - 1` into `i` and -1.
fn neighbor(case: &FaultContext<'_>, index: &Expr) -> Option<(String, i128)> {
    if index.ty != Type::Scalar(Scalar::I32) {
        return None;
    }
    match &index.kind {
        ExprKind::Local(_) | ExprKind::Swizzle { .. } => Some((case.text(index)?, 0)),
        ExprKind::Binary { op: op @ (BinaryOp::Add | BinaryOp::Sub), left, right } => {
            let (ExprKind::Local(_) | ExprKind::Swizzle { .. }, ExprKind::Int(offset)) = (&left.kind, &right.kind)
            else {
                return None;
            };
            Some((case.text(left)?, if *op == BinaryOp::Add { *offset } else { -offset }))
        }
        _ => None,
    }
}

/// Returns the edits that remove `+ 1` from all indices `i + 1` of a kernel, if it uses the index `i` of its threads in
/// no other way: then it counts from 1, as in Julia.
fn one_based_indices(case: &FaultContext<'_>, index: Option<&Expr>) -> Option<Vec<(Span, String)>> {
    let thread_index = |e: &Expr| match &e.kind {
        ExprKind::Binary { op: BinaryOp::Add, left, right } => match (&left.kind, &right.kind) {
            (ExprKind::Local(id), ExprKind::Int(1)) => {
                let local = case.body.locals.get(*id)?;
                (local.kind == LocalKind::ThreadIndex).then_some((*id, left.span))
            }
            _ => None,
        },
        _ => None,
    };
    let (id, _) = thread_index(index?)?;
    let (mut uses, mut edits) = (0, Vec::new());
    visit::exprs(&case.body.root, &mut |e| {
        uses += usize::from(matches!(e.kind, ExprKind::Local(local) if local == id));
        if let Some((_, name)) = thread_index(e).filter(|(found, _)| *found == id) {
            edits.push((Span { start: name.end, ..e.span }, String::new()));
        }
    });
    (edits.len() == uses && uses > 1).then_some(edits)
}

/// Advice on a shared array: unlike an argument, it has no element for each thread of the grid, so the intended element
/// is unclear.
fn advise_shared(
    case: &FaultContext<'_>,
    name: &str,
    access: &BoundsAccess,
    expr: &Expr,
    extent: u32,
    axis: usize,
    mut diagnostic: Diagnostic,
) -> Diagnostic {
    let LaunchExtents::Grid { block, .. } = case.extents else { return diagnostic };
    diagnostic.help.clear();
    let plural = if extent == 1 { "element" } else { "elements" };
    if let (Some((ThreadCount::Grid, lane)), Some(text)) = (case.number(expr), case.text(expr))
        && block.get(usize::from(lane)).is_some_and(|&n| n <= extent)
    {
        let letter = ["x", "y", "z"].get(usize::from(lane)).copied().unwrap_or("x");
        let description = match access.array.dims.len() {
            1 => format!("has {extent} {plural}"),
            _ => format!("is {extent} long along axis {axis}"),
        };
        return diagnostic
            .note(format!(
                "`{name}` belongs to one block and {description}; `{text}` numbers the threads of the whole grid"
            ))
            .help(format!("the thread's number in its block is `thread_idx.{letter}`"));
    }
    if extent == 0 {
        return diagnostic.note(format!("`{name}` has no elements along axis {axis}"));
    }
    if let (Some((_, offset)), Some(text)) = (neighbor(case, expr), case.text(expr))
        && offset > 0
        && block.contains(&extent)
    {
        return diagnostic
            .note(format!("for the last threads of a block, `{text}` is an element of the next block"))
            .help(format!(
                "guard the access: `if {text} < {extent} {{ … }}`; or add {offset} to the length of `{name}`, and load \
                 these elements too (a halo)"
            ));
    }
    diagnostic.help(format!(
        "valid indices are 0 to {}: does `{name}` need more elements, or do more threads come here than should?",
        i64::from(extent) - 1
    ))
}

/// Returns the access that faulted: the access at the fault's location or, if there is none, the only access inside
/// that location.
fn faulting_access(case: &FaultContext<'_>, name: &str, rank: usize) -> Option<BoundsAccess> {
    let at = case.fault.span;
    let (mut exact, mut within) = (vec![], vec![]);
    visit::exprs(&case.body.root, &mut |e| {
        if let (true, ExprKind::Index { base, indices }) = (e.span.is_in(at), &e.kind)
            && let ExprKind::Local(id) = &base.kind
            && let Some(local) = case.body.locals.get(*id)
            && let Type::Array(array) = &local.ty
            && local.name == name
            && indices.len() == rank
        {
            let access = BoundsAccess { array: array.clone(), kind: local.kind, indices: indices.clone() };
            if e.span == at { exact.push(access) } else { within.push(access) }
        }
    });
    let mut accesses = if exact.is_empty() { within } else { exact };
    if accesses.len() == 1 { accesses.pop() } else { None }
}

/// Returns the condition under which the access is in bounds along `axis`, and along all axes whose index is a thread
/// number.
fn guard(case: &FaultContext<'_>, access: &BoundsAccess, axis: usize) -> Option<String> {
    let index_guard = |at: usize| {
        let (index, dim) = (access.indices.get(at)?, access.array.dims.get(at)?);
        // Extents are `i32`, and the language does not compare numbers of different types.
        let is_own = index.ty == Type::Scalar(Scalar::I32);
        let extent = case.extent(dim).filter(|extent| is_own && !is_hidden(case, extent))?;
        Some(format!("{} < {extent}", case.text(index)?))
    };
    let this_guard = index_guard(axis)?;
    let is_constant = |e: &Expr| matches!(e.kind, ExprKind::Int(_) | ExprKind::Const(_) | ExprKind::Dim(_));
    if access.indices.get(axis).is_none_or(is_constant) {
        return None;
    }
    let others = (0..access.indices.len()).filter_map(|at| match at == axis {
        true => Some(this_guard.clone()),
        false => case.number(access.indices.get(at)?).and_then(|_| index_guard(at)),
    });
    Some(others.collect::<Vec<_>>().join(" && "))
}

/// Returns whether a local shadows the name of a dimension that a guard would use.
fn is_hidden(case: &FaultContext<'_>, extent: &str) -> bool {
    case.body.locals.iter().any(|(_, local)| local.name == extent)
}

/// Returns whether an index variable is used only along axes of this extent. A `threads` kernel over this extent would
/// skip elements along an axis with a larger extent.
fn fits_all(case: &FaultContext<'_>, index: LocalId, extent: &Dim) -> bool {
    let mut is_only_use = true;
    visit::exprs(&case.body.root, &mut |e| {
        if let ExprKind::Index { base, indices } = &e.kind
            && let Type::Array(array) = &base.ty
        {
            let mut uses =
                indices.iter().zip(&array.dims).filter(|(i, _)| matches!(i.kind, ExprKind::Local(id) if id == index));
            is_only_use &= uses.all(|(_, dim)| dim == extent);
        }
    });
    is_only_use
}

/// Returns whether an `if` can be put around the access. It cannot if the access is in a loop condition or in an
/// operand of a barrier or warp operation.
fn can_be_guarded(case: &FaultContext<'_>) -> bool {
    let at = case.fault.span;
    let mut can = true;
    visit::stmts(&case.body.root, &mut |stmt| {
        if let StmtKind::While { cond, .. } = &stmt.kind {
            can &= !at.is_in(cond.span);
        }
    });
    visit::exprs(&case.body.root, &mut |e| {
        if let ExprKind::Builtin { builtin: Builtin::Warp(_) | Builtin::Barrier(_), .. } = &e.kind {
            can &= !at.is_in(e.span);
        }
    });
    can
}

/// Returns the text of a variable used as an index, and of the value that an enclosing condition proves to be at most
/// this index: `M` in the `else` branch of `if i < M`.
fn lower_bound(case: &FaultContext<'_>, index: &Expr) -> Option<(String, String)> {
    let at = case.fault.span;
    let text = case.text(index).filter(|_| matches!(index.kind, ExprKind::Local(_) | ExprKind::Swizzle { .. }))?;
    let mut bound = None;
    visit::exprs(&case.body.root, &mut |e| {
        let ExprKind::If { cond, then, other } = &e.kind else { return };
        let ExprKind::Binary { op, left, right } = &cond.kind else { return };
        let is_in = |block: &Block| at.is_in(block.span);
        let holds = match op {
            BinaryOp::Lt => other.as_ref().is_some_and(|other| is_in(other)),
            BinaryOp::Ge => is_in(then),
            _ => false,
        };
        if holds && case.text(left).as_ref() == Some(&text) {
            bound = case.text(right);
        }
    });
    Some((text, bound?))
}

/// For an index of the form `(a - b) % n`, which is negative if `a < b`, returns the edit that adds `n` first.
fn positive_remainder(case: &FaultContext<'_>, index: &Expr) -> Option<(String, Span, String)> {
    let ExprKind::Binary { op: BinaryOp::Rem, left, right } = &index.kind else { return None };
    if !matches!(left.kind, ExprKind::Binary { op: BinaryOp::Sub, .. }) {
        return None;
    }
    let (dividend, divisor) = (case.text(left)?, case.text(right)?);
    if divisor.contains(' ') {
        return None;
    }
    let corrected = format!("({dividend} + {divisor}) % {divisor}");
    let title = format!("`%` has the sign of its left operand, so add the divisor first: `{corrected}`");
    Some((title, index.span, corrected))
}

/// For an index of the form `a - b`, returns the condition under which it is not negative: `a >= b`.
fn nonnegative_guard(case: &FaultContext<'_>, index: &Expr) -> Option<String> {
    let ExprKind::Binary { op: BinaryOp::Sub, left, right } = &index.kind else { return None };
    Some(format!("{} >= {}", case.text(left)?, case.text(right)?))
}

/// Returns whether a `grid` kernel could be written as a `threads` kernel: it uses only `global_idx.x`, no shared
/// memory, no barriers and no warp operations.
fn could_be_threads(case: &FaultContext<'_>) -> bool {
    let mut plain = matches!(case.kernel.geometry, Geometry::Grid { .. });
    plain &= !case.body.locals.iter().any(|(_, local)| local.kind == LocalKind::Shared);
    visit::exprs(&case.body.root, &mut |e| match &e.kind {
        ExprKind::Variable(variable) => plain &= *variable == Builtin::GlobalIdx,
        ExprKind::Swizzle { base, lanes } if matches!(base.kind, ExprKind::Variable(_)) => plain &= lanes[..] == [0],
        ExprKind::Builtin { builtin, .. } => plain &= !matches!(builtin, Builtin::Barrier(_) | Builtin::Warp(_)),
        // A called function may use any of these features.
        ExprKind::Call { .. } => plain = false,
        _ => {}
    });
    plain
}

//! Advice on elements of an `out` array that no thread has written.
//!
//! The indices of the first unwritten element determine the thread that a store would need: for `y[i + 1]`, the thread
//! of index `first - 1`. The reason is a launch without this thread, a loop that does not reach the element, or a
//! condition that excludes it. If a store has none of these reasons, the advice is omitted.

use super::context::FaultContext;
use super::thread_values::{SolvedIndex, ThreadValues};
use super::thread_variance::{EXCHANGE_INDICES, ThreadCount};
use clk_base::diag::{Applicability, Diagnostic};
use clk_base::source::Span;
use clk_check::typed::*;
use clk_check::visit;
use clk_runtime::LaunchExtents;
use clk_scalar::builtin::Builtin;
use clk_scalar::ops::BinaryOp;

/// The unwritten elements of an array.
pub(super) struct UnwrittenElements<'a> {
    pub array: &'a str,
    pub shape: &'a [u32],
    /// The indices of the first unwritten element.
    pub first: &'a [u32],
    /// The number of elements of the array.
    pub total: u64,
}

impl UnwrittenElements<'_> {
    /// Returns the first element as it is written: `y[0, 2]`.
    fn place(&self) -> String {
        let indices: Vec<String> = self.first.iter().map(u32::to_string).collect();
        format!("{}[{}]", self.array, indices.join(", "))
    }
}

/// The reason why a store does not write the first unwritten element.
struct SkippedStore {
    at: Span,
    label: String,
    help: Option<String>,
    fix: Option<(String, Vec<(Span, String)>)>,
    /// Whether the launch has no thread for the element.
    needs_threads: bool,
}

pub(super) fn advise(
    case: &FaultContext<'_>,
    elements: &UnwrittenElements<'_>,
    mut diagnostic: Diagnostic,
) -> Diagnostic {
    let mut reasons = skipped_stores(case, elements).unwrap_or_default();
    if reasons.is_empty()
        && let Some((title, size)) = other_block_size(case, elements)
    {
        diagnostic.help.clear();
        return diagnostic.fix(title, size, "block_dim.x", Applicability::MaybeIncorrect);
    }
    reasons.dedup_by_key(|reason| reason.at);
    if reasons.iter().all(|reason| reason.needs_threads) {
        diagnostic = advise_thread_count(case, elements.total, diagnostic);
    }
    for reason in &reasons {
        diagnostic = diagnostic.because(reason.at, &reason.label);
    }
    let Some(first) = reasons.into_iter().next() else { return diagnostic };
    if let Some((title, edits)) = first.fix {
        diagnostic.help.clear();
        return diagnostic.fix_all(title, edits, Applicability::MaybeIncorrect);
    }
    if let Some(help) = first.help {
        diagnostic.help.insert(0, help);
    }
    diagnostic
}

/// Advice on a launch that has fewer threads than the array has elements.
fn advise_thread_count(case: &FaultContext<'_>, elements: u64, mut diagnostic: Diagnostic) -> Diagnostic {
    let (count, block) = match case.extents {
        LaunchExtents::Grid { grid, block } => (thread_count(grid) * thread_count(block), Some(block)),
        LaunchExtents::Threads(n) => (thread_count(n), None),
    };
    if count >= elements {
        return diagnostic;
    }
    let plural = if count == 1 { "thread" } else { "threads" };
    diagnostic = diagnostic.note(format!("the launch has {count} {plural} for {elements} elements"));
    // If the number of elements is a multiple of the block size, rounding is not the cause.
    if block.is_some_and(|block| !elements.is_multiple_of(thread_count(block).max(1)))
        && let Some((written, rounded)) = find_rounded_down(case)
    {
        diagnostic.help.insert(0, format!("`{written}` rounds down: `{rounded}` blocks?"));
    }
    diagnostic
}

fn thread_count(extents: [u32; 3]) -> u64 {
    extents.iter().map(|&n| u64::from(n)).fold(1, u64::saturating_mul)
}

/// Returns an extent of the grid that is rounded down, such as `N / 4` with blocks of 4 threads, and its rounded-up
/// form.
fn find_rounded_down(case: &FaultContext<'_>) -> Option<(String, String)> {
    let Geometry::Grid { grid, block, .. } = &case.kernel.geometry else { return None };
    grid.iter().zip(block).find_map(|(blocks, thread_count)| {
        let ExprKind::Binary { op: BinaryOp::Div, left, right } = &blocks.kind else { return None };
        let (n, by) = (case.text(left)?, case.text(right)?);
        (case.text(thread_count)? == by).then(|| (format!("{n} / {by}"), format!("ceil_div({n}, {by})")))
    })
}

/// Returns why each store to the array skips the first unwritten element, or `None` if this is unknown for one of them.
fn skipped_stores(case: &FaultContext<'_>, elements: &UnwrittenElements<'_>) -> Option<Vec<SkippedStore>> {
    let is_array = |local: &Local| local.name == elements.array && matches!(local.kind, LocalKind::Param(_));
    let (array, local) = case.body.locals.iter().find(|(_, local)| is_array(local))?;
    let Type::Array(ty) = &local.ty else { return None };
    // A function or an atomic operation that takes the array may write it as well.
    let is_array = |e: &Expr| matches!(e.kind, ExprKind::Local(id) if id == array);
    let (mut uses, mut harmless_uses) = (0, 0);
    visit::exprs(&case.body.root, &mut |e| {
        uses += usize::from(is_array(e));
        harmless_uses += match &e.kind {
            ExprKind::Index { base, .. } => usize::from(is_array(base)),
            ExprKind::Builtin { builtin: Builtin::Len | Builtin::Shape, args, .. } => {
                args.iter().filter(|arg| is_array(arg)).count()
            }
            _ => 0,
        };
    });
    let mut stores = vec![];
    visit::stmts(&case.body.root, &mut |stmt| {
        let StmtKind::Assign { place, .. } = &stmt.kind else { return };
        let mut access: &Expr = place;
        while let Some(base) = visit::base(access) {
            match &access.kind {
                ExprKind::Index { indices, .. } if is_array(base) => stores.push((access, indices)),
                _ => {}
            }
            access = base;
        }
    });
    if uses != harmless_uses {
        return None;
    }
    let mut reasons = vec![];
    for (store, indices) in stores {
        let mut values = ThreadValues::new(case, ty, elements.shape);
        let solved = indices.iter().zip(elements.first).map(|(index, &at)| values.solve(index, at.into()));
        match solved.max()? {
            SolvedIndex::Solved => reasons.push(
                missing_thread(case, &values, ty, elements, store, indices)
                    .or_else(|| loop_without(&values, elements, store))
                    .or_else(|| false_condition(&values, elements, store))
                    .or_else(|| early_return(&values, elements, store))?,
            ),
            SolvedIndex::OtherElement => {}
            SolvedIndex::Unknown => return None,
        }
    }
    Some(reasons)
}

/// The launch has no thread with the indices that the store needs.
fn missing_thread(
    case: &FaultContext<'_>,
    values: &ThreadValues<'_, '_>,
    array: &ArrayType,
    elements: &UnwrittenElements<'_>,
    store: &Expr,
    indices: &[Expr],
) -> Option<SkippedStore> {
    match (&case.kernel.geometry, case.extents) {
        (Geometry::Threads { indices: locals, extents, .. }, LaunchExtents::Threads(counts)) => {
            let at = (0..locals.len()).find(|&at| values.local(locals[at]).is_some_and(|i| i >= counts[at].into()))?;
            let (name, extent) = (&case.body.locals.get(locals[at])?.name, extents.get(at)?);
            let axis = indices.iter().position(|index| matches!(index.kind, ExprKind::Local(id) if id == locals[at]));
            let help = axis.zip(case.text(extent)).and_then(|(axis, text)| {
                let size = case.extent(array.dims.get(axis)?)?;
                let declared = match array.dims.len() {
                    1 => format!("declare `{}` with `{text}` elements", elements.array),
                    _ => format!("declare axis {axis} of `{}` with the extent `{text}`", elements.array),
                };
                Some(format!("{declared}, or launch threads for all: `threads({name}: {size})`"))
            });
            let label = last_index(name, counts[at].into());
            Some(SkippedStore { at: extent.span, label, help, fix: None, needs_threads: true })
        }
        (Geometry::Grid { span, .. }, LaunchExtents::Grid { grid, block }) => {
            let count = |lane: u8| {
                let lane = usize::from(lane);
                Some(u64::from(*grid.get(lane)?) * u64::from(*block.get(lane)?))
            };
            let lane = (0..3).find(|&lane| {
                values.global_index(lane).zip(count(lane)).is_some_and(|(index, count)| index >= count.into())
            })?;
            let letter = ["x", "y", "z"].get(usize::from(lane))?;
            Some(SkippedStore {
                at: *span,
                label: last_index(&format!("global_idx.{letter}"), count(lane)?),
                help: None,
                fix: exchange_axes(case, elements, store, indices, &count),
                needs_threads: true,
            })
        }
        _ => None,
    }
}

fn last_index(index: &str, count: u64) -> String {
    match count.checked_sub(1) {
        Some(last) => format!("`{index}` ends at {last} in this launch"),
        None => "this launch has no threads".to_owned(),
    }
}

/// Returns the edits that exchange `.x` and `.y` if they count along the wrong axes of a two-dimensional array: `.x`
/// counts along the last axis. If they do not, the extents of the grid are exchanged.
fn exchange_axes(
    case: &FaultContext<'_>,
    elements: &UnwrittenElements<'_>,
    store: &Expr,
    indices: &[Expr],
    count: &dyn std::ops::Fn(u8) -> Option<u64>,
) -> Option<(String, Vec<(Span, String)>)> {
    let ([row, column], &[rows, columns]) = (indices, elements.shape) else { return None };
    let lane = |index: &Expr| match case.number(index) {
        Some((ThreadCount::Grid, lane)) if lane < 2 => Some(lane),
        _ => None,
    };
    let (row_lane, column_lane) = (lane(row)?, lane(column)?);
    let would_fit = count(column_lane)? >= rows.into() && count(row_lane)? >= columns.into();
    if row_lane == column_lane || !would_fit {
        return None;
    }
    if column_lane == 0 {
        let Geometry::Grid { grid, block, .. } = &case.kernel.geometry else { return None };
        let ([x, y], [block_x, block_y]) = (&grid[..], &block[..]) else { return None };
        let (x_text, y_text) = (case.text(x)?, case.text(y)?);
        let title = format!("the extents of `grid` are x, then y: `grid({y_text}, {x_text})`");
        return (case.text(block_x)? == case.text(block_y)?).then(|| (title, vec![(x.span, y_text), (y.span, x_text)]));
    }
    case.exchanged_indices(row, column, store.span).map(|edits| (EXCHANGE_INDICES.to_owned(), edits))
}

/// A `for` loop around the store does not reach the element.
fn loop_without(values: &ThreadValues<'_, '_>, elements: &UnwrittenElements<'_>, store: &Expr) -> Option<SkippedStore> {
    let case = values.case;
    let mut reason = None;
    visit::stmts(&case.body.root, &mut |stmt| {
        let StmtKind::For { var, iter, body, .. } = &stmt.kind else { return };
        let ExprKind::Range { start, end, inclusive, step: None } = &iter.kind else { return };
        let (Some(at), Some(local)) = (values.local(*var), case.body.locals.get(*var)) else { return };
        if !store.span.is_in(body.span) {
            return;
        }
        let start = start.as_ref().map_or(Some(0), |start| values.evaluate(start));
        let last = end.as_ref().and_then(|end| values.evaluate(end)).map(|end| end - i128::from(!inclusive));
        let (label, place) = match (start, last) {
            (Some(start), _) if at < start => (format!("`{}` begins at {start}", local.name), "before"),
            (_, Some(last)) if at > last => (format!("`{}` ends at {last}", local.name), "after"),
            _ => return,
        };
        let help = Some(format!("write `{}` {place} the loop", elements.place()));
        reason = Some(SkippedStore { at: iter.span, label, help, fix: None, needs_threads: false });
    });
    reason
}

/// A condition around the store is false for the element.
fn false_condition(
    values: &ThreadValues<'_, '_>,
    elements: &UnwrittenElements<'_>,
    store: &Expr,
) -> Option<SkippedStore> {
    let mut reason = None;
    visit::exprs(&values.case.body.root, &mut |e| {
        let ExprKind::If { cond, then, other } = &e.kind else { return };
        let place = elements.place();
        if store.span.is_in(then.span) && values.evaluate(cond) == Some(0) {
            let written = values.case.place(store).unwrap_or_else(|| format!("{}[…]", elements.array));
            let help = match other {
                Some(_) => format!("write `{written}` in the `else` branch, too"),
                None => {
                    format!("add `else {{ {written} = … }}`, which writes the elements that the condition excludes")
                }
            };
            let at = false_operand(values, cond).span;
            let label = format!("this is false for `{place}`");
            reason = Some(SkippedStore { at, label, help: Some(help), fix: None, needs_threads: false });
        }
        if other.as_ref().is_some_and(|other| store.span.is_in(other.span)) && values.evaluate(cond) == Some(1) {
            let help = Some(format!("write `{place}` in the first branch, too"));
            let label = format!("this is true for `{place}`");
            reason = Some(SkippedStore { at: cond.span, label, help, fix: None, needs_threads: false });
        }
    });
    reason
}

/// Returns the operand of `a && b` that is false.
fn false_operand<'e>(values: &ThreadValues<'_, '_>, condition: &'e Expr) -> &'e Expr {
    match &condition.kind {
        ExprKind::Binary { op: BinaryOp::And, left, right } => match values.evaluate(left) {
            Some(0) => false_operand(values, left),
            _ => false_operand(values, right),
        },
        _ => condition,
    }
}

/// The thread of the element returns before the store.
fn early_return(values: &ThreadValues<'_, '_>, elements: &UnwrittenElements<'_>, store: &Expr) -> Option<SkippedStore> {
    let mut reason = None;
    visit::exprs(&values.case.body.root, &mut |e| {
        let ExprKind::If { cond, then, .. } = &e.kind else { return };
        let returns = then.stmts.iter().find(|stmt| matches!(stmt.kind, StmtKind::Return(_)));
        if let Some(returns) = returns
            && then.span.end <= store.span.start
            && values.evaluate(cond) == Some(1)
        {
            let place = elements.place();
            let label = format!("the thread of `{place}` returns here");
            let fix = inverted_guard(values.case, cond, store);
            let help = fix.is_none().then(|| format!("write `{place}` before the `return`"));
            reason = Some(SkippedStore { at: returns.span, label, help, fix, needs_threads: false });
        }
    });
    reason
}

/// If a condition holds for the elements of the array, as in `if i < N { return }` before `y[i] = …`, returns the
/// edit that inverts it.
fn inverted_guard(case: &FaultContext<'_>, cond: &Expr, store: &Expr) -> Option<(String, Vec<(Span, String)>)> {
    let ExprKind::Binary { op: BinaryOp::Lt, left, right } = &cond.kind else { return None };
    let ExprKind::Index { base, indices } = &store.kind else { return None };
    let Type::Array(array) = &base.ty else { return None };
    let (index, extent) = (case.text(left)?, case.text(right)?);
    let mut axes = indices.iter().zip(&array.dims);
    let is_guard =
        axes.any(|(at, dim)| case.text(at).as_ref() == Some(&index) && case.extent(dim).as_ref() == Some(&extent));
    let text = format!("{index} >= {extent}");
    let title = format!("the condition is inverted: the threads without an element return if `{text}`");
    is_guard.then(|| (title, vec![(cond.span, text)]))
}

/// If the only store to the array has the index `block_idx.x * 256 + thread_idx.x`, but the blocks of the launch have
/// another number of threads, returns the span of this number.
fn other_block_size(case: &FaultContext<'_>, elements: &UnwrittenElements<'_>) -> Option<(String, Span)> {
    let LaunchExtents::Grid { block, .. } = case.extents else { return None };
    let mut stored = vec![];
    visit::stmts(&case.body.root, &mut |stmt| {
        if let StmtKind::Assign { place, .. } = &stmt.kind
            && let ExprKind::Index { base, indices } = &place.kind
            && let ExprKind::Local(id) = base.kind
            && case.body.locals.get(id).is_some_and(|local| local.name == elements.array)
        {
            stored.push(indices);
        }
    });
    let [indices] = &stored[..] else { return None };
    let [index] = &indices[..] else { return None };
    let is_variable = |e: &Expr, name: &str| case.text(e).is_some_and(|text| text == name);
    let ExprKind::Binary { op: BinaryOp::Add, left, right } = &case.definition(index).kind else { return None };
    let ExprKind::Binary { op: BinaryOp::Mul, left: blocks, right: size } = &left.kind else { return None };
    let ExprKind::Int(threads) = size.kind else { return None };
    let is_other = threads != i128::from(block[0]);
    (is_other && is_variable(blocks, "block_idx.x") && is_variable(right, "thread_idx.x"))
        .then(|| (format!("a block has {} threads, not {threads}", block[0]), size.span))
}

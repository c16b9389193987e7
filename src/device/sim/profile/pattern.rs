//! A product of matrices, written as a loop in a kernel with one thread for each element of the result.
//!
//! Input: a kernel. Output: the loop, and the factors as a script writes them. The form is `s += a[i, k] * b[k, j]`, where `k` is the counter of the loop
//! and `i`, `j` are the indices of the thread, or with the indices of a factor exchanged. Which of them is the row of the product, the element says that the thread
//! stores.

use crate::device::profile::Product;
use crate::ir::def::*;
use crate::ir::visit::each_stmt;
use crate::lang::ops::MathFn;

/// Returns the product, if the kernel has such a loop.
pub(crate) fn product(module: &Module) -> Option<Product> {
    let f = module.functions.get(module.kernel.body)?;
    let Form::Threads { rank: 2 } = module.kernel.form else { return None };
    let (row, column) = stored(f)?;
    let mut found = None;
    each_stmt(&f.body, &mut |stmt| {
        if let StmtKind::For { local, body, .. } = &stmt.kind {
            let sum = |stmt: &Stmt| match stmt.kind {
                StmtKind::Write { local: sum, value } => of_sum(f, (row, column), *local, sum, value),
                _ => None,
            };
            if let (None, Some((left, right))) = (&found, body.iter().find_map(sum)) {
                found = Some(Product { span: stmt.span, left, right });
            }
        }
    });
    found
}

/// Returns which indices of the thread are the row and the column of the element that it stores; `None` if it stores several, or another.
fn stored(f: &Function) -> Option<(u8, u8)> {
    let index = |e: ExprId| match f.exprs[e].kind {
        ExprKind::Index(index) => Some(index),
        _ => None,
    };
    let mut all = vec![];
    each_stmt(&f.body, &mut |stmt| {
        if let StmtKind::Store { place, .. } = &stmt.kind
            && matches!(f.memories[place.memory].space, Space::Global { .. })
        {
            all.push(match place.indices[..] {
                [row, column] => index(row).zip(index(column)),
                _ => None,
            });
        }
    });
    let (row, column) = (*all.first()?)?;
    (row != column && all.iter().all(|other| *other == Some((row, column)))).then_some((row, column))
}

/// Returns the factors, if the value adds their product to the sum: the left one has rows of the product, the right one columns.
fn of_sum(
    f: &Function,
    (row, column): (u8, u8),
    counter: LocalId,
    sum: LocalId,
    value: ExprId,
) -> Option<(String, String)> {
    let kind = |e: ExprId| &f.exprs[e].kind;
    let is_sum = |e: ExprId| *kind(e) == ExprKind::Read(sum);
    let (a, b) = match kind(value) {
        ExprKind::Math { function: MathFn::Fma, args } if is_sum(*args.get(2)?) => (args[0], args[1]),
        ExprKind::Binary { op: BinOp::Add, left, right } => {
            let term = if is_sum(*left) { *right } else { *left };
            let ExprKind::Binary { op: BinOp::Mul, left: a, right: b } = *kind(term) else { return None };
            if !is_sum(*left) && !is_sum(*right) {
                return None;
            }
            (a, b)
        }
        _ => return None,
    };
    let factor = |e: ExprId| {
        let ExprKind::Load { place, .. } = kind(e) else { return None };
        let [row, column] = place.indices[..] else { return None };
        let counts = |e: ExprId| *kind(e) == ExprKind::Read(counter);
        let index = |e: ExprId| match kind(e) {
            ExprKind::Index(index) => Some(*index),
            _ => None,
        };
        let memory = &f.memories[place.memory];
        let global = matches!(memory.space, Space::Global { .. });
        // The index of the thread, and whether the counter is the row.
        match (counts(row), counts(column)) {
            (true, false) if global => Some((memory.name.clone(), index(column)?, true)),
            (false, true) if global => Some((memory.name.clone(), index(row)?, false)),
            _ => None,
        }
    };
    let (a, b) = (factor(a)?, factor(b)?);
    let (left, right) = match (a.1, b.1) {
        (i, j) if (i, j) == (row, column) => (a, b),
        (i, j) if (i, j) == (column, row) => (b, a),
        _ => return None,
    };
    let text = |name: String, turned: bool| if turned { format!("transpose({name})") } else { name };
    Some((text(left.0, left.2), text(right.0, !right.2)))
}

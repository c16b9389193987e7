//! Recognizes a matrix product written as a loop, in a kernel with one thread per element of the result.
//!
//! Input: a kernel. Output: the loop, and the two matrices as expressions of the script, such as `transpose(a)`. The
//! pattern is `s += a[i, k] * b[k, j]`, where `k` is the loop counter and `i`, `j` are the thread's indices. The
//! indices of each matrix may be swapped. The element that the thread stores determines which index is the row of the
//! product.

use clk_ir::def::*;
use clk_ir::visit::each_stmt;
use clk_runtime::profile::ProductLoop;
use clk_scalar::ops::MathFn;

/// Returns the first matrix product of the kernel that is written as a loop; `None` if there is none.
pub(crate) fn product(module: &Module) -> Option<ProductLoop> {
    let f = module.functions.get(module.kernel.body)?;
    let LaunchForm::Threads { rank: 2 } = module.kernel.form else { return None };
    let (row, column) = stored_indices(f)?;
    let mut result = None;
    each_stmt(&f.body, &mut |stmt| {
        if let StmtKind::For { local, body, .. } = &stmt.kind {
            let sum = |stmt: &Stmt| match stmt.kind {
                StmtKind::Write { local: sum, value } => sum_factors(f, row, column, *local, sum, value),
                _ => None,
            };
            if let (None, Some((left, right))) = (&result, body.iter().find_map(sum)) {
                result = Some(ProductLoop { span: stmt.span, left, right });
            }
        }
    });
    result
}

/// Returns which thread indices are the row and the column of the element that a thread stores. `None` if the thread
/// stores at several positions, or if these indices are not two different thread indices.
fn stored_indices(f: &Function) -> Option<(u8, u8)> {
    let index = |e: ExprId| match f.exprs[e].kind {
        ExprKind::Index(index) => Some(index),
        _ => None,
    };
    let mut all = vec![];
    each_stmt(&f.body, &mut |stmt| {
        if let StmtKind::Store { place, .. } = &stmt.kind
            && matches!(f.memories[place.memory].space, MemorySpace::Global { .. })
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

/// Returns the left and the right matrix, if the value is the sum plus a product of their elements. `row` and `column`
/// number the thread indices that are the row and the column of the result; `counter` is the loop counter.
fn sum_factors(
    f: &Function,
    row: u8,
    column: u8,
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
        let global = matches!(memory.space, MemorySpace::Global { .. });
        // The name of the matrix, the thread index in its indices, and whether its row index is the loop counter.
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

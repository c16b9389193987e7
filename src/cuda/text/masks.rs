//! Mask elimination for tile programs. A mask is a condition on an element that, for most tiles in a loop, holds for
//! all elements of the tile.
//!
//! Input: the function that computes an element. Output: a test that the condition holds for all elements of a tile,
//! and the function without the condition. A comparison of values that are affine in row and column holds for all
//! elements if it holds for the extreme values.

use clk_ir::def::{BinOp, ElementLayout, Expr, ExprId, ExprKind, Function, KernelParam, Module, Scalar, StmtKind, Ty};

const I32: Ty = Ty::Scalar(Scalar::I32);

/// One side of a comparison. `base` computes its value at row 0 and column 0. Over the tile, the value differs from
/// this by at least `offsets[0]` and at most `offsets[1]`.
pub(super) struct MaskSide {
    pub base: Module,
    pub offsets: [i64; 2],
}

/// A mask, and how to test it: the condition holds for all elements if `small` is less than `large` for all offsets (or
/// equal to it, if `equal`).
pub(super) struct ElementMask {
    pub small: MaskSide,
    pub large: MaskSide,
    pub equal: bool,
    /// The function for tiles in which the condition holds for all elements.
    pub within: Module,
    /// Set if the function `within` only returns the value of a parameter: the number of this parameter.
    pub result_param: Option<usize>,
}

/// Returns the mask of a function that is evaluated for this many rows and columns. The function's parameters from
/// number `first` on vary between elements.
pub(super) fn mask(module: &Module, first: usize, extents: [u32; 2]) -> Option<ElementMask> {
    let function = &module.functions[module.kernel.body];
    let selects = function.body.iter().filter_map(|stmt| match stmt.kind {
        StmtKind::Let(id) => match function.exprs[id].kind {
            ExprKind::Select { cond, then, .. } => Some((id, cond, then)),
            _ => None,
        },
        _ => None,
    });
    let mut compared = selects.filter_map(|(id, cond, then)| match function.exprs[cond].kind {
        ExprKind::Binary { op, left, right } => {
            let (small, large, equal) = match op {
                BinOp::Lt => (left, right, false),
                BinOp::Le => (left, right, true),
                BinOp::Gt => (right, left, false),
                BinOp::Ge => (right, left, true),
                _ => return None,
            };
            let steps = [small, large].map(|side| Some(side).filter(|&side| is_i32(function, side)));
            let [Some(a), Some(b)] = steps.map(|side| steps_of(function, side?, first)) else { return None };
            Some((id, then, (small, a), (large, b), equal))
        }
        _ => None,
    });
    let (id, then, (small, a), (large, b), equal) = compared.next()?;
    let side = |at: ExprId, steps: [i64; 2]| {
        let most = [0, 1].map(|k| steps[k] * i64::from(extents[k] - 1));
        let offsets = [most.iter().map(|&n| n.min(0)).sum(), most.iter().map(|&n| n.max(0)).sum()];
        Some(MaskSide { base: with_result(module, at)?, offsets })
    };
    let (small, large) = (side(small, a)?, side(large, b)?);
    let result_param = match (stored_value(function)? == id, &function.exprs[then].kind) {
        (true, ExprKind::Param(param)) => Some(*param as usize),
        _ => None,
    };
    Some(ElementMask { small, large, equal, within: without_condition(module, id), result_param })
}

fn is_i32(function: &Function, id: ExprId) -> bool {
    function.exprs[id].ty == I32
}

/// Returns the difference of a value between adjacent rows and between adjacent columns, or `None` if the value is not
/// affine. 32-bit values wrap, so adding these differences to the base yields the value only if the sum is in range.
fn steps_of(function: &Function, id: ExprId, first: usize) -> Option<[i64; 2]> {
    let expr = &function.exprs[id];
    let constant_value = |id: ExprId| i64::try_from(function.const_integer(id)?).ok();
    let small = |steps: [i64; 2]| steps.iter().all(|n| n.abs() < 1 << 20).then_some(steps);
    match expr.kind {
        ExprKind::Const(_) | ExprKind::Extent(..) => Some([0, 0]),
        ExprKind::Param(param) => ((param as usize) < first).then_some([0, 0]),
        ExprKind::Index(k) if k < 2 => Some(if k == 0 { [1, 0] } else { [0, 1] }),
        ExprKind::Binary { op: op @ (BinOp::Add | BinOp::Sub | BinOp::Mul), left, right } if expr.ty == I32 => {
            let (a, b) = (steps_of(function, left, first)?, steps_of(function, right, first)?);
            match op {
                BinOp::Add => small([a[0] + b[0], a[1] + b[1]]),
                BinOp::Sub => small([a[0] - b[0], a[1] - b[1]]),
                _ if a == [0, 0] && b == [0, 0] => Some(a),
                _ => match (constant_value(left), constant_value(right)) {
                    (Some(n), _) if n.abs() < 1 << 20 => small([n * b[0], n * b[1]]),
                    (_, Some(n)) if n.abs() < 1 << 20 => small([n * a[0], n * a[1]]),
                    _ => None,
                },
            }
        }
        _ => None,
    }
}

/// Returns the value that a function stores at its end as its result.
pub(super) fn stored_value(function: &Function) -> Option<ExprId> {
    match function.body.last()?.kind {
        StmtKind::Store { value, ref place, .. } if place.indices.is_empty() => Some(value),
        _ => None,
    }
}

/// Returns the function with a different one of its values as the result.
fn with_result(module: &Module, value: ExprId) -> Option<Module> {
    let mut module = module.clone();
    let Some(KernelParam::Array { memory, .. }) = module.kernel.params.last() else { return None };
    let function = &mut module.functions[module.kernel.body];
    stored_value(function)?;
    function.memories[*memory].layout = ElementLayout::plain(I32);
    if let StmtKind::Store { value: stored_value, .. } = &mut function.body.last_mut()?.kind {
        *stored_value = value;
    }
    Some(module)
}

/// Returns the function with the condition of a `select` replaced by `true`.
fn without_condition(module: &Module, select: ExprId) -> Module {
    let mut module = module.clone();
    let function = &mut module.functions[module.kernel.body];
    let span = function.spans[select];
    let yes = function.exprs.push(Expr { kind: ExprKind::Const(1), ty: Ty::Scalar(Scalar::Bool) });
    function.spans.push(span);
    if let ExprKind::Select { cond, .. } = &mut function.exprs[select].kind {
        *cond = yes;
    }
    module
}

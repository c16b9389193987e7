//! Masks: elements whose condition is the same in most of the tiles that a loop computes.
//!
//! In: the kernel of an element. Out: numbers that say when its condition holds for all elements of a tile, and the kernel without it. Idea:
//! a comparison of numbers that grow steadily along rows and columns holds everywhere if it holds for the extremes.

use crate::ir::def::{BinOp, Expr, ExprId, ExprKind, Function, KernelParam, Layout, Module, Scalar, StmtKind, Ty};

const I32: Ty = Ty::Scalar(Scalar::I32);

/// A number that differs between elements: at row 0 and column 0 it is what a kernel computes, and elsewhere more by up to the second of
/// these, and less by up to the first one.
pub(super) struct Side {
    pub base: Module,
    pub offsets: [i64; 2],
}

/// When a condition holds for all elements: the first side is less than, or with `equal` at most, the second one.
pub(super) struct Mask {
    pub small: Side,
    pub large: Side,
    pub equal: bool,
    /// The kernel where it holds.
    pub within: Module,
    /// The parameter whose value the kernel then gives, if that is all it does.
    pub gives: Option<usize>,
}

/// Returns the mask of a kernel that is computed for so many rows and columns, whose parameters from `first` on are not the same for all elements.
pub(super) fn mask(module: &Module, first: usize, extents: [u32; 2]) -> Option<Mask> {
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
        Some(Side { base: giving(module, at)?, offsets })
    };
    let (small, large) = (side(small, a)?, side(large, b)?);
    let gives = match (stored(function)? == id, &function.exprs[then].kind) {
        (true, ExprKind::Param(param)) => Some(*param as usize),
        _ => None,
    };
    Some(Mask { small, large, equal, within: without(module, id), gives })
}

fn is_i32(function: &Function, id: ExprId) -> bool {
    function.exprs[id].ty == I32
}

/// Returns by how much a number grows from row to row and from column to column; `None` if it is not steady. Numbers of 32 bits wrap, so that the
/// sum of steps is exact unless it leaves their range.
fn steps_of(function: &Function, id: ExprId, first: usize) -> Option<[i64; 2]> {
    let expr = &function.exprs[id];
    let known = |id: ExprId| match function.exprs[id].kind {
        ExprKind::Const(bits) => Some(i64::from(bits as u32 as i32)),
        _ => None,
    };
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
                _ => match (known(left), known(right)) {
                    (Some(n), _) if n.abs() < 1 << 20 => small([n * b[0], n * b[1]]),
                    (_, Some(n)) if n.abs() < 1 << 20 => small([n * a[0], n * a[1]]),
                    _ => None,
                },
            }
        }
        _ => None,
    }
}

/// Returns the value that a kernel stores at its end.
pub(super) fn stored(function: &Function) -> Option<ExprId> {
    match function.body.last()?.kind {
        StmtKind::Store { value, ref place, .. } if place.indices.is_empty() => Some(value),
        _ => None,
    }
}

/// Returns the kernel that computes another of its values.
fn giving(module: &Module, value: ExprId) -> Option<Module> {
    let mut module = module.clone();
    let Some(KernelParam::Array { memory, .. }) = module.kernel.params.last() else { return None };
    let function = &mut module.functions[module.kernel.body];
    stored(function)?;
    function.memories[*memory].layout = Layout::plain(I32);
    if let StmtKind::Store { value: stored, .. } = &mut function.body.last_mut()?.kind {
        *stored = value;
    }
    Some(module)
}

/// Returns the kernel without a condition, which holds.
fn without(module: &Module, select: ExprId) -> Module {
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

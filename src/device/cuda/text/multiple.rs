//! Powers of two that divide a number of a block, whatever the launch.
//!
//! In: the kernel that computes it, and what divides the counters of the loops around. Out: a power of two. Idea: those that divide both
//! operands divide a sum, and also when it wraps; those of factors are multiplied.
//!
//! The tensor memory accelerator copies boxes whose first column is a multiple of 16 bytes, and ends any other copy with an illegal instruction.

use super::masks::stored;
use crate::ir::def::{BinOp, ExprId, ExprKind, Function, Module};
use crate::lang::ops::UnaryOp;

/// The exponent of the largest power of two that is asked for.
const MOST: u32 = 8;

/// Returns the exponent of a power of two that divides the number which a kernel computes. Of its parameters from `first` on these are known.
pub(super) fn exponent(module: &Module, first: usize, known: &[u32]) -> u32 {
    let function = &module.functions[module.kernel.body];
    stored(function).map_or(0, |value| of(function, value, first, known))
}

fn of(function: &Function, id: ExprId, first: usize, known: &[u32]) -> u32 {
    let of = |id: ExprId| of(function, id, first, known);
    let constant = |id: ExprId| match function.exprs[id].kind {
        ExprKind::Const(bits) => Some(bits),
        _ => None,
    };
    if !function.exprs[id].ty.scalar().is_int() {
        return 0;
    }
    match function.exprs[id].kind {
        ExprKind::Const(bits) => bits.trailing_zeros().min(MOST),
        ExprKind::Param(param) => {
            (param as usize).checked_sub(first).and_then(|at| known.get(at)).copied().unwrap_or(0)
        }
        ExprKind::Unary { op: UnaryOp::Neg, value } => of(value),
        ExprKind::Convert(value) if function.exprs[value].ty.scalar().is_int() => of(value),
        ExprKind::Binary { op: BinOp::Add | BinOp::Sub | BinOp::Or | BinOp::Xor | BinOp::Rem, left, right } => {
            of(left).min(of(right))
        }
        ExprKind::Binary { op: BinOp::Mul, left, right } => (of(left) + of(right)).min(MOST),
        ExprKind::Binary { op: BinOp::And, left, right } => of(left).max(of(right)),
        ExprKind::Binary { op: BinOp::Shl, left, right } => {
            let by = constant(right).filter(|&by| by < 32).map_or(0, |by| by as u32);
            (of(left) + by).min(MOST)
        }
        ExprKind::Select { then, other, .. } => of(then).min(of(other)),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::text::parse;

    /// What divides the value of these statements, `%9`, where 2^5 divides `p` and nothing is known to divide `q`.
    #[track_caller]
    fn of(body: &str) -> u32 {
        let head = "kernel k(p: i32, q: i32, y: out @y) grid\nfn k() {\n    global 2 out @y: i32[]\n";
        let text = format!("{head}{body}\n    store @y[] = %9\n}}\n");
        let module = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        exponent(&module, 0, &[5, 0])
    }

    #[test]
    fn what_divides_a_number() {
        assert_eq!(of("%9: i32 = arg0 * 3i32"), 5);
        assert_eq!(of("%9: i32 = arg0 * 4i32"), 7);
        assert_eq!(of("%9: i32 = arg0 + 8i32"), 3);
        assert_eq!(of("%9: i32 = arg0 + 1i32"), 0);
        assert_eq!(of("%9: i32 = arg0 - -16i32"), 4);
        assert_eq!(of("%9: i32 = arg1 * 64i32"), 6);
        assert_eq!(of("%9: i32 = arg1 << 3i32"), 3);
        assert_eq!(of("%9: i32 = arg1 << arg0"), 0);
        assert_eq!(of("%9: i32 = arg0 / 2i32"), 0);
        assert_eq!(of("%9: i32 = arg0 % 48i32"), 4);
        assert_eq!(of("%9: i32 = arg1 & -8i32"), 3);
        assert_eq!(of("%0: i32 = arg1 * 64i32\n    %9: i32 = %0 + arg0"), 5);
        assert_eq!(of("%0: i32 = block.x * 64i32\n    %9: i32 = %0 + 0i32"), 6);
    }
}

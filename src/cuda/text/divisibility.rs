//! Divisibility analysis: finds powers of two that divide a per-block value in every launch.
//!
//! Input: the function that computes the value, and divisors of the enclosing loops' counters. Output: the exponent of
//! a power of two. If a power of two divides both operands, it divides their sum, even if the sum wraps; divisors of
//! factors multiply. TMA needs this analysis: the first column of a box must be at a multiple of 16 bytes, and any
//! other copy faults with an illegal instruction.

use super::masks::stored_value;
use clk_ir::def::{BinOp, ExprId, ExprKind, Function, Module};
use clk_scalar::ops::UnaryOp;

/// The largest exponent that is tracked.
const MAX_EXPONENT: u32 = 8;

/// Returns the exponent of a power of two that divides the value which a function computes. `known` has the exponents
/// for its parameters from number `first` on.
pub(super) fn exponent(module: &Module, first: usize, known: &[u32]) -> u32 {
    let function = &module.functions[module.kernel.body];
    stored_value(function).map_or(0, |value| exponent_of(function, value, first, known))
}

fn exponent_of(function: &Function, id: ExprId, first: usize, known: &[u32]) -> u32 {
    let exponent_of = |id: ExprId| exponent_of(function, id, first, known);
    if !function.exprs[id].ty.scalar().is_int() {
        return 0;
    }
    match function.exprs[id].kind {
        ExprKind::Const(bits) => bits.trailing_zeros().min(MAX_EXPONENT),
        ExprKind::Param(param) => {
            (param as usize).checked_sub(first).and_then(|at| known.get(at)).copied().unwrap_or(0)
        }
        ExprKind::Unary { op: UnaryOp::Neg, value } => exponent_of(value),
        ExprKind::Convert(value) if function.exprs[value].ty.scalar().is_int() => exponent_of(value),
        ExprKind::Binary { op: BinOp::Add | BinOp::Sub | BinOp::Or | BinOp::Xor | BinOp::Rem, left, right } => {
            exponent_of(left).min(exponent_of(right))
        }
        ExprKind::Binary { op: BinOp::Mul, left, right } => (exponent_of(left) + exponent_of(right)).min(MAX_EXPONENT),
        ExprKind::Binary { op: BinOp::And, left, right } => exponent_of(left).max(exponent_of(right)),
        ExprKind::Binary { op: BinOp::Shl, left, right } => {
            let by = function.const_integer(right).filter(|by| (0..32).contains(by)).map_or(0, |by| by as u32);
            (exponent_of(left) + by).min(MAX_EXPONENT)
        }
        ExprKind::Select { then, other, .. } => exponent_of(then).min(exponent_of(other)),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clk_ir::text::parse;

    /// Returns the exponent for the value `%9` of these statements, where 2^5 divides `p` and nothing is known about
    /// `q`.
    #[track_caller]
    fn exponent_of(body: &str) -> u32 {
        let head = "kernel k(p: i32, q: i32, y: out @y) grid\nfn k() {\n    global 2 out @y: i32[]\n";
        let text = format!("{head}{body}\n    store @y[] = %9\n}}\n");
        let module = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        exponent(&module, 0, &[5, 0])
    }

    #[test]
    fn divisibility_by_powers_of_two() {
        assert_eq!(exponent_of("%9: i32 = arg0 * 3i32"), 5);
        assert_eq!(exponent_of("%9: i32 = arg0 * 4i32"), 7);
        assert_eq!(exponent_of("%9: i32 = arg0 + 8i32"), 3);
        assert_eq!(exponent_of("%9: i32 = arg0 + 1i32"), 0);
        assert_eq!(exponent_of("%9: i32 = arg0 - -16i32"), 4);
        assert_eq!(exponent_of("%9: i32 = arg1 * 64i32"), 6);
        assert_eq!(exponent_of("%9: i32 = arg1 << 3i32"), 3);
        assert_eq!(exponent_of("%9: i32 = arg1 << arg0"), 0);
        assert_eq!(exponent_of("%9: i32 = arg0 / 2i32"), 0);
        assert_eq!(exponent_of("%9: i32 = arg0 % 48i32"), 4);
        assert_eq!(exponent_of("%9: i32 = arg1 & -8i32"), 3);
        assert_eq!(exponent_of("%0: i32 = arg1 * 64i32\n    %9: i32 = %0 + arg0"), 5);
        assert_eq!(exponent_of("%0: i32 = block.x * 64i32\n    %9: i32 = %0 + 0i32"), 6);
    }
}

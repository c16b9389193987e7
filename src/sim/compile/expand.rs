//! Expands functions without a vector instruction into operations with one: `sign`, tests for infinities, and functions
//! of the bits of integers.
//!
//! The operations wrap, so this pass requires that overflow is not checked. Sources of the algorithms: H. S. Warren,
//! *Hacker's Delight*, 2nd edition (2012), chapters 2, 5 and 7.

use clk_base::source::Span;
use clk_ir::def::*;
use clk_scalar::exact::limits;
use clk_scalar::ops::{MathFn, UnaryOp};
use clk_scalar::{Scalar, ScalarValue};

/// Expands all functions of a body that have an expansion.
pub(crate) fn expand(mut f: Function) -> Function {
    if f.exprs.iter().any(|(_, expr)| matches!(expr.kind, ExprKind::Math { function, .. } if has_expansion(function))) {
        let mut body = std::mem::take(&mut f.body);
        expand_block(&mut f, &mut body);
        f.body = body;
    }
    f
}

fn has_expansion(function: MathFn) -> bool {
    use MathFn::*;
    matches!(function, Sign | IsInf | IsFinite | Popcount | Clz | Ctz | ReverseBits | MulHi)
        || matches!(function, SaturatingAdd | SaturatingSub)
}

fn expand_block(f: &mut Function, block: &mut Block) {
    let mut expanded = Vec::with_capacity(block.len());
    for mut stmt in std::mem::take(block) {
        if let StmtKind::Let(id) = stmt.kind
            && let ExprKind::Math { function, args } = &f.exprs[id].kind
            && let (function, args) = (*function, args.clone())
            && let Ty::Scalar(scalar) = f.exprs[args[0]].ty
        {
            let mut expansion = Expansion { f, lets: vec![], span: stmt.span };
            if let Some(result) = expansion.of(function, scalar, &args) {
                // The last operation takes the place of the function, so that uses of the function remain valid.
                expansion.lets.pop();
                expanded.append(&mut expansion.lets);
                f.exprs[id].kind = f.exprs[result].kind.clone();
            }
        }
        for inner in stmt.kind.blocks_mut() {
            expand_block(f, inner);
        }
        expanded.push(stmt);
    }
    *block = expanded;
}

/// The expressions that replace one function.
struct Expansion<'a> {
    f: &'a mut Function,
    /// Their `Let`s, in the order of evaluation.
    lets: Vec<Stmt>,
    span: Span,
}

impl Expansion<'_> {
    /// Adds the operations that replace a function, and returns the last of them. `scalar` is the type of the
    /// arguments. `None` if the function has no expansion for this type.
    fn of(&mut self, function: MathFn, scalar: Scalar, args: &[ExprId]) -> Option<ExprId> {
        use MathFn::*;
        let (x, y) = (args[0], args.last().copied()?);
        Some(match (function, scalar) {
            (Sign, Scalar::F32 | Scalar::F64) => {
                let number = |value: f64| ScalarValue::of(value).to_type(scalar);
                let (zero, one) = (self.constant(number(0.0)), self.constant(number(1.0)));
                let minus_one = self.constant(number(-1.0));
                let (above, below) = (self.compare(BinOp::Gt, x, zero), self.compare(BinOp::Lt, x, zero));
                let other = self.select(below, minus_one, x);
                self.select(above, one, other)
            }
            (Sign, Scalar::I32 | Scalar::I64) => {
                let (zero, one, minus_one) =
                    (self.integer(scalar, 0), self.integer(scalar, 1), self.integer(scalar, -1));
                let (above, below) = (self.compare(BinOp::Gt, x, zero), self.compare(BinOp::Lt, x, zero));
                let other = self.select(below, minus_one, zero);
                self.select(above, one, other)
            }
            (IsInf | IsFinite, Scalar::F32 | Scalar::F64) => {
                let infinity = self.constant(ScalarValue::of(f64::INFINITY).to_type(scalar));
                let size = self.add(ExprKind::Math { function: Abs, args: vec![x] }, Ty::Scalar(scalar));
                let op = if function == IsInf { BinOp::Eq } else { BinOp::Lt };
                self.compare(op, size, infinity)
            }
            (Popcount | Clz | Ctz | ReverseBits, Scalar::I32 | Scalar::U32) => {
                let x = if scalar == Scalar::I32 { self.add(ExprKind::Bitcast(x), Ty::Scalar(Scalar::U32)) } else { x };
                let bits = match function {
                    Popcount => self.popcount(x),
                    Clz => self.leading_zeros(x),
                    Ctz => self.trailing_zeros(x),
                    _ => self.reverse_bits(x),
                };
                if scalar == Scalar::I32 { self.add(ExprKind::Bitcast(bits), Ty::Scalar(scalar)) } else { bits }
            }
            (MulHi, Scalar::I32 | Scalar::U32) => {
                let wide = if scalar == Scalar::I32 { Scalar::I64 } else { Scalar::U64 };
                let [x, y] = [x, y].map(|value| self.add(ExprKind::Convert(value), Ty::Scalar(wide)));
                let product = self.binary(BinOp::Mul, x, y);
                let count = self.integer(wide, 32);
                let high = self.binary(BinOp::Shr, product, count);
                self.add(ExprKind::Convert(high), Ty::Scalar(scalar))
            }
            (SaturatingAdd, Scalar::U32 | Scalar::U64) => {
                let sum = self.binary(BinOp::Add, x, y);
                let wraps = self.compare(BinOp::Lt, sum, x);
                let most = self.integer(scalar, limits(scalar).1);
                self.select(wraps, most, sum)
            }
            (SaturatingSub, Scalar::U32 | Scalar::U64) => {
                let difference = self.binary(BinOp::Sub, x, y);
                let wraps = self.compare(BinOp::Lt, x, y);
                let zero = self.integer(scalar, 0);
                self.select(wraps, zero, difference)
            }
            (SaturatingAdd | SaturatingSub, Scalar::I32 | Scalar::I64) => {
                // A sum overflows if both operands have another sign than the sum. A difference overflows if it and `y`
                // have another sign than `x`.
                let is_sum = function == SaturatingAdd;
                let result = self.binary(if is_sum { BinOp::Add } else { BinOp::Sub }, x, y);
                let changed = self.binary(BinOp::Xor, x, result);
                let other = self.binary(BinOp::Xor, if is_sum { y } else { x }, if is_sum { result } else { y });
                let wraps = self.binary(BinOp::And, changed, other);
                let zero = self.integer(scalar, 0);
                let wraps = self.compare(BinOp::Lt, wraps, zero);
                let is_negative = self.compare(BinOp::Lt, x, zero);
                let (least, most) = limits(scalar);
                let (least, most) = (self.integer(scalar, least), self.integer(scalar, most));
                let limit = self.select(is_negative, least, most);
                self.select(wraps, limit, result)
            }
            _ => return None,
        })
    }

    /// Adds the bits of pairs, of fours and of bytes.
    fn popcount(&mut self, x: ExprId) -> ExprId {
        let half = self.shift(BinOp::Shr, x, 1);
        let odd = self.masked(half, 0x5555_5555);
        let pairs = self.binary(BinOp::Sub, x, odd);
        let low = self.masked(pairs, 0x3333_3333);
        let high = self.shift(BinOp::Shr, pairs, 2);
        let high = self.masked(high, 0x3333_3333);
        let fours = self.binary(BinOp::Add, low, high);
        let shifted = self.shift(BinOp::Shr, fours, 4);
        let sum = self.binary(BinOp::Add, fours, shifted);
        let bytes = self.masked(sum, 0x0f0f_0f0f);
        let ones = self.integer(Scalar::U32, 0x0101_0101);
        let product = self.binary(BinOp::Mul, bytes, ones);
        self.shift(BinOp::Shr, product, 24)
    }

    /// Counts the bits above the highest one.
    fn leading_zeros(&mut self, mut x: ExprId) -> ExprId {
        for count in [1, 2, 4, 8, 16] {
            let shifted = self.shift(BinOp::Shr, x, count);
            x = self.binary(BinOp::Or, x, shifted);
        }
        let above = self.not(x);
        self.popcount(above)
    }

    /// Counts the bits below the lowest one: those that are set in `x - 1` but not in `x`.
    fn trailing_zeros(&mut self, x: ExprId) -> ExprId {
        let one = self.integer(Scalar::U32, 1);
        let less = self.binary(BinOp::Sub, x, one);
        let zeros = self.not(x);
        let below = self.binary(BinOp::And, zeros, less);
        self.popcount(below)
    }

    /// Exchanges neighboring bits, pairs, fours, bytes and halves.
    fn reverse_bits(&mut self, mut x: ExprId) -> ExprId {
        for (count, mask) in [(1, 0x5555_5555), (2, 0x3333_3333), (4, 0x0f0f_0f0f), (8, 0x00ff_00ff), (16, 0xffff)] {
            let high = self.shift(BinOp::Shr, x, count);
            let high = self.masked(high, mask);
            let low = self.masked(x, mask);
            let low = self.shift(BinOp::Shl, low, count);
            x = self.binary(BinOp::Or, high, low);
        }
        x
    }

    fn add(&mut self, kind: ExprKind, ty: Ty) -> ExprId {
        let is_free = kind.is_free();
        let id = self.f.exprs.push(Expr { kind, ty });
        self.f.spans.push(self.span);
        if !is_free {
            self.lets.push(Stmt { kind: StmtKind::Let(id), span: self.span });
        }
        id
    }

    fn constant(&mut self, value: ScalarValue) -> ExprId {
        self.add(ExprKind::Const(value.bits), Ty::Scalar(value.ty))
    }

    fn integer(&mut self, scalar: Scalar, value: i128) -> ExprId {
        let bits = (value as u64) & (u64::MAX >> (64 - 8 * scalar.size()));
        self.constant(ScalarValue { ty: scalar, bits })
    }

    fn binary(&mut self, op: BinOp, left: ExprId, right: ExprId) -> ExprId {
        let ty = self.f.exprs[left].ty;
        self.add(ExprKind::Binary { op, left, right }, ty)
    }

    fn compare(&mut self, op: BinOp, left: ExprId, right: ExprId) -> ExprId {
        self.add(ExprKind::Binary { op, left, right }, Ty::Scalar(Scalar::Bool))
    }

    fn select(&mut self, cond: ExprId, then: ExprId, other: ExprId) -> ExprId {
        let ty = self.f.exprs[then].ty;
        self.add(ExprKind::Select { cond, then, other }, ty)
    }

    fn not(&mut self, value: ExprId) -> ExprId {
        let ty = self.f.exprs[value].ty;
        self.add(ExprKind::Unary { op: UnaryOp::Not, value }, ty)
    }

    fn shift(&mut self, op: BinOp, value: ExprId, count: i128) -> ExprId {
        let count = self.integer(Scalar::U32, count);
        self.binary(op, value, count)
    }

    fn masked(&mut self, value: ExprId, mask: i128) -> ExprId {
        let mask = self.integer(Scalar::U32, mask);
        self.binary(BinOp::And, value, mask)
    }
}

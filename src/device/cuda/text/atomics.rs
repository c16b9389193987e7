//! Atomic read-modify-writes: CUDA's own functions where they exist, else a loop of compare-and-swap.

use super::generator::{Gen, Known};
use super::print;
use super::tree::{Expr, Stmt as Out};
use crate::ir::def::*;
use crate::ir::variance::{self, Variance};
use crate::lang::ops::{AtomicOp, MathFn};

/// The CUDA function for an operation.
enum Native {
    /// On the type itself.
    Plain(&'static str),
    /// On the unsigned 64-bit type.
    AsU64(&'static str),
}

fn native(op: AtomicOp, s: Scalar) -> Option<Native> {
    use AtomicOp::*;
    use Native::*;
    use Scalar::*;
    Some(match (op, s) {
        (Add, I32 | U32 | U64 | F32 | F64) | (Sub, F32 | F64) => Plain("atomicAdd"),
        (Add | Sub, I64) => AsU64("atomicAdd"),
        (Sub, U64) => Plain("atomicAdd"),
        (Sub, I32 | U32) => Plain("atomicSub"),
        (Min, I32 | U32 | I64 | U64) => Plain("atomicMin"),
        (Max, I32 | U32 | I64 | U64) => Plain("atomicMax"),
        (And, I32 | U32 | U64) => Plain("atomicAnd"),
        (Or, I32 | U32 | U64) => Plain("atomicOr"),
        (Xor, I32 | U32 | U64) => Plain("atomicXor"),
        (And, I64) => AsU64("atomicAnd"),
        (Or, I64) => AsU64("atomicOr"),
        (Xor, I64) => AsU64("atomicXor"),
        (Exchange, I32 | U32 | U64 | F32) => Plain("atomicExch"),
        (Exchange, I64) => AsU64("atomicExch"),
        (CompareExchange, I32 | U32 | U64) => Plain("atomicCAS"),
        (CompareExchange, I64) => AsU64("atomicCAS"),
        _ => return None,
    })
}

/// Returns whether the operation with this constant leaves the element unchanged.
fn is_neutral(op: AtomicOp, s: Scalar, value: &ExprKind) -> bool {
    let &ExprKind::Const(bits) = value else { return false };
    match op {
        _ if !s.is_int() => false,
        AtomicOp::Add | AtomicOp::Sub | AtomicOp::Or | AtomicOp::Xor => bits == 0,
        AtomicOp::And => bits == u64::MAX >> (64 - s.bits()),
        _ => false,
    }
}

impl Gen<'_> {
    pub fn atomic(
        &mut self,
        op: AtomicOp,
        place: &Place,
        value: ExprId,
        compare: Option<ExprId>,
        result: Option<ExprId>,
    ) {
        let s = self.function.exprs[value].ty.scalar();
        // Spinning threads poll: a load is much faster than an update that changes nothing.
        let loads = compare == Some(value) || is_neutral(op, s, &self.function.exprs[value].kind);
        // The half types are classes, which have no volatile access.
        let plain = !matches!(s, Scalar::F16 | Scalar::Bf16);
        let stores = op == AtomicOp::Exchange && !result.is_some_and(|id| self.plan.is_used(id));
        let private = self.function.memories[place.memory].space == Space::Local;
        let is_sum = matches!((op, s), (AtomicOp::Add | AtomicOp::Sub, Scalar::F32 | Scalar::F64)) && result.is_none();
        let together = is_sum && self.is_one_place(place);
        let (value, compare) = (self.value(value), compare.map(|id| self.value(id)));
        let place = self.place(place);
        if private {
            return self.in_own_memory(op, s, place, value, compare, result);
        }
        let address = Expr::address(place);
        let call = match native(op, s) {
            _ if loads && plain => {
                self.helpers.need("atomic_load");
                Expr::call("atomic_load", [address])
            }
            _ if stores && plain => {
                self.helpers.need("atomic_store");
                Expr::call("atomic_store", [address, self.constant(s, value)])
            }
            Some(_) if together => {
                self.helpers.need("atomic_sum");
                let value = if op == AtomicOp::Sub { Expr::unary("-", value) } else { value };
                Expr::call("atomic_sum", [address, value])
            }
            Some(native) => self.native(native, op, s, address, value, compare),
            None => {
                let (value, compare) = (self.constant(s, value), compare.map(|c| self.constant(s, c)));
                self.update(op, s, address, value, compare)
            }
        };
        self.result(result, call);
    }

    /// Returns whether threads that are there together update one element.
    fn is_one_place(&mut self, place: &Place) -> bool {
        let variances = self.variances.get_or_insert_with(|| variance::analyze(self.function));
        place.indices.iter().all(|&index| variances.exprs[index] == Variance::Uniform)
    }

    fn native(
        &mut self,
        native: Native,
        op: AtomicOp,
        s: Scalar,
        address: Expr,
        value: Expr,
        compare: Option<Expr>,
    ) -> Expr {
        let negated = op == AtomicOp::Sub && !matches!(s, Scalar::I32 | Scalar::U32);
        match native {
            Native::Plain(name) => {
                let value = match (negated, s) {
                    (true, Scalar::U64) => Expr::binary("-", Expr::atom("0ull"), value),
                    (true, _) => Expr::unary("-", value),
                    _ => value,
                };
                Expr::call(name, std::iter::once(address).chain(compare).chain([value]))
            }
            Native::AsU64(name) => {
                self.helpers.need("u64");
                let own = self.helpers.scalar(s);
                let word = |value| Expr::call("u64", [value]);
                let value = if negated { Expr::binary("-", Expr::atom("0ull"), value) } else { word(value) };
                let address = Expr::call("(u64 *)", [address]);
                let args = std::iter::once(address).chain(compare.map(word)).chain([value]);
                Expr::call(own, [Expr::call(name, args)])
            }
        }
    }

    /// Names an operand that is evaluated more than once.
    fn constant(&mut self, s: Scalar, value: Expr) -> Expr {
        let ty = self.helpers.scalar(s);
        let name = self.temporary();
        self.declare(ty, &name, value);
        Expr::Atom(name)
    }

    fn update(&mut self, op: AtomicOp, s: Scalar, address: Expr, value: Expr, compare: Option<Expr>) -> Expr {
        self.helpers.need("atomic_update");
        let ty = self.helpers.scalar(s);
        let next = self.next(op, s, Expr::atom("old"), value, compare);
        let lambda = format!("[&]({ty} old) -> {ty} {{ return {}; }}", print::expr(&next));
        Expr::call("atomic_update", [address, Expr::Atom(lambda)])
    }

    /// Returns the new value of the element.
    fn next(&mut self, op: AtomicOp, s: Scalar, old: Expr, value: Expr, compare: Option<Expr>) -> Expr {
        let operator = match op {
            AtomicOp::Add => BinOp::Add,
            AtomicOp::Sub => BinOp::Sub,
            AtomicOp::And => BinOp::And,
            AtomicOp::Or => BinOp::Or,
            AtomicOp::Xor => BinOp::Xor,
            AtomicOp::Min => return self.helpers.math(MathFn::Min, s, vec![old, value], Known::default()),
            AtomicOp::Max => return self.helpers.math(MathFn::Max, s, vec![old, value], Known::default()),
            AtomicOp::Exchange => return value,
            AtomicOp::CompareExchange => {
                self.helpers.need("raw");
                let compare = compare.unwrap_or(Expr::int(0));
                let same = Expr::binary("==", Expr::call("raw", [old.clone()]), Expr::call("raw", [compare]));
                return Expr::choose(same, value, old);
            }
        };
        self.helpers.binary(operator, s, old, value, Known::default())
    }

    /// Emits an operation on memory that is private to the thread, which needs no atomicity.
    fn in_own_memory(
        &mut self,
        op: AtomicOp,
        s: Scalar,
        place: Expr,
        value: Expr,
        compare: Option<Expr>,
        result: Option<ExprId>,
    ) {
        let (value, compare) = (self.constant(s, value), compare.map(|c| self.constant(s, c)));
        let old = self.constant(s, place.clone());
        let next = self.next(op, s, old.clone(), value, compare);
        self.push(Out::Assign(place, next));
        if let Some(result) = result {
            self.name(result, old);
        }
    }
}

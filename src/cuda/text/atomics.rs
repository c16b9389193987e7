//! Atomic read-modify-write operations. The code calls CUDA's function for an operation if it exists, and otherwise
//! loops on compare-and-swap.

use super::generator::{CudaGenerator, OpFacts};
use super::print;
use super::tree::{CudaExpr, CudaStmt as Out};
use clk_ir::def::*;
use clk_ir::variance::{self, Variance};
use clk_scalar::ops::{AtomicOp, MathFn};

/// The CUDA function for an atomic operation.
enum Native {
    /// A function that takes operands of the type of the operation.
    Plain(&'static str),
    /// A function for `u64`, to which the operands are cast.
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

/// Returns whether the atomic operation with this constant leaves the element unchanged.
fn is_neutral(op: AtomicOp, s: Scalar, value: &ExprKind) -> bool {
    let &ExprKind::Const(bits) = value else { return false };
    match op {
        _ if !s.is_int() => false,
        AtomicOp::Add | AtomicOp::Sub | AtomicOp::Or | AtomicOp::Xor => bits == 0,
        AtomicOp::And => bits == u64::MAX >> (64 - s.bits()),
        _ => false,
    }
}

impl CudaGenerator<'_> {
    pub fn atomic(
        &mut self,
        op: AtomicOp,
        place: &Place,
        value: ExprId,
        compare: Option<ExprId>,
        result: Option<ExprId>,
    ) {
        let s = self.function.exprs[value].ty.scalar();
        // Emit a load for an atomic operation that changes nothing. It is much faster, which matters to spinning
        // threads.
        let loads = compare == Some(value) || is_neutral(op, s, &self.function.exprs[value].kind);
        // The 16-bit float types are structs, for which a volatile load is not possible.
        let plain = !matches!(s, Scalar::F16 | Scalar::Bf16);
        let stores = op == AtomicOp::Exchange && !result.is_some_and(|id| self.analyses.plan.is_used(id));
        let private = self.function.memories[place.memory].space == MemorySpace::Local;
        let is_sum = matches!((op, s), (AtomicOp::Add | AtomicOp::Sub, Scalar::F32 | Scalar::F64)) && result.is_none();
        let together = is_sum && self.is_one_place(place);
        let (value, compare) = (self.value(value), compare.map(|id| self.value(id)));
        let place = self.place(place);
        if private {
            return self.in_own_memory(op, s, place, value, compare, result);
        }
        let address = CudaExpr::address(place);
        let call = match native(op, s) {
            _ if loads && plain => {
                self.preamble.helpers.need("atomic_load");
                CudaExpr::call("atomic_load", [address])
            }
            _ if stores && plain => {
                self.preamble.helpers.need("atomic_store");
                CudaExpr::call("atomic_store", [address, self.constant(s, value)])
            }
            Some(_) if together => {
                self.preamble.helpers.need("atomic_sum");
                let value = if op == AtomicOp::Sub { CudaExpr::unary("-", value) } else { value };
                CudaExpr::call("atomic_sum", [address, value])
            }
            Some(native) => self.native(native, op, s, address, value, compare),
            None => {
                let (value, compare) = (self.constant(s, value), compare.map(|c| self.constant(s, c)));
                self.update(op, s, address, value, compare)
            }
        };
        self.result(result, call);
    }

    /// Returns whether all threads of a warp that execute the statement together update the same element.
    fn is_one_place(&mut self, place: &Place) -> bool {
        let variances = self.analyses.variances.get_or_insert_with(|| variance::analyze(self.function));
        place.indices.iter().all(|&index| variances.exprs[index] == Variance::Uniform)
    }

    fn native(
        &mut self,
        native: Native,
        op: AtomicOp,
        s: Scalar,
        address: CudaExpr,
        value: CudaExpr,
        compare: Option<CudaExpr>,
    ) -> CudaExpr {
        let negated = op == AtomicOp::Sub && !matches!(s, Scalar::I32 | Scalar::U32);
        match native {
            Native::Plain(name) => {
                let value = match (negated, s) {
                    (true, Scalar::U64) => CudaExpr::binary("-", CudaExpr::atom("0ull"), value),
                    (true, _) => CudaExpr::unary("-", value),
                    _ => value,
                };
                CudaExpr::call(name, std::iter::once(address).chain(compare).chain([value]))
            }
            Native::AsU64(name) => {
                self.preamble.helpers.need("u64");
                let own = self.preamble.helpers.scalar(s);
                let word = |value| CudaExpr::call("u64", [value]);
                let value = if negated { CudaExpr::binary("-", CudaExpr::atom("0ull"), value) } else { word(value) };
                let address = CudaExpr::call("(u64 *)", [address]);
                let args = std::iter::once(address).chain(compare.map(word)).chain([value]);
                CudaExpr::call(own, [CudaExpr::call(name, args)])
            }
        }
    }

    /// Returns an operand that may be evaluated more than once. Declares a constant for it if necessary.
    fn constant(&mut self, s: Scalar, value: CudaExpr) -> CudaExpr {
        let ty = self.preamble.helpers.scalar(s);
        let name = self.temporary();
        self.declare(ty, &name, value);
        CudaExpr::Atom(name)
    }

    fn update(
        &mut self,
        op: AtomicOp,
        s: Scalar,
        address: CudaExpr,
        value: CudaExpr,
        compare: Option<CudaExpr>,
    ) -> CudaExpr {
        self.preamble.helpers.need("atomic_update");
        let ty = self.preamble.helpers.scalar(s);
        let next = self.next(op, s, CudaExpr::atom("old"), value, compare);
        let lambda = format!("[&]({ty} old) -> {ty} {{ return {}; }}", print::expr(&next));
        CudaExpr::call("atomic_update", [address, CudaExpr::Atom(lambda)])
    }

    /// Returns the new value of the element, as an expression of the old value and the operand.
    fn next(&mut self, op: AtomicOp, s: Scalar, old: CudaExpr, value: CudaExpr, compare: Option<CudaExpr>) -> CudaExpr {
        let operator = match op {
            AtomicOp::Add => BinOp::Add,
            AtomicOp::Sub => BinOp::Sub,
            AtomicOp::And => BinOp::And,
            AtomicOp::Or => BinOp::Or,
            AtomicOp::Xor => BinOp::Xor,
            AtomicOp::Min => return self.preamble.helpers.math(MathFn::Min, s, vec![old, value], OpFacts::default()),
            AtomicOp::Max => return self.preamble.helpers.math(MathFn::Max, s, vec![old, value], OpFacts::default()),
            AtomicOp::Exchange => return value,
            AtomicOp::CompareExchange => {
                self.preamble.helpers.need("raw");
                let compare = compare.unwrap_or(CudaExpr::int(0));
                let same =
                    CudaExpr::binary("==", CudaExpr::call("raw", [old.clone()]), CudaExpr::call("raw", [compare]));
                return CudaExpr::choose(same, value, old);
            }
        };
        self.preamble.helpers.binary(operator, s, old, value, OpFacts::default())
    }

    /// Emits an atomic operation on thread-private memory as ordinary loads and stores.
    fn in_own_memory(
        &mut self,
        op: AtomicOp,
        s: Scalar,
        place: CudaExpr,
        value: CudaExpr,
        compare: Option<CudaExpr>,
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

//! Perturbs the rounding in a kernel: moves the results of inexact operations up or down by some ULPs.
//!
//! Running the perturbed kernel shows how much its arithmetic amplifies permitted rounding errors, and so how much two
//! correct devices may differ. Whether a result moves up or down depends on a hash of its bits and a seed, so that the
//! errors do not cancel. The method is known as stochastic arithmetic (J. Vignes, *Discrete stochastic arithmetic for
//! validating results of numerical software*, 2004).

use clk_base::source::Span;
use clk_ir::PreparedKernel;
use clk_ir::def::*;
use clk_ir::inexact_operations::{InexactOperations, sum_operand};
use clk_ir::verify::{Violation, verify};
use clk_runtime::FUNCTION_ULPS;
use clk_scalar::Scalar;
use clk_scalar::ops::MathFn;

/// Perturbation in ULPs of sums in an unspecified order, and of `+ - * /` and `sqrt` if a device may approximate them.
const OPERATION_ULPS: u64 = 2;

/// The operations that another device may round differently.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Loose {
    /// Functions with an error of some ULPs, and sums in an unspecified order.
    Functions,
    /// All floating-point arithmetic, because a device may contract or approximate operations.
    All,
}

impl Loose {
    /// Returns the maximum error of an expression's value in ULPs; `None` if it is exact.
    fn ulps(self, expr: &Expr) -> Option<u64> {
        let ulps = match &expr.kind {
            ExprKind::Math { function: MathFn::Sqrt, .. } if self == Loose::All => OPERATION_ULPS,
            ExprKind::Math { function, .. } if !function.is_exact() => FUNCTION_ULPS,
            ExprKind::Binary { op: BinOp::Pow, .. } => FUNCTION_ULPS,
            ExprKind::Binary { op: BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Div, .. } if self == Loose::All => {
                OPERATION_ULPS
            }
            _ => return None,
        };
        expr.ty.scalar().is_float().then_some(ulps)
    }
}

/// Returns whether the kernel contains an operation that another device may round differently.
pub fn is_approximate(module: &Module) -> bool {
    let InexactOperations { functions, unordered_sums, tensor_cores: _, nan_bits: _ } = InexactOperations::of(module);
    !functions.is_empty() || !unordered_sums.is_empty()
}

/// Returns the kernel with the perturbation inserted after each inexact operation. Different seeds perturb differently.
pub fn perturb_roundings(kernel: &PreparedKernel, loose: Loose, seed: u32) -> Result<PreparedKernel, Vec<Violation>> {
    let mut module: Module = (*kernel.module).clone();
    let body = module.kernel.body;
    let function = &mut module.functions[body];
    let block = std::mem::take(&mut function.body);
    let mut jitter = Jitter { function, loose, factor: 0x9e37_79b9_7f4a_7c15 ^ (u64::from(seed) << 1) };
    let block = jitter.block(block);
    function.body = block;
    Ok(PreparedKernel::new(verify(module)?, Default::default()))
}

struct Jitter<'a> {
    function: &'a mut Function,
    loose: Loose,
    /// An odd multiplier that hashes the bits of a value.
    factor: u64,
}

impl Jitter<'_> {
    fn block(&mut self, block: Block) -> Block {
        let mut out = Vec::with_capacity(block.len());
        for mut stmt in block {
            for inner in stmt.kind.blocks_mut() {
                *inner = self.block(std::mem::take(inner));
            }
            let span = stmt.span;
            if let StmtKind::Let(id) = stmt.kind {
                let expr = self.function.exprs[id].clone();
                if let Some(ulps) = self.loose.ulps(&expr) {
                    let exact = self.push(&mut out, expr, span);
                    self.function.exprs[id] = self.perturbed_value(&mut out, exact, ulps, span);
                }
            } else if let Some(operand) = sum_operand(&stmt.kind)
                && self.function.exprs[operand].ty.scalar().is_float()
                && let StmtKind::Atomic { value, .. } | StmtKind::Warp { value, .. } = &mut stmt.kind
            {
                let perturbed_value = self.perturbed_value(&mut out, operand, OPERATION_ULPS, span);
                *value = self.push(&mut out, perturbed_value, span);
            }
            out.push(stmt);
        }
        out
    }

    /// Adds an expression, and a `Let` statement that evaluates it at this point unless the expression is free.
    fn push(&mut self, out: &mut Block, expr: Expr, span: Span) -> ExprId {
        let free = expr.kind.is_free();
        let id = self.function.exprs.push(expr);
        self.function.spans.push(span);
        if !free {
            out.push(Stmt { kind: StmtKind::Let(id), span });
        }
        id
    }

    /// Returns `value` moved up or down by some ULPs; unchanged if it is zero, subnormal, infinite or NaN.
    fn perturbed_value(&mut self, out: &mut Block, value: ExprId, ulps: u64, span: Span) -> Expr {
        let ty = self.function.exprs[value].ty;
        let form = FloatBits::of(ty.scalar());
        let factor = self.factor | 1;
        let mut new = Bits { jitter: self, out, span, ty: ty.with_scalar(form.bits), mask: form.mask() };
        let own = new.make(ExprKind::Bitcast(value), new.ty);
        let mixed = new.step(BinOp::Mul, own, factor);
        let up = new.step(BinOp::Shr, mixed, form.width() - 1);
        let up = new.step(BinOp::Mul, up, 2 * ulps);
        let result = new.binary(BinOp::Add, own, up);
        let result = new.step(BinOp::Sub, result, ulps);
        let size = new.step(BinOp::And, own, form.mask() >> 1);
        let size = new.step(BinOp::Sub, size, form.least_normal + ulps);
        let normal = new.step(BinOp::Lt, size, form.infinity - form.least_normal - 2 * ulps);
        let result = new.make(ExprKind::Bitcast(result), ty);
        Expr { kind: ExprKind::Select { cond: normal, then: result, other: value }, ty }
    }
}

/// Builds integer expressions that operate on the bits of a value.
struct Bits<'a, 'b> {
    jitter: &'a mut Jitter<'b>,
    out: &'a mut Block,
    span: Span,
    /// Unsigned integer type that holds the bits, with the same number of lanes as the value.
    ty: Ty,
    mask: u64,
}

impl Bits<'_, '_> {
    fn make(&mut self, kind: ExprKind, ty: Ty) -> ExprId {
        self.jitter.push(self.out, Expr { kind, ty }, self.span)
    }

    fn binary(&mut self, op: BinOp, left: ExprId, right: ExprId) -> ExprId {
        let ty = if op.is_comparison() { self.ty.with_scalar(Scalar::Bool) } else { self.ty };
        self.make(ExprKind::Binary { op, left, right }, ty)
    }

    /// Adds a binary operation whose right operand is the constant `right`.
    fn step(&mut self, op: BinOp, left: ExprId, right: u64) -> ExprId {
        let scalar = self.make(ExprKind::Const(right & self.mask), Ty::Scalar(self.ty.scalar()));
        let right = match self.ty.lanes() {
            1 => scalar,
            lanes => self.make(ExprKind::Compose(vec![scalar; usize::from(lanes)]), self.ty),
        };
        self.binary(op, left, right)
    }
}

/// The bit layout of a float type.
struct FloatBits {
    /// The unsigned integer type of the same size.
    bits: Scalar,
    least_normal: u64,
    infinity: u64,
}

impl FloatBits {
    fn of(float: Scalar) -> FloatBits {
        let (bits, mantissa, infinity) = match float {
            Scalar::F64 => (Scalar::U64, 52, 0x7ff0 << 48),
            Scalar::F16 => (Scalar::U16, 10, 0x7c00),
            Scalar::Bf16 => (Scalar::U16, 7, 0x7f80),
            _ => (Scalar::U32, 23, 0x7f80 << 16),
        };
        FloatBits { bits, least_normal: 1 << mantissa, infinity }
    }

    fn width(&self) -> u64 {
        self.bits.size() as u64 * 8
    }

    fn mask(&self) -> u64 {
        u64::MAX >> (64 - self.width())
    }
}

//! Perturbs the roundings of a kernel: results of functions that devices compute to within some ULPs are moved up or down.
//!
//! Run beside the kernel itself, it shows how much of a difference between two devices results from permitted errors, amplified
//! by the kernel's own arithmetic. Whether a result moves up or down depends on its bits and on a seed, so that errors do not
//! cancel. The idea is that of stochastic arithmetic (J. Vignes, *Discrete stochastic arithmetic for validating results of
//! numerical software*, 2004).

use crate::base::source::Span;
use crate::ir::Prepared;
use crate::ir::def::*;
use crate::ir::verify::verify;
use crate::lang::ops::{AtomicOp, MathFn, WarpOp};
use crate::lang::scalar::Scalar;

/// The perturbation of inexact functions: CUDA's largest error in single precision, with few exceptions.
pub(crate) const FUNCTION_ULPS: u64 = 4;

/// The perturbation of `+ - * /` and `sqrt` where a device may approximate them, and of sums in no fixed order.
const OPERATION_ULPS: u64 = 2;

/// The operations that another device may round differently.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Loose {
    /// Functions with an error of some ULPs, and the order of sums.
    Functions,
    /// All float arithmetic: operations may be contracted or approximated.
    All,
}

impl Loose {
    /// Returns by how many ULPs the value of an expression may be off.
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

/// Returns the operand of a sum that has no fixed order.
fn summed(kind: &StmtKind) -> Option<ExprId> {
    match kind {
        StmtKind::Atomic { op: AtomicOp::Add | AtomicOp::Sub, value, .. }
        | StmtKind::Warp { op: WarpOp::ReduceAdd, value, .. } => Some(*value),
        _ => None,
    }
}

/// Returns whether another device may round some operation of the kernel differently.
pub fn is_approximate(module: &Module) -> bool {
    module.functions.iter().any(|(_, function)| {
        let mut found = function.exprs.iter().any(|(_, expr)| Loose::Functions.ulps(expr).is_some());
        crate::ir::visit::each_stmt(&function.body, &mut |stmt| {
            found |= summed(&stmt.kind)
                .and_then(|id| function.exprs.get(id))
                .is_some_and(|expr| expr.ty.scalar().is_float());
        });
        found
    })
}

/// Returns the kernel with its roundings perturbed, depending on the seed.
pub fn jittered(kernel: &Prepared, loose: Loose, seed: u32) -> Result<Prepared, String> {
    let mut module: Module = (*kernel.module).clone();
    let body = module.kernel.body;
    let function = &mut module.functions[body];
    let block = std::mem::take(&mut function.body);
    let mut jitter = Jitter { function, loose, factor: 0x9e37_79b9_7f4a_7c15 ^ (u64::from(seed) << 1) };
    let block = jitter.block(block);
    function.body = block;
    let module = verify(module).map_err(|violations| violations.join("\n"))?;
    Ok(Prepared::new(module, Default::default()))
}

struct Jitter<'a> {
    function: &'a mut Function,
    loose: Loose,
    /// An odd factor that mixes bits.
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
                    self.function.exprs[id] = self.moved(&mut out, exact, ulps, span);
                }
            } else if let Some(operand) = summed(&stmt.kind)
                && self.function.exprs[operand].ty.scalar().is_float()
                && let StmtKind::Atomic { value, .. } | StmtKind::Warp { value, .. } = &mut stmt.kind
            {
                let moved = self.moved(&mut out, operand, OPERATION_ULPS, span);
                *value = self.push(&mut out, moved, span);
            }
            out.push(stmt);
        }
        out
    }

    /// Adds an expression; it is evaluated here unless it is free.
    fn push(&mut self, out: &mut Block, expr: Expr, span: Span) -> ExprId {
        let free = expr.kind.is_free();
        let id = self.function.exprs.push(expr);
        self.function.spans.push(span);
        if !free {
            out.push(Stmt { kind: StmtKind::Let(id), span });
        }
        id
    }

    /// Returns `value` moved by some ULPs up or down; unchanged where it is zero, subnormal, infinite or NaN.
    fn moved(&mut self, out: &mut Block, value: ExprId, ulps: u64, span: Span) -> Expr {
        let ty = self.function.exprs[value].ty;
        let form = Form::of(ty.scalar());
        let factor = self.factor | 1;
        let mut new = Bits { jitter: self, out, span, ty: ty.with_scalar(form.bits), mask: form.mask() };
        let own = new.make(ExprKind::Bitcast(value), new.ty);
        let mixed = new.step(BinOp::Mul, own, factor);
        let up = new.step(BinOp::Shr, mixed, form.width() - 1);
        let up = new.step(BinOp::Mul, up, 2 * ulps);
        let there = new.binary(BinOp::Add, own, up);
        let there = new.step(BinOp::Sub, there, ulps);
        let size = new.step(BinOp::And, own, form.mask() >> 1);
        let size = new.step(BinOp::Sub, size, form.least_normal + ulps);
        let normal = new.step(BinOp::Lt, size, form.infinity - form.least_normal - 2 * ulps);
        let there = new.make(ExprKind::Bitcast(there), ty);
        Expr { kind: ExprKind::Select { cond: normal, then: there, other: value }, ty }
    }
}

/// Builds expressions on the bits of a value.
struct Bits<'a, 'b> {
    jitter: &'a mut Jitter<'b>,
    out: &'a mut Block,
    span: Span,
    /// Type of the bits: as many lanes as the value has.
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

    /// Adds an operation with a constant on the right.
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
struct Form {
    /// The unsigned integer of its size.
    bits: Scalar,
    least_normal: u64,
    infinity: u64,
}

impl Form {
    fn of(float: Scalar) -> Form {
        let (bits, mantissa, infinity) = match float {
            Scalar::F64 => (Scalar::U64, 52, 0x7ff0 << 48),
            Scalar::F16 => (Scalar::U16, 10, 0x7c00),
            Scalar::Bf16 => (Scalar::U16, 7, 0x7f80),
            _ => (Scalar::U32, 23, 0x7f80 << 16),
        };
        Form { bits, least_normal: 1 << mantissa, infinity }
    }

    fn width(&self) -> u64 {
        self.bits.size() as u64 * 8
    }

    fn mask(&self) -> u64 {
        u64::MAX >> (64 - self.width())
    }
}

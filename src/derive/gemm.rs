//! Derivatives of matrix products that the threads of a block accumulate; they are matrix products as well.
//!
//! Input: a loop that adds `left @ right` to `sum`. Output: loops that add to the tangent of the sum, or to the
//! adjoints of the operands. Each thread adds only to its own elements, so no atomics are needed. The reverse sweep
//! needs the original operands. If the loop that filled an operand reads only unchanged memory, the reverse sweep
//! repeats that loop; otherwise the operand is recorded on the tape.

use rustc_hash::FxHashMap;

use super::error::NotDifferentiable;
use super::gemm_operands::{FactorSource, extents, taped_operands};
use super::reverse_mode::ReverseDerivative;
use super::shadow::Shadows;
use super::tape::thread_of_block;
use clk_ir::build::{FunctionBuilder, IrForRange};
use clk_ir::def::*;
use clk_ir::typing::I32;
use clk_scalar::ops::{BarrierKind, MathFn};

/// A matrix, or its transpose if the flag is set.
#[derive(Clone, Copy)]
struct MatrixRef(MemId, bool);

impl MatrixRef {
    fn element(self, b: &mut FunctionBuilder, at: [ExprId; 2], scalar: Scalar) -> ExprId {
        let [row, column] = at;
        let value = b.load(self.0, &if self.1 { [column, row] } else { [row, column] });
        b.convert(value, scalar)
    }
}

/// Emits a loop over the matrix elements that this thread handles.
fn for_own_elements(
    b: &mut FunctionBuilder,
    [rows, columns]: [u32; 2],
    fill: impl FnOnce(&mut FunctionBuilder, [ExprId; 2]),
) {
    let (start, step) = thread_of_block(b);
    let (label, local) = (b.label(), b.local("own", I32));
    let body = b.in_block(|b| {
        let number = b.read(local);
        let at = indices(b, number, columns);
        fill(b, at);
    });
    let end = b.i32((rows * columns) as i32);
    b.for_(label, local, IrForRange { start, end, step, inclusive: false }, Unroll::Auto, body);
}

fn indices(b: &mut FunctionBuilder, number: ExprId, columns: u32) -> [ExprId; 2] {
    let columns = b.i32(columns as i32);
    [b.binary(BinOp::Div, number, columns), b.binary(BinOp::Rem, number, columns)]
}

/// Emits code that adds matrix products to a matrix. Each element of a product is a sum of `terms` terms.
fn add_products(b: &mut FunctionBuilder, to: MemId, [rows, columns, terms]: [u32; 3], products: &[[MatrixRef; 2]]) {
    if products.is_empty() {
        return;
    }
    let scalar = b.function().memories[to].layout.leaves.first().map_or(Scalar::F32, |leaf| leaf.ty.scalar());
    for_own_elements(b, [rows, columns], |b, [row, column]| {
        let before = b.load(to, &[row, column]);
        let sum = b.variable("sum", before);
        let (first, last) = (b.i32(0), b.i32(terms as i32));
        b.for_range("term", first, last, |b, _, term| {
            for [left, right] in products {
                let (x, y) = (left.element(b, [row, term], scalar), right.element(b, [term, column], scalar));
                let before = b.read(sum);
                let after = b.math(MathFn::Fma, &[x, y, before]);
                b.write(sum, after);
            }
        });
        let after = b.read(sum);
        b.store(to, &[row, column], after);
    });
}

/// Emits code that adds the product's tangent to the tangent of the sum.
pub(super) fn emit_tangent(b: &mut FunctionBuilder, f: &Function, shadows: &Shadows, of: CollectiveGemm) {
    let (Some(&sum), Some(extents)) = (shadows.memories.get(&of.sum), of.extents(f)) else { return };
    let tangent_of = |memory: MemId| shadows.memories.get(&memory).map(|&own| MatrixRef(own, false));
    let (left, right) = (MatrixRef(of.left, false), MatrixRef(of.right, false));
    let products = [tangent_of(of.left).map(|own| [own, right]), tangent_of(of.right).map(|own| [left, own])];
    add_products(b, sum, extents, &products.into_iter().flatten().collect::<Vec<_>>());
}

impl ReverseDerivative<'_> {
    /// Records those operands that the reverse sweep cannot recompute; each thread records its own elements.
    pub(super) fn record_operands(&mut self, label: Label, of: CollectiveGemm) {
        for memory in taped_operands(&self.plan.factors, label, of) {
            let (b, tape) = (&mut self.b, &self.tape);
            let Some(extents) = extents(b.function(), memory) else { continue };
            for_own_elements(b, extents, |b, at| {
                let value = b.load(memory, &at);
                tape.push(b, value);
            });
        }
    }

    /// Emits code that adds to the adjoints of the operands.
    pub(super) fn reverse_product(&mut self, label: Label, of: CollectiveGemm) -> Result<(), NotDifferentiable> {
        let (Some(&sum), Some([m, n, k])) = (self.shadows.memories.get(&of.sum), of.extents(self.f)) else {
            return Ok(());
        };
        let plan = self.plan;
        let mut has_refilled = false;
        for (memory, source) in [of.right, of.left].into_iter().zip(plan.factors[&label].iter().rev()) {
            has_refilled |= source.is_some();
            match source {
                Some(FactorSource::Refill(stmt)) => self.refill_by_loop(stmt)?,
                Some(FactorSource::Tape) => self.refill_from_tape(memory)?,
                None => {}
            }
        }
        if has_refilled {
            self.b.barrier(BarrierKind::Block, None);
        }
        let sum = MatrixRef(sum, false);
        if let Some(&own) = self.shadows.memories.get(&of.left) {
            add_products(&mut self.b, own, [m, k, n], &[[sum, MatrixRef(of.right, true)]]);
        }
        if let Some(&own) = self.shadows.memories.get(&of.right) {
            add_products(&mut self.b, own, [k, n, m], &[[MatrixRef(of.left, true), sum]]);
        }
        Ok(())
    }

    fn refill_from_tape(&mut self, memory: MemId) -> Result<(), NotDifferentiable> {
        let Some([rows, columns]) = extents(self.f, memory) else { return Ok(()) };
        let Some(ty) = self.f.memories[memory].layout.leaves.first().map(|leaf| leaf.ty) else { return Ok(()) };
        let (start, step) = thread_of_block(&mut self.b);
        let (label, local, end) = (self.b.label(), self.b.local("own", I32), self.b.i32((rows * columns) as i32));
        let range = IrForRange { start, end, step, inclusive: false };
        let body = self.inner(|r| {
            let counter = r.b.read(local);
            let number = r.reversed_counter(counter, &range);
            let at = indices(&mut r.b, number, columns);
            if let Some(value) = r.tape.pop(&mut r.b, ty) {
                r.b.store(memory, &at, value);
            }
            Ok(())
        })?;
        self.b.for_(label, local, range, Unroll::Auto, body);
        Ok(())
    }

    /// Emits the loop of the primal kernel that filled an operand once more.
    fn refill_by_loop(&mut self, stmt: &Stmt) -> Result<(), NotDifferentiable> {
        let StmtKind::For { local, start, end, step, inclusive, unroll, body, .. } = &stmt.kind else { return Ok(()) };
        let (start, end, step) = (self.value(*start), self.value(*end), self.value(*step));
        let label = self.b.label();
        self.cache.push(FxHashMap::default());
        let body = self.inner(|r| r.repeat_block(body, &mut FxHashMap::default()));
        self.cache.pop();
        self.b.for_(label, *local, IrForRange { start, end, step, inclusive: *inclusive }, *unroll, body?);
        Ok(())
    }

    fn repeat_block(&mut self, block: &[Stmt], names: &mut FxHashMap<ExprId, ExprId>) -> Result<(), NotDifferentiable> {
        for stmt in block {
            self.b.set_span(stmt.span);
            if let StmtKind::Let(id) = stmt.kind {
                let Expr { mut kind, ty } = self.f.exprs[id].clone();
                kind.operands_mut(|operand| *operand = self.renamed_operand(*operand, names));
                let new = self.b.expr(kind, ty);
                names.insert(id, new);
                continue;
            }
            let mut kind = stmt.kind.clone();
            kind.operands_mut(|operand| *operand = self.renamed_operand(*operand, names));
            for inner in kind.blocks_mut() {
                *inner = self.inner(|r| r.repeat_block(&std::mem::take(inner), names))?;
            }
            self.b.stmt(kind);
        }
        Ok(())
    }

    fn renamed_operand(&mut self, id: ExprId, names: &FxHashMap<ExprId, ExprId>) -> ExprId {
        names.get(&id).copied().unwrap_or_else(|| self.value(id))
    }
}

//! Products of matrices that the threads of a block add up: tangents of their sums and adjoints of their factors are products, too.
//!
//! In: a loop that adds `left @ right` to `sum`. Out: loops that add to the tangent of the sum, or to the adjoints of the factors. Idea: a
//! thread owns the elements that it adds to, so that nothing is atomic. The mirror image needs the factors as they were: it fills
//! them again, by the statements that have filled them, if these read only what does not change; else they are on the tape.

use rustc_hash::FxHashMap;

use super::companion::Companions;
use super::factors::{Source, extents, taped};
use super::lost::Lost;
use super::reverse::Reverse;
use super::tape::thread_of_block;
use crate::ir::build::{FunctionBuilder, Range};
use crate::ir::def::*;
use crate::ir::typing::I32;
use crate::lang::ops::{BarrierKind, MathFn};

/// A matrix, or its transpose.
#[derive(Clone, Copy)]
struct Matrix(MemId, bool);

impl Matrix {
    fn element(self, b: &mut FunctionBuilder, at: [ExprId; 2], scalar: Scalar) -> ExprId {
        let [row, column] = at;
        let value = b.load(self.0, &if self.1 { [column, row] } else { [row, column] });
        b.convert(value, scalar)
    }
}

/// Loops over the elements of a matrix that are the thread's own.
fn own_elements(
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
    b.for_(label, local, Range { start, end, step, inclusive: false }, Unroll::Auto, body);
}

fn indices(b: &mut FunctionBuilder, number: ExprId, columns: u32) -> [ExprId; 2] {
    let columns = b.i32(columns as i32);
    [b.binary(BinOp::Div, number, columns), b.binary(BinOp::Rem, number, columns)]
}

/// Adds products to a matrix of these extents, over as many terms.
fn add_products(b: &mut FunctionBuilder, to: MemId, [rows, columns, terms]: [u32; 3], products: &[[Matrix; 2]]) {
    if products.is_empty() {
        return;
    }
    let scalar = b.function().memories[to].layout.leaves.first().map_or(Scalar::F32, |leaf| leaf.ty.scalar());
    own_elements(b, [rows, columns], |b, [row, column]| {
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

/// Adds to the tangent of the sum.
pub(super) fn tangent(b: &mut FunctionBuilder, f: &Function, companions: &Companions, of: Factors) {
    let (Some(&sum), Some(extents)) = (companions.memories.get(&of.sum), of.extents(f)) else { return };
    let along = |memory: MemId| companions.memories.get(&memory).map(|&own| Matrix(own, false));
    let (left, right) = (Matrix(of.left, false), Matrix(of.right, false));
    let products = [along(of.left).map(|own| [own, right]), along(of.right).map(|own| [left, own])];
    add_products(b, sum, extents, &products.into_iter().flatten().collect::<Vec<_>>());
}

impl Reverse<'_> {
    /// Records the thread's own elements of the factors that the mirror image needs and cannot fill again.
    pub(super) fn record_factors(&mut self, label: Label, of: Factors) {
        for memory in taped(&self.plan.factors, label, of) {
            let (b, tape) = (&mut self.b, &self.tape);
            let Some(extents) = extents(b.function(), memory) else { continue };
            own_elements(b, extents, |b, at| {
                let value = b.load(memory, &at);
                tape.push(b, value);
            });
        }
    }

    /// Adds to the adjoints of the factors.
    pub(super) fn back_product(&mut self, label: Label, of: Factors) -> Result<(), Lost> {
        let (Some(&sum), Some([m, n, k])) = (self.companions.memories.get(&of.sum), of.extents(self.f)) else {
            return Ok(());
        };
        let plan = self.plan;
        let mut filled = false;
        for (memory, source) in [of.right, of.left].into_iter().zip(plan.factors[&label].iter().rev()) {
            filled |= source.is_some();
            match source {
                Some(Source::Filled(stmt)) => self.fill_again(stmt)?,
                Some(Source::Taped) => self.fill_from_tape(memory)?,
                None => {}
            }
        }
        if filled {
            self.b.barrier(BarrierKind::Block, None);
        }
        let sum = Matrix(sum, false);
        if let Some(&own) = self.companions.memories.get(&of.left) {
            add_products(&mut self.b, own, [m, k, n], &[[sum, Matrix(of.right, true)]]);
        }
        if let Some(&own) = self.companions.memories.get(&of.right) {
            add_products(&mut self.b, own, [k, n, m], &[[Matrix(of.left, true), sum]]);
        }
        Ok(())
    }

    fn fill_from_tape(&mut self, memory: MemId) -> Result<(), Lost> {
        let Some([rows, columns]) = extents(self.f, memory) else { return Ok(()) };
        let Some(ty) = self.f.memories[memory].layout.leaves.first().map(|leaf| leaf.ty) else { return Ok(()) };
        let (start, step) = thread_of_block(&mut self.b);
        let (label, local, end) = (self.b.label(), self.b.local("own", I32), self.b.i32((rows * columns) as i32));
        let body = self.inner(|r| {
            let now = r.b.read(local);
            let number = r.mirror_image(now, (start, end, step), false);
            let at = indices(&mut r.b, number, columns);
            if let Some(value) = r.tape.pop(&mut r.b, ty) {
                r.b.store(memory, &at, value);
            }
            Ok(())
        })?;
        self.b.for_(label, local, Range { start, end, step, inclusive: false }, Unroll::Auto, body);
        Ok(())
    }

    /// Runs a loop of the kernel once more.
    fn fill_again(&mut self, stmt: &Stmt) -> Result<(), Lost> {
        let StmtKind::For { local, start, end, step, inclusive, unroll, body, .. } = &stmt.kind else { return Ok(()) };
        let (start, end, step) = (self.value(*start), self.value(*end), self.value(*step));
        let label = self.b.label();
        self.cache.push(FxHashMap::default());
        let body = self.inner(|r| r.repeat(body, &mut FxHashMap::default()));
        self.cache.pop();
        self.b.for_(label, *local, Range { start, end, step, inclusive: *inclusive }, *unroll, body?);
        Ok(())
    }

    fn repeat(&mut self, block: &[Stmt], names: &mut FxHashMap<ExprId, ExprId>) -> Result<(), Lost> {
        for stmt in block {
            self.b.set_span(stmt.span);
            if let StmtKind::Let(id) = stmt.kind {
                let Expr { mut kind, ty } = self.f.exprs[id].clone();
                kind.operands_mut(|operand| *operand = self.renamed(*operand, names));
                let new = self.b.expr(kind, ty);
                names.insert(id, new);
                continue;
            }
            let mut kind = stmt.kind.clone();
            kind.operands_mut(|operand| *operand = self.renamed(*operand, names));
            for inner in kind.blocks_mut() {
                *inner = self.inner(|r| r.repeat(&std::mem::take(inner), names))?;
            }
            self.b.stmt(kind);
        }
        Ok(())
    }

    fn renamed(&mut self, id: ExprId, names: &FxHashMap<ExprId, ExprId>) -> ExprId {
        names.get(&id).copied().unwrap_or_else(|| self.value(id))
    }
}

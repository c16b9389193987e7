//! Tile statements: computations that the threads of a block perform together.
//!
//! Lowering reads each tile assignment, reduction and product of the typed tree once and makes a [`TileStmt`] of it.
//! `tile_expand` expands it to loops and barriers. The code is a region of the kernel's body until the end of lowering,
//! so that `tile_program` can turn the statements of a kernel into the steps of a tile program.

use super::tile_expr::{AxisRange, TileAxisIndex, TileElementOp, TileExpr, TileNode, TileWindow, broadcast};
use clk_base::source::Span;
use clk_ir::def::{self, Block, ExprId, Extent, Function, Label, MemId, MemorySpace, Scalar, StmtKind, Ty};
use clk_scalar::ops::{BinaryOp, MathFn};

#[derive(Clone, Debug)]
pub(crate) enum TileStmt {
    /// Declares a shared array.
    Declare(MemId),
    /// `to = value` or `to op= value`. `target` is the window that `to` reads. If the uniform values of the statement
    /// are loaded from memory (`reads_memory`), all threads must have loaded them before any thread stores.
    Assign { to: TileExpr, target: TileWindow, op: Option<BinaryOp>, value: TileExpr, reads_memory: bool },
    /// Reduces `of` along an axis: repeatedly combines the upper half of the elements with the lower half. `to` is
    /// shared memory of the shape of `of`; the result has the index 0 along the axis.
    Reduce { to: TileWindow, of: TileExpr, axis: usize, fold: TileReductionOp },
    /// `to = acc + a @ b`, where `to` has the shape of `acc`.
    Product { to: TileWindow, acc: TileExpr, a: TileExpr, b: TileExpr },
    /// `result` is `value`, which must be the same in all threads of the block.
    Uniform { value: ExprId, result: ExprId },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum TileReductionOp {
    Operator(BinaryOp),
    Math(MathFn),
}

impl From<BinaryOp> for TileReductionOp {
    fn from(op: BinaryOp) -> TileReductionOp {
        TileReductionOp::Operator(op)
    }
}

/// Returns the result of the reduction of `of` into the memory `to`. `zero` is the index 0.
pub(super) fn reduced_tile(to: &TileWindow, of: &TileExpr, axis: usize, zero: ExprId, span: Span) -> TileExpr {
    let (mut axes, mut shape) = (to.axes.clone(), of.shape.clone());
    axes[axis] = TileAxisIndex::At(zero);
    shape.remove(axis);
    TileExpr { shape, scalar: of.scalar, node: TileNode::Part(TileWindow { memory: to.memory, axes }), span }
}

// Regions

/// A region of the body of a kernel: statements that belong together. While a kernel is lowered, a region is a
/// `StmtKind::Block` whose label gives the number of the region.
#[derive(Clone, Debug)]
pub(crate) enum TileRegion {
    /// The code of a tile statement. It contains the regions of its operands, of tile statements in its operands, and
    /// of its expansion.
    Stmt(Box<TileStmt>),
    /// Computes the uniform values of an operand, a condition, or the bound of a loop.
    Operands,
    /// Loops and barriers to which a tile statement was expanded.
    Expansion,
}

/// The first label of a region. Labels of loops and blocks are less.
const FIRST_REGION: u32 = 1 << 31;

impl TileRegion {
    /// Returns the tile statement whose code the region is.
    pub fn stmt(&self) -> Option<&TileStmt> {
        if let TileRegion::Stmt(stmt) = self { Some(stmt) } else { None }
    }

    /// Returns the label of the region with this number.
    pub fn label(number: usize) -> Label {
        Label(FIRST_REGION + number as u32)
    }

    /// Returns the number of the region with this label; `None` for other labels.
    pub fn number(label: Label) -> Option<usize> {
        label.0.checked_sub(FIRST_REGION).map(|number| number as usize)
    }

    /// Returns the number and the statements of the region that a statement is.
    pub fn of(stmt: &StmtKind) -> Option<(usize, &Block)> {
        match stmt {
            StmtKind::Block { label, body } => TileRegion::number(*label).map(|number| (number, body)),
            _ => None,
        }
    }
}

/// Replaces regions by their statements.
pub(super) fn without_regions(block: Block) -> Block {
    let mut flat = Vec::with_capacity(block.len());
    for mut stmt in block {
        for inner in stmt.kind.blocks_mut() {
            *inner = without_regions(std::mem::take(inner));
        }
        match stmt.kind {
            StmtKind::Block { label, body } if TileRegion::number(label).is_some() => flat.extend(body),
            kind => flat.push(def::Stmt { kind, ..stmt }),
        }
    }
    flat
}

// Verification

impl TileStmt {
    /// Checks that the shapes, types and values of the statement fit together.
    pub fn verify(&self, f: &Function) -> Result<(), &'static str> {
        match self {
            TileStmt::Declare(memory) => require(f.memories.get(*memory).is_some(), "an array that does not exist"),
            TileStmt::Assign { to, target, op, value, .. } => {
                to.verify(f)?;
                value.verify(f)?;
                require(matches!(&to.node, TileNode::Part(part) if part == target), "another target")?;
                require(is_written(f, target.memory), "an assignment to an array that is not written")?;
                require(op.is_some() || value.scalar == to.scalar, "an assignment of another type")?;
                require(
                    broadcast(&value.shape, &to.shape).as_ref() == Some(&to.shape),
                    "an assignment of another shape",
                )
            }
            TileStmt::Reduce { to, of, axis, .. } => {
                of.verify(f)?;
                require(*axis < of.shape.len(), "a reduction along an axis that does not exist")?;
                require(is_shared_of(f, to, &of.shape, of.scalar), "a reduction in other memory")
            }
            TileStmt::Product { to, acc, a, b } => {
                [acc, a, b].into_iter().try_for_each(|tile| tile.verify(f))?;
                require(is_shared_of(f, to, &acc.shape, acc.scalar), "a product in other memory")?;
                let extents = [&acc.shape, &a.shape, &b.shape].map(|shape| <[u32; 2]>::try_from(shape.as_slice()));
                let [Ok([m, n]), Ok([rows, k]), Ok([terms, columns])] = extents else {
                    return Err("a product of tiles that are not matrices");
                };
                require((m, n, k) == (rows, columns, terms) && a.scalar == b.scalar, "a product of other extents")
            }
            TileStmt::Uniform { value, result } => {
                let [value, result] = [value, result].map(|id| f.exprs.get(*id).map(|expr| expr.ty));
                require(value.is_some() && value == result, "a uniform value of another type")
            }
        }
    }
}

impl TileExpr {
    fn verify(&self, f: &Function) -> Result<(), &'static str> {
        let TileExpr { shape, scalar, node, .. } = self;
        match node {
            TileNode::Same(value) => {
                let ty = f.exprs.get(*value).map(|expr| expr.ty);
                require(shape.is_empty() && ty == Some(Ty::Scalar(*scalar)), "a number of another type")
            }
            TileNode::Count => require(shape.len() == 1 && *scalar == Scalar::I32, "indices of another type"),
            TileNode::Part(part) => {
                let memory = f.memories.get(part.memory).ok_or("an array that does not exist")?;
                let is_range = |axis: &&TileAxisIndex| matches!(axis, TileAxisIndex::From(_));
                let ranges = part.axes.iter().filter(is_range).count();
                require(part.axes.len() == memory.extents.len() && ranges == shape.len(), "a window of other axes")?;
                let leaf = memory.layout.leaves.first().map(|leaf| leaf.ty);
                require(leaf == Some(Ty::Scalar(*scalar)), "a window of another type")?;
                let is_index = |id: ExprId| f.exprs.get(id).is_some_and(|expr| expr.ty.scalar().is_int());
                let fits = part.axes.iter().all(|axis| match axis {
                    TileAxisIndex::At(index) => is_index(*index),
                    TileAxisIndex::From(AxisRange { start, step, end }) => {
                        *step > 0 && start.iter().chain(end).all(|&bound| is_index(bound))
                    }
                });
                require(fits, "a window with other indices")
            }
            TileNode::Transposed(of) => {
                of.verify(f)?;
                require(of.scalar == *scalar && of.shape.iter().rev().eq(shape), "a transposed tile of another shape")
            }
            TileNode::Reshaped(of) => {
                let count = |shape: &[u32]| shape.iter().fold(1_u64, |all, &n| all.saturating_mul(n.into()));
                of.verify(f)?;
                require(of.scalar == *scalar && count(&of.shape) == count(shape), "a tile with other elements")
            }
            TileNode::Each(op, parts) => {
                parts.iter().try_for_each(|part| part.verify(f))?;
                let count = match op {
                    TileElementOp::Unary(_) | TileElementOp::Convert(_) => Some(1),
                    TileElementOp::Binary(_) => Some(2),
                    TileElementOp::Builtin(_) | TileElementOp::Call(..) => None,
                };
                require(count.is_none_or(|count| parts.len() == count), "an operation on another number of tiles")?;
                let all = parts.iter().try_fold(vec![], |all, part| broadcast(&all, &part.shape));
                require(all.as_ref() == Some(shape), "an operation on tiles of another shape")
            }
        }
    }
}

fn require(holds: bool, violation: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(violation) }
}

fn is_written(f: &Function, memory: MemId) -> bool {
    match f.memories.get(memory).map(|memory| memory.space) {
        Some(MemorySpace::Global { access, .. }) => access != def::Access::In,
        Some(space) => space == MemorySpace::Shared,
        None => false,
    }
}

/// Returns whether the window is the whole of a shared array with this shape and type.
fn is_shared_of(f: &Function, window: &TileWindow, shape: &[u32], scalar: Scalar) -> bool {
    f.memories.get(window.memory).is_some_and(|memory| {
        memory.space == MemorySpace::Shared
            && memory.layout.leaves.first().is_some_and(|leaf| leaf.ty == Ty::Scalar(scalar))
            && window.is_whole()
            && memory.extents.iter().copied().eq(shape.iter().map(|&n| Extent::Known(n)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clk_ir::build::FunctionBuilder;
    use clk_ir::def::{Access, ElementLayout};

    #[test]
    fn verification_finds_invalid_statements() {
        let mut b = FunctionBuilder::new("k");
        let layout = ElementLayout::plain(Ty::Scalar(Scalar::F32));
        let shared = |b: &mut FunctionBuilder, shape: [u32; 2]| {
            b.memory("t", MemorySpace::Shared, layout.clone(), shape.map(Extent::Known).to_vec())
        };
        let (t, u) = (shared(&mut b, [4, 8]), shared(&mut b, [8, 4]));
        let x = b.array("x", Access::In, layout.clone(), 2);
        let (one, half) = (b.i32(1), b.f32(0.5));
        let f = b.finish();
        let all = TileAxisIndex::From(AxisRange::ALL);
        let window = |memory| TileWindow { memory, axes: vec![all; 2] };
        let tile =
            |shape: &[u32], node| TileExpr { shape: shape.to_vec(), scalar: Scalar::F32, node, span: Span::default() };
        let part = |memory, shape: [u32; 2]| tile(&shape, TileNode::Part(window(memory)));
        let assign = |memory, shape, value| TileStmt::Assign {
            to: part(memory, shape),
            target: window(memory),
            op: None,
            value,
            reads_memory: false,
        };
        let reduce =
            |to, axis| TileStmt::Reduce { to: window(to), of: part(t, [4, 8]), axis, fold: BinaryOp::Add.into() };
        let product = |to, shape| TileStmt::Product {
            to: window(to),
            acc: part(to, shape),
            a: part(t, [4, 8]),
            b: part(u, [8, 4]),
        };
        let at = |index| TileWindow { memory: t, axes: vec![TileAxisIndex::At(index), all] };
        let cases = [
            (assign(t, [4, 8], tile(&[], TileNode::Same(half))), None),
            (assign(t, [4, 8], part(u, [8, 4])), Some("an assignment of another shape")),
            (assign(t, [4, 8], tile(&[], TileNode::Same(one))), Some("a number of another type")),
            (assign(x, [4, 8], part(t, [4, 8])), Some("an assignment to an array that is not written")),
            (assign(t, [4, 8], tile(&[8], TileNode::Part(at(one)))), None),
            (assign(t, [4, 8], tile(&[8], TileNode::Part(at(half)))), Some("a window with other indices")),
            (assign(t, [4, 8], tile(&[4, 8], TileNode::Part(at(one)))), Some("a window of other axes")),
            (assign(t, [4, 8], tile(&[4, 8], TileNode::Transposed(Box::new(part(u, [8, 4]))))), None),
            (
                assign(t, [4, 8], tile(&[4, 8], TileNode::Transposed(Box::new(part(t, [4, 8]))))),
                Some("a transposed tile of another shape"),
            ),
            (
                assign(t, [4, 8], tile(&[4, 8], TileNode::Reshaped(Box::new(tile(&[], TileNode::Same(half)))))),
                Some("a tile with other elements"),
            ),
            (
                assign(
                    t,
                    [4, 8],
                    tile(&[4, 8], TileNode::Each(TileElementOp::Binary(BinaryOp::Add), vec![part(t, [4, 8])])),
                ),
                Some("an operation on another number of tiles"),
            ),
            (reduce(t, 1), None),
            (reduce(t, 2), Some("a reduction along an axis that does not exist")),
            (reduce(u, 1), Some("a reduction in other memory")),
            (product(u, [8, 4]), Some("a product of other extents")),
            (TileStmt::Uniform { value: one, result: half }, Some("a uniform value of another type")),
        ];
        for (stmt, expected) in cases {
            assert_eq!(stmt.verify(&f).err(), expected, "{stmt:?}");
        }
    }
}

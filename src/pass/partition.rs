//! Specializes a kernel for one part of a partitioned launch, whose sharded arrays contain only some rows.
//!
//! Input: a kernel with all calls inlined, the coordinate along which the launch is partitioned, and the sharded axes
//! of arrays. Output: a kernel that executes one part, with additional `i32` parameters: the first coordinate of the
//! part; the number of blocks of the whole launch (if the coordinate is a block index); and for each sharded array, the
//! first row of the shard and the extent of the whole array. The caller has proved that each thread accesses only rows
//! of its shards. So the parts together have the same results as the unpartitioned launch.

use crate::edit::{Renames, let_stmt, push, rename_all};
use clk_base::source::Span;
use clk_ir::def::*;
use clk_ir::footprint::partition::PartitionCoordinate;
use clk_ir::visit::each_stmt_mut;

const I32: Ty = Ty::Scalar(Scalar::I32);
const I64: Ty = Ty::Scalar(Scalar::I64);

/// Returns the kernel that executes one part. `arrays` lists the sharded array parameters, each with its sharded axis.
pub fn build_part_kernel(module: &Module, coordinate: PartitionCoordinate, arrays: &[(u32, u8)]) -> Module {
    let mut module = module.clone();
    (module.kernel.gemm, module.kernel.tile_program) = (None, None);
    let params = &mut module.kernel.params;
    let mut add = |name: String| {
        params.push(KernelParam::Value { name, ty: I32 });
        params.len() as u32 - 1
    };
    let offset = add("first".into());
    let blocks = matches!(coordinate, PartitionCoordinate::Block(_)).then(|| add("blocks".into()));
    let added: Vec<ShardParams> = arrays
        .iter()
        .map(|&(param, axis)| ShardParams {
            param,
            axis,
            base: add(format!("first {param}")),
            extent: add(format!("extent {param}")),
        })
        .collect();
    let body = module.kernel.body;
    let function = &mut module.functions[body];
    for added in &added {
        for (_, memory) in function.memories.iter_mut() {
            if matches!(memory.space, MemorySpace::Global { param, .. } if param == added.param)
                && let Some(extent) = memory.extents.get_mut(added.axis as usize)
            {
                *extent = Extent::Launch;
            }
        }
    }
    read_extents_from_params(function, &added, coordinate, blocks);
    let first = offset_coordinate(function, coordinate, offset);
    let mut body = std::mem::take(&mut function.body);
    // Removes the [`CollectiveLoop::Copy`] annotations of loops, because their window positions refer to the whole
    // array instead of the shard. The loops themselves remain, and their indices are adapted below.
    each_stmt_mut(&mut body, &mut |stmt| {
        if let StmtKind::For { collective, .. } = &mut stmt.kind {
            collective.take_if(|collective| matches!(collective, CollectiveLoop::Copy(_)));
        }
    });
    let mut body = localize_indices(function, body, &added);
    body.splice(0..0, first);
    function.body = body;
    module
}

/// The parameters added for a sharded array.
struct ShardParams {
    param: u32,
    axis: u8,
    base: u32,
    extent: u32,
}

/// Replaces reads of the extents of sharded arrays, and of the number of blocks, by reads of the additional parameters.
fn read_extents_from_params(
    function: &mut Function,
    added: &[ShardParams],
    coordinate: PartitionCoordinate,
    blocks: Option<u32>,
) {
    let memories = &function.memories;
    for (_, expr) in function.exprs.iter_mut() {
        let param = match (&expr.kind, coordinate) {
            (ExprKind::Extent(memory, axis), _) => added
                .iter()
                .find(|added| {
                    added.axis == *axis
                        && matches!(memories[*memory].space, MemorySpace::Global { param, .. } if param == added.param)
                })
                .map(|added| added.extent),
            (ExprKind::Id(BuiltinIndex::GridDim, axis), PartitionCoordinate::Block(k)) if *axis as u8 == k => blocks,
            _ => None,
        };
        if let Some(param) = param {
            expr.kind = ExprKind::Param(param);
        }
    }
}

/// Adds the first coordinate of the part to the coordinate. Returns the statements that compute the sum.
fn offset_coordinate(function: &mut Function, coordinate: PartitionCoordinate, offset: u32) -> Block {
    let mut before = vec![];
    let mut renames = Renames::default();
    let axes = [Axis::X, Axis::Y, Axis::Z];
    let kinds = match coordinate {
        PartitionCoordinate::Index(k) => vec![(ExprKind::Index(k), None)],
        PartitionCoordinate::Block(k) => {
            let axis = axes[usize::from(k).min(2)];
            let block = ExprKind::Id(BuiltinIndex::BlockDim, axis);
            vec![
                (ExprKind::Id(BuiltinIndex::Block, axis), None),
                (ExprKind::Id(BuiltinIndex::Global, axis), Some(block)),
            ]
        }
    };
    for (kind, times) in kinds {
        let old: Vec<ExprId> = function.exprs.iter().filter(|(_, expr)| expr.kind == kind).map(|(id, _)| id).collect();
        let Some(&first_use) = old.first() else { continue };
        let span = function.spans[first_use];
        let partition_local = push(function, kind, I32, span);
        let mut delta = push(function, ExprKind::Param(offset), I32, span);
        if let Some(times) = times {
            let factor = push(function, times, I32, span);
            delta = emit_binary(function, BinOp::Mul, delta, factor, I32, span, &mut before);
        }
        let sum = emit_binary(function, BinOp::Add, partition_local, delta, I32, span, &mut before);
        old.into_iter().for_each(|id| renames.set(id, sum));
    }
    rename_all(function, &renames);
    before
}

fn emit_binary(
    function: &mut Function,
    op: BinOp,
    left: ExprId,
    right: ExprId,
    ty: Ty,
    span: Span,
    before: &mut Block,
) -> ExprId {
    let id = push(function, ExprKind::Binary { op, left, right }, ty, span);
    before.push(let_stmt(function, id));
    id
}

/// Subtracts the first row of the shard from the indices along sharded axes.
fn localize_indices(function: &mut Function, block: Block, added: &[ShardParams]) -> Block {
    let mut out = Block::with_capacity(block.len());
    for mut stmt in block {
        let (span, mut before) = (stmt.span, vec![]);
        match &mut stmt.kind {
            StmtKind::Let(id) => {
                if let ExprKind::Load { place, hint } = function.exprs[*id].kind.clone() {
                    let place = localize_place(function, place, added, span, &mut before);
                    function.exprs[*id].kind = ExprKind::Load { place, hint };
                }
            }
            StmtKind::Store { place, .. } | StmtKind::Atomic { place, .. } => {
                *place = localize_place(function, place.clone(), added, span, &mut before);
            }
            kind => {
                for inner in kind.blocks_mut() {
                    *inner = localize_indices(function, std::mem::take(inner), added);
                }
            }
        }
        out.extend(before);
        out.push(stmt);
    }
    out
}

fn localize_place(
    function: &mut Function,
    mut place: Place,
    added: &[ShardParams],
    span: Span,
    before: &mut Block,
) -> Place {
    let MemorySpace::Global { param, .. } = function.memories[place.memory].space else { return place };
    let Some(added) = added.iter().find(|added| added.param == param) else { return place };
    let Some(index) = place.indices.get_mut(added.axis as usize) else { return place };
    let mut base = push(function, ExprKind::Param(added.base), I32, span);
    let ty = function.exprs[*index].ty;
    if ty == I32 {
        *index = emit_binary(function, BinOp::Sub, *index, base, I32, span, before);
        return place;
    }
    // Uses 64 bits to avoid overflow.
    let mut wide = *index;
    for value in [&mut wide, &mut base] {
        if function.exprs[*value].ty != I64 {
            *value = push(function, ExprKind::Convert(*value), I64, span);
            before.push(let_stmt(function, *value));
        }
    }
    *index = emit_binary(function, BinOp::Sub, wide, base, I64, span, before);
    place
}

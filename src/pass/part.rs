//! The form of a kernel for a part of a launch, whose arrays have some rows of the whole ones along an axis.
//!
//! Input: a kernel with all calls inlined, the coordinate along which the launch is cut, and the axes of arrays that are cut.
//! Output: the same kernel with more `i32` parameters behind its own: the first coordinate of the part, and if those are blocks the
//! number of blocks of the whole launch; for each array the first row that the part has, and the extent of the whole array. Coordinates begin at the
//! first one of the part, indices along cut axes are relative to its first row, and extents are those of the whole arrays. So each thread computes
//! what it would compute in the whole launch, if its accesses stay in its part; that the caller has proved.

use crate::base::source::Span;
use crate::ir::def::*;
use crate::ir::footprint::parts::Coordinate;
use crate::ir::visit::each_stmt_mut;
use crate::pass::edit::{Renames, let_stmt, push, rename_all};

const I32: Ty = Ty::Scalar(Scalar::I32);
const I64: Ty = Ty::Scalar(Scalar::I64);

/// Returns the kernel for a part; `arrays` are parameters with the axes along which they are cut.
pub fn of_launch(module: &Module, coordinate: Coordinate, arrays: &[(u32, u8)]) -> Module {
    let mut module = module.clone();
    (module.kernel.product, module.kernel.tiles) = (None, None);
    let params = &mut module.kernel.params;
    let mut add = |name: String| {
        params.push(KernelParam::Value { name, ty: I32 });
        params.len() as u32 - 1
    };
    let offset = add("first".into());
    let blocks = matches!(coordinate, Coordinate::Block(_)).then(|| add("blocks".into()));
    let added: Vec<Added> = arrays
        .iter()
        .map(|&(param, axis)| Added {
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
            if matches!(memory.space, Space::Global { param, .. } if param == added.param)
                && let Some(extent) = memory.extents.get_mut(added.axis as usize)
            {
                *extent = Extent::Launch;
            }
        }
    }
    whole_extents(function, &added, coordinate, blocks);
    let first = coordinates(function, coordinate, offset);
    let mut body = std::mem::take(&mut function.body);
    // Copies of parts of arrays say where these begin; the loops that do them stay.
    each_stmt_mut(&mut body, &mut |stmt| {
        if let StmtKind::For { together, .. } = &mut stmt.kind {
            together.take_if(|together| matches!(together, Together::Copy(_)));
        }
    });
    let mut body = relative(function, body, &added);
    body.splice(0..0, first);
    function.body = body;
    module
}

/// The parameters of a cut array.
struct Added {
    param: u32,
    axis: u8,
    base: u32,
    extent: u32,
}

/// Reads extents of cut arrays, and the number of blocks, from parameters.
fn whole_extents(function: &mut Function, added: &[Added], coordinate: Coordinate, blocks: Option<u32>) {
    let memories = &function.memories;
    for (_, expr) in function.exprs.iter_mut() {
        let param = match (&expr.kind, coordinate) {
            (ExprKind::Extent(memory, axis), _) => added
                .iter()
                .find(|added| {
                    added.axis == *axis
                        && matches!(memories[*memory].space, Space::Global { param, .. } if param == added.param)
                })
                .map(|added| added.extent),
            (ExprKind::Id(Id3::GridDim, axis), Coordinate::Block(k)) if *axis as u8 == k => blocks,
            _ => None,
        };
        if let Some(param) = param {
            expr.kind = ExprKind::Param(param);
        }
    }
}

/// Has the coordinate begin at that of the part; returns what computes it.
fn coordinates(function: &mut Function, coordinate: Coordinate, offset: u32) -> Block {
    let mut before = vec![];
    let mut renames = Renames::default();
    let axes = [Axis::X, Axis::Y, Axis::Z];
    let kinds = match coordinate {
        Coordinate::Index(k) => vec![(ExprKind::Index(k), None)],
        Coordinate::Block(k) => {
            let axis = axes[usize::from(k).min(2)];
            let block = ExprKind::Id(Id3::BlockDim, axis);
            vec![(ExprKind::Id(Id3::Block, axis), None), (ExprKind::Id(Id3::Global, axis), Some(block))]
        }
    };
    for (kind, times) in kinds {
        let old: Vec<ExprId> = function.exprs.iter().filter(|(_, expr)| expr.kind == kind).map(|(id, _)| id).collect();
        let Some(&one) = old.first() else { continue };
        let span = function.spans[one];
        let own = push(function, kind, I32, span);
        let mut more = push(function, ExprKind::Param(offset), I32, span);
        if let Some(times) = times {
            let by = push(function, times, I32, span);
            more = computed(function, BinOp::Mul, more, by, I32, span, &mut before);
        }
        let sum = computed(function, BinOp::Add, own, more, I32, span, &mut before);
        old.into_iter().for_each(|id| renames.set(id, sum));
    }
    rename_all(function, &renames);
    before
}

fn computed(
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

/// Makes indices along cut axes relative to the first row of the part.
fn relative(function: &mut Function, block: Block, added: &[Added]) -> Block {
    let mut out = Block::with_capacity(block.len());
    for mut stmt in block {
        let (span, mut before) = (stmt.span, vec![]);
        match &mut stmt.kind {
            StmtKind::Let(id) => {
                if let ExprKind::Load { place, hint } = function.exprs[*id].kind.clone() {
                    let place = moved(function, place, added, span, &mut before);
                    function.exprs[*id].kind = ExprKind::Load { place, hint };
                }
            }
            StmtKind::Store { place, .. } | StmtKind::Atomic { place, .. } => {
                *place = moved(function, place.clone(), added, span, &mut before);
            }
            kind => {
                for inner in kind.blocks_mut() {
                    *inner = relative(function, std::mem::take(inner), added);
                }
            }
        }
        out.extend(before);
        out.push(stmt);
    }
    out
}

fn moved(function: &mut Function, mut place: Place, added: &[Added], span: Span, before: &mut Block) -> Place {
    let Space::Global { param, .. } = function.memories[place.memory].space else { return place };
    let Some(added) = added.iter().find(|added| added.param == param) else { return place };
    let Some(index) = place.indices.get_mut(added.axis as usize) else { return place };
    let mut base = push(function, ExprKind::Param(added.base), I32, span);
    let ty = function.exprs[*index].ty;
    if ty == I32 {
        *index = computed(function, BinOp::Sub, *index, base, I32, span, before);
        return place;
    }
    // Of 64 bits, so that it does not wrap around.
    let mut wide = *index;
    for value in [&mut wide, &mut base] {
        if function.exprs[*value].ty != I64 {
            *value = push(function, ExprKind::Convert(*value), I64, span);
            before.push(let_stmt(function, *value));
        }
    }
    *index = computed(function, BinOp::Sub, wide, base, I64, span, before);
    place
}

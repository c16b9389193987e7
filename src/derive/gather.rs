//! Gather kernels: compute the adjoint of an array that is read at constant offsets from the thread's indices, as in a
//! stencil.
//!
//! Input: a reverse derivative over an index space in which each thread adds to several elements of such an adjoint.
//! Output: a kernel over the elements. Each of its threads computes the sum of all additions of the launch to one
//! element. No atomics are needed, and the additions execute in program order, so results are bit-identical from run to
//! run.

use super::derived::GatherKernel;
use super::error::NotDifferentiable;
use super::recompute::{RecomputeKernel, ReverseKernel, additions, index_offset};
use super::rules::constant;
use clk_base::arena::Arena;
use clk_ir::build::FunctionBuilder;
use clk_ir::def::*;
use clk_pass::trip_count;

/// Limits: the number of additions to an array, and of statements that a thread executes. For each addition, the gather
/// kernel recomputes everything on which the addition depends; on a GPU, an atomic addition costs about as much as 50
/// simple operations.
const MAX_ADDITIONS: usize = 32;
const MAX_STATEMENTS: u64 = 4096;
/// The assumed number of iterations of a loop whose number of iterations is unknown.
const ASSUMED_ITERATIONS: u64 = 32;

/// The element to which a thread adds: for each axis of the array, the thread index that is used and a constant offset.
pub(super) type AdditionTarget = Vec<(u8, i32)>;

/// Returns the targets of the additions to an adjoint. `None` unless the indices of each target are a permutation of
/// the thread's indices plus constants, and a gather kernel is cheap enough.
pub(super) fn addition_targets(body: &Function, memory: MemId, rank: u8) -> Option<Vec<AdditionTarget>> {
    let memory_def = &body.memories[memory];
    let [leaf] = &memory_def.layout.leaves[..] else { return None };
    if memory_def.extents.len() != usize::from(rank) || !matches!(leaf.ty, Ty::Scalar(Scalar::F32 | Scalar::F64)) {
        return None;
    }
    let targets = additions(body, memory)?;
    let is_worthwhile = (2..=MAX_ADDITIONS).contains(&targets.len())
        && estimate_steps(body, &body.body).saturating_mul(targets.len() as u64) <= MAX_STATEMENTS;
    if is_worthwhile { targets.into_iter().map(|place| addition_target(body, place, rank)).collect() } else { None }
}

/// Returns an upper estimate of the number of statements that a thread executes.
fn estimate_steps(f: &Function, block: &Block) -> u64 {
    let estimate = |stmt: &Stmt| {
        let inner = stmt.kind.blocks().map(|block| estimate_steps(f, block)).fold(0, u64::saturating_add);
        let times = match &stmt.kind {
            StmtKind::For { start, end, step, inclusive, .. } => {
                let trips = trip_count(f, *start, *end, *step, *inclusive);
                trips.and_then(|count| u64::try_from(count).ok()).unwrap_or(ASSUMED_ITERATIONS)
            }
            StmtKind::Loop { .. } => ASSUMED_ITERATIONS,
            _ => 1,
        };
        inner.saturating_mul(times).saturating_add(1)
    };
    block.iter().map(estimate).fold(0, u64::saturating_add)
}

fn addition_target(body: &Function, place: &Place, rank: u8) -> Option<AdditionTarget> {
    let site: AdditionTarget = place.indices.iter().map(|&index| index_offset(body, index)).collect::<Option<_>>()?;
    (0..rank).all(|k| site.iter().any(|(own, _)| *own == k)).then_some(site)
}

/// Generates the kernel that gathers the adjoint of a parameter.
pub(super) fn make_gather_kernel(
    reverse: ReverseKernel<'_>,
    param: usize,
    memory: MemId,
    sites: &[AdditionTarget],
) -> Result<GatherKernel, NotDifferentiable> {
    let original = &reverse.module.functions[reverse.module.kernel.body];
    let mut b = FunctionBuilder::new("gather");
    let (copies, params) = RecomputeKernel::begin(&mut b, reverse, Some(memory));
    let rank = copies.space.len();
    let element: Vec<ExprId> = (0..rank).map(|k| b.index(k as u8)).collect();
    let ty = original.memories[memory].layout.leaves[0].ty;
    let zero = constant(&mut b, ty, 0.0);
    let sum = b.variable("sum", zero);
    let limits = copies.limits(&mut b);
    let mut functions = Arena::default();
    for (number, site) in sites.iter().enumerate() {
        let copy = functions.push(copies.copy(format!("part{number}"), &[((memory, number), ty)]));
        let mut thread = element.clone();
        for (axis, &(k, by)) in site.iter().enumerate() {
            let by = b.i32(by);
            thread[usize::from(k)] = b.binary(BinOp::Sub, element[axis], by);
        }
        let exists = thread_exists(&mut b, &thread, &limits);
        b.if_then(exists, |b| {
            for part in copies.call(b, copy, &[ty], &thread) {
                let before = b.read(sum);
                let next = b.binary(BinOp::Add, before, part);
                b.write(sum, next);
            }
        });
    }
    if let Some(adjoint) = copies.memory(memory) {
        let (before, part) = (b.load(adjoint, &element), b.read(sum));
        let next = b.binary(BinOp::Add, before, part);
        b.store(adjoint, &element, next);
    }
    let module = copies.finish(reverse.module, functions, b, &original.memories[memory].name)?;
    Ok(GatherKernel { module, params, param })
}

/// Emits the condition that a thread with these indices exists.
fn thread_exists(b: &mut FunctionBuilder, thread: &[ExprId], limits: &[ExprId]) -> ExprId {
    let mut inside = b.bool(true);
    for (&index, &extent) in thread.iter().zip(limits) {
        let zero = b.i32(0);
        for (op, limit) in [(BinOp::Ge, zero), (BinOp::Lt, extent)] {
            let is_within = b.binary(op, index, limit);
            inside = b.binary(BinOp::And, inside, is_within);
        }
    }
    inside
}

//! Adjoints that threads gather: for an array that is read at the thread's indices moved by constants, as in a stencil.
//!
//! Input: a reverse derivative over an index space, in which each thread adds to several elements of such an adjoint. Output: a kernel
//! over the elements, whose threads compute what the threads of the launch would have added to their element. Nothing is atomic, and
//! the order of the additions is that of the text, so the bits are the same each time.

use super::def::{Gather, Role};
use super::lost::Lost;
use super::repeat::{Copies, additions, moved};
use super::rules::constant;
use crate::base::arena::Arena;
use crate::ir::build::FunctionBuilder;
use crate::ir::def::*;
use crate::pass::trip_count;

/// The most additions to an array that are gathered, and the most statements that a thread then does: each addition is computed with all
/// that it needs. An atomic addition costs a GPU as much as some 50 simple operations.
const MOST_SITES: usize = 32;
const MOST_STATEMENTS: u64 = 4096;
/// The iterations of a loop of which that is not known.
const ITERATIONS: u64 = 32;

/// Where an addition goes: along each axis, the axis of the thread's index, and what is added to it.
pub(super) type Site = Vec<(u8, i32)>;

/// Returns the additions to an adjoint, if each is at the thread's own indices, in any order, moved by constants.
pub(super) fn sites(body: &Function, memory: MemId, rank: u8) -> Option<Vec<Site>> {
    let own = &body.memories[memory];
    let [leaf] = &own.layout.leaves[..] else { return None };
    if own.extents.len() != usize::from(rank) || !matches!(leaf.ty, Ty::Scalar(Scalar::F32 | Scalar::F64)) {
        return None;
    }
    let found = additions(body, memory)?;
    let pays = (2..=MOST_SITES).contains(&found.len())
        && steps(body, &body.body).saturating_mul(found.len() as u64) <= MOST_STATEMENTS;
    if pays { found.into_iter().map(|place| site(body, place, rank)).collect() } else { None }
}

/// Returns how many statements a thread does at most, as far as that is known.
fn steps(f: &Function, block: &Block) -> u64 {
    let of = |stmt: &Stmt| {
        let inner = stmt.kind.blocks().map(|block| steps(f, block)).fold(0, u64::saturating_add);
        let times = match &stmt.kind {
            StmtKind::For { start, end, step, inclusive, .. } => {
                let known = trip_count(f, *start, *end, *step, *inclusive);
                known.and_then(|count| u64::try_from(count).ok()).unwrap_or(ITERATIONS)
            }
            StmtKind::Loop { .. } => ITERATIONS,
            _ => 1,
        };
        inner.saturating_mul(times).saturating_add(1)
    };
    block.iter().map(of).fold(0, u64::saturating_add)
}

fn site(body: &Function, place: &Place, rank: u8) -> Option<Site> {
    let site: Site = place.indices.iter().map(|&index| moved(body, index)).collect::<Option<_>>()?;
    (0..rank).all(|k| site.iter().any(|(own, _)| *own == k)).then_some(site)
}

/// Makes the kernel that gathers an adjoint, that of a parameter.
pub(super) fn gather(
    (made, roles, held): (&Module, &[Role], &[Place]),
    (param, memory): (usize, MemId),
    sites: &[Site],
) -> Result<Gather, Lost> {
    let original = &made.functions[made.kernel.body];
    let mut b = FunctionBuilder::new("gather");
    let (copies, params) = Copies::begin(&mut b, (made, roles, held), Some(memory));
    let rank = copies.space.len();
    let own: Vec<ExprId> = (0..rank).map(|k| b.index(k as u8)).collect();
    let ty = original.memories[memory].layout.leaves[0].ty;
    let zero = constant(&mut b, ty, 0.0);
    let sum = b.variable("sum", zero);
    let limits = copies.limits(&mut b);
    let mut functions = Arena::default();
    for (number, site) in sites.iter().enumerate() {
        let copy = functions.push(copies.copy(format!("part{number}"), &[((memory, number), ty)]));
        let mut thread = own.clone();
        for (axis, &(k, by)) in site.iter().enumerate() {
            let by = b.i32(by);
            thread[usize::from(k)] = b.binary(BinOp::Sub, own[axis], by);
        }
        let inside = is_inside(&mut b, &thread, &limits);
        b.if_then(inside, |b| {
            for part in copies.call(b, copy, &[ty], &thread) {
                let before = b.read(sum);
                let next = b.binary(BinOp::Add, before, part);
                b.write(sum, next);
            }
        });
    }
    if let Some(adjoint) = copies.memory(memory) {
        let (before, part) = (b.load(adjoint, &own), b.read(sum));
        let next = b.binary(BinOp::Add, before, part);
        b.store(adjoint, &own, next);
    }
    let module = copies.finish(made, functions, b, &original.memories[memory].name)?;
    Ok(Gather { module, params, param })
}

/// Returns whether there is a thread with these indices.
fn is_inside(b: &mut FunctionBuilder, thread: &[ExprId], limits: &[ExprId]) -> ExprId {
    let mut inside = b.bool(true);
    for (&index, &extent) in thread.iter().zip(limits) {
        let zero = b.i32(0);
        for (op, limit) in [(BinOp::Ge, zero), (BinOp::Lt, extent)] {
            let fits = b.binary(op, index, limit);
            inside = b.binary(BinOp::And, inside, fits);
        }
    }
    inside
}

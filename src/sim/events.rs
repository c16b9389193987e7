//! Sanitizer events: the ops by which a running group reports accesses, barriers, fences and divergence to its checker.
//!
//! These ops are part of the code only if checks are on ([`Checks`](clk_ir::Checks)); without checks, events cost
//! nothing. An op reports one event for all participating lanes. It reports an access or a divergence before it
//! happens, and a barrier after all threads have reached it. The group provides the active lanes, and the module
//! `memory` computes the addresses of an access.

pub(crate) use super::access_site::{AccessKind, AccessSite, AccessTraits};
pub use super::group::GroupObserver;
use super::group::{Op, ThreadGroup};
use super::lanes::OpStep;
use super::op_shape::{LoopKind, MemoryOperandKind, OpFlow, OpShape, OperandRole, RegisterRole};
use clk_ir::def::FenceScope;

/// Reports an event; continues with the next op unless the observer stopped the group.
#[inline(always)]
unsafe fn report(
    g: &mut ThreadGroup,
    op: *const Op,
    event: impl FnOnce(&mut dyn GroupObserver, &mut ThreadGroup),
) -> *const Op {
    if let Some(mut observer) = g.observer {
        // SAFETY: G5: the frame owns the observer, and nothing else uses it while an op runs.
        event(unsafe { observer.as_mut() }, g);
    }
    if g.results.stopped.is_some() { std::ptr::null() } else { op.wrapping_add(1) }
}

/// Reports an access of the active lanes at access site `x`.
pub(crate) struct ReportAccess;

impl OpStep for ReportAccess {
    const SHAPE: OpShape = OpShape::new("report touch").x(OperandRole::AccessSite);

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C4: `x` is an access site of the code (indexing checks it). C3: another op follows.
        unsafe {
            let site = &(&(*g.code).events.access_sites)[(*op).x as usize];
            report(g, op, |l, g| l.on_access(g, site))
        }
    }
}

/// Precedes the dot-product op for loop `y`. If that op can run the loop, reports the loads of all iterations at the
/// `c` access sites from `x` on.
pub(crate) struct ReportDot;

impl OpStep for ReportDot {
    const SHAPE: OpShape = OpShape::new("report dot")
        .x(OperandRole::AccessSites)
        .y(OperandRole::Loop(LoopKind::OptionalI32))
        .flow(OpFlow::Skip)
        .before(&["dot", "jump"]);

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C4: access sites, loop and counter belong to the code (indexing checks it), and the loop counts in
        // `i32` if there are sites. C3: two more ops follow.
        unsafe {
            let (o, code) = (&*op, &*g.code);
            let iterations = g.counters[o.y as usize].max_trips;
            if !g.mask.full {
                return op.add(1);
            }
            for site in (o.x..o.x + u32::from(o.c)).map(|n| &code.events.access_sites[n as usize]) {
                let Some((run, iteration)) = super::dot::over_budget(g, site.access, o.y, iterations) else {
                    return op.add(1);
                };
                let mut all = true;
                report(g, op, |l, g| all = l.on_loop_loads(g, site, &run, iterations as usize, iteration));
                if !all {
                    // Skip the dot-product op, so the loop itself runs and reports its loads.
                    return op.add(2);
                }
            }
            op.add(1)
        }
    }
}

/// Precedes the tree-reduction op. If that op can run the loop, reports the accesses at the three access sites of the
/// loop, from `x` on. If the array is not checked, the loop has no access sites.
pub(crate) struct ReportTree;

impl OpStep for ReportTree {
    const SHAPE: OpShape = OpShape::new("report tree").x(OperandRole::AccessSites).flow(OpFlow::Skip).before(&["tree"]);

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: by the rules of the verifier (`docs/internals/verifier-rules.md`): C7: a tree-reduction op follows,
        // so `op.add(1)` is an op of that kind. C4: the access sites belong to the code (indexing checks it). C3:
        // another op follows the tree reduction.
        unsafe {
            let (o, tree) = (&*op, op.add(1));
            let Some(distance) = super::tree::distance(g, &*tree) else { return tree };
            let code = &*g.code;
            let mut all = o.c == 3 || o.c == 0;
            if all {
                let sites = &code.events.access_sites[o.x as usize..(o.x + u32::from(o.c)) as usize];
                report(g, op, |l, g| all = l.on_tree_reduction(g, sites, distance));
            }
            if all { tree } else { op.add(2) }
        }
    }
}

/// Reports the declaration of local array `x`.
pub(crate) struct ReportLocalDeclaration;

impl OpStep for ReportLocalDeclaration {
    const SHAPE: OpShape = OpShape::new("report declared").x(OperandRole::Memory(MemoryOperandKind::Local));

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C4: `x` is a local array of the code. C3: another op follows.
        unsafe { report(g, op, |l, g| l.on_local_declaration(g, (*op).x)) }
    }
}

pub(crate) struct ReportBlockBarrier;

impl OpStep for ReportBlockBarrier {
    const SHAPE: OpShape = OpShape::new("report block met");

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // For a split block, `warp_split` reports the barrier when the last split arrives.
        // SAFETY: C3: another op follows.
        unsafe { if g.split.is_split { op.add(1) } else { report(g, op, |l, g| l.on_block_barrier(g)) } }
    }
}

pub(crate) struct ReportWarpBarrier;

impl OpStep for ReportWarpBarrier {
    const SHAPE: OpShape = OpShape::new("report warps met");

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C3: another op follows.
        unsafe { report(g, op, |l, g| l.on_warp_barrier(g)) }
    }
}

/// Reports a fence, of block scope if `x` is 1, otherwise of device scope.
pub(crate) struct ReportFence;

impl OpStep for ReportFence {
    const SHAPE: OpShape = OpShape::new("report fenced");

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C3: `op` is an op of the code, and another op follows.
        unsafe {
            let scope = if (*op).x == 1 { FenceScope::Block } else { FenceScope::Device };
            report(g, op, |l, g| l.on_fence(g, scope))
        }
    }
}

/// Reports that the inactive lanes of mask `b` diverged at span `y`. If `x` is 1, lanes that already have a divergence
/// record keep it.
pub(crate) struct ReportDivergence;

impl OpStep for ReportDivergence {
    const SHAPE: OpShape = OpShape::new("report parted").b(RegisterRole::Mask).y(OperandRole::Span);

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C2: `b` is a mask. C3: `op` is an op of the code, and another op follows.
        unsafe { report(g, op, |l, g| l.on_divergence(g, (*op).b, (*op).y, (*op).x == 1)) }
    }
}

/// Reports that the active lanes exit the kernel at span `y`.
pub(crate) struct ReportExit;

impl OpStep for ReportExit {
    const SHAPE: OpShape = OpShape::new("report left").y(OperandRole::Span);

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C3: `op` is an op of the code, and another op follows.
        unsafe { report(g, op, |l, g| l.on_exit(g, (*op).y)) }
    }
}

/// Reports that the active lanes begin straight-line segment `x`. Inactive lanes of mask `b` do not execute it, because
/// they diverged.
pub(crate) struct ReportSegment;

impl OpStep for ReportSegment {
    const SHAPE: OpShape = OpShape::new("report begins").b(RegisterRole::Mask);

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C2: `b` is a mask. C3: `op` is an op of the code, and another op follows.
        unsafe { report(g, op, |l, g| l.on_segment(g, (*op).x, (*op).b)) }
    }
}

pub(crate) struct ReportLoopEntry;

impl OpStep for ReportLoopEntry {
    const SHAPE: OpShape = OpShape::new("report gathered");

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C3: another op follows.
        unsafe { report(g, op, |l, g| l.on_loop_entry(g)) }
    }
}

/// Reports that polling loop `x` starts another iteration.
pub(crate) struct ReportPoll;

impl OpStep for ReportPoll {
    const SHAPE: OpShape = OpShape::new("report polls").x(OperandRole::PollingLoop);

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C4: `x` is a polling loop of the code (indexing checks it). C3: another op follows.
        unsafe {
            let wait = &(&(*g.code).events.polling_loops)[(*op).x as usize];
            report(g, op, |l, g| l.on_poll(g, wait))
        }
    }
}

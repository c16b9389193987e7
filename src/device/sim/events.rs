//! Sanitizer events: the interface between a running group and its checker, and the ops that report events.
//!
//! These ops are part of the code only if checks are on ([`Checks`](crate::ir::Checks)); otherwise events cost nothing. An event
//! is reported once for all lanes that take part, before what it announces happens (an access, a divergence) or after it (a
//! barrier). The group gives the active lanes; `memory` finds the addresses of an access.

pub use super::group::Observer;
use super::group::{Group, Op};
use super::lanes::Step;
pub(crate) use super::note::{Form, Note, Touch, Traits};
use super::shape::{Field, Flow, Kind, Loop, Shape, Word};
use crate::ir::def::Scope;

/// Reports an event; continues unless the observer stopped the group.
#[inline(always)]
unsafe fn report(g: &mut Group, op: *const Op, event: impl FnOnce(&mut dyn Observer, &mut Group)) -> *const Op {
    if let Some(mut observer) = g.observer {
        // SAFETY: G5: the frame owns the observer, and nothing else uses it while an op runs.
        event(unsafe { observer.as_mut() }, g);
    }
    if g.stopped.is_some() { std::ptr::null() } else { op.wrapping_add(1) }
}

/// Reports the access of note `x`.
pub(crate) struct ReportTouch;

impl Step for ReportTouch {
    const SHAPE: Shape = Shape::new("report touch").x(Word::Note);

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C4: `x` is a note of the code's (indexing checks it). C3: there is an op behind.
        unsafe {
            let note = &(&(*g.code).notes)[(*op).x as usize];
            report(g, op, |l, g| l.touches(g, note))
        }
    }
}

/// In front of a [`Dot`](super::dot::Dot) of loop `y`: reports `c` notes from `x` on for all iterations, if the `Dot` can run the
/// loop.
pub(crate) struct ReportDot;

impl Step for ReportDot {
    const SHAPE: Shape =
        Shape::new("report dot").x(Word::Notes).y(Word::Loop(Loop::Told)).flow(Flow::Skip).before(&["dot", "jump"]);

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C4: notes, loop and counter are the code's (indexing checks it), and the loop is of `i32` if there are notes. C3:
        // there are two ops behind.
        unsafe {
            let (o, code) = (&*op, &*g.code);
            let iterations = g.counters[o.y as usize].most;
            if !g.full {
                return op.add(1);
            }
            for note in (o.x..o.x + u32::from(o.c)).map(|n| &code.notes[n as usize]) {
                let Some((run, iteration)) = super::dot::over_budget(g, note.access, o.y, iterations) else {
                    return op.add(1);
                };
                let mut all = true;
                report(g, op, |l, g| all = l.loads(g, note, &run, iterations as usize, iteration));
                if !all {
                    // Skips the `Dot`.
                    return op.add(2);
                }
            }
            op.add(1)
        }
    }
}

/// In front of a [`Tree`](super::tree::Tree): reports its three notes from `x` on, or none of an array that is not looked at, if the
/// `Tree` can run the loop.
pub(crate) struct ReportTree;

impl Step for ReportTree {
    const SHAPE: Shape = Shape::new("report tree").x(Word::Notes).flow(Flow::Skip).before(&["tree"]);

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C7: a [`Tree`](super::tree::Tree) follows. C4: notes are the code's (indexing checks it). C3: there is an op
        // behind it.
        unsafe {
            let (o, tree) = (&*op, op.add(1));
            let Some(distance) = super::tree::distance(g, &*tree) else { return tree };
            let code = &*g.code;
            let mut all = o.c == 3 || o.c == 0;
            if all {
                let notes = &code.notes[o.x as usize..(o.x + u32::from(o.c)) as usize];
                report(g, op, |l, g| all = l.tree(g, notes, distance));
            }
            if all { tree } else { op.add(2) }
        }
    }
}

/// Reports the declaration of local array `x`.
pub(crate) struct ReportDeclared;

impl Step for ReportDeclared {
    const SHAPE: Shape = Shape::new("report declared").x(Word::Memory(Kind::Local));

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C4: `x` is a local array of the code. C3: there is an op behind.
        unsafe { report(g, op, |l, g| l.declared(g, (*op).x)) }
    }
}

pub(crate) struct ReportBlockMet;

impl Step for ReportBlockMet {
    const SHAPE: Shape = Shape::new("report block met");

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // Warp splits of a block synchronize when the last of them arrives; `parts` reports that.
        // SAFETY: C3: there is an op behind.
        unsafe { if g.is_split { op.add(1) } else { report(g, op, |l, g| l.block_met(g)) } }
    }
}

pub(crate) struct ReportWarpsMet;

impl Step for ReportWarpsMet {
    const SHAPE: Shape = Shape::new("report warps met");

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C3: there is an op behind.
        unsafe { report(g, op, |l, g| l.warps_met(g)) }
    }
}

/// Reports a fence, of block scope only if `x` is 1.
pub(crate) struct ReportFenced;

impl Step for ReportFenced {
    const SHAPE: Shape = Shape::new("report fenced");

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C3: `op` is one of the code's, with one behind.
        unsafe {
            let scope = if (*op).x == 1 { Scope::Block } else { Scope::Device };
            report(g, op, |l, g| l.fenced(g, scope))
        }
    }
}

/// Reports that lanes of mask `b` diverged at `y`; with `x` = 1 earlier records stay.
pub(crate) struct ReportParted;

impl Step for ReportParted {
    const SHAPE: Shape = Shape::new("report parted").b(Field::Mask).y(Word::Span);

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C2: `b` is a mask. C3: `op` is one of the code's, with one behind.
        unsafe { report(g, op, |l, g| l.parted(g, (*op).b, (*op).y, (*op).x == 1)) }
    }
}

/// Reports that the active lanes leave at `y`.
pub(crate) struct ReportLeft;

impl Step for ReportLeft {
    const SHAPE: Shape = Shape::new("report left").y(Word::Span);

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C3: `op` is one of the code's, with one behind.
        unsafe { report(g, op, |l, g| l.left(g, (*op).y)) }
    }
}

/// Reports that the active lanes begin segment `x`; `b` is the mask of the lanes from which they may have parted.
pub(crate) struct ReportBegins;

impl Step for ReportBegins {
    const SHAPE: Shape = Shape::new("report begins").b(Field::Mask);

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C2: `b` is a mask. C3: `op` is one of the code's, with one behind.
        unsafe { report(g, op, |l, g| l.begins(g, (*op).x, (*op).b)) }
    }
}

pub(crate) struct ReportGathered;

impl Step for ReportGathered {
    const SHAPE: Shape = Shape::new("report gathered");

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C3: there is an op behind.
        unsafe { report(g, op, |l, g| l.gathered(g)) }
    }
}

/// Reports another iteration of the loop that entry `x` of the code's waits describes.
pub(crate) struct ReportPolls;

impl Step for ReportPolls {
    const SHAPE: Shape = Shape::new("report polls").x(Word::Wait);

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C4: `x` is one of the code's waits (indexing checks it). C3: there is an op behind.
        unsafe {
            let wait = &(&(*g.code).waits)[(*op).x as usize];
            report(g, op, |l, g| l.polls(g, wait))
        }
    }
}

//! Sanitizer events: the interface between a running group and its checker, and the ops that report events.
//!
//! These ops are part of the code only if checks are on ([`Checks`](crate::ir::Checks)); otherwise events cost nothing. An event
//! is reported once for all lanes that take part, before what it announces happens (an access, a divergence) or after it (a
//! barrier). The group gives the active lanes; `memory` finds the addresses of an access.

pub use super::group::Listener;
use super::group::{Group, Op};
use super::lanes::Step;
pub(crate) use super::note::{Form, Note, Touch, Traits};
use crate::ir::def::Scope;

/// Reports an event; continues unless the listener stopped the group.
#[inline(always)]
unsafe fn tell(g: &mut Group, op: *const Op, event: impl FnOnce(&mut dyn Listener, &mut Group)) -> *const Op {
    if let Some(mut listener) = g.listener {
        // SAFETY: the frame owns the listener for as long as the group runs, and nothing else uses it meanwhile.
        event(unsafe { listener.as_mut() }, g);
    }
    if g.stopped.is_some() { std::ptr::null() } else { unsafe { op.add(1) } }
}

/// Reports the access of note `x`.
pub(crate) struct TellTouch;

impl Step for TellTouch {
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        unsafe {
            let note = &(&(*g.code).notes)[(*op).x as usize];
            tell(g, op, |l, g| l.touches(g, note))
        }
    }
}

/// In front of a [`Dot`](super::dot::Dot) of loop `y`: reports `c` notes from `x` on for all iterations, if the `Dot` can run the
/// loop.
pub(crate) struct TellDot;

impl Step for TellDot {
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        unsafe {
            let (o, code) = (&*op, &*g.code);
            let turns = g.counters[o.y as usize].most;
            if !g.full || o.c == super::code::NONE {
                return op.add(1);
            }
            for note in (o.x..o.x + u32::from(o.c)).map(|n| &code.notes[n as usize]) {
                let Some((run, turn)) = super::dot::over_turns(g, note.access, o.y, turns) else { return op.add(1) };
                let mut all = true;
                tell(g, op, |l, g| all = l.loads(g, note, &run, turns as usize, turn));
                if !all {
                    // Skips the `Dot`.
                    return op.add(2);
                }
            }
            op.add(1)
        }
    }
}

/// In front of a [`Tree`](super::tree::Tree): reports its three notes from `x` on, if the `Tree` can run the loop.
pub(crate) struct TellTree;

impl Step for TellTree {
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        unsafe {
            let (o, tree) = (&*op, op.add(1));
            let Some(distance) = super::tree::distance(g, &*tree) else { return tree };
            let code = &*g.code;
            let mut all = o.c == 3;
            if all {
                let notes = &code.notes[o.x as usize..o.x as usize + 3];
                tell(g, op, |l, g| all = l.tree(g, notes, distance));
            }
            if all { tree } else { op.add(2) }
        }
    }
}

/// Reports the declaration of local array `x`.
pub(crate) struct TellDeclared;

impl Step for TellDeclared {
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        unsafe { tell(g, op, |l, g| l.declared(g, (*op).x)) }
    }
}

pub(crate) struct TellBlockMet;

impl Step for TellBlockMet {
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // Warp splits of a block synchronize when the last of them arrives; `parts` reports that.
        unsafe { if g.apart { op.add(1) } else { tell(g, op, |l, g| l.block_met(g)) } }
    }
}

pub(crate) struct TellWarpsMet;

impl Step for TellWarpsMet {
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        unsafe { tell(g, op, |l, g| l.warps_met(g)) }
    }
}

/// Reports a fence, of block scope only if `x` is 1.
pub(crate) struct TellFenced;

impl Step for TellFenced {
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        unsafe {
            let scope = if (*op).x == 1 { Scope::Block } else { Scope::Device };
            tell(g, op, |l, g| l.fenced(g, scope))
        }
    }
}

/// Reports that lanes of mask `b` diverged at `y`; with `x` = 1 earlier records stay.
pub(crate) struct TellParted;

impl Step for TellParted {
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        unsafe { tell(g, op, |l, g| l.parted(g, (*op).b, (*op).y, (*op).x == 1)) }
    }
}

/// Reports that the active lanes leave at `y`.
pub(crate) struct TellLeft;

impl Step for TellLeft {
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        unsafe { tell(g, op, |l, g| l.left(g, (*op).y)) }
    }
}

pub(crate) struct TellGathered;

impl Step for TellGathered {
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        unsafe { tell(g, op, |l, g| l.gathered(g)) }
    }
}

/// Reports another iteration of the loop that entry `x` of the code's waits describes.
pub(crate) struct TellPolls;

impl Step for TellPolls {
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        unsafe {
            let wait = &(&(*g.code).waits)[(*op).x as usize];
            tell(g, op, |l, g| l.polls(g, wait))
        }
    }
}

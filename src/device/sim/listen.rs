//! Sanitizer events: the interface between a running group and its checker, and the ops that report events.
//!
//! These ops are part of the code only if checks are on ([`Checks`](crate::ir::Checks)); otherwise events cost nothing. An event
//! is reported once for all lanes that take part, before what it announces happens (an access, a divergence) or after it (a
//! barrier). The group gives the active lanes; `memory` finds the addresses of an access.

use super::code::{MaskId, Op, Reg, WaitDef};
use super::group::Group;
use super::lanes::Step;
use super::memory::Run;
use crate::ir::def::Scope;

/// The kind of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    Load,
    Store,
    Atomic,
}

/// How the indices of an access vary between lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// All lanes have the same.
    One,
    /// Mostly contiguous rows: see `memory::resolve`.
    Rows,
    /// Each lane has its own.
    Lanes,
}

/// The static description of an access in events.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    pub touch: Touch,
    /// Number of the code's access: memory, indices, location in the source.
    pub access: u32,
    /// A number among the accesses of its memory; `site` is the same for shadow words, where those from 255 on share one.
    pub number: u32,
    pub site: u8,
    pub form: Form,
    /// The number of adjacent scalars that it accesses in the element, and the bytes of one.
    pub components: u8,
    pub pitch: usize,
    /// The stored registers, by component.
    pub values: Vec<Reg>,
    pub traits: Traits,
    /// The number of the code's atomic operation, for an atomic.
    pub atomic: u32,
}

/// Facts that the analysis of the kernel found about an access.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traits {
    /// An atomic whose old value is unused and does not influence the new one.
    pub overwrites: bool,
    /// An atomic whose old value influences control flow or addresses.
    pub decides: bool,
    /// An atomic that is the only effect of a loop, which retries until it succeeds.
    pub takes: bool,
    /// A load of an element that the same thread stores to somewhere: of several readers, stores may race with the others.
    pub own: bool,
}

/// Receives the events of a group. A handler that finds a fault stops the group (`fault::stop_at`).
///
/// # Safety
/// The methods are called by ops of the group's code only, with notes of that code.
pub(crate) trait Listener {
    /// The active lanes are about to access memory.
    unsafe fn touches(&mut self, g: &mut Group, note: &Note);
    /// The lanes of a full group are about to load in all iterations of a loop: the elements of the first iteration, the trip
    /// count, and the bytes from one iteration to the next. Returns false if the loop has to report its loads one iteration at a
    /// time.
    unsafe fn loads(&mut self, g: &mut Group, note: &Note, run: &Run, turns: usize, turn: isize) -> bool;
    /// All threads of a block are about to reduce a shared array by a tree, in the loop with these accesses: `distance` of them
    /// in the first iteration, half as many in the next, with barriers in between. Returns false if the loop has to report one
    /// iteration at a time.
    unsafe fn tree(&mut self, g: &mut Group, notes: &[Note], distance: usize) -> bool;
    /// The active lanes have (re)declared local array `memory`.
    unsafe fn declared(&mut self, g: &mut Group, memory: u32);
    /// All threads of the block have synchronized.
    fn block_met(&mut self, g: &mut Group);
    /// The active lanes have synchronized warp by warp.
    fn warps_met(&mut self, g: &mut Group);
    fn fenced(&mut self, g: &mut Group, scope: Scope);
    /// The lanes of mask `from` that are not active diverged at `span`; with `first`, only those without an earlier record.
    unsafe fn parted(&mut self, g: &mut Group, from: MaskId, span: u32, first: bool);
    /// The active lanes leave for good, at `span`.
    fn left(&mut self, g: &mut Group, span: u32);
    /// The active lanes enter a loop: none of them has left it yet.
    fn gathered(&mut self, g: &mut Group);
    /// A polling loop starts another iteration.
    fn polls(&mut self, g: &mut Group, wait: &WaitDef);
    /// Describes what the loop that the group is in waits for, if nothing has changed for a while.
    fn waits(&self, g: &Group) -> Option<String>;
    /// Returns where thread `lane` diverged, if that was recorded.
    fn parted_at(&self, lane: usize) -> Option<u32>;
}

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

//! Events: what a running group tells those who listen, and the ops that tell.
//!
//! The ops of this file stand in the code only if somebody listens ([`Checks`](crate::ir::Checks)); otherwise events cost
//! nothing, because they are not there. An event is told once for all lanes that take part, before what it announces happens
//! (an access, a split) or after it (a barrier). The group says which lanes are active; `memory` finds the addresses of an access.

use super::code::{MaskId, Op, Reg, WaitDef};
use super::group::Group;
use super::lanes::Step;
use super::memory::Run;
use crate::ir::def::Scope;

/// What happens to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    Load,
    Store,
    Atomic,
}

/// Where the lanes of an access find their indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// All lanes have the same.
    One,
    /// In rows, mostly: see `memory::resolve`.
    Rows,
    /// Each lane has its own.
    Lanes,
}

/// An access as listeners hear of it.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    pub touch: Touch,
    /// Into the code's accesses: memory, indices, source place.
    pub access: u32,
    /// A number among the accesses of its memory; and the same for words, where those from 255 on share one.
    pub number: u32,
    pub site: u8,
    pub form: Form,
    /// Scalars of the element that it touches, one behind the other, and the bytes of one.
    pub components: u8,
    pub pitch: usize,
    /// What is stored, component by component.
    pub values: Vec<Reg>,
    pub traits: Traits,
    /// Of an atomic, its number among the code's.
    pub atomic: u32,
}

/// What analysis knows of an access.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traits {
    /// An atomic whose old value nobody looks at and that does not depend on it.
    pub overwrites: bool,
    /// An atomic whose old value decides where its thread goes or what it touches.
    pub decides: bool,
    /// An atomic that stands alone in a loop, which waits until it may change its element.
    pub takes: bool,
    /// A load of what the same thread stores somewhere: of several readers, it is the others that stores may race with.
    pub own: bool,
}

/// Hears what a group does. An event that finds a fault stops the group (`fault::stop_at`).
///
/// # Safety
/// The methods are called by ops of the group's code only, with notes of that code.
pub(crate) trait Listener {
    /// The active lanes are about to touch memory.
    unsafe fn touches(&mut self, g: &mut Group, note: &Note);
    /// The lanes of a full group are about to load in all turns of a loop: the first turn's elements, the number of turns, and
    /// the bytes from one to the next. If this is false, the loop has to tell of its loads turn by turn.
    unsafe fn loads(&mut self, g: &mut Group, note: &Note, run: &Run, turns: usize, turn: isize) -> bool;
    /// All threads of a block combine a shared array by a tree, in the loop whose accesses these are: `distance` of them in the
    /// first turn, half as many in the next, with barriers in between. If this is false, the loop has to tell turn by turn.
    unsafe fn tree(&mut self, g: &mut Group, notes: &[Note], distance: usize) -> bool;
    /// The active lanes have begun local array `memory` anew.
    unsafe fn declared(&mut self, g: &mut Group, memory: u32);
    /// All threads of the block have met.
    fn block_met(&mut self, g: &mut Group);
    /// The active lanes have met warp by warp.
    fn warps_met(&mut self, g: &mut Group);
    fn fenced(&mut self, g: &mut Group, scope: Scope);
    /// Lanes of the mask `from` that are not active went another way at `span`; with `first`, only those nobody has told
    /// about.
    unsafe fn parted(&mut self, g: &mut Group, from: MaskId, span: u32, first: bool);
    /// The active lanes leave for good, at `span`.
    fn left(&mut self, g: &mut Group, span: u32);
    /// The active lanes enter a loop, so that none has left it.
    fn gathered(&mut self, g: &mut Group);
    /// A loop that polls takes another turn.
    fn polls(&mut self, g: &mut Group, wait: &WaitDef);
    /// What the loop in which the group is waits for, if nothing has changed for a while.
    fn waits(&self, g: &Group) -> Option<String>;
    /// Where thread `lane` went another way, if anybody has told.
    fn parted_at(&self, lane: usize) -> Option<u32>;
}

/// Calls the listener, then goes on unless that stopped the group.
#[inline(always)]
unsafe fn tell(g: &mut Group, op: *const Op, event: impl FnOnce(&mut dyn Listener, &mut Group)) -> *const Op {
    if let Some(mut listener) = g.listener {
        // SAFETY: the frame owns the listener for as long as the group runs, and nobody else uses it meanwhile.
        event(unsafe { listener.as_mut() }, g);
    }
    if g.stopped.is_some() { std::ptr::null() } else { unsafe { op.add(1) } }
}

/// The access of note `x`.
pub(crate) struct TellTouch;

impl Step for TellTouch {
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        unsafe {
            let note = &(&(*g.code).notes)[(*op).x as usize];
            tell(g, op, |l, g| l.touches(g, note))
        }
    }
}

/// In front of a [`Dot`](super::dot::Dot) of loop `y`: `c` notes from `x` on, for all turns, if it can do the loop.
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
                    // Not by way of the `Dot`.
                    return op.add(2);
                }
            }
            op.add(1)
        }
    }
}

/// In front of a [`Tree`](super::tree::Tree): its three notes from `x` on, if it can do the loop.
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

/// Local array `x` starts afresh.
pub(crate) struct TellDeclared;

impl Step for TellDeclared {
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        unsafe { tell(g, op, |l, g| l.declared(g, (*op).x)) }
    }
}

pub(crate) struct TellBlockMet;

impl Step for TellBlockMet {
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // Parts of a block meet when the last of them has come.
        unsafe { if g.apart { op.add(1) } else { tell(g, op, |l, g| l.block_met(g)) } }
    }
}

pub(crate) struct TellWarpsMet;

impl Step for TellWarpsMet {
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        unsafe { tell(g, op, |l, g| l.warps_met(g)) }
    }
}

/// A fence, of the block only if `x` is 1.
pub(crate) struct TellFenced;

impl Step for TellFenced {
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        unsafe {
            let scope = if (*op).x == 1 { Scope::Block } else { Scope::Device };
            tell(g, op, |l, g| l.fenced(g, scope))
        }
    }
}

/// Lanes of mask `b` went another way at `y`; `x` is 1 if what was told before holds.
pub(crate) struct TellParted;

impl Step for TellParted {
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        unsafe { tell(g, op, |l, g| l.parted(g, (*op).b, (*op).y, (*op).x == 1)) }
    }
}

/// The active lanes leave at `y`.
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

/// Another turn of the loop that number `x` of the code's waits describes.
pub(crate) struct TellPolls;

impl Step for TellPolls {
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        unsafe {
            let wait = &(&(*g.code).waits)[(*op).x as usize];
            tell(g, op, |l, g| l.polls(g, wait))
        }
    }
}

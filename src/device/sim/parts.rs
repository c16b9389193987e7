//! Warps of a block that run by themselves.
//!
//! A group runs in lockstep: lanes that have left a loop wait behind it for those that have not. That is wrong where these
//! wait for something the others are going to do, such as to open a lock. So when nothing has changed in a loop that polls for
//! a while, the block comes **apart** into the warps that wait in the loop and those that do not: the latter get a frame of their
//! own, a copy of the first with complementary masks. From there on the parts take turns, whose length is counted in turns of
//! polling loops, and meet at barriers. Within a warp lanes still wait for each other.

use super::code::Op;
use super::control::{barrier_name, holding, meet};
use super::fault::stop_at;
use super::frame::Frame;
use super::group::{Group, Pause, Spins};
use super::lanes::mask;
use crate::device::FaultKind;

const WARP: usize = 32;

/// Turns of a polling loop after which others have their turn.
pub const SLICE: u32 = 16;

/// Turns in which no lane leaves a polling loop before a block comes apart.
const PATIENCE: u32 = 256;

/// How far a frame has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It may go on.
    Ready,
    /// It waits at a grid barrier.
    Waits,
    Done,
}

/// Whether the group has to pause at the end `op` of a polling loop.
///
/// # Safety
/// The op is in the group's code, and its mask is the current one.
#[cold]
pub unsafe fn pause(g: &mut Group, op: *const Op) -> Pause {
    let active = g.active_count();
    if g.spins.at != op || g.spins.active != active {
        g.spins = Spins { at: op, turns: 0, active };
    } else if g.spins.turns >= PATIENCE && waiting(g).iter().enumerate().any(|(lane, &w)| w == 0 && is_here(g, lane)) {
        return Pause::Fork;
    }
    if g.yields { Pause::Turn } else { Pause::None }
}

/// The lanes of warps that have active lanes.
fn waiting(g: &Group) -> Vec<u32> {
    let mut lanes = vec![0; g.lanes.next_multiple_of(WARP)];
    for lane in g.active() {
        lanes[lane / WARP * WARP..][..WARP].fill(!0);
    }
    lanes
}

/// Whether a lane is one of this part of its block.
fn is_here(g: &Group, lane: usize) -> bool {
    // SAFETY: mask 0 has room for the padded lanes, and zeros where there is no lane.
    lane < g.lanes && unsafe { *mask::mask_ptr(g, 0).cast::<u32>().add(lane) != 0 }
}

impl<'a> Frame<'a> {
    fn part(&mut self, k: usize) -> &mut Frame<'a> {
        if k == 0 { self } else { &mut self.parts[k - 1] }
    }

    /// Runs all parts until none can go on by itself, or one stops.
    pub(super) fn run_parts(&mut self) {
        loop {
            let mut k = 0;
            while k <= self.parts.len() {
                if self.part(k).group.pause == Pause::Fork {
                    let number = self.parts.len() + 1;
                    let ahead = self.part(k).fork(number);
                    self.parts.push(ahead);
                }
                if self.part(k).group.pause == Pause::Turn {
                    self.part(k).go();
                    self.take_from(k);
                }
                if self.group.stopped.is_some() {
                    return self.end();
                }
                k += 1;
            }
            match self.standing() {
                Standing::Ready if self.launch.code.cooperative => return,
                Standing::Ready => {}
                Standing::Waits | Standing::Done if !self.come_together() => return,
                Standing::Waits | Standing::Done => {}
            }
        }
    }

    /// What a part printed and what stopped it becomes the block's.
    fn take_from(&mut self, k: usize) {
        if k > 0 {
            let part = &mut self.parts[k - 1].group;
            let (printed, stopped) = (std::mem::take(&mut part.printed), part.stopped.take());
            self.group.printed.push_str(&printed);
            self.group.stopped = self.group.stopped.take().or(stopped);
        }
    }

    /// No part goes on.
    fn end(&mut self) {
        self.parts.clear();
        self.group.pause = Pause::None;
    }

    pub fn standing(&self) -> Standing {
        let mut all = std::iter::once(self).chain(&self.parts).map(|part| part.group.pause);
        let ready = |pause| matches!(pause, Pause::Turn | Pause::Fork);
        match all.clone().any(ready) {
            true => Standing::Ready,
            false if all.any(|pause| pause == Pause::Grid) => Standing::Waits,
            false => Standing::Done,
        }
    }

    /// Splits off the warps that do not wait in the loop at whose end this part is.
    fn fork(&mut self, number: usize) -> Frame<'a> {
        let op = self.group.spins.at;
        let waiting = waiting(&self.group);
        let mut ahead = self.copy();
        for (g, waits) in [(&mut self.group, true), (&mut ahead.group, false)] {
            // SAFETY: the op is in the code of both, and there are as many lanes as masks have room for.
            unsafe {
                mask::restrict(g, &waiting, waits);
                g.enter((*op).b);
            }
            (g.apart, g.yields, g.spins, g.pause) = (true, true, Spins::NONE, Pause::Turn);
        }
        ahead.group.part = number;
        // Behind the loop, as if the others had left it.
        ahead.group.resume = op.wrapping_add(1);
        ahead
    }

    /// All parts wait or are done. If they wait at one barrier, they have met there; whether they go on at once.
    fn come_together(&mut self) -> bool {
        let here = |part: &&Frame<'_>| matches!(part.group.pause, Pause::Barrier | Pause::Grid);
        let all: Vec<&Frame<'_>> = std::iter::once(&*self).chain(&self.parts).filter(here).collect();
        let Some(first) = all.first() else { return false };
        // SAFETY: who waits does so behind a barrier's op.
        let (op, o) = (first.group.resume, unsafe { &*first.group.resume.wrapping_sub(1) });
        let (there, elsewhere): (Vec<&Frame<'_>>, Vec<&Frame<'_>>) =
            all.iter().partition(|part| part.group.resume == op);
        let arrived: usize = there.iter().map(|part| part.group.active_count()).sum();
        if arrived < self.group.lanes {
            let lane = first.group.active().next().unwrap_or(0);
            let came = |lane: &usize| there.iter().any(|part| part.group.is_active(*lane));
            let missing = (0..self.group.lanes).find(|lane| !came(lane));
            // SAFETY: the listener is this frame's.
            let told = |lane| unsafe { self.group.listener?.as_ref() }.parted_at(lane);
            let parted = missing.and_then(told).map(|span| self.group.code().place(span).0);
            // Who waits at another barrier tells more than where the ways parted.
            let other = elsewhere.first().map(|part| unsafe { (*part.group.resume.wrapping_sub(1)).y });
            let other = other.map(|span| self.group.code().place(span).0);
            let (what, span) = (barrier_name(o.x), o.y);
            let (arrived, expected) = (arrived as u32, self.group.lanes as u32);
            let kind = FaultKind::Divergence { what, arrived, expected, elsewhere: parted.or(other) };
            stop_at(&mut self.group, kind, span, lane, u64::from(arrived) - 1);
            self.end();
            return false;
        }
        if first.group.pause == Pause::Grid {
            return false;
        }
        let holds = all.iter().map(|part| holding(&part.group, o)).sum();
        for k in 0..=self.parts.len() {
            let g = &mut self.part(k).group;
            if g.pause == Pause::Barrier {
                meet(g, o, holds);
                g.pause = Pause::Turn;
            }
        }
        let (group, checker) = (&mut self.group, &mut self.checker);
        if let Some(checker) = checker {
            use super::listen::Listener;
            checker.block_met(group);
        }
        true
    }
}

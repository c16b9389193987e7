//! Warp splits: warps of a block that run separately from the others.
//!
//! A group runs in lockstep: lanes that have left a loop wait behind it for those that have not. That deadlocks where the latter
//! wait for an action of the former, such as to unlock a lock. So when some warps poll for a while and others do not, the block
//! is **split** in two: the others get a frame of their own, a copy of the first with complementary masks. From there on the
//! splits are scheduled round-robin, in time slices counted in iterations of polling loops, and meet at barriers. Where all warps
//! poll for long, each blocking the others, one of them continues by itself. Within a warp lanes still wait for each other.

use super::control::{barrier_name, holding, meet};
use super::events::Observer;
use super::fault::stop_at;
use super::frame::Frame;
use super::group::{Pause, WARP};
use super::lanes::mask;
use super::poll::polling;
use crate::device::FaultKind;

/// The state of a frame with regard to scheduling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Ready to run.
    Ready,
    /// Waiting at a grid barrier.
    Waits,
    Done,
}

impl<'a> Frame<'a> {
    fn part(&mut self, k: usize) -> &mut Frame<'a> {
        if k == 0 { self } else { &mut self.splits[k - 1] }
    }

    /// Runs all splits until none can continue by itself, or one stops.
    pub(super) fn run_splits(&mut self) {
        loop {
            let splits = self.splits.len() + 1;
            for k in 0..splits {
                let k = if self.launch.backward { splits - 1 - k } else { k };
                if self.part(k).group.pause == Pause::Fork {
                    let number = self.splits.len() + 1;
                    let ahead = self.part(k).fork(number);
                    self.splits.push(ahead);
                }
                if self.part(k).group.pause == Pause::Iteration {
                    self.part(k).go();
                    self.take_from(k);
                }
                if self.group.stopped.is_some() {
                    return self.end();
                }
            }
            let goes_on = match self.standing() {
                Standing::Ready => !self.group.shares,
                Standing::Waits | Standing::Done => self.come_together(),
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Moves the output and the fault of a split to the block.
    fn take_from(&mut self, k: usize) {
        if k > 0 {
            let part = &mut self.splits[k - 1].group;
            let (printed, stopped) = (std::mem::take(&mut part.printed), part.stopped.take());
            self.group.printed.push_str(&printed);
            self.group.stopped = self.group.stopped.take().or(stopped);
        }
    }

    /// Discards all splits.
    fn end(&mut self) {
        self.splits.clear();
        self.group.pause = Pause::None;
    }

    /// Returns how often its splits have polled.
    pub fn looks(&self) -> u64 {
        std::iter::once(self).chain(&self.splits).map(|part| u64::from(part.group.looks)).sum()
    }

    pub fn standing(&self) -> Standing {
        let mut all = std::iter::once(self).chain(&self.splits).map(|part| part.group.pause);
        let ready = |pause| matches!(pause, Pause::Iteration | Pause::Fork);
        match all.clone().any(ready) {
            true => Standing::Ready,
            false if all.any(|pause| pause == Pause::Grid) => Standing::Waits,
            false => Standing::Done,
        }
    }

    /// Splits off the warps that do not poll; if all do, all but one.
    fn fork(&mut self, number: usize) -> Frame<'a> {
        let op = self.group.resume.wrapping_sub(1);
        let (all, polling) = (self.group.warps, polling(&self.group));
        let stays = if polling == all { all & all.wrapping_neg() } else { polling };
        let mut ahead = self.copy();
        for (g, warps) in [(&mut self.group, stays), (&mut ahead.group, all & !stays)] {
            // SAFETY: C3: a group that forks is paused behind a [`Poll`](super::control::Poll) of the code, whose `b` is a mask
            // (C2). C2: the masks of both are those of their code.
            unsafe {
                mask::restrict(g, warps);
                g.enter((*op).b);
            }
            (g.warps, g.lonely, g.looks) = (warps, 0, 0);
            (g.is_split, g.pause) = (true, Pause::Iteration);
        }
        ahead.group.part = number;
        if polling != all {
            // Continues behind the loop, as if the others had left it.
            // SAFETY: C3: the op is the same [`Poll`](super::control::Poll).
            ahead.group.resume = ahead.group.at(unsafe { (*op).x });
        }
        ahead
    }

    /// Makes each warp run separately from here on.
    pub(super) fn split(&mut self) {
        if self.group.pause != Pause::Iteration {
            return;
        }
        let warps = self.group.lanes.div_ceil(WARP);
        self.splits = (1..warps).map(|_| self.copy()).collect();
        for k in 0..warps {
            let g = &mut self.part(k).group;
            // SAFETY: C2: the masks of a frame's group are those of its code.
            unsafe { mask::restrict(g, 1 << k) };
            g.enter(0);
            (g.warps, g.is_split, g.part) = (1 << k, true, k);
        }
    }

    /// Handles that all splits wait or have finished. If they wait at one barrier, that is complete; returns whether they
    /// continue at once.
    fn come_together(&mut self) -> bool {
        let here = |part: &&Frame<'_>| matches!(part.group.pause, Pause::Barrier | Pause::Grid);
        let all: Vec<&Frame<'_>> = std::iter::once(&*self).chain(&self.splits).filter(here).collect();
        let Some(first) = all.first() else { return false };
        // SAFETY: C3: a waiting split is paused behind the op of a barrier, which is one of the code's.
        let (op, o) = (first.group.resume, unsafe { &*first.group.resume.wrapping_sub(1) });
        let there: Vec<&Frame<'_>> = all.iter().copied().filter(|part| part.group.resume == op).collect();
        let arrived: usize = there.iter().map(|part| part.group.active_count()).sum();
        if arrived < self.group.lanes {
            let kind = self.missed(barrier_name(o.x), arrived, &there, &all);
            let lane = first.group.active().next().unwrap_or(0);
            stop_at(&mut self.group, kind, o.y, lane, arrived as u64 - 1);
            self.end();
            return false;
        }
        if first.group.pause == Pause::Grid {
            return false;
        }
        let holds = all.iter().map(|part| holding(&part.group, o)).sum();
        for k in 0..=self.splits.len() {
            let g = &mut self.part(k).group;
            if g.pause == Pause::Barrier {
                meet(g, o, holds);
                (g.pause, g.lonely, g.looks) = (Pause::Iteration, 0, 0);
            }
        }
        let (group, checker) = (&mut self.group, &mut self.checker);
        if let Some(checker) = checker {
            checker.block_met(group);
        }
        true
    }

    /// Returns the fault of a barrier that only `arrived` lanes, those of the splits `there`, have reached.
    fn missed(&self, what: &'static str, arrived: usize, there: &[&Frame<'_>], all: &[&Frame<'_>]) -> FaultKind {
        let came = |lane: &usize| there.iter().any(|part| part.group.is_active(*lane));
        let missing = (0..self.group.lanes).find(|lane| !came(lane));
        // SAFETY: G5: the observer is this frame's, and no op of a group runs meanwhile.
        let parted = missing.and_then(|lane| unsafe { self.group.observer?.as_ref() }.parted_at(lane));
        let other = all.iter().find(|part| part.group.resume != there[0].group.resume);
        // SAFETY: C3: a waiting split is paused behind the op of a barrier, which is one of the code's.
        let other = other.map(|part| unsafe { (*part.group.resume.wrapping_sub(1)).y });
        let elsewhere = parted.or(other).map(|span| self.group.code().place(span).0);
        FaultKind::Divergence { what, arrived: arrived as u32, expected: self.group.lanes as u32, elsewhere }
    }
}

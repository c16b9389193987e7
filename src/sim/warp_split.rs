//! Warp splits: warps of a block that run separately from each other, like independent thread scheduling on a GPU.
//!
//! A group runs in lockstep: lanes that have left a loop wait after the loop for the lanes that are still in it. This
//! deadlocks if the lanes in the loop wait for the lanes that have left it, for example to release a lock. So when some
//! warps have polled for a while and others have not, the block is **split** in two groups. The warps that do not poll
//! get a new frame, which is a copy of the original frame with complementary masks. If all warps have polled for a long
//! time, one of them is split from the others. The splits of a block run round-robin in time slices and synchronize at
//! barriers. The lanes of a warp still run in lockstep.

use super::control_flow::{barrier_name, count_true_lanes, write_barrier_result};
use super::events::GroupObserver;
use super::frame::GroupFrame;
use super::group::{Pause, WARP, WarpSplitState};
use super::lanes::mask;
use super::polling::active_warps;
use clk_runtime::FaultKind;

/// The scheduling state of a block's frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SplitStatus {
    /// Ready to run.
    Ready,
    /// Waiting at a grid barrier.
    Waiting,
    Done,
}

impl<'a> GroupFrame<'a> {
    fn split_frame(&mut self, k: usize) -> &mut GroupFrame<'a> {
        if k == 0 { self } else { &mut self.splits[k - 1] }
    }

    /// Runs all splits in turn until each has ended or waits at a grid barrier, or one has a fault. If other blocks run
    /// concurrently, runs each split for one time slice only.
    pub(super) fn run_splits(&mut self) {
        loop {
            let splits = self.splits.len() + 1;
            for k in 0..splits {
                let k = if self.launch.reverse_order { splits - 1 - k } else { k };
                if self.split_frame(k).group.pause.reason == Pause::Fork {
                    let number = self.splits.len() + 1;
                    let split = self.split_frame(k).fork(number);
                    self.splits.push(split);
                }
                if self.split_frame(k).group.pause.reason == Pause::Iteration {
                    self.split_frame(k).run_until_pause();
                    self.take_results(k);
                }
                if self.group.results.stopped.is_some() {
                    return self.discard_splits();
                }
            }
            let goes_on = match self.status() {
                SplitStatus::Ready => !self.group.yields_to_blocks,
                SplitStatus::Waiting | SplitStatus::Done => self.meet_at_barrier(),
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Moves the output and the fault of a split to the block's frame.
    fn take_results(&mut self, k: usize) {
        if k > 0 {
            self.group.results.take_from(&mut self.splits[k - 1].group.results);
        }
    }

    /// Discards all splits.
    fn discard_splits(&mut self) {
        self.splits.clear();
        self.group.pause.reason = Pause::None;
    }

    /// Returns the number of time slices with polling, summed over the block's splits.
    pub fn polling_slices(&self) -> u64 {
        std::iter::once(self).chain(&self.splits).map(|part| u64::from(part.group.polling.slices)).sum()
    }

    pub fn status(&self) -> SplitStatus {
        let mut all = std::iter::once(self).chain(&self.splits).map(|part| part.group.pause.reason);
        let ready = |pause| matches!(pause, Pause::Iteration | Pause::Fork);
        match all.clone().any(ready) {
            true => SplitStatus::Ready,
            false if all.any(|pause| pause == Pause::Grid) => SplitStatus::Waiting,
            false => SplitStatus::Done,
        }
    }

    /// Moves the warps that do not poll to a new split. If all warps poll, moves all but the first.
    fn fork(&mut self, number: usize) -> GroupFrame<'a> {
        let op = self.group.pause.next.wrapping_sub(1);
        let (all, polling) = (self.group.split.warps, active_warps(&self.group));
        let stays = if polling == all { all & all.wrapping_neg() } else { polling };
        let mut split = self.clone_frame();
        for (g, warps) in [(&mut self.group, stays), (&mut split.group, all & !stays)] {
            // SAFETY: C3: a forking group is paused after a [`PollOp`](super::control_flow::PollOp) of the code, whose
            // `b` is a mask (C2). C2: the masks of both groups belong to their code.
            unsafe {
                mask::restrict(g, warps);
                g.set_mask((*op).b);
            }
            g.polling.restart_slices();
            (g.split.warps, g.split.is_split, g.pause.reason) = (warps, true, Pause::Iteration);
        }
        split.group.split.number = number;
        if polling != all {
            // The new split continues after the loop, because its warps have left the loop.
            // SAFETY: C3: the op is the same [`PollOp`](super::control_flow::PollOp).
            split.group.pause.next = split.group.op_at(unsafe { (*op).x });
        }
        split
    }

    /// Runs each warp separately from here on.
    pub(super) fn split_into_warps(&mut self) {
        if self.group.pause.reason != Pause::Iteration {
            return;
        }
        let warps = self.group.shape.lanes.div_ceil(WARP);
        self.splits = (1..warps).map(|_| self.clone_frame()).collect();
        for k in 0..warps {
            let g = &mut self.split_frame(k).group;
            // SAFETY: C2: the masks of a frame's group belong to its code.
            unsafe { mask::restrict(g, 1 << k) };
            g.set_mask(0);
            g.split = WarpSplitState { is_split: true, number: k, warps: 1 << k };
        }
    }

    /// Called when all splits wait at barriers or have ended. If all of them wait at the same block barrier, completes
    /// the barrier. Returns whether the splits can continue immediately.
    fn meet_at_barrier(&mut self) -> bool {
        let is_waiting = |part: &&GroupFrame<'_>| matches!(part.group.pause.reason, Pause::Barrier | Pause::Grid);
        let all: Vec<&GroupFrame<'_>> = std::iter::once(&*self).chain(&self.splits).filter(is_waiting).collect();
        let Some(first) = all.first() else { return false };
        // SAFETY: C3: a waiting split is paused after the op of a barrier, which belongs to the code.
        let (op, o) = (first.group.pause.next, unsafe { &*first.group.pause.next.wrapping_sub(1) });
        let at_barrier: Vec<&GroupFrame<'_>> = all.iter().copied().filter(|part| part.group.pause.next == op).collect();
        let arrived: usize = at_barrier.iter().map(|part| part.group.active_count()).sum();
        if arrived < self.group.shape.lanes {
            let kind = self.missed_barrier_fault(barrier_name(o.x), arrived, &at_barrier, &all);
            let lane = first.group.active().next().unwrap_or(0);
            self.group.results.stop_at(kind, o.y, lane, arrived as u64 - 1);
            self.discard_splits();
            return false;
        }
        if first.group.pause.reason == Pause::Grid {
            return false;
        }
        let holds = all.iter().map(|part| count_true_lanes(&part.group, o)).sum();
        for k in 0..=self.splits.len() {
            let g = &mut self.split_frame(k).group;
            if g.pause.reason == Pause::Barrier {
                write_barrier_result(g, o, holds);
                g.pause.reason = Pause::Iteration;
                g.polling.restart_slices();
            }
        }
        let (group, checker) = (&mut self.group, &mut self.checker);
        if let Some(checker) = checker {
            checker.on_block_barrier(group);
        }
        true
    }

    /// Returns the fault of a barrier that only some lanes of the block have reached: the `arrived` lanes of the splits
    /// `at_barrier`.
    fn missed_barrier_fault(
        &self,
        what: &'static str,
        arrived: usize,
        at_barrier: &[&GroupFrame<'_>],
        all: &[&GroupFrame<'_>],
    ) -> FaultKind {
        let came = |lane: &usize| at_barrier.iter().any(|part| part.group.is_active(*lane));
        let missing = (0..self.group.shape.lanes).find(|lane| !came(lane));
        // SAFETY: G5: the frame owns the observer, and no op of a group runs now.
        let divergence = missing.and_then(|lane| unsafe { self.group.observer?.as_ref() }.divergence_of(lane));
        let other = all.iter().find(|part| part.group.pause.next != at_barrier[0].group.pause.next);
        // SAFETY: C3: a waiting split is paused after the op of a barrier, which belongs to the code.
        let other = other.map(|part| unsafe { (*part.group.pause.next.wrapping_sub(1)).y });
        let elsewhere = divergence.or(other).map(|span| self.group.code().source.location(span).0);
        FaultKind::Divergence { what, arrived: arrived as u32, expected: self.group.shape.lanes as u32, elsewhere }
    }
}

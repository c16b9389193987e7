//! A timeline of a launch, for stepping forwards and backwards: provides the state after each number of steps.
//!
//! Input: a launch, and a position (a number of steps). Output: the state at that position. The timeline stores
//! snapshots of states, densely near the current position and more sparsely far from it. To reach a position, it runs
//! forwards from the last snapshot before the position. A backwards search runs each interval between two snapshots
//! forwards, beginning with the last interval.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::state::{LaunchSnapshot, StepLaunch};
use super::thread::{NoObserver, StepObserver};
use clk_runtime::Arg;
use clk_runtime::DeviceError;

/// Distance between snapshots near the current position, in steps.
const DENSE: u64 = 4096;

/// Far from the current position, the distance between two snapshots is their distance from the current position
/// divided by `SPREAD`.
const SPREAD: u64 = 16;

/// Number of steps between two checks of the interrupt flag.
const POLLED: u64 = 1024;

/// The error of an operation that the user interrupted. Afterwards the position of the timeline is unspecified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

/// A search criterion: observes steps, and selects the states at which a search ends.
pub trait Seeker {
    /// Returns the observer that is notified of each step of the search.
    fn observer(&mut self) -> &mut dyn StepObserver;

    /// Returns whether the search ends at this state. Called after each step and its observer.
    fn is_here(&mut self, state: &LaunchSnapshot<'_>) -> bool;
}

/// A launch, and the current position in it.
pub struct Timeline<'m> {
    pub launch: Arc<StepLaunch<'m>>,
    now: LaunchSnapshot<'m>,
    /// Snapshots by position. Position 0 always has a snapshot.
    kept: BTreeMap<u64, LaunchSnapshot<'m>>,
    /// The printed output, at least up to the current position.
    output: String,
    /// Memory limit of the snapshots in bytes.
    max_snapshot_bytes: u64,
    /// Upper bound of the memory that only snapshots use, in bytes. Excludes the memory of the current state.
    snapshot_bytes: u64,
    /// Minimum distance between snapshots in steps. It is increased when snapshots exceed the memory limit.
    min_distance: u64,
    stop: Arc<AtomicBool>,
}

impl<'m> Timeline<'m> {
    /// Creates a timeline at the start of a launch. `most` is the memory limit of snapshots in bytes.
    pub fn new(
        launch: StepLaunch<'m>,
        args: &[Arg<'_>],
        most: u64,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, DeviceError> {
        let initial = launch.start(args)?;
        let snapshots = BTreeMap::from([(0, initial.clone())]);
        let launch = Arc::new(launch);
        Ok(Timeline {
            launch,
            now: initial,
            kept: snapshots,
            output: String::new(),
            max_snapshot_bytes: most,
            snapshot_bytes: 0,
            min_distance: DENSE,
            stop,
        })
    }

    /// Returns the state at the current position.
    pub fn now(&self) -> &LaunchSnapshot<'m> {
        &self.now
    }

    /// Returns the number of steps so far.
    pub fn position(&self) -> u64 {
        self.now.step
    }

    /// Returns whether there is no next step, because the launch has ended or a thread has faulted.
    pub fn is_at_end(&self) -> bool {
        self.now.is_over || !self.now.faults.is_empty()
    }

    /// Returns the output that was printed before the current position.
    pub fn output(&self) -> &str {
        &self.output[..self.now.printed]
    }

    /// Returns the number of snapshots, and the bytes of memory that only snapshots use.
    pub fn kept(&self) -> (usize, u64) {
        (self.kept.len(), self.exact_snapshot_bytes())
    }

    /// Executes the next step; returns `false` at the end.
    pub fn step(&mut self, observer: &mut dyn StepObserver) -> bool {
        if self.is_at_end() {
            return false;
        }
        let copied = self.now.copied;
        self.now.step(&self.launch, &mut self.output, observer);
        self.snapshot_bytes += self.now.copied - copied;
        let last = self.kept.range(..=self.now.step).next_back().map_or(0, |(at, _)| *at);
        if self.now.step - last >= self.min_distance {
            self.take_snapshot();
        }
        true
    }

    /// Goes to a position, or to the end if that comes first.
    pub fn go_to(&mut self, position: u64) -> Result<(), Interrupted> {
        self.rewind(position);
        self.follow(position, &mut NoObserver)
    }

    /// Runs forwards to a position, or to the end if that comes first, and notifies an observer of each step.
    pub fn follow(&mut self, position: u64, observer: &mut dyn StepObserver) -> Result<(), Interrupted> {
        while self.now.step < position && self.step(observer) {
            self.poll()?;
        }
        Ok(())
    }

    /// Runs forwards to the next match, or to the end if there is none. Returns whether there is a match.
    pub fn seek(&mut self, seeker: &mut dyn Seeker) -> Result<bool, Interrupted> {
        while self.step(seeker.observer()) {
            if seeker.is_here(&self.now) {
                return Ok(true);
            }
            self.poll()?;
        }
        Ok(false)
    }

    /// Goes back to the last match before the current position, or to the start if there is none. Returns whether there
    /// is a match.
    pub fn seek_back(&mut self, seeker: &mut dyn Seeker) -> Result<bool, Interrupted> {
        let mut last = self.now.step.saturating_sub(1);
        while last > 0 {
            let start = self.kept.range(..last).next_back().map_or(0, |(at, _)| *at);
            self.rewind(start);
            let mut last_match = None;
            while self.now.step < last && self.step(seeker.observer()) {
                if seeker.is_here(&self.now) {
                    last_match = Some(self.now.step);
                }
                self.poll()?;
            }
            if let Some(last_match) = last_match {
                self.go_to(last_match)?;
                return Ok(true);
            }
            last = start;
        }
        self.go_to(0)?;
        Ok(false)
    }

    /// Restores the last snapshot at or before a position, unless the current position is nearer.
    fn rewind(&mut self, position: u64) {
        let present = self.now.step;
        let nearest = self.kept.range(..=position).next_back();
        if let Some((at, state)) = nearest
            && (present > position || *at > present)
        {
            self.now = state.clone();
        }
    }

    fn poll(&self) -> Result<(), Interrupted> {
        if self.now.step.is_multiple_of(POLLED) && self.stop.load(Ordering::Relaxed) {
            clk_base::stop::acknowledge();
            return Err(Interrupted);
        }
        Ok(())
    }

    /// Takes a snapshot of the current state. Drops older snapshots that are closer together than their distance from
    /// the current position requires.
    fn take_snapshot(&mut self) {
        let step = self.now.step;
        // Estimates memory conservatively: all threads of the block may change before the next snapshot.
        self.snapshot_bytes += self.now.block.threads.iter().map(|thread| thread.size()).sum::<u64>();
        self.kept.insert(step, self.now.clone());
        self.drop_dense_snapshots(step);
        if self.snapshot_bytes > self.max_snapshot_bytes {
            self.snapshot_bytes = self.exact_snapshot_bytes();
            while self.snapshot_bytes > self.max_snapshot_bytes && self.kept.len() > 2 {
                self.min_distance = self.min_distance.saturating_mul(2);
                self.drop_dense_snapshots(step);
                self.snapshot_bytes = self.exact_snapshot_bytes();
            }
        }
    }

    fn drop_dense_snapshots(&mut self, now: u64) {
        let (dense, mut last) = (self.min_distance, None::<u64>);
        self.kept.retain(|&at, _| {
            // Distances are rounded up to powers of two, so that the set of snapshots does not change with every step.
            let distance = (now.abs_diff(at) / SPREAD).checked_next_power_of_two().unwrap_or(u64::MAX).max(dense);
            let keep = last.is_none_or(|last| at - last >= distance) || at == now;
            if keep {
                last = Some(at);
            }
            keep
        });
    }

    /// Returns the number of bytes that only snapshots use.
    fn exact_snapshot_bytes(&self) -> u64 {
        let (mut seen, mut bytes) = (HashSet::new(), 0);
        self.now.parts(&mut |part, _| {
            seen.insert(part);
        });
        for state in self.kept.values() {
            state.parts(&mut |part, size| {
                if seen.insert(part) {
                    bytes += size;
                }
            });
        }
        bytes
    }
}

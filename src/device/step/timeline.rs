//! A launch as a line of time: its state after any number of steps.
//!
//! In: a launch, and a position. Out: the state there. Idea: copies of the state are kept every so many steps, densely near the present and
//! ever sparser away from it; a position is reached from the last copy before it. A search backwards runs the stretches between
//! copies forward, the last stretch first.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::state::{Launch, State};
use super::thread::{Nobody, Observer};
use crate::device::Arg;
use crate::device::fault::DeviceError;

/// The distance of copies near the present, in steps.
const DENSE: u64 = 4096;

/// Far from the present, copies have the distance to it divided by this.
const SPREAD: u64 = 16;

/// Steps between two looks at the flag that asks to stop.
const POLLED: u64 = 1024;

/// The run was asked to stop; the state is somewhere between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

/// Looks at every position of a run, and picks some.
pub trait Seeker {
    /// Sees what the steps do.
    fn observer(&mut self) -> &mut dyn Observer;

    /// Whether the state is one that is looked for. Called after each step, with what the observer saw of it.
    fn is_here(&mut self, state: &State<'_>) -> bool;
}

/// A launch, and where in it we are.
pub struct Timeline<'m> {
    pub launch: Arc<Launch<'m>>,
    now: State<'m>,
    /// Copies, by their number of steps. The first one is always there.
    kept: BTreeMap<u64, State<'m>>,
    /// What was printed, at least until now.
    output: String,
    /// The bytes that the copies may take.
    most: u64,
    /// The bytes that they take at most, beyond those of the present state.
    taken: u64,
    /// The distance that copies have at least; grows with the room that they need.
    dense: u64,
    stop: Arc<AtomicBool>,
}

impl<'m> Timeline<'m> {
    /// Begins a launch. `most` is the number of bytes for copies of its state.
    pub fn new(launch: Launch<'m>, args: &[Arg<'_>], most: u64, stop: Arc<AtomicBool>) -> Result<Self, DeviceError> {
        let now = launch.start(args)?;
        let kept = BTreeMap::from([(0, now.clone())]);
        let launch = Arc::new(launch);
        Ok(Timeline { launch, now, kept, output: String::new(), most, taken: 0, dense: DENSE, stop })
    }

    /// The state at this position.
    pub fn now(&self) -> &State<'m> {
        &self.now
    }

    /// Returns the number of steps so far.
    pub fn position(&self) -> u64 {
        self.now.step
    }

    /// Returns whether no step follows: the launch is over, or a thread has faulted.
    pub fn is_at_end(&self) -> bool {
        self.now.is_over || !self.now.faults.is_empty()
    }

    /// Returns what was printed so far.
    pub fn output(&self) -> &str {
        &self.output[..self.now.printed]
    }

    /// Returns the number of copies, and their bytes beyond those of the present state.
    pub fn kept(&self) -> (usize, u64) {
        (self.kept.len(), self.exact())
    }

    /// Takes a step; returns `false` at the end.
    pub fn step(&mut self, observer: &mut dyn Observer) -> bool {
        if self.is_at_end() {
            return false;
        }
        let copied = self.now.copied;
        self.now.step(&self.launch, &mut self.output, observer);
        self.taken += self.now.copied - copied;
        let last = self.kept.range(..=self.now.step).next_back().map_or(0, |(at, _)| *at);
        if self.now.step - last >= self.dense {
            self.keep();
        }
        true
    }

    /// Goes to a position, or to the end if that comes first.
    pub fn go_to(&mut self, position: u64) -> Result<(), Interrupted> {
        self.rewind(position);
        self.follow(position, &mut Nobody)
    }

    /// Goes forward to a position, or to the end if that comes first, and shows what the steps do.
    pub fn follow(&mut self, position: u64, observer: &mut dyn Observer) -> Result<(), Interrupted> {
        while self.now.step < position && self.step(observer) {
            self.poll()?;
        }
        Ok(())
    }

    /// Goes forward to the next position that is looked for; returns whether there is one. If not, goes to the end.
    pub fn seek(&mut self, seeker: &mut dyn Seeker) -> Result<bool, Interrupted> {
        while self.step(seeker.observer()) {
            if seeker.is_here(&self.now) {
                return Ok(true);
            }
            self.poll()?;
        }
        Ok(false)
    }

    /// Goes back to the last position before this one that is looked for; returns whether there is one. If not, goes to the start.
    pub fn seek_back(&mut self, seeker: &mut dyn Seeker) -> Result<bool, Interrupted> {
        let mut last = self.now.step.saturating_sub(1);
        while last > 0 {
            let start = self.kept.range(..last).next_back().map_or(0, |(at, _)| *at);
            self.rewind(start);
            let mut found = None;
            while self.now.step < last && self.step(seeker.observer()) {
                if seeker.is_here(&self.now) {
                    found = Some(self.now.step);
                }
                self.poll()?;
            }
            if let Some(found) = found {
                self.go_to(found)?;
                return Ok(true);
            }
            last = start;
        }
        self.go_to(0)?;
        Ok(false)
    }

    /// Takes the last copy up to a position, unless the present is nearer.
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
            crate::base::stop::heed();
            return Err(Interrupted);
        }
        Ok(())
    }

    /// Keeps a copy of the present, and drops others that are too close together for their distance.
    fn keep(&mut self) {
        let now = self.now.step;
        // All threads of the block may run before the next copy.
        self.taken += self.now.block.threads.iter().map(|thread| thread.size()).sum::<u64>();
        self.kept.insert(now, self.now.clone());
        self.thin(now);
        if self.taken > self.most {
            self.taken = self.exact();
            while self.taken > self.most && self.kept.len() > 2 {
                self.dense = self.dense.saturating_mul(2);
                self.thin(now);
                self.taken = self.exact();
            }
        }
    }

    fn thin(&mut self, now: u64) {
        let (dense, mut last) = (self.dense, None::<u64>);
        self.kept.retain(|&at, _| {
            // Powers of two, so that what is kept does not change with every step.
            let wanted = (now.abs_diff(at) / SPREAD).checked_next_power_of_two().unwrap_or(u64::MAX).max(dense);
            let keep = last.is_none_or(|last| at - last >= wanted) || at == now;
            if keep {
                last = Some(at);
            }
            keep
        });
    }

    /// Returns the bytes of all copies beyond those of the present state.
    fn exact(&self) -> u64 {
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

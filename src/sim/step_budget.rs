//! The loop iterations that a group may still run before it checks whether it has to stop.

use std::sync::atomic::{AtomicBool, Ordering};

/// Number of loop iterations between two checks of the stop flag.
pub(crate) const TICKS: u32 = 256;

/// The step limit of a group, and the stop flag of its launch.
#[derive(Clone, Copy)]
pub(crate) struct StepBudget {
    /// Loop iterations until the next check of the stop flag.
    pub iterations_left: u32,
    /// Loop iterations from the last check to the next one.
    granted_iterations: u32,
    /// Number of loop iterations before the last check.
    pub steps: u64,
    /// Maximum number of loop iterations; 0 if there is no limit.
    pub max_steps: u64,
    /// The stop flag of the launch.
    pub stop: *const AtomicBool,
}

impl StepBudget {
    pub fn new(max_steps: u64, stop: *const AtomicBool) -> StepBudget {
        StepBudget { iterations_left: 0, granted_iterations: 0, steps: 0, max_steps, stop }
    }

    /// Starts to count the iterations of another group.
    pub fn restart(&mut self) {
        self.steps = 0;
        self.grant_iterations();
    }

    /// Returns the number of loop iterations so far.
    pub fn iterations(&self) -> u64 {
        self.steps + u64::from(self.granted_iterations - self.iterations_left)
    }

    /// Returns whether the group has reached its step limit.
    pub fn is_exhausted(&self) -> bool {
        self.max_steps > 0 && self.steps >= self.max_steps
    }

    /// Returns whether the launch has been asked to stop.
    pub fn is_stop_requested(&self) -> bool {
        // SAFETY: G5: the flag lives as long as the launch.
        unsafe { (*self.stop).load(Ordering::Relaxed) }
    }

    /// Counts a loop iteration. Returns false if the launch has been asked to stop or has reached its step limit.
    #[inline(always)]
    pub fn count_iteration(&mut self) -> bool {
        self.iterations_left -= 1;
        self.iterations_left > 0 || self.check_stop()
    }

    #[cold]
    #[inline(never)]
    fn check_stop(&mut self) -> bool {
        self.steps += u64::from(self.granted_iterations);
        let stopped = self.is_stop_requested();
        self.grant_iterations();
        self.iterations_left > 0 && !stopped
    }

    /// Schedules the next check of the stop flag.
    fn grant_iterations(&mut self) {
        let left = if self.max_steps == 0 { u64::MAX } else { self.max_steps.saturating_sub(self.steps) };
        self.granted_iterations = left.min(u64::from(TICKS)) as u32;
        self.iterations_left = self.granted_iterations;
    }
}

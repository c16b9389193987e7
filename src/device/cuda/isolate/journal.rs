//! The operations sent to a worker that are not known to be done. When the worker is lost, the first launch among them is the one
//! that was running, and pending memory operations are repeated by the next worker: only launches are lost.

use std::collections::VecDeque;

/// The worker counts operations too, and has the GPU write the number of each completed one into the segment.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// The number of the last operation.
    number: u32,
    pending: VecDeque<(u32, Operation)>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// The message of an operation on memory.
    Memory(Vec<u8>),
    /// A launch, by its number among launches.
    Launch(u64),
}

/// The pending operations of a lost worker.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Left {
    /// The launch that was running.
    pub running: Option<u64>,
    /// Launches that did not start.
    pub waiting: usize,
    /// Messages to send again.
    pub memory: Vec<Vec<u8>>,
}

impl Journal {
    pub fn push(&mut self, operation: Operation) {
        self.number = self.number.wrapping_add(1);
        self.pending.push_back((self.number, operation));
    }

    /// Returns the number of the last operation.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Drops completed operations, up to this number.
    pub fn done(&mut self, number: u32) {
        // Numbers wrap around.
        while self.pending.front().is_some_and(|(n, _)| number.wrapping_sub(*n) < 1 << 31) {
            self.pending.pop_front();
        }
    }

    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// Empties the journal, after a loss.
    pub fn take(&mut self) -> Left {
        let mut left = Left::default();
        for (_, operation) in self.pending.drain(..) {
            match operation {
                Operation::Memory(message) => left.memory.push(message),
                Operation::Launch(number) if left.running.is_none() => left.running = Some(number),
                Operation::Launch(_) => left.waiting += 1,
            }
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_launch_that_is_not_done_was_running() {
        let mut journal = Journal { number: u32::MAX - 2, ..Journal::default() };
        journal.push(Operation::Launch(1));
        journal.push(Operation::Memory(vec![1]));
        journal.push(Operation::Launch(2));
        journal.push(Operation::Memory(vec![2]));
        journal.push(Operation::Launch(3));
        assert_eq!(journal.number(), 2, "numbers go round");
        journal.done(u32::MAX - 2);
        assert_eq!(journal.len(), 5);
        journal.done(u32::MAX);
        assert_eq!(journal.take(), Left { running: Some(2), waiting: 1, memory: vec![vec![2]] });
        assert_eq!(journal.len(), 0);
        journal.done(1 << 30);
    }
}

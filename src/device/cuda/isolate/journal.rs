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

/// The launches that a worker did not complete.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LostLaunches {
    /// The launch that was running.
    pub running: Option<u64>,
    /// The number of launches that had not started.
    pub waiting: usize,
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

    /// Removes the pending launches. Memory operations stay pending until a worker has repeated them.
    pub fn take_launches(&mut self) -> LostLaunches {
        let mut lost = LostLaunches::default();
        self.pending.retain(|(_, operation)| match operation {
            Operation::Memory(_) => true,
            Operation::Launch(number) if lost.running.is_none() => {
                lost.running = Some(*number);
                false
            }
            Operation::Launch(_) => {
                lost.waiting += 1;
                false
            }
        });
        lost
    }

    /// Numbers the pending operations anew: they become the last ones before `after` further operations, which end at
    /// [`Journal::number`]. Returns the number of the operation before them.
    pub fn renumber(&mut self, after: usize) -> u32 {
        let before = self.number.wrapping_sub((self.pending.len() + after) as u32);
        for (place, (number, _)) in self.pending.iter_mut().enumerate() {
            *number = before.wrapping_add(place as u32 + 1);
        }
        before
    }

    /// Returns the messages of the pending memory operations.
    pub fn memory(&self) -> impl Iterator<Item = &[u8]> {
        self.pending.iter().filter_map(|(_, operation)| match operation {
            Operation::Memory(message) => Some(&message[..]),
            Operation::Launch(_) => None,
        })
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
        assert_eq!(journal.take_launches(), LostLaunches { running: Some(2), waiting: 1 });
        assert_eq!(journal.memory().collect::<Vec<_>>(), [&[2][..]]);
        assert_eq!(journal.take_launches(), LostLaunches::default());
        // The next worker repeats the memory operation as number 1, and one of its own as number 2.
        assert_eq!((journal.renumber(1), journal.number()), (0, 2));
        journal.done(0);
        assert_eq!(journal.len(), 1);
        journal.done(1);
        assert_eq!(journal.len(), 0);
    }
}

//! The operations that were sent to a worker and may not have completed. When the worker is lost, the first pending
//! launch is the one that was running. The next worker repeats the pending memory operations, so only launches are
//! lost.

use std::collections::VecDeque;

/// The pending operations of a worker, numbered in the order of sending. The worker counts operations in the same way,
/// and the GPU writes the number of each completed operation to the shared segment.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// The number of the operation that was added last.
    number: u32,
    pending: VecDeque<(u32, Operation)>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// An operation on memory, as an encoded message.
    Memory(Vec<u8>),
    /// A launch. Launches have their own numbers.
    Launch(u64),
}

/// The launches that a lost worker did not complete.
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

    /// Returns the number of the operation that was added last.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Removes the operations up to this number, which are completed.
    pub fn remove_completed(&mut self, number: u32) {
        // Compare modulo 2^32, because the numbers wrap around.
        while self.pending.front().is_some_and(|(n, _)| number.wrapping_sub(*n) < 1 << 31) {
            self.pending.pop_front();
        }
    }

    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// Removes and returns the pending launches. Memory operations remain pending until a worker has repeated them.
    pub fn take_launches(&mut self) -> LostLaunches {
        let mut launches = LostLaunches::default();
        self.pending.retain(|(_, operation)| match operation {
            Operation::Memory(_) => true,
            Operation::Launch(number) if launches.running.is_none() => {
                launches.running = Some(*number);
                false
            }
            Operation::Launch(_) => {
                launches.waiting += 1;
                false
            }
        });
        launches
    }

    /// Renumbers the pending operations. They get consecutive numbers such that, after `after` further operations, the
    /// last number is [`Journal::number`]. Returns the number before the first pending operation.
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
    fn the_first_incomplete_launch_was_running() {
        let mut journal = Journal { number: u32::MAX - 2, ..Journal::default() };
        journal.push(Operation::Launch(1));
        journal.push(Operation::Memory(vec![1]));
        journal.push(Operation::Launch(2));
        journal.push(Operation::Memory(vec![2]));
        journal.push(Operation::Launch(3));
        assert_eq!(journal.number(), 2, "numbers go round");
        journal.remove_completed(u32::MAX - 2);
        assert_eq!(journal.len(), 5);
        journal.remove_completed(u32::MAX);
        assert_eq!(journal.take_launches(), LostLaunches { running: Some(2), waiting: 1 });
        assert_eq!(journal.memory().collect::<Vec<_>>(), [&[2][..]]);
        assert_eq!(journal.take_launches(), LostLaunches::default());
        // The next worker repeats the memory operation as number 1, and executes another operation as number 2.
        assert_eq!((journal.renumber(1), journal.number()), (0, 2));
        journal.remove_completed(0);
        assert_eq!(journal.len(), 1);
        journal.remove_completed(1);
        assert_eq!(journal.len(), 0);
    }
}

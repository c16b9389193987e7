//! Detects lock-order inversions: threads acquire locks in opposite orders, so they can deadlock, although they did not
//! deadlock in this launch.
//!
//! A thread **acquires** a lock (an element) by a successful atomic update in a retry loop, and releases the lock by
//! changing the element again. If a thread that does not hold an element changes it outside such a loop, the element is
//! not a lock and is ignored. If a thread that holds locks acquires another lock, an edge from each held lock to the
//! acquired lock is added to the lock graph. A cycle is a deadlock in some interleaving if its edges belong to
//! different threads that no barrier separates and that hold no common lock (the Goodlock algorithm: K. Havelund,
//! *Using runtime analysis to guide model checking of Java programs*, 2000). Synchronization by other means than locks
//! and barriers is not considered.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::code::KernelTables;

/// An element that may be a lock, as its memory, its block (for shared memory), and its cell.
pub(crate) type LockId = (u32, Option<u64>, usize);

/// For each lane, the IDs of the locks that it holds.
#[derive(Default)]
pub(crate) struct HeldLocks(Vec<Vec<u32>>);

impl HeldLocks {
    pub fn begin(&mut self, lanes: usize) {
        self.0.iter_mut().for_each(Vec::clear);
        self.0.resize_with(lanes, Vec::new);
    }
}

/// An acquisition of a lock by a thread: the thread, the time and the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NestedAcquisition {
    pub group: u64,
    pub lane: usize,
    /// The times of the last grid barrier and of the last block barrier before the acquisition.
    pub phase: (u64, u64),
    /// The operation's index in the code's list of spans.
    pub span: u32,
}

struct LockEdge {
    acquisition: NestedAcquisition,
    held_locks: Vec<u32>,
}

/// An edge of a cycle in the lock graph: a thread that holds one lock acquires another.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LockCycleEdge {
    pub step: NestedAcquisition,
    pub held_lock: String,
    pub acquired_lock: String,
}

/// The lock graph of a launch.
#[derive(Default)]
pub(crate) struct LockGraph {
    /// Indexed by memory: whether some operation of the kernel acquires its elements as locks.
    memories: Vec<bool>,
    ids: FxHashMap<LockId, u32>,
    names: Vec<String>,
    not_locks: FxHashSet<LockId>,
    edges: FxHashMap<(u32, u32), Vec<LockEdge>>,
}

/// Maximum number of recorded edges from one lock to another, and maximum number of pairs of locks with an edge
/// (`MAX_LOCK_PAIRS`).
const MAX_EDGES: usize = 4;
const MAX_LOCK_PAIRS: usize = 1 << 16;

/// Maximum number of steps of the search for a cycle.
const MAX_SEARCH_STEPS: usize = 1 << 20;

impl LockGraph {
    pub fn new(code: &KernelTables) -> LockGraph {
        let mut memories = vec![false; code.memories.len()];
        for site in code.events.access_sites.iter().filter(|site| site.traits.is_retried) {
            memories[code.accesses[site.access as usize].memory as usize] = true;
        }
        LockGraph { memories, ..LockGraph::default() }
    }

    pub fn may_be_in(&self, memory: u32) -> bool {
        self.memories.get(memory as usize).is_some_and(|&may_hold_locks| may_hold_locks)
    }

    /// Records that a lane has acquired an element as a lock.
    pub fn acquire(
        &mut self,
        held: &mut HeldLocks,
        step: NestedAcquisition,
        element: LockId,
        name: impl FnOnce() -> String,
    ) {
        let names = &mut self.names;
        let id = *self.ids.entry(element).or_insert_with(|| {
            names.push(name());
            names.len() as u32 - 1
        });
        let Some(held) = held.0.get_mut(step.lane) else { return };
        for &held_lock in held.iter().filter(|&&held_lock| held_lock != id) {
            let full = self.edges.len() >= MAX_LOCK_PAIRS;
            let arrows = match self.edges.get_mut(&(held_lock, id)) {
                Some(arrows) => arrows,
                None if full => continue,
                None => self.edges.entry((held_lock, id)).or_default(),
            };
            let is_same = |arrow: &LockEdge| (arrow.acquisition, &arrow.held_locks) == (step, &*held);
            if arrows.len() < MAX_EDGES && !arrows.iter().any(is_same) {
                arrows.push(LockEdge { acquisition: step, held_locks: held.clone() });
            }
        }
        held.push(id);
    }

    /// Records that a lane has changed an element. This releases the lock if the lane holds it; otherwise the element
    /// is not a lock.
    pub fn on_change(&mut self, held_locks: &mut HeldLocks, lane: usize, element: LockId) {
        let id = self.ids.get(&element).copied();
        let Some(held_locks) = held_locks.0.get_mut(lane) else { return };
        match held_locks.iter().position(|&lock| Some(lock) == id) {
            Some(at) => {
                held_locks.swap_remove(at);
            }
            None => {
                self.not_locks.insert(element);
            }
        }
    }

    /// Returns the edges of a cycle by which threads can deadlock, if there is one. Prefers a cycle of two locks.
    pub fn find_cycle(&self) -> Option<Vec<LockCycleEdge>> {
        let broken: FxHashSet<u32> =
            self.not_locks.iter().filter_map(|element| self.ids.get(element).copied()).collect();
        let mut pairs: Vec<(u32, u32)> = self.edges.keys().copied().collect();
        pairs.retain(|(a, b)| !broken.contains(a) && !broken.contains(b));
        pairs.sort_unstable();
        let mut next: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        pairs.iter().for_each(|&(a, b)| next.entry(a).or_default().push(b));
        let mut left = MAX_SEARCH_STEPS;
        let both_ways = pairs.iter().filter(|(a, b)| a < b).find_map(|&(a, b)| self.cycle_through(&[a, b]));
        both_ways.or_else(|| pairs.iter().find_map(|&(a, _)| self.search(a, &next, &mut left)))
    }

    /// Searches for a cycle that starts and ends at lock `start` and otherwise contains only locks with larger IDs.
    /// `left` is the remaining number of search steps.
    fn search(&self, start: u32, next: &FxHashMap<u32, Vec<u32>>, left: &mut usize) -> Option<Vec<LockCycleEdge>> {
        let none = vec![];
        let after = |lock: u32| next.get(&lock).unwrap_or(&none);
        let (mut path, mut visited) = (vec![(start, 0)], FxHashSet::default());
        while let Some((lock, at)) = path.last_mut() {
            *left = left.checked_sub(1)?;
            let Some(&to) = after(*lock).get(*at) else {
                path.pop();
                continue;
            };
            *at += 1;
            if to == start {
                let locks: Vec<u32> = path.iter().map(|&(lock, _)| lock).collect();
                if let Some(parts) = self.cycle_through(&locks) {
                    return Some(parts);
                }
            } else if to > start && visited.insert(to) {
                path.push((to, 0));
            }
        }
        None
    }

    /// Returns an edge from each lock to the next, and from the last lock to the first, such that different threads can
    /// perform these acquisitions at the same time. `None` if there are no such edges.
    fn cycle_through(&self, locks: &[u32]) -> Option<Vec<LockCycleEdge>> {
        let mut chosen: Vec<&LockEdge> = Vec::new();
        let pair = |k: usize| (locks[k], locks[(k + 1) % locks.len()]);
        for k in 0..locks.len() {
            let is_compatible = |arrow: &&LockEdge| chosen.iter().all(|other| can_overlap(arrow, other));
            let arrow = self.edges.get(&pair(k))?.iter().find(is_compatible)?;
            chosen.push(arrow);
        }
        let name = |lock: u32| self.names[lock as usize].clone();
        let part = |(k, arrow): (usize, &&LockEdge)| {
            let (first, second) = pair(k);
            LockCycleEdge { step: arrow.acquisition, held_lock: name(first), acquired_lock: name(second) }
        };
        let mut parts: Vec<LockCycleEdge> = chosen.iter().enumerate().map(part).collect();
        // Move the edge of the last thread to the front, because it is reported first.
        let last = (0..parts.len()).max_by_key(|&k| (parts[k].step.group, parts[k].step.lane))?;
        parts.rotate_left(last);
        Some(parts)
    }
}

/// Returns whether two different threads may perform these acquisitions at the same time: no barrier and no common lock
/// separates them.
fn can_overlap(a: &LockEdge, b: &LockEdge) -> bool {
    let same_block = a.acquisition.group == b.acquisition.group;
    let is_separated = a.acquisition.phase.0 != b.acquisition.phase.0
        || (same_block && a.acquisition.phase.1 != b.acquisition.phase.1);
    let same_thread = same_block && a.acquisition.lane == b.acquisition.lane;
    !is_separated && !same_thread && !a.held_locks.iter().any(|lock| b.held_locks.contains(lock))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs one thread for each element of `orders`. The thread acquires its locks in this order, then releases them.
    fn run(orders: &[&[usize]]) -> Option<Vec<(u64, String, String)>> {
        let (mut locks, mut held_locks) = (LockGraph::default(), HeldLocks::default());
        for (group, order) in orders.iter().enumerate() {
            held_locks.begin(1);
            let step = NestedAcquisition { group: group as u64, lane: 0, phase: (0, 0), span: 0 };
            for &cell in *order {
                locks.acquire(&mut held_locks, step, (0, None, cell), || format!("l{cell}"));
            }
            order.iter().for_each(|&cell| locks.on_change(&mut held_locks, 0, (0, None, cell)));
        }
        Some(
            locks.find_cycle()?.into_iter().map(|part| (part.step.group, part.held_lock, part.acquired_lock)).collect(),
        )
    }

    #[test]
    fn only_possible_cycles_are_found() {
        assert_eq!(run(&[&[0, 1], &[0, 1], &[0, 2]]), None);
        let both = run(&[&[0, 1], &[1, 0]]).unwrap();
        assert_eq!(both, [(1, "l1".into(), "l0".into()), (0, "l0".into(), "l1".into())]);
        assert_eq!(run(&[&[0, 1], &[1, 2], &[2, 3], &[3, 0]]).unwrap().len(), 4);
        assert_eq!(run(&[&[7, 0, 1], &[7, 1, 0]]), None, "a lock around both");
        assert_eq!(run(&[&[0, 1, 2, 0]]), None, "one thread");
    }

    #[test]
    fn elements_changed_without_acquisition_are_not_locks() {
        let (mut locks, mut held_locks) = (LockGraph::default(), HeldLocks::default());
        for group in 0..2 {
            held_locks.begin(2);
            let step = NestedAcquisition { group, lane: 0, phase: (0, 0), span: 0 };
            let cells = if group == 0 { [0, 1] } else { [1, 0] };
            cells.iter().for_each(|&cell| locks.acquire(&mut held_locks, step, (0, None, cell), || format!("l{cell}")));
            locks.on_change(&mut held_locks, 1, (0, None, 0));
        }
        assert_eq!(locks.find_cycle(), None);
    }

    #[test]
    fn barriers_prevent_deadlocks() {
        for (phase, found) in [((0, 3), false), ((0, 0), true)] {
            let (mut locks, mut held_locks) = (LockGraph::default(), HeldLocks::default());
            held_locks.begin(2);
            for (lane, cells, phase) in [(0, [0, 1], (0, 0)), (1, [1, 0], phase)] {
                let step = NestedAcquisition { group: 4, lane, phase, span: 0 };
                cells.iter().for_each(|&cell| locks.acquire(&mut held_locks, step, (0, None, cell), String::new));
                cells.iter().for_each(|&cell| locks.on_change(&mut held_locks, lane, (0, None, cell)));
            }
            assert_eq!(locks.find_cycle().is_some(), found);
        }
    }
}

//! Lock order inversions: locks that threads take in opposite orders, so that they can deadlock, though in this run they did not.
//!
//! A thread **acquires** an element by a successful atomic update in a loop of its own, and releases it by changing it again. An
//! element that is also changed by threads that do not hold it is no lock, and is ignored. If a thread that holds locks acquires
//! another one, the lock graph gets an edge from each of them to that one. A cycle is a deadlock in some interleaving, if its
//! edges belong to different threads that no barrier separates and that have no other lock in common (the idea of Goodlock: K.
//! Havelund, *Using runtime analysis to guide model checking of Java programs*, 2000). Other synchronization is not considered.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::device::sim::code::Code;

/// An element: its memory, the block for shared memory, and its number.
pub(crate) type Element = (u32, Option<u64>, usize);

/// By lane, the locks it holds.
#[derive(Default)]
pub(crate) struct Held(Vec<Vec<u32>>);

impl Held {
    pub fn begin(&mut self, lanes: usize) {
        self.0.iter_mut().for_each(Vec::clear);
        self.0.resize_with(lanes, Vec::new);
    }
}

/// An acquisition of a lock by a thread that holds another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub group: u64,
    pub lane: usize,
    /// The last barriers of the grid and of the block before it.
    pub phase: (u64, u64),
    /// The operation's index in the code's list of spans.
    pub span: u32,
}

struct Arrow {
    step: Step,
    held: Vec<u32>,
}

/// An edge of a cycle: a thread that holds one lock acquires another.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub step: Step,
    pub has: String,
    pub takes: String,
}

/// The lock graph of a launch.
#[derive(Default)]
pub(crate) struct Locks {
    /// By memory: some operation acquires elements of it.
    memories: Vec<bool>,
    ids: FxHashMap<Element, u32>,
    names: Vec<String>,
    broken: FxHashSet<Element>,
    arrows: FxHashMap<(u32, u32), Vec<Arrow>>,
}

/// Limits on the edges between two locks, and on the pairs of locks.
const ARROWS: usize = 4;
const PAIRS: usize = 1 << 16;

/// Step limit of the search for a cycle.
const STEPS: usize = 1 << 20;

impl Locks {
    pub fn new(code: &Code) -> Locks {
        let mut memories = vec![false; code.memories.len()];
        for note in code.notes.iter().filter(|note| note.traits.takes) {
            memories[code.accesses[note.access as usize].memory as usize] = true;
        }
        Locks { memories, ..Locks::default() }
    }

    pub fn are_in(&self, memory: u32) -> bool {
        self.memories.get(memory as usize).is_some_and(|&is| is)
    }

    /// Records that a lane has acquired an element.
    pub fn taken(&mut self, held: &mut Held, step: Step, element: Element, name: impl FnOnce() -> String) {
        let names = &mut self.names;
        let id = *self.ids.entry(element).or_insert_with(|| {
            names.push(name());
            names.len() as u32 - 1
        });
        let Some(held) = held.0.get_mut(step.lane) else { return };
        for &has in held.iter().filter(|&&has| has != id) {
            let full = self.arrows.len() >= PAIRS;
            let arrows = match self.arrows.get_mut(&(has, id)) {
                Some(arrows) => arrows,
                None if full => continue,
                None => self.arrows.entry((has, id)).or_default(),
            };
            let known = |arrow: &Arrow| (arrow.step, &arrow.held) == (step, &*held);
            if arrows.len() < ARROWS && !arrows.iter().any(known) {
                arrows.push(Arrow { step, held: held.clone() });
            }
        }
        held.push(id);
    }

    /// Records that a lane has changed an element: releases it, if the lane holds it.
    pub fn changed(&mut self, held: &mut Held, lane: usize, element: Element) {
        let id = self.ids.get(&element).copied();
        let Some(held) = held.0.get_mut(lane) else { return };
        match held.iter().position(|&has| Some(has) == id) {
            Some(at) => {
                held.swap_remove(at);
            }
            None => {
                self.broken.insert(element);
            }
        }
    }

    /// Returns a set of threads that can deadlock, if there is one: a cycle of two locks if possible.
    pub fn circle(&self) -> Option<Vec<Part>> {
        let broken: FxHashSet<u32> = self.broken.iter().filter_map(|element| self.ids.get(element).copied()).collect();
        let mut pairs: Vec<(u32, u32)> = self.arrows.keys().copied().collect();
        pairs.retain(|(a, b)| !broken.contains(a) && !broken.contains(b));
        pairs.sort_unstable();
        let mut next: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        pairs.iter().for_each(|&(a, b)| next.entry(a).or_default().push(b));
        let mut left = STEPS;
        let both_ways = pairs.iter().filter(|(a, b)| a < b).find_map(|&(a, b)| self.around(&[a, b]));
        both_ways.or_else(|| pairs.iter().find_map(|&(a, _)| self.search(a, &next, &mut left)))
    }

    /// Searches a cycle that starts and ends at a lock, over locks with larger numbers.
    fn search(&self, start: u32, next: &FxHashMap<u32, Vec<u32>>, left: &mut usize) -> Option<Vec<Part>> {
        let none = vec![];
        let after = |lock: u32| next.get(&lock).unwrap_or(&none);
        let (mut path, mut seen) = (vec![(start, 0)], FxHashSet::default());
        while let Some((lock, at)) = path.last_mut() {
            *left = left.checked_sub(1)?;
            let Some(&to) = after(*lock).get(*at) else {
                path.pop();
                continue;
            };
            *at += 1;
            if to == start {
                let locks: Vec<u32> = path.iter().map(|&(lock, _)| lock).collect();
                if let Some(parts) = self.around(&locks) {
                    return Some(parts);
                }
            } else if to > start && seen.insert(to) {
                path.push((to, 0));
            }
        }
        None
    }

    /// Returns edges from each of these locks to the next and from the last to the first, by threads that can be there at the
    /// same time.
    fn around(&self, locks: &[u32]) -> Option<Vec<Part>> {
        let mut chosen: Vec<&Arrow> = Vec::new();
        let pair = |k: usize| (locks[k], locks[(k + 1) % locks.len()]);
        for k in 0..locks.len() {
            let fits = |arrow: &&Arrow| chosen.iter().all(|other| together(arrow, other));
            let arrow = self.arrows.get(&pair(k))?.iter().find(fits)?;
            chosen.push(arrow);
        }
        let name = |lock: u32| self.names[lock as usize].clone();
        let part = |(k, arrow): (usize, &&Arrow)| {
            let (has, takes) = pair(k);
            Part { step: arrow.step, has: name(has), takes: name(takes) }
        };
        let mut parts: Vec<Part> = chosen.iter().enumerate().map(part).collect();
        // The report is about the last thread.
        let last = (0..parts.len()).max_by_key(|&k| (parts[k].step.group, parts[k].step.lane))?;
        parts.rotate_left(last);
        Some(parts)
    }
}

/// Returns whether two threads may be at these operations at the same time.
fn together(a: &Arrow, b: &Arrow) -> bool {
    let same_block = a.step.group == b.step.group;
    let apart = a.step.phase.0 != b.step.phase.0 || (same_block && a.step.phase.1 != b.step.phase.1);
    let same_thread = same_block && a.step.lane == b.step.lane;
    !apart && !same_thread && !a.held.iter().any(|lock| b.held.contains(lock))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs threads that acquire locks in these orders, and release them.
    fn run(orders: &[&[usize]]) -> Option<Vec<(u64, String, String)>> {
        let (mut locks, mut held) = (Locks::default(), Held::default());
        for (group, order) in orders.iter().enumerate() {
            held.begin(1);
            let step = Step { group: group as u64, lane: 0, phase: (0, 0), span: 0 };
            for &cell in *order {
                locks.taken(&mut held, step, (0, None, cell), || format!("l{cell}"));
            }
            order.iter().for_each(|&cell| locks.changed(&mut held, 0, (0, None, cell)));
        }
        Some(locks.circle()?.into_iter().map(|part| (part.step.group, part.has, part.takes)).collect())
    }

    #[test]
    fn circles_are_found_and_what_cannot_happen_is_none() {
        assert_eq!(run(&[&[0, 1], &[0, 1], &[0, 2]]), None);
        let both = run(&[&[0, 1], &[1, 0]]).unwrap();
        assert_eq!(both, [(1, "l1".into(), "l0".into()), (0, "l0".into(), "l1".into())]);
        assert_eq!(run(&[&[0, 1], &[1, 2], &[2, 3], &[3, 0]]).unwrap().len(), 4);
        assert_eq!(run(&[&[7, 0, 1], &[7, 1, 0]]), None, "a lock around both");
        assert_eq!(run(&[&[0, 1, 2, 0]]), None, "one thread");
    }

    #[test]
    fn what_others_change_is_no_lock() {
        let (mut locks, mut held) = (Locks::default(), Held::default());
        for group in 0..2 {
            held.begin(2);
            let step = Step { group, lane: 0, phase: (0, 0), span: 0 };
            let cells = if group == 0 { [0, 1] } else { [1, 0] };
            cells.iter().for_each(|&cell| locks.taken(&mut held, step, (0, None, cell), || format!("l{cell}")));
            locks.changed(&mut held, 1, (0, None, 0));
        }
        assert_eq!(locks.circle(), None);
    }

    #[test]
    fn barriers_keep_threads_apart() {
        for (phase, found) in [((0, 3), false), ((0, 0), true)] {
            let (mut locks, mut held) = (Locks::default(), Held::default());
            held.begin(2);
            for (lane, cells, phase) in [(0, [0, 1], (0, 0)), (1, [1, 0], phase)] {
                let step = Step { group: 4, lane, phase, span: 0 };
                cells.iter().for_each(|&cell| locks.taken(&mut held, step, (0, None, cell), String::new));
                cells.iter().for_each(|&cell| locks.changed(&mut held, lane, (0, None, cell)));
            }
            assert_eq!(locks.circle().is_some(), found);
        }
    }
}

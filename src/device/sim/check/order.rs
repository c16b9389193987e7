//! Fences and atomics that order blocks.
//!
//! A thread's `fence()` and a later atomic operation of the same thread **release** to that atomic's element what the thread
//! did before the fence, what its block did before the last barrier, and what had been acquired until then. A thread
//! that touches the element by an atomic operation **acquires** what has been released to it, for itself at once, for its warp
//! and its block from their next meeting on. (GPUs want a second fence there; its absence is not reported.)

use rustc_hash::{FxHashMap, FxHashSet};

use super::Checker;
use super::touch::Event;
use super::word;
use crate::device::Deed;
use crate::device::sim::group::Group;
use crate::device::sim::memory;
use crate::ir::def::Scope;

/// An element: its memory and its cell.
type Key = (u32, usize);

/// What a group has acquired.
#[derive(Clone, Debug)]
struct Acquired {
    from: Key,
    /// The first so many of what was released to it.
    until: usize,
    lane: usize,
    time: u64,
}

/// A point in the life of a thread: what is ordered before it within its block.
#[derive(Clone, Copy, Debug)]
struct Point {
    lane: usize,
    /// Times before are, of the whole block, of the warp.
    block: u64,
    warp: u64,
}

impl Point {
    fn orders(&self, lane: usize, time: u64) -> bool {
        time < self.block || (lane / 32 == self.lane / 32 && time < self.warp)
    }
}

#[derive(Clone, Debug)]
struct Release {
    group: u64,
    at: Point,
    /// The thread's own plain accesses up to this time, and its atomics up to that.
    fence: u64,
    time: u64,
    acquired: Vec<Acquired>,
}

#[derive(Default)]
struct Variable {
    log: Vec<Release>,
    by_group: FxHashMap<u64, Vec<usize>>,
}

/// What all groups of a launch have released; and the single threads that words of many stand for.
#[derive(Default)]
pub struct Releases {
    variables: FxHashMap<Key, Variable>,
    readers: FxHashMap<Key, Vec<u64>>,
    updaters: FxHashMap<Key, Vec<u64>>,
}

impl Releases {
    pub fn listed(&self, key: Key, deed: Deed) -> &[u64] {
        let lists = if deed == Deed::Updates { &self.updaters } else { &self.readers };
        lists.get(&key).map_or(&[], Vec::as_slice)
    }

    pub fn list(&mut self, key: Key, deed: Deed, word: u64) {
        let lists = if deed == Deed::Updates { &mut self.updaters } else { &mut self.readers };
        let list = lists.entry(key).or_default();
        if list.last() != Some(&word) {
            list.push(word);
        }
    }

    pub fn forget_one(&mut self, key: Key, deed: Deed) {
        (if deed == Deed::Updates { &mut self.updaters } else { &mut self.readers }).remove(&key);
    }

    pub fn forget(&mut self, key: Key) {
        self.forget_one(key, Deed::Reads);
    }
}

/// What the running group has fenced and acquired.
#[derive(Default)]
pub struct Own {
    /// Per lane the time of its last fence; 0 without one.
    fences: Vec<u64>,
    acquired: Vec<Acquired>,
}

impl Own {
    pub fn begin(&mut self) {
        self.fences.clear();
        self.acquired.clear();
    }
}

impl Checker<'_> {
    pub(super) fn fence(&mut self, g: &Group, scope: Scope) {
        if scope == Scope::Device {
            self.order.fences.resize(g.lanes, 0);
            for lane in g.active() {
                self.order.fences[lane] = self.global.time;
            }
        }
        self.global.tick();
        self.seen();
    }

    /// The active lanes acquire and release by an atomic operation.
    pub(super) unsafe fn synchronised(&mut self, g: &Group, e: &Event<'_>) {
        let watch = self.watch;
        let mut releases = watch.releases.lock().unwrap_or_else(|e| e.into_inner());
        let group = word::group(e.now.own);
        let time = self.global.time;
        for lane in g.active() {
            // SAFETY: the access is one of the group's code.
            let Some(addr) = (unsafe { memory::address(g, e.access, lane) }) else { continue };
            let key = (e.access.memory, (addr as usize - e.start as usize) / e.watched.unit);
            let variable = releases.variables.entry(key).or_default();
            let until = variable.log.len();
            let known = self.order.acquired.iter().any(|a| a.from == key && a.lane == lane && a.until == until);
            if until > 0 && !known {
                self.order.acquired.push(Acquired { from: key, until, lane, time });
            }
            let fence = self.order.fences.get(lane).copied().unwrap_or(0);
            let again = variable.log.last().is_some_and(|r| r.group == group && r.at.lane == lane && r.fence == fence);
            if fence == 0 || again {
                continue;
            }
            let (block, warp) = self.global.bases(lane);
            let at = Point { lane, block, warp };
            variable.by_group.entry(group).or_default().push(until);
            variable.log.push(Release { group, at, fence, time, acquired: self.order.acquired.clone() });
        }
    }

    /// Whether fences and atomics order a word's thread before lane `lane` of the running group.
    pub(super) fn released(&self, releases: &Releases, lane: usize, word: u64, deed: Deed) -> bool {
        let (block, warp) = self.global.bases(lane);
        let mut search = Search {
            releases,
            group: word::group(word),
            lane: word::lane(word),
            time: self.global.time_of(word),
            atomic: deed == Deed::Updates,
            seen: FxHashSet::default(),
        };
        search.reaches(&self.order.acquired, &Point { lane, block, warp })
    }
}

struct Search<'a> {
    releases: &'a Releases,
    group: u64,
    lane: usize,
    time: u64,
    atomic: bool,
    seen: FxHashSet<(Key, usize)>,
}

impl Search<'_> {
    /// Whether what was acquired before a point holds the word, or leads to it.
    fn reaches(&mut self, acquired: &[Acquired], at: &Point) -> bool {
        let mut todo: Vec<(Key, usize)> = vec![];
        let next = |acquired: &[Acquired], at: &Point| {
            let before = |a: &&Acquired| a.lane == at.lane || at.orders(a.lane, a.time);
            acquired.iter().filter(before).map(|a| (a.from, a.until)).collect::<Vec<_>>()
        };
        todo.extend(next(acquired, at));
        while let Some((key, until)) = todo.pop() {
            let Some(variable) = self.releases.variables.get(&key) else { continue };
            let mine = variable.by_group.get(&self.group).into_iter().flatten().filter(|&&n| n < until);
            for &n in mine {
                if self.holds(&variable.log[n]) {
                    return true;
                }
            }
            for n in (0..until).rev() {
                if !self.seen.insert((key, n)) {
                    // What lies before was looked at together with it.
                    break;
                }
                todo.extend(next(&variable.log[n].acquired, &variable.log[n].at));
            }
        }
        false
    }

    fn holds(&self, release: &Release) -> bool {
        let own = if self.atomic { release.time } else { release.fence };
        (release.at.lane == self.lane && self.time <= own) || release.at.orders(self.lane, self.time)
    }
}

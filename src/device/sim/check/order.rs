//! Fences and atomics that order threads.
//!
//! A thread's `fence()` and a later atomic operation of the same thread **release** to that atomic's element what the thread
//! did before the fence, what its block did before the last barrier, and what had been acquired until then. A thread
//! that touches the element by an atomic operation **acquires** what has been released to it, for itself at once, for its warp
//! and its block from their next meeting on. (GPUs want a second fence there; its absence is not reported.) After a
//! `fence_block()` only threads of the same block acquire it.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::Checker;
use super::touch::Event;
use super::word;
use crate::device::Deed;
use crate::device::sim::group::Group;
use crate::device::sim::memory;
use crate::ir::def::Scope;

/// An element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    memory: u32,
    /// One more than the group, of a shared array; 0 of a global one.
    group: u64,
    cell: usize,
}

/// Moments by the clocks of global and of shared memory; 0 for never.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    global: u64,
    shared: u64,
}

impl Times {
    fn of(&self, global: bool) -> u64 {
        if global { self.global } else { self.shared }
    }
}

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
    block: Times,
    warp: Times,
}

impl Point {
    fn orders(&self, lane: usize, time: u64, global: bool) -> bool {
        time < self.block.of(global) || (lane / 32 == self.lane / 32 && time < self.warp.of(global))
    }
}

#[derive(Clone, Debug)]
struct Release {
    group: u64,
    at: Point,
    /// The thread's own plain accesses up to this time, for all and for its own block, and its atomics up to that.
    fence: Fences,
    time: Times,
    acquired: Arc<Vec<Acquired>>,
}

/// The last fences of a thread.
#[derive(Clone, Copy, Debug, Default)]
struct Fences {
    /// For all threads,
    device: Times,
    /// and for those of the block.
    block: Times,
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
    /// The last word of each thread, by thread.
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
        let thread = |word: &u64| word & if key.group > 0 { word::LANE } else { word::GROUP | word::LANE };
        match list.binary_search_by_key(&thread(&word), thread) {
            // What orders a later access of a thread orders its earlier ones.
            Ok(at) => list[at] = list[at].max(word),
            Err(at) => list.insert(at, word),
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
    lanes: Vec<Lane>,
    acquired: Arc<Vec<Acquired>>,
    /// The last entry of `acquired` for an element and a lane.
    latest: FxHashMap<(Key, usize), usize>,
    /// The versions that lanes released to elements.
    released: FxHashMap<(Key, usize), u32>,
    /// Something was touched since the last tick of a fence.
    pub touched: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    fences: Fences,
    /// Goes on with what the thread does or gets to know, so that it is known when there is nothing new to release: now, and at
    /// the last fence.
    version: u32,
    fenced: u32,
    /// The last fence was for the block only.
    narrow: bool,
    /// The element of its last atomic operation.
    polled: Option<Key>,
}

impl Own {
    pub fn begin(&mut self) {
        self.lanes.clear();
        self.latest.clear();
        self.released.clear();
        if !self.acquired.is_empty() {
            self.acquired = Arc::default();
        }
    }

    /// The active lanes do something that fences may have to order.
    pub fn act(&mut self, g: &Group) {
        self.lanes.resize(g.lanes, Lane::default());
        for lane in g.active() {
            self.lanes[lane].version += 1;
        }
    }

    /// What lanes did becomes known to others.
    pub fn met(&mut self) {
        self.lanes.iter_mut().for_each(|lane| lane.version += 1);
    }

    /// A lane learns of something from `key`, which is nothing new to those who ask there.
    fn learn(&mut self, key: Key, lane: usize) {
        let version = &mut self.lanes[lane].version;
        if let Some(released) = self.released.get_mut(&(key, lane))
            && *released == *version
        {
            *released += 1;
        }
        *version += 1;
    }

    /// A lane acquires the first so many releases to `key`; what it acquired after `shared` only it knows.
    fn acquire(&mut self, key: Key, until: usize, lane: usize, time: u64, shared: u64) {
        let new = Acquired { from: key, until, lane, time };
        let known = self.latest.get(&(key, lane)).copied();
        match known.and_then(|at| self.acquired.get(at).map(|old| (at, old.until, old.time))) {
            Some((_, known, _)) if known == until => return,
            Some((at, _, time)) if time >= shared => Arc::make_mut(&mut self.acquired)[at] = new,
            _ => {
                self.latest.insert((key, lane), self.acquired.len());
                Arc::make_mut(&mut self.acquired).push(new);
            }
        }
        self.learn(key, lane);
    }
}

impl Checker<'_> {
    pub(super) fn fence(&mut self, g: &Group, scope: Scope) {
        let mut now = self.times();
        if std::mem::take(&mut self.order.touched) {
            self.write_out();
            self.shared.tick();
            self.global.tick();
            self.seen();
        } else {
            // Nothing was done at this time yet.
            now = Times { global: now.global - 1, shared: now.shared - 1 };
        }
        self.order.lanes.resize(g.lanes, Lane::default());
        for lane in g.active() {
            let lane = &mut self.order.lanes[lane];
            // What only the block knew is news to others.
            lane.version += u32::from(lane.narrow && scope == Scope::Device);
            lane.narrow = scope == Scope::Block;
            lane.fenced = lane.version;
            lane.fences.block = now;
            if scope == Scope::Device {
                lane.fences.device = now;
            }
        }
    }

    fn times(&self) -> Times {
        Times { global: self.global.time, shared: self.shared.time }
    }

    fn point(&self, lane: usize) -> Point {
        let (global, shared) = (self.global.bases(lane), self.shared.bases(lane));
        let block = Times { global: global.0, shared: shared.0 };
        Point { lane, block, warp: Times { global: global.1, shared: shared.1 } }
    }

    /// The group as words have it.
    fn own_group(&self) -> u64 {
        self.number & (word::GROUP >> word::GROUP_SHIFT)
    }

    pub(super) fn key(&self, e: &Event<'_>, cell: usize) -> Key {
        Key { memory: e.access.memory, group: if e.global { 0 } else { self.own_group() + 1 }, cell }
    }

    /// The active lanes acquire and release by an atomic operation.
    pub(super) unsafe fn synchronised(&mut self, g: &Group, e: &Event<'_>) {
        let watch = self.watch;
        let mut releases = watch.releases.lock().unwrap_or_else(|e| e.into_inner());
        let (group, time) = (self.own_group(), self.times());
        self.order.lanes.resize(g.lanes, Lane::default());
        for lane in g.active() {
            // SAFETY: the access is one of the group's code.
            let Some(addr) = (unsafe { memory::address(g, e.access, lane) }) else { continue };
            let (key, at) = (self.key(e, e.cell(addr)), self.point(lane));
            let variable = releases.variables.entry(key).or_default();
            let until = variable.log.len();
            if until > 0 {
                self.order.acquire(key, until, lane, time.global, at.block.global.max(at.warp.global));
            }
            if self.order.lanes[lane].polled.replace(key) != Some(key) {
                self.order.learn(key, lane);
            }
            let Lane { fences, fenced, .. } = self.order.lanes[lane];
            if fences.block.global == 0 || self.order.released.insert((key, lane), fenced) == Some(fenced) {
                continue;
            }
            variable.by_group.entry(group).or_default().push(until);
            variable.log.push(Release { group, at, fence: fences, time, acquired: self.order.acquired.clone() });
        }
    }

    /// Whether fences and atomics order a word's thread before lane `lane` of the running group.
    pub(super) fn released(&self, releases: &Releases, e: &Event<'_>, lane: usize, word: u64, deed: Deed) -> bool {
        let own = self.own_group();
        let mut search = Search {
            releases,
            global: e.global,
            group: if e.global { word::group(word) } else { own },
            lane: word::lane(word),
            time: if e.global { self.global.time_of(word) } else { self.shared.time_of(word) },
            atomic: deed == Deed::Updates,
            seen: FxHashSet::default(),
        };
        search.reaches(&self.order.acquired, &self.point(lane), own)
    }
}

struct Search<'a> {
    releases: &'a Releases,
    global: bool,
    group: u64,
    lane: usize,
    time: u64,
    atomic: bool,
    seen: FxHashSet<(Key, usize, u64)>,
}

/// The first so many releases to an element, and the group that has acquired them.
type Reach = (Key, usize, u64);

/// What was acquired before a point in the life of a group.
fn before(acquired: &[Acquired], at: &Point, group: u64, todo: &mut Vec<Reach>) {
    let before = acquired.iter().filter(|a| a.lane == at.lane || at.orders(a.lane, a.time, true));
    todo.extend(before.map(|a| (a.from, a.until, group)));
}

impl Search<'_> {
    /// Whether what a group acquired before a point holds the word, or leads to it.
    fn reaches(&mut self, acquired: &[Acquired], at: &Point, group: u64) -> bool {
        let mut todo: Vec<Reach> = vec![];
        before(acquired, at, group, &mut todo);
        while let Some((key, until, reader)) = todo.pop() {
            let Some(variable) = self.releases.variables.get(&key) else { continue };
            let mut mine = variable.by_group.get(&self.group).into_iter().flatten().rev().filter(|&&n| n < until);
            if mine.any(|&n| self.holds(&variable.log[n], reader)) {
                return true;
            }
            for n in (0..until).rev() {
                if !self.seen.insert((key, n, reader)) {
                    // What lies before was looked at together with it.
                    break;
                }
                let release = &variable.log[n];
                if release.fence.reaches(release.group == reader).global > 0 {
                    before(&release.acquired, &release.at, release.group, &mut todo);
                }
            }
        }
        false
    }

    fn holds(&self, release: &Release, reader: u64) -> bool {
        let fence = release.fence.reaches(release.group == reader);
        let own = if self.atomic { release.time } else { fence };
        let same = release.at.lane == self.lane && self.time <= own.of(self.global);
        fence.global > 0 && (same || release.at.orders(self.lane, self.time, self.global))
    }
}

impl Fences {
    /// The last one that threads of the same block, or others, are ordered behind.
    fn reaches(&self, same_block: bool) -> Times {
        if same_block { self.block } else { self.device }
    }
}

//! Happens-before by fences and atomics: what each thread of the running block is ordered behind.
//!
//! An access is identified by block, thread and logical **time**, which advances within a block at its barriers, warp operations
//! and fences. The accesses ordered before a thread are given, within its own block, by times (all before the last barrier, those
//! of its warp before the last warp synchronization), and beyond that, as for other blocks, by a [`View`].
//!
//! A `fence()` records what the thread has done and is ordered behind. An atomic operation that changes its element **releases**
//! to the element what was recorded by the thread's last fence, or by fences of other threads that a barrier orders before it.
//! One whose old value decides what the thread does (`Note::decides`) **acquires** what has been released to the element, at once
//! for the thread itself, for its warp and its block from their next synchronization on. (GPUs require a second fence there; its
//! absence is not reported.) All atomic operations read the value written by the one before them, so that they continue what C++
//! calls its release sequence. After a `fence_block()` only threads of the same block acquire.

use std::cell::Cell;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::trace::Entry;
use super::view::{self, Release, View};
use crate::ir::def::Scope;

/// Scopes of releases: to threads of the same block (0), and to all (`DEVICE`).
const SCOPES: usize = 2;
const DEVICE: usize = 1;

/// An element: its memory and its number.
pub(crate) type Key = (u32, usize);

/// An element by which threads synchronize.
#[derive(Default)]
pub(crate) struct Variable {
    /// A number unique in the launch; from 1.
    pub id: u64,
    /// The number of releases to it.
    pub version: u64,
    /// The view that all threads acquire, and those that only certain blocks acquire.
    device: View,
    blocks: FxHashMap<u64, View>,
}

/// The variables of a memory space.
#[derive(Default)]
pub(crate) struct Variables {
    /// Positions in `all`.
    places: FxHashMap<Key, u32>,
    all: Vec<Variable>,
}

impl Variables {
    /// Returns the variable of an element; `ids` counts them.
    pub fn get(&mut self, key: Key, ids: &mut u64) -> &mut Variable {
        let place = *self.places.entry(key).or_insert(self.all.len() as u32) as usize;
        if place == self.all.len() {
            *ids += 1;
            self.all.push(Variable { id: *ids, ..Variable::default() });
        }
        &mut self.all[place]
    }

    pub fn clear(&mut self) {
        self.places.clear();
        self.all.clear();
    }
}

/// The last fence of a thread: the thread's own accesses before `time`, its block's before `block` and its warp's before `warp`
/// are released by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Fence {
    time: u64,
    block: u64,
    warp: u64,
}

/// The ordering state of a thread, or of all threads since their last synchronization.
#[derive(Clone, Debug, Default)]
struct State {
    known: View,
    /// Shared until it changes: many threads acquire, few of them release further.
    said: Option<Arc<Said>>,
}

#[derive(Clone, Debug, Default)]
struct Said {
    /// What was known at the last fence.
    fenced: [View; SCOPES],
    /// What threads of the block had done at their last fences.
    own: [View; SCOPES],
}

static NOTHING: Said = Said { fenced: [View::EMPTY; SCOPES], own: [View::EMPTY; SCOPES] };

impl State {
    fn said(&self) -> &Said {
        self.said.as_deref().unwrap_or(&NOTHING)
    }

    fn said_mut(&mut self) -> &mut Said {
        Arc::make_mut(self.said.get_or_insert_default())
    }

    fn join(&mut self, other: &State) {
        self.known.join(&other.known);
        let Some(theirs) = &other.said else { return };
        match &mut self.said {
            None => self.said = Some(theirs.clone()),
            Some(own) if Arc::ptr_eq(own, theirs) => {}
            Some(own) => {
                let own = Arc::make_mut(own);
                join(&mut own.fenced, &theirs.fenced);
                join(&mut own.own, &theirs.own);
            }
        }
    }
}

/// Joins views per scope; views that are the same for both scopes stay shared.
fn join(own: &mut [View; SCOPES], theirs: &[View; SCOPES]) {
    let same = own[0].is(&own[DEVICE]) && theirs[0].is(&theirs[DEVICE]);
    own[0].join(&theirs[0]);
    if same {
        own[DEVICE] = own[0].clone();
    } else {
        own[DEVICE].join(&theirs[DEVICE]);
    }
}

#[derive(Clone, Debug, Default)]
struct Lane {
    /// `None` if it is the state of its warp.
    state: Option<State>,
    /// Since the last synchronization.
    fences: [Fence; SCOPES],
    /// The variable and the version that it acquired last.
    last: (u64, u64),
}

/// The ordering state of the running block.
#[derive(Default)]
pub(crate) struct Own {
    group: u64,
    pub time: u64,
    /// Everything before this time is ordered before this block, or (`block_base`) before its threads.
    base: u64,
    block_base: u64,
    /// For each warp, what is ordered before its threads.
    warp_bases: Vec<u64>,
    lanes: Vec<Lane>,
    /// `None` for the state of the block.
    warps: Vec<Option<State>>,
    block: State,
    /// Since the last barrier some thread has fenced, or is ordered behind more than its block.
    news: bool,
    /// Fences and atomics have established an order that mattered.
    pub decided: Cell<bool>,
}

const WARP: usize = 32;

impl Own {
    /// Starts block `group` with this many threads; other blocks have ended or run concurrently.
    pub fn begin(&mut self, group: u64, lanes: usize) {
        let warps = lanes.div_ceil(WARP);
        (self.group, self.time, self.base, self.block_base, self.news) = (group, 1, 0, 0, false);
        self.warp_bases.clear();
        self.warp_bases.resize(warps, 0);
        self.lanes.clear();
        self.lanes.resize_with(lanes, Lane::default);
        self.warps.clear();
        self.warps.resize_with(warps, || None);
        self.block = State::default();
    }

    /// Handles a grid barrier, at this time.
    pub fn grid_met(&mut self, time: u64) {
        let (group, lanes) = (self.group, self.lanes.len());
        self.begin(group, lanes);
        (self.time, self.base, self.block_base) = (time, time, time);
    }

    /// Returns the times of the last barriers of the grid and of the block.
    pub fn phase(&self) -> (u64, u64) {
        (self.base, self.block_base)
    }

    fn state(&self, lane: usize) -> &State {
        let own = self.lanes.get(lane).and_then(|l| l.state.as_ref());
        own.or_else(|| self.warps.get(lane / WARP)?.as_ref()).unwrap_or(&self.block)
    }

    fn state_mut(&mut self, lane: usize) -> &mut State {
        self.news = true;
        let copy = match self.lanes[lane].state {
            None => Some(self.state(lane).clone()),
            Some(_) => None,
        };
        self.lanes[lane].state.get_or_insert_with(|| copy.unwrap_or_default())
    }

    /// Synchronizes all threads of the block.
    pub fn block_met(&mut self) {
        self.time += 1;
        self.block_base = self.time;
        if !std::mem::take(&mut self.news) {
            return;
        }
        let mut all = std::mem::take(&mut self.block);
        self.warps.iter_mut().filter_map(Option::take).for_each(|warp| all.join(&warp));
        self.lanes.iter_mut().filter_map(|lane| lane.state.take()).for_each(|lane| all.join(&lane));
        self.behind_fences(&mut all, 0..self.lanes.len(), view::block(self.group));
        self.block = all;
    }

    /// Synchronizes the threads of a warp; the time has advanced.
    pub fn warp_met(&mut self, warp: usize) {
        let lanes = warp * WARP..((warp + 1) * WARP).min(self.lanes.len());
        self.warp_bases[warp] = self.time;
        if !self.news {
            return;
        }
        let mut all = self.warps[warp].take().unwrap_or_else(|| self.block.clone());
        self.lanes[lanes.clone()].iter_mut().filter_map(|lane| lane.state.take()).for_each(|lane| all.join(&lane));
        self.behind_fences(&mut all, lanes, view::warp(self.group, warp));
        self.warps[warp] = Some(all);
    }

    /// Makes what these lanes did before their fences releasable by all of them. `key` is their common key in a view.
    fn behind_fences(&mut self, all: &mut State, lanes: std::ops::Range<usize>, key: u64) {
        let group = self.group;
        let alike = self.lanes[lanes.clone()].iter().all(|lane| lane.fences[0] == lane.fences[DEVICE]);
        let alike = alike && all.said().own[0].is(&all.said().own[DEVICE]);
        for k in 0..SCOPES {
            let fences = || self.lanes[lanes.clone()].iter().map(|lane| lane.fences[k]);
            if fences().all(|f| f.time == 0) {
                continue;
            }
            let least = fences().map(|f| f.time).min().unwrap_or(0);
            let block = fences().map(|f| f.block).max().unwrap_or(0);
            let own = &mut all.said_mut().own[k];
            own.raise(key, least);
            own.raise(view::block(group), block);
            for (lane, fence) in lanes.clone().zip(fences()).filter(|(_, f)| f.time > least.max(block)) {
                own.raise(view::thread(group, lane), fence.time);
                own.raise(view::warp(group, lane / WARP), fence.warp);
            }
            if alike {
                let own = &mut all.said_mut().own;
                own[DEVICE] = own[0].clone();
                break;
            }
        }
        self.lanes[lanes].iter_mut().for_each(|lane| lane.fences = Default::default());
    }

    /// Records a fence of these lanes.
    pub fn fence(&mut self, lanes: impl Iterator<Item = usize>, scope: Scope) {
        self.time += 1;
        self.news = true;
        let scopes = if scope == Scope::Device { 0..SCOPES } else { 0..DEVICE };
        for lane in lanes {
            let fence = Fence { time: self.time, block: self.block_base, warp: self.warp_bases[lane / WARP] };
            for k in scopes.clone() {
                self.lanes[lane].fences[k] = fence;
                let state = self.state(lane);
                if !state.said().fenced[k].is(&state.known) {
                    let state = self.state_mut(lane);
                    let known = state.known.clone();
                    state.said_mut().fenced[k] = known;
                }
            }
        }
    }

    /// Joins what has been released to a variable into a lane's view.
    pub fn acquire(&mut self, lane: usize, variable: &Variable) {
        let now = (variable.id, variable.version);
        if variable.version == 0 || std::mem::replace(&mut self.lanes[lane].last, now) == now {
            return;
        }
        let mut known = self.state(lane).known.clone();
        let mut news = known.join(&variable.device);
        if let Some(view) = variable.blocks.get(&self.group) {
            news |= known.join(view);
        }
        if news {
            self.state_mut(lane).known = known;
        }
    }

    /// Releases to a variable that a lane has changed; returns whether there is anything to release.
    pub fn release(&self, lane: usize, variable: &mut Variable) -> bool {
        let (to_all, to_block) = (self.can_say(lane, DEVICE), self.can_say(lane, 0));
        if !to_all && !to_block {
            return false;
        }
        variable.version += 1;
        let (id, version) = (variable.id, variable.version);
        if to_all {
            let said = self.state(lane).said();
            variable.device.is_of(id);
            variable.device.join(&said.fenced[DEVICE]);
            variable.device.join(&said.own[DEVICE]);
            variable.device.release(id, version, self.behind_fence(lane, DEVICE));
        }
        if self.lanes[lane].fences[0].time > self.lanes[lane].fences[DEVICE].time || self.says_more(lane) {
            let view = variable.blocks.entry(self.group).or_default();
            if to_block {
                let said = self.state(lane).said();
                view.join(&said.fenced[0]);
                view.join(&said.own[0]);
                view.raise_all(&self.behind_fence(lane, 0));
            }
            view.raise_version(id, version);
        }
        true
    }

    /// Returns whether a lane releases more to its block than to others.
    fn says_more(&self, lane: usize) -> bool {
        let said = self.state(lane).said();
        !said.own[0].is(&said.own[DEVICE]) || !said.fenced[0].is(&said.fenced[DEVICE])
    }

    /// Returns whether a lane has anything to release.
    fn can_say(&self, lane: usize, scope: usize) -> bool {
        let (said, fence) = (self.state(lane).said(), self.lanes[lane].fences[scope]);
        fence.time > 0 || !said.own[scope].is_empty() || !said.fenced[scope].is_empty()
    }

    /// Returns what a lane's last fence covers: its own accesses, its warp's and its block's.
    fn behind_fence(&self, lane: usize, scope: usize) -> Release {
        let Fence { time, block, warp } = self.lanes[lane].fences[scope];
        Release { group: self.group, lane, time, block, warp }
    }

    /// Returns the version of a variable that a lane is ordered behind.
    pub fn version(&self, lane: usize, variable: u64) -> u64 {
        self.state(lane).known.version(variable)
    }

    /// Returns the first lane of an entry that is neither this lane nor ordered before it.
    pub fn unordered(&self, entry: &Entry, lane: usize) -> Option<usize> {
        if entry.time < self.base.max(1) {
            return None;
        }
        let mut others = entry.mask;
        if entry.group == self.group {
            let same_warp = entry.warp == lane / WARP;
            if entry.time < self.block_base || (same_warp && entry.time < self.warp_bases[entry.warp]) {
                return None;
            }
            if same_warp {
                others &= !(1 << (lane % WARP));
            }
        }
        if others == 0 {
            return None;
        }
        let known = &self.state(lane).known;
        if !known.is_empty() {
            while others != 0 && known.knows(entry.group, entry.lane(others), entry.time) {
                others &= others - 1;
            }
        }
        match others {
            0 => {
                self.decided.set(true);
                None
            }
            _ => Some(entry.lane(others)),
        }
    }
}

//! Counts everything that the warps of a launch do.
//!
//! Input: the events of groups, in launches of kernels that were prepared for it. Output: a [`Profile`]. Each worker has a [`Profiler`] and
//! adds its sums to the launch's [`Tally`] at the end; all sums are of integers, so that they do not depend on the number of workers. Arrays
//! count as aligned to whole sectors and banks.

mod change;
mod count;
mod pattern;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use change::{changed, changes, exchanged};
pub(crate) use pattern::product;

use self::count::{Lane, Warp};
use super::code::{Code, MaskId, MemoryKind, WaitDef};
use super::events::{Note, Observer, Touch};
use super::geometry::{self, Geometry};
use super::group::{Group, Places, Reach, Told};
use super::memory::layout::Binding;
use super::memory::{self, Run};
use crate::device::Extents;
use crate::device::profile::{Access, Cost, Deed, Profile, Traffic};
use crate::ir::Counted;
use crate::ir::def::Scope;
use crate::ir::warps::{SECTOR, Spot};
use rustc_hash::FxHashSet;

/// A bit for each sector of an array.
struct Sectors(Vec<AtomicU64>);

impl Sectors {
    fn of(bytes: usize) -> Sectors {
        Sectors((0..bytes.div_ceil(SECTOR as usize).div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    fn set(&self, sector: usize) {
        let bit = 1 << (sector % 64);
        if let Some(word) = self.0.get(sector / 64).filter(|word| word.load(Ordering::Relaxed) & bit == 0) {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.load(Ordering::Relaxed).count_ones())).sum()
    }
}

/// How often a segment was executed: by warps, by threads, and by warps some of whose threads were elsewhere.
type Times = [u64; 3];

/// What workers have counted so far.
#[derive(Default)]
struct Sums {
    costs: Vec<Cost>,
    times: Vec<Times>,
    fetched: u64,
    groups: u64,
}

/// The counts of a launch, shared by its workers.
pub(crate) struct Tally<'a> {
    code: &'a Code,
    /// Every so many groups one is counted.
    step: u64,
    /// By memory: sectors of global arrays that were read, and that were written.
    touched: Vec<Option<[Sectors; 2]>>,
    sums: Mutex<Sums>,
}

impl<'a> Tally<'a> {
    /// Prepares to count about `most` groups, or all.
    pub fn new(code: &'a Code, geometry: &Geometry, bindings: &[Binding], most: Option<u64>) -> Tally<'a> {
        let bytes = |kind: MemoryKind| match kind {
            MemoryKind::Global(param) => match bindings.get(param as usize) {
                Some(Binding::Array { len, .. }) => Some(*len),
                _ => None,
            },
            _ => None,
        };
        let touched =
            code.memories.iter().map(|def| bytes(def.kind).map(|len| [Sectors::of(len), Sectors::of(len)])).collect();
        let step = most.map_or(1, |most| geometry.units.div_ceil(most.max(1)).max(1));
        let sums = Sums {
            costs: vec![Cost::default(); code.accesses.len()],
            times: vec![[0; 3]; code.segments.len()],
            ..Sums::default()
        };
        Tally { code, step, touched, sums: Mutex::new(sums) }
    }

    /// Returns what was counted.
    pub fn profile(self, name: &str, extents: &Extents, geometry: &Geometry, bindings: &[Binding]) -> Profile {
        let sums = self.sums.into_inner().unwrap_or_else(|e| e.into_inner());
        let code = self.code;
        let place = |span: u32| code.place(span).0;
        let access = |note: &Note| {
            let access = &code.accesses[note.access as usize];
            let def = &code.memories[access.memory as usize];
            Access {
                span: place(access.span),
                array: def.name.clone(),
                memory: access.memory as usize,
                shared: def.kind == MemoryKind::Shared,
                deed: match note.touch {
                    Touch::Load => Deed::Load,
                    Touch::Store => Deed::Store,
                    Touch::Atomic | Touch::Look => Deed::Atomic,
                },
                offset: access.offset,
                element: def.layout.size as u32,
                size: (access.scalar.size() * usize::from(note.components.max(1))) as u32,
                cost: sums.costs.get(note.access as usize).copied().unwrap_or_default(),
            }
        };
        let traffic = |(def, touched): (&super::code::MemoryDef, &Option<[Sectors; 2]>)| {
            let [read, written] = touched.as_ref()?;
            let MemoryKind::Global(param) = def.kind else { return None };
            let Some(Binding::Array { len, .. }) = bindings.get(param as usize) else { return None };
            let (read, written) = (read.count(), written.count());
            Some(Traffic { name: def.name.clone(), bytes: *len as u64, read, written })
        };
        let segments = code.segments.iter().zip(&sums.times);
        let segments = segments.map(|(def, &[warps, lanes, parted])| crate::device::profile::Segment {
            warps,
            lanes,
            parted,
            ..def.clone()
        });
        let (threads, warps) = size(extents, code);
        Profile {
            kernel: name.to_string(),
            span: code.place,
            extents: *extents,
            launches: 1,
            threads,
            warps,
            sampled: (self.step > 1).then(|| sums.groups as f64 / geometry.units.max(1) as f64),
            tiled: false,
            product: None,
            accesses: code.notes.iter().map(access).collect(),
            segments: segments.collect(),
            arrays: code.memories.iter().zip(&self.touched).filter_map(traffic).collect(),
            fetched: sums.fetched,
            shared: super::shared::room(&code.memories) as u64,
            trials: vec![],
            of: Counted::Kernel,
        }
    }
}

/// Returns the threads and the warps of a launch.
fn size(extents: &Extents, code: &Code) -> (u64, u64) {
    let all = |n: &[u32; 3]| n.iter().map(|&n| u64::from(n)).product::<u64>();
    match extents {
        Extents::Grid { grid, block } => (all(grid) * all(block), all(grid) * all(block).div_ceil(32)),
        Extents::Threads(n) => {
            let rank = usize::from(code.threads.unwrap_or(1)).clamp(1, 3);
            let [width, height] = code.counted.unwrap_or([32, 1]);
            let axis = |k: usize| if k < rank { n[rank - 1 - k] } else { 1 };
            let warps = u64::from(axis(0).div_ceil(width)) * u64::from(axis(1).div_ceil(height)) * u64::from(axis(2));
            (all(n), if all(n) == 0 { 0 } else { warps })
        }
    }
}

/// The counts of one worker.
pub(crate) struct Profiler<'a> {
    tally: &'a Tally<'a>,
    sums: Sums,
    /// The group that runs is counted.
    counts: bool,
    /// The warp of each lane and its place in it, for groups of this shape.
    shape: [usize; 4],
    warps: Vec<(u32, u8)>,
    /// For each warp of the group: how many of its lanes take part, and whether some are missing.
    present: Vec<(u32, bool)>,
    /// By access and lane, the address of the last execution and 1, in this group.
    last: Vec<Vec<usize>>,
    /// What the group has read: memories and sectors.
    read: FxHashSet<(u32, usize)>,
    lanes: Vec<Lane>,
}

impl<'a> Profiler<'a> {
    pub fn new(tally: &'a Tally<'a>) -> Profiler<'a> {
        let code = tally.code;
        let sums = Sums {
            costs: vec![Cost::default(); code.accesses.len()],
            times: vec![[0; 3]; code.segments.len()],
            ..Sums::default()
        };
        Profiler {
            tally,
            sums,
            counts: true,
            shape: [0; 4],
            warps: vec![],
            present: vec![],
            last: vec![vec![]; code.accesses.len()],
            read: FxHashSet::default(),
            lanes: vec![],
        }
    }

    /// Starts group `number`.
    pub fn begin(&mut self, number: u64) {
        self.counts = number.is_multiple_of(self.tally.step);
        self.sums.groups += u64::from(self.counts);
        self.read.clear();
        self.last.iter_mut().for_each(Vec::clear);
    }

    /// Finds the warps of a group.
    fn know(&mut self, g: &Group) {
        if self.shape == g.shape && self.warps.len() == g.lanes {
            return;
        }
        let (code, tile) = (self.tally.code, self.tally.code.counted.unwrap_or([32, 1]));
        let of = |lane| {
            let (warp, at) = geometry::warp(g.shape, g.coordinates(lane), code.threads.map(|_| tile));
            (warp as u32, at as u8)
        };
        (self.shape, self.warps) = (g.shape, (0..g.lanes).map(of).collect());
        let count = self.warps.iter().map(|(warp, _)| *warp as usize + 1).max().unwrap_or(0);
        let is_used = |warp: &u32| self.warps.iter().any(|(own, _)| own == warp);
        debug_assert!((0..count as u32).all(|warp| is_used(&warp)), "the warps of a group are numbered from 0 on");
        self.present = vec![(0, false); count];
    }

    /// Counts an access.
    ///
    /// # Safety
    /// The note is one of the group's code, not of a local array.
    unsafe fn count(&mut self, g: &Group, note: &Note) {
        let number = note.access as usize;
        let access = &self.tally.code.accesses[number];
        let mut lanes = std::mem::take(&mut self.lanes);
        lanes.clear();
        // SAFETY: C5: the access and its memory are the code's; active lanes exist (G2).
        let start = unsafe { (*g.memories.add(access.memory as usize)).ptr } as usize;
        let last = &mut self.last[number];
        last.resize(g.lanes, 0);
        let mut repeated = 0;
        for lane in g.active() {
            // SAFETY: as above.
            let Some(addr) = (unsafe { memory::address(g, access, lane) }) else { continue };
            let at = addr as usize - start;
            repeated += u64::from(last[lane] == at + 1);
            last[lane] = at + 1;
            let (warp, place) = self.warps[lane];
            lanes.push(Lane { warp, place, at });
        }
        if !lanes.is_sorted_by_key(|lane| (lane.warp, lane.place)) {
            lanes.sort_unstable_by_key(|lane| (lane.warp, lane.place));
        }
        self.sums.costs[number].repeated += repeated;
        let shared = self.tally.code.memories[access.memory as usize].kind == MemoryKind::Shared;
        for warp in lanes.chunk_by(|a, b| a.warp == b.warp) {
            let warp = Warp { lanes: warp, scalar: access.scalar, components: note.components };
            let touched =
                |spots: &[Spot], size: i128| self.tally.moved(&mut self.read, access.memory, note, spots, size);
            let (cost, fetched) = match shared {
                true => (warp.shared(note.touch.is_atomic()), 0),
                false => warp.global(note.touch.is_atomic(), touched),
            };
            self.sums.costs[number].add(&cost);
            self.sums.fetched += fetched;
        }
        self.lanes = lanes;
    }
}

impl Tally<'_> {
    /// Notes the sectors that a warp accesses; returns how many of them have to be moved to or from its group.
    fn moved(&self, read: &mut FxHashSet<(u32, usize)>, memory: u32, note: &Note, spots: &[Spot], size: i128) -> u64 {
        let mut moved = 0;
        for (_, sector) in crate::ir::warps::sectors_of(spots, size) {
            let sector = sector as usize;
            if let Some([loads, stores]) = &self.touched[memory as usize] {
                if note.touch != Touch::Store {
                    loads.set(sector);
                }
                if note.touch != Touch::Load {
                    stores.set(sector);
                }
            }
            moved += match note.touch {
                Touch::Load => u64::from(read.insert((memory, sector))),
                _ => 1,
            };
        }
        moved
    }
}

impl Drop for Profiler<'_> {
    fn drop(&mut self) {
        let mut all = self.tally.sums.lock().unwrap_or_else(|e| e.into_inner());
        for (sum, own) in all.costs.iter_mut().zip(&self.sums.costs) {
            sum.add(own);
        }
        for (sum, own) in all.times.iter_mut().zip(&self.sums.times) {
            sum.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
        }
        all.fetched += self.sums.fetched;
        all.groups += self.sums.groups;
    }
}

impl Observer for Profiler<'_> {
    unsafe fn touches(&mut self, g: &mut Group, note: &Note) {
        if self.counts {
            self.know(g);
            // SAFETY: C4: the op's note is one of the code's; there are none of local arrays.
            unsafe { self.count(g, note) };
        }
    }

    unsafe fn begins(&mut self, g: &mut Group, segment: u32, from: MaskId) {
        if !self.counts {
            return;
        }
        self.know(g);
        let Some(times) = self.sums.times.get_mut(segment as usize) else { return };
        if g.full {
            times[0] += self.present.len() as u64;
            times[1] += g.lanes as u64;
            return;
        }
        self.present.iter_mut().for_each(|warp| *warp = (0, false));
        for lane in g.active() {
            self.present[self.warps[lane].0 as usize].0 += 1;
        }
        let code = self.tally.code;
        if code.segments.get(segment as usize).is_some_and(|segment| segment.branch.is_some()) {
            for lane in (0..g.lanes).filter(|&lane| g.has(from, lane) && !g.is_active(lane)) {
                self.present[self.warps[lane].0 as usize].1 = true;
            }
        }
        for &(lanes, missing) in self.present.iter().filter(|(lanes, _)| *lanes > 0) {
            times[0] += 1;
            times[1] += u64::from(lanes);
            times[2] += u64::from(missing);
        }
    }

    unsafe fn loads(&mut self, _: &mut Group, _: &Note, _: &Run, _: usize, _: isize) -> bool {
        false
    }

    unsafe fn tree(&mut self, _: &mut Group, _: &[Note], _: usize) -> bool {
        false
    }

    unsafe fn declared(&mut self, _: &mut Group, _: u32) {}

    fn block_met(&mut self, _: &mut Group) {}

    fn warps_met(&mut self, _: &mut Group) {}

    fn fenced(&mut self, _: &mut Group, _: Scope) {}

    unsafe fn parted(&mut self, _: &mut Group, _: MaskId, _: u32, _: bool) {}

    fn left(&mut self, _: &mut Group, _: u32) {}

    fn gathered(&mut self, _: &mut Group) {}

    fn polls(&mut self, _: &mut Group, _: &WaitDef) {}

    fn waits(&self, _: &Group) -> Option<String> {
        None
    }

    fn parted_at(&self, _: usize) -> Option<u32> {
        None
    }

    unsafe fn reaches(&mut self, _: &mut Group, _: usize, _: &[u64], _: &dyn Fn(&mut Group) -> Vec<Reach>) -> bool {
        false
    }

    unsafe fn places(&mut self, _: &mut Group, _: &Places<'_>) -> Told {
        Told::Doubtful
    }

    fn is_owned(&self, _: u32) -> bool {
        false
    }

    fn marks(&mut self, _: u32, _: usize) -> Option<(*mut u8, u8)> {
        None
    }
}

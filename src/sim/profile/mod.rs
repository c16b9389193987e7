//! Profiles launches: counts the memory transactions and the executed code segments of all warps.
//!
//! Input: the events of groups, in launches of kernels that were prepared for profiling. Output: a [`Profile`]. Each
//! worker has a [`WorkerProfiler`], and adds its sums to the shared [`LaunchProfiler`] when it is done. All sums are
//! integers, so the result does not depend on the number of workers. Arrays are assumed to start at a sector and at
//! bank 0.

mod access_cost;
mod kernel_changes;
mod matmul_pattern;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use kernel_changes::{apply_change, changed_extents, propose_changes};
pub(crate) use matmul_pattern::product;

use self::access_cost::{ActiveLane, WarpLanes};
use super::code::{KernelTables, MaskId, MemoryKind, PollingLoopDef};
use super::events::{AccessSite, GroupObserver};
use super::geometry::{self, GroupGeometry};
use super::group::{AccessFacts, GroupShape, LaneAddresses, RegionAccess, ThreadGroup};
use super::memory::layout::BoundParam;
use super::memory::{self, AddressRun};
use clk_ir::CostCounting;
use clk_ir::def::FenceScope;
use clk_ir::memory_transactions::{LaneAddress, SECTOR};
use clk_runtime::LaunchExtents;
use clk_runtime::profile::{AccessCost, AccessKind, AccessProfile, ArrayTraffic, Profile};
use rustc_hash::FxHashSet;

/// A set of sectors of an array, as a bit set that workers update concurrently.
struct SectorSet(Vec<AtomicU64>);

impl SectorSet {
    fn of(bytes: usize) -> SectorSet {
        SectorSet((0..bytes.div_ceil(SECTOR as usize).div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
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

/// The number of executions of a straight-line segment: by warps, by threads, and by divergent warps.
type SegmentCounts = [u64; 3];

/// Counts of costs, summed over groups.
#[derive(Default)]
struct ProfileTotals {
    costs: Vec<AccessCost>,
    times: Vec<SegmentCounts>,
    min_group_sectors: u64,
    groups: u64,
}

/// The profiler of a launch, which its workers share.
pub(crate) struct LaunchProfiler<'a> {
    code: &'a KernelTables,
    /// Only groups whose number is a multiple of `step` are counted.
    step: u64,
    /// For each memory that is a global array: the sectors that were read, and the sectors that were written.
    touched: Vec<Option<[SectorSet; 2]>>,
    sums: Mutex<ProfileTotals>,
}

impl<'a> LaunchProfiler<'a> {
    /// Creates the profiler of a launch; it counts about `most` groups, or all groups if `most` is `None`.
    pub fn new(
        code: &'a KernelTables,
        geometry: &GroupGeometry,
        bindings: &[BoundParam],
        most: Option<u64>,
    ) -> LaunchProfiler<'a> {
        let bytes = |kind: MemoryKind| match kind {
            MemoryKind::Global(param) => match bindings.get(param as usize) {
                Some(BoundParam::Array { len, .. }) => Some(*len),
                _ => None,
            },
            _ => None,
        };
        let touched = code
            .memories
            .iter()
            .map(|def| bytes(def.kind).map(|len| [SectorSet::of(len), SectorSet::of(len)]))
            .collect();
        let step = most.map_or(1, |most| geometry.groups.div_ceil(most.max(1)).max(1));
        let sums = ProfileTotals {
            costs: vec![AccessCost::default(); code.accesses.len()],
            times: vec![[0; 3]; code.events.segments.len()],
            ..ProfileTotals::default()
        };
        LaunchProfiler { code, step, touched, sums: Mutex::new(sums) }
    }

    /// Returns the profile of the launch.
    pub fn profile(
        self,
        name: &str,
        extents: &LaunchExtents,
        geometry: &GroupGeometry,
        bindings: &[BoundParam],
    ) -> Profile {
        let sums = self.sums.into_inner().unwrap_or_else(|e| e.into_inner());
        let code = self.code;
        let place = |span: u32| code.source.location(span).0;
        let access = |note: &AccessSite| {
            let access = &code.accesses[note.access as usize];
            let def = &code.memories[access.memory as usize];
            AccessProfile {
                span: place(access.span),
                array: def.name.clone(),
                memory: access.memory as usize,
                shared: def.kind == MemoryKind::Shared,
                access_kind: match note.kind {
                    AccessKind::Load => AccessKind::Load,
                    AccessKind::Store => AccessKind::Store,
                    AccessKind::AtomicRmw | AccessKind::AtomicLoad => AccessKind::AtomicRmw,
                },
                offset: access.offset,
                element: def.layout.size as u32,
                size: (access.scalar.size() * usize::from(note.components.max(1))) as u32,
                cost: sums.costs.get(note.access as usize).copied().unwrap_or_default(),
            }
        };
        let traffic = |(def, touched): (&super::code::MemoryDef, &Option<[SectorSet; 2]>)| {
            let [read, written] = touched.as_ref()?;
            let MemoryKind::Global(param) = def.kind else { return None };
            let Some(BoundParam::Array { len, .. }) = bindings.get(param as usize) else { return None };
            let (read, written) = (read.count(), written.count());
            Some(ArrayTraffic { name: def.name.clone(), bytes: *len as u64, read, written })
        };
        let segments = code.events.segments.iter().zip(&sums.times);
        let segments = segments.map(|(def, &[warps, lanes, parted])| clk_runtime::profile::StraightLineSegment {
            warps,
            lanes,
            divergent_warps: parted,
            ..def.clone()
        });
        let (threads, warps) = size(extents, code);
        Profile {
            kernel: name.to_string(),
            span: code.source.kernel_span(),
            extents: *extents,
            launches: 1,
            threads,
            warps,
            sampled: (self.step > 1).then(|| sums.groups as f64 / geometry.groups.max(1) as f64),
            tiled: false,
            product: None,
            accesses: code.events.access_sites.iter().map(access).collect(),
            segments: segments.collect(),
            arrays: code.memories.iter().zip(&self.touched).filter_map(traffic).collect(),
            min_group_sectors: sums.min_group_sectors,
            shared: super::shared_memory::shared_bytes(&code.memories) as u64,
            trials: vec![],
            of: CostCounting::Kernel,
        }
    }
}

/// Returns the number of threads and of warps in a launch.
fn size(extents: &LaunchExtents, code: &KernelTables) -> (u64, u64) {
    let all = |n: &[u32; 3]| n.iter().map(|&n| u64::from(n)).product::<u64>();
    match extents {
        LaunchExtents::Grid { grid, block } => (all(grid) * all(block), all(grid) * all(block).div_ceil(32)),
        LaunchExtents::Threads(n) => {
            let rank = usize::from(code.properties.threads.unwrap_or(1)).clamp(1, 3);
            let [width, height] = code.events.counted_warps.unwrap_or([32, 1]);
            let axis = |k: usize| if k < rank { n[rank - 1 - k] } else { 1 };
            let warps = u64::from(axis(0).div_ceil(width)) * u64::from(axis(1).div_ceil(height)) * u64::from(axis(2));
            (all(n), if all(n) == 0 { 0 } else { warps })
        }
    }
}

/// The profiler of one worker.
pub(crate) struct WorkerProfiler<'a> {
    tally: &'a LaunchProfiler<'a>,
    sums: ProfileTotals,
    /// Set if the current group is counted.
    counts: bool,
    /// For each lane, its warp and its position in the warp (`warps`), for groups of shape `shape`.
    shape: [usize; 4],
    warps: Vec<(u32, u8)>,
    /// For each warp of the group: the number of active lanes, and whether some of its lanes are inactive.
    present: Vec<(u32, bool)>,
    /// For each access and lane: 1 plus the byte offset of the lane's previous execution of the access in this group; 0
    /// if there is none.
    last: Vec<Vec<usize>>,
    /// The sectors that the group has read, as pairs of memory and sector.
    read: FxHashSet<(u32, usize)>,
    lanes: Vec<ActiveLane>,
}

impl<'a> WorkerProfiler<'a> {
    pub fn new(tally: &'a LaunchProfiler<'a>) -> WorkerProfiler<'a> {
        let code = tally.code;
        let sums = ProfileTotals {
            costs: vec![AccessCost::default(); code.accesses.len()],
            times: vec![[0; 3]; code.events.segments.len()],
            ..ProfileTotals::default()
        };
        WorkerProfiler {
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

    /// Prepares to count group `number`.
    pub fn begin(&mut self, number: u64) {
        self.counts = number.is_multiple_of(self.tally.step);
        self.sums.groups += u64::from(self.counts);
        self.read.clear();
        self.last.iter_mut().for_each(Vec::clear);
    }

    /// Computes the warp of each lane of a group.
    fn compute_warps(&mut self, shape: &GroupShape) {
        if self.shape == shape.extents && self.warps.len() == shape.lanes {
            return;
        }
        let (code, tile) = (self.tally.code, self.tally.code.events.counted_warps.unwrap_or([32, 1]));
        let of = |lane| {
            let (warp, at) =
                geometry::warp_and_lane(shape.extents, shape.coordinates(lane), code.properties.threads.map(|_| tile));
            (warp as u32, at as u8)
        };
        (self.shape, self.warps) = (shape.extents, (0..shape.lanes).map(of).collect());
        let count = self.warps.iter().map(|(warp, _)| *warp as usize + 1).max().unwrap_or(0);
        let is_used = |warp: &u32| self.warps.iter().any(|(own, _)| own == warp);
        debug_assert!((0..count as u32).all(|warp| is_used(&warp)), "the warps of a group are numbered from 0 on");
        self.present = vec![(0, false); count];
    }

    /// Counts the costs of an access by the active lanes.
    ///
    /// # Safety
    /// The access site belongs to the group's code and is not one of a local array.
    unsafe fn count(&mut self, g: &ThreadGroup, note: &AccessSite) {
        let number = note.access as usize;
        let access = &self.tally.code.accesses[number];
        let mut lanes = std::mem::take(&mut self.lanes);
        lanes.clear();
        // SAFETY: C5: the access and its memory belong to the code. Active lanes exist (G2).
        let start = unsafe { (*g.memories.add(access.memory as usize)).ptr } as usize;
        let last = &mut self.last[number];
        last.resize(g.shape.lanes, 0);
        let mut repeated = 0;
        for lane in g.active() {
            // SAFETY: as above.
            let Some(addr) = (unsafe { memory::address(g, access, lane) }) else { continue };
            let at = addr as usize - start;
            repeated += u64::from(last[lane] == at + 1);
            last[lane] = at + 1;
            let (warp, place) = self.warps[lane];
            lanes.push(ActiveLane { warp, place, at });
        }
        if !lanes.is_sorted_by_key(|lane| (lane.warp, lane.place)) {
            lanes.sort_unstable_by_key(|lane| (lane.warp, lane.place));
        }
        self.sums.costs[number].repeated += repeated;
        let shared = self.tally.code.memories[access.memory as usize].kind == MemoryKind::Shared;
        for warp in lanes.chunk_by(|a, b| a.warp == b.warp) {
            let warp = WarpLanes { lanes: warp, scalar: access.scalar, components: note.components };
            let touched = |spots: &[LaneAddress], size: i128| {
                self.tally.record_sectors(&mut self.read, access.memory, note, spots, size)
            };
            let (cost, fetched) = match shared {
                true => (warp.shared(note.kind.is_atomic()), 0),
                false => warp.global(note.kind.is_atomic(), touched),
            };
            self.sums.costs[number].add(&cost);
            self.sums.min_group_sectors += fetched;
        }
        self.lanes = lanes;
    }
}

impl LaunchProfiler<'_> {
    /// Records the sectors that a warp accesses, and returns how many of them have to be transferred. Sectors that its
    /// group has already read are not transferred again for a load.
    fn record_sectors(
        &self,
        read: &mut FxHashSet<(u32, usize)>,
        memory: u32,
        note: &AccessSite,
        spots: &[LaneAddress],
        size: i128,
    ) -> u64 {
        let mut moved = 0;
        for (_, sector) in clk_ir::memory_transactions::touched_sectors(spots, size) {
            let sector = sector as usize;
            if let Some([loads, stores]) = &self.touched[memory as usize] {
                if note.kind != AccessKind::Store {
                    loads.set(sector);
                }
                if note.kind != AccessKind::Load {
                    stores.set(sector);
                }
            }
            moved += match note.kind {
                AccessKind::Load => u64::from(read.insert((memory, sector))),
                _ => 1,
            };
        }
        moved
    }
}

impl Drop for WorkerProfiler<'_> {
    fn drop(&mut self) {
        let mut all = self.tally.sums.lock().unwrap_or_else(|e| e.into_inner());
        for (sum, own) in all.costs.iter_mut().zip(&self.sums.costs) {
            sum.add(own);
        }
        for (sum, own) in all.times.iter_mut().zip(&self.sums.times) {
            sum.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
        }
        all.min_group_sectors += self.sums.min_group_sectors;
        all.groups += self.sums.groups;
    }
}

impl GroupObserver for WorkerProfiler<'_> {
    unsafe fn on_access(&mut self, g: &mut ThreadGroup, note: &AccessSite) {
        if self.counts {
            self.compute_warps(&g.shape);
            // SAFETY: C4: the op's access site belongs to the code, and accesses to local arrays have no access sites.
            unsafe { self.count(g, note) };
        }
    }

    unsafe fn on_segment(&mut self, g: &mut ThreadGroup, segment: u32, from: MaskId) {
        if !self.counts {
            return;
        }
        self.compute_warps(&g.shape);
        let Some(times) = self.sums.times.get_mut(segment as usize) else { return };
        if g.mask.full {
            times[0] += self.present.len() as u64;
            times[1] += g.shape.lanes as u64;
            return;
        }
        self.present.iter_mut().for_each(|warp| *warp = (0, false));
        for lane in g.active() {
            self.present[self.warps[lane].0 as usize].0 += 1;
        }
        let code = self.tally.code;
        if code.events.segments.get(segment as usize).is_some_and(|segment| segment.branch.is_some()) {
            for lane in (0..g.shape.lanes).filter(|&lane| g.mask_contains(from, lane) && !g.is_active(lane)) {
                self.present[self.warps[lane].0 as usize].1 = true;
            }
        }
        for &(lanes, missing) in self.present.iter().filter(|(lanes, _)| *lanes > 0) {
            times[0] += 1;
            times[1] += u64::from(lanes);
            times[2] += u64::from(missing);
        }
    }

    unsafe fn on_loop_loads(
        &mut self,
        _: &mut ThreadGroup,
        _: &AccessSite,
        _: &AddressRun,
        _: usize,
        _: isize,
    ) -> bool {
        false
    }

    unsafe fn on_tree_reduction(&mut self, _: &mut ThreadGroup, _: &[AccessSite], _: usize) -> bool {
        false
    }

    unsafe fn on_local_declaration(&mut self, _: &mut ThreadGroup, _: u32) {}

    fn on_block_barrier(&mut self, _: &mut ThreadGroup) {}

    fn on_warp_barrier(&mut self, _: &mut ThreadGroup) {}

    fn on_fence(&mut self, _: &mut ThreadGroup, _: FenceScope) {}

    unsafe fn on_divergence(&mut self, _: &mut ThreadGroup, _: MaskId, _: u32, _: bool) {}

    fn on_exit(&mut self, _: &mut ThreadGroup, _: u32) {}

    fn on_loop_entry(&mut self, _: &mut ThreadGroup) {}

    fn on_poll(&mut self, _: &mut ThreadGroup, _: &PollingLoopDef) {}

    fn describe_wait(&self, _: &ThreadGroup) -> Option<String> {
        None
    }

    fn divergence_of(&self, _: usize) -> Option<u32> {
        None
    }

    unsafe fn check_region_accesses(
        &mut self,
        _: &mut ThreadGroup,
        _: usize,
        _: &[u64],
        _: &dyn Fn(&mut ThreadGroup) -> Vec<RegionAccess>,
    ) -> bool {
        false
    }

    unsafe fn check_batch(&mut self, _: &mut ThreadGroup, _: &LaneAddresses<'_>) -> AccessFacts {
        AccessFacts::Unknown
    }

    fn is_race_free(&self, _: u32) -> bool {
        false
    }

    fn init_marks(&mut self, _: u32, _: usize) -> Option<(*mut u8, u8)> {
        None
    }
}

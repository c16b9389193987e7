//! The minimum time of a launch on a GPU: the roofline model (Williams, Waterman and Patterson 2009).
//!
//! Input: the counts of a launch, and a GPU. Output: the time that each resource needs; the largest one is the bound.
//! Each time is a count divided by a peak rate, so it is a lower bound: it assumes that the resource is never idle.

use super::gpus::{ACHIEVED_BANDWIDTH, GpuModel};
use clk_runtime::LaunchExtents;
use clk_runtime::profile::{AccessKind, OpCounts, Profile};

/// A resource that a launch needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// GPU memory: each sector of an array is transferred once.
    Memory,
    /// The L2 cache: each block fetches each sector that it reads only once.
    Cache,
    /// The L1 caches: each processes one 128-byte line of a request per clock.
    Requests,
    Shared,
    Atomics,
    /// Instruction issue: four instructions per clock and multiprocessor.
    Instructions,
    F64,
    F32,
    Integers,
    Special,
    /// The overhead of a launch.
    Launch,
}

impl Resource {
    pub fn name(self) -> &'static str {
        match self {
            Resource::Memory => "memory",
            Resource::Cache => "second-level cache",
            Resource::Requests => "requests to memory",
            Resource::Shared => "shared memory",
            Resource::Atomics => "atomic operations",
            Resource::Instructions => "instructions",
            Resource::F64 => "f64 arithmetic",
            Resource::F32 => "f32 arithmetic",
            Resource::Integers => "integer arithmetic",
            Resource::Special => "special functions",
            Resource::Launch => "the launch",
        }
    }
}

/// The minimum time of a launch for each resource, the largest first.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceTimes {
    pub seconds: f64,
    pub parts: Vec<(Resource, f64)>,
}

/// The minimum time of any launch, in seconds.
const MIN_LAUNCH_SECONDS: f64 = 2e-6;
/// The number of atomic operations on global memory per clock, for the whole GPU.
const ATOMICS_PER_CLOCK: f64 = 64.0;
/// The assumed number of threads per block of a kernel over an index space.
pub(crate) const DEFAULT_BLOCK_THREADS: u64 = 256;

/// Returns the number of blocks of a launch, and the number of threads per block.
pub fn block_counts(profile: &Profile) -> (u64, u64) {
    match profile.extents {
        LaunchExtents::Grid { grid, block } => {
            let all = |n: [u32; 3]| n.iter().map(|&n| u64::from(n)).product::<u64>();
            (all(grid), all(block))
        }
        LaunchExtents::Threads(_) => {
            (profile.threads.div_ceil(DEFAULT_BLOCK_THREADS), DEFAULT_BLOCK_THREADS.min(profile.threads))
        }
    }
}

/// Returns the number of warp instructions of each kind, summed over all warps.
fn total_work(profile: &Profile) -> OpCounts {
    let mut all = OpCounts::default();
    for segment in &profile.segments {
        segment.work.iter().for_each(|(_, total_work)| all.add(total_work, segment.warps));
    }
    all
}

/// Returns the minimum time of one launch.
pub fn roofline(profile: &Profile, gpu: &GpuModel) -> ResourceTimes {
    let launches = profile.launches.max(1) as f64;
    // If only a sample of the threads was counted, `scale` extrapolates to the whole launch.
    let scale = 1.0 / (launches * profile.sampled.filter(|part| *part > 0.0).unwrap_or(1.0));
    let sum =
        |of: &dyn Fn(&clk_runtime::profile::AccessProfile) -> u64| profile.accesses.iter().map(of).sum::<u64>() as f64;
    let sectors = |array: &clk_runtime::profile::ArrayTraffic| {
        let all = array.bytes.div_ceil(32) as f64;
        let part = profile.sampled.filter(|part| *part > 0.0).unwrap_or(1.0);
        (array.read as f64 / part).min(all) + (array.written as f64 / part).min(all)
    };
    let bytes = 32.0 * profile.arrays.iter().map(sectors).sum::<f64>();
    // If the arrays fit in the cache, they may still be in it from an earlier launch, so the cache's rate is the bound.
    let cached = bytes < gpu.cache as f64 / 2.0;
    let rate = if cached { gpu.cache_rate } else { gpu.memory * ACHIEVED_BANDWIDTH };
    let busy = f64::from(gpu.units).min(block_counts(profile).0.max(1) as f64) * gpu.clock;
    let work = total_work(profile);
    let lanes = |count: u64, a_clock: u32| count as f64 * 32.0 * scale / (f64::from(a_clock) * busy);
    let limits = gpu.limits;
    let atomics = |access: &clk_runtime::profile::AccessProfile| match access.access_kind {
        AccessKind::AtomicRmw if !access.shared => access.cost.lanes,
        _ => 0,
    };
    let mut parts = vec![
        (Resource::Memory, bytes / rate),
        (Resource::Cache, 32.0 * profile.min_group_sectors as f64 * scale / gpu.cache_rate),
        (Resource::Requests, sum(&|access| access.cost.lines) * scale / busy),
        (Resource::Shared, sum(&|access| access.cost.passes) * scale / busy),
        (Resource::Atomics, sum(&atomics) * scale / (ATOMICS_PER_CLOCK * gpu.clock)),
        (Resource::Instructions, work.instructions as f64 * scale / (4.0 * busy)),
        (Resource::F64, lanes(work.f64, limits.f64)),
        (Resource::F32, lanes(work.f32 + work.f16, limits.f32)),
        (Resource::Integers, lanes(work.int, limits.int)),
        (Resource::Special, lanes(work.special, limits.special)),
        (Resource::Launch, MIN_LAUNCH_SECONDS),
    ];
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let seconds = parts.first().map_or(0.0, |(_, seconds)| *seconds);
    ResourceTimes { seconds, parts }
}

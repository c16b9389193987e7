//! The time that a launch takes at least on a GPU: the roofline.
//!
//! Input: the counts of a launch and a GPU. Output: for each resource the time that it needs, of which the largest is the bound. Each is a
//! quotient of a count and a rate, as if nothing ever waited: a launch can take longer, and by these counts it cannot take less.

use super::devices::{Gpu, REACHED};
use crate::device::Extents;
use crate::device::profile::{Deed, Profile, Work};

/// What a launch needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Memory of the GPU: each sector of an array once.
    Memory,
    /// The second-level cache, from which each block fetches what it reads, once.
    Cache,
    /// The first-level caches: a line of 128 bytes of a request in a clock.
    Requests,
    Shared,
    Atomics,
    /// Instructions: four in a clock.
    Instructions,
    F64,
    F32,
    Integers,
    Special,
    /// The launch itself.
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

/// The time of a launch, by resource, the largest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    pub seconds: f64,
    pub parts: Vec<(Resource, f64)>,
}

/// Seconds in which no launch ends.
const LAUNCH: f64 = 2e-6;
/// Atomic operations on global memory in a clock, of the whole GPU.
const ATOMICS: f64 = 64.0;
/// Threads of a block of a kernel over an index space.
pub(crate) const BLOCK: u64 = 256;

/// Returns the number of blocks of a launch, and the threads of one.
pub fn blocks(profile: &Profile) -> (u64, u64) {
    match profile.extents {
        Extents::Grid { grid, block } => {
            let all = |n: [u32; 3]| n.iter().map(|&n| u64::from(n)).product::<u64>();
            (all(grid), all(block))
        }
        Extents::Threads(_) => (profile.threads.div_ceil(BLOCK), BLOCK.min(profile.threads)),
    }
}

/// Returns the work of all warps, in instructions of warps.
fn work(profile: &Profile) -> Work {
    let mut all = Work::default();
    for segment in &profile.segments {
        segment.work.iter().for_each(|(_, work)| all.add(work, segment.warps));
    }
    all
}

/// Returns the time that one launch takes at least.
pub fn bound(profile: &Profile, gpu: &Gpu) -> Bound {
    let launches = profile.launches.max(1) as f64;
    // Counts of a sample stand for all.
    let scale = 1.0 / (launches * profile.sampled.filter(|part| *part > 0.0).unwrap_or(1.0));
    let sum = |of: &dyn Fn(&crate::device::profile::Access) -> u64| profile.accesses.iter().map(of).sum::<u64>() as f64;
    let sectors = |array: &crate::device::profile::Traffic| {
        let all = array.bytes.div_ceil(32) as f64;
        let part = profile.sampled.filter(|part| *part > 0.0).unwrap_or(1.0);
        (array.read as f64 / part).min(all) + (array.written as f64 / part).min(all)
    };
    let bytes = 32.0 * profile.arrays.iter().map(sectors).sum::<f64>();
    // What fits the cache may have been left there.
    let cached = bytes < gpu.cache as f64 / 2.0;
    let rate = if cached { gpu.cache_rate } else { gpu.memory * REACHED };
    let busy = f64::from(gpu.units).min(blocks(profile).0.max(1) as f64) * gpu.clock;
    let work = work(profile);
    let lanes = |count: u64, a_clock: u32| count as f64 * 32.0 * scale / (f64::from(a_clock) * busy);
    let limits = gpu.limits;
    let atomics = |access: &crate::device::profile::Access| match access.deed {
        Deed::Atomic if !access.shared => access.cost.lanes,
        _ => 0,
    };
    let mut parts = vec![
        (Resource::Memory, bytes / rate),
        (Resource::Cache, 32.0 * profile.fetched as f64 * scale / gpu.cache_rate),
        (Resource::Requests, sum(&|access| access.cost.lines) * scale / busy),
        (Resource::Shared, sum(&|access| access.cost.passes) * scale / busy),
        (Resource::Atomics, sum(&atomics) * scale / (ATOMICS * gpu.clock)),
        (Resource::Instructions, work.instructions as f64 * scale / (4.0 * busy)),
        (Resource::F64, lanes(work.f64, limits.f64)),
        (Resource::F32, lanes(work.f32 + work.f16, limits.f32)),
        (Resource::Integers, lanes(work.int, limits.int)),
        (Resource::Special, lanes(work.special, limits.special)),
        (Resource::Launch, LAUNCH),
    ];
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let seconds = parts.first().map_or(0.0, |(_, seconds)| *seconds);
    Bound { seconds, parts }
}

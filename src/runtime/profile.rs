//! The cost of launches on a GPU, as counted by the simulator: accesses and operations by source location.
//!
//! Input: the counts of each launch. Output: sums over the launches of a kernel with the same extents. Costs are
//! counted per warp ([`warps`](clk_ir::memory_transactions)): 32 threads with consecutive linear indices. A warp
//! executes an instruction if at least one of its threads is active. A kernel that computes an array expression has no
//! source of its own: its cost is attributed to the location of the launch ([`LaunchConfig::span`]), the script's
//! expression.
//!
//! [`LaunchConfig::span`]: super::LaunchConfig::span

use std::sync::{Arc, Mutex};

use super::extents::LaunchExtents;
use clk_base::source::Span;
pub use clk_ir::{AccessKind, CostCounting};

/// The costs of an access, summed over the warps that made it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessCost {
    /// Number of memory instructions that warps executed. A vector access may take several instructions.
    pub requests: u64,
    /// Number of active threads, summed over these instructions.
    pub lanes: u64,
    /// Number of distinct bytes that each warp accessed, summed over the warps.
    pub used: u64,
    /// For global memory: number of 32-byte sectors accessed.
    pub sectors: u64,
    /// For global memory: the minimum number of sectors that can hold these bytes.
    pub fewest: u64,
    /// For global memory: number of 128-byte cache lines accessed.
    pub lines: u64,
    /// For shared memory: number of passes over the banks.
    pub passes: u64,
    /// For shared memory: the minimum number of passes for that number of threads.
    pub least: u64,
    /// For atomic operations: the largest number of threads of a warp that update the same element.
    pub atomic_contention: u64,
    /// How often a thread accessed the same element as in its previous execution of this access.
    pub repeated: u64,
    /// The distance in bytes between the accesses of neighboring threads, taken from the first warp in which it is
    /// constant. 0 if there is no such warp.
    pub stride: i64,
}

impl AccessCost {
    pub fn add(&mut self, other: &AccessCost) {
        self.requests += other.requests;
        self.lanes += other.lanes;
        self.used += other.used;
        self.sectors += other.sectors;
        self.fewest += other.fewest;
        self.lines += other.lines;
        self.passes += other.passes;
        self.least += other.least;
        self.atomic_contention += other.atomic_contention;
        self.repeated += other.repeated;
        if self.stride == 0 {
            self.stride = other.stride;
        }
    }
}

/// The cost of one access site of a kernel.
#[derive(Clone, Debug)]
pub struct AccessProfile {
    pub span: Span,
    pub array: String,
    /// Index of the accessed array in the kernel's list of arrays.
    pub memory: usize,
    pub shared: bool,
    pub access_kind: AccessKind,
    /// Number of bytes that each thread accesses.
    pub size: u32,
    /// Byte offset of the access in the element.
    pub offset: u32,
    /// Size of the element in bytes.
    pub element: u32,
    pub cost: AccessCost,
}

/// Number of operations of one thread, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpCounts {
    /// Floating-point operations. A fused multiply-add counts as two.
    pub f64: u64,
    pub f32: u64,
    pub f16: u64,
    /// Square roots, reciprocals and other functions that GPUs compute in their special function unit.
    pub special: u64,
    /// Operations on integers, comparisons and conversions.
    pub int: u64,
    /// Estimated number of instructions, including memory accesses.
    pub instructions: u64,
}

impl OpCounts {
    pub fn add(&mut self, other: &OpCounts, times: u64) {
        self.f64 += other.f64 * times;
        self.f32 += other.f32 * times;
        self.f16 += other.f16 * times;
        self.special += other.special * times;
        self.int += other.int * times;
        self.instructions += other.instructions * times;
    }

    /// Returns the number of floating-point operations of all types.
    pub fn flops(&self) -> u64 {
        self.f64 + self.f32 + self.f16
    }
}

/// The condition of a branch or a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    pub span: Span,
    pub is_loop: bool,
    /// Whether the statement is a loop with a counter.
    pub counts: bool,
    /// Index of the segment that ends with this condition.
    pub parent: Option<u32>,
}

/// Consecutive statements without branches, which the same threads execute.
#[derive(Clone, Debug, Default)]
pub struct StraightLineSegment {
    /// The number of operations per thread, by source location.
    pub work: Vec<(Span, OpCounts)>,
    /// Set if the segment begins a branch or a loop body.
    pub branch: Option<Branch>,
    /// Index of the first segment of the enclosing block.
    pub head: Option<u32>,
    /// Number of warps that executed the segment with at least one active thread.
    pub warps: u64,
    pub lanes: u64,
    /// Number of executions of the condition by warps in which only some threads entered the branch or stayed in the
    /// loop.
    pub divergent_warps: u64,
}

/// Memory traffic of one array argument of a launch.
#[derive(Clone, Debug)]
pub struct ArrayTraffic {
    pub name: String,
    /// Size of the array in bytes.
    pub bytes: u64,
    /// Number of distinct 32-byte sectors read.
    pub read: u64,
    /// Number of distinct 32-byte sectors written.
    pub written: u64,
}

/// A change of a kernel that preserves its results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayoutChange {
    /// Swaps two indices of a `threads` kernel, given by their positions.
    Swap(u8, u8),
    /// Pads a shared array by adding 1 to its last extent. The fields are the index of the array and its original last
    /// extent.
    Pad(usize, u32),
}

/// The effect of a change, measured by running the same launch with the changed kernel.
#[derive(Clone, Debug)]
pub struct ChangeTrial {
    pub change: LayoutChange,
    /// Total numbers of global-memory sectors and shared-memory passes without the change.
    pub before: (u64, u64),
    /// Total numbers of global-memory sectors and shared-memory passes with the change.
    pub after: (u64, u64),
    pub accesses: Vec<AccessProfile>,
    /// Whether the final contents of all arrays were bit-identical with and without the change.
    pub same: bool,
}

/// A loop in which each thread computes one element of a matrix product: the dot product of a row and a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProductLoop {
    pub span: Span,
    /// The two factors of the product in source syntax.
    pub left: String,
    pub right: String,
}

/// The costs of all launches of one kernel with the same extents.
#[derive(Clone, Debug)]
pub struct Profile {
    pub kernel: String,
    pub span: Span,
    pub extents: LaunchExtents,
    pub launches: u64,
    /// Number of threads of one launch.
    pub threads: u64,
    /// Number of warps of one launch.
    pub warps: u64,
    /// The fraction of thread groups that was counted, or `None` if all were. The counts cover only that fraction.
    pub sampled: Option<f64>,
    /// Whether the kernel contains tile products, which GPUs with tensor cores compute differently.
    pub tiled: bool,
    pub product: Option<ProductLoop>,
    pub accesses: Vec<AccessProfile>,
    pub segments: Vec<StraightLineSegment>,
    /// The array arguments of the first launch.
    pub arrays: Vec<ArrayTraffic>,
    /// Minimum number of sectors that all thread groups together read or write, if each group reads a sector only once.
    pub min_group_sectors: u64,
    /// Shared memory per block, in bytes.
    pub shared: u64,
    pub trials: Vec<ChangeTrial>,
    /// Whether the kernel is named in the source or computes an array expression. In the latter case, all locations are
    /// the location of the expression.
    pub of: CostCounting,
}

impl Profile {
    /// Returns whether another profile is of the same kernel with the same extents.
    fn is_same_launch(&self, other: &Profile) -> bool {
        (self.kernel.as_str(), self.span, self.extents) == (other.kernel.as_str(), other.span, other.extents)
            && self.accesses.len() == other.accesses.len()
            && self.segments.len() == other.segments.len()
    }

    /// Attributes all counts to the expression at this location.
    pub fn set_location(&mut self, place: Span) {
        self.span = place;
        self.accesses.iter_mut().for_each(|access| access.span = place);
        for segment in &mut self.segments {
            segment.work.iter_mut().for_each(|(span, _)| *span = place);
            segment.branch.iter_mut().for_each(|branch| branch.span = place);
        }
    }

    fn add(&mut self, other: &Profile) {
        self.launches += other.launches;
        self.min_group_sectors += other.min_group_sectors;
        for (own, new) in self.accesses.iter_mut().zip(&other.accesses) {
            own.cost.add(&new.cost);
        }
        for (own, new) in self.segments.iter_mut().zip(&other.segments) {
            own.warps += new.warps;
            own.lanes += new.lanes;
            own.divergent_warps += new.divergent_warps;
        }
    }

    /// Returns the total number of sectors and of passes.
    pub fn totals(&self) -> (u64, u64) {
        let of = |access: &AccessProfile| (access.cost.sectors, access.cost.passes);
        self.accesses.iter().map(of).fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    }
}

/// Counts the costs of launches: the options for counting, and the resulting profiles.
#[derive(Clone, Debug, Default)]
pub struct ProfileCollector {
    /// Approximate limit on the number of thread groups counted per launch.
    pub blocks: Option<u64>,
    /// Whether array expressions are counted too, with the kernels that a GPU would run for them.
    pub expressions: bool,
    found: Arc<Mutex<Vec<Profile>>>,
}

impl ProfileCollector {
    /// Creates a collector that counts approximately `blocks` thread groups of each launch, or all groups if `None`.
    pub fn of(blocks: Option<u64>) -> ProfileCollector {
        ProfileCollector { blocks, ..ProfileCollector::default() }
    }

    /// Sets whether array expressions are counted.
    pub fn with_expressions(self, expressions: bool) -> ProfileCollector {
        ProfileCollector { expressions, ..self }
    }

    /// Returns whether this kernel has been profiled with these extents.
    pub fn has_profile(&self, kernel: &str, span: Span, extents: LaunchExtents) -> bool {
        self.lock().iter().any(|old| old.kernel == kernel && old.span == span && old.extents == extents)
    }

    pub fn add(&self, new: Profile) {
        let mut profiles = self.lock();
        match profiles.iter_mut().find(|old| old.is_same_launch(&new)) {
            Some(old) => old.add(&new),
            None => profiles.push(new),
        }
    }

    /// Removes and returns all profiles, ordered by first launch.
    pub fn take(&self) -> Vec<Profile> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Profile>> {
        self.found.lock().unwrap_or_else(|e| e.into_inner())
    }
}

//! What launches cost a GPU, as the simulator counts it: accesses and work by place in the source.
//!
//! Input: the counts of one launch after the other. Output: sums of launches of one kernel with the same extents. The unit is the warp: 32
//! threads that are adjacent in the order of the linear thread index ([`warps`](crate::ir::warps)), which execute an instruction together
//! while at least one of them takes part.
//!
//! A kernel that computes an array expression has no source of its own. What it costs belongs to the expression that the thread evaluates
//! when it launches it ([`standing_at`]).

use std::cell::Cell;
use std::sync::{Arc, Mutex};

use super::extents::Extents;
use crate::base::source::{FileId, Span};
pub use crate::ir::Counted;

thread_local! {
    /// The expression that is evaluated.
    static PLACE: Cell<Span> = const { Cell::new(Span { file: FileId(0), start: 0, end: 0 }) };
}

/// While it lives, what is launched for array expressions belongs to a place; before it, to the one that did so.
#[must_use]
pub struct Standing(Span);

/// Says which expression is evaluated from now on.
pub fn standing_at(span: Span) -> Standing {
    Standing(PLACE.replace(span))
}

/// Returns the expression that is evaluated; the default span if nobody has said so.
pub fn place() -> Span {
    PLACE.get()
}

impl Drop for Standing {
    fn drop(&mut self) {
        PLACE.set(self.0);
    }
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Deed {
    Load,
    Store,
    Atomic,
}

/// The costs of an access, summed over the warps that made it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Instructions of warps. A vector that takes more than one is counted so often.
    pub requests: u64,
    /// Threads that took part.
    pub lanes: u64,
    /// Different bytes that the warps asked for.
    pub used: u64,
    /// Global memory: sectors of 32 bytes, the fewest that could hold these bytes, and lines of 128 bytes.
    pub sectors: u64,
    pub fewest: u64,
    pub lines: u64,
    /// Shared memory: passes over the banks, and the fewest for as many threads.
    pub passes: u64,
    pub least: u64,
    /// Atomic operations: the largest number of threads of a warp at one element.
    pub crowd: u64,
    /// Threads whose element was the one of their previous execution of this access.
    pub repeated: u64,
    /// The bytes from a thread to the next one of its warp, where that is the same for all, in the first such warp; 0 else.
    pub stride: i64,
}

impl Cost {
    pub fn add(&mut self, other: &Cost) {
        self.requests += other.requests;
        self.lanes += other.lanes;
        self.used += other.used;
        self.sectors += other.sectors;
        self.fewest += other.fewest;
        self.lines += other.lines;
        self.passes += other.passes;
        self.least += other.least;
        self.crowd += other.crowd;
        self.repeated += other.repeated;
        if self.stride == 0 {
            self.stride = other.stride;
        }
    }
}

/// An access in the source.
#[derive(Clone, Debug)]
pub struct Access {
    pub span: Span,
    pub array: String,
    /// The number of the array among those of the kernel.
    pub memory: usize,
    pub shared: bool,
    pub deed: Deed,
    /// Bytes of one thread, where they begin in the element, and the bytes of the element.
    pub size: u32,
    pub offset: u32,
    pub element: u32,
    pub cost: Cost,
}

/// Operations of one thread, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Operations on floats; a fused multiply-add is two.
    pub f64: u64,
    pub f32: u64,
    pub f16: u64,
    /// Roots, reciprocals and functions that take a special unit.
    pub special: u64,
    /// Operations on integers, comparisons and conversions.
    pub int: u64,
    /// An estimate of the instructions, accesses to memory included.
    pub instructions: u64,
}

impl Work {
    pub fn add(&mut self, other: &Work, times: u64) {
        self.f64 += other.f64 * times;
        self.f32 += other.f32 * times;
        self.f16 += other.f16 * times;
        self.special += other.special * times;
        self.int += other.int * times;
        self.instructions += other.instructions * times;
    }

    /// Returns the operations on floats of all kinds.
    pub fn flops(&self) -> u64 {
        self.f64 + self.f32 + self.f16
    }
}

/// The condition of a branch or a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    pub span: Span,
    pub is_loop: bool,
    /// The loop has a counter.
    pub counts: bool,
    /// The number of the segment that it ends.
    pub parent: Option<u32>,
}

/// Statements that are executed one after the other, by the same threads.
#[derive(Clone, Debug, Default)]
pub struct Segment {
    /// What a thread does, by place.
    pub work: Vec<(Span, Work)>,
    /// Where it begins a branch, or the body of a loop.
    pub branch: Option<Branch>,
    /// The first segment of the block that it is in.
    pub head: Option<u32>,
    /// Warps that executed it with at least one thread, and all threads that did.
    pub warps: u64,
    pub lanes: u64,
    /// Warps some of whose threads did not take the branch, or have left the loop.
    pub parted: u64,
}

/// An array of a launch.
#[derive(Clone, Debug)]
pub struct Traffic {
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Different sectors that were read, and that were written.
    pub read: u64,
    pub written: u64,
}

/// A change of a kernel that leaves its results as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Two indices of `threads` are exchanged, by their positions.
    Swap(u8, u8),
    /// The last extent of a shared array grows by one: the number of the array, and the extent that it had.
    Pad(usize, u32),
}

/// What a change would do, from a run of the same launch.
#[derive(Clone, Debug)]
pub struct Trial {
    pub change: Change,
    /// Sectors of global memory and passes of shared memory, of all accesses.
    pub before: (u64, u64),
    pub after: (u64, u64),
    pub accesses: Vec<Access>,
    /// The arrays had the same contents afterwards, to the bit.
    pub same: bool,
}

/// A loop that adds up products of the elements of a row and a column, one result a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Product {
    pub span: Span,
    /// The factors, as a script writes them.
    pub left: String,
    pub right: String,
}

/// The launches of a kernel with the same extents.
#[derive(Clone, Debug)]
pub struct Profile {
    pub kernel: String,
    pub span: Span,
    pub extents: Extents,
    pub launches: u64,
    /// Of one launch.
    pub threads: u64,
    pub warps: u64,
    /// The part of the groups of threads that was counted, where not all were; counts are of these.
    pub sampled: Option<f64>,
    /// Products of tiles are computed some other way on GPUs with tensor cores.
    pub tiled: bool,
    pub product: Option<Product>,
    pub accesses: Vec<Access>,
    pub segments: Vec<Segment>,
    /// Of one launch, the first.
    pub arrays: Vec<Traffic>,
    /// Sectors that groups of threads had to fetch or to write at least, if each group kept what it had read.
    pub fetched: u64,
    /// Bytes of shared memory of a block.
    pub shared: u64,
    pub trials: Vec<Trial>,
    /// All places of an expression are where that is.
    pub of: Counted,
}

impl Profile {
    /// Returns whether another launch is of the same kind.
    fn is_like(&self, other: &Profile) -> bool {
        (self.kernel.as_str(), self.span, self.extents) == (other.kernel.as_str(), other.span, other.extents)
            && self.accesses.len() == other.accesses.len()
            && self.segments.len() == other.segments.len()
    }

    /// Has all that was counted belong to an expression.
    pub(crate) fn move_to(&mut self, place: Span) {
        self.span = place;
        self.accesses.iter_mut().for_each(|access| access.span = place);
        for segment in &mut self.segments {
            segment.work.iter_mut().for_each(|(span, _)| *span = place);
            segment.branch.iter_mut().for_each(|branch| branch.span = place);
        }
    }

    fn add(&mut self, other: &Profile) {
        self.launches += other.launches;
        self.fetched += other.fetched;
        for (own, new) in self.accesses.iter_mut().zip(&other.accesses) {
            own.cost.add(&new.cost);
        }
        for (own, new) in self.segments.iter_mut().zip(&other.segments) {
            own.warps += new.warps;
            own.lanes += new.lanes;
            own.parted += new.parted;
        }
    }

    /// Returns sectors and passes of all accesses.
    pub fn totals(&self) -> (u64, u64) {
        let of = |access: &Access| (access.cost.sectors, access.cost.passes);
        self.accesses.iter().map(of).fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    }
}

/// How launches are counted, and what has been counted.
#[derive(Clone, Debug, Default)]
pub struct Counting {
    /// At most about so many groups of threads of a launch are looked at.
    pub blocks: Option<u64>,
    /// Array expressions are counted, too: as a GPU would compute them.
    pub expressions: bool,
    found: Arc<Mutex<Vec<Profile>>>,
}

impl Counting {
    /// Counts about so many groups of threads of each launch, or all.
    pub fn of(blocks: Option<u64>) -> Counting {
        Counting { blocks, ..Counting::default() }
    }

    /// Counts array expressions, too.
    pub fn with_expressions(self, expressions: bool) -> Counting {
        Counting { expressions, ..self }
    }

    /// Returns whether launches of this kind have been counted.
    pub(crate) fn knows(&self, kernel: &str, span: Span, extents: Extents) -> bool {
        self.lock().iter().any(|old| old.kernel == kernel && old.span == span && old.extents == extents)
    }

    pub(crate) fn add(&self, new: Profile) {
        let mut found = self.lock();
        match found.iter_mut().find(|old| old.is_like(&new)) {
            Some(old) => old.add(&new),
            None => found.push(new),
        }
    }

    /// Returns what has been counted, in the order of the first launches.
    pub fn take(&self) -> Vec<Profile> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Profile>> {
        self.found.lock().unwrap_or_else(|e| e.into_inner())
    }
}

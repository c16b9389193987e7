//! The contract between a kernel's text and whoever launches it: parameters, geometry, shared memory, the fault buffer and
//! the print buffer, and the conditions under which a variant of the text may be used.
//!
//! # Parameters
//! The `extern "C"` function [`CudaKernel::entry`] takes [`CudaKernel::params`] in order, each as CUDA passes it by value:
//! scalars in their own size (a `bool` is one byte), vectors as their lanes in sequence (aligned as `ir::def::Ty::align`),
//! extents as `i32`, pointers as 64-bit addresses. Arrays never overlap: whoever passes one array twice, once of them to be
//! written, makes a copy first.
//!
//! # Variants
//! A text may be *narrow* (offsets of 32 bits; [`is_narrow`](super::is_narrow) says for which launches) or *wide*, may be made for
//! one block shape ([`Options::block`]), and may rely on [`CudaKernel::assumptions`] about extents, which
//! [`CudaKernel::assumptions_hold`] checks for a launch; where they do not hold, a text with `assume: false` guards more.
//!
//! # Fault record ([`KernelArgument::Faults`], [`FAULT_BYTES`] bytes)
//! Little-endian: `u32` place + 1 of the first fault (0: none), `u32` stop word (the host writes 1, and the kernel ends at its
//! next poll), `u32` number of other threads that met a fault at the same place, `u32` number of values, `u32` block x y z,
//! `u32` thread x y z (of `threads` kernels: block 0 and the index tuple, first index first), then the values, `u64` each
//! ([`MAX_FAULT_VALUES`] at most), from byte [`FAULT_VALUES_AT`] on. What the values are, [`Place::kind`] says. Up to here it is
//! zero before a launch. At [`FAULT_NOTICE_AT`] follow what the host wrote there: two addresses (`u64` each, 0 for none) of words
//! that the first thread at fault makes `number`, if it is still 0, and 1; then `u32` number. So that of many launches under way
//! the first to fail leaves its number, and the host sees that there is something to look at.
//!
//! # Print buffer ([`KernelArgument::Prints`])
//! `u32` words used (atomically counted; more than the capacity means that records were lost), `u32` capacity in words of what
//! follows, then records: `u32` words of the record, `u32` position in [`CudaKernel::prints`], `u32` how many the thread
//! printed before, `u32` thread within the block, `u64` block within the grid (low word first), then the values of the
//! message, `u64` each. [`CudaKernel::printed`] turns a buffer into text.
//!
//! # Grid barrier ([`KernelArgument::GridBarrier`])
//! One `u32`, zeroed before a launch, which has to be cooperative.

use crate::base::source::Span;
use crate::ir::def::{ExprId, Ty};
use crate::ir::ranges::{Bound, Summary, Symbol};
use crate::lang::scalar::Value;

/// What the text is made for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// Accesses and divisions that were not proved right are guarded, and report a fault.
    pub checked: bool,
    /// Offsets of 64 bits, and grids of any size.
    pub wide: bool,
    /// The text may rely on [`CudaKernel::assumptions`].
    pub assume: bool,
    /// `a * b + c` may round once.
    pub contract: bool,
    /// Approximate functions and division; subnormals may be flushed.
    pub fast_math: bool,
    /// Loops of unknown length poll the stop word.
    pub stop: bool,
    /// Threads of a `threads` kernel may take several indices each.
    pub coarsen: bool,
    /// The threads of a block along x, y, z, where they are known; of `grid` kernels only.
    pub block: Option<[u32; 3]>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            checked: true,
            wide: false,
            assume: true,
            contract: false,
            fast_math: false,
            stop: false,
            coarsen: true,
            block: None,
        }
    }
}

impl Options {
    /// The options that NVRTC is given beside the architecture.
    pub fn flags(&self) -> Vec<String> {
        let mut flags = vec!["--std=c++17", if self.contract { "--fmad=true" } else { "--fmad=false" }];
        if self.fast_math {
            flags.push("--use_fast_math");
        }
        flags.into_iter().map(str::to_string).collect()
    }
}

/// A parameter of the CUDA function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KernelArgument {
    /// The value parameter at this position of `ir::def::Kernel::params`.
    Value { param: usize, ty: Ty },
    /// The address of the first element of the array parameter at this position.
    Array { param: usize },
    /// `i32`: the extent along an axis of the array parameter at this position.
    Extent { param: usize, axis: usize },
    /// `i32`: the extent of the k-th index of a `threads` kernel.
    IndexExtent { index: usize },
    /// The address of the fault record.
    Faults,
    /// The address of the print buffer.
    Prints,
    /// The address of the grid barrier's counter.
    GridBarrier,
}

/// How many blocks of how many threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Geometry {
    /// As the launch says.
    Grid,
    /// Of a `threads` kernel. All are x, y, z; x belongs to the last index.
    Threads {
        rank: u8,
        block: [u32; 3],
        /// How many indices a block takes along each axis.
        covers: [u32; 3],
    },
}

/// The largest grid along x, y, z.
pub(crate) const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65535, 65535];

/// In a narrow launch no extent and no index is larger.
pub(crate) const NARROW: u64 = 1 << 30;

pub(crate) const MAX_FAULT_VALUES: usize = 32;
pub(crate) const FAULT_VALUES_AT: usize = 40;
/// Where a record says who is to be told.
pub(crate) const FAULT_NOTICE_AT: usize = FAULT_VALUES_AT + 8 * MAX_FAULT_VALUES;
pub(crate) const FAULT_BYTES: usize = FAULT_NOTICE_AT + 24;

/// A piece of a message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    Text(String),
    /// As many values as the type has lanes, and the format behind the colon.
    Value(Ty, String),
}

/// Where a thread may report a fault.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Place {
    pub span: Span,
    pub kind: PlaceKind,
}

/// What may go wrong at a place, and what the values in the fault buffer are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PlaceKind {
    /// Values: the index of each axis (`i64`), then the extent of each axis.
    OutOfBounds {
        array: String,
        rank: usize,
        write: bool,
    },
    /// Values: what was divided, one per lane, then the divisor, one per lane.
    DivisionByZero {
        ty: Ty,
    },
    /// Values: those of the message in order.
    Assert {
        message: Vec<Piece>,
    },
    ZeroStep,
    /// A warp operation among lanes that the thread's own is not one of. Values: the mask, the lane.
    Among {
        what: String,
    },
    /// The stop word was seen.
    Stopped,
}

/// A shared array that is part of dynamic shared memory; each starts at the next multiple of 16 bytes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SharedArray {
    pub name: String,
    pub element: usize,
    pub extents: Vec<Size>,
    pub span: Span,
}

/// An extent that the launch decides.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Size {
    Known(u32),
    /// The value of this expression of the kernel's body.
    Computed(ExprId),
}

/// A kernel as CUDA C++, and how to launch it.
#[derive(Clone, Debug)]
pub struct CudaKernel {
    pub text: String,
    /// The name of the function.
    pub entry: String,
    pub options: Options,
    pub(crate) params: Vec<KernelArgument>,
    pub(crate) geometry: Geometry,
    /// The most threads that a block may have.
    pub max_block: u32,
    /// Bytes of shared memory that the text declares itself.
    pub static_shared: u32,
    /// What dynamic shared memory holds, in order.
    pub(crate) dynamic_shared: Vec<SharedArray>,
    /// The launch has to be cooperative.
    pub cooperative: bool,
    pub(crate) places: Vec<Place>,
    pub(crate) prints: Vec<Vec<Piece>>,
    /// What the text relies on.
    pub(crate) assumptions: Vec<Bound>,
    /// How many accesses and divisions there are, and how many of them are guarded.
    pub(crate) guards: Summary,
    /// What was decided for this kernel, in sentences.
    pub notes: Vec<String>,
}

/// What a launch passes, as far as a text's conditions ask for it.
pub trait LaunchFacts {
    /// The value parameter at this position.
    fn value(&self, param: usize) -> Option<Value>;
    /// The extent of an array parameter.
    fn extent(&self, param: usize, axis: usize) -> Option<u32>;
    /// The rank of an array parameter; `None` if it is none.
    fn rank(&self, param: usize) -> Option<usize>;
    fn extents(&self) -> crate::device::Extents;
}

/// The value of a symbol in a launch.
pub(crate) fn symbol(facts: &dyn LaunchFacts, symbol: Symbol) -> Option<i128> {
    use crate::device::Extents;
    match (symbol, facts.extents()) {
        (Symbol::Extent { param, axis }, _) => facts.extent(param as usize, axis as usize).map(i128::from),
        (Symbol::Param(param), _) => facts.value(param as usize)?.as_integer(),
        (Symbol::Index(k), Extents::Threads(sizes)) => sizes.get(k as usize).copied().map(i128::from),
        (Symbol::BlockDim(axis), Extents::Grid { block, .. }) => block.get(axis as usize).copied().map(i128::from),
        (Symbol::GridDim(axis), Extents::Grid { grid, .. }) => grid.get(axis as usize).copied().map(i128::from),
        (Symbol::Threads(axis), Extents::Grid { grid, block }) => {
            Some(i128::from(*grid.get(axis as usize)?) * i128::from(*block.get(axis as usize)?))
        }
        _ => None,
    }
}

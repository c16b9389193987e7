//! The ABI between a kernel's text and its launcher: parameters, geometry, shared memory, the fault record and the print buffer,
//! and the conditions under which a variant of the text may be used.
//!
//! # Parameters
//! The `extern "C"` function [`CudaKernel::entry`] takes [`CudaKernel::params`] in order, each by value as CUDA passes it:
//! scalars in their own size (a `bool` is one byte), vectors as their lanes in sequence (aligned as `ir::def::Ty::align`),
//! extents as `i32`, pointers as 64-bit addresses. Arrays never overlap: a caller that passes one array twice, at least once to
//! be written, makes a copy first.
//!
//! # Variants
//! A text may be *narrow* (32-bit offsets; [`is_narrow`](super::is_narrow) says for which launches) or *wide*, may be specialized
//! for one block shape ([`Options::block`]), and may rely on [`CudaKernel::assumptions`] about extents, which
//! [`CudaKernel::assumptions_hold`] checks for a launch; where they do not hold, a text with `assume: false` has more guards. It may
//! also be for launches that are as the kernel's signature says ([`Options::declared`]), which the host knows of a launch.
//!
//! # Fault record ([`KernelArgument::Faults`], [`FAULT_BYTES`] bytes)
//! Little-endian: `u32` site + 1 of the first fault (0: none), `u32` stop word (the host writes 1, and the kernel ends at its
//! next poll), `u32` number of other threads that faulted at the same site, `u32` number of values, `u32` block x y z, `u32`
//! thread x y z (of `threads` kernels: block 0 and the index tuple, first index first), then the values, `u64` each
//! ([`MAX_FAULT_VALUES`] at most), from byte [`FAULT_VALUES_AT`] on. [`Place::kind`] defines the meaning of the values. Up to
//! here the record is zero before a launch. At [`FAULT_NOTICE_AT`] follow data that the host wrote: two addresses (`u64` each, 0
//! for none), then `u32` number. The first thread that faults sets the word at the first address to that number, if it is still
//! 0, and the word at the second one to 1. So, of many pending launches, the first to fail leaves its number, and the host is
//! notified.
//!
//! # Print buffer ([`KernelArgument::Prints`])
//! `u32` words used (atomically counted; more than the capacity means that records were lost), `u32` capacity in words of the
//! remainder, then records: `u32` length of the record in words, `u32` position in [`CudaKernel::prints`], `u32` number of
//! earlier messages of the thread, `u32` thread within the block, `u64` block within the grid (low word first), then the values
//! of the message, `u64` each. [`CudaKernel::printed`] formats a buffer.
//!
//! # Products
//! A text with [`Options::product`] is for launches of a kernel that is a product of matrices ([`Geometry::Product`]). Its parameters
//! are those of the kernel that is run for each element, whose index extents are the rows and columns that the launch's blocks compute,
//! and two maps of the factors ([`KernelArgument::Map`]), where it reads them by copies of boxes, or memory for those that it packs first
//! ([`KernelArgument::Packed`]): then all blocks run at the same time, and meet behind that.
//!
//! # Grid barrier ([`KernelArgument::GridBarrier`])
//! One `u32`, zeroed before a launch, which has to be cooperative.

use crate::base::source::Span;
use crate::ir::def::{ExprId, Scalar, TilePart, Ty};
use crate::ir::ranges::{Bound, Summary, Symbol};
use crate::lang::scalar::Value;

/// Code generation options, one set per variant of the text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// Accesses and divisions that were not proved safe are guarded, and report a fault.
    pub checked: bool,
    /// 64-bit offsets, and grids of any size.
    pub wide: bool,
    /// The text may rely on [`CudaKernel::assumptions`].
    pub assume: bool,
    /// The launch is one that the kernel's signature describes, with all that is promised of arrays: what is in bounds in each of
    /// these is not guarded.
    pub declared: bool,
    /// `a * b + c` may be contracted to one rounding.
    pub contract: bool,
    /// Approximate functions and division; subnormals may be flushed to zero.
    pub fast_math: bool,
    /// Loops of unknown trip count poll the stop word.
    pub stop: bool,
    /// Thread coarsening: threads of a `threads` kernel may process several indices each.
    pub coarsen: bool,
    /// The threads of a block along x, y, z, if known; only for `grid` kernels.
    pub block: Option<[u32; 3]>,
    /// The text is one for tensor cores, of a kernel that is a product or a program of tiles, and reads the factors like this.
    pub product: Option<Copies>,
    /// The bytes of shared memory that a block can have, for texts of programs of tiles.
    pub room: u32,
}

/// How a text for tensor cores copies the factors of products to shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Copies {
    /// By boxes: the rows of both factors are multiples of [`BOX_ALIGN`] bytes.
    Boxes,
    /// By elements.
    Elements,
    /// By pieces of 16 bytes, with instructions that all GPUs from sm_80 on have. What is packed, of the first and of the second factor of a
    /// product, is copied before to memory of its own, where it is rounded and its rows are whole pieces. Programs of tiles pack nothing.
    Pieces { packed: [bool; 2] },
}

impl Copies {
    /// Whether factors are packed, to memory of their own.
    pub(crate) fn packs(self) -> bool {
        matches!(self, Copies::Pieces { packed } if packed.contains(&true))
    }

    /// Whether the text is for the tensor cores of sm_90a alone.
    pub(crate) fn is_of_sm90a(self) -> bool {
        !matches!(self, Copies::Pieces { .. })
    }
}

/// Returns the bytes of shared memory that a block can have, by the compute capability of the GPU.
pub fn room_of(architecture: u32) -> u32 {
    match architecture {
        80 | 87 => 163 * 1024,
        90..120 => 227 * 1024,
        _ => 99 * 1024,
    }
}

/// What rows that are copied by boxes or pieces are multiples of, in bytes.
pub(crate) const BOX_ALIGN: u64 = 16;

impl Default for Options {
    fn default() -> Self {
        Options {
            checked: true,
            wide: false,
            assume: true,
            declared: true,
            contract: false,
            fast_math: false,
            stop: false,
            coarsen: true,
            block: None,
            product: None,
            room: room_of(90),
        }
    }
}

impl Options {
    /// Returns the options for NVRTC: besides the architecture, unless the text is for one alone.
    pub fn flags(&self) -> Vec<String> {
        let mut flags = vec!["--std=c++17", if self.contract { "--fmad=true" } else { "--fmad=false" }];
        if self.fast_math {
            flags.push("--use_fast_math");
        }
        if self.product.is_some_and(Copies::is_of_sm90a) {
            // The instructions of its tensor cores are those of this GPU alone.
            flags.push("--gpu-architecture=sm_90a");
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
    /// A map of a factor, the array parameter at this position: 128 bytes that describe its memory to the hardware, for copies of such boxes.
    Map { factor: usize, param: usize, element: Scalar, of_box: OfBox },
    /// The address of memory for a factor, the array parameter at this position, with rows of whole pieces of [`BOX_ALIGN`] bytes.
    Packed { factor: usize, param: usize, element: Scalar },
    /// The address of the fault record.
    Faults,
    /// The address of the print buffer.
    Prints,
    /// The address of the grid barrier's counter.
    GridBarrier,
}

/// The most axes of an array of which boxes are copied.
pub(crate) const MOST_AXES: usize = TilePart::MOST_AXES;

/// What a box has of each axis of an array, the last axis first: so many indices, every `step`-th. Axes beyond those of the array do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfBox {
    pub extents: [u32; MOST_AXES],
    pub steps: [u32; MOST_AXES],
}

impl OfBox {
    /// Returns a box of a matrix.
    pub fn plane(columns: u32, rows: u32) -> OfBox {
        OfBox { extents: [columns, rows, 1, 1, 1], steps: [1; MOST_AXES] }
    }
}

/// The mapping of a launch to blocks and threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Geometry {
    /// As given by the launch.
    Grid,
    /// For a `threads` kernel. All are x, y, z; x belongs to the last index.
    Threads {
        rank: u8,
        block: [u32; 3],
        /// How many indices a block processes along each axis.
        covers: [u32; 3],
    },
    /// For a `grid` kernel that is a product: the blocks of the launch compute tiles of so many rows and columns each, and those of
    /// the text, of so many threads, with so many bytes of dynamic shared memory, as many elements in tiles of their own.
    Product { tile: [u32; 2], own: [u32; 2], threads: u32, shared: u32 },
    /// For a `grid` kernel that is a program of tiles: the blocks of the launch, of so many threads, with so many bytes of dynamic shared
    /// memory.
    Tiles { threads: u32, shared: u32 },
}

/// The largest grid along x, y, z.
pub(crate) const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65535, 65535];

/// The largest extent and index of a narrow launch.
pub(crate) const NARROW: u64 = 1 << 30;

pub(crate) const MAX_FAULT_VALUES: usize = 32;
pub(crate) const FAULT_VALUES_AT: usize = 40;
/// Offset of the host's notification data in a record.
pub(crate) const FAULT_NOTICE_AT: usize = FAULT_VALUES_AT + 8 * MAX_FAULT_VALUES;
pub(crate) const FAULT_BYTES: usize = FAULT_NOTICE_AT + 24;

/// A piece of a message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    Text(String),
    /// As many values as the type has lanes, and the format spec behind the colon.
    Value(Ty, String),
}

/// A site where a thread may report a fault.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Place {
    pub span: Span,
    pub kind: PlaceKind,
}

/// The kind of fault at a site, which defines the values in the fault record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PlaceKind {
    /// Values: the index of each axis (`i64`), then the extent of each axis.
    OutOfBounds {
        array: String,
        rank: usize,
        write: bool,
    },
    /// Values: the dividend, one per lane, then the divisor, one per lane.
    DivisionByZero {
        ty: Ty,
    },
    /// Values: those of the message in order.
    Assert {
        message: Vec<Piece>,
    },
    ZeroStep,
    /// A warp operation whose mask does not include the thread's own lane. Values: the mask, the lane.
    Among {
        what: String,
    },
    /// The stop word was seen.
    Stopped,
}

/// A shared array that is part of dynamic shared memory; each starts at the next multiple of 16 bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedArray {
    pub name: String,
    pub element: usize,
    pub extents: Vec<Size>,
    pub span: Span,
}

/// An extent that is known at the latest at launch.
#[derive(Clone, Debug, PartialEq)]
pub enum Size {
    Known(u32),
    /// The value of this expression of the kernel's body.
    Computed(ExprId),
}

/// A kernel as CUDA C++, and how to launch it.
#[derive(Clone, Debug)]
pub struct CudaKernel {
    pub text: String,
    /// The name of the entry function.
    pub entry: String,
    pub options: Options,
    pub(crate) params: Vec<KernelArgument>,
    pub(crate) geometry: Geometry,
    /// The maximum number of threads of a block.
    pub max_block: u32,
    /// Bytes of shared memory that the text declares statically.
    pub static_shared: u32,
    /// The arrays in dynamic shared memory, in order.
    pub dynamic_shared: Vec<SharedArray>,
    /// The launch has to be cooperative.
    pub cooperative: bool,
    pub(crate) places: Vec<Place>,
    pub(crate) prints: Vec<Vec<Piece>>,
    /// Conditions that the text relies on.
    pub(crate) assumptions: Vec<Bound>,
    /// The number of accesses and divisions, and of guarded ones.
    pub(crate) guards: Summary,
    /// Decisions made for this kernel, in sentences.
    pub notes: Vec<String>,
}

/// The facts about a launch that a text's conditions depend on.
pub trait LaunchFacts {
    /// Returns the value of the value parameter at this position.
    fn value(&self, param: usize) -> Option<Value>;
    /// Returns the extent of an array parameter.
    fn extent(&self, param: usize, axis: usize) -> Option<u32>;
    /// Returns the rank of an array parameter; `None` for other parameters.
    fn rank(&self, param: usize) -> Option<usize>;
    fn extents(&self) -> crate::device::Extents;
}

/// Returns the value of a symbol in a launch.
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

//! The ABI between a kernel's generated code and its launcher: parameters, launch geometry, shared memory, the fault
//! record, the print buffer, and the conditions under which a variant may be used. `docs/internals/cuda-abi.md`
//! describes the layouts.

use serde::{Deserialize, Serialize};

use clk_base::source::Span;
use clk_ir::def::{ExprId, Scalar, Ty};
use clk_ir::ranges::{Summary, SymbolInequality};
use clk_ir::tiles::ArrayWindow;
use clk_runtime::fault_record::{FaultSite, RecordedSegment};

/// The code generation options that distinguish the variants of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CodegenOptions {
    /// Whether accesses and divisions that are not proved safe have a guard, which reports a fault.
    pub checked: bool,
    /// Whether the code uses 64-bit offsets and supports grids of any size.
    pub wide: bool,
    /// Whether the code may rely on [`CudaKernel::assumptions`].
    pub assume: bool,
    /// Whether launches match the kernel's signature, including its promises about arrays. If so, accesses that are in
    /// bounds for all such launches have no guard.
    pub declared: bool,
    /// Whether `a * b + c` may be contracted to an FMA, which rounds once.
    pub contract: bool,
    /// Whether the code may use approximate functions and divisions, and flush subnormals to zero.
    pub fast_math: bool,
    /// Whether loops of unknown trip count poll the stop word.
    pub stop: bool,
    /// Thread coarsening: whether each thread of a `threads` kernel may process several indices.
    pub coarsen: bool,
    /// For `grid` kernels, the threads of a block along x, y, z, if known.
    pub block: Option<[u32; 3]>,
    /// For tensor-core code of a product or a tile program, how the code stages its operands. `None` for other code.
    pub product: Option<OperandStaging>,
    /// For tile programs, the limit of shared memory per block in bytes.
    pub room: u32,
}

/// How tensor-core code copies operands of products to shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperandStaging {
    /// By TMA, in boxes. The rows of both operands must be multiples of [`TMA_ALIGN`] bytes.
    Boxes,
    /// By elements, with ordinary loads.
    Elements,
    /// By `cp.async`, in 16-byte chunks; all GPUs from sm_80 on support this. `packed`: for each operand, whether it is
    /// first copied to separate memory, with rounded elements and rows padded to whole chunks. Tile programs do not
    /// pack operands.
    Pieces { packed: [bool; 2] },
}

impl OperandStaging {
    /// Returns whether an operand is packed to separate memory.
    pub(crate) fn packs(self) -> bool {
        matches!(self, OperandStaging::Pieces { packed } if packed.contains(&true))
    }

    /// Returns whether the code can run only on sm_90a.
    pub(crate) fn requires_sm90a(self) -> bool {
        !matches!(self, OperandStaging::Pieces { .. })
    }
}

/// Returns the limit of shared memory per block in bytes for a compute capability.
pub fn shared_limit_of(architecture: u32) -> u32 {
    match architecture {
        80 | 87 => 163 * 1024,
        90..120 => 227 * 1024,
        _ => 99 * 1024,
    }
}

/// Rows that TMA or `cp.async` copies must be multiples of this many bytes.
pub(crate) const TMA_ALIGN: u64 = 16;

impl Default for CodegenOptions {
    fn default() -> Self {
        CodegenOptions {
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
            room: shared_limit_of(90),
        }
    }
}

impl CodegenOptions {
    /// Returns the options for NVRTC. They include the architecture only if the code requires a specific one.
    pub fn flags(&self) -> Vec<String> {
        let mut flags = vec!["--std=c++17", if self.contract { "--fmad=true" } else { "--fmad=false" }];
        if self.fast_math {
            flags.push("--use_fast_math");
        }
        if self.product.is_some_and(OperandStaging::requires_sm90a) {
            // The tensor-core instructions of this code exist only on this architecture.
            flags.push("--gpu-architecture=sm_90a");
        }
        flags.into_iter().map(str::to_string).collect()
    }
}

/// The meaning of a parameter of the CUDA function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KernelArgument {
    /// The value parameter at this position of `clk_ir::def::Kernel::params`.
    Value { param: usize, ty: Ty },
    /// The address of the first element of the array parameter at this position.
    Array { param: usize },
    /// `i32`: the extent along an axis of the array parameter at this position.
    Extent { param: usize, axis: usize },
    /// `i32`: the extent of the k-th index of a `threads` kernel.
    IndexExtent { index: usize },
    /// The tensor map of a product's operand (the array parameter at position `param`): a 128-byte descriptor for TMA
    /// copies of boxes of this shape.
    Map { factor: usize, param: usize, element: Scalar, tma_box: TmaBox },
    /// The address of memory for a packed operand (the array parameter at position `param`), whose rows are whole
    /// [`TMA_ALIGN`]-byte chunks.
    Packed { factor: usize, param: usize, element: Scalar },
    /// The address of the fault record.
    Faults,
    /// The address of the print buffer.
    Prints,
    /// The address of the grid barrier's counter.
    GridBarrier,
}

/// Maximum number of axes of an array that TMA copies.
pub(crate) const MAX_AXES: usize = ArrayWindow::MAX_AXES;

/// The shape of a TMA box, last axis first: the number of indices along each axis, and the step between them. Entries
/// for axes that the array does not have are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TmaBox {
    pub extents: [u32; MAX_AXES],
    pub steps: [u32; MAX_AXES],
}

impl TmaBox {
    /// Returns the shape of a box of a matrix.
    pub fn plane(columns: u32, rows: u32) -> TmaBox {
        TmaBox { extents: [columns, rows, 1, 1, 1], steps: [1; MAX_AXES] }
    }
}

/// The mapping of a launch to blocks and threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CudaGeometry {
    /// The grid and the blocks that the launch specifies.
    Grid,
    /// For a `threads` kernel. The arrays are in the order x, y, z, where x belongs to the last index.
    Threads {
        rank: u8,
        block: [u32; 3],
        /// The number of indices that a block processes along each axis.
        covers: [u32; 3],
    },
    /// For a `grid` kernel that is a matrix product. A block of the launch computes `tile` rows and columns. A block of
    /// the generated code computes `own` rows and columns, with this many threads and bytes of dynamic shared memory.
    Product { tile: [u32; 2], own: [u32; 2], threads: u32, shared: u32 },
    /// For a `grid` kernel that is a tile program. The generated code has the launch's blocks, but with this many
    /// threads and bytes of dynamic shared memory.
    Tiles { threads: u32, shared: u32 },
}

/// The maximum number of blocks of a grid along x, y, z.
pub(crate) const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65535, 65535];

/// Limit for the extents and indices of a narrow launch, for which code with 32-bit offsets suffices.
pub(crate) const NARROW: u64 = 1 << 30;

/// A shared array in dynamic shared memory. Each array starts at a multiple of 16 bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedArray {
    pub name: String,
    pub element: usize,
    pub extents: Vec<LaunchExtent>,
    pub span: Span,
}

/// An extent that is known when the kernel is compiled or launched.
#[derive(Clone, Debug, PartialEq)]
pub enum LaunchExtent {
    Known(u32),
    /// The value of this expression in the kernel's body, evaluated at launch.
    Computed(ExprId),
}

/// A kernel as CUDA C++, with the data for launching it.
#[derive(Clone, Debug)]
pub struct CudaKernel {
    pub text: String,
    /// The name of the entry function.
    pub entry: String,
    pub options: CodegenOptions,
    pub(crate) params: Vec<KernelArgument>,
    pub(crate) geometry: CudaGeometry,
    /// The maximum number of threads of a block.
    pub max_block: u32,
    /// Bytes of shared memory that the generated code declares statically.
    pub static_shared: u32,
    /// The arrays in dynamic shared memory, in the order of their offsets.
    pub dynamic_shared: Vec<SharedArray>,
    /// Whether the launch must be cooperative.
    pub cooperative: bool,
    pub(crate) places: Vec<FaultSite>,
    pub(crate) prints: Vec<Vec<RecordedSegment>>,
    /// Conditions about the launch on which the generated code relies.
    pub(crate) assumptions: Vec<SymbolInequality>,
    /// The number of accesses and divisions, and the number of those with a guard.
    pub(crate) guards: Summary,
    /// Sentences for the user about the code generator's decisions.
    pub notes: Vec<String>,
}

impl CudaKernel {
    /// Returns the number of indices of a `threads` kernel.
    pub(crate) fn index_rank(&self) -> Option<u8> {
        match self.geometry {
            CudaGeometry::Threads { rank, .. } => Some(rank),
            CudaGeometry::Grid | CudaGeometry::Product { .. } | CudaGeometry::Tiles { .. } => None,
        }
    }
}

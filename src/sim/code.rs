//! The flat code that lane groups execute: ops on registers, and the tables that ops refer to.
//!
//! A register is an index into the group's table of slots (pointer and stride). A **uniform** register holds one chunk
//! of equal lanes and has stride 0; a **lane** register holds one value per lane. Ops read operands chunk by chunk
//! through the stride, so that the same loop handles both kinds of registers. An op with a uniform destination runs for
//! one chunk only. Ops rely on rules C1 to C13 of [`verify`](super::verify).

use clk_base::source::Span;
use clk_ir::Checks;
use clk_ir::def::{BuiltinIndex, ElementLayout, Extent, MessageSegment};
use clk_ir::inlined_calls::{InlinedCall, resolve_span};
use clk_scalar::Scalar;

use super::access_site::AccessSite;
use super::lanes::slow::SlowDef;
pub(crate) use super::register_ids::{AXES, MaskId, NONE, Reg};
use super::strip::StripDef;
use super::tiles::{CopyDef, ProductDef};
use clk_scalar::ops::{AtomicOp, WarpOp};

/// The storage of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegDef {
    /// Byte offset of the register in the frame's area for uniform registers.
    Uniform { offset: u32, wide: bool },
    /// Index of the register's first 4-byte lane column; an 8-byte register has two columns.
    Lanes { column: u32, wide: bool },
}

/// The coefficient of an affine index for one coordinate of a lane in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coef {
    Zero,
    Const(i32),
    /// A uniform `i32`.
    Reg(Reg),
}

/// One index of an access: `base + Σ coef·coordinate`, or a lane register without further terms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AffineIndex {
    pub base: Reg,
    /// Set if the base register has 8 bytes per lane.
    pub wide: bool,
    /// Set if the base is a `u32`, which needs zero extension.
    pub unsigned: bool,
    /// Coefficients along x, y, z, and along the blocks of a batch.
    pub coef: [Coef; AXES],
}

/// The operands of a load, a store or an atomic operation.
#[derive(Clone, Debug)]
pub struct AccessOperands {
    pub memory: u32,
    pub axes: Vec<AffineIndex>,
    /// Offset of the first component in the element, in bytes; for local memory, in lane columns.
    pub offset: u32,
    pub scalar: Scalar,
    /// One register per component that is loaded or stored.
    pub regs: Vec<Reg>,
    pub span: u32,
    pub write: bool,
    /// Set if an affine load may make its destination register a view of the memory instead of copying the elements.
    pub may_view: bool,
    /// Set for global memory: a load prefetches the elements after a row, because they are likely to be loaded next.
    pub prefetch: bool,
}

/// An array that the code accesses.
#[derive(Clone, Debug)]
pub(crate) struct MemoryDef {
    pub name: String,
    pub kind: MemoryKind,
    pub layout: ElementLayout,
    pub extents: Vec<Extent>,
    /// The contents of a constant array; all lanes of all groups read them here.
    pub constants: Vec<u8>,
    /// The uniform i32 register that holds the extent, for each `Dynamic` extent.
    pub extent_regs: Vec<Reg>,
    /// Set if the kernel may write the array.
    pub writable: bool,
    /// Set if all accesses to the array are atomic additions of 4-byte integers whose results are unused.
    pub only_summed: bool,
    pub span: Span,
    /// The index of `span` in the code's spans.
    pub span_index: u32,
}

/// How a kernel accesses a memory, for the sanitizer.
#[derive(Clone, Debug)]
pub(crate) struct TrackedMemory {
    pub loads: bool,
    pub stores: bool,
    pub atomics: bool,
    /// Set if there are atomic loads; `atomics` does not include them.
    pub atomic_loads: bool,
    /// Set if the memory is uninitialized when the kernel begins (when the block begins for shared memory, when the
    /// thread begins for local memory).
    pub starts_unwritten: bool,
    /// Number of bytes of an element that one shadow word covers.
    pub unit: usize,
    /// Set if one shadow word covers a whole element: the element is a scalar or a vector, and every access covers all
    /// its components.
    pub is_single_word: bool,
    /// The axes along which each thread accesses its own elements only.
    pub owner: clk_ir::disjoint_writes::DisjointWrites,
    /// Set if no two threads conflict on this memory, by a proof for all launches for which the code was compiled.
    pub is_race_free: bool,
    /// The IDs of its access sites.
    pub site_ids: Vec<u32>,
}

impl TrackedMemory {
    /// Returns the parts of an element that have separate shadow words. A pair is the part's byte offset and the index
    /// of the scalar or vector field that contains it.
    pub fn cells(&self, layout: &ElementLayout) -> Vec<(usize, usize)> {
        if self.is_single_word {
            return vec![(0, 0)];
        }
        let leaf_cells = |(number, leaf): (usize, &clk_ir::def::Leaf)| {
            let (offset, size) = (leaf.offset, leaf.ty.scalar().size());
            (0..leaf.ty.lanes() as usize).map(move |k| (offset + k * size, number)).collect::<Vec<_>>()
        };
        layout.leaves.iter().enumerate().flat_map(leaf_cells).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryKind {
    /// The kernel parameter at this position.
    Global(u32),
    Shared,
    Local,
    /// A constant array; see [`MemoryDef::constants`].
    Constant,
}

/// A value that the launch writes to a uniform register before any op runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    /// A constant: its type, and its bits in a lane.
    Const(Scalar, u64),
    /// A by-value parameter: its index, the component, and the component's type.
    Param(u32, u8, Scalar),
    Extent(u32, u8),
    /// A launch index along an axis: `Block`, `BlockDim` or `GridDim`, or for `Global` the index of the block's
    /// (group's) first thread. The second field is the axis.
    Id(BuiltinIndex, u8),
}

/// A `For` loop. The group's counter with the same index holds the iteration and the trip count.
#[derive(Clone, Debug)]
pub(crate) struct ForDef {
    pub scalar: Scalar,
    pub inclusive: bool,
    pub start: Reg,
    pub end: Reg,
    pub step: Reg,
    /// The start as an affine index, if it is affine.
    pub form: Option<AffineIndex>,
    /// The register of the loop variable, or of its base if the loop variable is affine. It is initialized to `start`,
    /// and each iteration adds `step`.
    pub local: Reg,
    /// Used if trip counts differ between lanes: the register of the trip counts (`trips`), and the mask of the lanes
    /// that are still in the loop (`mask`).
    pub trips: Reg,
    pub mask: MaskId,
    pub span: u32,
}

/// The message of an assertion or a print statement; its values are in registers.
#[derive(Clone, Debug)]
pub(crate) struct PrintMessage {
    pub parts: Vec<MessagePart>,
}

#[derive(Clone, Debug)]
pub(crate) enum MessagePart {
    Text(String),
    /// A value: one register per component, the type, and the format. A vector is printed in parentheses.
    Value(Vec<Reg>, Scalar, String),
}

impl PrintMessage {
    /// Creates a message; `value` returns the registers and the type of an expression.
    pub fn new(
        parts: &[MessageSegment],
        mut value: impl FnMut(clk_ir::def::ExprId) -> (Vec<Reg>, Scalar),
    ) -> PrintMessage {
        let part = |p: &MessageSegment| match p {
            MessageSegment::Text(text) => MessagePart::Text(text.clone()),
            MessageSegment::Value(e, format) => {
                let (regs, scalar) = value(*e);
                MessagePart::Value(regs, scalar, format.clone())
            }
        };
        PrintMessage { parts: parts.iter().map(part).collect() }
    }
}

/// An atomic read-modify-write operation; its memory location is an [`AccessOperands`] without registers.
#[derive(Clone, Debug)]
pub(crate) struct AtomicDef {
    pub op: AtomicOp,
    pub access: u32,
    pub value: Reg,
    pub compare: Reg,
    /// A lane register, or `NONE` if the old value is unused.
    pub result: Reg,
}

/// A warp operation on one component.
#[derive(Clone, Debug)]
pub(crate) struct WarpDef {
    pub op: WarpOp,
    pub scalar: Scalar,
    pub value: Reg,
    pub lane: Reg,
    /// The register with the mask of participating lanes; `NONE` if all lanes of the warp participate.
    pub participants: Reg,
    pub result: Reg,
    pub span: u32,
}

/// A polling loop: a loop that may wait for other threads.
#[derive(Clone, Debug)]
pub(crate) struct PollingLoopDef {
    /// The mask of the lanes that entered the loop.
    pub entered: MaskId,
    pub span: u32,
    /// Local variables that can end the loop by themselves, such as counters: an iteration that changes one of them
    /// makes progress.
    pub progress_locals: Vec<(Reg, Scalar)>,
    /// Local variables that can end the loop only together with other conditions.
    pub weak_locals: Vec<(Reg, Scalar)>,
}

/// The operands of an operation whose result `--trap-nan` checks.
#[derive(Clone, Debug)]
pub struct NanCheck {
    /// The operation's symbol or name, such as `+` or `sqrt`.
    pub name: String,
    pub infix: bool,
    pub scalar: Scalar,
    pub args: Vec<(Reg, Scalar)>,
}

/// The registers of a compiled kernel.
#[derive(Default)]
pub(crate) struct RegisterTables {
    /// The storage of each register.
    pub defs: Vec<RegDef>,
    pub uniform_bytes: usize,
    pub columns: usize,
    /// The number of lane columns that ops write.
    pub stored_columns: usize,
    /// The register of each mask; mask 0 holds all lanes of the group.
    pub masks: Vec<Reg>,
    /// Uniform registers that are set once per launch.
    pub launch: Vec<(Reg, Special)>,
    /// Uniform registers that are set once per block.
    pub block: Vec<(Reg, Special)>,
    /// Registers that may be views of memory.
    pub views: Vec<Reg>,
}

/// The source locations of a compiled kernel.
#[derive(Default)]
pub(crate) struct SourceTables {
    pub spans: Vec<Span>,
    /// The index of the kernel's own span in `spans`.
    pub kernel: u32,
    /// The index in `spans` of the first statement of each region.
    pub region_spans: Vec<u32>,
    /// Inlined calls, to resolve locations in the source.
    pub calls: Vec<InlinedCall>,
}

impl SourceTables {
    /// Returns the source location of span number `span` and the inlined calls that lead to it.
    pub fn location(&self, span: u32) -> (Span, Vec<Span>) {
        resolve_span(&self.calls, self.span(span))
    }

    pub fn kernel_span(&self) -> Span {
        self.span(self.kernel)
    }

    fn span(&self, span: u32) -> Span {
        self.spans.get(span as usize).copied().unwrap_or_default()
    }
}

/// Facts about a compiled kernel that decide how it is launched and scheduled.
#[derive(Default)]
pub(crate) struct KernelProperties {
    /// For a `threads` kernel, its number of dimensions.
    pub threads: Option<u8>,
    pub cooperative: bool,
    /// Set if the code has no loops.
    pub is_straight: bool,
    pub has_warp_ops: bool,
    /// Set if threads synchronize by fences and by atomic operations whose results influence control flow or addresses.
    pub has_sync: bool,
    /// Set if results may depend on the order of blocks: there are atomics on floats, or atomics whose results are
    /// used.
    pub depends_on_order: bool,
    /// Set if some loop polls memory by atomic operations.
    pub has_polling: bool,
    /// Set if some loop does nothing but wait for other threads.
    pub has_spin_loop: bool,
    /// Set if the compiler removed no barrier, so the warps of a block may run separately from each other.
    pub can_split_warps: bool,
}

/// The events that the code reports to the sanitizer or the profiler.
#[derive(Default)]
pub(crate) struct EventTables {
    pub checks: Checks,
    pub access_sites: Vec<AccessSite>,
    /// Indexed by memory; `None` if the memory needs no checks.
    pub tracked: Vec<Option<TrackedMemory>>,
    pub nan_checks: Vec<NanCheck>,
    pub polling_loops: Vec<PollingLoopDef>,
    /// Hazards that only occur in larger launches than the checked one.
    pub coverage_gaps: clk_ir::launch_coverage::CoverageGaps,
    /// Set if the launch counts the costs of warps: the extents (x, y) of the tile of threads that forms a warp of a
    /// `threads` kernel.
    pub counted_warps: Option<[u32; 2]>,
    /// For profiled launches: the straight-line segments of the code.
    pub segments: Vec<clk_runtime::profile::StraightLineSegment>,
}

impl EventTables {
    /// Returns whether the code counts the costs of warps instead of checking accesses.
    pub fn is_profiled(&self) -> bool {
        self.counted_warps.is_some() && !self.checks.memory
    }
}

/// The tables of a compiled kernel, without its ops.
#[derive(Default)]
pub(crate) struct KernelTables {
    /// The position of the first op of the body; the prologue precedes it.
    pub body: u32,
    /// The ops of the prologue up to this position compute the same values for all groups of one shape. So a worker
    /// runs them only for the first group of each shape.
    pub block_invariant_end: u32,
    pub registers: RegisterTables,
    pub source: SourceTables,
    pub properties: KernelProperties,
    pub events: EventTables,
    pub memories: Vec<MemoryDef>,
    // The operands of ops.
    pub accesses: Vec<AccessOperands>,
    pub messages: Vec<PrintMessage>,
    pub slow: Vec<SlowDef>,
    pub atomics: Vec<AtomicDef>,
    pub warps: Vec<WarpDef>,
    pub loops: Vec<ForDef>,
    pub strips: Vec<StripDef>,
    /// Tile products; a single op computes each of them.
    pub products: Vec<ProductDef>,
    /// Tile copies; a single op performs each of them.
    pub copies: Vec<CopyDef>,
    /// Lists of masks, for ops by which lanes leave several nested control-flow regions at once.
    pub mask_lists: Vec<Vec<MaskId>>,
    /// LaneIR regions, which the JIT may compile to machine code.
    pub regions: Vec<super::lir::LaneRegion>,
}

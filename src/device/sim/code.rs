//! The flat code that lane groups execute: ops on registers, and the tables that ops refer to.
//!
//! A register is an index into the group's table of slots (pointer and stride). A **uniform** register holds one chunk of equal
//! lanes and has stride 0; a **lane** register holds one value per lane. Ops read operands chunk by chunk through the stride, so
//! that one loop serves both; an op with a uniform destination runs for one chunk only.
//!
//! What ops may rely on is the contract of code, rules C1 to C13 of [`verify`](super::verify).

use crate::base::source::Span;
use crate::ir::Checks;
use crate::ir::calls::{Call, resolve};
use crate::ir::def::{Extent, Id3, Layout, Part};
use crate::lang::scalar::Scalar;

use super::lanes::slow::SlowDef;
use super::note::Note;
pub(crate) use super::reg::{AXES, MaskId, NONE, Reg};
use super::strip::StripDef;
use super::tiles::{CopyDef, ProductDef};
use crate::lang::ops::{AtomicOp, WarpOp};

/// The storage of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegDef {
    /// Byte offset in the uniform area.
    Uniform { offset: u32, wide: bool },
    /// The first of its 4-byte lane columns (an 8-byte register has two).
    Lanes { column: u32, wide: bool },
}

/// The coefficient of an affine index along one axis of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coef {
    Zero,
    Const(i32),
    /// A uniform `i32`.
    Reg(Reg),
}

/// One index of an access: `base + Σ coef·coordinate`, or a lane register without further terms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Index {
    pub base: Reg,
    /// 8 bytes per lane.
    pub wide: bool,
    /// A `u32`, to be zero-extended.
    pub unsigned: bool,
    /// Coefficients along x, y, z, and from block to block of a batch.
    pub coef: [Coef; AXES],
}

/// The operands of a load, a store or an atomic operation.
#[derive(Clone, Debug)]
pub struct Access {
    pub memory: u32,
    pub axes: Vec<Index>,
    /// Byte offset of the first component in the element (in local memory: lane columns).
    pub offset: u32,
    pub scalar: Scalar,
    /// One register per component that is loaded or stored.
    pub regs: Vec<Reg>,
    pub span: u32,
    pub write: bool,
    /// An affine load may alias its register with the memory itself instead of copying.
    pub view: bool,
    /// Global memory: elements behind a row are likely to be used next and are prefetched.
    pub ahead: bool,
}

/// An array that the code accesses.
#[derive(Clone, Debug)]
pub(crate) struct MemoryDef {
    pub name: String,
    pub kind: MemoryKind,
    pub layout: Layout,
    pub extents: Vec<Extent>,
    /// The contents of an array of constants, which all lanes of all groups read here.
    pub constants: Vec<u8>,
    /// The uniform i32 register that holds the extent, for each `Dynamic` extent.
    pub extent_regs: Vec<Reg>,
    /// The kernel may write it.
    pub writable: bool,
    /// The only accesses are atomic additions of 4-byte integers whose results are unused.
    pub sums: bool,
    pub span: Span,
    /// The index of `span` in [`Code::spans`].
    pub place: u32,
}

/// How a kernel uses a memory, as far as checks need to know.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub loads: bool,
    pub stores: bool,
    pub atomics: bool,
    /// There are atomic loads, which `atomics` does not count.
    pub looks: bool,
    /// Unwritten when the kernel (for shared memory: the block, for local memory: the thread) begins.
    pub fresh: bool,
    /// Bytes of an element that one shadow word covers.
    pub unit: usize,
    /// An element is a single leaf (a scalar or vector component of its type) that is only accessed as a whole, so that one
    /// shadow word covers it.
    pub whole: bool,
    /// How far elements are private to the thread that accesses them.
    pub own: crate::ir::owner::Owner,
    /// No two threads conflict, in the launches that the code is for: it is proved.
    pub apart: bool,
    /// The notes of its accesses, by site.
    pub sites: Vec<u32>,
}

impl Watched {
    /// Returns the parts of an element that have shadow words of their own: byte offset and leaf.
    pub fn cells(&self, layout: &Layout) -> Vec<(usize, usize)> {
        if self.whole {
            return vec![(0, 0)];
        }
        let of = |(number, leaf): (usize, &crate::ir::def::Leaf)| {
            let (offset, size) = (leaf.offset, leaf.ty.scalar().size());
            (0..leaf.ty.lanes() as usize).map(move |k| (offset + k * size, number)).collect::<Vec<_>>()
        };
        layout.leaves.iter().enumerate().flat_map(of).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryKind {
    /// The kernel parameter at this position.
    Global(u32),
    Shared,
    Local,
    /// Constants, see [`MemoryDef::constants`].
    Constant,
}

/// A value that the launch writes to a uniform register before anything runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    /// A constant: type and lane bits.
    Const(Scalar, u64),
    /// Parameter, component and type.
    Param(u32, u8, Scalar),
    Extent(u32, u8),
    /// `Block`, `BlockDim`, `GridDim`; for `Global` the first index of the block (group). The number is the axis.
    Id(Id3, u8),
}

/// A `For` loop. The group's counter of the same number holds the iteration and the trip count.
#[derive(Clone, Debug)]
pub(crate) struct ForDef {
    pub scalar: Scalar,
    pub inclusive: bool,
    pub start: Reg,
    pub end: Reg,
    pub step: Reg,
    /// The affine form of the start, if it has one.
    pub form: Option<Index>,
    /// Set to `start` and then advanced by `step` in each iteration: the local, or the base of an affine one.
    pub local: Reg,
    /// Where trip counts differ between lanes: the register of the counts, and the mask of the lanes still in the loop.
    pub trips: Reg,
    pub mask: MaskId,
    pub span: u32,
}

/// A message with values in registers.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub parts: Vec<MessagePart>,
}

#[derive(Clone, Debug)]
pub(crate) enum MessagePart {
    Text(String),
    /// One register per component, type and format; a vector prints in parentheses.
    Value(Vec<Reg>, Scalar, String),
}

impl Message {
    /// Returns the message; `value` gives the registers and the type of an expression.
    pub fn new(parts: &[Part], mut value: impl FnMut(crate::ir::def::ExprId) -> (Vec<Reg>, Scalar)) -> Message {
        let part = |p: &Part| match p {
            Part::Text(text) => MessagePart::Text(text.clone()),
            Part::Value(e, format) => {
                let (regs, scalar) = value(*e);
                MessagePart::Value(regs, scalar, format.clone())
            }
        };
        Message { parts: parts.iter().map(part).collect() }
    }
}

/// An atomic read-modify-write; its memory location is an [`Access`] without registers.
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
    /// `NONE` if all lanes of the warp take part.
    pub among: Reg,
    pub result: Reg,
    pub span: u32,
}

/// A loop that may wait for other threads.
#[derive(Clone, Debug)]
pub(crate) struct WaitDef {
    /// The mask of the lanes that entered it.
    pub from: MaskId,
    pub span: u32,
    /// Locals that end the loop by themselves: an iteration that changes one of them makes progress.
    pub counts: Vec<(Reg, Scalar)>,
    /// Locals that end the loop only together with other conditions.
    pub weak: Vec<(Reg, Scalar)>,
}

/// The operands of an operation whose result `--trap-nan` checks.
#[derive(Clone, Debug)]
pub struct Birth {
    /// The operation's symbol or name: `+`, `sqrt`.
    pub name: String,
    pub infix: bool,
    pub scalar: Scalar,
    pub args: Vec<(Reg, Scalar)>,
}

/// The tables of a compiled kernel, without its ops.
pub(crate) struct Code {
    /// The position of the first op of the body; the prologue is before it.
    pub body: u32,
    /// The first ops of the prologue, up to this one, compute the same for all groups of one shape: one group runs them for those
    /// behind it.
    pub steady: u32,
    pub regs: Vec<RegDef>,
    pub uniform_bytes: usize,
    pub columns: usize,
    /// Only columns that are ever stored to.
    pub touched_columns: usize,
    /// The register of each mask; mask 0 holds all lanes of the group.
    pub masks: Vec<Reg>,
    /// Written once per launch.
    pub launch: Vec<(Reg, Special)>,
    /// Written once per block.
    pub block: Vec<(Reg, Special)>,
    pub memories: Vec<MemoryDef>,
    pub accesses: Vec<Access>,
    pub spans: Vec<Span>,
    /// The index of the kernel's own span in `spans`.
    pub span: u32,
    /// The index in `spans` of the first statement of each region.
    pub region_spans: Vec<u32>,
    pub messages: Vec<Message>,
    pub slow: Vec<SlowDef>,
    pub atomics: Vec<AtomicDef>,
    pub warps: Vec<WarpDef>,
    pub loops: Vec<ForDef>,
    pub strips: Vec<StripDef>,
    /// Products of tiles that one op adds.
    pub products: Vec<ProductDef>,
    /// Copies to tiles that one op makes.
    pub copies: Vec<CopyDef>,
    /// Lists of masks, for lanes that leave several regions at once.
    pub lists: Vec<Vec<MaskId>>,
    /// The rank, for `Form::Threads`.
    pub threads: Option<u8>,
    pub cooperative: bool,
    /// Contains no loops.
    pub straight: bool,
    // Tables of checks
    pub checks: Checks,
    pub notes: Vec<Note>,
    /// By memory; `None` where no access can be wrong.
    pub watched: Vec<Option<Watched>>,
    pub births: Vec<Birth>,
    /// The costs of warps are counted, which are tiles of so many threads of a `threads` kernel along x and y.
    pub counted: Option<[u32; 2]>,
    /// Everything is counted: what the segments of the code do.
    pub segments: Vec<crate::device::profile::Segment>,
    pub waits: Vec<WaitDef>,
    /// Hazards that small launches cannot show.
    pub unseen: crate::ir::unseen::Unseen,
    /// The span of the kernel.
    pub place: Span,
    pub warp_ops: bool,
    /// Threads synchronize by fences and by atomic operations whose results influence them.
    pub syncs: bool,
    /// Results depend on the order of blocks: atomics on floats, or atomics whose results are used.
    pub ordered: bool,
    /// Inlined calls, to resolve locations in the source.
    pub calls: Vec<Call>,
    /// Some loop polls by atomic operations.
    pub polls: bool,
    /// Some loop only waits for other threads.
    pub spins: bool,
    /// No barrier was left out, so that the warps of a block may run one after the other.
    pub splits: bool,
    /// Regions that may have machine code.
    pub regions: Vec<super::lane::Region>,
    /// Registers that may view memory.
    pub views: Vec<Reg>,
}

impl Code {
    /// Returns whether all that warps do is counted, in place of checks.
    pub fn is_profiled(&self) -> bool {
        self.counted.is_some() && !self.checks.memory
    }

    /// Returns the location in the source of span number `span`, and the calls that led there.
    pub fn place(&self, span: u32) -> (Span, Vec<Span>) {
        resolve(&self.calls, self.spans.get(span as usize).copied().unwrap_or_default())
    }
}

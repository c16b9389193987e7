//! The flat form that lane groups run: ops on registers, with the tables the ops point into.
//!
//! A register is an index into the group's table of slots (pointer and stride). A **uniform** register holds one chunk of
//! equal lanes and has stride 0; a **lane** register holds one value per lane. Ops read operands chunk by chunk through the
//! stride, so that one loop serves both; an op whose destination is uniform runs for one chunk only.

use crate::base::source::Span;
use crate::ir::Checks;
use crate::ir::calls::{Call, resolve};
use crate::ir::def::{Extent, Id3, Layout, Part};
use crate::lang::scalar::Scalar;

use super::check::arithmetic::Birth;
use super::group::Group;
use super::lanes::slow::SlowDef;
use super::listen::Note;
use super::strip::StripDef;
use crate::lang::ops::{AtomicOp, WarpOp};

/// An index into a group's slots.
pub(crate) type Reg = u16;
/// An index into a group's masks.
pub(crate) type MaskId = u16;
/// No register, no mask.
pub(crate) const NONE: u16 = u16::MAX;

/// Runs an op and returns the one to run next; null ends the run.
pub(crate) type OpFn = unsafe fn(&mut Group, *const Op) -> *const Op;

/// One instruction. What the fields mean is up to `run`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Op {
    pub run: OpFn,
    pub d: Reg,
    pub a: Reg,
    pub b: Reg,
    pub c: Reg,
    pub x: u32,
    pub y: u32,
}

/// What a register is backed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegDef {
    /// Bytes from the start of the uniform area.
    Uniform { offset: u32 },
    /// The first of its 4-byte lane columns (an 8-byte register has two).
    Lanes { column: u32, wide: bool },
}

/// How far an affine index moves per step along one axis of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coef {
    Zero,
    Const(i32),
    /// A uniform i32.
    Reg(Reg),
}

/// x, y, z of the group, and the block within a batch of blocks.
pub(crate) const AXES: usize = 4;

/// One index of a place: `base + Σ coef·coordinate`, or lanes without further terms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Index {
    pub base: Reg,
    /// 8 bytes per lane.
    pub wide: bool,
    /// A `u32`, to be zero-extended.
    pub unsigned: bool,
    /// Along x, y, z, and from block to block of a batch.
    pub coef: [Coef; AXES],
}

/// A load, a store or an atomic.
#[derive(Clone, Debug)]
pub struct Access {
    pub memory: u32,
    pub axes: Vec<Index>,
    /// Of the first component, in the element.
    pub offset: u32,
    pub scalar: Scalar,
    /// One per component that is loaded or stored.
    pub regs: Vec<Reg>,
    pub span: u32,
    pub write: bool,
    /// Where an affine load may point its register at the memory itself.
    pub view: bool,
    /// Of global memory: what lies behind a row is likely to be wanted next.
    pub ahead: bool,
}

/// An array the code can name.
#[derive(Clone, Debug)]
pub(crate) struct MemoryDef {
    pub name: String,
    pub kind: MemoryKind,
    pub layout: Layout,
    pub extents: Vec<Extent>,
    /// What an array of constants holds: all lanes of all groups read it here.
    pub constants: Vec<u8>,
    /// For a `Dynamic` extent the uniform i32 register that holds it.
    pub extent_regs: Vec<Reg>,
    /// Nothing happens to it but atomic additions of 4-byte integers whose old values nobody sees.
    pub sums: bool,
    pub span: Span,
    /// The same, among the code's.
    pub place: u32,
}

/// How a kernel uses a memory, as far as checks want to know.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub loads: bool,
    pub stores: bool,
    pub atomics: bool,
    /// Nobody has written it when the kernel (the block, the thread) begins.
    pub fresh: bool,
    /// Bytes for which there is one word.
    pub unit: usize,
    /// Elements are one leaf that is never touched in part, so that a word stands for all of it.
    pub whole: bool,
    /// How far the elements that a thread touches are its own.
    pub own: Owner,
    /// The notes of the accesses, by site.
    pub sites: Vec<u32>,
}

/// How far indices tell whose an element is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The axes along which they tell threads apart ([`Owner::thread`]) and blocks ([`Owner::block`]). For a `threads` kernel, an axis is an
    /// index, by position.
    pub axes: u8,
    /// If these (axis and number) are multiples of the block's extents.
    pub steps: Vec<(u8, u32)>,
}

impl Owner {
    pub fn thread(axis: u8) -> u8 {
        1 << axis
    }

    pub fn block(axis: u8) -> u8 {
        8 << axis
    }
}

impl Watched {
    /// Where in an element there are words of their own: bytes from its start, and the leaf.
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
    /// [`MemoryDef::constants`]
    Constant,
}

/// What the launch writes into uniform registers before anything runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    /// Lane bits of a scalar.
    Const(Scalar, u64),
    /// Parameter and component.
    Param(u32, u8, Scalar),
    Extent(u32, u8),
    /// `Block`, `BlockDim`, `GridDim`; for `Global` the first of the block's (group's) indices. The number is the axis.
    Id(Id3, u8),
}

/// A `For` loop. Its turns are counted down in the group's counter of the same number.
#[derive(Clone, Debug)]
pub(crate) struct ForDef {
    pub scalar: Scalar,
    pub inclusive: bool,
    pub start: Reg,
    pub end: Reg,
    pub step: Reg,
    /// The affine form of the start, if it has one.
    pub form: Option<Index>,
    /// Takes `start` and then `step` each turn: the local, or the base of an affine one.
    pub local: Reg,
    /// Where lanes take different numbers of turns: those numbers, and the mask of lanes still in the loop.
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
    /// One register per component; a vector prints in parentheses.
    Value(Vec<Reg>, Scalar, String),
}

impl Message {
    /// The parts with their values' registers.
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

/// An atomic read-modify-write; its place is in an [`Access`] without registers.
#[derive(Clone, Debug)]
pub(crate) struct AtomicDef {
    pub op: AtomicOp,
    pub access: u32,
    pub value: Reg,
    pub compare: Reg,
    /// Lanes, or `NONE` if nobody looks at the old value.
    pub result: Reg,
}

impl AtomicDef {
    /// An exchange of a value for itself is a load.
    pub fn loads(&self) -> bool {
        self.op == AtomicOp::CompareExchange && self.value == self.compare
    }
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

/// A loop that may wait for what other threads do.
#[derive(Clone, Debug)]
pub(crate) struct WaitDef {
    /// The lanes that have entered it.
    pub from: MaskId,
    pub span: u32,
    /// Locals by which it ends on its own: an iteration that changes one of them is not like the one before.
    pub counts: Vec<(Reg, Scalar)>,
    /// Locals that take part in when it ends, along with what others do.
    pub weak: Vec<(Reg, Scalar)>,
}

/// Why launches of one block, or of blocks of one warp, cannot show all that may go wrong, as notes say it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unseen {
    pub blocks: Option<String>,
    pub warps: Option<String>,
}

/// A compiled kernel.
pub(crate) struct Code {
    pub ops: Vec<Op>,
    /// Where the body begins.
    pub body: u32,
    pub regs: Vec<RegDef>,
    pub uniform_bytes: usize,
    pub columns: usize,
    /// Without those that nothing is ever stored to.
    pub touched_columns: usize,
    /// The register of each mask; number 0 is all lanes of the group.
    pub masks: Vec<Reg>,
    /// Written once a launch.
    pub launch: Vec<(Reg, Special)>,
    /// Written once a block.
    pub block: Vec<(Reg, Special)>,
    pub memories: Vec<MemoryDef>,
    pub accesses: Vec<Access>,
    pub spans: Vec<Span>,
    /// The kernel's own, among them.
    pub span: u32,
    pub messages: Vec<Message>,
    pub slow: Vec<SlowDef>,
    pub atomics: Vec<AtomicDef>,
    pub warps: Vec<WarpDef>,
    pub loops: Vec<ForDef>,
    pub strips: Vec<StripDef>,
    /// Lists of masks, for lanes that leave several regions at once.
    pub lists: Vec<Vec<MaskId>>,
    /// `Form::Threads` with this rank.
    pub threads: Option<u8>,
    pub cooperative: bool,
    /// No loops.
    pub straight: bool,
    // For those who listen
    pub checks: Checks,
    pub notes: Vec<Note>,
    /// By memory; `None` where nothing can go wrong.
    pub watched: Vec<Option<Watched>>,
    pub births: Vec<Birth>,
    pub waits: Vec<WaitDef>,
    /// What small launches cannot show.
    pub unseen: Unseen,
    /// Of the kernel.
    pub place: Span,
    pub warp_ops: bool,
    /// Threads synchronize by fences and atomic operations that decide something.
    pub syncs: bool,
    /// What it computes depends on the order of blocks: atomics on floats, or whose results somebody looks at.
    pub ordered: bool,
    /// What was inlined, for places.
    pub calls: Vec<Call>,
    /// Some loop polls by atomics.
    pub polls: bool,
}

impl Code {
    /// The place in the source of number `span`, and the calls that led there.
    pub fn place(&self, span: u32) -> (Span, Vec<Span>) {
        resolve(&self.calls, self.spans.get(span as usize).copied().unwrap_or_default())
    }
}

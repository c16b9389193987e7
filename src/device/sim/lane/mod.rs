//! LaneIR: the simulator's own IR, of what the lanes of a group compute between two barriers, or in a whole small block.
//!
//! Input: runs of DeviceIR statements that no thread leaves, and that contain no message: the
//! *regions* ([`build`]). Output: [`Region`]s that `jit` compiles and `clk emit --stage lanes` prints ([`text`]). The idea: how
//! values vary, which lanes are active and which checks guard which address are instructions and types, so that [`verify`] can
//! check what machine code relies on.
//!
//! # Execution
//! A region runs for some lanes of a group at once: `vectors` × `width` of them, in one row of the group or in several. It starts with
//! [`Region::setup`], once per entry, and then runs [`Region::body`] for one batch of lanes after the other. A check that fails
//! **leaves**: every effect of the region is undone, and the interpreter runs the region's statements instead, from the start.
//! So each message, count and first thread is the interpreter's, and a check may be done early, as long as it is done.
//!
//! # Barriers
//! A region may contain barriers at which all threads of the block arrive ([`Region::together`]). It then runs for whole blocks only. Where
//! a block is one batch, all lanes have done an instruction before the next one begins: nothing is left for a barrier to do. Where it is
//! several, [`phases`] divides the body at the barriers: control that is the same for all threads runs once, and what is between two
//! barriers is a *phase* ([`Node::Each`]) that runs for one batch after the other. The statements between the barriers are regions too, for
//! blocks that batches do not divide.
//!
//! # Values
//! - A **scalar** (`i32`, `i64`) is the same in all lanes of a vector: indices, addresses, trip counts, uniform conditions (0 or 1).
//! - A **vector** (`v32`, `v64`) has one value per lane; so have uniform floats, which are computed redundantly.
//! - A **mask** has one bit per lane. Bits of inactive lanes are undefined unless an instruction says otherwise.
//!
//! # Atomics
//! An atomic updates the elements of the active lanes one after the other, the first lane first. The interpreter does so for all
//! lanes of a group before it goes on; here, a batch runs the whole region before the next one begins. Orders differ, as those of
//! threads may, but not that in which floats are added up (see `build::atomic`). Only updates of memory that no other worker sees can
//! be undone: where the region may leave, it is not entered with other memory.
//!
//! A value has one definition, or it is *mutable*: a local of the kernel or the mask of a loop. Control is structured: a branch goes
//! to the end of a block around it, and a loop repeats until a branch leaves it.

pub(crate) mod bounds;
pub(crate) mod build;
pub(crate) mod copies;
pub(crate) mod displace;
pub(crate) mod guards;
pub(crate) mod induct;
pub(crate) mod live;
pub(crate) mod phases;
pub(crate) mod text;
pub(crate) mod verify;
pub(crate) mod whole;

#[cfg(test)]
pub(crate) mod tests;

use rustc_hash::FxHashMap;

use crate::ir::def::MemId;
use crate::lang::ops::{AtomicOp, MathFn, WarpOp};
use crate::lang::scalar::Scalar;

use super::reg::Reg;

/// A value of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Value(pub u32);

impl Value {
    /// The absence of an operand.
    pub const NONE: Value = Value(u32::MAX);

    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ty {
    I32,
    I64,
    V32,
    V64,
    Mask,
}

impl Ty {
    /// Returns whether it is the same in all lanes of a vector.
    pub fn is_scalar(self) -> bool {
        matches!(self, Ty::I32 | Ty::I64)
    }

    pub fn is_vector(self) -> bool {
        matches!(self, Ty::V32 | Ty::V64)
    }
}

/// What is known about a value besides its definition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueDef {
    pub ty: Ty,
    /// It may have several definitions.
    pub mutable: bool,
    /// A scalar or vector that depends on where in its row a vector starts.
    pub by_x: bool,
    /// A scalar or vector that depends on the row.
    pub by_row: bool,
}

/// The end of a block, as the target of branches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Exit(pub u32);

/// A comparison of integers or floats. Unordered floats are only `Ne`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Rel {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// The interpretation of the lanes of a vector, or of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Elem {
    F32,
    F64,
    I32,
    U32,
    I64,
    U64,
}

impl Elem {
    /// Returns the element type of a scalar type that registers hold unchanged in 4 or 8 bytes.
    pub fn of(scalar: Scalar) -> Option<Elem> {
        Some(match scalar {
            Scalar::F32 => Elem::F32,
            Scalar::F64 => Elem::F64,
            Scalar::I32 => Elem::I32,
            Scalar::U32 => Elem::U32,
            Scalar::I64 => Elem::I64,
            Scalar::U64 => Elem::U64,
            _ => return None,
        })
    }

    pub fn is_wide(self) -> bool {
        matches!(self, Elem::F64 | Elem::I64 | Elem::U64)
    }

    pub fn is_float(self) -> bool {
        matches!(self, Elem::F32 | Elem::F64)
    }

    pub fn is_signed(self) -> bool {
        !matches!(self, Elem::U32 | Elem::U64)
    }

    pub fn vector(self) -> Ty {
        if self.is_wide() { Ty::V64 } else { Ty::V32 }
    }

    pub fn scalar(self) -> Ty {
        if self.is_wide() { Ty::I64 } else { Ty::I32 }
    }
}

/// Operations of two operands, on scalars and on vectors. Shifts count modulo the width; `Shr` keeps the sign of signed elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Bin {
    Add,
    Sub,
    Mul,
    And,
    Or,
    Xor,
    Shl,
    Shr,
    /// Floats; integers round toward zero. An integer divisor of 0 has left before.
    Div,
    Rem,
    /// With the language's rules for NaN and zeros.
    Min,
    Max,
}

/// Operations of one operand on vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Un {
    Neg,
    Abs,
    Sqrt,
    Rsqrt,
    Floor,
    Ceil,
    Trunc,
    /// Ties to even.
    Round,
}

/// The representation of an element in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Cell {
    W4,
    W8,
    /// Extended to 32 bits.
    U8,
    I8,
    U16,
    I16,
}

impl Cell {
    pub fn of(scalar: Scalar) -> Option<Cell> {
        Some(match scalar {
            Scalar::F32 | Scalar::I32 | Scalar::U32 => Cell::W4,
            Scalar::F64 | Scalar::I64 | Scalar::U64 => Cell::W8,
            Scalar::U8 => Cell::U8,
            Scalar::I8 => Cell::I8,
            Scalar::U16 | Scalar::F16 | Scalar::Bf16 => Cell::U16,
            Scalar::I16 => Cell::I16,
            _ => return None,
        })
    }

    pub fn size(self) -> i32 {
        match self {
            Cell::W4 => 4,
            Cell::W8 => 8,
            Cell::U8 | Cell::I8 => 1,
            Cell::U16 | Cell::I16 => 2,
        }
    }

    pub fn vector(self) -> Ty {
        if self == Cell::W8 { Ty::V64 } else { Ty::V32 }
    }
}

/// How the addresses of an access follow from its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// One element at `address`, for all lanes.
    One,
    /// Contiguous elements: `address` is that of x = 0 in the row.
    Row,
    /// `address + offset` with a `v32` of byte offsets.
    Lanes,
    /// The lanes of a local array's column: of the one at `address`, plus so many columns.
    Own(i32),
    /// As [`Form::Own`], with a `v32` of byte offsets.
    OwnLanes(i32),
}

impl Form {
    /// Returns the columns behind the address, for local arrays.
    pub fn columns(self) -> Option<i32> {
        match self {
            Form::Own(columns) | Form::OwnLanes(columns) => Some(columns),
            Form::One | Form::Row | Form::Lanes => None,
        }
    }

    /// Returns whether it has byte offsets.
    pub fn has_offsets(self) -> bool {
        matches!(self, Form::Lanes | Form::OwnLanes(_))
    }
}

/// A word that the entry fills in before a region runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Input {
    /// The value of a uniform register, with these bytes of it; a `bool` as 0 or 1.
    Uniform(Reg, Scalar),
    /// The address of the first lane of a register.
    Lanes(Reg),
    /// The address of a memory's first element.
    Base(MemId),
    Extent(MemId, u8),
    Pitch(MemId, u8),
    /// Whether no other worker accesses the memory: 0 or 1.
    Alone(MemId),
    /// The bytes of a column of 4-byte lanes in local arrays.
    Column,
    /// Of a memory whose elements each belong to one thread: the address of the bytes that say which elements have been written, and
    /// the value that says so.
    Marks(MemId),
    Mark(MemId),
    /// The smallest and the largest coordinate of active lanes along an axis (x, y, z).
    First(u8),
    Last(u8),
}

/// A place in the frame that keeps a value for each batch of a block from one phase to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Kept {
    /// The number in [`Region::kept`].
    pub number: u32,
    /// The marks of the value; see [`ValueDef`].
    pub by_x: bool,
    pub by_row: bool,
}

/// An instruction's operation. Operands are listed as `args`; `m` is the mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Op {
    // Scalars
    Const(i64),
    Input(Input),
    /// The coordinate of the vector's first lane, as `i32`.
    Coord(u8),
    Scalar(Bin, Elem),
    /// 0 or 1.
    Set(Rel, Elem),
    /// `i32` to `i64`.
    Sext,
    /// `i32` to `i64`, of a `u32`.
    Zext,
    Trunc,
    /// `a != 0 ? b : c`
    Choose,
    /// The largest first (for a negative coefficient: last) index along a row that is in bounds for all lanes of a check:
    /// `max(0, extent - |c|·(lanes - 1))`.
    Limit(i32),
    /// An element that all lanes read.
    LoadScalar(Cell),
    /// The first lane of a vector that is the same in all lanes.
    FirstLane,
    /// Whether some active lane (`m`) is in the mask: 0 or 1.
    Any,
    // Vectors
    /// The same bits in all lanes.
    Splat(u64),
    /// The scalar in all lanes.
    Broadcast,
    /// The word of an input in all lanes.
    BroadcastInput(Input),
    /// `c`·(position of the lane in its vector).
    Iota(i32),
    /// The lanes of a register whose address is `args[0]`.
    LoadReg,
    Vector(Bin, Elem),
    Unary(Un, Elem),
    /// `a·b + c`, rounded once.
    Fma(Elem),
    /// By the rules of `lang::scalar`.
    Convert(Elem, Elem),
    /// The `f32` of the bits of an `f16`, and an `f32` rounded to those.
    FromHalf,
    ToHalf,
    /// A function that is called for each vector.
    Call(MathFn, Elem),
    /// Lanes of the mask `a` take `b`, others `c`.
    Select,
    // Masks
    Compare(Rel, Elem),
    MaskConst(bool),
    /// All lanes where the scalar is not 0, else none.
    MaskOf,
    /// The lanes that are not 0.
    MaskOfLanes,
    /// 0 or all ones.
    LanesOfMask,
    MaskAnd,
    /// `a & !b`
    MaskWithout,
    MaskOr,
    MaskXor,
    /// Relative to the lanes that exist.
    MaskNot,
    /// The lanes that entered the region.
    Entered,
    // Effects
    /// Defines a mutable value; with a mask only in its lanes.
    Move,
    Load(Cell, Form),
    Store(Cell, Form),
    /// Updates elements: address, `v32` of byte offsets, values. The result is what was there. A compare-exchange also reads what it
    /// defines: the values that it expects.
    Atomic(AtomicOp, Elem),
    /// Among the lanes of each warp: of a vector (of a mask for votes, with `u32`), with the lanes of a shuffle. Leaves where only some lanes
    /// of a warp are active.
    Warp(WarpOp, Elem),
    /// The lanes `m` of a register whose address is `args[0]` become `args[1]`.
    StoreReg,
    /// The scalar, or the first lane of the vector, is the value of this uniform register once the region has run.
    Output(u32),
    /// Leaves unless 0 <= index < extent.
    CheckOne,
    /// Leaves unless the index row + c·x of each active lane is in bounds: row (`i64`), limit, extent.
    CheckRow(i32),
    /// Leaves unless the index of each active lane is in bounds: `v32`, extent.
    CheckLanes,
    /// As [`Op::CheckRow`] in the setup, for all lanes of the group between two indices: lowest and highest.
    CheckRange,
    /// Leaves if an active lane is in the mask; without active lanes (`m`), if any lane is.
    LeaveAny,
    /// Leaves if the scalar is 0.
    LeaveZero,
    /// In the setup: the scalar becomes this word of the region's [reports](Report).
    Word(u32),
    /// In the setup, behind all words and checks: the checker hears of the reported accesses; leaves if it might have to report one.
    Report,
    /// The checker hears of what the active lanes are about to access: leaves if it might have to report it. Address and offsets are those
    /// of an access with elements of this kind; the last number is that of the access in [`Region::touches`], and in a compiled kernel
    /// that of its note.
    Touch(Cell, Form, u32),
    // Barriers
    /// All threads of the block have done what is in front of it before one goes on.
    Barrier,
    /// In a phase: keeps a value of the present batch.
    Keep(Kept),
    /// In a phase: what was kept of the present batch. Elsewhere: what was kept of a scalar that is the same in all batches.
    Kept(Kept),
}

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Inst {
    pub op: Op,
    /// [`Value::NONE`] without a result.
    pub dst: Value,
    pub args: [Value; 3],
    /// The active lanes.
    pub mask: Value,
}

impl Inst {
    pub fn new(op: Op, dst: Value, args: &[Value]) -> Inst {
        let mut all = [Value::NONE; 3];
        all[..args.len()].copy_from_slice(args);
        Inst { op, dst, args: all, mask: Value::NONE }
    }

    pub fn under(self, mask: Value) -> Inst {
        Inst { mask, ..self }
    }

    /// Returns the values that it reads. (Under a mask, a move or a vector operation also reads what it partly overwrites.)
    pub fn uses(&self) -> impl Iterator<Item = Value> + '_ {
        let merges = matches!(self.op, Op::Move | Op::Vector(..)) && self.mask != Value::NONE;
        let kept = if merges || self.compares() { self.dst } else { Value::NONE };
        self.args.iter().copied().chain([self.mask, kept]).filter(|&v| v != Value::NONE)
    }

    /// Returns whether it is a compare-exchange, which reads the values that it expects from where its result goes.
    pub fn compares(&self) -> bool {
        matches!(self.op, Op::Atomic(AtomicOp::CompareExchange, _))
    }

    /// Returns whether its result depends on where a vector lies in its row, and on its row, given that of its operands.
    pub fn varies(&self, of: impl Fn(Value) -> (bool, bool)) -> (bool, bool) {
        match self.op {
            Op::Coord(0) => (true, false),
            Op::Coord(_) => (false, true),
            // The same in all lanes of all vectors, by what the operation is for.
            Op::Any | Op::FirstLane => (false, false),
            Op::Kept(kept) => (kept.by_x, kept.by_row),
            // Lanes that lie one behind the other: x is part of the address.
            Op::Load(_, Form::Row) => (true, of(self.args[0]).1),
            Op::Load(_, Form::Own(_) | Form::OwnLanes(_)) => (true, true),
            Op::LoadReg | Op::Select | Op::LanesOfMask | Op::Atomic(..) | Op::Warp(..) => (true, true),
            Op::Move | Op::Vector(..) if self.mask != Value::NONE => (true, true),
            _ => self.args.iter().filter(|&&v| v != Value::NONE).fold((false, false), |(x, row), &v| {
                let (by_x, by_row) = of(v);
                (x | by_x, row | by_row)
            }),
        }
    }

    /// Returns whether it may leave the region.
    pub fn leaves(&self) -> bool {
        matches!(
            self.op,
            Op::CheckOne
                | Op::CheckRow(_)
                | Op::CheckLanes
                | Op::CheckRange
                | Op::LeaveAny
                | Op::LeaveZero
                | Op::Report
                | Op::Touch(..)
                | Op::Warp(..)
        )
    }
}

/// When a branch is taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cond {
    Always,
    /// A comparison of scalars.
    Scalar(Rel, Elem, Value, Value),
    /// The mask has no lane.
    None(Value),
}

impl Cond {
    pub fn uses(&self) -> impl Iterator<Item = Value> {
        let (a, b) = match *self {
            Cond::Always => (Value::NONE, Value::NONE),
            Cond::Scalar(_, _, a, b) => (a, b),
            Cond::None(mask) => (mask, Value::NONE),
        };
        [a, b].into_iter().filter(|&v| v != Value::NONE)
    }
}

/// A node of structured control.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    Inst(Inst),
    /// Branches inside may go to its end.
    Block(Exit, Vec<Node>),
    /// Repeats forever.
    Loop(Vec<Node>),
    /// A phase: runs for each batch of the block, the first one first.
    Each(Vec<Node>),
    /// Goes to the end of a block around it.
    Branch(Cond, Exit),
}

/// Visits all instructions in order.
pub(crate) fn each_inst<'a>(nodes: &'a [Node], f: &mut impl FnMut(&'a Inst)) {
    for node in nodes {
        match node {
            Node::Inst(inst) => f(inst),
            Node::Block(_, body) | Node::Loop(body) | Node::Each(body) => each_inst(body, f),
            Node::Branch(..) => {}
        }
    }
}

/// Visits all instructions in order, to change them.
pub(crate) fn each_inst_mut(nodes: &mut [Node], f: &mut impl FnMut(&mut Inst)) {
    for node in nodes {
        match node {
            Node::Inst(inst) => f(inst),
            Node::Block(_, body) | Node::Loop(body) | Node::Each(body) => each_inst_mut(body, f),
            Node::Branch(..) => {}
        }
    }
}

/// A region.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    pub values: Vec<ValueDef>,
    /// Straight-line code that runs once, before the first lanes.
    pub setup: Vec<Inst>,
    pub body: Vec<Node>,
    /// Registers of lanes that the region reads or writes.
    pub reads: Vec<Reg>,
    pub writes: Vec<Written>,
    pub memories: Vec<Touched>,
    /// Memories whose elements have to belong to one thread each in a launch that enters, and whether there are
    /// [marks](Input::Marks).
    pub owned: Vec<(MemId, bool)>,
    /// What the checker hears of, in this order.
    pub reports: Vec<Report>,
    /// The accesses that checks know of, in the order of the program: memory, and whether it is a store.
    pub touches: Vec<(MemId, bool)>,
    /// What the addresses of loads and stores are, for [`verify`].
    pub accesses: Vec<Access>,
    /// A vector has 8-byte lanes somewhere.
    pub wide: bool,
    /// It is only for groups all of whose lanes are active, with these extents, x first; 0 where an extent is unknown.
    pub whole: Option<[u32; 3]>,
    /// It has barriers of the block, all of whose threads run it.
    pub together: bool,
    /// How many regions of the code, directly in front of it, are parts of it.
    pub inner: u32,
    /// The types of what is kept from phase to phase.
    pub kept: Vec<Ty>,
    /// Values of phases that are another value, in the names of other phases.
    pub origins: FxHashMap<Value, Value>,
}

/// A memory that a region accesses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Touched {
    pub memory: MemId,
    pub loads: bool,
    pub stores: bool,
    /// It is a local array: each thread has its own.
    pub own: bool,
    /// The region zeroes it before anything else, so that what it was does not matter.
    pub fresh: bool,
    /// Atomics go to it, which load and store.
    pub updates: bool,
    /// A region that leaves puts it back as a whole.
    pub restored: bool,
}

impl Touched {
    /// Returns whether the interpreter, after the region has left, would load what the region has changed, unless that is put back by
    /// itself.
    pub fn is_reloaded(&self) -> bool {
        self.loads && self.stores && !self.fresh && !self.restored
    }
}

/// The checks that an access needs in front of it. Loads and stores name it by their address and offsets.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Access {
    pub memory: MemId,
    pub address: Value,
    /// [`Value::NONE`] unless the form has some.
    pub offsets: Value,
    /// See [`Form::Own`]; else 0.
    pub columns: i32,
    pub checks: Vec<Check>,
}

impl Access {
    pub fn values(&self) -> impl Iterator<Item = Value> + '_ {
        let own = [self.address, self.offsets].into_iter();
        own.chain(self.checks.iter().flat_map(|check| check.args)).filter(|&v| v != Value::NONE)
    }

    /// All values that it names, for passes that rename them.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        let own = [&mut self.address, &mut self.offsets].into_iter();
        own.chain(self.checks.iter_mut().flat_map(|check| &mut check.args)).filter(|v| **v != Value::NONE)
    }
}

/// A check, apart from its mask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Check {
    pub op: Op,
    pub args: [Value; 3],
}

impl Check {
    pub fn inst(&self) -> Inst {
        Inst { op: self.op, dst: Value::NONE, args: self.args, mask: Value::NONE }
    }
}

/// An access that the checker hears of before the body runs, which all lanes make, in all iterations of the loops around it. Its
/// words are the address for x = y = z = 0 in the first iterations, the bytes from each x, y and z to the next, and for each
/// loop around it, from the outermost on, the number of its last iteration and the bytes from one iteration to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Report {
    pub memory: MemId,
    pub store: bool,
    /// Its number in [`Region::touches`]; in a compiled kernel, that of its note.
    pub note: u32,
    /// The number of its first word.
    pub first: u32,
    pub loops: u8,
    /// Reports of accesses in one outermost loop have the same number.
    pub nest: u32,
}

/// Loops around a reported access, at most, and words of a report.
pub(crate) const REPORTED_LOOPS: usize = 3;
pub(crate) const REPORT_WORDS: u32 = 4 + 2 * REPORTED_LOOPS as u32;

/// A register that a region writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Written {
    pub reg: Reg,
    pub scalar: Scalar,
    pub uniform: bool,
}

/// Returns whether there is an atomic with a result in a loop.
fn waits(nodes: &[Node], inside: bool) -> bool {
    nodes.iter().any(|node| match node {
        Node::Inst(inst) => inside && matches!(inst.op, Op::Atomic(..)) && inst.dst != Value::NONE,
        Node::Block(_, body) | Node::Each(body) => waits(body, inside),
        Node::Loop(body) => waits(body, true),
        Node::Branch(..) => false,
    })
}

impl Region {
    pub fn ty(&self, value: Value) -> Ty {
        self.values[value.index()].ty
    }

    /// Returns whether the region may leave after it has had an effect. A loop that may wait for what an atomic finds leaves where
    /// the log of its updates is full: the interpreter lets other lanes go on meanwhile.
    pub fn may_leave(&self) -> bool {
        let mut leaves = waits(&self.body, false);
        each_inst(&self.body, &mut |inst| leaves |= inst.leaves());
        leaves
    }

    /// Returns the memory that an atomic updates.
    pub fn updated(&self, atomic: &Inst) -> Option<MemId> {
        let [address, offsets, _] = atomic.args;
        let listed = |access: &&Access| {
            (access.address, access.offsets) == (address, offsets)
                && self.memories.iter().any(|m| m.memory == access.memory && m.updates)
        };
        self.accesses.iter().find(listed).map(|access| access.memory)
    }

    /// Returns the place among the region's memories of the one that a [`Op::Touch`] is for, if the region only loads from it.
    pub fn only_loaded_by(&self, touch: &Inst) -> Option<i32> {
        let [address, offsets, _] = touch.args;
        let access = self.accesses.iter().find(|access| (access.address, access.offsets) == (address, offsets))?;
        let at = self.memories.iter().position(|m| m.memory == access.memory && !m.stores && !m.updates)?;
        Some(at as i32)
    }

    /// Returns whether stores of a region that leaves have to be logged so that they can be undone.
    pub fn reloads(&self) -> bool {
        self.memories.iter().any(Touched::is_reloaded)
    }

    /// Returns whether this store has to be logged where the region may leave.
    pub fn is_logged(&self, store: &Inst) -> bool {
        let reloaded = |memory: MemId| self.memories.iter().any(|m| m.memory == memory && m.is_reloaded());
        self.accesses.iter().filter(|access| access.address == store.args[0]).all(|access| reloaded(access.memory))
    }

    /// Returns whether it has operations of warps, whose lanes are then in one batch.
    pub fn has_warps(&self) -> bool {
        let mut warps = false;
        each_inst(&self.body, &mut |inst| warps |= matches!(inst.op, Op::Warp(..)));
        warps
    }

    /// Returns whether its body is divided into phases.
    pub fn has_phases(&self) -> bool {
        fn any(nodes: &[Node]) -> bool {
            nodes.iter().any(|node| match node {
                Node::Each(_) => true,
                Node::Block(_, body) | Node::Loop(body) => any(body),
                Node::Inst(_) | Node::Branch(..) => false,
            })
        }
        any(&self.body)
    }

    /// Returns what a value is in the names of the region before it was divided into phases.
    pub fn origin(&self, value: Value) -> Value {
        self.origins.get(&value).copied().unwrap_or(value)
    }

    /// Returns whether the checker hears of accesses when they happen.
    pub fn tells(&self) -> bool {
        let mut tells = false;
        each_inst(&self.body, &mut |inst| tells |= matches!(inst.op, Op::Touch(..)));
        tells
    }

    /// Returns whether it has loops.
    pub fn repeats(&self) -> bool {
        fn any(nodes: &[Node]) -> bool {
            nodes.iter().any(|node| match node {
                Node::Loop(_) => true,
                Node::Block(_, body) | Node::Each(body) => any(body),
                Node::Inst(_) | Node::Branch(..) => false,
            })
        }
        any(&self.body)
    }

    /// Returns whether it has atomics.
    pub fn has_updates(&self) -> bool {
        self.memories.iter().any(|m| m.updates)
    }

    /// Has all stores undone where the region leaves, if it has updates: those of the interpreter may have another order, which leads
    /// to other stores.
    pub fn undo_with_updates(&mut self) {
        if self.has_updates() {
            self.memories.iter_mut().filter(|m| m.stores).for_each(|m| m.loads = true);
        }
    }

    /// Returns whether it accesses local arrays, whose columns have a length that depends on the launch.
    pub fn has_own(&self) -> bool {
        self.memories.iter().any(|m| m.own)
    }
}

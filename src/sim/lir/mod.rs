//! LaneIR: the simulator's SSA-like IR for code that the lanes of a group run between two barriers. If barriers allow
//! it, a region may also cover an entire kernel.
//!
//! Input: *regions*, sequences of DeviceIR statements that no thread leaves by a jump and that print nothing
//! ([`build`]). Output: [`LaneRegion`]s, which `jit` compiles and `clk emit --stage lanes` prints ([`text`]). Main
//! idea: variance, active lanes and bounds checks are explicit in types and instructions, so [`verify`] can check
//! everything that the machine code relies on. `docs/internals/laneir.md` describes execution, barriers, values and
//! atomics.

pub(crate) mod build;
pub(crate) mod check_facts;
pub(crate) mod copy_coalescing;
pub(crate) mod fold_displacements;
pub(crate) mod full_group;
pub(crate) mod liveness;
pub(crate) mod phases;
pub(crate) mod strength_reduction;
pub(crate) mod text;
pub(crate) mod value_ranges;
pub(crate) mod verify;

#[cfg(test)]
pub(crate) mod tests;

use rustc_hash::FxHashMap;

use clk_ir::def::MemId;
use clk_scalar::Scalar;
use clk_scalar::ops::{AtomicOp, MathFn, WarpOp};

use super::register_ids::Reg;

/// A value of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct LaneValue(pub u32);

impl LaneValue {
    /// Placeholder for a missing operand or result.
    pub const NONE: LaneValue = LaneValue(u32::MAX);

    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LaneTy {
    I32,
    I64,
    V32,
    V64,
    Mask,
}

impl LaneTy {
    /// Returns whether a value of this type is the same in all lanes of a vector.
    pub fn is_scalar(self) -> bool {
        matches!(self, LaneTy::I32 | LaneTy::I64)
    }

    pub fn is_vector(self) -> bool {
        matches!(self, LaneTy::V32 | LaneTy::V64)
    }
}

/// The type and the properties of a value. Its definitions are instructions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueDef {
    pub ty: LaneTy,
    /// Whether the value may have several definitions.
    pub mutable: bool,
    /// Whether the value depends on the x coordinate of the vector's first lane. Always false for masks.
    pub depends_on_x: bool,
    /// Whether the value depends on the row of the vector. Always false for masks.
    pub depends_on_row: bool,
}

/// The label at the end of a block, to which branches jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Exit(pub u32);

/// A comparison of integers or floats. If a float operand is NaN, only `Ne` is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LaneComparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// How an operation interprets the bits of its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LaneElem {
    F32,
    F64,
    I32,
    U32,
    I64,
    U64,
}

impl LaneElem {
    /// Returns the element type of a 4-byte or 8-byte number type, which registers store unchanged. Returns `None` for
    /// other types.
    pub fn from_scalar(scalar: Scalar) -> Option<LaneElem> {
        Some(match scalar {
            Scalar::F32 => LaneElem::F32,
            Scalar::F64 => LaneElem::F64,
            Scalar::I32 => LaneElem::I32,
            Scalar::U32 => LaneElem::U32,
            Scalar::I64 => LaneElem::I64,
            Scalar::U64 => LaneElem::U64,
            _ => return None,
        })
    }

    pub fn is_wide(self) -> bool {
        matches!(self, LaneElem::F64 | LaneElem::I64 | LaneElem::U64)
    }

    pub fn is_float(self) -> bool {
        matches!(self, LaneElem::F32 | LaneElem::F64)
    }

    pub fn is_signed(self) -> bool {
        !matches!(self, LaneElem::U32 | LaneElem::U64)
    }

    pub fn vector_ty(self) -> LaneTy {
        if self.is_wide() { LaneTy::V64 } else { LaneTy::V32 }
    }

    pub fn scalar_ty(self) -> LaneTy {
        if self.is_wide() { LaneTy::I64 } else { LaneTy::I32 }
    }
}

/// Operations with two operands, on scalars and on vectors. Shift amounts wrap modulo the width. `Shr` is arithmetic
/// for signed elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LaneBinOp {
    Add,
    Sub,
    Mul,
    And,
    Or,
    Xor,
    Shl,
    Shr,
    /// Integer quotients round toward zero. An earlier check exits the region if an integer divisor is 0.
    Div,
    Rem,
    /// Minimum. NaN and signed zeros follow the rules of the language.
    Min,
    Max,
}

/// Vector operations with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LaneUnaryOp {
    Neg,
    Abs,
    Sqrt,
    Rsqrt,
    Floor,
    Ceil,
    Trunc,
    /// Rounds to the nearest integer, ties to even.
    Round,
}

/// The size of a scalar in memory, and how a load extends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum MemoryWidth {
    W4,
    W8,
    /// One unsigned byte, zero-extended to 32 bits by a load.
    U8,
    I8,
    U16,
    I16,
}

impl MemoryWidth {
    pub fn from_scalar(scalar: Scalar) -> Option<MemoryWidth> {
        Some(match scalar {
            Scalar::F32 | Scalar::I32 | Scalar::U32 => MemoryWidth::W4,
            Scalar::F64 | Scalar::I64 | Scalar::U64 => MemoryWidth::W8,
            Scalar::U8 => MemoryWidth::U8,
            Scalar::I8 => MemoryWidth::I8,
            Scalar::U16 | Scalar::F16 | Scalar::Bf16 => MemoryWidth::U16,
            Scalar::I16 => MemoryWidth::I16,
            _ => return None,
        })
    }

    pub fn size(self) -> i32 {
        match self {
            MemoryWidth::W4 => 4,
            MemoryWidth::W8 => 8,
            MemoryWidth::U8 | MemoryWidth::I8 => 1,
            MemoryWidth::U16 | MemoryWidth::I16 => 2,
        }
    }

    pub fn vector_ty(self) -> LaneTy {
        if self == MemoryWidth::W8 { LaneTy::V64 } else { LaneTy::V32 }
    }
}

/// How an access computes the addresses of its lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AddressForm {
    /// All lanes access the same element, at `address`.
    Uniform,
    /// The lanes of a row access contiguous elements. `address` is the address of the element for x = 0.
    Contiguous,
    /// Each lane adds its byte offset (a `v32`) to `address`.
    Indexed,
    /// Lanes access their own value in a column of a local array: the column at `address` plus this number of columns.
    LocalColumn(i32),
    /// Like [`AddressForm::LocalColumn`], but each lane also adds its byte offset (a `v32`).
    LocalIndexed(i32),
}

impl AddressForm {
    /// For local arrays, returns the number of columns to add to the address.
    pub fn column_offset(self) -> Option<i32> {
        match self {
            AddressForm::LocalColumn(columns) | AddressForm::LocalIndexed(columns) => Some(columns),
            AddressForm::Uniform | AddressForm::Contiguous | AddressForm::Indexed => None,
        }
    }

    /// Returns whether the access has an operand with a byte offset for each lane.
    pub fn has_offsets(self) -> bool {
        matches!(self, AddressForm::Indexed | AddressForm::LocalIndexed(_))
    }
}

/// A 64-bit word of the frame that the simulator fills in at each entry of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RegionInput {
    /// The value of a uniform register, truncated to the scalar type. A `bool` is 0 or 1.
    Uniform(Reg, Scalar),
    /// The address of a lane register's first lane.
    LaneRegister(Reg),
    /// The address of a memory's first element.
    BaseAddress(MemId),
    Extent(MemId, u8),
    Pitch(MemId, u8),
    /// 1 if no other worker thread of the simulator accesses the memory, otherwise 0.
    Exclusive(MemId),
    /// The size in bytes of a local array's column, which has a 4-byte value for each lane.
    ColumnBytes,
    /// For a memory whose elements each belong to one thread: the address of the initialization bytes, and the byte
    /// value that means "written".
    InitBytes(MemId),
    InitValue(MemId),
    /// `FirstCoord` and `LastCoord` are the smallest and the largest coordinate of the active lanes along an axis (0 is
    /// x, 1 is y, 2 is z).
    FirstCoord(u8),
    LastCoord(u8),
}

/// A slot in the frame that saves a value for each batch of a block, from one phase to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PhaseSlot {
    /// Index into [`LaneRegion::phase_slots`].
    pub number: u32,
    /// The variance of the saved value; see [`ValueDef`].
    pub depends_on_x: bool,
    pub depends_on_row: bool,
}

/// The operation of an instruction. Operands are in [`LaneInst::args`]; `m` denotes [`LaneInst::mask`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LaneOp {
    // Operations with scalar results
    Const(i64),
    Input(RegionInput),
    /// The coordinate of the vector's first lane along an axis, as `i32`.
    Coord(u8),
    Scalar(LaneBinOp, LaneElem),
    /// 1 if the comparison holds, otherwise 0.
    CompareScalar(LaneComparison, LaneElem),
    /// Sign-extends `i32` to `i64`.
    Sext,
    /// Zero-extends a `u32` to `i64`.
    Zext,
    Trunc,
    /// Computes `a != 0 ? b : c`.
    SelectScalar,
    /// The limit for [`LaneOp::CheckRow`]: if the smallest index is nonnegative and below the limit, the indices of all
    /// lanes are in bounds. Computes `max(0, extent - |c|·(lanes - 1))`, where `c` is the difference between the
    /// indices of adjacent lanes.
    RowLimit(i32),
    /// Loads an element that all lanes read.
    LoadScalar(MemoryWidth),
    /// Extracts the first lane of a vector whose lanes are all equal.
    FirstLane,
    /// 1 if the operand mask contains an active lane (`m`), otherwise 0.
    AnyActive,
    // Operations with vector results
    /// A constant vector, all of whose lanes have these bits.
    Splat(u64),
    /// Copies the scalar to all lanes.
    Broadcast,
    /// Copies an input to all lanes.
    BroadcastInput(RegionInput),
    /// `c` times the lane's index in its vector.
    Iota(i32),
    /// Loads the lanes of the interpreter's register at address `args[0]`.
    LoadReg,
    Vector(LaneBinOp, LaneElem),
    Unary(LaneUnaryOp, LaneElem),
    /// `a·b + c`, rounded once.
    Fma(LaneElem),
    /// Converts by the rules of `clk_scalar`.
    Convert(LaneElem, LaneElem),
    /// Converts the bits of an `f16` to `f32`, and rounds an `f32` to the bits of an `f16`.
    FromHalf,
    ToHalf,
    /// Calls a math function, which computes all lanes of a vector.
    Call(MathFn, LaneElem),
    /// Takes the lanes in the mask `a` from `b`, and the other lanes from `c`.
    Select,
    // Operations with mask results
    Compare(LaneComparison, LaneElem),
    MaskConst(bool),
    /// Contains all lanes if the scalar is not 0, otherwise none.
    MaskFromScalar,
    /// The lanes whose value is not 0.
    MaskFromLanes,
    /// All ones in the lanes of the mask, 0 elsewhere.
    LanesFromMask,
    MaskAnd,
    /// `a & !b`
    MaskAndNot,
    MaskOr,
    MaskXor,
    /// Complement. Bits beyond the vector's width are undefined.
    MaskNot,
    /// The lanes that entered the region.
    EntryMask,
    // Operations with side effects
    /// Assigns a mutable value; with a mask, only in the mask's lanes.
    Move,
    Load(MemoryWidth, AddressForm),
    Store(MemoryWidth, AddressForm),
    /// Atomic read-modify-write. Operands: address, `v32` of byte offsets, values. The result contains the elements'
    /// old values. A compare-exchange also reads the expected values from its destination.
    Atomic(AtomicOp, LaneElem),
    /// A warp operation of all lanes of each warp. The operand is a vector, or for votes a mask (with element type
    /// `u32`). Shuffles have the source lanes as second operand. Exits if only some lanes of a warp are active.
    Warp(WarpOp, LaneElem),
    /// Stores `args[1]` to the lanes `m` of the interpreter's register at address `args[0]`.
    StoreReg,
    /// Writes a uniform register of the interpreter: the scalar operand, or the first lane of a vector. The number
    /// counts the uniform registers in [`LaneRegion::writes`].
    Output(u32),
    /// Exits unless 0 <= index < extent.
    CheckUniform,
    /// Exits unless the index `row + c·x` of each active lane is in bounds. Operands: row (`i64`), limit, extent.
    CheckRow(i32),
    /// Exits unless the index of each active lane is in bounds. Operands: indices (`v32`), extent.
    CheckLanes,
    /// Used in the setup only. Exits unless both the smallest and the largest index of the group are in bounds.
    /// Operands: smallest index, largest index, extent.
    CheckRange,
    /// Exits if the operand mask contains an active lane (`m`). Without `m`, exits if the operand contains any lane.
    ExitIfAny,
    /// Exits if the scalar is 0.
    ExitIfZero,
    /// Used in the setup only. Writes the scalar to the word with this number in the region's [hoisted
    /// reports](HoistedReport).
    ReportWord(u32),
    /// The last instruction of the setup if there are hoisted reports. Passes them to the sanitizer, and exits if one
    /// of the accesses might be a fault.
    SubmitReports,
    /// Tells the sanitizer which elements the active lanes are about to access, and exits if the access might be a
    /// fault. Operands: the address and the byte offsets of the access. The number is an index into
    /// [`LaneRegion::checked_accesses`]. In a compiled kernel, it is the index of the access site.
    ReportAccess(MemoryWidth, AddressForm, u32),
    // Barriers and phases
    /// A block barrier: no thread of the block continues before all threads have arrived.
    Barrier,
    /// In a phase: saves a value of the current batch.
    SaveSlot(PhaseSlot),
    /// In a phase: loads the value saved for the current batch. Outside phases: loads a scalar that is the same in all
    /// batches.
    LoadSlot(PhaseSlot),
}

/// An instruction: an operation with its operands, result and mask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LaneInst {
    pub op: LaneOp,
    /// The result, or [`LaneValue::NONE`].
    pub dst: LaneValue,
    pub args: [LaneValue; 3],
    /// The active lanes; [`LaneValue::NONE`] means all lanes.
    pub mask: LaneValue,
}

impl LaneInst {
    pub fn new(op: LaneOp, dst: LaneValue, args: &[LaneValue]) -> LaneInst {
        let mut all = [LaneValue::NONE; 3];
        all[..args.len()].copy_from_slice(args);
        LaneInst { op, dst, args: all, mask: LaneValue::NONE }
    }

    pub fn with_mask(self, mask: LaneValue) -> LaneInst {
        LaneInst { mask, ..self }
    }

    /// Returns the values that the instruction reads. A masked move or vector operation also reads its destination,
    /// because it overwrites only some lanes.
    pub fn uses(&self) -> impl Iterator<Item = LaneValue> + '_ {
        let merges = matches!(self.op, LaneOp::Move | LaneOp::Vector(..)) && self.mask != LaneValue::NONE;
        let merged = if merges || self.is_compare_exchange() { self.dst } else { LaneValue::NONE };
        self.args.iter().copied().chain([self.mask, merged]).filter(|&v| v != LaneValue::NONE)
    }

    /// Returns whether this is a compare-exchange, which reads the expected values from its destination.
    pub fn is_compare_exchange(&self) -> bool {
        matches!(self.op, LaneOp::Atomic(AtomicOp::CompareExchange, _))
    }

    /// Returns whether the result depends on the vector's position in its row, and whether it depends on the row. `of`
    /// returns these two facts for an operand.
    pub fn variance(&self, of: impl Fn(LaneValue) -> (bool, bool)) -> (bool, bool) {
        match self.op {
            LaneOp::Coord(0) => (true, false),
            LaneOp::Coord(_) => (false, true),
            // The LaneIR rules require these results to be the same in all lanes of all vectors.
            LaneOp::AnyActive | LaneOp::FirstLane => (false, false),
            LaneOp::LoadSlot(slot) => (slot.depends_on_x, slot.depends_on_row),
            // A contiguous load adds the x coordinate to its address operand, so the result depends on x.
            LaneOp::Load(_, AddressForm::Contiguous) => (true, of(self.args[0]).1),
            LaneOp::Load(_, AddressForm::LocalColumn(_) | AddressForm::LocalIndexed(_)) => (true, true),
            LaneOp::LoadReg | LaneOp::Select | LaneOp::LanesFromMask | LaneOp::Atomic(..) | LaneOp::Warp(..) => {
                (true, true)
            }
            LaneOp::Move | LaneOp::Vector(..) if self.mask != LaneValue::NONE => (true, true),
            _ => self.args.iter().filter(|&&v| v != LaneValue::NONE).fold((false, false), |(x, row), &v| {
                let (depends_on_x, depends_on_row) = of(v);
                (x | depends_on_x, row | depends_on_row)
            }),
        }
    }

    /// Returns whether the instruction may exit the region.
    pub fn may_exit(&self) -> bool {
        matches!(
            self.op,
            LaneOp::CheckUniform
                | LaneOp::CheckRow(_)
                | LaneOp::CheckLanes
                | LaneOp::CheckRange
                | LaneOp::ExitIfAny
                | LaneOp::ExitIfZero
                | LaneOp::SubmitReports
                | LaneOp::ReportAccess(..)
                | LaneOp::Warp(..)
        )
    }
}

/// Condition of a branch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum BranchCond {
    Always,
    /// A comparison of scalars.
    Scalar(LaneComparison, LaneElem, LaneValue, LaneValue),
    /// Takes the branch if the mask is empty.
    MaskEmpty(LaneValue),
}

impl BranchCond {
    pub fn uses(&self) -> impl Iterator<Item = LaneValue> {
        let (a, b) = match *self {
            BranchCond::Always => (LaneValue::NONE, LaneValue::NONE),
            BranchCond::Scalar(_, _, a, b) => (a, b),
            BranchCond::MaskEmpty(mask) => (mask, LaneValue::NONE),
        };
        [a, b].into_iter().filter(|&v| v != LaneValue::NONE)
    }
}

/// A node of the structured control flow.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LaneNode {
    Inst(LaneInst),
    /// A block. Branches inside the block may jump to its end.
    Block(Exit, Vec<LaneNode>),
    /// An endless loop. Only a branch to the end of an enclosing block leaves it.
    Loop(Vec<LaneNode>),
    /// A phase. Its body runs for one batch of the block after another.
    Phase(Vec<LaneNode>),
    /// Jumps to the end of an enclosing block.
    Branch(BranchCond, Exit),
}

/// Calls `f` with every instruction, in text order.
pub(crate) fn for_each_inst<'a>(nodes: &'a [LaneNode], f: &mut impl FnMut(&'a LaneInst)) {
    for node in nodes {
        match node {
            LaneNode::Inst(inst) => f(inst),
            LaneNode::Block(_, body) | LaneNode::Loop(body) | LaneNode::Phase(body) => for_each_inst(body, f),
            LaneNode::Branch(..) => {}
        }
    }
}

/// Like [`for_each_inst`], but `f` may change the instructions.
pub(crate) fn for_each_inst_mut(nodes: &mut [LaneNode], f: &mut impl FnMut(&mut LaneInst)) {
    for node in nodes {
        match node {
            LaneNode::Inst(inst) => f(inst),
            LaneNode::Block(_, body) | LaneNode::Loop(body) | LaneNode::Phase(body) => for_each_inst_mut(body, f),
            LaneNode::Branch(..) => {}
        }
    }
}

/// A region: the unit that the JIT compiles.
#[derive(Clone, Debug)]
pub(crate) struct LaneRegion {
    pub values: Vec<ValueDef>,
    /// Straight-line code that runs once per entry, before the first batch.
    pub setup: Vec<LaneInst>,
    pub body: Vec<LaneNode>,
    /// The lane registers (registers with one value per lane) of the interpreter that the region reads.
    pub reads: Vec<Reg>,
    pub writes: Vec<WrittenRegister>,
    pub memories: Vec<RegionMemory>,
    /// Memories in which only one thread may access each element; a launch that does not guarantee this does not enter
    /// the region. The flag is set if the memory has [initialization bytes](RegionInput::InitBytes).
    pub owned: Vec<(MemId, bool)>,
    /// Accesses that the setup reports to the sanitizer, in the order of the reports.
    pub reports: Vec<HoistedReport>,
    /// Accesses that the sanitizer checks, in program order. Each has the memory and a flag that is set for stores.
    pub checked_accesses: Vec<(MemId, bool)>,
    /// The memory and the required bounds checks for each access address. [`verify`] needs them.
    pub accesses: Vec<AccessChecks>,
    /// Whether some vector has 8-byte lanes.
    pub wide: bool,
    /// The extents of the group, x first, 0 if unknown. Set if the region is specialized for full groups, all of whose
    /// lanes are active.
    pub full_group: Option<[u32; 3]>,
    /// Whether the region has block barriers. If so, only whole blocks may enter it.
    pub has_barriers: bool,
    /// Number of regions that cover parts of this region's statements. They directly precede this region in the
    /// interpreter's list of regions.
    pub inner: u32,
    /// The type of the value in each phase slot.
    pub phase_slots: Vec<LaneTy>,
    /// Maps each value that was created by renaming for a phase to the original value.
    pub phase_origins: FxHashMap<LaneValue, LaneValue>,
}

/// A memory that a region accesses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RegionMemory {
    pub memory: MemId,
    pub loads: bool,
    pub stores: bool,
    /// Whether the memory is a local array: each thread has its own copy.
    pub own: bool,
    /// Whether the region zeroes the memory before any other access, so its old content does not matter.
    pub fresh: bool,
    /// Whether the region updates the memory atomically. `loads` and `stores` are then set too.
    pub updates: bool,
    /// Whether a side exit restores the entire memory from a copy.
    pub restored: bool,
}

impl RegionMemory {
    /// Returns whether, after a side exit, the interpreter could read elements that the region has stored. Such stores
    /// must be logged and undone.
    pub fn is_reloaded(&self) -> bool {
        self.loads && self.stores && !self.fresh && !self.restored
    }
}

/// The bounds checks that must precede each load or store with this address and these offsets.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AccessChecks {
    pub memory: MemId,
    pub address: LaneValue,
    /// Byte offsets; [`LaneValue::NONE`] if the address form has none.
    pub offsets: LaneValue,
    /// Number of columns that the access adds to the address ([`AddressForm::LocalColumn`]); 0 for other address forms.
    pub columns: i32,
    pub checks: Vec<LaneCheck>,
}

impl AccessChecks {
    pub fn values(&self) -> impl Iterator<Item = LaneValue> + '_ {
        let own = [self.address, self.offsets].into_iter();
        own.chain(self.checks.iter().flat_map(|check| check.args)).filter(|&v| v != LaneValue::NONE)
    }

    /// Returns mutable references to the address, the offsets and the operands of the checks, for passes that rename
    /// values.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut LaneValue> {
        let own = [&mut self.address, &mut self.offsets].into_iter();
        own.chain(self.checks.iter_mut().flat_map(|check| &mut check.args)).filter(|v| **v != LaneValue::NONE)
    }
}

/// The operation and the operands of a check, without its mask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LaneCheck {
    pub op: LaneOp,
    pub args: [LaneValue; 3],
}

impl LaneCheck {
    pub fn to_inst(self) -> LaneInst {
        LaneInst { op: self.op, dst: LaneValue::NONE, args: self.args, mask: LaneValue::NONE }
    }
}

/// An access that is reported to the sanitizer before the body runs. All lanes perform the access in all iterations of
/// the enclosing loops. A sequence of 64-bit words in the frame describes the accessed elements:
/// - the address for x = y = z = 0 in the first iteration of all loops,
/// - the byte strides along x, y and z,
/// - for each enclosing loop, outermost first: the last iteration's number and the byte stride between iterations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct HoistedReport {
    pub memory: MemId,
    pub store: bool,
    /// Index into [`LaneRegion::checked_accesses`]. In a compiled kernel, the index of the access site.
    pub note: u32,
    /// Index of the report's first word among the words of all hoisted reports.
    pub first: u32,
    pub loops: u8,
    /// Number of the outermost loop that contains the access. Each access outside loops has its own number.
    pub nest: u32,
}

/// `REPORTED_LOOPS` is the maximum number of loops around an access with a hoisted report. `REPORT_WORDS` is the number
/// of words in such a report.
pub(crate) const REPORTED_LOOPS: usize = 3;
pub(crate) const REPORT_WORDS: u32 = 4 + 2 * REPORTED_LOOPS as u32;

/// A register of the interpreter that a region writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct WrittenRegister {
    pub reg: Reg,
    pub scalar: Scalar,
    pub uniform: bool,
}

/// Returns whether a loop contains an atomic whose result is used. Such a loop may be a spin loop.
fn has_atomic_in_loop(nodes: &[LaneNode], inside: bool) -> bool {
    nodes.iter().any(|node| match node {
        LaneNode::Inst(inst) => inside && matches!(inst.op, LaneOp::Atomic(..)) && inst.dst != LaneValue::NONE,
        LaneNode::Block(_, body) | LaneNode::Phase(body) => has_atomic_in_loop(body, inside),
        LaneNode::Loop(body) => has_atomic_in_loop(body, true),
        LaneNode::Branch(..) => false,
    })
}

impl LaneRegion {
    pub fn ty(&self, value: LaneValue) -> LaneTy {
        self.values[value.index()].ty
    }

    /// Returns the constants that the setup defines.
    pub fn setup_constants(&self) -> FxHashMap<LaneValue, i64> {
        let constant = |inst: &LaneInst| match inst.op {
            LaneOp::Const(value) => Some((inst.dst, value)),
            _ => None,
        };
        self.setup.iter().filter_map(constant).collect()
    }

    /// Returns whether the region may take a side exit after a side effect. A loop that may spin on an atomic exits
    /// when the undo log is full. The interpreter then lets other lanes make progress.
    pub fn may_exit(&self) -> bool {
        let mut leaves = has_atomic_in_loop(&self.body, false);
        for_each_inst(&self.body, &mut |inst| leaves |= inst.may_exit());
        leaves
    }

    /// Returns the memory that an atomic instruction updates, or `None` if no entry of `accesses` matches.
    pub fn atomic_memory(&self, atomic: &LaneInst) -> Option<MemId> {
        let [address, offsets, _] = atomic.args;
        let listed = |access: &&AccessChecks| {
            (access.address, access.offsets) == (address, offsets)
                && self.memories.iter().any(|m| m.memory == access.memory && m.updates)
        };
        self.accesses.iter().find(listed).map(|access| access.memory)
    }

    /// Returns the index in [`LaneRegion::memories`] of the memory whose access a [`LaneOp::ReportAccess`] reports.
    /// Returns `None` unless the region only loads from this memory.
    pub fn read_only_memory_index(&self, touch: &LaneInst) -> Option<i32> {
        let [address, offsets, _] = touch.args;
        let access = self.accesses.iter().find(|access| (access.address, access.offsets) == (address, offsets))?;
        let at = self.memories.iter().position(|m| m.memory == access.memory && !m.stores && !m.updates)?;
        Some(at as i32)
    }

    /// Returns whether some stores must be logged, so that a side exit can undo them.
    pub fn needs_store_log(&self) -> bool {
        self.memories.iter().any(RegionMemory::is_reloaded)
    }

    /// Returns whether this store must be logged if the region may exit.
    pub fn is_store_logged(&self, store: &LaneInst) -> bool {
        let reloaded = |memory: MemId| self.memories.iter().any(|m| m.memory == memory && m.is_reloaded());
        self.accesses.iter().filter(|access| access.address == store.args[0]).all(|access| reloaded(access.memory))
    }

    /// Returns whether the region has warp operations. If so, batches must contain whole warps.
    pub fn has_warp_ops(&self) -> bool {
        let mut warps = false;
        for_each_inst(&self.body, &mut |inst| warps |= matches!(inst.op, LaneOp::Warp(..)));
        warps
    }

    /// Returns whether the body is divided into phases.
    pub fn has_phases(&self) -> bool {
        fn any(nodes: &[LaneNode]) -> bool {
            nodes.iter().any(|node| match node {
                LaneNode::Phase(_) => true,
                LaneNode::Block(_, body) | LaneNode::Loop(body) => any(body),
                LaneNode::Inst(_) | LaneNode::Branch(..) => false,
            })
        }
        any(&self.body)
    }

    /// Returns the original of a value that was created by renaming for a phase, or the value itself.
    pub fn phase_origin(&self, value: LaneValue) -> LaneValue {
        self.phase_origins.get(&value).copied().unwrap_or(value)
    }

    /// Returns whether the body contains a [`LaneOp::ReportAccess`].
    pub fn reports_accesses(&self) -> bool {
        let mut reports_accesses = false;
        for_each_inst(&self.body, &mut |inst| reports_accesses |= matches!(inst.op, LaneOp::ReportAccess(..)));
        reports_accesses
    }

    /// Returns whether the body contains a loop.
    pub fn has_loops(&self) -> bool {
        fn any(nodes: &[LaneNode]) -> bool {
            nodes.iter().any(|node| match node {
                LaneNode::Loop(_) => true,
                LaneNode::Block(_, body) | LaneNode::Phase(body) => any(body),
                LaneNode::Inst(_) | LaneNode::Branch(..) => false,
            })
        }
        any(&self.body)
    }

    /// Returns whether the region updates some memory atomically.
    pub fn has_atomics(&self) -> bool {
        self.memories.iter().any(|m| m.updates)
    }

    /// If the region has atomics, marks all stored memories as loaded, so that a side exit undoes their stores. The
    /// interpreter may run the atomics in a different order and then store different elements.
    pub fn restore_stores_if_atomic(&mut self) {
        if self.has_atomics() {
            self.memories.iter_mut().filter(|m| m.stores).for_each(|m| m.loads = true);
        }
    }

    /// Returns whether the region accesses local arrays. The size of their columns depends on the launch.
    pub fn has_local_arrays(&self) -> bool {
        self.memories.iter().any(|m| m.own)
    }
}

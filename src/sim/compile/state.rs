//! The state of code generation: values, open regions, annotations of the ops emitted so far, tables.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::uses::ExprUses;
use crate::code::*;
use crate::group::Op;
use crate::lanes::fused::{ChainOp, Maskable};
use crate::strip::StripOpcode as Act;
use clk_ir::def::*;
use clk_ir::variance::{StmtNumber, Variances};
use clk_runtime::Isa;
use clk_scalar::Scalar;

/// The section that ops are appended to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum CodeSection {
    Prologue,
    Body,
}

/// One component of an expression's value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CompiledValue {
    /// The bits of a lane, the same in all lanes.
    Const(u64),
    Reg(Reg),
    /// An `i32` or `u32`.
    Affine(Box<CompiledAffine>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CompiledAffine {
    /// A constant or a uniform register, as are the coefficients.
    pub base: CompiledValue,
    pub coef: [CompiledValue; AXES],
}

pub(crate) const ZERO: CompiledValue = CompiledValue::Const(0);

/// Register classes: registers of a class can replace one another.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CompilerRegClass {
    Uniform,
    UniformWide,
    Lanes,
    LanesWide,
    View,
}

/// A single-entry range of code with the mask of the lanes inside of it.
pub(crate) struct MaskScope {
    /// The label that `Break` (or, for an iteration of a loop, `Continue`) names.
    pub(super) label: Option<Label>,
    pub(super) kind: RegionKind,
    /// The mask of the lanes inside.
    pub(super) mask: MaskId,
    /// The mask belongs to this region, not to a surrounding one.
    pub(super) owns: bool,
    /// Jumps to the end of the region, to be patched.
    pub ends: Vec<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum RegionKind {
    Plain,
    /// One iteration of a loop.
    Iteration,
}

impl MaskScope {
    pub fn new(label: Option<Label>, mask: MaskId) -> MaskScope {
        MaskScope { label, kind: RegionKind::Plain, mask, owns: true, ends: vec![] }
    }
}

/// The role of an op with regard to strips.
#[derive(Clone, Debug, Default)]
pub(crate) enum StripRole {
    /// Ends a strip.
    #[default]
    Other,
    /// Computes lanes of `d`; if `masked`, only the active ones.
    Lanes { d: Reg, tree: LaneTree, masked: bool },
    /// Makes mask `mask` of the lanes where all conditions hold (`negate`: where the only condition does not hold).
    Keep { conditions: Vec<Reg>, negate: bool, mask: MaskId },
    /// Jumps back to the start of a loop with the same trip count in all lanes.
    Next,
    /// Stores a register to rows of 4-byte elements.
    Store { value: Reg, memory: u32 },
    /// Jumps back to the start of a loop while its mask has lanes.
    Again { mask: MaskId },
    /// Reads nothing that ops of strips write, so that it can be hoisted above the strip.
    Early { writes: Vec<Reg> },
}

/// The expression that computes lanes.
#[derive(Clone, Debug)]
pub(crate) enum LaneTree {
    Reg(Reg),
    /// An operation; it takes the first operand in an accumulator and the others in memory.
    Act(Act, Vec<LaneTree>),
}

/// What later passes look for among ops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OpClass {
    #[default]
    Other,
    /// Reports an access to the sanitizer.
    ReportedAccess,
    /// Loads by affine indices, from memory that is not local.
    AffineLoad,
}

/// Annotation of an op of the body.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpAnnotation {
    pub role: StripRole,
    pub sort: OpClass,
    /// The number of statements begun when the op was written.
    pub number: StmtNumber,
    pub dies: Dies,
}

/// The end of the live range of an op's result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Dies {
    #[default]
    Unknown,
    Never,
    /// Last used by this statement.
    After(StmtNumber),
}

/// A description of the op that was written last.
#[derive(Clone, Debug)]
pub(crate) struct LastOp {
    /// Its position; it still is the last op if nothing follows.
    pub(super) at: usize,
    pub(super) d: Reg,
    pub(super) what: PeepholePattern,
}

#[derive(Clone, Debug)]
pub enum PeepholePattern {
    /// `((a op b) link c) …`
    Chain {
        op: BinOp,
        links: Vec<ChainOp>,
        regs: Vec<Reg>,
    },
    /// A uniform comparison of 4-byte operands.
    Compare {
        op: BinOp,
        scalar: Scalar,
        a: Reg,
        b: Reg,
    },
    Not {
        a: Reg,
    },
    And {
        a: Reg,
        b: Reg,
    },
    Maskable {
        function: Maskable,
        a: Reg,
        b: Reg,
    },
    /// A comparison of the two affine indices of access `x`.
    Affine {
        op: BinOp,
        scalar: Scalar,
        x: u32,
    },
}

pub struct KernelCompiler<'a> {
    pub(super) f: &'a Function,
    pub(super) kernel: &'a Kernel,
    pub(super) isa: Isa,
    pub(super) variances: Rc<Variances>,
    pub(super) uses: ExprUses,
    pub(super) facts: KernelFacts,
    /// The tables of the compiled kernel so far.
    pub(super) tables: KernelTables,
    pub(super) writer: OpWriter,
    pub(super) registers: RegisterAllocator,
    pub(super) values: ValueTable,
    pub(super) flow: FlowState,
    pub(super) viewing: MemoryViews,
    pub(super) lane_regions: LaneRegionState,
    pub(super) profile: ProfileState,
}

/// What analyses have found out about the kernel.
#[derive(Default)]
pub(super) struct KernelFacts {
    /// Operations that range analysis proved free of overflow.
    pub(super) exact: FxHashSet<ExprId>,
    /// Whether the kernel has barriers or warp operations.
    pub(super) has_meetings: bool,
    /// Results of atomic operations that influence control flow or addresses.
    pub(super) deciding: FxHashSet<ExprId>,
    /// Results of atomic operations that a spin loop retries until they succeed.
    pub(super) taking: FxHashSet<ExprId>,
    /// For each memory: whether the kernel stores to it or updates it atomically.
    pub(super) changes: Vec<bool>,
    /// The memory and indices of each store; empty if memory is not checked.
    pub(super) stored: FxHashSet<(MemId, Vec<ExprId>)>,
    /// Whether some loop may wait for other threads, so that the warps of a block may have to run separately.
    pub(super) waits: bool,
}

/// The ops emitted so far, with their annotations.
pub(super) struct OpWriter {
    pub(super) section: CodeSection,
    pub(super) prologue: Vec<Op>,
    /// Registers of lanes that the prologue computes from coordinates alone, with the access entry of their affine
    /// form; numbers of warps have none.
    pub(super) numbers: Vec<(Reg, Option<u32>)>,
    pub(super) ops: Vec<Op>,
    /// One for each op of the body.
    pub(super) annotations: Vec<OpAnnotation>,
    /// Ops of the body whose `x` is a code position.
    pub(super) jumps: Vec<usize>,
    pub(super) last: Option<LastOp>,
    /// The value of `last` before a negation was written.
    pub(super) before_not: Option<LastOp>,
}

/// The registers that values live in. [`RegisterTables`] defines them.
pub(super) struct RegisterAllocator {
    /// By register: the number of values that live in it; [`PERMANENT`](super::PERMANENT) registers are never freed.
    pub(super) held: Vec<u32>,
    /// By class: the free registers.
    pub(super) free: Vec<Vec<Reg>>,
    pub(super) fresh: Vec<Reg>,
    pub(super) uniform_bytes: u32,
    pub(super) columns: u32,
    pub(super) classes: Vec<CompilerRegClass>,
}

/// The values of expressions and locals.
#[derive(Default)]
pub(super) struct ValueTable {
    pub(super) by_expr: FxHashMap<ExprId, Vec<CompiledValue>>,
    pub(super) locals: Vec<Vec<CompiledValue>>,
    pub(super) consts: FxHashMap<(bool, u64), Reg>,
    pub(super) specials: FxHashMap<Special, Reg>,
    /// Lane registers of free affine values, computed in the prologue.
    pub(super) spread: FxHashMap<ExprId, Reg>,
    /// Reads of locals that alias the local's own register.
    pub(super) aliases: Vec<(ExprId, LocalId)>,
    /// Values that were computed in the register of the local that they are then written to.
    pub(super) in_place: FxHashSet<ExprId>,
    /// The preferred destination of the next result.
    pub(super) target: Option<Reg>,
}

/// The current statement, and the control flow around it. [`RegisterTables::masks`] has the register of each mask.
#[derive(Default)]
pub(super) struct FlowState {
    pub(super) stmt: StmtNumber,
    pub(super) mask: MaskId,
    pub(super) free_masks: Vec<MaskId>,
    pub(super) scopes: Vec<MaskScope>,
    pub(super) leaked: FxHashSet<MaskId>,
}

/// Registers that alias ("view") elements of a memory.
#[derive(Default)]
pub(super) struct MemoryViews {
    pub(super) is_allowed: bool,
    /// Each register with the memory.
    pub(super) regs: Vec<(Reg, u32)>,
    /// The register that views the elements that strips store to.
    pub(super) store: Option<Reg>,
}

/// The building of LaneIR regions.
#[derive(Default)]
pub(super) struct LaneRegionState {
    /// Whether regions are built for machine code.
    pub(super) is_enabled: bool,
    /// What checks need to know of regions.
    pub(super) check_facts: Rc<crate::lir::check_facts::CheckFacts>,
    /// Whether the code of a region is being written.
    pub(super) is_inside: bool,
    /// Like `is_inside`, for a region with barriers, which contains other regions.
    pub(super) is_inside_phases: bool,
    /// The number of reads and writes of each local.
    pub(super) references: FxHashMap<LocalId, u32>,
}

/// The counting of statements for profiles.
#[derive(Default)]
pub(super) struct ProfileState {
    pub(super) segment: Option<u32>,
    /// Where the next segment branches off.
    pub(super) branch: Option<(MaskId, clk_runtime::profile::Branch)>,
}

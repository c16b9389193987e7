//! The state of code generation: values, open regions, annotations of the ops emitted so far, tables.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::uses::ExprUses;
use crate::access_site::AccessSite;
use crate::code::AccessOperands;
use crate::code::*;
use crate::group::Op;
use crate::lanes::fused::{ChainOp, Maskable};
use crate::lanes::slow::SlowDef;
use crate::strip::{StripDef, StripOpcode as Act};
use crate::tiles::{CopyDef, ProductDef};
use clk_base::source::Span;
use clk_ir::Checks;
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
    Affine(Box<Affine>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Affine {
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
    pub(super) a: Rc<Variances>,
    /// Regions are built for machine code.
    pub(super) jit: bool,
    /// What checks need to know of regions.
    pub(super) guards: Rc<crate::lir::check_facts::CheckFacts>,
    /// The code of a region is being written.
    pub(super) in_region: bool,
    /// The same of a region with barriers, which has other regions inside.
    pub(super) in_together: bool,
    /// Reads and writes of each local.
    pub(super) references: FxHashMap<LocalId, u32>,
    pub(super) regions_of_lanes: Vec<crate::lir::LaneRegion>,
    pub(super) uses: ExprUses,
    pub(super) part: CodeSection,
    pub(super) prologue: Vec<Op>,
    /// Registers of lanes that the prologue computes from coordinates alone, with the access entry of their affine
    /// form; numbers of warps have none.
    pub(super) numbers: Vec<(Reg, Option<u32>)>,
    pub(super) ops: Vec<Op>,
    /// One for each op of the body.
    pub(super) marks: Vec<OpAnnotation>,
    /// Ops of the body whose `x` is a code position.
    pub(super) jumps: Vec<usize>,
    // Registers
    pub(super) regs: Vec<RegDef>,
    /// By register: the number of values that live in it; [`PERMANENT`](super::PERMANENT) registers are never freed.
    pub(super) held: Vec<u32>,
    pub(super) free: Vec<Vec<Reg>>,
    pub(super) fresh: Vec<Reg>,
    pub(super) uniform_bytes: u32,
    pub(super) columns: u32,
    pub(super) kinds: Vec<CompilerRegClass>,
    // Values
    pub(super) vals: FxHashMap<ExprId, Vec<CompiledValue>>,
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
    // Flow
    pub(super) number: StmtNumber,
    pub(super) masks: Vec<Reg>,
    pub(super) free_masks: Vec<MaskId>,
    pub(super) mask: MaskId,
    pub(super) regions: Vec<MaskScope>,
    pub(super) leaked: FxHashSet<MaskId>,
    // Tables
    pub(super) launch: Vec<(Reg, Special)>,
    pub(super) block: Vec<(Reg, Special)>,
    pub(super) memories: Vec<MemoryDef>,
    pub(super) accesses: Vec<AccessOperands>,
    pub(super) spans: Vec<Span>,
    pub(super) region_spans: Vec<u32>,
    pub(super) messages: Vec<PrintMessage>,
    pub(super) slow: Vec<SlowDef>,
    pub(super) atomics: Vec<AtomicDef>,
    pub(super) warps: Vec<WarpDef>,
    pub(super) loops: Vec<ForDef>,
    pub(super) strips: Vec<StripDef>,
    pub(super) products: Vec<ProductDef>,
    pub(super) copies: Vec<CopyDef>,
    pub(super) lists: Vec<Vec<MaskId>>,
    pub(super) straight: bool,
    pub(super) may_view: bool,
    /// Registers that may alias ("view") elements of a memory, and that memory.
    pub(super) views: Vec<(Reg, u32)>,
    /// The register that views the elements that strips store to.
    pub(super) aim: Option<Reg>,
    pub(super) touched_columns: usize,
    pub(super) last: Option<LastOp>,
    /// The value of `last` before a negation was written.
    pub(super) before_not: Option<LastOp>,
    // Tables of checks
    pub(super) checks: Checks,
    /// The tile of a warp, if what warps cost is counted.
    pub(super) counted: Option<[u32; 2]>,
    /// What has been counted of statements, if everything is; and where the next segment branches off.
    pub(super) segments: Vec<clk_runtime::profile::StraightLineSegment>,
    pub(super) segment: Option<u32>,
    pub(super) branch: Option<(MaskId, clk_runtime::profile::Branch)>,
    pub(super) notes: Vec<AccessSite>,
    pub(super) watched: Vec<Option<TrackedMemory>>,
    pub(super) births: Vec<NanCheck>,
    pub(super) wait_defs: Vec<PollingLoopDef>,
    /// Operations that range analysis proved free of overflow.
    pub(super) exact: FxHashSet<ExprId>,
    /// The kernel has barriers or warp operations.
    pub(super) meets: bool,
    pub(super) warp_ops: bool,
    /// Results of atomic operations that influence control flow or addresses.
    pub(super) deciding: FxHashSet<ExprId>,
    /// Results of atomic operations that a spin loop retries until they succeed.
    pub(super) taking: FxHashSet<ExprId>,
    pub(super) syncs: bool,
    pub(super) ordered: bool,
    pub(super) polls: bool,
    pub(super) has_spin_loop: bool,
    /// By memory: the kernel stores to it or updates it atomically.
    pub(super) changes: Vec<bool>,
    /// The memory and indices of each store; empty if memory is not checked.
    pub(super) stored: FxHashSet<(MemId, Vec<ExprId>)>,
    /// Some loop may wait for other threads, so that the warps of a block may have to run separately.
    pub(super) waits: bool,
    /// All barriers are emitted.
    pub(super) splits: bool,
}

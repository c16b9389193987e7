//! Code generation of the simulator: prepared DeviceIR to flat code.
//!
//! - `clk_ir::variance` classifies how values vary between lanes, `uses` finds live ranges, `value` allocates
//!   registers, `expr` and `place` emit expressions and memory accesses, `flow` emits statements; `fuse` is a peephole
//!   pass, and `strip` combines whole runs of arithmetic.
//! - The code has two sections: a prologue, which computes what does not change during the run of a group (lanes of the
//!   thread's coordinates, extents of shared memory), and the body.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::code::AccessOperands;
use super::code::*;
use super::control_flow;
use super::group::{Op, OpFn};
use super::lanes::{OpStep, pick, plain};
use super::verify;
use clk_base::source::Span;
use clk_ir::def::*;
use clk_ir::launch_coverage::CoverageGaps;
use clk_ir::variance::{self, StmtNumber, Variance, is_32_bit_integer};
use clk_ir::{Checks, PreparedKernel, RaceFreedom, launch_coverage, memory_transactions, nan_bits, ranges};
use clk_runtime::Isa;

mod decide;
mod events;
mod expand;
mod expr;
mod flow;
mod fuse;
mod order;
pub(crate) mod place;
mod region;
mod segment;
pub(crate) mod state;
mod strip;
mod tiles;
mod tree;
mod uses;
mod value;

use state::{
    CodeSection, CompiledValue, FlowState, KernelCompiler, KernelFacts, LaneRegionState, MaskScope, MemoryViews,
    OpAnnotation, OpWriter, ProfileState, RegisterAllocator, ValueTable,
};

/// A compiled kernel: its ops, and the tables that they refer to.
pub struct CompiledKernel {
    pub ops: Vec<Op>,
    pub code: KernelTables,
}

/// The kernel needs more registers than ops have numbers for.
#[derive(Debug)]
pub struct TooLarge;

/// Compiles a kernel for an instruction set.
pub fn compile(kernel: &PreparedKernel, isa: Isa, jit: bool) -> Result<CompiledKernel, TooLarge> {
    compile_for(kernel, isa, jit, &[])
}

/// Compiles a kernel for launches in which threads do not race on some of its memories.
pub(crate) fn compile_for(
    kernel: &PreparedKernel,
    isa: Isa,
    jit: bool,
    apart: &[RaceFreedom],
) -> Result<CompiledKernel, TooLarge> {
    let module: &Module = &kernel.module;
    let mut f = module.functions[module.kernel.body].clone();
    if kernel.cost_counting.is_none() {
        nan_bits::canonicalize_nans(&mut f);
        // The expansions wrap, and checks refer to the operations of the program.
        if !kernel.checks.any() {
            f = expand::expand(f);
        }
    }
    // The first operation that gives a NaN is reported, so that their order is kept.
    if !kernel.checks.nan {
        f = order::reorder(f);
    }
    let mut c = KernelCompiler::new(&f, &module.kernel, isa);
    c.tables.events.counted_warps = kernel.cost_counting.map(|_| memory_transactions::warp_tile(module));
    c.instrument(kernel.checks, apart);
    if kernel.checks.arithmetic {
        c.facts.exact = ranges::analyze(module, ranges::RangeAssumptions::default()).exact;
    }
    // The interpreter looks at each access of threads that synchronize by fences or poll.
    c.lane_regions.is_enabled =
        jit && !(kernel.checks.memory && c.facts.waits) && c.tables.events.counted_warps.is_none();
    if c.lane_regions.is_enabled {
        c.lane_regions.check_facts = c.guards_of_regions().into();
        c.lane_regions.references = uses::references(&f.body, &f);
    }
    c.memories();
    c.run();
    c.finish()
}

/// The use count of registers that are never freed.
const PERMANENT: u32 = u32::MAX / 2;

impl<'a> KernelCompiler<'a> {
    fn new(f: &'a Function, kernel: &'a Kernel, isa: Isa) -> Self {
        let variances = variance::analyze(f);
        let mut c = KernelCompiler {
            f,
            kernel,
            isa,
            uses: uses::uses(f, &variances),
            variances: Rc::new(variances),
            facts: KernelFacts::default(),
            tables: KernelTables {
                properties: KernelProperties { is_straight: true, ..KernelProperties::default() },
                ..KernelTables::default()
            },
            writer: OpWriter {
                section: CodeSection::Body,
                prologue: vec![],
                numbers: vec![],
                ops: vec![],
                annotations: vec![],
                jumps: vec![],
                last: None,
                before_not: None,
            },
            registers: RegisterAllocator {
                held: vec![],
                free: vec![vec![]; 5],
                fresh: vec![],
                uniform_bytes: 0,
                columns: 0,
                classes: vec![],
            },
            values: ValueTable::default(),
            flow: FlowState::default(),
            viewing: MemoryViews::default(),
            lane_regions: LaneRegionState::default(),
            profile: ProfileState::default(),
        };
        let all = c.new_mask();
        debug_assert_eq!(all, 0);
        c
    }

    fn memories(&mut self) {
        let sums = uses::sums(self.f);
        for (id, memory) in self.f.memories.iter() {
            let kind = match memory.space {
                MemorySpace::Global { param, .. } | MemorySpace::Param { position: param, .. } => {
                    MemoryKind::Global(param)
                }
                MemorySpace::Shared => MemoryKind::Shared,
                MemorySpace::Local => MemoryKind::Local,
                MemorySpace::Constant => MemoryKind::Constant,
            };
            let place = self.span(memory.span);
            self.tables.memories.push(MemoryDef {
                name: memory.name.clone(),
                kind,
                layout: memory.layout.clone(),
                extents: memory.extents.clone(),
                constants: if kind == MemoryKind::Constant { memory.bytes() } else { vec![] },
                extent_regs: vec![NONE; memory.extents.len()],
                writable: match memory.space {
                    MemorySpace::Global { access, .. } | MemorySpace::Param { access, .. } => {
                        access != clk_ir::def::Access::In
                    }
                    MemorySpace::Shared | MemorySpace::Local => true,
                    MemorySpace::Constant => false,
                },
                // Per-worker partial sums would hide a signed overflow, or an infinity, of the total.
                only_summed: sums[id.index()] && {
                    let scalar = memory.layout.leaves[0].ty.scalar();
                    !(self.tables.events.checks.arithmetic && scalar.is_signed()
                        || self.tables.events.checks.nan && scalar.is_float())
                },
                span: memory.span,
                span_index: place,
            });
        }
        self.writer.section = CodeSection::Prologue;
        let mut shared = false;
        for (id, memory) in self.f.memories.iter() {
            shared |= memory.space == MemorySpace::Shared;
            for (k, extent) in memory.extents.iter().enumerate() {
                if let Extent::Dynamic(e) = extent {
                    let val = self.value(*e);
                    let reg = self.reg(&val[0]);
                    self.registers.held[reg as usize] = PERMANENT;
                    self.tables.memories[id.index()].extent_regs[k] = reg;
                }
            }
        }
        if shared {
            let arrays = self.tables.memories.iter().filter(|m| m.kind == MemoryKind::Shared);
            let mut arrays = arrays;
            let end = arrays.try_fold(0, |used, def| Some(super::shared_memory::array_range(used, def)?.1));
            let limit = match self.kernel.tile_program {
                Some(_) => super::shared_memory::MAX_TILE_BYTES,
                None => super::shared_memory::MAX_SHARED_BYTES,
            };
            match end.filter(|&bytes| bytes <= limit as u64) {
                Some(bytes) => {
                    let run = self.pick::<super::shared_memory::ClearShared>();
                    self.emit(run, Op { x: bytes as u32, ..nothing() });
                }
                None => {
                    self.emit(plain::<super::shared_memory::LayOutShared>(), nothing());
                }
            }
        }
        self.writer.section = CodeSection::Body;
    }

    fn run(&mut self) {
        self.make_locals();
        let mask = if self.variances.has_early_return { self.copy_mask() } else { 0 };
        self.flow.scopes.push(MaskScope::new(None, mask));
        self.block(&self.f.body);
        self.close_region();
        self.emit(plain::<control_flow::EndRun>(), nothing());
    }

    /// Joins prologue and body.
    fn finish(mut self) -> Result<CompiledKernel, TooLarge> {
        self.make_strips();
        if self.tables.registers.defs.len() > NONE.into() {
            return Err(TooLarge);
        }
        let span = self.span(self.kernel.span);
        let shift = self.writer.prologue.len() as u32;
        let prologue = std::mem::take(&mut self.writer.prologue);
        let (mut ops, others): (Vec<Op>, Vec<Op>) = prologue.into_iter().partition(|op| self.is_steady(op));
        let steady = ops.len() as u32;
        ops.extend(others);
        for &jump in &self.writer.jumps {
            self.writer.ops[jump].x += shift;
        }
        ops.append(&mut self.writer.ops);
        let threads = match self.kernel.form {
            LaunchForm::Threads { rank } => Some(rank),
            LaunchForm::Grid => None,
        };
        let coverage_gaps = match self.tables.events.checks.memory {
            true => launch_coverage::find_coverage_gaps(self.f, self.kernel),
            false => CoverageGaps::default(),
        };
        let classes = (0..).zip(&self.registers.classes);
        let views = match self.lane_regions.is_enabled {
            true => classes.filter(|class| *class.1 == state::CompilerRegClass::View).map(|class| class.0).collect(),
            false => vec![],
        };
        let registers = RegisterTables {
            uniform_bytes: self.registers.uniform_bytes as usize,
            columns: self.registers.columns as usize,
            views,
            ..self.tables.registers
        };
        let source = SourceTables { kernel: span, calls: self.f.calls.clone(), ..self.tables.source };
        let properties = KernelProperties { threads, cooperative: self.kernel.cooperative, ..self.tables.properties };
        let events = EventTables { coverage_gaps, ..self.tables.events };
        let code = KernelTables {
            body: shift,
            block_invariant_end: steady,
            registers,
            source,
            properties,
            events,
            ..self.tables
        };
        verify::debug_verify(&ops, &code, &self.kernel.name);
        Ok(CompiledKernel { ops, code })
    }

    /// Returns whether an op of the prologue computes the lanes of a register that nothing else writes, from what the
    /// launch sets alone: numbers of threads in their block.
    fn is_steady(&self, op: &Op) -> bool {
        let is_set_by_launch = |reg: Reg| self.tables.registers.launch.iter().any(|(set, _)| *set == reg);
        let form = match self.writer.numbers.iter().find(|(reg, _)| *reg == op.d) {
            Some((_, None)) => return true,
            Some((reg, Some(form))) if self.registers.held[*reg as usize] >= PERMANENT => *form,
            _ => return false,
        };
        let index = &self.tables.accesses[form as usize].axes[0];
        is_set_by_launch(index.base)
            && index.coef.iter().all(|coef| !matches!(coef, Coef::Reg(reg) if !is_set_by_launch(*reg)))
    }

    fn emit(&mut self, run: OpFn, op: Op) -> usize {
        let ops = match self.writer.section {
            CodeSection::Prologue => &mut self.writer.prologue,
            CodeSection::Body => {
                // A fused op replaces earlier ones and reads what they read: it gets the number of the first of them.
                let replaced = self
                    .writer
                    .annotations
                    .drain(self.writer.ops.len().min(self.writer.annotations.len())..)
                    .map(|mark| mark.number)
                    .min();
                let number = replaced.map_or(self.flow.stmt, |first| first.min(self.flow.stmt));
                self.writer.annotations.push(OpAnnotation { number, ..OpAnnotation::default() });
                &mut self.writer.ops
            }
        };
        ops.push(Op { run, ..op });
        ops.len() - 1
    }

    /// Emits an op of the body that jumps; its target is patched later.
    fn emit_jump(&mut self, run: OpFn, op: Op) -> usize {
        let at = self.emit(run, op);
        self.writer.jumps.push(at);
        at
    }

    /// Marks this position as a jump target. The op in front is not always the one that ran before, so nothing is fused
    /// across.
    fn target(&mut self) -> u32 {
        (self.writer.last, self.writer.before_not) = (None, None);
        self.writer.ops.len() as u32
    }

    fn patch(&mut self, jump: usize) {
        self.writer.ops[jump].x = self.target();
    }

    fn pick<S: OpStep>(&self) -> OpFn {
        pick::<S>(self.isa)
    }

    fn span(&mut self, span: Span) -> u32 {
        if self.tables.source.spans.last() != Some(&span) {
            self.tables.source.spans.push(span);
        }
        self.tables.source.spans.len() as u32 - 1
    }
}

/// An op without operands, as a base for struct updates.
fn nothing() -> Op {
    Op { run: plain::<control_flow::EndRun>(), d: NONE, a: NONE, b: NONE, c: NONE, x: 0, y: 0 }
}

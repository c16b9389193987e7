//! Code generation of the simulator: prepared DeviceIR to flat code.
//!
//! - `ir::variance` classifies how values vary between lanes, `uses` finds live ranges, `value` allocates registers, `expr` and
//!   `place` emit expressions and memory accesses, `flow` emits statements; `fuse` is a peephole pass, and `strip` combines whole
//!   runs of arithmetic.
//! - The code has two sections: a prologue, which computes what does not change during the run of a group (lanes of the thread's
//!   coordinates, extents of shared memory), and the body.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::code::Access;
use super::code::*;
use super::control;
use super::group::{Op, OpFn};
use super::lanes::{Isa, Step, pick, plain};
use super::verify;
use crate::base::source::Span;
use crate::ir::def::*;
use crate::ir::unseen::Unseen;
use crate::ir::variance::{self, Number, Variance, is_word};
use crate::ir::{Apart, Checks, Prepared, nan, ranges, unseen, warps};

mod decide;
mod events;
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

use state::{Compiler, Mark, Region, Section, Val};

/// A compiled kernel: its ops, and the tables that they refer to.
pub struct Compiled {
    pub ops: Vec<Op>,
    pub code: Code,
}

/// The kernel needs more registers than ops have numbers for.
#[derive(Debug)]
pub struct TooLarge;

/// Compiles a kernel for an instruction set.
pub fn compile(kernel: &Prepared, isa: Isa, jit: bool) -> Result<Compiled, TooLarge> {
    compile_for(kernel, isa, jit, &[])
}

/// Compiles a kernel for launches in which threads do not race on some of its memories.
pub(crate) fn compile_for(kernel: &Prepared, isa: Isa, jit: bool, apart: &[Apart]) -> Result<Compiled, TooLarge> {
    let module: &Module = &kernel.module;
    let mut f = module.functions[module.kernel.body].clone();
    if kernel.counted.is_none() {
        nan::define_bits(&mut f);
    }
    // The first operation that gives a NaN is reported, so that their order is kept.
    if !kernel.checks.nan {
        f = order::reorder(f);
    }
    let mut c = Compiler::new(&f, &module.kernel, isa);
    c.counted = kernel.counted.map(|_| warps::tile(module));
    c.instrument(kernel.checks, apart);
    if kernel.checks.arithmetic {
        c.exact = ranges::analyze(module, ranges::Setting::default()).exact;
    }
    // The interpreter looks at each access of threads that synchronize by fences or poll.
    c.jit = jit && !(kernel.checks.memory && c.waits) && c.counted.is_none();
    if c.jit {
        c.guards = c.guards_of_regions().into();
        c.references = uses::references(&f.body, &f);
    }
    c.memories();
    c.run();
    c.finish()
}

/// The use count of registers that are never freed.
const PERMANENT: u32 = u32::MAX / 2;

impl<'a> Compiler<'a> {
    fn new(f: &'a Function, kernel: &'a Kernel, isa: Isa) -> Self {
        let variances = variance::analyze(f);
        let mut c = Compiler {
            f,
            kernel,
            isa,
            uses: uses::uses(f, &variances),
            a: Rc::new(variances),
            jit: false,
            guards: Rc::default(),
            in_region: false,
            in_together: false,
            references: FxHashMap::default(),
            regions_of_lanes: vec![],
            part: Section::Body,
            prologue: vec![],
            numbers: vec![],
            ops: vec![],
            marks: vec![],
            jumps: vec![],
            regs: vec![],
            held: vec![],
            free: vec![vec![]; 5],
            fresh: vec![],
            uniform_bytes: 0,
            columns: 0,
            kinds: vec![],
            vals: FxHashMap::default(),
            locals: vec![],
            consts: FxHashMap::default(),
            specials: FxHashMap::default(),
            spread: FxHashMap::default(),
            aliases: vec![],
            in_place: FxHashSet::default(),
            target: None,
            number: 0,
            masks: vec![],
            free_masks: vec![],
            mask: 0,
            regions: vec![],
            leaked: FxHashSet::default(),
            launch: vec![],
            block: vec![],
            memories: vec![],
            accesses: vec![],
            spans: vec![],
            region_spans: vec![],
            messages: vec![],
            slow: vec![],
            atomics: vec![],
            warps: vec![],
            loops: vec![],
            strips: vec![],
            products: vec![],
            copies: vec![],
            lists: vec![],
            straight: true,
            may_view: false,
            views: vec![],
            aim: None,
            touched_columns: 0,
            last: None,
            before_not: None,
            checks: Checks::default(),
            counted: None,
            segments: vec![],
            segment: None,
            branch: None,
            notes: vec![],
            watched: vec![],
            births: vec![],
            wait_defs: vec![],
            exact: FxHashSet::default(),
            meets: false,
            warp_ops: false,
            deciding: FxHashSet::default(),
            taking: FxHashSet::default(),
            syncs: false,
            ordered: false,
            polls: false,
            spins: false,
            changes: vec![],
            stored: FxHashSet::default(),
            waits: false,
            splits: false,
        };
        let all = c.new_mask();
        debug_assert_eq!(all, 0);
        c
    }

    fn memories(&mut self) {
        let sums = uses::sums(self.f);
        for (id, memory) in self.f.memories.iter() {
            let kind = match memory.space {
                Space::Global { param, .. } | Space::Param { position: param, .. } => MemoryKind::Global(param),
                Space::Shared => MemoryKind::Shared,
                Space::Local => MemoryKind::Local,
                Space::Constant => MemoryKind::Constant,
            };
            let place = self.span(memory.span);
            self.memories.push(MemoryDef {
                name: memory.name.clone(),
                kind,
                layout: memory.layout.clone(),
                extents: memory.extents.clone(),
                constants: if kind == MemoryKind::Constant { memory.bytes() } else { vec![] },
                extent_regs: vec![NONE; memory.extents.len()],
                writable: match memory.space {
                    Space::Global { access, .. } | Space::Param { access, .. } => access != crate::ir::def::Access::In,
                    Space::Shared | Space::Local => true,
                    Space::Constant => false,
                },
                // Per-worker partial sums would hide a signed overflow, or an infinity, of the total.
                sums: sums[id.index()] && {
                    let scalar = memory.layout.leaves[0].ty.scalar();
                    !(self.checks.arithmetic && scalar.is_signed() || self.checks.nan && scalar.is_float())
                },
                span: memory.span,
                place,
            });
        }
        self.part = Section::Prologue;
        let mut shared = false;
        for (id, memory) in self.f.memories.iter() {
            shared |= memory.space == Space::Shared;
            for (k, extent) in memory.extents.iter().enumerate() {
                if let Extent::Dynamic(e) = extent {
                    let val = self.value(*e);
                    let reg = self.reg(&val[0]);
                    self.held[reg as usize] = PERMANENT;
                    self.memories[id.index()].extent_regs[k] = reg;
                }
            }
        }
        if shared {
            let arrays = self.memories.iter().filter(|m| m.kind == MemoryKind::Shared);
            let mut arrays = arrays;
            let end = arrays.try_fold(0, |used, def| Some(super::shared::place(used, def)?.1));
            let limit = match self.kernel.tiles {
                Some(_) => super::shared::LIMIT_OF_TILES,
                None => super::shared::LIMIT,
            };
            match end.filter(|&bytes| bytes <= limit as u64) {
                Some(bytes) => {
                    let run = self.pick::<super::shared::Clear>();
                    self.emit(run, Op { x: bytes as u32, ..nothing() });
                }
                None => {
                    self.emit(plain::<super::shared::Arrange>(), nothing());
                }
            }
        }
        self.part = Section::Body;
    }

    fn run(&mut self) {
        self.make_locals();
        let mask = if self.a.returns { self.copy_mask() } else { 0 };
        self.regions.push(Region::new(None, mask));
        self.block(&self.f.body);
        self.close_region();
        self.emit(plain::<control::End>(), nothing());
    }

    /// Joins prologue and body.
    fn finish(mut self) -> Result<Compiled, TooLarge> {
        self.make_strips();
        if self.regs.len() > NONE.into() {
            return Err(TooLarge);
        }
        let span = self.span(self.kernel.span);
        let shift = self.prologue.len() as u32;
        let prologue = std::mem::take(&mut self.prologue);
        let (mut ops, others): (Vec<Op>, Vec<Op>) = prologue.into_iter().partition(|op| self.is_steady(op));
        let steady = ops.len() as u32;
        ops.extend(others);
        for &jump in &self.jumps {
            self.ops[jump].x += shift;
        }
        ops.append(&mut self.ops);
        let threads = match self.kernel.form {
            Form::Threads { rank } => Some(rank),
            Form::Grid => None,
        };
        let code = Code {
            regs: self.regs,
            uniform_bytes: self.uniform_bytes as usize,
            columns: self.columns as usize,
            touched_columns: self.touched_columns,
            masks: self.masks,
            launch: self.launch,
            block: self.block,
            memories: self.memories,
            accesses: self.accesses,
            spans: self.spans,
            span,
            region_spans: self.region_spans,
            messages: self.messages,
            slow: self.slow,
            atomics: self.atomics,
            warps: self.warps,
            loops: self.loops,
            strips: self.strips,
            products: self.products,
            copies: self.copies,
            lists: self.lists,
            threads,
            cooperative: self.kernel.cooperative,
            straight: self.straight,
            checks: self.checks,
            notes: self.notes,
            watched: self.watched,
            births: self.births,
            counted: self.counted,
            segments: self.segments,
            waits: self.wait_defs,
            unseen: if self.checks.memory { unseen::unseen(self.f, self.kernel) } else { Unseen::default() },
            place: self.kernel.span,
            warp_ops: self.warp_ops,
            syncs: self.syncs,
            body: shift,
            steady,
            ordered: self.ordered,
            calls: self.f.calls.clone(),
            polls: self.polls,
            spins: self.spins,
            splits: self.splits,
            regions: self.regions_of_lanes,
            views: if self.jit {
                (0..).zip(&self.kinds).filter(|k| *k.1 == state::Kind::View).map(|k| k.0).collect()
            } else {
                vec![]
            },
        };
        verify::debug_verify(&ops, &code, &self.kernel.name);
        Ok(Compiled { ops, code })
    }

    /// Returns whether an op of the prologue computes the lanes of a register that nothing else writes, from what the launch sets alone:
    /// numbers of threads in their block.
    fn is_steady(&self, op: &Op) -> bool {
        let of_launch = |reg: Reg| self.launch.iter().any(|(set, _)| *set == reg);
        let form = match self.numbers.iter().find(|(reg, _)| *reg == op.d) {
            Some((_, None)) => return true,
            Some((reg, Some(form))) if self.held[*reg as usize] >= PERMANENT => *form,
            _ => return false,
        };
        let index = &self.accesses[form as usize].axes[0];
        of_launch(index.base) && index.coef.iter().all(|coef| !matches!(coef, Coef::Reg(reg) if !of_launch(*reg)))
    }

    fn emit(&mut self, run: OpFn, op: Op) -> usize {
        let ops = match self.part {
            Section::Prologue => &mut self.prologue,
            Section::Body => {
                // A fused op replaces earlier ones and reads what they read: it gets the number of the first of them.
                let replaced = self.marks.drain(self.ops.len().min(self.marks.len())..).map(|mark| mark.number).min();
                let number = replaced.map_or(self.number, |first| first.min(self.number));
                self.marks.push(Mark { number, ..Mark::default() });
                &mut self.ops
            }
        };
        ops.push(Op { run, ..op });
        ops.len() - 1
    }

    /// Emits an op of the body that jumps; its target is patched later.
    fn emit_jump(&mut self, run: OpFn, op: Op) -> usize {
        let at = self.emit(run, op);
        self.jumps.push(at);
        at
    }

    /// Marks this position as a jump target. The op in front is not always the one that ran before, so nothing is fused across.
    fn target(&mut self) -> u32 {
        (self.last, self.before_not) = (None, None);
        self.ops.len() as u32
    }

    fn patch(&mut self, jump: usize) {
        self.ops[jump].x = self.target();
    }

    fn pick<S: Step>(&self) -> OpFn {
        pick::<S>(self.isa)
    }

    fn span(&mut self, span: Span) -> u32 {
        if self.spans.last() != Some(&span) {
            self.spans.push(span);
        }
        self.spans.len() as u32 - 1
    }
}

/// An op without operands, as a base for struct updates.
fn nothing() -> Op {
    Op { run: plain::<control::End>(), d: NONE, a: NONE, b: NONE, c: NONE, x: 0, y: 0 }
}

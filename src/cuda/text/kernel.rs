//! Emits the kernel function: signature, index space, and launch metadata.

use rustc_hash::FxHashMap;

use super::abi::{CudaGeometry, CudaKernel, KernelArgument};
use super::generator::CudaGenerator;
use super::tree::{CudaExpr, CudaStmt as Out};
use super::{print, product};
use clk_ir::def::{Access, BinOp, ExprId, ExprKind, KernelParam, LaunchForm, MemId, MemorySpace, StmtKind};
use clk_ir::memory_transactions;
use clk_ir::ranges::{LaunchConstant, SymbolInequality};
use clk_ir::visit::each_stmt;
use clk_scalar::ops::MathFn;

/// Number of indices per thread if thread coarsening is worthwhile.
const PER_THREAD: u32 = 4;
/// Maximum number of statements in a body for which coarsening is worthwhile. Larger bodies have enough work with one
/// index per thread.
const COARSE_BODY: usize = 48;
/// Number of adjacent rows per thread in stencils, where neighboring rows read common elements. Larger bodies use half
/// this number.
const ROWS_OF_STENCIL: u32 = 8;
const STENCIL_BODY: usize = 192;

/// The threads of a block along x, y, z, for index spaces with 1, 2 and 3 indices.
const BLOCKS: [[u32; 3]; 3] = [[256, 1, 1], [64, 4, 1], [32, 4, 2]];
/// The threads of a block for bodies with loops whose trip count depends on the index. Threads of a square block
/// diverge less.
const SQUARE: [u32; 3] = [16, 16, 1];

/// How the indices of a `threads` kernel are distributed to threads.
#[derive(Clone, Copy)]
pub(super) struct Coarsening {
    rank: usize,
    block: [u32; 3],
    /// Number of indices per thread. They are along x if there is one axis or if they are adjacent, and along y
    /// otherwise.
    each: u32,
    /// Whether the indices of a thread are adjacent, for vectorized accesses.
    adjacent: bool,
}

impl Coarsening {
    fn axis(&self) -> usize {
        usize::from(self.rank > 1 && !self.adjacent)
    }

    fn covers(&self) -> [u32; 3] {
        let mut covers = self.block;
        covers[self.axis()] *= self.each;
        covers
    }
}

impl CudaGenerator<'_> {
    pub fn kernel(&mut self) -> CudaKernel {
        let entry = self.naming.used.fresh(&self.module.kernel.name);
        for param in &self.module.kernel.params {
            let (KernelParam::Value { name, .. } | KernelParam::Array { name, .. }) = param;
            let name = self.naming.used.fresh(name);
            self.naming.params.push(name);
        }
        self.arrays();
        let coarsening = self.coarsening();
        if let Some(coarsening) = coarsening {
            self.name_indices(coarsening.rank);
        }
        let (static_shared, dynamic_shared, inner, outer) = self.emit_body(coarsening);
        let params = self.arguments(coarsening);
        let max_block = match (coarsening, self.options.block) {
            (Some(coarsening), _) => coarsening.block.iter().product(),
            (None, Some(block)) => block.iter().product::<u32>().clamp(1, 1024),
            (None, None) => 1024,
        };
        let geometry = match coarsening {
            Some(coarsening) => CudaGeometry::Threads {
                rank: coarsening.rank as u8,
                block: coarsening.block,
                covers: coarsening.covers(),
            },
            None => CudaGeometry::Grid,
        };
        let notes = self.notes(coarsening);
        let looped = coarsening.is_some_and(|c| c.each > 1 || c.adjacent || self.options.wide);
        let text = self.text(&entry, &params, max_block, &notes, looped, outer, inner);
        CudaKernel {
            text,
            entry,
            options: self.options.clone(),
            params,
            geometry,
            max_block,
            static_shared,
            dynamic_shared,
            cooperative: self.module.kernel.cooperative,
            places: std::mem::take(&mut self.records.places),
            prints: std::mem::take(&mut self.records.prints),
            assumptions: self.used_assumptions(),
            guards: self.analyses.ranges.summary,
            notes,
        }
    }

    /// Returns the assumptions on which the code relies. Without guards, these are only the ones for the computation of
    /// offsets.
    pub(super) fn used_assumptions(&self) -> Vec<SymbolInequality> {
        let offsets =
            |bound: &&SymbolInequality| matches!(bound.left, Some(LaunchConstant::GridDim(_))) && bound.right.is_err();
        let all = self.analyses.ranges.assumptions.iter();
        if self.options.checked { all.copied().collect() } else { all.filter(offsets).copied().collect() }
    }

    /// Emits the body: the code that runs once per thread, and the code that is repeated for each index of the thread.
    #[allow(clippy::type_complexity)]
    fn emit_body(&mut self, coarsening: Option<Coarsening>) -> (u32, Vec<super::abi::SharedArray>, Vec<Out>, Vec<Out>) {
        let function = self.function;
        let (bytes, dynamic) = {
            let before = std::mem::take(&mut self.out);
            let layout = self.shared();
            let shared = std::mem::replace(&mut self.out, before);
            self.preamble.shared = shared;
            layout
        };
        let body = self.capture(|g| {
            g.local_arrays();
            g.declare_locals();
            g.block(&function.body);
        });
        let outer = match coarsening {
            Some(coarsening) => self.index_space(coarsening),
            None => vec![],
        };
        (bytes, dynamic, body, outer)
    }

    pub(super) fn name_indices(&mut self, rank: usize) {
        let (names, extents): (&[&str], &[&str]) = match rank {
            1 => (&["i"], &["n"]),
            2 => (&["row", "col"], &["rows", "cols"]),
            _ => (&["plane", "row", "col"], &["planes", "rows", "cols"]),
        };
        for (name, extent) in names.iter().zip(extents) {
            let pair = (self.naming.used.fresh(name), self.naming.used.fresh(extent));
            self.naming.indices.push(pair);
        }
    }

    /// Returns how indices are distributed to threads, or `None` for `grid` kernels, which have explicit blocks.
    fn coarsening(&mut self) -> Option<Coarsening> {
        let LaunchForm::Threads { rank } = self.module.kernel.form else { return None };
        let rank = usize::from(rank.clamp(1, 3));
        let usual = if memory_transactions::warp_tile(self.module) == [SQUARE[0], 32 / SQUARE[0]] {
            SQUARE
        } else {
            BLOCKS[rank - 1]
        };
        let block = self.options.block.unwrap_or(usual);
        let may = self.options.coarsen && !self.options.wide;
        let light = self.light_statements().filter(|&statements| may && statements <= STENCIL_BODY);
        if light.and_then(|statements| self.find_vector_groups(rank, statements)).is_some() {
            let per_thread = self.analyses.vector_groups.indices_per_thread;
            let block = if rank == 2 { SQUARE } else { block };
            return Some(Coarsening { rank, block, each: per_thread, adjacent: true });
        }
        let may = may && rank < 3;
        let stencil = rank == 2 && self.is_stencil();
        let per_thread = match self.light_statements().filter(|_| may) {
            Some(..=COARSE_BODY) if stencil => ROWS_OF_STENCIL,
            Some(..=STENCIL_BODY) if stencil => ROWS_OF_STENCIL / 2,
            Some(..=COARSE_BODY) => PER_THREAD,
            _ => 1,
        };
        Some(Coarsening { rank, block, each: per_thread, adjacent: false })
    }

    /// If the body mostly waits for memory, returns its number of statements. For a small number, several indices per
    /// thread allow more memory accesses in flight.
    fn light_statements(&self) -> Option<usize> {
        let (mut statements, mut simple, mut heavy) = (0, true, 0);
        each_stmt(&self.function.body, &mut |stmt| {
            statements += 1;
            match &stmt.kind {
                StmtKind::For { .. } | StmtKind::Loop { .. } | StmtKind::Atomic { .. } | StmtKind::Print { .. } => {
                    simple = false;
                }
                StmtKind::Let(id) => heavy += usize::from(is_heavy(&self.function.exprs[*id])),
                _ => {}
            }
        });
        let arrays = self.function.memories.iter().any(|(_, memory)| memory.space == MemorySpace::Local);
        (simple && !arrays && heavy <= 2).then_some(statements)
    }

    /// Returns whether the body is a stencil: it reads elements in several rows of an array.
    fn is_stencil(&self) -> bool {
        let mut rows: FxHashMap<MemId, Vec<ExprId>> = FxHashMap::default();
        each_stmt(&self.function.body, &mut |stmt| {
            let StmtKind::Let(id) = stmt.kind else { return };
            if let ExprKind::Load { place, .. } = &self.function.exprs[id].kind
                && let [row, _] = place.indices[..]
            {
                let rows = rows.entry(place.memory).or_default();
                if !rows.contains(&row) {
                    rows.push(row);
                }
            }
        });
        rows.values().any(|rows| rows.len() > 1)
    }

    /// Emits the computation of a thread's indices.
    fn index_space(&mut self, coarsening: Coarsening) -> Vec<Out> {
        if self.options.wide {
            return self.grid_stride_loop(coarsening);
        }
        let covers = coarsening.covers();
        let mut out = vec![];
        let index = |covers: u32, c: &str| format!("blockIdx.{c} * {covers} + threadIdx.{c}");
        let int = |name: &str, text: String| Out::Declare {
            ty: "const int".into(),
            name: name.into(),
            suffix: String::new(),
            value: Some(CudaExpr::Atom(text)),
        };
        let names: Vec<(String, String)> = self.naming.indices.clone();
        // x is the last index.
        let axes = ["x", "y", "z"];
        let coarse_axis = coarsening.axis();
        let mut outside: Option<CudaExpr> = None;
        for (k, (name, extent)) in names.iter().enumerate() {
            let axis = coarsening.rank - 1 - k;
            if (coarsening.each > 1 || coarsening.adjacent) && axis == coarse_axis {
                continue;
            }
            out.push(int(name, index(covers[axis], axes[axis])));
            let beyond = CudaExpr::binary(">=", CudaExpr::atom(name), CudaExpr::atom(extent));
            outside = Some(match outside {
                Some(other) => CudaExpr::binary("||", other, beyond),
                None => beyond,
            });
        }
        if let Some(outside) = outside {
            out.push(Out::If(outside, vec![Out::Return], vec![]));
        }
        if coarsening.adjacent {
            out.extend(self.vectorized_index_space(coarsening.rank, coarsening.block[0]));
        } else if coarsening.each > 1 {
            out.extend(self.coarsened_loop(coarsening, &names, coarse_axis));
        }
        out
    }

    /// Emits the loop over the indices of a coarsened thread. If all of its indices exist, they need no tests; at the
    /// edge, each index is tested.
    fn coarsened_loop(&self, coarsening: Coarsening, names: &[(String, String)], axis: usize) -> Vec<Out> {
        let (name, extent) = &names[coarsening.rank - 1 - axis];
        let (each, block) = (coarsening.each, coarsening.block[axis]);
        // Along x, the indices of a thread are a block apart, so that adjacent threads access adjacent elements. Along
        // y, a thread has adjacent rows, which read common elements.
        let (step, first) = match axis {
            0 => (block, format!("blockIdx.x * {} + threadIdx.x", block * each)),
            _ => (1, format!("(blockIdx.y * {block} + threadIdx.y) * {each}")),
        };
        let call = |index: CudaExpr| {
            let args = names.iter().map(|(own, _)| if own == name { index.clone() } else { CudaExpr::atom(own) });
            Out::Do(CudaExpr::call("at", args))
        };
        let int = |ty: &str, name: &str, value: CudaExpr| Out::Declare {
            ty: ty.into(),
            name: name.into(),
            suffix: String::new(),
            value: Some(value),
        };
        let iteration = match step {
            1 => CudaExpr::atom("turn"),
            _ => CudaExpr::binary("*", CudaExpr::int(step.into()), CudaExpr::atom("turn")),
        };
        let all = Out::For {
            unroll: Some("#pragma unroll".into()),
            start: Box::new(int("int", "turn", CudaExpr::int(0))),
            test: CudaExpr::binary("<", CudaExpr::atom("turn"), CudaExpr::int(each.into())),
            step: CudaExpr::unary("++", CudaExpr::atom("turn")),
            body: vec![call(CudaExpr::binary("+", CudaExpr::atom("first"), iteration))],
        };
        let advance = match step {
            1 => CudaExpr::unary("++", CudaExpr::atom(name)),
            _ => CudaExpr::binary("+=", CudaExpr::atom(name), CudaExpr::int(step.into())),
        };
        let some = Out::For {
            unroll: Some("#pragma unroll 1".into()),
            start: Box::new(int("int", name, CudaExpr::atom("first"))),
            test: CudaExpr::binary("<", CudaExpr::atom(name), CudaExpr::atom(extent)),
            step: advance,
            body: vec![call(CudaExpr::atom(name))],
        };
        let last = CudaExpr::binary("+", CudaExpr::atom("first"), CudaExpr::int((step * (each - 1)).into()));
        let inside = CudaExpr::binary("<", last, CudaExpr::atom(extent));
        vec![int("const int", "first", CudaExpr::Atom(first)), Out::If(inside, vec![all], vec![some])]
    }

    /// Emits a grid-stride loop over the indices, which supports index spaces larger than the grid.
    fn grid_stride_loop(&mut self, coarsening: Coarsening) -> Vec<Out> {
        self.preamble.helpers.need("i64");
        let names = self.naming.indices.clone();
        let call =
            Out::Do(CudaExpr::call("at", names.iter().map(|(name, _)| CudaExpr::call("int", [CudaExpr::atom(name)]))));
        let mut inner = vec![call];
        for (k, (name, extent)) in names.iter().enumerate().rev() {
            let axis = coarsening.rank - 1 - k;
            let c = ["x", "y", "z"][axis];
            let block = coarsening.block[axis];
            let start = Out::Declare {
                ty: "i64".into(),
                name: name.clone(),
                suffix: String::new(),
                value: Some(CudaExpr::Atom(format!("i64(blockIdx.{c}) * {block} + threadIdx.{c}"))),
            };
            inner = vec![Out::For {
                unroll: None,
                start: Box::new(start),
                test: CudaExpr::binary("<", CudaExpr::atom(name), CudaExpr::atom(extent)),
                step: CudaExpr::binary(
                    "+=",
                    CudaExpr::atom(name),
                    CudaExpr::Atom(format!("i64(gridDim.{c}) * {block}")),
                ),
                body: inner,
            }];
        }
        inner
    }

    /// Returns the parameters of the CUDA function in order. Extents and buffers are included only if the code uses
    /// them.
    fn arguments(&self, coarsening: Option<Coarsening>) -> Vec<KernelArgument> {
        self.arguments_of(coarsening.map_or(0, |coarsening| coarsening.rank))
    }

    pub(super) fn arguments_of(&self, rank: usize) -> Vec<KernelArgument> {
        let mut arguments = vec![];
        for (param, kernel_param) in self.module.kernel.params.iter().enumerate() {
            match kernel_param {
                KernelParam::Value { ty, .. } => arguments.push(KernelArgument::Value { param, ty: *ty }),
                KernelParam::Array { memory, .. } => {
                    arguments.push(KernelArgument::Array { param });
                    let rank = self.function.memories[*memory].extents.len();
                    let used = (0..rank).filter(|&axis| self.naming.extents.contains_key(&(param, axis)));
                    arguments.extend(used.map(|axis| KernelArgument::Extent { param, axis }));
                }
            }
        }
        arguments.extend((0..rank).map(|index| KernelArgument::IndexExtent { index }));
        arguments.extend(self.records.uses_faults.then_some(KernelArgument::Faults));
        arguments.extend(self.records.uses_prints.then_some(KernelArgument::Prints));
        arguments.extend(self.records.uses_grid.then_some(KernelArgument::GridBarrier));
        arguments
    }

    pub(super) fn parameter(&mut self, argument: &KernelArgument) -> String {
        match argument {
            KernelArgument::Value { param, ty } => {
                format!("{} {}", self.preamble.helpers.ty(*ty), self.naming.params[*param])
            }
            KernelArgument::Array { param } => {
                let Some(KernelParam::Array { access, memory, .. }) = self.module.kernel.params.get(*param) else {
                    return String::new();
                };
                let constant = if *access == Access::In { "const " } else { "" };
                let array = &self.memories[memory.index()];
                let restrict = if self.is_exchanged(*memory) { "" } else { "__restrict__ " };
                format!("{constant}{} *{restrict}{}", array.element.ty, array.name)
            }
            KernelArgument::Extent { param, axis } => format!("int {}", self.naming.extents[&(*param, *axis)]),
            KernelArgument::IndexExtent { index } => format!("int {}", self.naming.indices[*index].1),
            KernelArgument::Map { factor, .. } => {
                format!("const __grid_constant__ tensor_cores::Map {}", product::MAPS[*factor])
            }
            KernelArgument::Packed { factor, .. } => format!("void *{}", product::PACKED[*factor]),
            KernelArgument::Faults => "Faults *faults".into(),
            KernelArgument::Prints => "Prints *prints".into(),
            KernelArgument::GridBarrier => "unsigned *grid_arrivals".into(),
        }
    }

    /// Returns whether threads may read elements that other threads have written. If so, the array must not be
    /// `__restrict__`, which would let the compiler move loads up across barriers.
    fn is_exchanged(&self, memory: MemId) -> bool {
        let (mut read, mut written, mut meets) = (false, false, false);
        each_stmt(&self.function.body, &mut |stmt| match &stmt.kind {
            StmtKind::Let(id) => {
                let load = &self.function.exprs[*id].kind;
                read |= matches!(load, ExprKind::Load { place, .. } if place.memory == memory);
            }
            StmtKind::Store { place, .. } => written |= place.memory == memory,
            StmtKind::Atomic { place, result, .. } => {
                meets = true;
                read |= place.memory == memory && result.is_some();
                written |= place.memory == memory;
            }
            StmtKind::Barrier { .. } | StmtKind::Fence(_) | StmtKind::Warp { .. } => meets = true,
            _ => {}
        });
        read && written && meets
    }

    pub(super) fn notes(&self, coarsening: Option<Coarsening>) -> Vec<String> {
        let mut notes = vec![];
        if coarsening.is_some_and(|coarsening| coarsening.adjacent) {
            notes.push(self.vectorization_note());
        } else if let Some(coarsening) = coarsening.filter(|coarsening| coarsening.each > 1) {
            let spacing = if coarsening.rank == 1 {
                format!("{} apart", coarsening.block[0])
            } else {
                "in successive rows".into()
            };
            notes.push(format!(
                "a thread takes {} indices, {spacing}: one waits for memory less than it would",
                coarsening.each
            ));
        }
        let range_summary = &self.analyses.ranges.summary;
        if self.options.checked {
            let left = match range_summary.guarded {
                0 => "none is guarded".into(),
                n => format!("{n} guarded"),
            };
            let accesses = if range_summary.accesses == 1 { "access" } else { "accesses" };
            notes.push(format!("{} {accesses} to memory, {left}", range_summary.accesses));
            match range_summary.declared {
                0 => {}
                1 => notes.push("1 of them is in bounds by the signature".into()),
                n => notes.push(format!("{n} of them are in bounds by the signature")),
            }
            if range_summary.guarded_divisions > 0 {
                notes.push(format!(
                    "{} of {} integer divisions guarded",
                    range_summary.guarded_divisions, range_summary.divisions
                ));
            }
            for bound in &self.analyses.ranges.assumptions {
                notes.push(format!("in bounds if {}", self.bound(bound)));
            }
        }
        notes
    }

    #[allow(clippy::too_many_arguments)]
    fn text(
        &mut self,
        entry: &str,
        params: &[KernelArgument],
        max_block: u32,
        notes: &[String],
        looped: bool,
        outer: Vec<Out>,
        inner: Vec<Out>,
    ) -> String {
        let params: Vec<String> = params.iter().map(|param| self.parameter(param)).collect();
        let mut body = std::mem::take(&mut self.preamble.stmts);
        body.append(&mut self.preamble.shared);
        if self.records.uses_prints {
            let (ty, name) = ("unsigned".to_string(), "printed".to_string());
            body.push(Out::Declare { ty, name, suffix: String::new(), value: Some(CudaExpr::int(0)) });
        }
        if self.records.uses_grid {
            let (ty, name) = ("const volatile unsigned *const".to_string(), "fault_word".to_string());
            let word = if self.records.uses_faults { "&faults->place" } else { "nullptr" };
            body.push(Out::Declare { ty, name, suffix: String::new(), value: Some(CudaExpr::atom(word)) });
        }
        if looped {
            let indices: Vec<String> =
                self.naming.indices.iter().map(|(name, _)| format!("const int {name}")).collect();
            body.extend(self.declare_vector_groups());
            body.push(Out::Lambda("at".into(), indices.join(", ") + &self.vector_group_parameters(), inner));
            body.extend(outer);
        } else {
            body.extend(outer);
            body.extend(inner);
        }
        let mut text = std::mem::take(&mut self.preamble.helpers).into_text();
        if !text.is_empty() {
            text.push('\n');
        }
        notes.iter().for_each(|note| text.push_str(&format!("// {note}\n")));
        let mut line = format!("extern \"C\" __global__ void __launch_bounds__({max_block}) {entry}(");
        if line.len() + params.iter().map(|p| p.len() + 2).sum::<usize>() > 118 {
            line.push_str(&format!("\n    {}", params.join(",\n    ")));
        } else {
            line.push_str(&params.join(", "));
        }
        text.push_str(&line);
        text.push_str(") {\n");
        print::block(&body, 1, &mut text);
        text.push_str("}\n");
        text
    }
}

/// Returns whether an expression is a math function with long latency. These are the functions with an error of several
/// ULPs, except two that are a single instruction.
fn is_heavy(expr: &clk_ir::def::Expr) -> bool {
    match &expr.kind {
        ExprKind::Binary { op: BinOp::Pow, .. } => true,
        ExprKind::Math { function, .. } => !function.is_exact() && !matches!(function, MathFn::Rsqrt | MathFn::Exp2),
        _ => false,
    }
}

//! Reverse mode: generates an adjoint kernel, which consists of a forward part and a reverse sweep.
//!
//! Input: a kernel without calls. Output: a kernel that adds the contributions of the outputs' adjoints to the adjoints
//! of the inputs. Generation is repeated until the forward part records every value that the reverse sweep needs.

use rustc_hash::{FxHashMap, FxHashSet};

use super::activity::{Activity, DerivativeMode, analyze_activity, check_differentiable};
use super::derived::{Derived, DerivedParamRole, TapeCountingKernel, TapeLoop};
use super::error::NotDifferentiable;
use super::gemm_operands::taped_operands;
use super::jump_removal::{self, LoopExitFlags};
use super::launches::DerivativeLaunches;
use super::non_atomic::{self, NonAtomicAccesses};
use super::outlined_adjoints;
use super::plan::{self, AdjointBlockKind, AdjointPlan, BlockKey, block_key};
use super::rules::{PrimalExprEmitter, constant};
use super::shadow::{Shadows, active_values, adjoint_type};
use super::tape::{self, KernelTape, TapeSlots};
use clk_base::stop;
use clk_ir::build::{FunctionBuilder, build_module};
use clk_ir::def::*;
use clk_ir::typing::I32;
use clk_ir::visit::each_stmt;
use clk_pass::trip_count;
use clk_scalar::ops::BarrierKind;

/// The values that the forward part must record for the reverse sweep.
#[derive(Default)]
pub(super) struct RecordedNeeds {
    pub values: FxHashSet<ExprId>,
    /// Loops whose number of iterations must be recorded.
    pub counted_loops: FxHashSet<Label>,
    /// Set if the last generation added to the sets above, so that generation must be repeated.
    pub has_grown: bool,
}

/// The state of the generation of an adjoint kernel.
pub(super) struct ReverseDerivative<'a> {
    pub b: FunctionBuilder,
    pub f: &'a Function,
    pub activity: &'a Activity,
    pub plan: &'a AdjointPlan,
    pub exit_flags: &'a LoopExitFlags,
    pub non_atomic: &'a NonAtomicAccesses,
    pub needs: &'a mut RecordedNeeds,
    pub shadows: Shadows,
    pub tape: KernelTape,
    counting: bool,
    form: LaunchForm,
    /// For each open block of the reverse sweep, the primal values that were already recomputed or popped from the
    /// tape.
    pub cache: Vec<FxHashMap<ExprId, ExprId>>,
    /// The adjoints of expressions, as accumulated so far in the current block.
    pub adjoints: FxHashMap<ExprId, ExprId>,
    /// For an expression that is used only by a side of a `select`: the condition under which that side is selected.
    pub used: FxHashMap<ExprId, ExprId>,
    /// The condition under which the expression whose adjoint is being propagated is used; `None` if always.
    pub own_use: Option<ExprId>,
    /// The locals that accumulate the adjoints of expressions that are used in inner blocks.
    pub sums: FxHashMap<ExprId, LocalId>,
    /// The locals that accumulate the adjoints of by-value parameters.
    pub params: FxHashMap<u32, LocalId>,
    /// The values that the counters of open loops have in the primal kernel.
    pub counters: FxHashMap<LocalId, ExprId>,
    branch_locals: FxHashMap<ExprId, LocalId>,
    iteration_counts: FxHashMap<Label, LocalId>,
    /// For each open block of the reverse sweep, the adjoints that were read and are still to be zeroed.
    pub consumed: Vec<Vec<Place>>,
}

impl PrimalExprEmitter for ReverseDerivative<'_> {
    fn builder(&mut self) -> &mut FunctionBuilder {
        &mut self.b
    }

    fn current_value(&mut self, id: ExprId) -> ExprId {
        if id.index() < self.f.exprs.len() { self.value(id) } else { id }
    }
}

/// The inputs of code generation, which is repeated several times.
struct ReverseInput<'a> {
    kernel: &'a Kernel,
    f: &'a Function,
    active: &'a [bool],
    activity: Activity,
    plan: AdjointPlan,
    exit_flags: LoopExitFlags,
    non_atomic: NonAtomicAccesses,
}

pub(super) fn derive(
    mut module: Module,
    active: &[bool],
    launches: &DerivativeLaunches,
) -> Result<Derived, NotDifferentiable> {
    let body = module.kernel.body;
    let non_atomic = non_atomic::find_non_atomic(&module, active, launches);
    let f = &mut module.functions[body];
    let exit_flags = jump_removal::remove_jumps(f);
    plan::hoist_reads(f);
    let f = &module.functions[body];
    let activity = analyze_activity(f, active);
    check_differentiable(&module.kernel, f, &activity, DerivativeMode::Reverse)?;
    let plan = plan::make_plan(f, &activity);
    let input = ReverseInput { kernel: &module.kernel, f, active, activity, plan, exit_flags, non_atomic };
    let mut needs = RecordedNeeds::default();
    loop {
        stop::poll();
        needs.has_grown = false;
        let (derived, roles) = input.run(&mut needs, false)?;
        if needs.has_grown {
            continue;
        }
        let counting = match roles.iter().any(|role| matches!(role, DerivedParamRole::Tape(_))) {
            true => {
                let (module, params) = input.run(&mut needs, true)?;
                Some(TapeCountingKernel { module, params })
            }
            false => None,
        };
        let tape_loops = input.tape_loops(&roles, &needs);
        return Ok(Derived { tape_loops, ..input.outline_adjoints(derived, roles, counting)? });
    }
}

impl ReverseInput<'_> {
    /// Generates the adjoint kernel or, if requested, the counting kernel.
    fn run(
        &self,
        needs: &mut RecordedNeeds,
        counting: bool,
    ) -> Result<(Module, Vec<DerivedParamRole>), NotDifferentiable> {
        let ReverseInput { kernel, f, active, activity, plan, exit_flags, non_atomic } = self;
        let slots = tape_slots(f, plan, exit_flags, needs, &f.body);
        let mut b = FunctionBuilder::with_declarations_of(kernel, f);
        let mut roles: Vec<DerivedParamRole> = (0..kernel.params.len()).map(DerivedParamRole::Primal).collect();
        let (mut shadows, mut values) = (Shadows::default(), vec![]);
        if !counting {
            values = value_params(&mut b, kernel, active, &mut roles);
            let adjoint = |param, _| (DerivedParamRole::Adjoint(param), Access::InOut);
            shadows = Shadows::add(&mut b, f, activity, &mut roles, &adjoint_type, adjoint);
        }
        let tape = KernelTape::new(&mut b, kernel.form, slots, counting, &mut roles);
        let mut reverse = ReverseDerivative {
            b,
            f,
            activity,
            plan,
            exit_flags,
            non_atomic,
            needs,
            shadows,
            tape,
            counting,
            form: kernel.form,
            cache: vec![],
            adjoints: FxHashMap::default(),
            used: FxHashMap::default(),
            own_use: None,
            sums: FxHashMap::default(),
            params: FxHashMap::default(),
            counters: FxHashMap::default(),
            branch_locals: FxHashMap::default(),
            iteration_counts: FxHashMap::default(),
            consumed: vec![],
        };
        reverse.zero_adjoints(&values);
        reverse.emit_joined(&f.body)?;
        reverse.store_value_adjoints(&values);
        let suffix = if counting { "count" } else { "vjp" };
        let mut derived = build_module(Default::default(), reverse.b, kernel.form);
        derived.kernel.name = format!("{}_{suffix}", kernel.name);
        derived.kernel.span = kernel.span;
        make_unread_read_only(&mut derived, f, plan);
        clk_pass::remove_unneeded(&mut derived);
        Ok((derived, roles))
    }

    /// Returns, for each tape, the loop that records the most values.
    fn tape_loops(&self, roles: &[DerivedParamRole], needs: &RecordedNeeds) -> Vec<TapeLoop> {
        let tapes = roles.iter().filter_map(|role| match role {
            DerivedParamRole::Tape(scalar) => Some(tape::class(*scalar)),
            _ => None,
        });
        let loops = tapes.map(|class| {
            let mut most = TapeLoop { span: self.kernel.span, value_count: 0 };
            each_stmt(&self.f.body, &mut |stmt| {
                let Some(body) = stmt.kind.label().and(stmt.kind.blocks().next()) else { return };
                let value_count = match stmt.kind {
                    StmtKind::For { label, collective: Some(CollectiveLoop::Gemm(product)), .. } => {
                        taped_operands(&self.plan.factors, label, product)
                            .filter(|&m| matrix_class(self.f, m) == class)
                            .count() as u64
                    }
                    _ => self.values_per_iteration(body, class, needs),
                };
                if value_count >= most.value_count.max(1) {
                    most = TapeLoop { span: stmt.span, value_count };
                }
            });
            most
        });
        loops.collect()
    }

    /// Returns the number of scalars that one iteration of a loop records on the tape of a type class, excluding nested
    /// loops.
    fn values_per_iteration(&self, body: &Block, class: usize, needs: &RecordedNeeds) -> u64 {
        let evaluated = self.plan.scopes.get(&block_key(body)).map_or(&[][..], |scope| &scope.evaluated);
        let types = evaluated.iter().filter(|id| needs.values.contains(id)).map(|id| self.f.exprs[*id].ty);
        let own: u64 = types.filter(|ty| tape::class(ty.scalar()) == class).map(|ty| u64::from(ty.lanes())).sum();
        let inner = body.iter().filter(|stmt| stmt.kind.label().is_none()).flat_map(|stmt| stmt.kind.blocks());
        own + inner.map(|block| self.values_per_iteration(block, class, needs)).sum::<u64>()
    }

    /// Moves adjoints that are cheaper to compute in separate kernels out of the derivative.
    fn outline_adjoints(
        &self,
        mut module: Module,
        mut params: Vec<DerivedParamRole>,
        counting: Option<TapeCountingKernel>,
    ) -> Result<Derived, NotDifferentiable> {
        let accesses: Vec<Option<Access>> = self.kernel.params.iter().map(KernelParam::access).collect();
        let (gathers, reduction) = outlined_adjoints::outline_adjoints(&mut module, &mut params, &accesses)?;
        let is_whole = gathers.is_empty() && reduction.is_none();
        let has_effect = is_whole || outlined_adjoints::has_effect(&module, &params, &accesses);
        Ok(Derived { module, params, counting, tape_loops: vec![], gathers, reduction, has_effect })
    }
}

/// Adds a parameter for the adjoint of each active by-value parameter. Returns the position, type and adjoint array of
/// each.
fn value_params(
    b: &mut FunctionBuilder,
    kernel: &Kernel,
    active: &[bool],
    roles: &mut Vec<DerivedParamRole>,
) -> Vec<(u32, Ty, MemId)> {
    let added = active_values(kernel, active).map(|(position, name, ty)| {
        roles.push(DerivedParamRole::Adjoint(position));
        let ty = adjoint_type(ty);
        (position as u32, ty, b.array(name, Access::InOut, ElementLayout::plain(ty), 1))
    });
    added.collect()
}

/// Makes arrays read-only that the primal kernel only writes: the adjoint kernel does not repeat these writes, and
/// needs the arrays only for their extents.
fn make_unread_read_only(module: &mut Module, f: &Function, plan: &AdjointPlan) {
    let body = &mut module.functions[module.kernel.body];
    for (id, memory) in f.memories.iter() {
        if let MemorySpace::Global { param, .. } = memory.space
            && !plan.read[id.index()]
        {
            body.memories[id].space = MemorySpace::Global { param, access: Access::In };
            if let Some(KernelParam::Array { access, .. }) = module.kernel.params.get_mut(param as usize) {
                *access = Access::In;
            }
        }
    }
}

/// Returns the number of tape slots that a block needs.
fn tape_slots(
    f: &Function,
    plan: &AdjointPlan,
    exit_flags: &LoopExitFlags,
    needs: &RecordedNeeds,
    block: &Block,
) -> TapeSlots {
    let mut all = TapeSlots::zero();
    let scope = &plan.scopes[&block_key(block)];
    if scope.kind == AdjointBlockKind::Looped {
        for id in scope.evaluated.iter().filter(|id| needs.values.contains(id)) {
            let ty = f.exprs[*id].ty;
            all.add(tape::class(ty.scalar()), Some(u64::from(ty.lanes())));
        }
    }
    for stmt in block {
        if let StmtKind::For { label, collective: Some(CollectiveLoop::Gemm(product)), .. } = stmt.kind {
            for memory in taped_operands(&plan.factors, label, product) {
                all.add(matrix_class(f, memory), None);
            }
            continue;
        }
        let iterations = match &stmt.kind {
            StmtKind::For { label, start, end, step, inclusive, .. } if !exit_flags.contains_key(label) => {
                trip_count(f, *start, *end, *step, *inclusive).and_then(|count| u64::try_from(count).ok())
            }
            StmtKind::For { .. } | StmtKind::Loop { .. } => None,
            _ => Some(1),
        };
        if let Some(label) = stmt.kind.label()
            && scope.kind == AdjointBlockKind::Looped
            && needs.counted_loops.contains(&label)
        {
            all.add(tape::class(I32.scalar()), Some(1));
        }
        for inner in stmt.kind.blocks() {
            all.add_iterations(tape_slots(f, plan, exit_flags, needs, inner), iterations);
        }
    }
    all
}

/// Returns the class (see [`tape::CLASSES`]) of the tape that records a matrix's elements.
fn matrix_class(f: &Function, memory: MemId) -> usize {
    f.memories[memory].layout.leaves.first().map_or(0, |leaf| tape::class(leaf.ty.scalar()))
}

impl ReverseDerivative<'_> {
    fn kind(&self, block: BlockKey) -> AdjointBlockKind {
        self.plan.scopes.get(&block).map_or(AdjointBlockKind::Looped, |scope| scope.kind)
    }

    /// Emits code that zeroes all adjoints that are not parameters.
    fn zero_adjoints(&mut self, values: &[(u32, Ty, MemId)]) {
        if self.counting {
            return;
        }
        for &(param, ty, _) in values {
            let zero = constant(&mut self.b, ty, 0.0);
            self.params.insert(param, self.b.variable("sum", zero));
        }
        for (id, local) in self.f.locals.iter() {
            if let Some(&own) = self.shadows.locals.get(&id) {
                let zero = constant(&mut self.b, adjoint_type(local.ty), 0.0);
                self.b.write(own, zero);
            }
        }
        let mut shared = false;
        for (id, memory) in self.f.memories.iter() {
            let Some(&own) = self.shadows.memories.get(&id) else { continue };
            match memory.space {
                MemorySpace::Local => self.clear(own, None),
                MemorySpace::Shared => {
                    let (thread, size) = tape::thread_of_block(&mut self.b);
                    self.clear(own, Some((thread, size)));
                    shared = true;
                }
                _ => {}
            }
        }
        if shared {
            self.b.barrier(BarrierKind::Block, None);
        }
    }

    /// Emits code that zeroes a memory. `share` is the thread's linear index in the block and the block size if the
    /// threads of a block divide the work; `None` if each thread zeroes the whole memory.
    pub(super) fn clear(&mut self, memory: MemId, share: Option<(ExprId, ExprId)>) {
        let b = &mut self.b;
        let Memory { extents, layout, .. } = b.function().memories[memory].clone();
        let extents: Vec<ExprId> = extents
            .iter()
            .enumerate()
            .map(|(axis, extent)| match extent {
                Extent::Known(n) => b.i32(*n as i32),
                _ => b.extent(memory, axis as u8),
            })
            .collect();
        let mut count = b.i32(1);
        for &extent in &extents {
            count = b.binary(BinOp::Mul, count, extent);
        }
        let (start, step) = share.unwrap_or_else(|| (b.i32(0), b.i32(1)));
        let (label, local) = (b.label(), b.local("n", I32));
        b.push_block();
        let mut rest = b.read(local);
        let mut indices = vec![];
        for &extent in extents.iter().rev() {
            indices.push(b.binary(BinOp::Rem, rest, extent));
            rest = b.binary(BinOp::Div, rest, extent);
        }
        indices.reverse();
        for (leaf, leaf_def) in layout.leaves.iter().enumerate() {
            if leaf_def.ty.scalar().is_float() {
                let zero = constant(b, leaf_def.ty, 0.0);
                let place = Place { memory, indices: indices.clone(), leaf: leaf as u32, component: None };
                b.store_place(place, zero, CacheHint::None);
            }
        }
        let body = b.pop_block();
        let range = clk_ir::build::IrForRange { start, end: count, step, inclusive: false };
        b.for_(label, local, range, Unroll::Auto, body);
    }

    /// Emits code that adds the accumulated adjoints of by-value parameters to their adjoint arrays.
    fn store_value_adjoints(&mut self, values: &[(u32, Ty, MemId)]) {
        self.tape.finish(&mut self.b);
        for &(param, _, memory) in values {
            let Some(&local) = self.params.get(&param) else { continue };
            let sum = self.b.read(local);
            let element = self.own_adjoint_element(memory);
            let place = Place { memory, indices: vec![element], leaf: 0, component: None };
            self.add_atomically(&place, sum);
        }
    }

    /// Returns the element of a by-value parameter's adjoint array to which this thread adds. Neighboring threads add
    /// to different elements, to reduce contention.
    fn own_adjoint_element(&mut self, memory: MemId) -> ExprId {
        let b = &mut self.b;
        let own = match self.form {
            LaunchForm::Threads { rank } => b.index(rank.saturating_sub(1)),
            LaunchForm::Grid => b.id(BuiltinIndex::Global, Axis::X),
        };
        let parts = b.extent(memory, 0);
        b.binary(BinOp::Rem, own, parts)
    }

    /// Emits a block of the forward part, directly followed by its reverse.
    fn emit_joined(&mut self, block: &Block) -> Result<(), NotDifferentiable> {
        self.cache.push(FxHashMap::default());
        self.begin_adjoint_sums(block_key(block));
        for (position, stmt) in block.iter().enumerate() {
            match &stmt.kind {
                StmtKind::If { cond, then, other } if position + 1 == block.len() => {
                    self.b.set_span(stmt.span);
                    let then = self.inner(|r| r.emit_joined(then))?;
                    let other = self.inner(|r| r.emit_joined(other))?;
                    self.b.set_span(stmt.span);
                    self.b.if_(*cond, then, other);
                }
                _ => self.forward_stmt(stmt, AdjointBlockKind::Joined)?,
            }
        }
        if !self.counting {
            let done = matches!(block.last(), Some(Stmt { kind: StmtKind::If { .. }, .. }));
            self.reverse_stmts(&block[..block.len() - usize::from(done)], AdjointBlockKind::Joined)?;
        }
        self.cache.pop();
        Ok(())
    }

    pub(super) fn inner(
        &mut self,
        fill: impl FnOnce(&mut Self) -> Result<(), NotDifferentiable>,
    ) -> Result<Block, NotDifferentiable> {
        self.b.push_block();
        let done = fill(self);
        let block = self.b.pop_block();
        done.map(|()| block)
    }

    // The forward part

    fn forward_block(&mut self, block: &Block) -> Result<(), NotDifferentiable> {
        let block_key = block_key(block);
        let kind = self.kind(block_key);
        for stmt in block {
            self.forward_stmt(stmt, kind)?;
        }
        let plan = self.plan;
        let evaluated = plan.scopes.get(&block_key).map_or(&[][..], |scope| &scope.evaluated);
        for &id in evaluated.iter().filter(|id| self.needs.values.contains(id)).collect::<Vec<_>>() {
            match kind {
                AdjointBlockKind::Looped => self.tape.push(&mut self.b, id),
                AdjointBlockKind::Branch | AdjointBlockKind::Joined => {
                    let local = self.branch_local(id);
                    self.b.write(local, id);
                }
            }
        }
        Ok(())
    }

    fn branch_local(&mut self, id: ExprId) -> LocalId {
        let (ty, b) = (self.f.exprs[id].ty, &mut self.b);
        *self.branch_locals.entry(id).or_insert_with(|| b.local("kept", ty))
    }

    fn forward_stmt(&mut self, stmt: &Stmt, kind: AdjointBlockKind) -> Result<(), NotDifferentiable> {
        self.b.set_span(stmt.span);
        match &stmt.kind {
            StmtKind::If { cond, then, other } => {
                let then = self.inner(|r| r.forward_block(then))?;
                let other = self.inner(|r| r.forward_block(other))?;
                self.b.set_span(stmt.span);
                self.b.if_(*cond, then, other);
            }
            StmtKind::For { label, collective: Some(CollectiveLoop::Gemm(product)), .. } => {
                self.b.stmt(stmt.kind.clone());
                self.record_operands(*label, *product);
            }
            StmtKind::For { label, .. } | StmtKind::Loop { label, .. } => self.forward_loop(stmt, *label, kind)?,
            StmtKind::Store { place, .. } | StmtKind::Atomic { place, result: None, .. }
                if !self.plan.read[place.memory.index()] => {}
            StmtKind::Print { .. } => {}
            other => self.b.stmt(other.clone()),
        }
        Ok(())
    }

    fn forward_loop(&mut self, stmt: &Stmt, label: Label, kind: AdjointBlockKind) -> Result<(), NotDifferentiable> {
        let end = self.exit_flags.get(&label).copied();
        let iterations = self.needs.counted_loops.contains(&label).then(|| self.iteration_count(label));
        if let Some(iterations) = iterations {
            let zero = self.b.i32(0);
            self.b.write(iterations, zero);
        }
        let leave = |r: &mut Self| {
            if let Some(end) = end {
                let ended = r.b.read(end);
                r.b.if_then(ended, |b| b.break_(label));
            }
        };
        let count = |r: &mut Self| {
            if let Some(iterations) = iterations {
                let (before, one) = (r.b.read(iterations), r.b.i32(1));
                let next = r.b.binary(BinOp::Add, before, one);
                r.b.write(iterations, next);
            }
        };
        let mut new_loop = stmt.kind.clone();
        if let StmtKind::For { body, .. } = &stmt.kind {
            let new = self.inner(|r| {
                leave(r);
                count(r);
                r.forward_block(body)
            })?;
            new_loop.blocks_mut().for_each(|body| *body = new.clone());
        }
        if let StmtKind::Loop { body, .. } = &stmt.kind {
            let new = self.inner(|r| {
                count(r);
                r.forward_block(body)?;
                leave(r);
                Ok(())
            })?;
            new_loop.blocks_mut().for_each(|body| *body = new.clone());
        }
        self.b.set_span(stmt.span);
        self.b.stmt(new_loop);
        if let (Some(iterations), AdjointBlockKind::Looped) = (iterations, kind) {
            let count = self.b.read(iterations);
            self.tape.push(&mut self.b, count);
        }
        Ok(())
    }

    fn iteration_count(&mut self, label: Label) -> LocalId {
        let b = &mut self.b;
        *self.iteration_counts.entry(label).or_insert_with(|| b.local("turns", I32))
    }

    // Values of the primal kernel in the reverse sweep

    /// Returns the number of iterations that a loop of the forward part executed.
    pub(super) fn executed_iterations(&mut self, label: Label, kind: AdjointBlockKind) -> ExprId {
        if self.needs.counted_loops.insert(label) {
            self.needs.has_grown = true;
            return self.b.i32(0);
        }
        let local = self.iteration_count(label);
        let popped = if kind == AdjointBlockKind::Looped { self.tape.pop(&mut self.b, I32) } else { None };
        popped.unwrap_or_else(|| self.b.read(local))
    }

    /// Emits code that pops the values that one execution of a block has recorded.
    pub(super) fn pop(&mut self, block: BlockKey) {
        let plan = self.plan;
        let Some(scope) = plan.scopes.get(&block).filter(|scope| scope.kind == AdjointBlockKind::Looped) else {
            return;
        };
        for &id in scope.evaluated.iter().rev() {
            if self.needs.values.contains(&id)
                && let Some(value) = self.tape.pop(&mut self.b, self.f.exprs[id].ty)
            {
                self.remember(id, value);
            }
        }
    }

    fn remember(&mut self, id: ExprId, value: ExprId) {
        if let Some(scope) = self.cache.last_mut() {
            scope.insert(id, value);
        }
    }

    /// Returns whether a value can be recomputed from values that are available in the reverse of its block.
    fn recomputable(&self, id: ExprId) -> bool {
        let kind = &self.f.exprs[id].kind;
        let is_available = match kind {
            kind if kind.is_free() => return true,
            ExprKind::Read(_) => return self.plan.counters.contains(&id),
            ExprKind::Load { place, .. } => {
                self.plan.constant[place.memory.index()] || self.plan.reloadable.contains(&id)
            }
            ExprKind::Result => false,
            _ => true,
        };
        let mut all = is_available;
        kind.operands(|operand| all = all && (self.is_in_scope(operand) || self.recomputable(operand)));
        all
    }

    /// Returns whether an expression of the forward part is still visible.
    fn is_in_scope(&self, id: ExprId) -> bool {
        self.plan.home_block.get(&id).is_some_and(|home| self.kind(*home) == AdjointBlockKind::Joined)
    }

    /// Returns an expression for a value of the primal kernel at the current point of the reverse sweep.
    pub(super) fn value(&mut self, id: ExprId) -> ExprId {
        let f = self.f;
        if f.exprs[id].kind.is_free() || self.is_in_scope(id) {
            return id;
        }
        if let Some(&known) = self.cache.iter().rev().find_map(|scope| scope.get(&id)) {
            return known;
        }
        let value = if self.recomputable(id) { self.recompute(id) } else { self.recorded_value(id) };
        self.remember(id, value);
        value
    }

    fn recompute(&mut self, id: ExprId) -> ExprId {
        let Expr { mut kind, ty } = self.f.exprs[id].clone();
        if let ExprKind::Read(local) = kind {
            return self.counters.get(&local).copied().unwrap_or(id);
        }
        kind.operands_mut(|operand| *operand = self.value(*operand));
        self.b.expr(kind, ty)
    }

    fn recorded_value(&mut self, id: ExprId) -> ExprId {
        if self.needs.values.insert(id) {
            self.needs.has_grown = true;
        }
        let looped = self.plan.home_block.get(&id).is_none_or(|home| self.kind(*home) == AdjointBlockKind::Looped);
        if self.needs.has_grown || looped {
            return id;
        }
        let local = self.branch_local(id);
        self.b.read(local)
    }
}

//! Reverse mode: the kernel once more, and then its mirror image.
//!
//! Input: a kernel without calls. Output: a kernel that adds to the adjoints of inputs what those of the outputs give. It is made
//! repeatedly, until no value is asked for that has not been recorded.

use rustc_hash::{FxHashMap, FxHashSet};

use super::active::{Activity, Mode, activity, refusal};
use super::alone::{self, Alone};
use super::apart;
use super::companion::{Companions, active_values, adjoint_type};
use super::def::{Counting, Derived, Recorder, Role};
use super::factors::taped;
use super::jumps::{self, Ends};
use super::launches::Launches;
use super::lost::Lost;
use super::plan::{self, Key, Kind, Plan, key};
use super::rules::{Maker, constant};
use super::tape::{self, Slots, Tape};
use crate::base::stop;
use crate::ir::build::{FunctionBuilder, module};
use crate::ir::def::*;
use crate::ir::typing::I32;
use crate::ir::visit::each_stmt;
use crate::lang::ops::BarrierKind;
use crate::pass::{self, trip_count};

/// The values that the mirror image asks for and the forward part has to record.
#[derive(Default)]
pub(super) struct Needs {
    pub values: FxHashSet<ExprId>,
    /// Loops whose turns are counted.
    pub turns: FxHashSet<Label>,
    pub grown: bool,
}

pub(super) struct Reverse<'a> {
    pub b: FunctionBuilder,
    pub f: &'a Function,
    pub activity: &'a Activity,
    pub plan: &'a Plan,
    pub ends: &'a Ends,
    pub alone: &'a Alone,
    pub needs: &'a mut Needs,
    pub companions: Companions,
    pub tape: Tape,
    counting: bool,
    form: Form,
    /// What has been computed again or popped, per open block of the mirror image.
    pub cache: Vec<FxHashMap<ExprId, ExprId>>,
    /// Adjoints of expressions so far.
    pub adjoints: FxHashMap<ExprId, ExprId>,
    /// Whether they are used at all, of those that only sides of `select` use.
    pub used: FxHashMap<ExprId, ExprId>,
    /// Whether the expression is used whose adjoint is passed on; none if it always is.
    pub own_use: Option<ExprId>,
    /// Adjoints of expressions that are used in inner blocks.
    pub sums: FxHashMap<ExprId, LocalId>,
    /// Of the kernel's values.
    pub params: FxHashMap<u32, LocalId>,
    /// The values of the counters of open loops.
    pub counters: FxHashMap<LocalId, ExprId>,
    kept: FxHashMap<ExprId, LocalId>,
    turns: FxHashMap<Label, LocalId>,
    /// Adjoints that have been taken and are still to be zeroed, by open block of the mirror image.
    pub taken: Vec<Vec<Place>>,
}

impl Maker for Reverse<'_> {
    fn builder(&mut self) -> &mut FunctionBuilder {
        &mut self.b
    }

    fn here(&mut self, id: ExprId) -> ExprId {
        if id.index() < self.f.exprs.len() { self.value(id) } else { id }
    }
}

struct Source<'a> {
    kernel: &'a Kernel,
    f: &'a Function,
    active: &'a [bool],
    activity: Activity,
    plan: Plan,
    ends: Ends,
    alone: Alone,
}

pub(super) fn derive(mut module: Module, active: &[bool], launches: &Launches) -> Result<Derived, Lost> {
    let body = module.kernel.body;
    let alone = alone::alone(&module, active, launches);
    let f = &mut module.functions[body];
    let ends = jumps::remove(f);
    plan::hoist_reads(f);
    let f = &module.functions[body];
    let activity = activity(f, active);
    refusal(&module.kernel, f, &activity, Mode::Reverse)?;
    let plan = plan::plan(f, &activity);
    let source = Source { kernel: &module.kernel, f, active, activity, plan, ends, alone };
    let mut needs = Needs::default();
    loop {
        stop::poll();
        needs.grown = false;
        let (made, roles) = source.run(&mut needs, false)?;
        if needs.grown {
            continue;
        }
        let counting = match roles.iter().any(|role| matches!(role, Role::Tape(_))) {
            true => {
                let (module, params) = source.run(&mut needs, true)?;
                Some(Counting { module, params })
            }
            false => None,
        };
        let recorders = source.recorders(&roles, &needs);
        return Ok(Derived { recorders, ..source.split(made, roles, counting)? });
    }
}

impl Source<'_> {
    /// Makes the derived kernel, or the one that counts.
    fn run(&self, needs: &mut Needs, counting: bool) -> Result<(Module, Vec<Role>), Lost> {
        let Source { kernel, f, active, activity, plan, ends, alone } = self;
        let slots = slots(f, plan, ends, needs, &f.body);
        let mut b = FunctionBuilder::over(kernel, f);
        let mut roles: Vec<Role> = (0..kernel.params.len()).map(Role::Primal).collect();
        let (mut companions, mut values) = (Companions::default(), vec![]);
        if !counting {
            values = value_params(&mut b, kernel, active, &mut roles);
            let adjoint = |param, _| (Role::Adjoint(param), Access::InOut);
            companions = Companions::add(&mut b, f, activity, &mut roles, &adjoint_type, adjoint);
        }
        let tape = Tape::new(&mut b, kernel.form, slots, counting, &mut roles);
        let mut reverse = Reverse {
            b,
            f,
            activity,
            plan,
            ends,
            alone,
            needs,
            companions,
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
            kept: FxHashMap::default(),
            turns: FxHashMap::default(),
            taken: vec![],
        };
        reverse.start(&values);
        reverse.joined(&f.body)?;
        reverse.finish(&values);
        let suffix = if counting { "count" } else { "vjp" };
        let mut made = module(Default::default(), reverse.b, kernel.form);
        made.kernel.name = format!("{}_{suffix}", kernel.name);
        made.kernel.span = kernel.span;
        without_outputs(&mut made, f, plan);
        pass::needed(&mut made);
        Ok((made, roles))
    }

    /// Returns the loops that record the most on each tape.
    fn recorders(&self, roles: &[Role], needs: &Needs) -> Vec<Recorder> {
        let tapes = roles.iter().filter_map(|role| match role {
            Role::Tape(scalar) => Some(tape::class(*scalar)),
            _ => None,
        });
        let found = tapes.map(|class| {
            let mut most = Recorder { span: self.kernel.span, numbers: 0 };
            each_stmt(&self.f.body, &mut |stmt| {
                let Some(body) = stmt.kind.label().and(stmt.kind.blocks().next()) else { return };
                let numbers = match stmt.kind {
                    StmtKind::For { label, together: Some(Together::Product(product)), .. } => {
                        taped(&self.plan.factors, label, product).filter(|&m| class_of(self.f, m) == class).count()
                            as u64
                    }
                    _ => self.recorded(body, class, needs),
                };
                if numbers >= most.numbers.max(1) {
                    most = Recorder { span: stmt.span, numbers };
                }
            });
            most
        });
        found.collect()
    }

    /// Returns how many numbers of a class one turn of a loop records, but for those of loops in it.
    fn recorded(&self, body: &Block, class: usize, needs: &Needs) -> u64 {
        let evaluated = self.plan.scopes.get(&key(body)).map_or(&[][..], |scope| &scope.evaluated);
        let types = evaluated.iter().filter(|id| needs.values.contains(id)).map(|id| self.f.exprs[*id].ty);
        let own: u64 = types.filter(|ty| tape::class(ty.scalar()) == class).map(|ty| u64::from(ty.lanes())).sum();
        let inner = body.iter().filter(|stmt| stmt.kind.label().is_none()).flat_map(|stmt| stmt.kind.blocks());
        own + inner.map(|block| self.recorded(block, class, needs)).sum::<u64>()
    }

    /// Takes out of a derived kernel what is better gathered.
    fn split(&self, mut module: Module, mut params: Vec<Role>, counting: Option<Counting>) -> Result<Derived, Lost> {
        let accesses: Vec<Option<Access>> = self.kernel.params.iter().map(KernelParam::access).collect();
        let (gathers, totals) = apart::taken_out(&mut module, &mut params, &accesses)?;
        let is_whole = gathers.is_empty() && totals.is_none();
        let has_effect = is_whole || apart::has_effect(&module, &params, &accesses);
        Ok(Derived { module, params, counting, recorders: vec![], gathers, totals, has_effect })
    }
}

/// Adds the adjoints of active values; returns the position of each value, and the array that is its adjoint.
fn value_params(
    b: &mut FunctionBuilder,
    kernel: &Kernel,
    active: &[bool],
    roles: &mut Vec<Role>,
) -> Vec<(u32, Ty, MemId)> {
    let added = active_values(kernel, active).map(|(position, name, ty)| {
        roles.push(Role::Adjoint(position));
        let ty = adjoint_type(ty);
        (position as u32, ty, b.array(name, Access::InOut, Layout::plain(ty), 1))
    });
    added.collect()
}

/// Arrays that the kernel never reads are not written again; they remain for their extents.
fn without_outputs(made: &mut Module, f: &Function, plan: &Plan) {
    let body = &mut made.functions[made.kernel.body];
    for (id, memory) in f.memories.iter() {
        if let Space::Global { param, .. } = memory.space
            && !plan.read[id.index()]
        {
            body.memories[id].space = Space::Global { param, access: Access::In };
            if let Some(KernelParam::Array { access, .. }) = made.kernel.params.get_mut(param as usize) {
                *access = Access::In;
            }
        }
    }
}

/// Returns how much a block records on the tape.
fn slots(f: &Function, plan: &Plan, ends: &Ends, needs: &Needs, block: &Block) -> Slots {
    let mut all = Slots::zero();
    let scope = &plan.scopes[&key(block)];
    if scope.kind == Kind::Looped {
        for id in scope.evaluated.iter().filter(|id| needs.values.contains(id)) {
            let ty = f.exprs[*id].ty;
            all.add(tape::class(ty.scalar()), Some(u64::from(ty.lanes())));
        }
    }
    for stmt in block {
        if let StmtKind::For { label, together: Some(Together::Product(product)), .. } = stmt.kind {
            for memory in taped(&plan.factors, label, product) {
                all.add(class_of(f, memory), None);
            }
            continue;
        }
        let turns = match &stmt.kind {
            StmtKind::For { label, start, end, step, inclusive, .. } if !ends.contains_key(label) => {
                trip_count(f, *start, *end, *step, *inclusive).and_then(|count| u64::try_from(count).ok())
            }
            StmtKind::For { .. } | StmtKind::Loop { .. } => None,
            _ => Some(1),
        };
        if let Some(label) = stmt.kind.label()
            && scope.kind == Kind::Looped
            && needs.turns.contains(&label)
        {
            all.add(tape::class(I32.scalar()), Some(1));
        }
        for inner in stmt.kind.blocks() {
            all.add_turns(slots(f, plan, ends, needs, inner), turns);
        }
    }
    all
}

/// Returns the class of a matrix's elements.
fn class_of(f: &Function, memory: MemId) -> usize {
    f.memories[memory].layout.leaves.first().map_or(0, |leaf| tape::class(leaf.ty.scalar()))
}

impl Reverse<'_> {
    fn kind(&self, block: Key) -> Kind {
        self.plan.scopes.get(&block).map_or(Kind::Looped, |scope| scope.kind)
    }

    /// Sets all adjoints to zero that begin in this kernel.
    fn start(&mut self, values: &[(u32, Ty, MemId)]) {
        if self.counting {
            return;
        }
        for &(param, ty, _) in values {
            let zero = constant(&mut self.b, ty, 0.0);
            self.params.insert(param, self.b.variable("sum", zero));
        }
        for (id, local) in self.f.locals.iter() {
            if let Some(&own) = self.companions.locals.get(&id) {
                let zero = constant(&mut self.b, adjoint_type(local.ty), 0.0);
                self.b.write(own, zero);
            }
        }
        let mut shared = false;
        for (id, memory) in self.f.memories.iter() {
            let Some(&own) = self.companions.memories.get(&id) else { continue };
            match memory.space {
                Space::Local => self.clear(own, None),
                Space::Shared => {
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

    /// Sets a memory to zero, by all threads of a block or by this one.
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
        for (leaf, of) in layout.leaves.iter().enumerate() {
            if of.ty.scalar().is_float() {
                let zero = constant(b, of.ty, 0.0);
                let place = Place { memory, indices: indices.clone(), leaf: leaf as u32, component: None };
                b.store_place(place, zero, Hint::None);
            }
        }
        let body = b.pop_block();
        let range = crate::ir::build::Range { start, end: count, step, inclusive: false };
        b.for_(label, local, range, Unroll::Auto, body);
    }

    /// Adds the sums of values to their adjoints.
    fn finish(&mut self, values: &[(u32, Ty, MemId)]) {
        self.tape.finish(&mut self.b);
        for &(param, _, memory) in values {
            let Some(&local) = self.params.get(&param) else { continue };
            let sum = self.b.read(local);
            let element = self.part(memory);
            let place = Place { memory, indices: vec![element], leaf: 0, component: None };
            self.add_atomically(&place, sum);
        }
    }

    /// Returns the element of a value's adjoint that this thread adds to: neighbors add to different ones.
    fn part(&mut self, memory: MemId) -> ExprId {
        let b = &mut self.b;
        let own = match self.form {
            Form::Threads { rank } => b.index(rank.saturating_sub(1)),
            Form::Grid => b.id(Id3::Global, Axis::X),
        };
        let parts = b.extent(memory, 0);
        b.binary(BinOp::Rem, own, parts)
    }

    /// Makes a block with its mirror image behind it.
    fn joined(&mut self, block: &Block) -> Result<(), Lost> {
        self.cache.push(FxHashMap::default());
        self.begin_sums(key(block));
        for (position, stmt) in block.iter().enumerate() {
            match &stmt.kind {
                StmtKind::If { cond, then, other } if position + 1 == block.len() => {
                    self.b.set_span(stmt.span);
                    let then = self.inner(|r| r.joined(then))?;
                    let other = self.inner(|r| r.joined(other))?;
                    self.b.set_span(stmt.span);
                    self.b.if_(*cond, then, other);
                }
                _ => self.again(stmt, Kind::Joined)?,
            }
        }
        if !self.counting {
            let done = matches!(block.last(), Some(Stmt { kind: StmtKind::If { .. }, .. }));
            self.back_all(&block[..block.len() - usize::from(done)], Kind::Joined)?;
        }
        self.cache.pop();
        Ok(())
    }

    pub(super) fn inner(&mut self, fill: impl FnOnce(&mut Self) -> Result<(), Lost>) -> Result<Block, Lost> {
        self.b.push_block();
        let done = fill(self);
        let made = self.b.pop_block();
        done.map(|()| made)
    }

    // The forward part

    fn forward(&mut self, block: &Block) -> Result<(), Lost> {
        let own = key(block);
        let kind = self.kind(own);
        for stmt in block {
            self.again(stmt, kind)?;
        }
        let plan = self.plan;
        let evaluated = plan.scopes.get(&own).map_or(&[][..], |scope| &scope.evaluated);
        for &id in evaluated.iter().filter(|id| self.needs.values.contains(id)).collect::<Vec<_>>() {
            match kind {
                Kind::Looped => self.tape.push(&mut self.b, id),
                Kind::Branch | Kind::Joined => {
                    let local = self.kept(id);
                    self.b.write(local, id);
                }
            }
        }
        Ok(())
    }

    fn kept(&mut self, id: ExprId) -> LocalId {
        let (ty, b) = (self.f.exprs[id].ty, &mut self.b);
        *self.kept.entry(id).or_insert_with(|| b.local("kept", ty))
    }

    fn again(&mut self, stmt: &Stmt, kind: Kind) -> Result<(), Lost> {
        self.b.set_span(stmt.span);
        match &stmt.kind {
            StmtKind::If { cond, then, other } => {
                let then = self.inner(|r| r.forward(then))?;
                let other = self.inner(|r| r.forward(other))?;
                self.b.set_span(stmt.span);
                self.b.if_(*cond, then, other);
            }
            StmtKind::For { label, together: Some(Together::Product(product)), .. } => {
                self.b.stmt(stmt.kind.clone());
                self.record_factors(*label, *product);
            }
            StmtKind::For { label, .. } | StmtKind::Loop { label, .. } => self.loop_again(stmt, *label, kind)?,
            StmtKind::Store { place, .. } | StmtKind::Atomic { place, result: None, .. }
                if !self.plan.read[place.memory.index()] => {}
            StmtKind::Print { .. } => {}
            other => self.b.stmt(other.clone()),
        }
        Ok(())
    }

    fn loop_again(&mut self, stmt: &Stmt, label: Label, kind: Kind) -> Result<(), Lost> {
        let end = self.ends.get(&label).copied();
        let turns = self.needs.turns.contains(&label).then(|| self.turns(label));
        if let Some(turns) = turns {
            let zero = self.b.i32(0);
            self.b.write(turns, zero);
        }
        let leave = |r: &mut Self| {
            if let Some(end) = end {
                let ended = r.b.read(end);
                r.b.if_then(ended, |b| b.break_(label));
            }
        };
        let count = |r: &mut Self| {
            if let Some(turns) = turns {
                let (before, one) = (r.b.read(turns), r.b.i32(1));
                let next = r.b.binary(BinOp::Add, before, one);
                r.b.write(turns, next);
            }
        };
        let mut made = stmt.kind.clone();
        if let StmtKind::For { body, .. } = &stmt.kind {
            let new = self.inner(|r| {
                leave(r);
                count(r);
                r.forward(body)
            })?;
            made.blocks_mut().for_each(|body| *body = new.clone());
        }
        if let StmtKind::Loop { body, .. } = &stmt.kind {
            let new = self.inner(|r| {
                count(r);
                r.forward(body)?;
                leave(r);
                Ok(())
            })?;
            made.blocks_mut().for_each(|body| *body = new.clone());
        }
        self.b.set_span(stmt.span);
        self.b.stmt(made);
        if let (Some(turns), Kind::Looped) = (turns, kind) {
            let count = self.b.read(turns);
            self.tape.push(&mut self.b, count);
        }
        Ok(())
    }

    fn turns(&mut self, label: Label) -> LocalId {
        let b = &mut self.b;
        *self.turns.entry(label).or_insert_with(|| b.local("turns", I32))
    }

    // Values in the mirror image

    /// Returns the turns that a loop took.
    pub(super) fn taken(&mut self, label: Label, kind: Kind) -> ExprId {
        if self.needs.turns.insert(label) {
            self.needs.grown = true;
            return self.b.i32(0);
        }
        let local = self.turns(label);
        let popped = if kind == Kind::Looped { self.tape.pop(&mut self.b, I32) } else { None };
        popped.unwrap_or_else(|| self.b.read(local))
    }

    /// Pops what a block has recorded.
    pub(super) fn pop(&mut self, block: Key) {
        let plan = self.plan;
        let Some(scope) = plan.scopes.get(&block).filter(|scope| scope.kind == Kind::Looped) else { return };
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

    /// Returns whether a value can be computed again anywhere in the mirror image of its block.
    fn recomputable(&self, id: ExprId) -> bool {
        let kind = &self.f.exprs[id].kind;
        let fits = match kind {
            kind if kind.is_free() => return true,
            ExprKind::Read(_) => return self.plan.counters.contains(&id),
            ExprKind::Load { place, .. } => self.plan.constant[place.memory.index()] || self.plan.settled.contains(&id),
            ExprKind::Result => false,
            _ => true,
        };
        let mut all = fits;
        kind.operands(|operand| all = all && (self.is_there(operand) || self.recomputable(operand)));
        all
    }

    /// Returns whether a value of the forward part is still in scope.
    fn is_there(&self, id: ExprId) -> bool {
        self.plan.home.get(&id).is_some_and(|home| self.kind(*home) == Kind::Joined)
    }

    /// Returns a value of the original kernel, where the mirror image is now.
    pub(super) fn value(&mut self, id: ExprId) -> ExprId {
        let f = self.f;
        if f.exprs[id].kind.is_free() || self.is_there(id) {
            return id;
        }
        if let Some(&known) = self.cache.iter().rev().find_map(|scope| scope.get(&id)) {
            return known;
        }
        let value = if self.recomputable(id) { self.computed_again(id) } else { self.recorded(id) };
        self.remember(id, value);
        value
    }

    fn computed_again(&mut self, id: ExprId) -> ExprId {
        let Expr { mut kind, ty } = self.f.exprs[id].clone();
        if let ExprKind::Read(local) = kind {
            return self.counters.get(&local).copied().unwrap_or(id);
        }
        kind.operands_mut(|operand| *operand = self.value(*operand));
        self.b.expr(kind, ty)
    }

    fn recorded(&mut self, id: ExprId) -> ExprId {
        if self.needs.values.insert(id) {
            self.needs.grown = true;
        }
        let looped = self.plan.home.get(&id).is_none_or(|home| self.kind(*home) == Kind::Looped);
        if self.needs.grown || looped {
            return id;
        }
        let local = self.kept(id);
        self.b.read(local)
    }
}

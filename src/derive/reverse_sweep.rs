//! The reverse sweep of the reverse mode: visits the statements in reverse order and propagates the adjoints of results
//! to the adjoints of operands.

use rustc_hash::FxHashMap;

use super::error::NotDifferentiable;
use super::plan::{AdjointBlockKind, BlockKey, block_key};
use super::reverse_mode::ReverseDerivative;
use super::rules::{constant, operands, times_partial};
use super::shadow::adjoint_type;
use super::warp;
use clk_base::stop;
use clk_ir::build::IrForRange;
use clk_ir::def::*;
use clk_ir::typing::{self, I32};
use clk_ir::visit::each_stmt;
use clk_scalar::ScalarValue;
use clk_scalar::ops::{AtomicOp, BarrierKind, UnaryOp};

/// Returns whether a block of generated code contains more than `Let`s.
fn has_effect(block: &Block) -> bool {
    block.iter().any(|stmt| !matches!(stmt.kind, StmtKind::Let(_)))
}

/// The range of a `For` of the primal kernel.
struct PrimalLoopRange {
    start: ExprId,
    end: ExprId,
    step: ExprId,
    inclusive: bool,
}

impl ReverseDerivative<'_> {
    /// Declares a local, initially zero, for the adjoint of each expression of this block that inner blocks use.
    pub(super) fn begin_adjoint_sums(&mut self, block: BlockKey) {
        let plan = self.plan;
        let evaluated = plan.scopes.get(&block).map_or(&[][..], |scope| &scope.evaluated);
        for &id in evaluated {
            if self.activity.expr(id) && plan.nested.contains(&id) {
                let zero = constant(&mut self.b, adjoint_type(self.f.exprs[id].ty), 0.0);
                let sum = self.b.variable("sum", zero);
                self.sums.insert(id, sum);
            }
        }
    }

    fn reverse_block(&mut self, block: &Block) -> Result<(), NotDifferentiable> {
        let block_key = block_key(block);
        let kind = self.plan.scopes.get(&block_key).map_or(AdjointBlockKind::Looped, |scope| scope.kind);
        self.cache.push(FxHashMap::default());
        self.pop(block_key);
        self.begin_adjoint_sums(block_key);
        self.reverse_stmts(block, kind)?;
        self.cache.pop();
        Ok(())
    }

    /// Emits the reverse of the statements of one block.
    pub(super) fn reverse_stmts(&mut self, block: &[Stmt], kind: AdjointBlockKind) -> Result<(), NotDifferentiable> {
        self.consumed.push(vec![]);
        for stmt in block.iter().rev() {
            self.zero_consumed(|r, place| r.may_access_adjoint(stmt, place.memory));
            self.reverse_stmt(stmt, kind)?;
        }
        self.zero_consumed(|_, _| true);
        self.consumed.pop();
        Ok(())
    }

    fn reverse_stmt(&mut self, stmt: &Stmt, kind: AdjointBlockKind) -> Result<(), NotDifferentiable> {
        stop::poll();
        self.b.set_span(stmt.span);
        match &stmt.kind {
            StmtKind::Let(id) if self.activity.expr(*id) => self.reverse_let(*id),
            StmtKind::Write { local, value } => {
                if let Some(&own) = self.shadows.locals.get(local) {
                    let adjoint = self.b.read(own);
                    let zero = constant(&mut self.b, adjoint_type(self.f.locals[*local].ty), 0.0);
                    self.b.write(own, zero);
                    self.add_to_adjoint(*value, adjoint);
                }
                Ok(())
            }
            StmtKind::Store { place, value, .. } if self.activity.place(self.f, place) => {
                if let Some(own) = self.adjoint_place(place) {
                    let is_exclusive = !self.activity.expr(*value) || self.non_atomic.store(self.f, place, stmt.span);
                    let adjoint = if is_exclusive { self.load_adjoint(own) } else { self.exchange_adjoint(&own) };
                    self.add_to_adjoint(*value, adjoint);
                }
                Ok(())
            }
            StmtKind::Atomic { op, place, value, .. } if self.activity.place(self.f, place) => {
                if self.activity.expr(*value)
                    && let Some(own) = self.adjoint_place(place)
                {
                    let adjoint = self.b.load_place(own, CacheHint::None);
                    let part = if *op == AtomicOp::Sub { self.b.unary(UnaryOp::Neg, adjoint) } else { adjoint };
                    self.add_to_adjoint(*value, part);
                }
                Ok(())
            }
            StmtKind::Barrier { kind, .. } => {
                let kind = match kind {
                    BarrierKind::Grid | BarrierKind::Warp => *kind,
                    _ => BarrierKind::Block,
                };
                self.b.barrier(kind, None);
                Ok(())
            }
            StmtKind::Fence(scope) => {
                self.b.fence(*scope);
                Ok(())
            }
            StmtKind::Warp { op, value, lane, among, result } => {
                let adjoint = if self.activity.expr(*result) { self.take_adjoint(*result) } else { None };
                let Some(adjoint) = adjoint else {
                    // A warp operation also orders the memory accesses of the lanes, so the reverse sweep needs a
                    // barrier here.
                    if among.is_none() {
                        self.b.barrier(BarrierKind::Warp, None);
                    }
                    return Ok(());
                };
                let operands =
                    warp::WarpOperands { op: *op, value: *value, lane: *lane, among: *among, result: *result };
                let part = warp::adjoint(self, &operands, adjoint, stmt.span)?;
                self.add_to_adjoint(*value, part);
                Ok(())
            }
            StmtKind::Declare(memory) => {
                if let Some(&own) = self.shadows.memories.get(memory) {
                    self.clear(own, None);
                }
                Ok(())
            }
            StmtKind::If { cond, then, other } => self.reverse_if(*cond, then, other, stmt),
            StmtKind::For { label, collective: Some(CollectiveLoop::Gemm(product)), .. } => {
                self.reverse_product(*label, *product)
            }
            StmtKind::For { .. } | StmtKind::Loop { .. } => self.reverse_loop(stmt, kind),
            _ => Ok(()),
        }
    }

    fn reverse_if(&mut self, cond: ExprId, then: &Block, other: &Block, stmt: &Stmt) -> Result<(), NotDifferentiable> {
        let then = self.inner(|r| r.reverse_block(then))?;
        let other = self.inner(|r| r.reverse_block(other))?;
        if has_effect(&then) || has_effect(&other) {
            self.b.set_span(stmt.span);
            let cond = self.value(cond);
            self.b.if_(cond, then, other);
        }
        Ok(())
    }

    fn reverse_loop(&mut self, stmt: &Stmt, kind: AdjointBlockKind) -> Result<(), NotDifferentiable> {
        let Some(body) = stmt.kind.blocks().next() else { return Ok(()) };
        if !self.plan.scopes.get(&block_key(body)).is_some_and(|scope| scope.has_effect) {
            return Ok(());
        }
        match stmt.kind {
            StmtKind::For { label, local, start, end, step, inclusive, .. } => {
                let bounds = PrimalLoopRange { start, end, step, inclusive };
                if self.exit_flags.contains_key(&label) {
                    self.reverse_early_exit_loop(label, kind, body, Some((local, bounds)))
                } else {
                    self.reverse_for(local, &bounds, body)
                }
            }
            StmtKind::Loop { label, .. } => self.reverse_early_exit_loop(label, kind, body, None),
            _ => Ok(()),
        }
    }

    /// Emits the reverse of a loop with an early exit. It has the same number of iterations as the loop executed.
    fn reverse_early_exit_loop(
        &mut self,
        label: Label,
        kind: AdjointBlockKind,
        body: &Block,
        counter: Option<(LocalId, PrimalLoopRange)>,
    ) -> Result<(), NotDifferentiable> {
        let iterations = self.executed_iterations(label, kind);
        let range = counter.as_ref().map(|(_, of)| (self.value(of.start), self.value(of.step)));
        let (new, iteration) = (self.b.label(), self.b.local("turn", I32));
        let block = self.inner(|r| {
            if let (Some((local, _)), Some((start, step))) = (&counter, range) {
                let (iteration, one) = (r.b.read(iteration), r.b.i32(1));
                let last = r.b.binary(BinOp::Sub, iterations, one);
                let before = r.b.binary(BinOp::Sub, last, iteration);
                let scalar = r.b.ty(start).scalar();
                let before = r.b.convert(before, scalar);
                let distance = r.b.binary(BinOp::Mul, before, step);
                let value = r.b.binary(BinOp::Add, start, distance);
                r.counters.insert(*local, value);
            }
            r.reverse_block(body)
        })?;
        if let Some((local, _)) = counter {
            self.counters.remove(&local);
        }
        let (start, step) = (self.b.i32(0), self.b.i32(1));
        let range = IrForRange { start, end: iterations, step, inclusive: false };
        self.b.for_(new, iteration, range, Unroll::Auto, block);
        Ok(())
    }

    /// Emits the reverse of a loop without early exits: a loop over the same range. Its body uses the mirrored value of
    /// the counter.
    fn reverse_for(&mut self, local: LocalId, of: &PrimalLoopRange, body: &Block) -> Result<(), NotDifferentiable> {
        let (start, end, step) = (self.value(of.start), self.value(of.end), self.value(of.step));
        let ty = self.f.locals[local].ty;
        let (new, own) = (self.b.label(), self.b.local("mirrored", ty));
        let range = IrForRange { start, end, step, inclusive: of.inclusive };
        let block = self.inner(|r| {
            let counter = r.b.read(own);
            let value = r.reversed_counter(counter, &range);
            r.counters.insert(local, value);
            r.reverse_block(body)
        })?;
        self.counters.remove(&local);
        if has_effect(&block) {
            self.b.for_(new, own, range, Unroll::Auto, block);
        }
        Ok(())
    }

    /// Returns the counter's value in the mirrored iteration: in the first iteration, this is the last value of the
    /// range. It is used only inside the loop's body, so the range is not empty.
    pub(super) fn reversed_counter(&mut self, counter: ExprId, range: &IrForRange) -> ExprId {
        let IrForRange { start, end, step, inclusive } = *range;
        let b = &mut self.b;
        let scalar = b.ty(start).scalar();
        let number = |b: &mut clk_ir::build::FunctionBuilder, n: i128| {
            b.constant(ScalarValue::from_integer(scalar, n).unwrap_or_else(|| ScalarValue::zero(scalar)))
        };
        let constant_step = b.function().const_integer(step);
        let mut span = b.binary(BinOp::Sub, end, start);
        if !inclusive {
            let sign = match constant_step {
                Some(constant_step) => number(b, constant_step.signum()),
                None if scalar.is_unsigned() => number(b, 1),
                None => {
                    let (zero, up, down) = (number(b, 0), number(b, 1), number(b, -1));
                    let is_up = b.binary(BinOp::Gt, step, zero);
                    b.select(is_up, up, down)
                }
            };
            span = b.binary(BinOp::Sub, span, sign);
        }
        if !matches!(constant_step, Some(1 | -1)) {
            let step_count = b.binary(BinOp::Div, span, step);
            span = b.binary(BinOp::Mul, step_count, step);
        }
        let distance = b.binary(BinOp::Sub, counter, start);
        let left = b.binary(BinOp::Sub, span, distance);
        b.binary(BinOp::Add, start, left)
    }

    fn reverse_let(&mut self, id: ExprId) -> Result<(), NotDifferentiable> {
        let Some(adjoint) = self.take_adjoint(id) else { return Ok(()) };
        self.own_use = self.used.remove(&id);
        let result = self.propagate_adjoint(id, adjoint);
        self.own_use = None;
        result
    }

    /// Propagates the adjoint of an expression to its operands.
    fn propagate_adjoint(&mut self, id: ExprId, adjoint: ExprId) -> Result<(), NotDifferentiable> {
        let f = self.f;
        self.b.set_span(f.spans[id]);
        match &f.exprs[id].kind {
            ExprKind::Read(local) => {
                if let Some(&own) = self.shadows.locals.get(local) {
                    let before = self.b.read(own);
                    let sum = self.b.binary(BinOp::Add, before, adjoint);
                    self.b.write(own, sum);
                }
            }
            ExprKind::Load { place, .. } => {
                if let Some(own) = self.adjoint_place(place) {
                    match self.non_atomic.load(f, id, place) {
                        true => self.add_to_element(own, adjoint),
                        false => self.add_atomically(&own, adjoint),
                    }
                }
            }
            ExprKind::Unary { value, .. } => {
                let part = self.b.unary(UnaryOp::Neg, adjoint);
                self.add_to_adjoint(*value, part);
            }
            kind @ (ExprKind::Binary { .. } | ExprKind::Math { .. }) => {
                for (position, operand) in operands(kind).into_iter().enumerate() {
                    if self.activity.expr(operand)
                        && let Some(part) = times_partial(self, f, id, position, adjoint)?
                    {
                        let part = self.zero_unless_used(part, adjoint);
                        self.add_to_adjoint(operand, part);
                    }
                }
            }
            ExprKind::Select { cond, then, other } => {
                let cond = self.value(*cond);
                let zero = constant(&mut self.b, adjoint_type(f.exprs[id].ty), 0.0);
                let used = self.own_use;
                if self.activity.expr(*then) {
                    let part = self.b.select(cond, adjoint, zero);
                    self.own_use = self.use_condition(cond, used);
                    self.add_to_adjoint(*then, part);
                }
                if self.activity.expr(*other) {
                    let part = self.b.select(cond, zero, adjoint);
                    let not_cond = self.b.unary(UnaryOp::Not, cond);
                    self.own_use = self.use_condition(not_cond, used);
                    self.add_to_adjoint(*other, part);
                }
            }
            ExprKind::Convert(value) => {
                let part = self.b.convert(adjoint, adjoint_type(f.exprs[*value].ty).scalar());
                self.add_to_adjoint(*value, part);
            }
            ExprKind::Compose(parts) => {
                for (lane, &part) in parts.iter().enumerate().filter(|(_, part)| self.activity.exprs[part.index()]) {
                    let own = self.b.extract(adjoint, lane as u8);
                    self.add_to_adjoint(part, own);
                }
            }
            ExprKind::Extract { value, lane } => {
                let ty = adjoint_type(f.exprs[*value].ty);
                let zero = constant(&mut self.b, Ty::Scalar(ty.scalar()), 0.0);
                let parts: Vec<ExprId> = (0..ty.lanes()).map(|l| if l == *lane { adjoint } else { zero }).collect();
                let part = self.b.compose(&parts);
                self.add_to_adjoint(*value, part);
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the condition under which one side of a `select` is used; `None` if the condition is a vector.
    fn use_condition(&mut self, cond: ExprId, used: Option<ExprId>) -> Option<ExprId> {
        if self.b.ty(cond).lanes() > 1 {
            return None;
        }
        Some(used.map_or(cond, |used| self.b.binary(BinOp::And, used, cond)))
    }

    /// Returns code for `part`, or for zero if the expression is unused (an unselected side of a `select`): its partial
    /// derivative may be infinite then.
    fn zero_unless_used(&mut self, part: ExprId, adjoint: ExprId) -> ExprId {
        let Some(used) = self.own_use.filter(|_| part != adjoint) else { return part };
        let ty = self.b.ty(part);
        let zero = constant(&mut self.b, ty, 0.0);
        self.b.select(used, part, zero)
    }

    /// Adds `part` to the adjoint of an expression.
    fn add_to_adjoint(&mut self, id: ExprId, part: ExprId) {
        if !self.activity.expr(id) {
            return;
        }
        let local = match self.f.exprs[id].kind {
            ExprKind::Param(param) => self.params.get(&param).copied(),
            _ => self.sums.get(&id).copied(),
        };
        if let Some(local) = local {
            let before = self.b.read(local);
            let sum = self.b.binary(BinOp::Add, before, part);
            return self.b.write(local, sum);
        }
        let sum = match self.adjoints.get(&id) {
            Some(&before) => {
                let uses = self.used.remove(&id).zip(self.own_use);
                let used = uses.map(|(a, b)| self.b.binary(BinOp::Or, a, b));
                self.used.extend(used.map(|used| (id, used)));
                self.b.binary(BinOp::Add, before, part)
            }
            None => {
                self.used.extend(self.own_use.map(|used| (id, used)));
                part
            }
        };
        self.adjoints.insert(id, sum);
    }

    /// Returns the adjoint of an expression; `None` if it is zero.
    fn take_adjoint(&mut self, id: ExprId) -> Option<ExprId> {
        match self.sums.get(&id) {
            Some(&local) => Some(self.b.read(local)),
            None => self.adjoints.remove(&id),
        }
    }

    fn adjoint_place(&mut self, place: &Place) -> Option<Place> {
        let indices = place.indices.iter().map(|&index| self.value(index)).collect();
        self.shadows.place(place, indices)
    }

    /// Loads an adjoint, and records that it must be zeroed later. On a GPU, a store directly after the load would
    /// stall until the load completes.
    fn load_adjoint(&mut self, place: Place) -> ExprId {
        let adjoint = self.b.load_place(place.clone(), CacheHint::None);
        if let Some(places) = self.consumed.last_mut() {
            places.push(place);
        }
        adjoint
    }

    /// Zeroes the selected adjoints that were loaded by [`load_adjoint`](Self::load_adjoint) in this block.
    fn zero_consumed(&mut self, which: impl Fn(&Self, &Place) -> bool) {
        let Some(places) = self.consumed.last_mut() else { return };
        for place in std::mem::take(places) {
            if which(self, &place) {
                let ty = typing::place(self.b.function(), &place).unwrap_or(I32);
                let zero = constant(&mut self.b, ty, 0.0);
                self.b.store_place(place, zero, CacheHint::None);
            } else if let Some(places) = self.consumed.last_mut() {
                places.push(place);
            }
        }
    }

    /// Returns whether the reverse of a statement accesses an adjoint memory, or synchronizes with other threads.
    fn may_access_adjoint(&self, stmt: &Stmt, adjoint: MemId) -> bool {
        let is_adjoint = |place: &Place| self.shadows.memories.get(&place.memory) == Some(&adjoint);
        let mut accesses = false;
        each_stmt(std::slice::from_ref(stmt), &mut |stmt| {
            accesses |= match &stmt.kind {
                StmtKind::Let(id) => {
                    matches!(&self.f.exprs[*id].kind, ExprKind::Load { place, .. } if is_adjoint(place))
                }
                StmtKind::Store { place, .. } | StmtKind::Atomic { place, .. } => is_adjoint(place),
                StmtKind::Barrier { .. } | StmtKind::Fence(_) | StmtKind::Warp { .. } => true,
                StmtKind::Declare(memory) => self.shadows.memories.get(memory) == Some(&adjoint),
                _ => false,
            };
        });
        accesses
    }

    /// Atomically reads an adjoint and zeroes it. If several threads stored to the element, the first one receives the
    /// whole adjoint.
    fn exchange_adjoint(&mut self, place: &Place) -> ExprId {
        let ty = typing::place(self.b.function(), place).unwrap_or(I32);
        let zero = constant(&mut self.b, Ty::Scalar(ty.scalar()), 0.0);
        let Ty::Vector(_, lanes) = ty else {
            return self.b.atomic(AtomicOp::Exchange, place.clone(), zero, None);
        };
        let mut part = |lane| {
            let place = Place { component: Some(lane), ..place.clone() };
            self.b.atomic(AtomicOp::Exchange, place, zero, None)
        };
        let parts: Vec<ExprId> = (0..lanes).map(&mut part).collect();
        self.b.compose(&parts)
    }

    fn add_to_element(&mut self, place: Place, part: ExprId) {
        let before = self.b.load_place(place.clone(), CacheHint::None);
        let sum = self.b.binary(BinOp::Add, before, part);
        self.b.store_place(place, sum, CacheHint::None);
    }

    pub(super) fn add_atomically(&mut self, place: &Place, part: ExprId) {
        match typing::place(self.b.function(), place) {
            Ok(Ty::Vector(_, lanes)) => {
                for lane in 0..lanes {
                    let own = self.b.extract(part, lane);
                    let place = Place { component: Some(lane), ..place.clone() };
                    self.b.atomic_unused(AtomicOp::Add, place, own, None);
                }
            }
            Ok(_) => self.b.atomic_unused(AtomicOp::Add, place.clone(), part, None),
            Err(_) => debug_assert!(false, "a memory location of the primal kernel"),
        }
    }
}

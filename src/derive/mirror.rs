//! The mirror image: what each statement gives to the adjoints, in the opposite order.

use rustc_hash::FxHashMap;

use super::companion::adjoint_type;
use super::lost::Lost;
use super::plan::{Key, Kind, key};
use super::reverse::Reverse;
use super::rules::{constant, operands, times_partial};
use super::warp;
use crate::base::stop;
use crate::ir::build::Range;
use crate::ir::def::*;
use crate::ir::typing::{self, I32};
use crate::ir::visit::each_stmt;
use crate::lang::ops::{AtomicOp, BarrierKind, UnaryOp};
use crate::lang::scalar::Value;

/// Returns whether a block of the mirror image does anything.
fn has_effect(block: &Block) -> bool {
    block.iter().any(|stmt| !matches!(stmt.kind, StmtKind::Let(_)))
}

/// The range of a `For` of the original kernel.
struct Bounds {
    start: ExprId,
    end: ExprId,
    step: ExprId,
    inclusive: bool,
}

impl Reverse<'_> {
    /// Sets the adjoints of expressions to zero that inner blocks add to.
    pub(super) fn begin_sums(&mut self, block: Key) {
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

    fn mirrored(&mut self, block: &Block) -> Result<(), Lost> {
        let own = key(block);
        let kind = self.plan.scopes.get(&own).map_or(Kind::Looped, |scope| scope.kind);
        self.cache.push(FxHashMap::default());
        self.pop(own);
        self.begin_sums(own);
        self.back_all(block, kind)?;
        self.cache.pop();
        Ok(())
    }

    /// Makes the mirror image of statements of one block.
    pub(super) fn back_all(&mut self, block: &[Stmt], kind: Kind) -> Result<(), Lost> {
        self.taken.push(vec![]);
        for stmt in block.iter().rev() {
            self.zero(|r, place| r.touches(stmt, place.memory));
            self.back(stmt, kind)?;
        }
        self.zero(|_, _| true);
        self.taken.pop();
        Ok(())
    }

    fn back(&mut self, stmt: &Stmt, kind: Kind) -> Result<(), Lost> {
        stop::poll();
        self.b.set_span(stmt.span);
        match &stmt.kind {
            StmtKind::Let(id) if self.activity.expr(*id) => self.back_let(*id),
            StmtKind::Write { local, value } => {
                if let Some(&own) = self.companions.locals.get(local) {
                    let adjoint = self.b.read(own);
                    let zero = constant(&mut self.b, adjoint_type(self.f.locals[*local].ty), 0.0);
                    self.b.write(own, zero);
                    self.add(*value, adjoint);
                }
                Ok(())
            }
            StmtKind::Store { place, value, .. } if self.activity.place(self.f, place) => {
                if let Some(own) = self.adjoint_place(place) {
                    let alone = !self.activity.expr(*value) || self.alone.store(self.f, place, stmt.span);
                    let adjoint = if alone { self.take_alone(own) } else { self.take_first(&own) };
                    self.add(*value, adjoint);
                }
                Ok(())
            }
            StmtKind::Atomic { op, place, value, .. } if self.activity.place(self.f, place) => {
                if self.activity.expr(*value)
                    && let Some(own) = self.adjoint_place(place)
                {
                    let adjoint = self.b.load_place(own, Hint::None);
                    let part = if *op == AtomicOp::Sub { self.b.unary(UnaryOp::Neg, adjoint) } else { adjoint };
                    self.add(*value, part);
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
                let adjoint = if self.activity.expr(*result) { self.take(*result) } else { None };
                let Some(adjoint) = adjoint else {
                    // It ordered accesses to memory, of which the mirror images are to be ordered, too.
                    if among.is_none() {
                        self.b.barrier(BarrierKind::Warp, None);
                    }
                    return Ok(());
                };
                let operands = warp::Operands { op: *op, value: *value, lane: *lane, among: *among, result: *result };
                let part = warp::adjoint(self, &operands, adjoint, stmt.span)?;
                self.add(*value, part);
                Ok(())
            }
            StmtKind::Declare(memory) => {
                if let Some(&own) = self.companions.memories.get(memory) {
                    self.clear(own, None);
                }
                Ok(())
            }
            StmtKind::If { cond, then, other } => self.back_if(*cond, then, other, stmt),
            StmtKind::For { label, together: Some(Together::Product(product)), .. } => {
                self.back_product(*label, *product)
            }
            StmtKind::For { .. } | StmtKind::Loop { .. } => self.back_loop(stmt, kind),
            _ => Ok(()),
        }
    }

    fn back_if(&mut self, cond: ExprId, then: &Block, other: &Block, stmt: &Stmt) -> Result<(), Lost> {
        let then = self.inner(|r| r.mirrored(then))?;
        let other = self.inner(|r| r.mirrored(other))?;
        if has_effect(&then) || has_effect(&other) {
            self.b.set_span(stmt.span);
            let cond = self.value(cond);
            self.b.if_(cond, then, other);
        }
        Ok(())
    }

    fn back_loop(&mut self, stmt: &Stmt, kind: Kind) -> Result<(), Lost> {
        let Some(body) = stmt.kind.blocks().next() else { return Ok(()) };
        if !self.plan.scopes.get(&key(body)).is_some_and(|scope| scope.matters) {
            return Ok(());
        }
        match stmt.kind {
            StmtKind::For { label, local, start, end, step, inclusive, .. } => {
                let bounds = Bounds { start, end, step, inclusive };
                if self.ends.contains_key(&label) {
                    self.back_turns(label, kind, body, Some((local, bounds)))
                } else {
                    self.back_for(local, &bounds, body)
                }
            }
            StmtKind::Loop { label, .. } => self.back_turns(label, kind, body, None),
            _ => Ok(()),
        }
    }

    /// The mirror image of a loop that may be left early: as many turns as it took.
    fn back_turns(
        &mut self,
        label: Label,
        kind: Kind,
        body: &Block,
        counter: Option<(LocalId, Bounds)>,
    ) -> Result<(), Lost> {
        let turns = self.taken(label, kind);
        let range = counter.as_ref().map(|(_, of)| (self.value(of.start), self.value(of.step)));
        let (new, turn) = (self.b.label(), self.b.local("turn", I32));
        let made = self.inner(|r| {
            if let (Some((local, _)), Some((start, step))) = (&counter, range) {
                let (turn, one) = (r.b.read(turn), r.b.i32(1));
                let last = r.b.binary(BinOp::Sub, turns, one);
                let before = r.b.binary(BinOp::Sub, last, turn);
                let scalar = r.b.ty(start).scalar();
                let before = r.b.convert(before, scalar);
                let distance = r.b.binary(BinOp::Mul, before, step);
                let value = r.b.binary(BinOp::Add, start, distance);
                r.counters.insert(*local, value);
            }
            r.mirrored(body)
        })?;
        if let Some((local, _)) = counter {
            self.counters.remove(&local);
        }
        let (start, step) = (self.b.i32(0), self.b.i32(1));
        let range = Range { start, end: turns, step, inclusive: false };
        self.b.for_(new, turn, range, Unroll::Auto, made);
        Ok(())
    }

    /// The mirror image of a loop that runs to its end: the same range, with the counter mirrored.
    fn back_for(&mut self, local: LocalId, of: &Bounds, body: &Block) -> Result<(), Lost> {
        let (start, end, step) = (self.value(of.start), self.value(of.end), self.value(of.step));
        let ty = self.f.locals[local].ty;
        let (new, own) = (self.b.label(), self.b.local("mirrored", ty));
        let made = self.inner(|r| {
            let now = r.b.read(own);
            let value = r.mirror_image(now, (start, end, step), of.inclusive);
            r.counters.insert(local, value);
            r.mirrored(body)
        })?;
        self.counters.remove(&local);
        if has_effect(&made) {
            let range = Range { start, end, step, inclusive: of.inclusive };
            self.b.for_(new, own, range, Unroll::Auto, made);
        }
        Ok(())
    }

    /// Returns the value of a counter in the turn that is as far from the last one as `now` is from the first. In a loop's body, so
    /// that there is a turn.
    pub(super) fn mirror_image(
        &mut self,
        now: ExprId,
        (start, end, step): (ExprId, ExprId, ExprId),
        inclusive: bool,
    ) -> ExprId {
        let b = &mut self.b;
        let scalar = b.ty(start).scalar();
        let number = |b: &mut crate::ir::build::FunctionBuilder, n: i128| {
            b.constant(Value::from_integer(scalar, n).unwrap_or_else(|| Value::zero(scalar)))
        };
        let known = match b.function().exprs[step].kind {
            ExprKind::Const(bits) => Value { ty: scalar, bits }.as_integer(),
            _ => None,
        };
        let mut span = b.binary(BinOp::Sub, end, start);
        if !inclusive {
            let sign = match known {
                Some(known) => number(b, known.signum()),
                None if scalar.is_unsigned() => number(b, 1),
                None => {
                    let (zero, up, down) = (number(b, 0), number(b, 1), number(b, -1));
                    let is_up = b.binary(BinOp::Gt, step, zero);
                    b.select(is_up, up, down)
                }
            };
            span = b.binary(BinOp::Sub, span, sign);
        }
        if !matches!(known, Some(1 | -1)) {
            let turns = b.binary(BinOp::Div, span, step);
            span = b.binary(BinOp::Mul, turns, step);
        }
        let done = b.binary(BinOp::Sub, now, start);
        let left = b.binary(BinOp::Sub, span, done);
        b.binary(BinOp::Add, start, left)
    }

    fn back_let(&mut self, id: ExprId) -> Result<(), Lost> {
        let Some(adjoint) = self.take(id) else { return Ok(()) };
        self.own_use = self.used.remove(&id);
        let done = self.back_expr(id, adjoint);
        self.own_use = None;
        done
    }

    /// Gives the adjoint of an expression to its operands.
    fn back_expr(&mut self, id: ExprId, adjoint: ExprId) -> Result<(), Lost> {
        let f = self.f;
        self.b.set_span(f.spans[id]);
        match &f.exprs[id].kind {
            ExprKind::Read(local) => {
                if let Some(&own) = self.companions.locals.get(local) {
                    let before = self.b.read(own);
                    let sum = self.b.binary(BinOp::Add, before, adjoint);
                    self.b.write(own, sum);
                }
            }
            ExprKind::Load { place, .. } => {
                if let Some(own) = self.adjoint_place(place) {
                    match self.alone.load(f, id, place) {
                        true => self.add_alone(own, adjoint),
                        false => self.add_atomically(&own, adjoint),
                    }
                }
            }
            ExprKind::Unary { value, .. } => {
                let part = self.b.unary(UnaryOp::Neg, adjoint);
                self.add(*value, part);
            }
            kind @ (ExprKind::Binary { .. } | ExprKind::Math { .. }) => {
                for (position, operand) in operands(kind).into_iter().enumerate() {
                    if self.activity.expr(operand)
                        && let Some(part) = times_partial(self, f, id, position, adjoint)?
                    {
                        let part = self.if_used(part, adjoint);
                        self.add(operand, part);
                    }
                }
            }
            ExprKind::Select { cond, then, other } => {
                let cond = self.value(*cond);
                let zero = constant(&mut self.b, adjoint_type(f.exprs[id].ty), 0.0);
                let used = self.own_use;
                if self.activity.expr(*then) {
                    let part = self.b.select(cond, adjoint, zero);
                    self.own_use = self.chosen(cond, used);
                    self.add(*then, part);
                }
                if self.activity.expr(*other) {
                    let part = self.b.select(cond, zero, adjoint);
                    let no = self.b.unary(UnaryOp::Not, cond);
                    self.own_use = self.chosen(no, used);
                    self.add(*other, part);
                }
            }
            ExprKind::Convert(value) => {
                let part = self.b.convert(adjoint, adjoint_type(f.exprs[*value].ty).scalar());
                self.add(*value, part);
            }
            ExprKind::Compose(parts) => {
                for (lane, &part) in parts.iter().enumerate().filter(|(_, part)| self.activity.exprs[part.index()]) {
                    let own = self.b.extract(adjoint, lane as u8);
                    self.add(part, own);
                }
            }
            ExprKind::Extract { value, lane } => {
                let ty = adjoint_type(f.exprs[*value].ty);
                let zero = constant(&mut self.b, Ty::Scalar(ty.scalar()), 0.0);
                let parts: Vec<ExprId> = (0..ty.lanes()).map(|l| if l == *lane { adjoint } else { zero }).collect();
                let part = self.b.compose(&parts);
                self.add(*value, part);
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns whether a side of a `select` is used; none if the conditions of its components differ.
    fn chosen(&mut self, cond: ExprId, used: Option<ExprId>) -> Option<ExprId> {
        if self.b.ty(cond).lanes() > 1 {
            return None;
        }
        Some(used.map_or(cond, |used| self.b.binary(BinOp::And, used, cond)))
    }

    /// Returns a part of an adjoint, zero where the expression is not used: the factor may be infinite there.
    fn if_used(&mut self, part: ExprId, adjoint: ExprId) -> ExprId {
        let Some(used) = self.own_use.filter(|_| part != adjoint) else { return part };
        let ty = self.b.ty(part);
        let zero = constant(&mut self.b, ty, 0.0);
        self.b.select(used, part, zero)
    }

    /// Adds to the adjoint of an expression.
    fn add(&mut self, id: ExprId, part: ExprId) {
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

    /// Returns the adjoint of an expression; none if it is zero.
    fn take(&mut self, id: ExprId) -> Option<ExprId> {
        match self.sums.get(&id) {
            Some(&local) => Some(self.b.read(local)),
            None => self.adjoints.remove(&id),
        }
    }

    fn adjoint_place(&mut self, place: &Place) -> Option<Place> {
        let indices = place.indices.iter().map(|&index| self.value(index)).collect();
        self.companions.place(place, indices)
    }

    /// Returns an adjoint that is zeroed later: right behind the load, the store would wait in a GPU's memory system until the load
    /// is done.
    fn take_alone(&mut self, place: Place) -> ExprId {
        let adjoint = self.b.load_place(place.clone(), Hint::None);
        if let Some(taken) = self.taken.last_mut() {
            taken.push(place);
        }
        adjoint
    }

    /// Zeroes those of the adjoints taken in this block.
    fn zero(&mut self, which: impl Fn(&Self, &Place) -> bool) {
        let Some(taken) = self.taken.last_mut() else { return };
        for place in std::mem::take(taken) {
            if which(self, &place) {
                let ty = typing::place(self.b.function(), &place).unwrap_or(I32);
                let zero = constant(&mut self.b, ty, 0.0);
                self.b.store_place(place, zero, Hint::None);
            } else if let Some(taken) = self.taken.last_mut() {
                taken.push(place);
            }
        }
    }

    /// Whether the mirror image of a statement accesses an adjoint memory, or lets other threads.
    fn touches(&self, stmt: &Stmt, adjoint: MemId) -> bool {
        let is = |place: &Place| self.companions.memories.get(&place.memory) == Some(&adjoint);
        let mut found = false;
        each_stmt(std::slice::from_ref(stmt), &mut |stmt| {
            found |= match &stmt.kind {
                StmtKind::Let(id) => matches!(&self.f.exprs[*id].kind, ExprKind::Load { place, .. } if is(place)),
                StmtKind::Store { place, .. } | StmtKind::Atomic { place, .. } => is(place),
                StmtKind::Barrier { .. } | StmtKind::Fence(_) | StmtKind::Warp { .. } => true,
                StmtKind::Declare(memory) => self.companions.memories.get(memory) == Some(&adjoint),
                _ => false,
            };
        });
        found
    }

    /// Returns an adjoint, and zeroes it. Of threads that have stored one value, the first one takes all.
    fn take_first(&mut self, place: &Place) -> ExprId {
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

    fn add_alone(&mut self, place: Place, part: ExprId) {
        let before = self.b.load_place(place.clone(), Hint::None);
        let sum = self.b.binary(BinOp::Add, before, part);
        self.b.store_place(place, sum, Hint::None);
    }

    pub(super) fn add_atomically(&mut self, place: &Place, part: ExprId) {
        match typing::place(self.b.function(), place) {
            Ok(Ty::Vector(_, lanes)) => {
                for lane in 0..lanes {
                    let own = self.b.extract(part, lane);
                    let place = Place { component: Some(lane), ..place.clone() };
                    self.b.atomic_quiet(AtomicOp::Add, place, own, None);
                }
            }
            Ok(_) => self.b.atomic_quiet(AtomicOp::Add, place.clone(), part, None),
            Err(_) => debug_assert!(false, "a place of the original kernel"),
        }
    }
}

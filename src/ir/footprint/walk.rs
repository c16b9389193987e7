//! The walk through a body.

use rustc_hash::FxHashMap;

use super::def::*;
use super::form::*;
use super::space::Role;
use super::state::{Around, Meeting, State, Target, Value, Walk};
use crate::base::linear::{Formula, Var};
use crate::base::source::Span;
use crate::ir::def::*;
use crate::ir::ranges::Site as At;
use crate::ir::variance::Variance;
use crate::lang::ops::BarrierKind;

/// Accesses recorded, beyond which the walk gives up.
const MAX_ACCESSES: usize = 5_000;

/// Walks through the body; returns what it found.
pub(super) fn run(mut walk: Walk<'_>) -> Footprint {
    walk.block(&walk.f.body);
    walk.found.variables = walk.space;
    walk.found
}

impl<'a> Walk<'a> {
    fn stop(&mut self, why: &str, span: Span) {
        self.found.stopped.get_or_insert((why.into(), span));
        self.state = None;
    }

    pub(super) fn block(&mut self, block: &'a Block) {
        for stmt in block {
            if self.state.is_none() {
                return;
            }
            self.budget = self.budget.saturating_sub(1);
            if self.budget == 0 || self.found.accesses.len() > MAX_ACCESSES {
                return self.stop("the kernel is too long to follow", stmt.span);
            }
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &'a Stmt) {
        match &stmt.kind {
            StmtKind::Let(id) => {
                if let ExprKind::Load { place, .. } = &self.f.exprs[*id].kind {
                    self.access((At::Load(*id), Deed::Reads), place, self.f.spans[*id]);
                }
                let value = self.evaluate(*id);
                self.values.insert(*id, value);
            }
            StmtKind::Write { local, value } => self.write(*local, *value),
            StmtKind::Store { place, .. } => self.access((self.at(stmt), Deed::Writes), place, stmt.span),
            StmtKind::Atomic { op, place, value, compare, result } => {
                // An atomic load exchanges a value for itself.
                let change = match *compare == Some(*value) {
                    true => Change::Nothing,
                    false => Change::of(*op, self.f.exprs[*value].ty.scalar()),
                };
                let is_used = result.is_some_and(|id| self.used.contains(&id));
                self.access((self.at(stmt), Deed::Updates(Update { change, is_used })), place, stmt.span);
                self.result(*result, "the result of an atomic operation", stmt.span);
            }
            StmtKind::Barrier { kind, result, .. } => self.barrier(stmt, *kind, *result),
            StmtKind::Warp { result, .. } => {
                if self.slice.exprs.contains(result) {
                    self.may_overflow(*result);
                }
                self.result(Some(*result), "the result of an operation among the lanes of a warp", stmt.span);
            }
            StmtKind::If { cond, then, other } => self.branches(*cond, then, other),
            StmtKind::For { .. } | StmtKind::Loop { .. } => self.repeat(stmt),
            StmtKind::Block { label, body } => {
                let meeting = self.meeting(&[], &[], Some(*label));
                self.targets.push(Target { label: *label, breaks: vec![], continues: vec![] });
                self.around.push(Around { counter: None, unrolled: None, meeting });
                self.block(body);
                self.around.pop();
                let mut ends = self.targets.pop().map_or(vec![], |target| target.breaks);
                ends.extend(self.state.take());
                self.state = self.joined(ends);
            }
            StmtKind::Break(label) => self.jump(*label, false),
            StmtKind::Continue(label) => self.jump(*label, true),
            StmtKind::Return(_) => self.state = None,
            StmtKind::Assert { cond, .. } => {
                let holds = self.condition(*cond);
                self.assume_as(holds, Step::Assert);
            }
            StmtKind::Call { .. } => self.stop("a call that is not inlined", stmt.span),
            StmtKind::Print { .. } | StmtKind::Fence(_) | StmtKind::Declare(_) => {}
        }
    }

    fn write(&mut self, local: LocalId, value: ExprId) {
        if !self.slice.locals.contains(&local) {
            return;
        }
        let value = self.value(value);
        if let Some(state) = &mut self.state {
            state.locals.insert(local, value);
        }
    }

    fn result(&mut self, result: Option<ExprId>, why: &'static str, span: Span) {
        let Some(id) = result else { return };
        let value =
            if self.slice.exprs.contains(&id) { self.unknown(self.f.exprs[id].ty, why, span) } else { Value::Other };
        self.values.insert(id, value);
    }

    fn jump(&mut self, label: Label, again: bool) {
        let (Some(state), Some(target)) = (self.state.take(), self.targets.iter_mut().rfind(|t| t.label == label))
        else {
            return;
        };
        if again { target.continues.push(state) } else { target.breaks.push(state) }
    }

    /// Adds a condition to the path; the point is not reached if it is known to fail.
    pub(super) fn assume(&mut self, condition: Formula) {
        self.assume_as(condition, Step::If);
    }

    fn assume_as(&mut self, condition: Formula, step: impl Fn(Formula) -> Step) {
        match &mut self.state {
            Some(_) if is_never(&condition) => self.state = None,
            Some(state) if !is_always(&condition) => {
                if let Some(way) = &mut state.sure {
                    way.push(step(condition.clone()));
                }
                if !state.path.contains(&condition) {
                    state.path.push(condition);
                }
            }
            _ => {}
        }
    }

    fn branches(&mut self, cond: ExprId, then: &'a Block, other: &'a Block) {
        let condition = self.condition(cond);
        let meeting = self.meeting(&[cond], std::slice::from_ref(&condition), None);
        let before = self.state.clone();
        let mut ends = vec![];
        for (branch, condition) in [(then, condition.clone()), (other, not(&condition))] {
            self.state = before.clone();
            self.assume(condition);
            self.around.push(Around { counter: None, unrolled: None, meeting });
            self.block(branch);
            self.around.pop();
            ends.extend(self.state.take());
        }
        self.state = self.joined(ends);
    }

    /// Returns which threads take the same way by these conditions or bounds, and at the end of the labeled statement.
    pub(super) fn meeting(&self, on: &[ExprId], formulas: &[Formula], label: Option<Label>) -> Meeting {
        let is_uniform = |id: &ExprId| self.variances.exprs[*id] == Variance::Uniform;
        let together = on.iter().all(is_uniform) && !label.is_some_and(|label| self.variances.parts(label));
        let (mut launch, counters) = (true, self.counters());
        for formula in formulas {
            each_var(formula, &mut |var| launch &= self.space.is_common(var, &counters));
        }
        Meeting { block: together && !on.iter().any(|id| self.taint.has(self.f, *id)), read: together, launch }
    }

    /// Returns what holds where control from several points meets.
    pub(super) fn joined(&mut self, ends: Vec<State>) -> Option<State> {
        ends.into_iter().reduce(|a, b| self.join(a, b))
    }

    fn join(&mut self, a: State, b: State) -> State {
        let common = a.path.iter().zip(&b.path).take_while(|(x, y)| x == y).count();
        let (one, two) = (and(a.path[common..].iter().cloned()), and(b.path[common..].iter().cloned()));
        let mut path = a.path[..common].to_vec();
        if !is_always(&one) && !is_always(&two) && !are_opposite(&one, &two) {
            path.push(or([one.clone(), two.clone()]));
        }
        let mut locals = FxHashMap::default();
        let mut shared: Vec<LocalId> = a.locals.keys().filter(|local| b.locals.contains_key(*local)).copied().collect();
        shared.sort_by_key(|local| local.index());
        for local in shared {
            let (x, y) = (&a.locals[&local], &b.locals[&local]);
            let value = match (x, y) {
                (x, y) if x == y => x.clone(),
                (Value::Int(x), Value::Int(y)) => {
                    Value::Int(self.space.one_of(&[(one.clone(), x.clone()), (two.clone(), y.clone())]))
                }
                (Value::Bool(x), Value::Bool(y)) => {
                    let either = or([and([one.clone(), x.clone()]), and([two.clone(), y.clone()])]);
                    Value::Bool(self.space.short(either))
                }
                _ => continue,
            };
            locals.insert(local, value);
        }
        let mut clocks = a.clocks;
        for (mine, theirs) in clocks.iter_mut().zip(b.clocks) {
            for moment in theirs {
                if !mine.contains(&moment) {
                    mine.push(moment);
                }
            }
        }
        State { path, locals, clocks, sure: a.sure.zip(b.sure).map(|(a, b)| joined_ways(a, &b)) }
    }

    /// Returns the counters of the summarized loops around this point.
    pub(super) fn counters(&self) -> Vec<Var> {
        self.around.iter().filter_map(|around| single(around.counter.as_ref()?)).collect()
    }

    fn at(&self, stmt: &Stmt) -> At {
        At::Stmt(self.numbers.get(&std::ptr::from_ref(stmt)).copied().unwrap_or(u32::MAX))
    }

    fn access(&mut self, (at, deed): (At, Deed), place: &Place, span: Span) {
        if self.muted > 0 {
            return;
        }
        let rank = self.f.memories[place.memory].extents.len();
        let mut extents = vec![];
        for axis in 0..rank {
            match self.extent(place.memory, axis as u8) {
                Some(extent) => extents.push(extent),
                None => return self.stop("an array whose extents are not known here", span),
            }
        }
        let mut indices = vec![];
        for &index in &place.indices {
            let form = match self.value(index) {
                Value::Int(form) => form,
                _ => {
                    let var = self.space.fresh(
                        "index",
                        Role::Unknown("an index that is not followed", span),
                        -(1 << 64),
                        1 << 64,
                    );
                    variable(var)
                }
            };
            indices.push(form);
        }
        let Some(state) = &self.state else { return };
        let touch = Touch {
            at,
            deed,
            memory: place.memory,
            leaf: place.leaf,
            component: place.component,
            indices,
            extents,
            path: state.path.clone(),
            clocks: state.clocks.clone(),
            sure: state.sure.clone(),
            counters: self.counters(),
            span,
        };
        self.found.accesses.push(touch);
    }

    fn barrier(&mut self, stmt: &Stmt, kind: BarrierKind, result: Option<ExprId>) {
        self.result(result, "the result of a barrier", stmt.span);
        if kind == BarrierKind::Warp {
            return;
        }
        let grid = kind == BarrierKind::Grid;
        if self.muted == 0 {
            // Where threads of the block may have left, a barrier is not known to be reached by all.
            let all = |meets: &dyn Fn(&Meeting) -> bool| {
                self.around.iter().all(|around| meets(&around.meeting)) && !self.variances.returns
            };
            // Blocks, or threads that race, may leave by jumps before it.
            let conds = std::mem::take(&mut self.jumps.conds);
            let steady = self.meeting(&conds, &[], None).block;
            self.jumps.conds = conds;
            let together = !grid || !self.jumps.any;
            let reached = match (all(&|m| m.read && (m.launch || !grid)) && together, all(&|m| m.block) && steady) {
                (true, true) => Reached::ByAll,
                (true, false) => Reached::WithoutRaces,
                (false, _) => Reached::Perhaps,
            };
            self.found.barriers.push(BarrierSite { span: stmt.span, reached });
        }
        let path: Vec<u32> = self.around.iter().filter_map(|around| around.unrolled).collect();
        let next = self.sites.len() as u32;
        let site = *self.sites.entry((std::ptr::from_ref(stmt) as usize, path)).or_insert(next);
        let counters = self.around.iter().filter_map(|around| around.counter.clone()).collect();
        let moment = Moment { site: Site::Barrier(site), counters, when: vec![] };
        if let Some(state) = &mut self.state {
            if grid {
                state.clocks[1] = vec![moment.clone()];
            }
            state.clocks[0] = vec![moment];
        }
    }
}

/// Returns the way to where two ways meet.
fn joined_ways(mut a: Vec<Step>, b: &[Step]) -> Vec<Step> {
    let common = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (one, two) = (goes(&a[common..], always()), goes(&b[common..], always()));
    a.truncate(common);
    if !is_always(&one) && !is_always(&two) && !are_opposite(&one, &two) {
        a.push(Step::If(or([one, two])));
    }
    a
}

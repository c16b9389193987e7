//! The forward analysis of a kernel's body, which computes its footprint.

use rustc_hash::FxHashMap;

use super::def::*;
use super::formula::*;
use super::state::{Convergence, EnclosingScope, FootprintAnalysis, SymbolicJumpTarget, SymbolicState, SymbolicValue};
use super::vars::VarRole;
use crate::def::*;
use crate::ranges::BodySite;
use crate::variance::Variance;
use clk_base::linear::{Formula, Var};
use clk_base::source::Span;
use clk_scalar::ops::BarrierKind;

/// The analysis gives up after recording this many accesses.
const MAX_ACCESSES: usize = 5_000;

/// Analyzes the body and returns its footprint.
pub(super) fn run(mut analysis: FootprintAnalysis<'_>) -> Footprint {
    analysis.block(&analysis.f.body);
    analysis.footprint.variables = analysis.space;
    analysis.footprint
}

impl<'a> FootprintAnalysis<'a> {
    fn abort(&mut self, why: &str, span: Span) {
        self.footprint.stopped.get_or_insert((why.into(), span));
        self.state = None;
    }

    pub(super) fn block(&mut self, block: &'a Block) {
        for stmt in block {
            if self.state.is_none() {
                return;
            }
            self.budget = self.budget.saturating_sub(1);
            if self.budget == 0 || self.footprint.accesses.len() > MAX_ACCESSES {
                return self.abort("the kernel is too long to follow", stmt.span);
            }
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &'a Stmt) {
        match &stmt.kind {
            StmtKind::Let(id) => {
                if let ExprKind::Load { place, .. } = &self.f.exprs[*id].kind {
                    self.access(BodySite::Load(*id), FootprintAccessKind::Load, place, self.f.spans[*id]);
                }
                let value = self.evaluate(*id);
                self.values.insert(*id, value);
            }
            StmtKind::Write { local, value } => self.write_local(*local, *value),
            StmtKind::Store { place, .. } => self.access(self.site(stmt), FootprintAccessKind::Store, place, stmt.span),
            StmtKind::Atomic { op, place, value, compare, result } => {
                // An atomic load is a compare-exchange that replaces a value by itself.
                let change = match *compare == Some(*value) {
                    true => AtomicEffect::Nothing,
                    false => AtomicEffect::from_op(*op, self.f.exprs[*value].ty.scalar()),
                };
                let is_used = result.is_some_and(|id| self.observed.contains(&id));
                let kind = FootprintAccessKind::Atomic(AtomicUpdate { change, is_used });
                self.access(self.site(stmt), kind, place, stmt.span);
                self.define_result(*result, "the result of an atomic operation", stmt.span);
            }
            StmtKind::Barrier { kind, result, .. } => self.barrier(stmt, *kind, *result),
            StmtKind::Warp { result, .. } => {
                if self.slice.exprs.contains(result) {
                    self.may_overflow(*result);
                }
                self.define_result(Some(*result), "the result of an operation among the lanes of a warp", stmt.span);
            }
            StmtKind::If { cond, then, other } => self.branches(*cond, then, other),
            StmtKind::For { .. } | StmtKind::Loop { .. } => self.repeat(stmt),
            StmtKind::Block { label, body } => {
                let convergence = self.find_convergence(&[], &[], Some(*label));
                self.targets.push(SymbolicJumpTarget { label: *label, breaks: vec![], continues: vec![] });
                self.enclosing.push(EnclosingScope { counter: None, unrolled: None, convergence });
                self.block(body);
                self.enclosing.pop();
                let mut ends = self.targets.pop().map_or(vec![], |target| target.breaks);
                ends.extend(self.state.take());
                self.state = self.joined(ends);
            }
            StmtKind::Break(label) => self.record_jump(*label, false),
            StmtKind::Continue(label) => self.record_jump(*label, true),
            StmtKind::Return(_) => self.state = None,
            StmtKind::Assert { cond, .. } => {
                let holds = self.condition(*cond);
                if let (0, Some(state)) = (self.exploring, &self.state) {
                    let site = AssertionSite { span: stmt.span, path: state.facts(), holds: holds.clone() };
                    self.footprint.assertions.push(site);
                }
                self.assume_as(holds, PathStep::Assert);
            }
            StmtKind::Call { .. } => self.abort("a call that is not inlined", stmt.span),
            StmtKind::Print { .. } | StmtKind::Fence(_) | StmtKind::Declare(_) => {}
        }
    }

    fn write_local(&mut self, local: LocalId, value: ExprId) {
        if !self.slice.locals.contains(&local) {
            return;
        }
        let value = self.value(value);
        if let Some(state) = &mut self.state {
            state.locals.insert(local, value);
        }
    }

    fn define_result(&mut self, result: Option<ExprId>, why: &'static str, span: Span) {
        let Some(id) = result else { return };
        let value = if self.slice.exprs.contains(&id) {
            self.unknown(self.f.exprs[id].ty, why, span)
        } else {
            SymbolicValue::Other
        };
        self.values.insert(id, value);
    }

    fn record_jump(&mut self, label: Label, is_continue: bool) {
        let (Some(state), Some(target)) = (self.state.take(), self.targets.iter_mut().rfind(|t| t.label == label))
        else {
            return;
        };
        if is_continue { target.continues.push(state) } else { target.breaks.push(state) }
    }

    /// Adds a condition to the path of the current point. The point becomes unreachable if the condition is known to be
    /// false.
    pub(super) fn assume(&mut self, condition: Formula) {
        self.assume_as(condition, PathStep::If);
    }

    fn assume_as(&mut self, condition: Formula, step: impl Fn(Formula) -> PathStep) {
        match &mut self.state {
            Some(_) if is_never(&condition) => self.state = None,
            Some(state) if !is_always(&condition) => {
                if let Some(way) = &mut state.certain_path {
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
        let convergence = self.find_convergence(&[cond], std::slice::from_ref(&condition), None);
        let before = self.state.clone();
        let mut ends = vec![];
        for (branch, condition) in [(then, condition.clone()), (other, not(&condition))] {
            self.state = before.clone();
            self.assume(condition);
            self.enclosing.push(EnclosingScope { counter: None, unrolled: None, convergence });
            self.block(branch);
            self.enclosing.pop();
            ends.extend(self.state.take());
        }
        self.state = self.joined(ends);
    }

    /// Returns which threads are certain to agree on the conditions `on`, on the loop bounds in `formulas`, and on
    /// whether they reach the end of the labeled statement.
    pub(super) fn find_convergence(&self, on: &[ExprId], formulas: &[Formula], label: Option<Label>) -> Convergence {
        let is_uniform = |id: &ExprId| self.variances.exprs[*id] == Variance::Uniform;
        let is_convergent =
            on.iter().all(is_uniform) && !label.is_some_and(|label| self.variances.has_divergent_exit(label));
        let (mut launch, counters) = (true, self.counters());
        for formula in formulas {
            each_var(formula, &mut |var| launch &= self.space.is_common(var, &counters));
        }
        Convergence {
            block: is_convergent && !on.iter().any(|id| self.taint.is_tainted(self.f, *id)),
            read: is_convergent,
            launch,
        }
    }

    /// Returns the join of several states; `None` if there are none.
    pub(super) fn joined(&mut self, ends: Vec<SymbolicState>) -> Option<SymbolicState> {
        ends.into_iter().reduce(|a, b| self.join(a, b))
    }

    fn join(&mut self, a: SymbolicState, b: SymbolicState) -> SymbolicState {
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
                (SymbolicValue::Int(x), SymbolicValue::Int(y)) => {
                    SymbolicValue::Int(self.space.choice(&[(one.clone(), x.clone()), (two.clone(), y.clone())]))
                }
                (SymbolicValue::Bool(x), SymbolicValue::Bool(y)) => {
                    let either = or([and([one.clone(), x.clone()]), and([two.clone(), y.clone()])]);
                    SymbolicValue::Bool(self.space.shorten(either))
                }
                _ => continue,
            };
            locals.insert(local, value);
        }
        let mut last_barriers = a.last_barriers;
        for (mine, theirs) in last_barriers.iter_mut().zip(b.last_barriers) {
            for barrier in theirs {
                if !mine.contains(&barrier) {
                    mine.push(barrier);
                }
            }
        }
        let common = a.in_range.iter().zip(&b.in_range).take_while(|(x, y)| x == y).count();
        SymbolicState {
            path,
            in_range: a.in_range[..common].to_vec(),
            locals,
            last_barriers,
            certain_path: a.certain_path.zip(b.certain_path).map(|(a, b)| join_paths(a, &b)),
        }
    }

    /// Returns the counters of the enclosing loops that are analyzed once for an arbitrary iteration.
    pub(super) fn counters(&self) -> Vec<Var> {
        self.enclosing.iter().filter_map(|scope| single(scope.counter.as_ref()?)).collect()
    }

    fn site(&self, stmt: &Stmt) -> BodySite {
        BodySite::Stmt(self.numbers.get(&std::ptr::from_ref(stmt)).copied().unwrap_or(u32::MAX))
    }

    fn access(&mut self, site: BodySite, kind: FootprintAccessKind, place: &Place, span: Span) {
        if self.exploring > 0 {
            return;
        }
        let rank = self.f.memories[place.memory].extents.len();
        let mut extents = vec![];
        for axis in 0..rank {
            match self.extent(place.memory, axis as u8) {
                Some(extent) => extents.push(extent),
                None => return self.abort("an array whose extents are not known here", span),
            }
        }
        let mut indices = vec![];
        for &index in &place.indices {
            let form = match self.value(index) {
                SymbolicValue::Int(form) => form,
                _ => {
                    let var = self.space.fresh(
                        "index",
                        VarRole::Unknown("an index that is not followed", span),
                        -(1 << 64),
                        1 << 64,
                    );
                    variable(var)
                }
            };
            indices.push(form);
        }
        let Some(state) = &self.state else { return };
        let access = FootprintAccess {
            site,
            kind,
            memory: place.memory,
            leaf: place.leaf,
            component: place.component,
            indices,
            extents,
            path: state.facts(),
            last_barriers: state.last_barriers.clone(),
            certain_path: state.certain_path.clone(),
            counters: self.counters(),
            span,
        };
        self.footprint.accesses.push(access);
    }

    fn barrier(&mut self, stmt: &Stmt, kind: BarrierKind, result: Option<ExprId>) {
        self.define_result(result, "the result of a barrier", stmt.span);
        if kind == BarrierKind::Warp {
            return;
        }
        let grid = kind == BarrierKind::Grid;
        if self.exploring == 0 {
            // If some threads of the block may have returned, not all threads are certain to reach the barrier.
            let all = |meets: &dyn Fn(&Convergence) -> bool| {
                self.enclosing.iter().all(|scope| meets(&scope.convergence)) && !self.variances.has_early_return
            };
            // A jump before the barrier may depend on memory that other threads write, or make whole blocks skip the
            // barrier.
            let conds = std::mem::take(&mut self.jumps.conds);
            let is_race_free = self.find_convergence(&conds, &[], None).block;
            self.jumps.conds = conds;
            let no_early_exit = !grid || !self.jumps.any;
            let reach =
                match (all(&|m| m.read && (m.launch || !grid)) && no_early_exit, all(&|m| m.block) && is_race_free) {
                    (true, true) => BarrierReach::Always,
                    (true, false) => BarrierReach::IfRaceFree,
                    (false, _) => BarrierReach::Unknown,
                };
            self.footprint.barriers.push(BarrierSite { span: stmt.span, reach });
        }
        let path: Vec<u32> = self.enclosing.iter().filter_map(|scope| scope.unrolled).collect();
        let next = self.sites.len() as u32;
        let site = *self.sites.entry((std::ptr::from_ref(stmt) as usize, path)).or_insert(next);
        let counters = self.enclosing.iter().filter_map(|scope| scope.counter.clone()).collect();
        let last_barrier = LastBarrier { site: SyncSite::Barrier(site), counters, conditions: vec![] };
        if let Some(state) = &mut self.state {
            if grid {
                state.last_barriers[1] = vec![last_barrier.clone()];
            }
            state.last_barriers[0] = vec![last_barrier];
        }
    }
}

/// Joins the certain paths of two states: returns their common prefix, followed by the disjunction of their remaining
/// steps.
fn join_paths(mut a: Vec<PathStep>, b: &[PathStep]) -> Vec<PathStep> {
    let common = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (one, two) = (path_formula(&a[common..], always()), path_formula(&b[common..], always()));
    a.truncate(common);
    if !is_always(&one) && !is_always(&two) && !are_opposite(&one, &two) {
        a.push(PathStep::If(or([one, two])));
    }
    a
}

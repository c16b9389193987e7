//! Loops: short loops with a known number of iterations are unrolled; others are analyzed once for an arbitrary
//! iteration `k`.

use rustc_hash::FxHashSet;

use super::def::*;
use super::formula::*;
use super::property_obligations::follows;
use super::state::{
    BlockJumps, Convergence, EnclosingScope, FootprintAnalysis, SymbolicJumpTarget, SymbolicState, SymbolicValue,
};
use super::vars::{ENDLESS, VarRole, VarSpace as Variables};
use crate::def::*;
use crate::visit::each_stmt;
use clk_base::linear::{AffineForm, Formula, Var};
use clk_base::source::Span;
use clk_scalar::exact::trip_count;

/// The maximum number of iterations of a loop that is unrolled.
const MAX_TRIPS: i128 = 64;
/// The maximum number of accesses that unrolling a loop may record.
const MAX_UNROLLED: i128 = 64;

/// A loop of any kind (`for`, or a loop that `break` ends).
struct LoopShape<'a> {
    label: Label,
    body: &'a Block,
    /// The variable of a `for`, with its bounds; `None` for other loops.
    range: Option<SymbolicRange>,
    convergence: Convergence,
    span: Span,
}

#[derive(Clone)]
struct SymbolicRange {
    local: LocalId,
    start: AffineForm,
    /// The first value past the end, in the direction of the step.
    end: AffineForm,
    step: AffineForm,
    /// Whether the step is positive (`true`) or negative (`false`); `None` if unknown.
    up: Option<bool>,
}

impl SymbolicRange {
    /// Returns the values of the loop variable if the bounds and the step are constants and there are at most
    /// [`MAX_TRIPS`] values.
    fn values(&self) -> Option<Vec<i128>> {
        let (start, step) = (constant(&self.start)?, constant(&self.step)?);
        let trips = trip_count(start, constant(&self.end)?, step, false)?;
        (trips <= MAX_TRIPS).then(|| (0..trips).map(|k| start + k * step).collect())
    }

    /// Returns an upper bound on the number of iterations, if the value ranges of start and end imply one.
    fn max_iterations(&self, space: &Variables) -> Option<i128> {
        let step = constant(&self.step).filter(|step| *step != 0)?;
        let distance = if step > 0 { self.end.minus(&self.start) } else { self.start.minus(&self.end) };
        let (_, most) = space.bounds(&distance);
        (most < ENDLESS).then(|| if most <= 0 { 0 } else { (most - 1) / step.abs() + 1 })
    }

    /// Returns the condition under which an iteration with this value of the loop variable executes.
    fn is_in_range(&self, value: &AffineForm) -> Formula {
        match self.up {
            Some(true) => less(value, &self.end),
            Some(false) => less(&self.end, value),
            None => always(),
        }
    }
}

/// A local that the loop changes, and its value at the start of an iteration.
#[derive(Clone, Debug)]
struct LoopHeadLocal {
    local: LocalId,
    value: SymbolicValue,
    /// The value of the local before the loop.
    first: SymbolicValue,
    /// The increment per iteration, if it is constant (the local is an induction variable).
    step: Option<i128>,
    /// Formulas that may be loop invariants and are still to be verified.
    candidates: Vec<Formula>,
}

/// The states at the end of an iteration (`back`) and at its `break`s.
struct IterationExits {
    back: Vec<SymbolicState>,
    breaks: Vec<SymbolicState>,
}

impl<'a> FootprintAnalysis<'a> {
    pub(super) fn repeat(&mut self, stmt: &'a Stmt) {
        let span = stmt.span;
        let shape = match &stmt.kind {
            StmtKind::For { label, local, start, end, step, inclusive, body, .. } => {
                let on = [*start, *end, *step];
                let mut bound = |id: ExprId| match self.value(id) {
                    SymbolicValue::Int(form) => form,
                    _ => {
                        let role = VarRole::Unknown("a bound of a loop that is not followed", span);
                        variable(self.space.fresh("bound", role, -(1 << 64), 1 << 64))
                    }
                };
                let (start, end, step) = (bound(*start), bound(*end), bound(*step));
                let up = match self.space.bounds(&step) {
                    (low, _) if low > 0 => Some(true),
                    (_, high) if high < 0 => Some(false),
                    _ if self.is_positive(&step) => Some(true),
                    _ => None,
                };
                let beyond = if up == Some(false) { -1 } else { 1 };
                let bounds = [&start, &end, &step].map(|form| nonnegative(form.clone()));
                let convergence = self.find_convergence(&on, &bounds, Some(*label));
                let end = if *inclusive { end.plus(&number(beyond)) } else { end };
                LoopShape {
                    label: *label,
                    body,
                    range: Some(SymbolicRange { local: *local, start, end, step, up }),
                    convergence,
                    span,
                }
            }
            StmtKind::Loop { label, body, .. } => {
                LoopShape { label: *label, body, range: None, convergence: self.loop_convergence(*label, body), span }
            }
            _ => return,
        };
        // Without this shortcut, the innermost of several nested loops would be analyzed exponentially often.
        if self.exploring > 0 && self.has_no_effect(&shape) {
            return;
        }
        if !self.unroll_loop(&shape) {
            self.summarize(&shape);
        }
    }

    /// Returns whether the state after the loop equals the state before it: the loop contains no barriers, calls or
    /// jumps, and writes no local on which an index or condition depends.
    fn has_no_effect(&self, shape: &LoopShape<'a>) -> bool {
        let mut no_effect = shape.range.is_some();
        each_stmt(shape.body, &mut |stmt| {
            no_effect &= match &stmt.kind {
                StmtKind::Write { local, .. } => !self.slice.locals.contains(local),
                StmtKind::Barrier { .. } | StmtKind::Call { .. } => false,
                kind => !kind.is_jump(),
            }
        });
        no_effect
    }

    /// Returns which threads are certain to take the same path through a loop that `break` ends.
    fn loop_convergence(&mut self, label: Label, body: &'a Block) -> Convergence {
        let on = BlockJumps::in_block(body).conds;
        let label_convergence = self.find_convergence(&[], &[], Some(label));
        let convergence = self.find_convergence(&on, &[], Some(label));
        // Whether all threads of the launch agree on the exit conditions is unknown before the loop is analyzed.
        Convergence { block: convergence.block, read: label_convergence.read, launch: on.is_empty() }
    }

    fn run_iteration(&mut self, shape: &LoopShape<'a>, scope: EnclosingScope) -> IterationExits {
        self.targets.push(SymbolicJumpTarget { label: shape.label, breaks: vec![], continues: vec![] });
        self.enclosing.push(scope);
        self.block(shape.body);
        self.enclosing.pop();
        let (breaks, mut back) = self.targets.pop().map_or((vec![], vec![]), |t| (t.breaks, t.continues));
        back.extend(self.state.take());
        IterationExits { back, breaks }
    }

    /// Unrolls a loop if the number of its iterations is known and small. Returns whether it did.
    fn unroll_loop(&mut self, shape: &LoopShape<'a>) -> bool {
        if !self.unroll {
            return false;
        }
        match &shape.range {
            Some(range) => {
                let Some(values) = range.values() else { return false };
                if self.accesses_in(shape.body) * values.len() as i128 > MAX_UNROLLED {
                    return false;
                }
                self.unroll_range(shape, range.local, &values);
                true
            }
            None => {
                let (before, budget) = (self.state.clone(), self.budget);
                self.exploring += 1;
                let is_bounded = self.unroll_until_exit(shape);
                self.exploring -= 1;
                self.state = before;
                self.budget = budget;
                is_bounded && self.unroll_until_exit(shape)
            }
        }
    }

    fn accesses_in(&self, body: &Block) -> i128 {
        let mut count = 0;
        each_stmt(body, &mut |stmt| {
            count += match &stmt.kind {
                StmtKind::Store { .. } | StmtKind::Atomic { .. } => 1,
                StmtKind::Let(id) => i128::from(matches!(self.f.exprs[*id].kind, ExprKind::Load { .. })),
                _ => 0,
            }
        });
        count
    }

    fn unroll_range(&mut self, shape: &LoopShape<'a>, local: LocalId, values: &[i128]) {
        let mut exits = vec![];
        for (k, &value) in values.iter().enumerate() {
            let Some(state) = &mut self.state else { break };
            state.locals.insert(local, SymbolicValue::Int(number(value)));
            let ends = self.run_iteration(
                shape,
                EnclosingScope { counter: None, unrolled: Some(k as u32), convergence: shape.convergence },
            );
            exits.extend(ends.breaks);
            self.state = self.joined(ends.back);
        }
        exits.extend(self.state.take());
        self.state = self.joined(exits);
    }

    /// Returns whether a step is positive in every launch that has threads. This holds for the number of threads of the
    /// grid, for example.
    fn is_positive(&self, step: &AffineForm) -> bool {
        let (Some(state), Some(grid)) = (&self.state, &self.launch.grid) else { return false };
        let some = grid.grid.iter().chain(&grid.block).map(|extent| at_most(&number(1), extent));
        let path: Vec<Formula> = state.path.iter().cloned().chain(some.filter(|fact| !is_always(fact))).collect();
        follows(&self.space, &path, &less(&number(0), step))
    }

    /// Unrolls a loop as long as each iteration is known to be the last one or known to be followed by another. Returns
    /// whether the end of the loop was reached.
    fn unroll_until_exit(&mut self, shape: &LoopShape<'a>) -> bool {
        for k in 0..MAX_TRIPS {
            let ends = self.run_iteration(
                shape,
                EnclosingScope { counter: None, unrolled: Some(k as u32), convergence: shape.convergence },
            );
            match (ends.back.is_empty(), ends.breaks.is_empty()) {
                (false, true) => self.state = self.joined(ends.back),
                (true, _) => {
                    self.state = self.joined(ends.breaks);
                    return true;
                }
                (false, false) => return false,
            }
        }
        false
    }

    /// Analyzes the loop once for an arbitrary iteration.
    fn summarize(&mut self, shape: &LoopShape<'a>) {
        let Some(entry) = self.state.take() else { return };
        let counter = self.space.fresh("iteration", VarRole::Counter, 0, ENDLESS);
        let k = variable(counter);
        if shape.convergence.read {
            self.footprint.convergent_loops.insert(counter, self.counters());
        }
        if let Some(most) = shape.range.as_ref().and_then(|range| range.max_iterations(&self.space)) {
            self.footprint.max_iterations.insert(counter, most);
        }
        let mut heads = self.heads(shape, &entry, &k);
        self.exploring += 1;
        let mut before = entry.clone();
        for clock in &mut before.last_barriers {
            *clock = vec![LastBarrier { site: SyncSite::BeforeIteration, counters: vec![], conditions: vec![] }];
        }
        let first_ends = self.iteration(shape, &before, &heads, &k).1;
        self.find_inductions(&mut heads, &first_ends, &k);
        // Houdini (Flanagan and Leino 2001): repeatedly drops candidate invariants that an iteration does not preserve,
        // until every remaining candidate is preserved.
        let mut last = self.iteration(shape, &before, &heads, &k).1;
        while self.drop_refuted(&mut heads, &last, &k) {
            last = self.iteration(shape, &before, &heads, &k).1;
        }
        self.exploring -= 1;
        let mut head = entry.clone();
        for (clock, which) in head.last_barriers.iter_mut().zip(0..) {
            *clock = self.last_barriers(&entry.last_barriers[which], &last, which, &k);
        }
        // Iteration `k` certainly executes if its condition holds and no earlier iteration jumped out of the loop.
        let own = |stmt: &Stmt| matches!(&stmt.kind, StmtKind::Break(label) if *label == shape.label);
        let (mut broken, jumps_out) = (shape.range.is_none(), jumps_out(shape.body, &mut vec![shape.label]));
        each_stmt(shape.body, &mut |stmt| broken |= own(stmt));
        // With a step of unknown sign, the loop may never end.
        if broken || jumps_out || shape.range.as_ref().is_none_or(|range| range.up.is_none()) {
            head.certain_path = None;
        }
        let (at_head, ends) = self.iteration(shape, &head, &heads, &k);
        let mut exits = ends.breaks;
        if let Some(range) = &shape.range {
            exits.push(self.state_after(range, &entry, at_head, &heads, &k));
        }
        // A thread that enters a `for` certainly reaches the statement after it, whether the loop runs to its end or a
        // `break` exits it.
        let certain_path = entry.certain_path.filter(|_| !jumps_out);
        exits.iter_mut().for_each(|state| state.certain_path.clone_from(&certain_path));
        self.state = self.joined(exits);
    }

    /// Returns the locals that the loop changes, each with a new variable as its value at the start of an iteration.
    fn heads(&mut self, shape: &LoopShape<'a>, entry: &SymbolicState, k: &AffineForm) -> Vec<LoopHeadLocal> {
        let mut changed: FxHashSet<LocalId> = FxHashSet::default();
        each_stmt(shape.body, &mut |stmt| {
            if let StmtKind::Write { local, .. } | StmtKind::For { local, .. } = &stmt.kind {
                changed.insert(*local);
            }
        });
        let mut changed: Vec<LocalId> = changed.into_iter().filter(|local| entry.locals.contains_key(local)).collect();
        changed.sort_by_key(|local| local.index());
        changed.into_iter().map(|local| self.head_local(shape, local, entry, k)).collect()
    }

    fn head_local(
        &mut self,
        shape: &LoopShape<'a>,
        local: LocalId,
        entry: &SymbolicState,
        k: &AffineForm,
    ) -> LoopHeadLocal {
        let first = entry.locals[&local].clone();
        let role = if self.uniform.contains(&local) {
            let counters = self.enclosing.iter().filter_map(|scope| scope.counter.as_ref());
            let mut on: Vec<_> =
                counters.chain([k]).flat_map(|form| form.terms().iter().map(|&(var, _)| var)).collect();
            if let Some(grid) = &self.launch.grid {
                on.extend(grid.block_idx.iter().flat_map(|form| form.terms().iter().map(|&(var, _)| var)));
            }
            if let SymbolicValue::Int(first) = &first {
                on.extend(first.terms().iter().map(|&(var, _)| var));
            }
            on.sort();
            on.dedup();
            VarRole::Derived(on)
        } else {
            VarRole::Unknown("changes from iteration to iteration of this loop", shape.span)
        };
        let ty = self.f.locals[local].ty;
        let value = self.some(ty, role, &self.f.locals[local].name.clone());
        let mut guesses = match (&first, &value) {
            (SymbolicValue::Int(first), SymbolicValue::Int(now)) => {
                vec![at_most(&number(0), now), less(&number(0), now), at_most(now, first), at_most(first, now)]
            }
            _ => vec![],
        };
        // Another candidate: the local is at most the loop variable's value in the previous iteration. This holds if
        // the local stores an earlier value of the loop variable.
        if let (SymbolicValue::Int(now), Some(range)) = (&value, &shape.range)
            && let (Some(true), Some(step)) = (range.up, constant(&range.step))
        {
            let last = range.start.plus(&k.minus(&number(1)).times(step));
            guesses.extend(is_tame(&last).then(|| at_most(now, &last)));
        }
        // A candidate that fails before the loop is not an invariant.
        let holds = |guess: &Formula, analysis: &Self| match (&first, &value) {
            (SymbolicValue::Int(first), SymbolicValue::Int(now)) => {
                let guess = substitute_local(&substitute_local(guess, k, &number(0)), now, first);
                follows(&analysis.space, &entry.path, &guess)
            }
            _ => false,
        };
        let guesses = guesses.into_iter().filter(|guess| holds(guess, self)).collect();
        LoopHeadLocal { local, value, first, step: None, candidates: guesses }
    }

    /// Analyzes iteration `k`. Returns the state at its start and the states at its exits.
    fn iteration(
        &mut self,
        shape: &LoopShape<'a>,
        before: &SymbolicState,
        heads: &[LoopHeadLocal],
        k: &AffineForm,
    ) -> (SymbolicState, IterationExits) {
        let mut head = before.clone();
        for item in heads {
            head.locals.insert(item.local, item.value.clone());
            for guess in &item.candidates {
                head.path.push(guess.clone());
            }
        }
        self.state = Some(head.clone());
        if let Some(range) = &shape.range {
            let counter_value = self.range_value(range, k, shape.span);
            self.assume(range.is_in_range(&counter_value));
            if let Some(state) = &mut self.state {
                state.locals.insert(range.local, SymbolicValue::Int(counter_value));
            }
        }
        let scope = EnclosingScope { counter: Some(k.clone()), unrolled: None, convergence: shape.convergence };
        let ends = self.run_iteration(shape, scope);
        (head, ends)
    }

    /// Returns the value of the `for` variable in iteration `k`.
    fn range_value(&mut self, range: &SymbolicRange, k: &AffineForm, span: Span) -> AffineForm {
        let form = self.space.product(&range.step, k);
        let form = form.plus(&range.start);
        if range.up.is_some() && is_tame(&form) {
            return form;
        }
        match self.unknown(self.f.locals[range.local].ty, "counts in steps of unknown sign", span) {
            SymbolicValue::Int(form) => form,
            _ => form,
        }
    }

    /// Finds induction variables: locals that grow by a constant in every iteration. Their value becomes an affine form
    /// of `k`.
    fn find_inductions(&mut self, heads: &mut [LoopHeadLocal], trial: &IterationExits, k: &AffineForm) {
        for head in heads {
            let (SymbolicValue::Int(now), SymbolicValue::Int(first)) = (&head.value, &head.first) else { continue };
            let grows = |state: &SymbolicState| match state.locals.get(&head.local) {
                Some(SymbolicValue::Int(next)) => constant(&next.minus(now)),
                _ => None,
            };
            let mut steps = trial.back.iter().map(grows);
            let Some(Some(by)) = steps.next() else { continue };
            let form = first.plus(&k.times(by));
            if steps.all(|step| step == Some(by)) && is_tame(&form) {
                head.step = Some(by);
                head.value = SymbolicValue::Int(form);
                head.candidates.clear();
            }
        }
    }

    /// Drops candidate invariants that do not hold at the end of an iteration. Returns whether any were dropped.
    fn drop_refuted(&mut self, heads: &mut [LoopHeadLocal], ends: &IterationExits, k: &AffineForm) -> bool {
        let mut dropped = false;
        for head in heads.iter_mut() {
            let SymbolicValue::Int(head_value) = &head.value else { continue };
            let head_value = head_value.clone();
            let next = |state: &SymbolicState| match state.locals.get(&head.local) {
                Some(SymbolicValue::Int(next)) => Some(next.clone()),
                _ => None,
            };
            let nexts: Vec<(&SymbolicState, Option<AffineForm>)> =
                ends.back.iter().map(|state| (state, next(state))).collect();
            let count = head.candidates.len();
            head.candidates.retain(|guess| {
                nexts.iter().all(|(state, next)| {
                    next.as_ref().is_some_and(|next| {
                        // The candidate must hold at the start of iteration `k + 1`.
                        let then =
                            substitute_local(&substitute_local(guess, k, &k.plus(&number(1))), &head_value, next);
                        follows(&self.space, &state.path, &then)
                    })
                })
            });
            dropped |= head.candidates.len() < count;
        }
        dropped
    }

    /// Returns the barriers that may be the last one that a thread passed before the start of iteration `k`.
    fn last_barriers(
        &mut self,
        entry: &[LastBarrier],
        ends: &IterationExits,
        which: usize,
        k: &AffineForm,
    ) -> Vec<LastBarrier> {
        let mut at_end: Vec<&LastBarrier> = vec![];
        for barrier in ends.back.iter().flat_map(|state| &state.last_barriers[which]) {
            if !at_end.contains(&barrier) {
                at_end.push(barrier);
            }
        }
        let passes = at_end.iter().filter(|barrier| barrier.site == SyncSite::BeforeIteration).count();
        if passes == at_end.len() {
            return entry.to_vec();
        }
        if passes > 0 || at_end.iter().any(|barrier| barrier.site == SyncSite::Any) {
            return vec![LastBarrier { site: SyncSite::Any, counters: vec![], conditions: vec![] }];
        }
        let Some(own) = single(k) else { return vec![] };
        // The last barrier of iteration `k - 1` is described by the formulas of iteration `k`, with `k` replaced by
        // `k - 1`. This fails if they contain other values that change from iteration to iteration.
        let mut is_recoverable = true;
        let counters = self.counters();
        let mut look = |var: Var| is_recoverable &= var == own || self.space.is_fixed(var, &counters);
        for barrier in &at_end {
            barrier.counters.iter().flat_map(AffineForm::terms).for_each(|&(var, _)| look(var));
            barrier.conditions.iter().for_each(|fact| each_var(fact, &mut look));
        }
        if !is_recoverable {
            return vec![LastBarrier { site: SyncSite::Any, counters: vec![], conditions: vec![] }];
        }
        let mut earlier = |var| if var == own { k.minus(&number(1)) } else { variable(var) };
        let mut barriers: Vec<LastBarrier> = entry.to_vec();
        for barrier in &mut barriers {
            barrier.conditions.push(equal(k, &number(0)));
        }
        for barrier in at_end {
            let counters = barrier.counters.iter().map(|counter| substitute(counter, &mut earlier)).collect();
            let mut conditions: Vec<Formula> =
                barrier.conditions.iter().map(|fact| substitute_in_formula(fact, &mut earlier)).collect();
            conditions.push(less(&number(0), k));
            barriers.push(LastBarrier { site: barrier.site, counters, conditions });
        }
        barriers
    }

    /// Returns the state after a `for` has run to its end.
    fn state_after(
        &mut self,
        range: &SymbolicRange,
        entry: &SymbolicState,
        mut head: SymbolicState,
        heads: &[LoopHeadLocal],
        k: &AffineForm,
    ) -> SymbolicState {
        if heads.is_empty() && head.last_barriers == entry.last_barriers {
            return entry.clone();
        }
        let Some(own) = single(k) else { return head };
        if range.up.is_none() {
            return head;
        }
        // After the loop, `k` is the number of iterations, a variable defined by the bounds.
        let trips = self.trips(range);
        let mut end = |var| if var == own { trips.clone() } else { variable(var) };
        for clock in &mut head.last_barriers {
            for barrier in clock {
                barrier.counters = barrier.counters.iter().map(|counter| substitute(counter, &mut end)).collect();
                barrier.conditions =
                    barrier.conditions.iter().map(|fact| substitute_in_formula(fact, &mut end)).collect();
            }
        }
        for item in heads {
            if let (Some(_), SymbolicValue::Int(form)) = (item.step, &item.value) {
                head.locals.insert(item.local, SymbolicValue::Int(substitute(form, &mut end)));
            }
        }
        // The other locals have their values at the start of iteration `k`, with `k` equal to the number of iterations.
        if heads.iter().any(|item| item.step.is_none()) {
            head.path.push(equal(k, &trips));
        }
        head
    }

    fn trips(&mut self, range: &SymbolicRange) -> AffineForm {
        let mut on: Vec<_> = [&range.start, &range.end, &range.step]
            .into_iter()
            .flat_map(|form| form.terms().iter().map(|&(var, _)| var))
            .collect();
        on.sort();
        on.dedup();
        let trips = self.space.fresh("iterations", VarRole::Derived(on), 0, ENDLESS);
        let count = variable(trips);
        let beyond = range.start.plus(&self.space.product(&range.step, &count));
        let last = beyond.minus(&range.step);
        self.space.add_fact(trips, not(&range.is_in_range(&beyond)));
        self.space.add_fact(trips, or([equal(&count, &number(0)), range.is_in_range(&last)]));
        if constant(&range.step).is_some() {
            self.space.define(trips);
        }
        count
    }
}

/// Returns whether a statement of the loop jumps to a target outside the loop, other than the loop's own end.
fn jumps_out(body: &Block, labels: &mut Vec<Label>) -> bool {
    body.iter().any(|stmt| match &stmt.kind {
        StmtKind::Return(_) => true,
        StmtKind::Break(label) | StmtKind::Continue(label) => !labels.contains(label),
        kind => {
            labels.extend(kind.label());
            kind.blocks().any(|inner| jumps_out(inner, labels))
        }
    })
}

/// Returns the formula with the variable `now` replaced by `by`.
fn substitute_local(guess: &Formula, now: &AffineForm, by: &AffineForm) -> Formula {
    let own = single(now);
    substitute_in_formula(guess, &mut |var| if Some(var) == own { by.clone() } else { variable(var) })
}

//! Loops: those with few known iterations are executed, of others one iteration stands for all.

use rustc_hash::FxHashSet;

use super::claim::follows;
use super::def::*;
use super::form::*;
use super::space::{ENDLESS, Role, Space as Variables};
use super::state::{Around, Jumps, Meeting, State, Target, Value, Walk};
use crate::base::linear::{Formula, Linear, Var};
use crate::base::source::Span;
use crate::ir::def::*;
use crate::ir::visit::each_stmt;

/// Iterations up to which a loop is executed.
const MAX_TRIPS: i128 = 64;
/// Accesses that executing a loop may record.
const MAX_UNROLLED: i128 = 64;

/// A loop, as far as its kinds have it in common.
struct Shape<'a> {
    label: Label,
    body: &'a Block,
    /// The variable of a `for` with its bounds.
    range: Option<Range>,
    meeting: Meeting,
    span: Span,
}

#[derive(Clone)]
struct Range {
    local: LocalId,
    start: Linear,
    /// The first value beyond the last in the direction of the step.
    end: Linear,
    step: Linear,
    /// Whether the step is positive or negative, if that is known.
    up: Option<bool>,
}

impl Range {
    /// Returns the values of a range of constants, if they are few.
    fn values(&self) -> Option<Vec<i128>> {
        let (start, end, step) = (constant(&self.start)?, constant(&self.end)?, constant(&self.step)?);
        let distance = if step > 0 { end - start } else { start - end };
        let trips = if step == 0 || distance <= 0 { 0 } else { (distance - 1) / step.abs() + 1 };
        (step != 0 && trips <= MAX_TRIPS).then(|| (0..trips).map(|k| start + k * step).collect())
    }

    /// Returns a number of iterations that is not exceeded, if the bounds of start and end limit it.
    fn most(&self, space: &Variables) -> Option<i128> {
        let step = constant(&self.step).filter(|step| *step != 0)?;
        let distance = if step > 0 { self.end.minus(&self.start) } else { self.start.minus(&self.end) };
        let (_, most) = space.bounds(&distance);
        (most < ENDLESS).then(|| if most <= 0 { 0 } else { (most - 1) / step.abs() + 1 })
    }

    /// Returns the condition that an iteration with this value takes place.
    fn holds(&self, value: &Linear) -> Formula {
        match self.up {
            Some(true) => less(value, &self.end),
            Some(false) => less(&self.end, value),
            None => always(),
        }
    }
}

/// The value of a local at the head of a loop.
#[derive(Clone, Debug)]
struct Head {
    local: LocalId,
    value: Value,
    /// Its value before the loop.
    first: Value,
    /// What it grows by, if by the same in every iteration.
    by: Option<i128>,
    /// Facts that may hold at the head.
    guesses: Vec<Formula>,
}

/// The states that lead out of an iteration.
struct Ends {
    back: Vec<State>,
    breaks: Vec<State>,
}

impl<'a> Walk<'a> {
    pub(super) fn repeat(&mut self, stmt: &'a Stmt) {
        let span = stmt.span;
        let shape = match &stmt.kind {
            StmtKind::For { label, local, start, end, step, inclusive, body, .. } => {
                let on = [*start, *end, *step];
                let mut bound = |id: ExprId| match self.value(id) {
                    Value::Int(form) => form,
                    _ => {
                        let role = Role::Unknown("a bound of a loop that is not followed", span);
                        variable(self.space.fresh("bound", role, -(1 << 64), 1 << 64))
                    }
                };
                let (start, end, step) = (bound(*start), bound(*end), bound(*step));
                let up = match self.space.bounds(&step) {
                    (low, _) if low > 0 => Some(true),
                    (_, high) if high < 0 => Some(false),
                    _ if self.grows(&step) => Some(true),
                    _ => None,
                };
                let beyond = if up == Some(false) { -1 } else { 1 };
                let bounds = [&start, &end, &step].map(|form| nonnegative(form.clone()));
                let meeting = self.meeting(&on, &bounds, Some(*label));
                let end = if *inclusive { end.plus(&number(beyond)) } else { end };
                Shape { label: *label, body, range: Some(Range { local: *local, start, end, step, up }), meeting, span }
            }
            StmtKind::Loop { label, body, .. } => {
                Shape { label: *label, body, range: None, meeting: self.endless(*label, body), span }
            }
            _ => return,
        };
        // Otherwise each level of nested loops would multiply the walks through the innermost one.
        if self.muted > 0 && self.leaves_nothing(&shape) {
            return;
        }
        if !self.execute(&shape) {
            self.summarize(&shape);
        }
    }

    /// Returns whether control always goes on behind a loop, in the state in front of it: it changes no local that is followed, and
    /// has no barriers.
    fn leaves_nothing(&self, shape: &Shape<'a>) -> bool {
        let mut nothing = shape.range.is_some();
        each_stmt(shape.body, &mut |stmt| {
            nothing &= match &stmt.kind {
                StmtKind::Write { local, .. } => !self.slice.locals.contains(local),
                StmtKind::Barrier { .. } | StmtKind::Call { .. } => false,
                kind => !kind.leaves(),
            }
        });
        nothing
    }

    /// Returns which threads take the same way through a loop that `break` ends.
    fn endless(&mut self, label: Label, body: &'a Block) -> Meeting {
        let on = Jumps::of(body).conds;
        let together = self.meeting(&[], &[], Some(label));
        let meeting = self.meeting(&on, &[], Some(label));
        // The conditions are not known before the loop is walked through.
        Meeting { block: meeting.block, read: together.read, launch: on.is_empty() }
    }

    fn enter(&mut self, shape: &Shape<'a>, around: Around) -> Ends {
        self.targets.push(Target { label: shape.label, breaks: vec![], continues: vec![] });
        self.around.push(around);
        self.block(shape.body);
        self.around.pop();
        let (breaks, mut back) = self.targets.pop().map_or((vec![], vec![]), |t| (t.breaks, t.continues));
        back.extend(self.state.take());
        Ends { back, breaks }
    }

    /// Executes a loop iteration by iteration, if its iterations are known and few.
    fn execute(&mut self, shape: &Shape<'a>) -> bool {
        if !self.unroll {
            return false;
        }
        match &shape.range {
            Some(range) => {
                let Some(values) = range.values() else { return false };
                if self.accesses_in(shape.body) * values.len() as i128 > MAX_UNROLLED {
                    return false;
                }
                self.iterate(shape, range.local, &values);
                true
            }
            None => {
                let (before, budget) = (self.state.clone(), self.budget);
                self.muted += 1;
                let known = self.iterate_while(shape);
                self.muted -= 1;
                self.state = before;
                self.budget = budget;
                known && self.iterate_while(shape)
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

    fn iterate(&mut self, shape: &Shape<'a>, local: LocalId, values: &[i128]) {
        let mut left = vec![];
        for (k, &value) in values.iter().enumerate() {
            let Some(state) = &mut self.state else { break };
            state.locals.insert(local, Value::Int(number(value)));
            let ends = self.enter(shape, Around { counter: None, unrolled: Some(k as u32), meeting: shape.meeting });
            left.extend(ends.breaks);
            self.state = self.joined(ends.back);
        }
        left.extend(self.state.take());
        self.state = self.joined(left);
    }

    /// Returns whether a form is positive wherever there are threads: a step by the size of the grid is.
    fn grows(&self, step: &Linear) -> bool {
        let (Some(state), Some(grid)) = (&self.state, &self.given.grid) else { return false };
        let some = grid.grid.iter().chain(&grid.block).map(|extent| at_most(&number(1), extent));
        let path: Vec<Formula> = state.path.iter().cloned().chain(some.filter(|fact| !is_always(fact))).collect();
        follows(&self.space, &path, &less(&number(0), step))
    }

    /// Executes a loop as long as each iteration either ends for all threads or for none; returns whether it did end.
    fn iterate_while(&mut self, shape: &Shape<'a>) -> bool {
        for k in 0..MAX_TRIPS {
            let ends = self.enter(shape, Around { counter: None, unrolled: Some(k as u32), meeting: shape.meeting });
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

    /// Lets one iteration stand for all.
    fn summarize(&mut self, shape: &Shape<'a>) {
        let Some(entry) = self.state.take() else { return };
        let counter = self.space.fresh("iteration", Role::Counter, 0, ENDLESS);
        let k = variable(counter);
        if shape.meeting.read {
            self.found.together.insert(counter, self.counters());
        }
        if let Some(most) = shape.range.as_ref().and_then(|range| range.most(&self.space)) {
            self.found.turns.insert(counter, most);
        }
        let mut heads = self.heads(shape, &entry, &k);
        self.muted += 1;
        let mut before = entry.clone();
        for clock in &mut before.clocks {
            *clock = vec![Moment { site: Site::Before, counters: vec![], when: vec![] }];
        }
        let trial = self.iteration(shape, &before, &heads, &k).1;
        self.recognize(&mut heads, &trial, &k);
        // Guesses that an iteration does not preserve are dropped until it preserves all.
        let mut last = self.iteration(shape, &before, &heads, &k).1;
        while self.weaken(&mut heads, &last, &k) {
            last = self.iteration(shape, &before, &heads, &k).1;
        }
        self.muted -= 1;
        let mut head = entry.clone();
        for (clock, which) in head.clocks.iter_mut().zip(0..) {
            *clock = self.last_barriers(&entry.clocks[which], &last, which, &k);
        }
        // An iteration takes place if its condition holds, unless one before it led out of the loop.
        let own = |stmt: &Stmt| matches!(&stmt.kind, StmtKind::Break(label) if *label == shape.label);
        let (mut broken, led) = (shape.range.is_none(), leaves(shape.body, &mut vec![shape.label]));
        each_stmt(shape.body, &mut |stmt| broken |= own(stmt));
        // A step of unknown sign may lead nowhere.
        if broken || led || shape.range.as_ref().is_none_or(|range| range.up.is_none()) {
            head.sure = None;
        }
        let (at_head, ends) = self.iteration(shape, &head, &heads, &k);
        let mut left = ends.breaks;
        if let Some(range) = &shape.range {
            left.push(self.after(range, &entry, at_head, &heads, &k));
        }
        // Whether a `for` is broken out of or runs to its end, control is behind it.
        let sure = entry.sure.filter(|_| !led);
        left.iter_mut().for_each(|state| state.sure.clone_from(&sure));
        self.state = self.joined(left);
    }

    /// Returns the locals that the loop changes, each with a value of its own at the head.
    fn heads(&mut self, shape: &Shape<'a>, entry: &State, k: &Linear) -> Vec<Head> {
        let mut changed: FxHashSet<LocalId> = FxHashSet::default();
        each_stmt(shape.body, &mut |stmt| {
            if let StmtKind::Write { local, .. } | StmtKind::For { local, .. } = &stmt.kind {
                changed.insert(*local);
            }
        });
        let mut changed: Vec<LocalId> = changed.into_iter().filter(|local| entry.locals.contains_key(local)).collect();
        changed.sort_by_key(|local| local.index());
        changed.into_iter().map(|local| self.head(shape, local, entry, k)).collect()
    }

    fn head(&mut self, shape: &Shape<'a>, local: LocalId, entry: &State, k: &Linear) -> Head {
        let first = entry.locals[&local].clone();
        let role = if self.uniform.contains(&local) {
            let counters = self.around.iter().filter_map(|around| around.counter.as_ref());
            let mut on: Vec<_> =
                counters.chain([k]).flat_map(|form| form.terms().iter().map(|&(var, _)| var)).collect();
            if let Some(grid) = &self.given.grid {
                on.extend(grid.at.iter().flat_map(|form| form.terms().iter().map(|&(var, _)| var)));
            }
            if let Value::Int(first) = &first {
                on.extend(first.terms().iter().map(|&(var, _)| var));
            }
            on.sort();
            on.dedup();
            Role::Derived(on)
        } else {
            Role::Unknown("changes from iteration to iteration of this loop", shape.span)
        };
        let ty = self.f.locals[local].ty;
        let value = self.some(ty, role, &self.f.locals[local].name.clone());
        let mut guesses = match (&first, &value) {
            (Value::Int(first), Value::Int(now)) => {
                vec![at_most(&number(0), now), less(&number(0), now), at_most(now, first), at_most(first, now)]
            }
            _ => vec![],
        };
        // A local may be a value that the variable of the loop had before.
        if let (Value::Int(now), Some(range)) = (&value, &shape.range)
            && let (Some(true), Some(step)) = (range.up, constant(&range.step))
        {
            let last = range.start.plus(&k.minus(&number(1)).times(step));
            guesses.extend(is_tame(&last).then(|| at_most(now, &last)));
        }
        // What does not hold before the loop is no invariant.
        let holds = |guess: &Formula, walk: &Self| match (&first, &value) {
            (Value::Int(first), Value::Int(now)) => {
                let guess = with(&with(guess, k, &number(0)), now, first);
                follows(&walk.space, &entry.path, &guess)
            }
            _ => false,
        };
        let guesses = guesses.into_iter().filter(|guess| holds(guess, self)).collect();
        Head { local, value, first, by: None, guesses }
    }

    /// Walks through iteration `k`; returns the state at its head, and the states at its ends.
    fn iteration(&mut self, shape: &Shape<'a>, before: &State, heads: &[Head], k: &Linear) -> (State, Ends) {
        let mut head = before.clone();
        for item in heads {
            head.locals.insert(item.local, item.value.clone());
            for guess in &item.guesses {
                head.path.push(guess.clone());
            }
        }
        self.state = Some(head.clone());
        if let Some(range) = &shape.range {
            let value = self.counted(range, k, shape.span);
            self.assume(range.holds(&value));
            if let Some(state) = &mut self.state {
                state.locals.insert(range.local, Value::Int(value));
            }
        }
        let around = Around { counter: Some(k.clone()), unrolled: None, meeting: shape.meeting };
        let ends = self.enter(shape, around);
        (head, ends)
    }

    /// Returns the value of the variable of a `for` in iteration `k`.
    fn counted(&mut self, range: &Range, k: &Linear, span: Span) -> Linear {
        let form = self.space.product(&range.step, k);
        let form = form.plus(&range.start);
        if range.up.is_some() && is_tame(&form) {
            return form;
        }
        match self.unknown(self.f.locals[range.local].ty, "counts in steps of unknown sign", span) {
            Value::Int(form) => form,
            _ => form,
        }
    }

    /// Finds the locals that grow by a constant in every iteration: their value is a form of `k`.
    fn recognize(&mut self, heads: &mut [Head], trial: &Ends, k: &Linear) {
        for head in heads {
            let (Value::Int(now), Value::Int(first)) = (&head.value, &head.first) else { continue };
            let grows = |state: &State| match state.locals.get(&head.local) {
                Some(Value::Int(next)) => constant(&next.minus(now)),
                _ => None,
            };
            let mut steps = trial.back.iter().map(grows);
            let Some(Some(by)) = steps.next() else { continue };
            let form = first.plus(&k.times(by));
            if steps.all(|step| step == Some(by)) && is_tame(&form) {
                head.by = Some(by);
                head.value = Value::Int(form);
                head.guesses.clear();
            }
        }
    }

    /// Drops guesses that do not hold at the end of an iteration; returns whether there were some.
    fn weaken(&mut self, heads: &mut [Head], ends: &Ends, k: &Linear) -> bool {
        let mut dropped = false;
        for head in heads.iter_mut() {
            let Value::Int(now) = &head.value else { continue };
            let now = now.clone();
            let next = |state: &State| match state.locals.get(&head.local) {
                Some(Value::Int(next)) => Some(next.clone()),
                _ => None,
            };
            let nexts: Vec<(&State, Option<Linear>)> = ends.back.iter().map(|state| (state, next(state))).collect();
            let count = head.guesses.len();
            head.guesses.retain(|guess| {
                nexts.iter().all(|(state, next)| {
                    next.as_ref().is_some_and(|next| {
                        // The next value may be one of this iteration's number.
                        let then = with(&with(guess, k, &k.plus(&number(1))), &now, next);
                        follows(&self.space, &state.path, &then)
                    })
                })
            });
            dropped |= head.guesses.len() < count;
        }
        dropped
    }

    /// Returns the barriers that may be the last ones at the head of iteration `k`.
    fn last_barriers(&mut self, entry: &[Moment], ends: &Ends, which: usize, k: &Linear) -> Vec<Moment> {
        let mut moments: Vec<&Moment> = vec![];
        for moment in ends.back.iter().flat_map(|state| &state.clocks[which]) {
            if !moments.contains(&moment) {
                moments.push(moment);
            }
        }
        let passes = moments.iter().filter(|moment| moment.site == Site::Before).count();
        if passes == moments.len() {
            return entry.to_vec();
        }
        if passes > 0 || moments.iter().any(|moment| moment.site == Site::Any) {
            return vec![Moment { site: Site::Any, counters: vec![], when: vec![] }];
        }
        let Some(own) = single(k) else { return vec![] };
        // What else an iteration computes was another value in the one before.
        let mut known = true;
        let counters = self.counters();
        let mut look = |var: Var| known &= var == own || self.space.is_fixed(var, &counters);
        for moment in &moments {
            moment.counters.iter().flat_map(Linear::terms).for_each(|&(var, _)| look(var));
            moment.when.iter().for_each(|fact| each_var(fact, &mut look));
        }
        if !known {
            return vec![Moment { site: Site::Any, counters: vec![], when: vec![] }];
        }
        let mut earlier = |var| if var == own { k.minus(&number(1)) } else { variable(var) };
        let mut found: Vec<Moment> = entry.to_vec();
        for moment in &mut found {
            moment.when.push(equal(k, &number(0)));
        }
        for moment in moments {
            let counters = moment.counters.iter().map(|counter| replaced(counter, &mut earlier)).collect();
            let mut when: Vec<Formula> = moment.when.iter().map(|fact| renamed(fact, &mut earlier)).collect();
            when.push(less(&number(0), k));
            found.push(Moment { site: moment.site, counters, when });
        }
        found
    }

    /// Returns what holds when a `for` has run to its end.
    fn after(&mut self, range: &Range, entry: &State, mut head: State, heads: &[Head], k: &Linear) -> State {
        if heads.is_empty() && head.clocks == entry.clocks {
            return entry.clone();
        }
        let Some(own) = single(k) else { return head };
        if range.up.is_none() {
            return head;
        }
        // The number of iterations, as a function of the bounds.
        let trips = self.trips(range);
        let mut end = |var| if var == own { trips.clone() } else { variable(var) };
        for clock in &mut head.clocks {
            for moment in clock {
                moment.counters = moment.counters.iter().map(|counter| replaced(counter, &mut end)).collect();
                moment.when = moment.when.iter().map(|fact| renamed(fact, &mut end)).collect();
            }
        }
        for item in heads {
            if let (Some(_), Value::Int(form)) = (item.by, &item.value) {
                head.locals.insert(item.local, Value::Int(replaced(form, &mut end)));
            }
        }
        // Other variables are what they are at the head of that iteration.
        if heads.iter().any(|item| item.by.is_none()) {
            head.path.push(equal(k, &trips));
        }
        head
    }

    fn trips(&mut self, range: &Range) -> Linear {
        let mut on: Vec<_> = [&range.start, &range.end, &range.step]
            .into_iter()
            .flat_map(|form| form.terms().iter().map(|&(var, _)| var))
            .collect();
        on.sort();
        on.dedup();
        let trips = self.space.fresh("iterations", Role::Derived(on), 0, ENDLESS);
        let count = variable(trips);
        let beyond = range.start.plus(&self.space.product(&range.step, &count));
        let last = beyond.minus(&range.step);
        self.space.learn(trips, not(&range.holds(&beyond)));
        self.space.learn(trips, or([equal(&count, &number(0)), range.holds(&last)]));
        if constant(&range.step).is_some() {
            self.space.define(trips);
        }
        count
    }
}

/// Returns whether something in a loop leads out of it, other than to its end.
fn leaves(body: &Block, labels: &mut Vec<Label>) -> bool {
    body.iter().any(|stmt| match &stmt.kind {
        StmtKind::Return(_) => true,
        StmtKind::Break(label) | StmtKind::Continue(label) => !labels.contains(label),
        kind => {
            labels.extend(kind.label());
            kind.blocks().any(|inner| leaves(inner, labels))
        }
    })
}

/// Returns the formula with `now`, a variable, replaced.
fn with(guess: &Formula, now: &Linear, by: &Linear) -> Formula {
    let own = single(now);
    renamed(guess, &mut |var| if Some(var) == own { by.clone() } else { variable(var) })
}

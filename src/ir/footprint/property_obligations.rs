//! Builds the proof obligations for properties of a kernel: no overflow, in-bounds accesses, no races, independence of
//! the order of atomics.

use super::def::*;
use super::formula::*;
use super::proof_obligation::{ObligationBuilder, ProofObligation, SharedContext};
use super::row_split::{RowSplit, equal_parts, split_rows};
use super::vars::{VarRole, VarSpace as Variables};
use crate::def::*;
use clk_base::linear::{AffineForm, Formula, LinearProblem, SolverBudget, SolverVerdict, Var, decide};
use clk_base::source::Span;

/// Limits: the number of obligations for one property, and the number of accesses up to which all pairs are considered.
const MAX_QUESTIONS: usize = 4000;
const MAX_PAIRED: usize = 400;

/// Returns whether the conditions of a path imply a formula. Used during the analysis.
pub(super) fn follows(space: &Variables, path: &[Formula], formula: &Formula) -> bool {
    if is_always(formula) {
        return true;
    }
    let mut builder = ObligationBuilder::new(space, SharedContext::default());
    builder.path(path, 0);
    let negated = builder.formula(&not(formula), 0);
    builder.fact(negated);
    let question = builder.question(String::new(), Span::default());
    let empty =
        |problem| matches!(decide(problem, &SolverBudget { cases: 50, exchanges: 1_000 }), SolverVerdict::Empty(_));
    empty(&question.problem) || question.related.as_ref().is_some_and(empty)
}

/// Returns the obligation that the result of an operation is in the range of its type. If `launch` is set, the
/// obligation contains the coordinates of the thread, whose bounds imply that the launch has at least one thread.
pub(crate) fn overflow(
    footprint: &Footprint,
    obligation: &OverflowObligation,
    launch: Option<&SymbolicLaunch>,
) -> ProofObligation {
    let mut builder = ObligationBuilder::new(&footprint.variables, SharedContext::default());
    builder.path(&obligation.path, 0);
    let value = builder.form(&obligation.value, 0);
    builder.fact(or([less(&value, &number(obligation.low)), less(&number(obligation.high), &value)]));
    launch.into_iter().flat_map(coordinates).for_each(|form| drop(builder.form(form, 0)));
    builder.question("the result does not fit its type".into(), obligation.span)
}

/// Returns the obligation that no launch satisfies the kernel's assumptions. If the solver refutes it, a launch is
/// possible.
pub fn is_launchable(launch: &SymbolicLaunch) -> ProofObligation {
    let mut builder = ObligationBuilder::new(&launch.variables, SharedContext::default());
    for (i, known) in launch.variables.variables.iter().enumerate() {
        if known.role == VarRole::Launch {
            builder.form(&variable(Var(i as u32)), 0);
        }
    }
    builder.question("the kernel is launched".into(), Span::default())
}

/// Returns the obligations that all accesses are in bounds.
pub fn all_bounds(function: &Function, launch: &SymbolicLaunch, footprint: &Footprint) -> Vec<ProofObligation> {
    let all = |access| {
        (0..axis_count(access)).filter_map(move |axis| axis_in_bounds(function, launch, footprint, access, axis))
    };
    footprint.accesses.iter().flat_map(all).collect()
}

fn axis_count(access: &FootprintAccess) -> usize {
    access.indices.len().min(access.extents.len())
}

/// Returns the obligation that an access is in bounds along an axis; `None` if the bounds of the variables in its index
/// already imply that.
pub(crate) fn axis_in_bounds(
    function: &Function,
    launch: &SymbolicLaunch,
    footprint: &Footprint,
    access: &FootprintAccess,
    axis: usize,
) -> Option<ProofObligation> {
    let name = &function.memories[access.memory].name;
    let (index, extent) = (&access.indices[axis], &access.extents[axis]);
    let outside = or([less(index, &number(0)), at_most(extent, index)]);
    if is_never(&footprint.variables.simplify_by_bounds(outside.clone())) {
        return None;
    }
    let mut builder = ObligationBuilder::new(&footprint.variables, SharedContext::default());
    builder.path(&access.path, 0);
    let outside = builder.formula(&outside, 0);
    builder.fact(outside);
    // Adds the coordinates of a thread to the problem. Their bounds become facts, which imply that the launch has at
    // least one thread.
    coordinates(launch).for_each(|form| drop(builder.form(form, 0)));
    let axis_text = if access.indices.len() > 1 { format!(" along axis {axis}") } else { String::new() };
    let question = builder.question(format!("an index of `{name}` is out of bounds{axis_text}"), access.span);
    let suggested_promise = suggest_range_promise(&footprint.variables, index, extent);
    Some(ProofObligation { suggested_promise, memory: Some(access.memory), ..question })
}

/// Returns the obligations that no thread fails an assertion.
pub fn assertions(launch: &SymbolicLaunch, footprint: &Footprint) -> Vec<ProofObligation> {
    let obligation = |assertion: &AssertionSite| {
        let fails = footprint.variables.simplify_by_bounds(not(&assertion.holds));
        if is_never(&fails) {
            return None;
        }
        let mut builder = ObligationBuilder::new(&footprint.variables, SharedContext::default());
        builder.path(&assertion.path, 0);
        let fails = builder.formula(&fails, 0);
        builder.fact(fails);
        coordinates(launch).for_each(|form| drop(builder.form(form, 0)));
        Some(builder.question("an assertion fails".into(), assertion.span))
    };
    footprint.assertions.iter().filter_map(obligation).collect()
}

/// Suggests a promise that the elements of an index array are within an extent, unless the array already has a promise.
fn suggest_range_promise(space: &Variables, index: &AffineForm, extent: &AffineForm) -> Option<String> {
    let var = single(index)?;
    let (element, _) =
        space.elements.get(&var).filter(|(element, _)| !space.array_promises.contains_key(&element.param))?;
    let limit = match (constant(extent), single(extent)) {
        (Some(n), _) => n.to_string(),
        (None, Some(extent)) if space.get(extent).role == VarRole::Launch => space.get(extent).name.clone(),
        _ => return None,
    };
    let name = &space.get(var).name;
    (element.leaf == 0).then(|| format!("all({name} >= 0 && {name} < {limit})"))
}

/// Suggests a promise that the elements of an index array are distinct, so that two threads use different indices.
fn suggest_distinct_promise(space: &Variables, a: &FootprintAccess, b: &FootprintAccess) -> Option<String> {
    let var = a.indices.iter().zip(&b.indices).find_map(|(a, b)| single(a).filter(|_| a == b))?;
    let (element, _) = space.elements.get(&var).filter(|_| !space.definitions.contains_key(&var))?;
    let is_promised = space.array_promises.get(&element.param).is_some_and(|promised| promised.distinct);
    (!is_promised && element.leaf == 0 && element.indices.len() == 1)
        .then(|| format!("distinct({})", space.get(var).name))
}

/// Returns the coordinates of a thread and its block as affine forms.
pub(super) fn coordinates(launch: &SymbolicLaunch) -> impl Iterator<Item = &AffineForm> {
    launch.grid.iter().flat_map(|grid| grid.thread.iter().chain(&grid.block_idx)).chain(&launch.indices)
}

/// Returns the problem of an obligation with the additional fact that the launch has at least one thread. Without this
/// fact, a solution for threads of one block could have zero blocks. Also returns pairs of a variable of the launch and
/// its copy in the problem.
pub fn with_thread(
    launch: &SymbolicLaunch,
    footprint: &Footprint,
    question: &ProofObligation,
) -> (LinearProblem, Vec<(Var, Var)>) {
    let mut builder = ObligationBuilder::after(&footprint.variables, question);
    coordinates(launch).for_each(|form| drop(builder.form(form, 0)));
    builder.problem()
}

/// Returns the obligations that no two threads access the same element concurrently if at least one of the accesses
/// writes. `None` if there are too many pairs of accesses.
pub fn race_freedom(
    function: &Function,
    launch: &SymbolicLaunch,
    footprint: &Footprint,
) -> Option<Vec<ProofObligation>> {
    race_freedom_of(function, launch, footprint, &|_| true)
}

/// Like [`race_freedom`], but only for the selected memories.
pub fn race_freedom_of(
    function: &Function,
    launch: &SymbolicLaunch,
    footprint: &Footprint,
    which: &dyn Fn(MemId) -> bool,
) -> Option<Vec<ProofObligation>> {
    let mut obligations = vec![];
    let is_relevant = |access: &&FootprintAccess| {
        let space = function.memories[access.memory].space;
        which(access.memory) && !matches!(space, MemorySpace::Local | MemorySpace::Constant)
    };
    let accesses: Vec<&FootprintAccess> = footprint.accesses.iter().filter(is_relevant).collect();
    if accesses.len() > MAX_PAIRED {
        return None;
    }
    let splits: Vec<Vec<RowSplit>> = accesses.iter().map(|access| access_splits(footprint, access)).collect();
    for (i, a) in accesses.iter().enumerate() {
        let memory = &function.memories[a.memory];
        for (k, b) in accesses.iter().enumerate().skip(i) {
            if is_conflict(a.kind, b.kind) && may_overlap(a, b) {
                let description = format!("two threads access an element of `{}`", memory.name);
                let pair = [(*a, &splits[i][..]), (*b, &splits[k][..])];
                add_pair_obligations(function, launch, footprint, pair, &description, &mut obligations);
            }
            if obligations.len() > MAX_QUESTIONS {
                return None;
            }
        }
    }
    Some(obligations)
}

/// Returns the obligations that no two threads execute these two accesses concurrently on the same element, regardless
/// of the access kinds.
pub fn no_overlap(
    function: &Function,
    launch: &SymbolicLaunch,
    footprint: &Footprint,
    a: &FootprintAccess,
    b: &FootprintAccess,
) -> Vec<ProofObligation> {
    let mut obligations = vec![];
    if may_overlap(a, b) {
        let description = format!("two threads access an element of `{}`", function.memories[a.memory].name);
        let splits = [a, b].map(|access| access_splits(footprint, access));
        let pair = [(a, &splits[0][..]), (b, &splits[1][..])];
        add_pair_obligations(function, launch, footprint, pair, &description, &mut obligations);
    }
    obligations
}

/// Returns the rows and columns of an index into a flat array.
fn access_splits(footprint: &Footprint, access: &FootprintAccess) -> Vec<RowSplit> {
    let [index] = &access.indices[..] else { return vec![] };
    let space = &footprint.variables;
    split_rows(space, index, &|formula| follows(space, &access.path, formula))
}

/// Returns the obligations that no two threads concurrently update the same element by atomics that do not commute. If
/// all are proved and there are no races, the memory contents after each barrier do not depend on the order of the
/// threads. `None` if there are too many pairs of accesses.
pub fn atomic_order(
    function: &Function,
    launch: &SymbolicLaunch,
    footprint: &Footprint,
) -> Option<Vec<ProofObligation>> {
    let mut obligations = vec![];
    let updates: Vec<(&FootprintAccess, AtomicUpdate)> = footprint
        .accesses
        .iter()
        .filter_map(
            |access| if let FootprintAccessKind::Atomic(update) = access.kind { Some((access, update)) } else { None },
        )
        .collect();
    if updates.len() > MAX_PAIRED {
        return None;
    }
    for (i, (a, one)) in updates.iter().enumerate() {
        let memory = &function.memories[a.memory];
        if memory.space == MemorySpace::Local {
            continue;
        }
        for (b, other) in &updates[i..] {
            if !one.commutes(*other) && may_overlap(a, b) {
                let name = &memory.name;
                let description = match one.is_used || other.is_used {
                    true => {
                        format!("the result of an atomic operation on `{name}` depends on the order of two threads")
                    }
                    false => format!("the order in which two threads update an element of `{name}` matters"),
                };
                add_pair_obligations(function, launch, footprint, [(a, &[]), (b, &[])], &description, &mut obligations);
            }
            if obligations.len() > MAX_QUESTIONS {
                return None;
            }
        }
    }
    Some(obligations)
}

fn is_conflict(a: FootprintAccessKind, b: FootprintAccessKind) -> bool {
    !matches!(
        (a, b),
        (FootprintAccessKind::Load, FootprintAccessKind::Load)
            | (FootprintAccessKind::Atomic(_), FootprintAccessKind::Atomic(_))
    )
}

/// Returns whether two accesses may access the same element: returns `false` only if they differ in memory, leaf,
/// component or a constant index.
fn may_overlap(a: &FootprintAccess, b: &FootprintAccess) -> bool {
    let differ = matches!((a.component, b.component), (Some(x), Some(y)) if x != y);
    let constants = |(x, y): (&AffineForm, &AffineForm)| constant(&x.minus(y)).is_some_and(|n| n != 0) && is_fixed(x);
    a.memory == b.memory && a.leaf == b.leaf && !differ && !a.indices.iter().zip(&b.indices).any(constants)
}

fn is_fixed(form: &AffineForm) -> bool {
    constant(form).is_some()
}

fn add_pair_obligations(
    function: &Function,
    launch: &SymbolicLaunch,
    footprint: &Footprint,
    [(a, a_splits), (b, b_splits)]: [(&FootprintAccess, &[RowSplit]); 2],
    description: &str,
    obligations: &mut Vec<ProofObligation>,
) {
    let memory = &function.memories[a.memory];
    let same = std::ptr::eq(a, b);
    let parts = equal_parts(a_splits, b_splits);
    let same_element: Vec<(&AffineForm, &AffineForm)> =
        if parts.is_empty() { a.indices.iter().zip(&b.indices).collect() } else { parts };
    let mut add_obligation = |common: SharedContext,
                              distinct_coordinates: Vec<AffineForm>,
                              extra: Vec<(Formula, u8)>,
                              equal_values: Vec<(AffineForm, AffineForm)>| {
        let mut builder = ObligationBuilder::new(&footprint.variables, common);
        let mut distinct = vec![];
        let mut equal_so_far = vec![];
        for coordinate in &distinct_coordinates {
            let (x, y) = (builder.form(coordinate, 0), builder.form(coordinate, 1));
            // If an access is paired with itself, the two threads are interchangeable, so it suffices to assume that
            // the first has the smaller coordinate.
            let order = if same { less(&x, &y) } else { different(&x, &y) };
            distinct.push(and([and(equal_so_far.clone()), order]));
            equal_so_far.push(equal(&x, &y));
        }
        let distinct = or(distinct);
        if is_never(&distinct) {
            return;
        }
        builder.path(&a.path, 0);
        builder.path(&b.path, 1);
        for (x, y) in &same_element {
            let (x, y) = (builder.form(x, 0), builder.form(y, 1));
            let same_index = equal(&x, &y);
            if is_never(&same_index) {
                return;
            }
            builder.fact(same_index);
        }
        for (x, y) in &equal_values {
            let (x, y) = (builder.form(x, 0), builder.form(y, 1));
            let same_iteration = equal(&x, &y);
            if is_never(&same_iteration) {
                return;
            }
            builder.fact(same_iteration);
        }
        for (fact, side) in &extra {
            let fact = builder.formula(fact, *side);
            builder.fact(fact);
        }
        builder.fact(distinct);
        let suggestion =
            if is_conflict(a.kind, b.kind) { suggest_distinct_promise(&footprint.variables, a, b) } else { None };
        let question =
            ProofObligation { suggested_promise: suggestion, ..builder.question(description.to_string(), b.span) };
        if !obligations.iter().any(|known| known.problem == question.problem) {
            obligations.push(question);
        }
    };
    let Some(grid) = &launch.grid else {
        return add_obligation(SharedContext::default(), launch.indices.clone(), vec![], vec![]);
    };
    let shared_intervals = |which: usize| {
        let mut shared_intervals = vec![];
        for x in &a.last_barriers[which] {
            for y in &b.last_barriers[which] {
                if x.site == y.site || x.site == SyncSite::Any || y.site == SyncSite::Any {
                    shared_intervals.push((x, y));
                }
            }
        }
        shared_intervals
    };
    let conditions = |x: &LastBarrier, y: &LastBarrier| -> Vec<(Formula, u8)> {
        x.conditions
            .iter()
            .map(|fact| (fact.clone(), 0))
            .chain(y.conditions.iter().map(|fact| (fact.clone(), 1)))
            .collect()
    };
    for (x, y) in shared_intervals(0) {
        let equal_counters: Vec<(AffineForm, AffineForm)> = match x.site == y.site && x.site != SyncSite::Any {
            true => x.counters.iter().cloned().zip(y.counters.iter().cloned()).collect(),
            false => vec![],
        };
        let counters = equal_counters.iter().filter(|(x, y)| x == y).filter_map(|(x, _)| single(x)).collect();
        add_obligation(
            SharedContext { block: true, counters, unshared: vec![] },
            grid.thread.to_vec(),
            conditions(x, y),
            equal_counters,
        );
    }
    if matches!(memory.space, MemorySpace::Global { .. }) {
        for (x, y) in shared_intervals(1) {
            let equal_counters: Vec<(AffineForm, AffineForm)> = match x.site == y.site && x.site != SyncSite::Any {
                true => x.counters.iter().cloned().zip(y.counters.iter().cloned()).collect(),
                false => vec![],
            };
            add_obligation(SharedContext::default(), grid.block_idx.to_vec(), conditions(x, y), equal_counters);
        }
    }
}

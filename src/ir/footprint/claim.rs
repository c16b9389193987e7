//! The questions whose negative answers prove a property of a kernel.

use super::def::*;
use super::form::*;
use super::question::{Builder, Common, Question};
use super::space::{Role, Space as Variables};
use crate::base::linear::{Budget, Formula, Linear, Problem, Var, Verdict, decide};
use crate::base::source::Span;
use crate::ir::def::*;

/// The most questions about one property, and the most accesses of which all pairs are looked at.
const MAX_QUESTIONS: usize = 4000;
const MAX_PAIRED: usize = 400;

/// Returns whether a formula follows from a path, for the walk's own use.
pub(super) fn follows(space: &Variables, path: &[Formula], formula: &Formula) -> bool {
    if is_always(formula) {
        return true;
    }
    let mut builder = Builder::new(space, Common::default());
    builder.path(path, 0);
    let negated = builder.formula(&not(formula), 0);
    builder.fact(negated);
    let question = builder.question(String::new(), Span::default());
    let empty = |problem| matches!(decide(problem, &Budget { cases: 50, exchanges: 1_000 }), Verdict::Empty(_));
    empty(&question.problem) || question.related.as_ref().is_some_and(empty)
}

/// Asks whether a result may be out of range.
pub(crate) fn overflow(found: &Footprint, obligation: &Obligation) -> Question {
    let mut builder = Builder::new(&found.variables, Common::default());
    builder.path(&obligation.path, 0);
    let value = builder.form(&obligation.value, 0);
    builder.fact(or([less(&value, &number(obligation.low)), less(&number(obligation.high), &value)]));
    builder.question("the result does not fit its type".into(), obligation.span)
}

/// Asks whether there is a launch at all.
pub fn launches(given: &Given) -> Question {
    let mut builder = Builder::new(&given.variables, Common::default());
    for (i, known) in given.variables.variables.iter().enumerate() {
        if known.role == Role::Launch {
            builder.form(&variable(Var(i as u32)), 0);
        }
    }
    builder.question("the kernel is launched".into(), Span::default())
}

/// Asks whether an access may be out of bounds.
pub fn bounds(function: &Function, given: &Given, found: &Footprint) -> Vec<Question> {
    let all = |touch| (0..touch_axes(touch)).filter_map(move |axis| outside(function, given, found, touch, axis));
    found.accesses.iter().flat_map(all).collect()
}

fn touch_axes(touch: &Touch) -> usize {
    touch.indices.len().min(touch.extents.len())
}

/// Asks whether an access may be out of bounds along an axis; `None` where its bounds say that it is not.
pub(crate) fn outside(
    function: &Function,
    given: &Given,
    found: &Footprint,
    touch: &Touch,
    axis: usize,
) -> Option<Question> {
    let name = &function.memories[touch.memory].name;
    let (index, extent) = (&touch.indices[axis], &touch.extents[axis]);
    let outside = or([less(index, &number(0)), at_most(extent, index)]);
    if is_never(&found.variables.settled(outside.clone())) {
        return None;
    }
    let mut builder = Builder::new(&found.variables, Common::default());
    builder.path(&touch.path, 0);
    let outside = builder.formula(&outside, 0);
    builder.fact(outside);
    // That there is a thread.
    coordinates(given).for_each(|form| drop(builder.form(form, 0)));
    let along = if touch.indices.len() > 1 { format!(" along axis {axis}") } else { String::new() };
    let question = builder.question(format!("an index of `{name}` is out of bounds{along}"), touch.span);
    Some(Question { offer: in_range(&found.variables, index, extent), ..question })
}

/// Returns the promise that an element which is used as an index is within an extent, if nothing is promised of its array.
fn in_range(space: &Variables, index: &Linear, extent: &Linear) -> Option<String> {
    let var = single(index)?;
    let (element, _) = space.elements.get(&var).filter(|(element, _)| !space.promised.contains_key(&element.param))?;
    let limit = match (constant(extent), single(extent)) {
        (Some(n), _) => n.to_string(),
        (None, Some(extent)) if space.get(extent).role == Role::Launch => space.get(extent).name.clone(),
        _ => return None,
    };
    let name = &space.get(var).name;
    (element.leaf == 0).then(|| format!("all({name} >= 0 && {name} < {limit})"))
}

/// Returns the promise that an element which two threads use as an index is another one for each.
fn told_apart(space: &Variables, a: &Touch, b: &Touch) -> Option<String> {
    let var = a.indices.iter().zip(&b.indices).find_map(|(a, b)| single(a).filter(|_| a == b))?;
    let (element, _) = space.elements.get(&var).filter(|_| !space.defined.contains_key(&var))?;
    let known = space.promised.get(&element.param).is_some_and(|promised| promised.distinct);
    (!known && element.leaf == 0 && element.indices.len() == 1).then(|| format!("distinct({})", space.get(var).name))
}

/// Returns the coordinates of a thread.
pub(super) fn coordinates(given: &Given) -> impl Iterator<Item = &Linear> {
    given.grid.iter().flat_map(|grid| grid.thread.iter().chain(&grid.at)).chain(&given.indices)
}

/// Returns the problem of a question with the further fact that the launch has a thread: a question about threads of one block says nothing of
/// how many blocks there are. With it come the variables of the launch, by those of the problem.
pub fn launched(given: &Given, found: &Footprint, question: &Question) -> (Problem, Vec<(Var, Var)>) {
    let mut builder = Builder::after(&found.variables, question);
    coordinates(given).for_each(|form| drop(builder.form(form, 0)));
    builder.problem()
}

/// Asks whether two threads may access one element at a time, one of them to write. `None`: too many pairs.
pub fn races(function: &Function, given: &Given, found: &Footprint) -> Option<Vec<Question>> {
    races_in(function, given, found, &|_| true)
}

/// Asks the same about these memories alone.
pub(crate) fn races_in(
    function: &Function,
    given: &Given,
    found: &Footprint,
    which: &dyn Fn(MemId) -> bool,
) -> Option<Vec<Question>> {
    let mut asked = vec![];
    let is_asked = |touch: &&Touch| {
        let space = function.memories[touch.memory].space;
        which(touch.memory) && !matches!(space, Space::Local | Space::Constant)
    };
    let accesses: Vec<&Touch> = found.accesses.iter().filter(is_asked).collect();
    if accesses.len() > MAX_PAIRED {
        return None;
    }
    for (i, a) in accesses.iter().enumerate() {
        let memory = &function.memories[a.memory];
        for b in &accesses[i..] {
            if conflict(a.deed, b.deed) && may_meet(a, b) {
                let what = format!("two threads access an element of `{}`", memory.name);
                pair(function, given, found, [*a, *b], &what, &mut asked);
            }
            if asked.len() > MAX_QUESTIONS {
                return None;
            }
        }
    }
    Some(asked)
}

/// Asks whether two threads may make these two accesses to one element at a time, whatever they do to it.
pub fn meetings(function: &Function, given: &Given, found: &Footprint, a: &Touch, b: &Touch) -> Vec<Question> {
    let mut asked = vec![];
    if may_meet(a, b) {
        let what = format!("two threads access an element of `{}`", function.memories[a.memory].name);
        pair(function, given, found, [a, b], &what, &mut asked);
    }
    asked
}

/// Asks whether two threads may update one element at a time, so that the order of the two matters. With the answer "no" to all,
/// and without races, each epoch of the kernel depends on the ones before alone. `None`: too many pairs.
pub fn order(function: &Function, given: &Given, found: &Footprint) -> Option<Vec<Question>> {
    let mut asked = vec![];
    let updates: Vec<(&Touch, Update)> = found
        .accesses
        .iter()
        .filter_map(|touch| if let Deed::Updates(update) = touch.deed { Some((touch, update)) } else { None })
        .collect();
    if updates.len() > MAX_PAIRED {
        return None;
    }
    for (i, (a, one)) in updates.iter().enumerate() {
        let memory = &function.memories[a.memory];
        if memory.space == Space::Local {
            continue;
        }
        for (b, other) in &updates[i..] {
            if !one.commutes(*other) && may_meet(a, b) {
                let name = &memory.name;
                let what = match one.is_used || other.is_used {
                    true => format!("what an atomic operation on `{name}` returns depends on the order of two threads"),
                    false => format!("the order in which two threads update an element of `{name}` matters"),
                };
                pair(function, given, found, [a, b], &what, &mut asked);
            }
            if asked.len() > MAX_QUESTIONS {
                return None;
            }
        }
    }
    Some(asked)
}

fn conflict(a: Deed, b: Deed) -> bool {
    !matches!((a, b), (Deed::Reads, Deed::Reads) | (Deed::Updates(_), Deed::Updates(_)))
}

/// Returns whether two accesses may be of the same element, as far as their forms tell.
fn may_meet(a: &Touch, b: &Touch) -> bool {
    let apart = matches!((a.component, b.component), (Some(x), Some(y)) if x != y);
    let constants = |(x, y): (&Linear, &Linear)| constant(&x.minus(y)).is_some_and(|n| n != 0) && is_fixed(x);
    a.memory == b.memory && a.leaf == b.leaf && !apart && !a.indices.iter().zip(&b.indices).any(constants)
}

fn is_fixed(form: &Linear) -> bool {
    constant(form).is_some()
}

fn pair(
    function: &Function,
    given: &Given,
    found: &Footprint,
    [a, b]: [&Touch; 2],
    what: &str,
    asked: &mut Vec<Question>,
) {
    let memory = &function.memories[a.memory];
    let same = std::ptr::eq(a, b);
    let mut ask = |common: Common, apart: Vec<Linear>, extra: Vec<(Formula, u8)>, equal_: Vec<(Linear, Linear)>| {
        let mut builder = Builder::new(&found.variables, common);
        let mut distinct = vec![];
        let mut before = vec![];
        for coordinate in &apart {
            let (x, y) = (builder.form(coordinate, 0), builder.form(coordinate, 1));
            // Of an access with itself, one order stands for both.
            let order = if same { less(&x, &y) } else { different(&x, &y) };
            distinct.push(and([and(before.clone()), order]));
            before.push(equal(&x, &y));
        }
        let distinct = or(distinct);
        if is_never(&distinct) {
            return;
        }
        builder.path(&a.path, 0);
        builder.path(&b.path, 1);
        for (x, y) in a.indices.iter().zip(&b.indices) {
            let (x, y) = (builder.form(x, 0), builder.form(y, 1));
            let meet = equal(&x, &y);
            if is_never(&meet) {
                return;
            }
            builder.fact(meet);
        }
        for (x, y) in &equal_ {
            let (x, y) = (builder.form(x, 0), builder.form(y, 1));
            let meet = equal(&x, &y);
            if is_never(&meet) {
                return;
            }
            builder.fact(meet);
        }
        for (fact, side) in &extra {
            let fact = builder.formula(fact, *side);
            builder.fact(fact);
        }
        builder.fact(distinct);
        let offer = if conflict(a.deed, b.deed) { told_apart(&found.variables, a, b) } else { None };
        let question = Question { offer, ..builder.question(what.to_string(), b.span) };
        if !asked.iter().any(|known| known.problem == question.problem) {
            asked.push(question);
        }
    };
    let Some(grid) = &given.grid else {
        return ask(Common::default(), given.indices.clone(), vec![], vec![]);
    };
    let ways = |which: usize| {
        let mut ways = vec![];
        for x in &a.clocks[which] {
            for y in &b.clocks[which] {
                if x.site == y.site || x.site == Site::Any || y.site == Site::Any {
                    ways.push((x, y));
                }
            }
        }
        ways
    };
    let conditions = |x: &Moment, y: &Moment| -> Vec<(Formula, u8)> {
        x.when.iter().map(|fact| (fact.clone(), 0)).chain(y.when.iter().map(|fact| (fact.clone(), 1))).collect()
    };
    for (x, y) in ways(0) {
        let met: Vec<(Linear, Linear)> = match x.site == y.site && x.site != Site::Any {
            true => x.counters.iter().cloned().zip(y.counters.iter().cloned()).collect(),
            false => vec![],
        };
        let counters = met.iter().filter(|(x, y)| x == y).filter_map(|(x, _)| single(x)).collect();
        ask(Common { block: true, counters }, grid.thread.to_vec(), conditions(x, y), met);
    }
    if matches!(memory.space, Space::Global { .. }) {
        for (x, y) in ways(1) {
            let met: Vec<(Linear, Linear)> = match x.site == y.site && x.site != Site::Any {
                true => x.counters.iter().cloned().zip(y.counters.iter().cloned()).collect(),
                false => vec![],
            };
            ask(Common::default(), grid.at.to_vec(), conditions(x, y), met);
        }
    }
}

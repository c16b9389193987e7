//! Whether every element of an array is written: an element is turned into a thread that should write it.
//!
//! Input: the writes of a footprint. Output: questions, each of which says with the answer "no" that all elements are written.
//! Idea: the indices of a write are read as numbers in mixed digits, which are coordinates of the thread and iterations. Any
//! integers have such digits, so what they define exists; that this thread writes the element is then a question. An index that is a
//! remainder is read as the dividend, of one of the numbers with this remainder. What several indices have the quotient and the
//! remainder of, such as `thread + 96 * iteration`, is a [number](Joint) with digits of its own first.

use std::borrow::Cow;

use rustc_hash::{FxHashMap, FxHashSet};

use super::claim::coordinates;
use super::def::*;
use super::form::*;
use super::question::{Builder, Question};
use super::space::{Role, Space as Variables};
use crate::base::linear::{Formula, Linear, Var};
use crate::ir::def::*;

/// Writes whose indices are tried as the form of digits.
const MAX_FORMS: usize = 6;
/// The values of a coordinate that is a digit of its own: of a thread in its block, mostly.
const MAX_COUNT: i128 = 1 << 12;

/// Asks, for each leaf of an array with such an access, whether an element is written by no thread: one negative answer of a list is
/// enough. No question at all for an array of which it cannot be asked.
pub fn unwritten(
    function: &Function,
    given: &Given,
    found: &Footprint,
    which: impl Fn(Access) -> bool,
) -> Vec<(MemId, Vec<Question>)> {
    let mut all = vec![];
    for (id, memory) in function.memories.iter() {
        if !matches!(memory.space, Space::Global { access, .. } if which(access)) {
            continue;
        }
        for leaf in 0..memory.layout.leaves.len() as u32 {
            all.push((id, missing(function, given, found, id, leaf)));
        }
    }
    all
}

fn missing(function: &Function, given: &Given, found: &Footprint, id: MemId, leaf: u32) -> Vec<Question> {
    let is_write = |touch: &&Touch| {
        touch.memory == id && touch.leaf == leaf && touch.deed == Deed::Writes && touch.component.is_none()
    };
    let writes: Vec<&Touch> = found.accesses.iter().filter(is_write).filter(|touch| touch.sure.is_some()).collect();
    let mut forms: Vec<&Touch> = vec![];
    for touch in &writes {
        if forms.len() < MAX_FORMS && forms.iter().all(|known| known.indices != touch.indices) {
            forms.push(touch);
        }
    }
    let what = format!("an element of `{}` is not written", function.memories[id].name);
    let own = coordinates(given).filter_map(single).collect::<Vec<Var>>();
    forms.into_iter().filter_map(|form| missed(&own, found, form, &writes, None, &what)).collect()
}

/// Asks, for each read of a shared array without races, whether it is of an element that no thread of the block writes in front of it in
/// the text, in no later iteration of loops around both: one negative answer of a list is enough. If the threads of the block reach
/// the same barriers, what stands in front happens no later, and without races a barrier or the thread itself keeps the two apart.
pub(super) fn unwritten_before(
    function: &Function,
    given: &Given,
    found: &Footprint,
    id: MemId,
) -> Option<Vec<Vec<Question>>> {
    let own: Vec<Var> = given.grid.as_ref()?.thread.iter().filter_map(single).collect();
    let what = format!("an element of `{}` is read that is not written", function.memories[id].name);
    let mut asked = vec![];
    let mut writes: Vec<&Touch> = vec![];
    for touch in found.accesses.iter().filter(|touch| touch.memory == id) {
        if touch.deed == Deed::Writes {
            writes.extend((touch.sure.is_some() && touch.component.is_none()).then_some(touch));
            continue;
        }
        let before: Vec<&Touch> = writes.iter().copied().filter(|write| write.leaf == touch.leaf).collect();
        let way = |form: &&Touch| missed(&own, found, form, &before, Some(touch), &what);
        asked.push(before.iter().take(MAX_FORMS).filter_map(way).collect());
    }
    Some(asked)
}

/// Asks whether an element, that of an access if there is one, is missed by the thread that the digits of its indices in this form make
/// up.
fn missed(
    own: &[Var],
    found: &Footprint,
    form: &Touch,
    writes: &[&Touch],
    read: Option<&Touch>,
    what: &str,
) -> Option<Question> {
    let mut coordinates: Vec<Var> = own.to_vec();
    for counter in writes.iter().flat_map(|touch| &touch.counters) {
        if !coordinates.contains(counter) {
            coordinates.push(*counter);
        }
    }
    let mut space = Cow::Borrowed(&found.variables);
    let joints = Joint::all(&mut space, &coordinates, &form.indices);
    let space = &*space;
    let mut builder = Builder::free(space);
    builder.placed.clone_from(&coordinates);
    // Those of a thread and its iterations, then what is made up of several.
    let placed = coordinates.len();
    coordinates.extend(joints.iter().map(|joint| joint.var));
    let mut elements = vec![];
    for (axis, extent) in form.extents.iter().enumerate() {
        let element = builder.natural(&format!("element {axis}"));
        let extent = builder.form(extent, 0);
        builder.fact(less(&element, &extent));
        if let Some(read) = read {
            let index = builder.form(read.indices.get(axis)?, 1);
            builder.fact(equal(&element, &index));
        }
        elements.push(element);
    }
    if let Some(read) = read {
        builder.path(&read.path, 1);
    }
    let mut goal = vec![];
    let mut places: Vec<(Linear, Linear)> = vec![];
    for (index, element) in form.indices.iter().zip(&elements) {
        let index = joints.iter().fold(index.clone(), |index, joint| joint.within(&index));
        places.push(position(&mut builder, space, &index, element, &mut goal));
    }
    // Rows of a flat array first, then digits.
    let mut parts: Vec<(Linear, Linear)> = vec![];
    for (index, position) in &places {
        parts.extend(rows(&mut builder, space, index, position));
    }
    let splits = splits(space, &coordinates, &joints, parts.iter().map(|(index, _)| index))?;
    let mut values: Vec<Vec<(Part, Linear)>> = vec![vec![]; coordinates.len()];
    // The positions as sums of their digits, and the coordinates.
    let mut known_sums: Vec<(Linear, Linear)> = vec![];
    for (index, position) in &parts {
        let digits = Digits::of(found, space, &coordinates, &splits, index)?;
        let sum = digits.place(&mut builder, index, position, &mut values)?;
        known_sums.push((position.clone(), sum));
    }
    let sum = |element: &Linear| known_sums.iter().find(|(position, _)| position == element).map(|(_, sum)| sum);
    let sums: Vec<Linear> = elements.iter().map(|element| sum(element).unwrap_or(element).clone()).collect();
    let split = |at: usize| splits.iter().find(|split| split.at == at);
    for (at, joint) in (placed..).zip(&joints) {
        let number = value(&mut builder, &values[at], split(at));
        let digits = Digits::of(found, space, &coordinates[..placed], &splits, &joint.form)?;
        digits.place(&mut builder, &joint.form, &number, &mut values)?;
    }
    coordinates.truncate(placed);
    let mut known: FxHashMap<Var, Linear> = FxHashMap::default();
    for (at, &var) in coordinates.iter().enumerate() {
        let value = value(&mut builder, &values[at], split(at));
        let own = builder.form(&variable(var), 0);
        builder.fact(equal(&own, &value));
        goal.push(builder.limits(var, 0));
        // Of loops around both, an iteration that is not later.
        if read.is_some_and(|read| read.counters.contains(&var)) {
            let reads = builder.form(&variable(var), 1);
            goal.push(at_most(&value, &reads));
        }
        known.insert(var, value);
    }
    let mut ways = vec![];
    for touch in writes {
        let Some(sure) = &touch.sure else { continue };
        if !is_settled(space, &coordinates, sure, &touch.indices) {
            continue;
        }
        let mut value = |var: Var| known.get(&var).cloned().unwrap_or_else(|| builder.form(&variable(var), 0));
        let here = touch.indices.iter().zip(&sums).map(|(index, sum)| equal(&replaced(index, &mut value), sum));
        let here = and(here.collect::<Vec<_>>());
        let way: Vec<Step> = sure.iter().map(|step| step.renamed(&mut |formula| builder.formula(formula, 0))).collect();
        ways.push(goes(&way, here));
    }
    goal.push(or(ways));
    builder.fact(not(&and(goal)));
    let question = builder.question(what.to_string(), form.span);
    (!question.problem.facts.is_empty()).then_some(question)
}

/// Returns what has to be equal for an access along an axis to be the element: its index and the element, or, where the index is
/// read from a permutation, the place of the read and the position of the element there, which exists if the goal holds.
fn position(
    builder: &mut Builder<'_>,
    space: &Variables,
    index: &Linear,
    element: &Linear,
    goal: &mut Vec<Formula>,
) -> (Linear, Linear) {
    let (mut index, mut element) = (index.clone(), element.clone());
    while let Some((place, count)) = space.permuted(&index) {
        let (read, count) = (builder.form(&index, 0), builder.form(&count, 0));
        let position = builder.natural("position");
        let there = and([equal(&read, &element), less(&position, &count)]);
        builder.fact(or([there, at_most(&count, &element)]));
        goal.push(less(&element, &count));
        (index, element) = (place, position);
    }
    // Coordinates themselves are [split](Split).
    let remainder = space.remainder(&index).filter(|(dividend, _)| single(dividend).is_none());
    match remainder.and_then(|(dividend, by)| turned(builder, space, &element, &dividend, &by)) {
        Some(turned) => turned,
        None => (index, element),
    }
}

/// Returns the dividend of an index that is a remainder, and the number equal to the element modulo the divisor that the dividend
/// may be: the one for which the part of it that depends on the thread is from 0 up to the divisor. There is one, if that is positive.
fn turned(
    builder: &mut Builder<'_>,
    space: &Variables,
    element: &Linear,
    dividend: &Linear,
    by: &Linear,
) -> Option<(Linear, Linear)> {
    let turns = builder.integer("turns");
    let all = match constant(by) {
        Some(n) => turns.times(n),
        None => builder.times(single(&turns)?, by),
    };
    let divisor = builder.form(by, 0);
    let position = element.plus(&all);
    let part = own_part(builder, space, dividend, &position);
    let within = and([at_most(&number(0), &part), less(&part, &divisor)]);
    builder.fact(or([within, at_most(&divisor, &number(0))]));
    Some((dividend.clone(), position))
}

/// Returns the part of a position that depends on the thread, if an index is there: it grows as the coordinates do.
fn own_part(builder: &mut Builder<'_>, space: &Variables, index: &Linear, position: &Linear) -> Linear {
    let own = index.terms().iter().filter(|(var, _)| !space.is_of_launch(*var));
    let sign = if own.clone().all(|(_, weight)| *weight < 0) { -1 } else { 1 };
    let own = own.fold(number(0), |sum, &(var, weight)| sum.plus(&variable(var).times(weight)));
    let rest = builder.form(&index.minus(&own), 0);
    position.minus(&rest).times(sign)
}

/// Returns the parts of an index of a flat array whose rows have a dimension as their length: `r * W + c` gives `c` and `r`, each with the
/// part of the position that it has to be. Every position has such parts if the length is positive.
fn rows(builder: &mut Builder<'_>, space: &Variables, index: &Linear, position: &Linear) -> Vec<(Linear, Linear)> {
    let (mut parts, mut index, mut position) = (vec![], index.clone(), position.clone());
    while let Some((length, row, column)) = pitch(space, &index) {
        let at = builder.integer("row");
        let Some(whole) = single(&at).map(|at| builder.times(at, &variable(length))) else { break };
        let within = position.minus(&whole);
        let (length, part) = (builder.form(&variable(length), 0), own_part(builder, space, &column, &within));
        let holds = and([at_most(&number(0), &part), less(&part, &length)]);
        builder.fact(or([holds, at_most(&length, &number(0))]));
        parts.push((column, within));
        (index, position) = (row, at);
    }
    parts.push((index, position));
    parts
}

/// Returns the length of the rows of an index, which is a variable of the launch, with the row and the column.
fn pitch(space: &Variables, index: &Linear) -> Option<(Var, Linear, Linear)> {
    // The other factor of a product with a length. A multiple of a quotient by the length belongs to a remainder.
    let other = |var: Var, length: Var| {
        let times = space.products.get(&var)?;
        let of_remainder = |other: Var| space.divided(other).is_some_and(|(_, by)| single(by) == Some(length));
        let factors = [(times.left, times.right), (times.right, times.left)];
        factors.into_iter().find(|&(own, other)| own == length && !of_remainder(other)).map(|(_, other)| other)
    };
    let of_thread = |var: &Var| space.products.contains_key(var) && !space.is_of_launch(*var);
    let products: Vec<Var> = index.terms().iter().map(|&(var, _)| var).filter(of_thread).collect();
    let factors = products.iter().filter_map(|var| space.products.get(var)).flat_map(|times| [times.left, times.right]);
    let is_length = |length: &Var| products.iter().all(|&var| other(var, *length).is_some());
    let length = factors.filter(|&var| space.is_of_launch(var)).find(is_length)?;
    let (mut row, mut column) = (number(0), number(index.constant()));
    for &(var, weight) in index.terms() {
        match other(var, length).filter(|_| products.contains(&var)) {
            Some(other) => row = row.plus(&variable(other).times(weight)),
            None => column = column.plus(&variable(var).times(weight)),
        }
    }
    Some((length, row, column))
}

/// A number that several coordinates make up, of which indices have the quotient and the remainder.
struct Joint {
    var: Var,
    form: Linear,
    quotient: Var,
}

impl Joint {
    /// Finds the numbers that more than one index, or one that is more than a remainder, has quotients of, and names them.
    fn all(space: &mut Cow<'_, Variables>, coordinates: &[Var], indices: &[Linear]) -> Vec<Joint> {
        let mut found: Vec<Joint> = vec![];
        for index in indices {
            if space.remainder(index).is_some() {
                continue;
            }
            for &(var, _) in index.terms() {
                let Some((quotient, (form, _))) = space.quotient_in(var) else { continue };
                let is_own = |var: Var| {
                    let whole = space.divided(var).and_then(|(whole, _)| single(whole)).unwrap_or(var);
                    coordinates.contains(&whole)
                };
                let own = form.terms().iter().filter(|(var, _)| is_own(*var)).count();
                if own < 2 || found.iter().any(|joint| joint.quotient == quotient) {
                    continue;
                }
                let form = form.clone();
                let var = space.to_mut().name(&form);
                found.push(Joint { var, form, quotient });
            }
        }
        found
    }

    /// Returns an index in terms of the number where it has a multiple of it.
    fn within(&self, index: &Linear) -> Linear {
        let weights = self.form.terms().iter().map(|&(var, weight)| (index.coefficient(var), weight));
        let times = |(own, weight): (i128, i128)| if own % weight == 0 { own / weight } else { 0 };
        let mut all = weights.map(times);
        match all.next() {
            Some(times) if times != 0 && all.all(|other| other == times) => {
                index.minus(&self.form.times(times)).plus(&variable(self.var).times(times))
            }
            _ => index.clone(),
        }
    }
}

/// A coordinate of which an index has the quotient by a number, or by a dimension.
struct Split {
    /// The position of the coordinate.
    at: usize,
    quotient: Var,
    by: Linear,
    /// The quotient times the dimension.
    product: Option<Var>,
}

/// Returns the coordinates that are split; `None` if one is in two ways.
fn splits<'a>(
    space: &Variables,
    coordinates: &[Var],
    joints: &[Joint],
    indices: impl Iterator<Item = &'a Linear>,
) -> Option<Vec<Split>> {
    let mut found: Vec<Split> = vec![];
    for &(quotient, _) in indices.flat_map(Linear::terms) {
        let Some((a, by)) = space.divided(quotient) else { continue };
        let whole = joints.iter().find(|joint| joint.quotient == quotient).map(|joint| joint.var).or_else(|| single(a));
        let Some(at) = whole.and_then(|var| coordinates.iter().position(|known| *known == var)) else { continue };
        if found.iter().any(|split| split.quotient == quotient) {
            continue;
        }
        if found.iter().any(|split| split.at == at) {
            return None;
        }
        let product = match (constant(by), single(by)) {
            (Some(n), _) if n > 1 => None,
            (None, Some(by)) if space.is_of_launch(by) => Some(space.known_product(quotient, by)?),
            _ => return None,
        };
        found.push(Split { at, quotient, by: by.clone(), product });
    }
    Some(found)
}

/// The part of a coordinate that is a digit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Whole,
    Quotient,
    Rest,
}

/// A digit of an index: a part of a coordinate, its weight, and how many values it has, if that is known.
struct Digit {
    at: usize,
    part: Part,
    weight: i128,
    count: Option<i128>,
    /// Of an iteration.
    counts: bool,
}

/// An index as a number in digits.
struct Digits {
    digits: Vec<Digit>,
    /// 1, or -1 where the index falls as the digits grow.
    sign: i128,
    /// What does not depend on the thread.
    rest: Linear,
}

impl Digits {
    fn of(
        found: &Footprint,
        space: &Variables,
        coordinates: &[Var],
        splits: &[Split],
        index: &Linear,
    ) -> Option<Digits> {
        let mut weights: Vec<(usize, Part, i128)> = vec![];
        let mut rest = number(index.constant());
        for &(var, weight) in index.terms() {
            let split_by = |split: &&Split| split.quotient == var || split.product == Some(var);
            if let Some(at) = coordinates.iter().position(|known| *known == var) {
                match splits.iter().find(|split| split.at == at) {
                    None => weights.push((at, Part::Whole, weight)),
                    Some(split) => {
                        weights.push((at, Part::Rest, weight));
                        match constant(&split.by) {
                            Some(by) => weights.push((at, Part::Quotient, weight.checked_mul(by)?)),
                            // The product of quotient and dimension has to go.
                            None if index.coefficient(split.product?) == -weight => {}
                            None => return None,
                        }
                    }
                }
            } else if let Some(split) = splits.iter().find(split_by) {
                match split.product == Some(var) {
                    true if index.coefficient(coordinates[split.at]) == -weight => {}
                    true => return None,
                    false => weights.push((split.at, Part::Quotient, weight)),
                }
            } else if space.is_of_launch(var) {
                rest = rest.plus(&variable(var).times(weight));
            } else {
                return None;
            }
        }
        let mut digits: Vec<Digit> = vec![];
        for (at, part, weight) in weights {
            match digits.iter_mut().find(|digit| (digit.at, digit.part) == (at, part)) {
                Some(digit) => digit.weight += weight,
                None => {
                    let split = splits.iter().find(|split| split.at == at);
                    let count = count(space, coordinates[at], part, split);
                    let counts = space.get(coordinates[at]).role == Role::Counter;
                    digits.push(Digit { at, part, weight, count, counts });
                }
            }
        }
        // The only iteration of a loop has the number 0.
        let is_still = |digit: &Digit| {
            let most = found.turns.get(&coordinates[digit.at]);
            digit.part == Part::Whole && digit.counts && most.is_some_and(|&most| most <= 1)
        };
        digits.retain(|digit| digit.weight != 0 && !is_still(digit));
        let sign = if digits.iter().all(|digit| digit.weight < 0) { -1 } else { 1 };
        digits.iter_mut().for_each(|digit| digit.weight *= sign);
        digits.sort_by_key(|digit| (digit.weight, !digit.counts));
        Some(Digits { digits, sign, rest })
    }

    /// States the digits of an element, which every integer has, and adds them to the values of the coordinates. Returns the
    /// element in digits.
    fn place(
        &self,
        builder: &mut Builder<'_>,
        index: &Linear,
        element: &Linear,
        values: &mut [Vec<(Part, Linear)>],
    ) -> Option<Linear> {
        if index.terms().is_empty() {
            return Some(element.clone());
        }
        // From the least weight on; `reached` is the number of values of the digits so far, if they are limited.
        let (mut sum, mut reached) = (number(0), Some(1i128));
        let mut digit = |builder: &mut Builder<'_>, weight: i128, count: Option<i128>| {
            let digit = builder.integer("digit");
            if let Some(count) = count {
                builder.fact(and([at_most(&number(0), &digit), less(&digit, &number(count))]));
            }
            sum = sum.plus(&digit.times(weight));
            digit
        };
        for (i, own) in self.digits.iter().enumerate() {
            let below = reached?;
            if own.weight % below != 0 || own.weight < below {
                return None;
            }
            if own.weight > below {
                digit(builder, below, Some(own.weight / below));
            }
            let most = match self.digits.get(i + 1) {
                Some(next) if next.weight % own.weight == 0 => Some(next.weight / own.weight),
                Some(_) => return None,
                None => None,
            };
            if values[own.at].iter().any(|(part, _)| *part == own.part) {
                return None;
            }
            // Another digit has the same weight: this one is left to be 0, such as the number of the only iteration.
            if most == Some(1) && own.counts {
                values[own.at].push((own.part, number(0)));
                continue;
            }
            let count = match (own.count, most) {
                (Some(count), Some(most)) if most % count == 0 => Some(count),
                (_, Some(most)) => Some(most),
                (count, None) => count,
            };
            if count == Some(1) && most == Some(1) {
                return None;
            }
            let value = digit(builder, own.weight, count);
            values[own.at].push((own.part, value));
            reached = count.map(|count| count * own.weight);
        }
        if let Some(reached) = reached {
            digit(builder, reached, None);
        }
        let rest = builder.form(&self.rest, 0);
        let sum = rest.plus(&sum.times(self.sign));
        builder.fact(equal(element, &sum));
        Some(sum)
    }
}

/// Returns how many values a part of a coordinate has, if that is a number.
fn count(space: &Variables, var: Var, part: Part, split: Option<&Split>) -> Option<i128> {
    let (low, high) = (space.get(var).low, space.get(var).high);
    // Larger bounds are those of dimensions, which blocks are cut from.
    let whole = (low == 0 && high < MAX_COUNT).then_some(high + 1);
    let by = split.and_then(|split| constant(&split.by));
    match part {
        Part::Whole => whole,
        Part::Quotient => Some((whole? - 1) / by? + 1),
        Part::Rest => by,
    }
}

/// Returns the value of a coordinate with these digits; parts that no index has are 0.
fn value(builder: &mut Builder<'_>, parts: &[(Part, Linear)], split: Option<&Split>) -> Linear {
    let part = |wanted: Part| {
        parts.iter().find(|(part, _)| *part == wanted).map_or_else(|| number(0), |(_, digit)| digit.clone())
    };
    let Some(split) = split else { return part(Part::Whole) };
    let (quotient, rest) = (part(Part::Quotient), part(Part::Rest));
    let product = match (constant(&split.by), single(&quotient)) {
        (Some(by), _) => quotient.times(by),
        (None, Some(quotient)) => builder.times(quotient, &split.by),
        (None, None) => number(0),
    };
    product.plus(&rest)
}

/// Returns whether the coordinates and unknown numbers determine all that a write depends on.
fn is_settled(space: &Variables, coordinates: &[Var], sure: &[Step], indices: &[Linear]) -> bool {
    let mut left: Vec<Var> = vec![];
    for step in sure {
        let (Step::If(condition) | Step::Assert(condition)) = step;
        each_var(condition, &mut |var| left.push(var));
    }
    left.extend(indices.iter().flat_map(Linear::terms).map(|&(var, _)| var));
    let mut seen: FxHashSet<Var> = FxHashSet::default();
    while let Some(var) = left.pop() {
        if coordinates.contains(&var) || !seen.insert(var) {
            continue;
        }
        let known = space.get(var);
        match &known.role {
            Role::Counter => return false,
            Role::Derived(on) => {
                if !known.total {
                    return false;
                }
                left.extend(on);
            }
            Role::Launch | Role::Block | Role::Thread | Role::Unknown(..) => {}
        }
        known.facts.iter().for_each(|fact| each_var(fact, &mut |var| left.push(var)));
    }
    true
}

//! Write coverage: whether every element of an array is written, shown by constructing the thread that writes it.
//!
//! Input: the writes of a footprint. Output: alternative obligations; proving one of them shows that all elements are
//! written. For example, if the index is `thread + 128 * block`, then element `i` is written by thread `i % 128` of
//! block `i / 128`. In general, the indices of a write are mixed-radix numbers whose digits are thread coordinates and
//! loop iterations. Every integer has such digits, so the index of an element defines the coordinates of a thread. The
//! obligation states that this thread writes the element. A digit may also be only a part of a coordinate: its quotient
//! or remainder by some divisor ([`DigitPart`]). An index that is a remainder is replaced by its dividend. If several
//! indices use the quotient and remainder of the same sum, such as `thread + 96 * iteration`, a [`MixedRadixNumber`]
//! first replaces the sum.

use std::borrow::Cow;

use rustc_hash::{FxHashMap, FxHashSet};

use super::def::*;
use super::flat_index::{FlatIndex, Stride};
use super::formula::*;
use super::proof_obligation::{ObligationBuilder, ProofObligation, READER, SharedContext};
use super::property_obligations::coordinates;
use super::vars::{VarRole, VarSpace as Variables};
use crate::def::*;
use clk_base::linear::{AffineForm, Atom, Formula, Var};
use clk_base::source::Span;

/// The maximum number of writes for whose indices an obligation is built.
const MAX_FORMS: usize = 6;
/// A coordinate with more possible values than this is a digit without a known range. Thread indices in a block have
/// fewer.
const MAX_COUNT: i128 = 1 << 12;

/// Returns alternative obligations that every element is written, for each leaf (scalar or vector field) of the
/// selected arrays. Proving one of them suffices. The list is empty if no obligation can be stated.
pub fn coverage_obligations(
    function: &Function,
    launch: &SymbolicLaunch,
    footprint: &Footprint,
    which: impl Fn(Access) -> bool,
) -> Vec<(MemId, Vec<ProofObligation>)> {
    let mut all = vec![];
    for (id, memory) in function.memories.iter() {
        if !matches!(memory.space, MemorySpace::Global { access, .. } if which(access)) {
            continue;
        }
        for leaf in 0..memory.layout.leaves.len() as u32 {
            all.push((id, leaf_obligations(function, launch, footprint, id, leaf)));
        }
    }
    all
}

fn leaf_obligations(
    function: &Function,
    launch: &SymbolicLaunch,
    footprint: &Footprint,
    id: MemId,
    leaf: u32,
) -> Vec<ProofObligation> {
    let is_write = |access: &&FootprintAccess| {
        access.memory == id
            && access.leaf == leaf
            && access.kind == FootprintAccessKind::Store
            && access.component.is_none()
    };
    let writes: Vec<&FootprintAccess> =
        footprint.accesses.iter().filter(is_write).filter(|access| access.certain_path.is_some()).collect();
    let mut forms: Vec<&FootprintAccess> = vec![];
    for access in &writes {
        if forms.len() < MAX_FORMS && forms.iter().all(|known| known.indices != access.indices) {
            forms.push(access);
        }
    }
    let description = format!("an element of `{}` is not written", function.memories[id].name);
    let coordinate_vars = coordinates(launch).filter_map(single).collect::<Vec<Var>>();
    let of_form = |form: &FootprintAccess| {
        let cover = Cover { form, writes: writes.clone(), earlier: None };
        missed_element_obligation(&coordinate_vars, footprint, &[cover], None, &FxHashSet::default(), &description)
    };
    forms.into_iter().filter_map(of_form).collect()
}

/// A read of a shared array, with alternative obligations that the element is written before.
pub struct InitializedRead {
    pub span: Span,
    pub obligations: Vec<ProofObligation>,
}

/// For each read of a race-free shared array, returns a list of alternative obligations. Proving one of them shows that
/// the element is written before this read. Each states that a thread of the block writes the element in an earlier
/// statement and, if a loop contains both statements, not in a later iteration; or in an earlier iteration of a loop
/// that contains both. Without races, a barrier or program order separates the write and the read; because all threads
/// reach the same barriers, the earlier statement then executes first.
pub fn initialized_read_obligations(
    function: &Function,
    launch: &SymbolicLaunch,
    footprint: &Footprint,
    id: MemId,
) -> Option<Vec<InitializedRead>> {
    let coordinate_vars: Vec<Var> = launch.grid.as_ref()?.thread.iter().filter_map(single).collect();
    let description = format!("an element of `{}` is read that is not written", function.memories[id].name);
    let accesses: Vec<&FootprintAccess> = footprint.accesses.iter().filter(|access| access.memory == id).collect();
    let mut reads = vec![];
    for (at, read) in accesses.iter().enumerate() {
        if read.kind == FootprintAccessKind::Store {
            continue;
        }
        let fills = |write: &&&FootprintAccess| {
            write.kind == FootprintAccessKind::Store
                && write.certain_path.is_some()
                && write.leaf == read.leaf
                && (write.component.is_none() || write.component == read.component)
        };
        let before: Vec<&FootprintAccess> = accesses[..at].iter().filter(fills).copied().collect();
        let common = |write: &FootprintAccess| {
            read.counters.iter().zip(&write.counters).take_while(|(x, y)| x == y).map(|(x, _)| *x).collect::<Vec<_>>()
        };
        // A loop may also write the element in an earlier iteration, by a statement after the read.
        let earlier = accesses[at + 1..].iter().filter(fills).filter_map(|write| Some((*write, common(write).pop()?)));
        let ask = |covers: &[Cover<'_>], shared: &FxHashSet<Var>| {
            missed_element_obligation(&coordinate_vars, footprint, covers, Some(read), shared, &description)
        };
        let none = FxHashSet::default();
        let own = |form: &&FootprintAccess| {
            let cover = Cover { form, writes: before.clone(), earlier: None };
            ask(&[cover], &none)
        };
        let mut obligations: Vec<ProofObligation> = vec![];
        obligations.extend(own_element_obligation(footprint, &before, read, &description));
        obligations.extend(before.iter().take(MAX_FORMS).filter_map(own));
        let earlier: Vec<(&FootprintAccess, Var)> = earlier.collect();
        let shared: FxHashSet<Var> =
            before.iter().chain(earlier.iter().map(|(write, _)| write)).flat_map(|write| common(write)).collect();
        let mut covers: Vec<Cover<'_>> = vec![];
        for &write in &before {
            match covers.iter_mut().find(|cover| cover.form.indices == write.indices) {
                Some(cover) => cover.writes.push(write),
                None => covers.push(Cover { form: write, writes: vec![write], earlier: None }),
            }
        }
        covers.extend(earlier.iter().map(|&(write, counter)| Cover {
            form: write,
            writes: vec![write],
            earlier: Some(counter),
        }));
        covers.truncate(MAX_FORMS);
        // Each write by a thread of its own. Without a common loop, one write alone is what the obligations above
        // state.
        if covers.len() > 1 || !shared.is_empty() {
            obligations.extend(ask(&covers, &shared));
        }
        reads.push(InitializedRead { span: read.span, obligations });
    }
    Some(reads)
}

/// Returns the obligation that the reading thread itself has written the element, in the same iterations of all loops
/// that contain the write. `None` if no write is certain to be followed by the read.
fn own_element_obligation(
    footprint: &Footprint,
    before: &[&FootprintAccess],
    read: &FootprintAccess,
    description: &str,
) -> Option<ProofObligation> {
    let mut builder = ObligationBuilder::new(&footprint.variables, SharedContext::default());
    let mut written = vec![];
    for write in before.iter().filter(|write| read.counters.starts_with(&write.counters)).take(MAX_FORMS) {
        let certain_path = write.certain_path.as_ref()?;
        let indices = write.indices.iter().zip(&read.indices);
        let same_element = and(indices.map(|(x, y)| equal(&builder.form(x, 0), &builder.form(y, 0))));
        let path: Vec<PathStep> =
            certain_path.iter().map(|step| step.renamed(&mut |formula| builder.formula(formula, 0))).collect();
        written.push(path_formula(&path, same_element));
    }
    if written.is_empty() {
        return None;
    }
    builder.path(&read.path, 0);
    builder.fact(not(&or(written)));
    Some(builder.question(description.to_string(), read.span))
}

/// Writes by one thread that together may write an element.
struct Cover<'a> {
    /// The write whose indices define the digits of the thread's coordinates.
    form: &'a FootprintAccess,
    writes: Vec<&'a FootprintAccess>,
    /// The counter of the loop in whose previous iteration the thread writes, compared to the read.
    earlier: Option<Var>,
}

/// Returns the obligation that every element is written by one of several threads. Each has the digits of the element's
/// indices as coordinates, as the form of its [`Cover`] defines them. If `read` is set, the obligation is only about
/// the element that this access reads, and the writes are in the same iterations of the loops with the counters
/// `shared`.
fn missed_element_obligation(
    own: &[Var],
    footprint: &Footprint,
    covers: &[Cover<'_>],
    read: Option<&FootprintAccess>,
    shared: &FxHashSet<Var>,
    description: &str,
) -> Option<ProofObligation> {
    let first = covers.first()?;
    let mut space = Cow::Borrowed(&footprint.variables);
    let mut numbered = vec![];
    for cover in covers {
        let mut coordinates: Vec<Var> = own.to_vec();
        for &counter in cover.writes.iter().flat_map(|access| &access.counters) {
            if !coordinates.contains(&counter) && !shared.contains(&counter) {
                coordinates.push(counter);
            }
        }
        let joints = MixedRadixNumber::find_all(&mut space, &coordinates, &cover.form.indices);
        numbered.push((cover, coordinates, joints));
    }
    let space = &*space;
    // The reader is side 1. Variables that all threads share belong to side 0.
    let side_of = |at: usize| if read.is_some() { at as u8 + 2 } else { 0 };
    let unshared = covers.iter().enumerate().filter_map(|(at, cover)| Some((side_of(at), cover.earlier?))).collect();
    let context = SharedContext { block: read.is_some(), counters: shared.clone(), unshared };
    let mut builder = ObligationBuilder::free(space, context);
    builder.placed = numbered.iter().flat_map(|(_, coordinates, _)| coordinates.iter().copied()).collect();
    builder.placed.extend(covers.iter().filter_map(|cover| cover.earlier));
    let mut elements = vec![];
    for (axis, extent) in first.form.extents.iter().enumerate() {
        let element = builder.natural(&format!("element {axis}"));
        let extent = builder.form(extent, 0);
        builder.fact(less(&element, &extent));
        if let Some(read) = read {
            let index = builder.form(read.indices.get(axis)?, READER);
            builder.fact(equal(&element, &index));
        }
        elements.push(element);
    }
    if let Some(read) = read {
        builder.path(&read.path, READER);
    }
    let mut covered = vec![];
    for (at, (cover, coordinates, joints)) in numbered.iter().enumerate() {
        let side = side_of(at);
        let mut writer = Writer { space, footprint, side, read, cover, coordinates, joints };
        // If only one write has usable indices, it may suffice.
        match writer.covers(&mut builder, &elements) {
            Some(holds) => covered.push(holds),
            None if covers.len() == 1 => return None,
            None => {}
        }
    }
    if covered.is_empty() {
        return None;
    }
    builder.fact(not(&or(covered)));
    let question = builder.question(description.to_string(), read.map_or(first.form.span, |read| read.span));
    (!question.problem.facts.is_empty()).then_some(question)
}

/// The thread that may write an element, with the coordinates that follow from the element's indices.
struct Writer<'a> {
    space: &'a Variables,
    footprint: &'a Footprint,
    side: u8,
    read: Option<&'a FootprintAccess>,
    cover: &'a Cover<'a>,
    /// The thread's coordinates, then loop counters.
    coordinates: &'a [Var],
    joints: &'a [MixedRadixNumber],
}

impl Writer<'_> {
    /// Returns the condition under which the thread exists and writes the element; `None` if the thread is not
    /// determined by the indices.
    fn covers(&mut self, builder: &mut ObligationBuilder<'_>, elements: &[AffineForm]) -> Option<Formula> {
        let (space, side, form, joints) = (self.space, self.side, self.cover.form, self.joints);
        let placed = self.coordinates.len();
        // One variable for each [`MixedRadixNumber`] follows the coordinates.
        let mut coordinates = self.coordinates.to_vec();
        coordinates.extend(joints.iter().map(|joint| joint.var));
        let mut goal = vec![];
        if let (Some(counter), Some(_)) = (self.cover.earlier, self.read) {
            let (own, of_read) = (builder.form(&variable(counter), side), builder.form(&variable(counter), READER));
            builder.fact(equal(&own, &of_read.minus(&number(1))));
        }
        let mut positions: Vec<(AffineForm, AffineForm)> = vec![];
        for (index, element) in form.indices.iter().zip(elements) {
            let index = joints.iter().fold(index.clone(), |index, joint| joint.substitute(&index));
            positions.push(self.position(builder, &index, element, &mut goal));
        }
        // The index of a flat array is split into row and column first. Then row and column are split into digits.
        let flat = positions
            .iter()
            .map(|(index, _)| FlatIndex::split(space, self.footprint, index))
            .collect::<Option<Vec<_>>>()?;
        let parts = positions.iter().zip(&flat).map(|((_, position), flat)| self.split_rows(builder, flat, position));
        let parts: Vec<Vec<(AffineForm, AffineForm)>> = parts.collect();
        let splits = find_splits(space, &coordinates, joints, parts.iter().flatten().map(|(index, _)| index))?;
        let mut values: Vec<Vec<(DigitPart, AffineForm)>> = vec![vec![]; coordinates.len()];
        // Pairs of a position and the sum of its weighted digits.
        let mut known_sums: Vec<(AffineForm, AffineForm)> = vec![];
        for (index, position) in parts.iter().flatten() {
            let digits = self.decompose(builder, &coordinates, &splits, index)?;
            let sum = digits.place_digits(builder, side, index, position, &mut values)?;
            known_sums.push((position.clone(), sum));
        }
        let sum =
            |element: &AffineForm| known_sums.iter().find(|(position, _)| position == element).map(|(_, sum)| sum);
        let sums: Vec<AffineForm> = elements.iter().map(|element| sum(element).unwrap_or(element).clone()).collect();
        let split = |at: usize| splits.iter().find(|split| split.at == at);
        for (at, joint) in (placed..).zip(joints) {
            let number = coordinate_value(builder, &values[at], split(at));
            let digits = self.decompose(builder, &coordinates[..placed], &splits, &joint.form)?;
            digits.place_digits(builder, side, &joint.form, &number, &mut values)?;
        }
        coordinates.truncate(placed);
        let mut coordinate_values: FxHashMap<Var, AffineForm> = FxHashMap::default();
        let mut counter_limits: Vec<(Var, Formula)> = vec![];
        for (at, &var) in coordinates.iter().enumerate() {
            let value = match values[at].is_empty() {
                true => self.value_in_guard(builder, var).unwrap_or_else(|| number(0)),
                false => coordinate_value(builder, &values[at], split(at)),
            };
            let own = builder.form(&variable(var), side);
            builder.fact(equal(&own, &value));
            let limits = builder.limits(var, side);
            match space.get(var).role {
                VarRole::Counter => counter_limits.push((var, limits)),
                _ => goal.push(limits),
            }
            // If a loop contains both the write and the read, the write must not be in a later iteration than the read.
            if self.read.is_some_and(|read| read.counters.contains(&var)) {
                let reads = builder.form(&variable(var), READER);
                goal.push(at_most(&value, &reads));
            }
            coordinate_values.insert(var, value);
        }
        if let Some(counter) = self.cover.earlier {
            counter_limits.push((counter, builder.limits(counter, side)));
        }
        let mut alternatives = vec![];
        for access in &self.cover.writes {
            let Some(certain_path) = &access.certain_path else { continue };
            if !self.is_determined(builder, access, certain_path) {
                continue;
            }
            let mut value =
                |var: Var| coordinate_values.get(&var).cloned().unwrap_or_else(|| builder.form(&variable(var), side));
            let own_limits = counter_limits.iter().filter(|(counter, _)| access.counters.contains(counter));
            let mut stores_element: Vec<Formula> = own_limits.map(|(_, limits)| limits.clone()).collect();
            for (axis, (index, sum)) in access.indices.iter().zip(&sums).enumerate() {
                let is_split = parts[axis].len() > 1 && positions[axis].1 == elements[axis];
                let offset = index.minus(&form.indices[axis]);
                match is_split.then(|| flat[axis].split_constant(space, &offset)).flatten() {
                    // The rows and the columns of the index and of the element are compared separately, so that the
                    // products of coordinates and row lengths do not matter.
                    Some(offsets) => {
                        for ((part, position), offset) in parts[axis].iter().zip(&offsets) {
                            stores_element.push(equal(&substitute(&part.plus(offset), &mut value), position));
                        }
                    }
                    None => stores_element.push(equal(&substitute(index, &mut value), sum)),
                }
            }
            let stores_element = and(stores_element);
            let path: Vec<PathStep> =
                certain_path.iter().map(|step| step.renamed(&mut |formula| builder.formula(formula, side))).collect();
            alternatives.push(path_formula(&path, stores_element));
        }
        goal.push(or(alternatives));
        Some(and(goal))
    }
}

impl Writer<'_> {
    /// Returns whether a variable is equal for the writing thread and all threads that may write the element: it is
    /// determined by the launch or, if the read is known, by the block and the iterations that are given.
    fn is_given(&self, builder: &mut ObligationBuilder<'_>, var: Var) -> bool {
        if self.space.is_launch_constant(var) || self.cover.earlier == Some(var) {
            return true;
        }
        if self.read.is_none() {
            return false;
        }
        if builder.is_shared(var, self.side) {
            return true;
        }
        let known = self.space.get(var);
        match &known.role {
            VarRole::Derived(on) => known.is_total && on.iter().all(|&on| self.is_given(builder, on)),
            _ => false,
        }
    }

    /// Returns the value of a coordinate that the indices do not determine, if a guard of the write compares it with a
    /// value that is given. For example, thread 127 makes the write in `if t == 127 { s[129] = a }`.
    fn value_in_guard(&self, builder: &mut ObligationBuilder<'_>, var: Var) -> Option<AffineForm> {
        let mut pending: Vec<&Formula> = vec![];
        for step in self.cover.writes.iter().filter_map(|write| write.certain_path.as_ref()).flatten() {
            pending.extend(if let PathStep::If(condition) = step { Some(condition) } else { None });
        }
        while let Some(condition) = pending.pop() {
            match condition {
                Formula::And(parts) => pending.extend(parts),
                Formula::Atom(Atom::Zero(form)) if form.coefficient(&var).abs() == 1 => {
                    let factor = form.coefficient(&var);
                    let rest = form.minus(&variable(var).times(factor));
                    if rest.terms().iter().all(|&(other, _)| self.is_given(builder, other)) {
                        return Some(builder.form(&rest, self.side).times(-factor));
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Returns a pair (index, position). The write is to `element` along this axis if the index equals the position.
    /// Usually, the pair consists of the arguments `index` and `element`. If the index is read from a permutation, the
    /// pair is the index into the permutation and the position at which the permutation contains `element`. Such a
    /// position exists if the conditions added to `goal` hold.
    fn position(
        &self,
        builder: &mut ObligationBuilder<'_>,
        index: &AffineForm,
        element: &AffineForm,
        goal: &mut Vec<Formula>,
    ) -> (AffineForm, AffineForm) {
        let (mut index, mut element) = (index.clone(), element.clone());
        while let Some((place, count)) = self.space.permutation_operands(&index) {
            let (read, count) = (builder.form(&index, self.side), builder.form(&count, self.side));
            let position = builder.natural("position");
            let is_element = and([equal(&read, &element), less(&position, &count)]);
            builder.fact(or([is_element, at_most(&count, &element)]));
            goal.push(less(&element, &count));
            (index, element) = (place, position);
        }
        // Remainders of single coordinates are handled by [`SplitCoordinate`].
        let remainder = self.space.remainder(&index).filter(|(dividend, _)| single(dividend).is_none());
        let remainder =
            remainder.filter(|(dividend, _)| dividend.terms().iter().any(|&(var, _)| !self.is_given(builder, var)));
        match remainder.and_then(|(dividend, by)| self.undo_remainder(builder, &element, &dividend, &by)) {
            Some(dividend_position) => dividend_position,
            None => (index, element),
        }
    }

    /// For an index `dividend % by`, returns the dividend and the value that it must have so that the write is to
    /// `element`. This value is congruent to `element` modulo `by`, and its thread-dependent part is in `0..by`.
    /// Exactly one such value exists if `by` is positive.
    fn undo_remainder(
        &self,
        builder: &mut ObligationBuilder<'_>,
        element: &AffineForm,
        dividend: &AffineForm,
        by: &AffineForm,
    ) -> Option<(AffineForm, AffineForm)> {
        let multiple = builder.integer("turns");
        let all = match constant(by) {
            Some(n) => multiple.times(n),
            None => builder.times(single(&multiple)?, by),
        };
        let divisor = builder.form(by, self.side);
        let position = element.plus(&all);
        let part = self.thread_part(builder, dividend, &position);
        let within = and([at_most(&number(0), &part), less(&part, &divisor)]);
        builder.fact(or([within, at_most(&divisor, &number(0))]));
        Some((dividend.clone(), position))
    }

    /// Returns the thread-dependent part of a position: the position minus the index's terms that are given. It is
    /// negated if all coefficients of the index's thread-dependent terms are negative, so that it grows with the
    /// coordinates.
    fn thread_part(
        &self,
        builder: &mut ObligationBuilder<'_>,
        index: &AffineForm,
        position: &AffineForm,
    ) -> AffineForm {
        let own: Vec<(Var, i128)> =
            index.terms().iter().copied().filter(|&(var, _)| !self.is_given(builder, var)).collect();
        let sign = if own.iter().all(|(_, weight)| *weight < 0) { -1 } else { 1 };
        let own = own.iter().fold(number(0), |sum, &(var, weight)| sum.plus(&variable(var).times(weight)));
        let rest = builder.form(&index.minus(&own), self.side);
        position.minus(&rest).times(sign)
    }

    /// Splits an index of a flat array at its strides: splits `r * W + c` into `c` and `r`, each with the corresponding
    /// part of the position. Every position can be split in this way if the strides are positive. The position equals
    /// the index if each part of the position equals the corresponding part of the index.
    fn split_rows(
        &self,
        builder: &mut ObligationBuilder<'_>,
        flat: &FlatIndex,
        position: &AffineForm,
    ) -> Vec<(AffineForm, AffineForm)> {
        let (mut parts, mut position) = (vec![], position.clone());
        for (column, stride) in &flat.splits {
            let at = builder.integer("row");
            let within = position.minus(&stride_multiple(builder, &at, stride));
            let part = self.thread_part(builder, column, &within);
            let length = stride_multiple(builder, &number(1), stride);
            let holds = and([at_most(&number(0), &part), less(&part, &length)]);
            builder.fact(or([holds, at_most(&length, &number(0))]));
            parts.push((column.clone(), within));
            position = at;
        }
        parts.push((flat.top.clone(), position));
        parts
    }

    fn decompose(
        &self,
        builder: &mut ObligationBuilder<'_>,
        coordinates: &[Var],
        splits: &[SplitCoordinate],
        index: &AffineForm,
    ) -> Option<Digits> {
        let (footprint, space) = (self.footprint, self.space);
        Digits::decompose(footprint, space, coordinates, splits, index, &mut |var| self.is_given(builder, var))
    }

    /// Returns whether the coordinates determine all values on which a write depends, apart from unknown values.
    fn is_determined(
        &self,
        builder: &mut ObligationBuilder<'_>,
        access: &FootprintAccess,
        certain_path: &[PathStep],
    ) -> bool {
        let mut pending: Vec<Var> = vec![];
        for step in certain_path {
            let (PathStep::If(condition) | PathStep::Assert(condition)) = step;
            each_var(condition, &mut |var| pending.push(var));
        }
        pending.extend(access.indices.iter().flat_map(AffineForm::terms).map(|&(var, _)| var));
        let mut visited: FxHashSet<Var> = FxHashSet::default();
        while let Some(var) = pending.pop() {
            if !visited.insert(var) || self.is_given(builder, var) {
                continue;
            }
            let var_def = self.space.get(var);
            if self.coordinates.contains(&var) {
                // The counter of a finished loop is the iteration in which the thread left it, not any iteration.
                if var_def.role == VarRole::Counter && !access.counters.contains(&var) {
                    return false;
                }
                continue;
            }
            match &var_def.role {
                VarRole::Counter => return false,
                VarRole::Derived(on) => {
                    if !var_def.is_total {
                        return false;
                    }
                    pending.extend(on);
                }
                VarRole::Launch | VarRole::Block | VarRole::Thread | VarRole::Unknown(..) => {}
            }
            var_def.facts.iter().for_each(|fact| each_var(fact, &mut |var| pending.push(var)));
        }
        true
    }
}

/// Returns `stride` times `count`, which is 1 or a variable of the problem.
fn stride_multiple(builder: &mut ObligationBuilder<'_>, count: &AffineForm, stride: &Stride) -> AffineForm {
    let product = stride.lengths.iter().fold(count.clone(), |product, &length| match single(&product) {
        Some(product) => builder.times(product, &variable(length)),
        None => builder.form(&variable(length), 0),
    });
    product.times(stride.factor)
}

/// A sum of several weighted coordinates whose quotient and remainder occur in indices, such as `t + 96 * k` in the
/// index `(t + 96 * k) / 64`.
struct MixedRadixNumber {
    var: Var,
    form: AffineForm,
    quotient: Var,
}

impl MixedRadixNumber {
    /// Finds sums of several coordinates whose quotients occur in the indices, and introduces a variable for each sum.
    fn find_all(space: &mut Cow<'_, Variables>, coordinates: &[Var], indices: &[AffineForm]) -> Vec<MixedRadixNumber> {
        let mut numbers: Vec<MixedRadixNumber> = vec![];
        for index in indices {
            if space.remainder(index).is_some() {
                continue;
            }
            for &(var, _) in index.terms() {
                let Some((quotient, (form, _))) = space.find_quotient(var) else { continue };
                let is_own = |var: Var| {
                    let whole = space.divided(var).and_then(|(whole, _)| single(whole)).unwrap_or(var);
                    coordinates.contains(&whole)
                };
                let coordinate_count = form.terms().iter().filter(|(var, _)| is_own(*var)).count();
                if coordinate_count < 2 || numbers.iter().any(|joint| joint.quotient == quotient) {
                    continue;
                }
                let form = form.clone();
                let var = space.to_mut().name(&form);
                numbers.push(MixedRadixNumber { var, form, quotient });
            }
        }
        numbers
    }

    /// Replaces the sum by its variable if the index contains a multiple of the sum.
    fn substitute(&self, index: &AffineForm) -> AffineForm {
        let weights = self.form.terms().iter().map(|&(var, weight)| (index.coefficient(&var), weight));
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

/// A coordinate `c` for which indices contain the quotient `c / by` and the remainder `c % by`. `by` is a number or a
/// dimension.
struct SplitCoordinate {
    /// The position of the coordinate in the list of coordinates.
    at: usize,
    quotient: Var,
    by: AffineForm,
    /// The variable of `quotient * by`, if `by` is a dimension.
    product: Option<Var>,
}

/// Returns the split coordinates; `None` if one of them is divided by two different divisors.
fn find_splits<'a>(
    space: &Variables,
    coordinates: &[Var],
    joints: &[MixedRadixNumber],
    indices: impl Iterator<Item = &'a AffineForm>,
) -> Option<Vec<SplitCoordinate>> {
    let mut splits: Vec<SplitCoordinate> = vec![];
    for &(quotient, _) in indices.flat_map(AffineForm::terms) {
        let Some((a, by)) = space.divided(quotient) else { continue };
        let whole = joints.iter().find(|joint| joint.quotient == quotient).map(|joint| joint.var).or_else(|| single(a));
        let Some(at) = whole.and_then(|var| coordinates.iter().position(|known| *known == var)) else { continue };
        if splits.iter().any(|split| split.quotient == quotient) {
            continue;
        }
        if splits.iter().any(|split| split.at == at) {
            return None;
        }
        let product = match (constant(by), single(by)) {
            (Some(n), _) if n > 1 => None,
            (None, Some(by)) if space.is_launch_constant(by) => Some(space.known_product(quotient, by)?),
            _ => return None,
        };
        splits.push(SplitCoordinate { at, quotient, by: by.clone(), product });
    }
    Some(splits)
}

/// The part of a coordinate `c` that is a digit of an index: `c` itself, or the quotient `c / by` or remainder `c % by`
/// of a [`SplitCoordinate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DigitPart {
    Whole,
    Quotient,
    Rest,
}

/// A digit of an index that is a mixed-radix number ([`Digits`]). The digit's value is a part of the coordinate at
/// position `at` in the list of coordinates. `weight` is the digit's factor in the index, and `count` is the number of
/// its possible values, if known.
struct Digit {
    at: usize,
    part: DigitPart,
    weight: i128,
    count: Option<i128>,
    /// Whether the coordinate is a loop counter.
    counts: bool,
}

/// An index as a mixed-radix number: `rest + sign * (weight * digit + …)`, with a term for each digit.
struct Digits {
    digits: Vec<Digit>,
    /// -1 if the coefficients of all digits in the index are negative, otherwise 1. The stored weights are multiplied
    /// by this sign.
    sign: i128,
    /// The terms of the index that are equal for all threads that may write the element.
    rest: AffineForm,
}

impl Digits {
    fn decompose(
        footprint: &Footprint,
        space: &Variables,
        coordinates: &[Var],
        splits: &[SplitCoordinate],
        index: &AffineForm,
        is_given: &mut dyn FnMut(Var) -> bool,
    ) -> Option<Digits> {
        let mut weights: Vec<(usize, DigitPart, i128)> = vec![];
        let mut rest = number(index.constant());
        for &(var, weight) in index.terms() {
            let split_by = |split: &&SplitCoordinate| split.quotient == var || split.product == Some(var);
            if let Some(at) = coordinates.iter().position(|known| *known == var) {
                match splits.iter().find(|split| split.at == at) {
                    None => weights.push((at, DigitPart::Whole, weight)),
                    Some(split) => {
                        weights.push((at, DigitPart::Rest, weight));
                        match constant(&split.by) {
                            Some(by) => weights.push((at, DigitPart::Quotient, weight.checked_mul(by)?)),
                            // `coordinate - quotient * by` is the remainder, so the coefficient of the product must be
                            // the negated coefficient of the coordinate.
                            None if index.coefficient(&split.product?) == -weight => {}
                            None => return None,
                        }
                    }
                }
            } else if let Some(split) = splits.iter().find(split_by) {
                match split.product == Some(var) {
                    true if index.coefficient(&coordinates[split.at]) == -weight => {}
                    true => return None,
                    false => weights.push((split.at, DigitPart::Quotient, weight)),
                }
            } else if is_given(var) {
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
                    let count = digit_count(space, coordinates[at], part, split);
                    let counts = space.get(coordinates[at]).role == VarRole::Counter;
                    digits.push(Digit { at, part, weight, count, counts });
                }
            }
        }
        // The counter of a loop with at most one iteration is always 0, so it is not a digit.
        let is_still = |digit: &Digit| {
            let most = footprint.max_iterations.get(&coordinates[digit.at]);
            digit.part == DigitPart::Whole && digit.counts && most.is_some_and(|&most| most <= 1)
        };
        digits.retain(|digit| digit.weight != 0 && !is_still(digit));
        let sign = if digits.iter().all(|digit| digit.weight < 0) { -1 } else { 1 };
        digits.iter_mut().for_each(|digit| digit.weight *= sign);
        digits.sort_by_key(|digit| (digit.weight, !digit.counts));
        Some(Digits { digits, sign, rest })
    }

    /// Adds variables for the digits with which this index equals `element`, and the fact that their weighted sum
    /// equals `element`. Records each digit in `values` as a part of its coordinate. Returns the weighted sum.
    fn place_digits(
        &self,
        builder: &mut ObligationBuilder<'_>,
        side: u8,
        index: &AffineForm,
        element: &AffineForm,
        values: &mut [Vec<(DigitPart, AffineForm)>],
    ) -> Option<AffineForm> {
        if index.terms().is_empty() {
            return Some(element.clone());
        }
        // Digits are added in ascending order of weight. `reached` is the number of different values that the digits
        // added so far can represent; `None` if it is unbounded.
        let (mut sum, mut reached) = (number(0), Some(1i128));
        let mut digit = |builder: &mut ObligationBuilder<'_>, weight: i128, count: Option<i128>| {
            let digit = builder.integer("digit");
            if let Some(digit_count) = count {
                builder.fact(and([at_most(&number(0), &digit), less(&digit, &number(digit_count))]));
            }
            sum = sum.plus(&digit.times(weight));
            digit
        };
        for (i, own) in self.digits.iter().enumerate() {
            let value_count = reached?;
            if own.weight % value_count != 0 || own.weight < value_count {
                return None;
            }
            if own.weight > value_count {
                digit(builder, value_count, Some(own.weight / value_count));
            }
            let most = match self.digits.get(i + 1) {
                Some(next) if next.weight % own.weight == 0 => Some(next.weight / own.weight),
                Some(_) => return None,
                None => None,
            };
            if values[own.at].iter().any(|(part, _)| *part == own.part) {
                return None;
            }
            // The next digit has the same weight and can represent the same values, so this loop counter is set to 0.
            // For example, the loop may have only one iteration.
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
        let rest = builder.form(&self.rest, side);
        let sum = rest.plus(&sum.times(self.sign));
        builder.fact(equal(element, &sum));
        Some(sum)
    }
}

/// Returns the number of possible values of a digit that is this part of the coordinate `var`. `None` if the number is
/// not a known constant.
fn digit_count(space: &Variables, var: Var, part: DigitPart, split: Option<&SplitCoordinate>) -> Option<i128> {
    let (low, high) = (space.get(var).low, space.get(var).high);
    // A larger bound comes from the general limit on dimensions, not from a known block size.
    let whole = (low == 0 && high < MAX_COUNT).then_some(high + 1);
    let by = split.and_then(|split| constant(&split.by));
    match part {
        DigitPart::Whole => whole,
        DigitPart::Quotient => Some((whole? - 1) / by? + 1),
        DigitPart::Rest => by,
    }
}

/// Computes the value of a coordinate from its `parts`: the digits that were recorded for it. Other parts are 0.
fn coordinate_value(
    builder: &mut ObligationBuilder<'_>,
    parts: &[(DigitPart, AffineForm)],
    split: Option<&SplitCoordinate>,
) -> AffineForm {
    let part = |wanted: DigitPart| {
        parts.iter().find(|(part, _)| *part == wanted).map_or_else(|| number(0), |(_, digit)| digit.clone())
    };
    let Some(split) = split else { return part(DigitPart::Whole) };
    let (quotient, rest) = (part(DigitPart::Quotient), part(DigitPart::Rest));
    let product = match (constant(&split.by), single(&quotient)) {
        (Some(by), _) => quotient.times(by),
        (None, Some(quotient)) => builder.times(quotient, &split.by),
        (None, None) => number(0),
    };
    product.plus(&rest)
}

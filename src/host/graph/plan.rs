//! Which operations one kernel computes: from the node of a result to the operations below it in order, the arrays and scalars that
//! they read, and the axes of the index space.
//!
//! Axes of extent 1 are dropped, and adjacent axes along which all inputs advance alike, or all repeat, are merged: operands of one
//! shape are read along a single axis, whatever their rank.
//!
//! An operand that is a view is read in the array that it looks at, and the operations below a view that nobody else reads are
//! computed at the indices of the view: on the way down, the planner knows along which axes of the result each operand is read.
//! An operand that is selected by positions is read at positions that the kernel computes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::device::storage::Storage;
use crate::host::array::{Array, MAX_EXTENT, Work};
use crate::host::graph::memo::{Key, Memo};
use crate::host::graph::node::{Node, Op, Operand, essential, node_of};
use crate::host::graph::picked::{Parts, Picked, picked_of};
use crate::host::graph::place::prepare;
use crate::host::graph::site::{Held, Site};
use crate::host::graph::view::{Along, View, align, lattice, spread, view_of};
use crate::host::problem::{Outcome, Problem};
use crate::lang::ops::BinaryOp;
use crate::lang::scalar::{Scalar, Value};

/// Where an operation takes an operand from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Source {
    Input(usize),
    /// A scalar that is a parameter.
    Scalar(usize),
    /// A scalar that is part of the kernel.
    Constant(Value),
    Step(usize),
}

impl Source {
    /// Adds what says in a key where the operand comes from.
    pub fn key(self, key: &mut Vec<u8>) {
        match self {
            Source::Input(i) => key.extend([0, i as u8]),
            Source::Scalar(i) => key.extend([1, i as u8]),
            Source::Step(i) => key.extend([2, i as u8]),
            Source::Constant(value) => {
                key.extend([3, value.ty as u8]);
                key.extend(value.bits.to_le_bytes());
            }
        }
    }
}

/// An operation of the kernel.
#[derive(Debug)]
pub(super) struct Step {
    pub op: Op,
    pub sources: Vec<Source>,
}

/// An array that the kernel reads.
#[derive(Debug)]
pub(super) struct Input {
    pub array: Array,
    pub scalar: Scalar,
    /// Per axis of the plan, the elements from one index to the next; 0 where the array repeats.
    pub strides: Vec<isize>,
    /// The first element that is read, if not all elements are read in order along the axes that have a stride.
    pub view: Option<usize>,
    /// Positions that the kernel computes, which are added: where each comes from, and the elements from one to the next. With any,
    /// there is a first element.
    pub picks: Vec<(Source, usize)>,
}

impl Input {
    /// Whether the same elements are read.
    fn is(&self, other: &Input) -> bool {
        Arc::ptr_eq(self.array.data(), other.array.data())
            && (self.scalar, self.view) == (other.scalar, other.view)
            && self.strides == other.strides
            && self.picks == other.picks
    }
}

/// A part of an array that a kernel writes, instead of all elements in order.
#[derive(Debug)]
pub(super) struct Part {
    pub offset: usize,
    pub strides: Vec<isize>,
}

/// What a kernel computes.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// The extents of the index space, outermost first; at least one.
    pub axes: Vec<usize>,
    pub inputs: Vec<Input>,
    pub scalars: Vec<Value>,
    /// In order of evaluation.
    pub steps: Vec<Step>,
    /// Where the results go, if they are written into a part of an array.
    pub part: Option<Part>,
    /// The input in whose storage the results go.
    pub donor: Option<usize>,
    /// Whether loads are guarded: positions are computed anew, and that they are the ones which have been checked rests on all operations.
    pub guards: bool,
}

struct Planner<'r> {
    /// The shape of the result.
    shape: &'r [usize],
    site: &'r Site,
    plan: Plan,
    /// Where nodes and selections are computed, by the offset and the strides at which they are.
    steps: Memo<(usize, Vec<isize>), Source>,
}

impl Plan {
    /// Plans the computation of a node, which is the last step. Operands that do not belong into its kernel are computed.
    pub fn of(root: &Node) -> Outcome<Plan> {
        let mut planner = Planner::new(&root.shape, &root.site);
        planner.step(root, &planner.whole())?;
        Ok(planner.finish(None))
    }

    /// Plans copying the elements of a view of this array, which nobody else has if it is alone. Returns where they come from.
    pub fn of_view(view: &View, source: &Array, alone: bool) -> Outcome<(Plan, Source)> {
        let mut planner = Planner::new(&view.shape, &view.site);
        let element = planner.look(view, source, alone, &view.axes)?;
        Ok((planner.finish(None), element))
    }

    /// Plans the computation of a selection. Returns where its elements come from.
    pub fn of_picked(picked: &Picked, parts: &Parts) -> Outcome<(Plan, Source)> {
        let mut planner = Planner::new(&picked.shape, &picked.site);
        let element = planner.pick(picked, parts, &planner.whole())?;
        Ok((planner.finish(None), element))
    }

    /// Plans the computation of an operand into a part of an array. Returns where the elements come from.
    pub fn into_part(operand: &Operand, shape: &[usize], part: Part, site: &Site) -> Outcome<(Plan, Source)> {
        let mut planner = Planner::new(shape, site);
        let element = match operand {
            Operand::Scalar(value) => {
                planner.plan.scalars.push(*value);
                Source::Scalar(0)
            }
            Operand::Array(array, own) => {
                let source = planner.array(array, own, &spread(&planner.whole(), shape, own))?;
                Held::used(array);
                source
            }
        };
        Ok((planner.finish(Some(part)), element))
    }

    /// Plans the computation of an array of this shape, whose axes fall into groups; axes of different groups stay apart. Returns
    /// where its elements come from, and the group of each axis of the plan.
    pub fn grouped(array: &Array, shape: &[usize], groups: &[u8], site: &Site) -> Outcome<(Plan, Source, Vec<u8>)> {
        let mut planner = Planner::new(shape, site);
        let source = planner.array(array, shape, &planner.whole())?;
        let mut plan = planner.plan;
        plan.axes = essential(shape).collect();
        let kept: Vec<u8> = groups.iter().zip(shape).filter(|(_, len)| **len != 1).map(|(group, _)| *group).collect();
        let groups = plan.merge(&kept);
        Ok((plan, source, groups))
    }

    /// Merges adjacent axes of one group, from the innermost one on. Returns the groups of the merged axes.
    fn merge(&mut self, groups: &[u8]) -> Vec<u8> {
        let lens = std::mem::take(&mut self.axes);
        let mut all: Vec<&mut Vec<isize>> = self.inputs.iter_mut().map(|input| &mut input.strides).collect();
        all.extend(self.part.as_mut().map(|part| &mut part.strides));
        let olds: Vec<Vec<isize>> = all.iter_mut().map(|strides| std::mem::take(*strides)).collect();
        let mut merged: Vec<u8> = Vec::with_capacity(lens.len());
        // Innermost first.
        for (axis, (&len, &group)) in lens.iter().zip(groups).enumerate().rev() {
            let joins = self.axes.last().is_some_and(|&inner| {
                let alike = |(strides, old): (&&mut Vec<isize>, &Vec<isize>)| match strides.last() {
                    Some(0) => old[axis] == 0,
                    Some(&stride) => old[axis] == stride * inner as isize,
                    None => false,
                };
                merged.last() == Some(&group)
                    && inner.checked_mul(len).is_some_and(|all| all <= MAX_EXTENT)
                    && all.iter().zip(&olds).all(alike)
            });
            if let (true, Some(inner)) = (joins, self.axes.last_mut()) {
                *inner *= len;
                continue;
            }
            self.axes.push(len);
            merged.push(group);
            all.iter_mut().zip(&olds).for_each(|(strides, old)| strides.push(old[axis]));
        }
        if self.axes.is_empty() {
            self.axes.push(1);
            merged.push(0);
            all.iter_mut().for_each(|strides| strides.push(0));
        }
        self.axes.reverse();
        merged.reverse();
        all.iter_mut().for_each(|strides| strides.reverse());
        merged
    }

    /// Returns the inputs that are parameters of their own.
    pub fn read(&self) -> impl Iterator<Item = (usize, &Input)> {
        self.inputs.iter().enumerate().filter(|(i, _)| self.donor != Some(*i))
    }

    /// Returns a text of bytes that is equal for plans with the same kernel.
    pub fn key(&self) -> Vec<u8> {
        let mut key = Vec::with_capacity(16 + 8 * (self.inputs.len() + self.steps.len()));
        key.extend([self.axes.len() as u8, self.inputs.len() as u8, self.scalars.len() as u8, self.guards.into()]);
        key.push(self.donor.map_or(0, |donor| donor as u8 + 1));
        for input in &self.inputs {
            key.extend([input.scalar as u8, input.view.is_some().into()]);
            key.extend(input.strides.iter().map(|&stride| advance(stride, input.view.is_some())));
            key.push(input.picks.len() as u8);
            for (source, stride) in &input.picks {
                source.key(&mut key);
                key.push(advance(*stride as isize, true));
            }
        }
        if let Some(part) = &self.part {
            key.extend(part.strides.iter().map(|&stride| 16 + advance(stride, true)));
        }
        key.extend(self.scalars.iter().map(|value| value.ty as u8));
        for step in &self.steps {
            key.extend(step.op.key());
            step.sources.iter().for_each(|source| source.key(&mut key));
        }
        key
    }
}

impl<'r> Planner<'r> {
    fn new(shape: &'r [usize], site: &'r Site) -> Planner<'r> {
        Planner { shape, site, plan: Plan::default(), steps: Memo::default() }
    }

    /// Returns where a result of the kernel's shape is computed.
    fn whole(&self) -> Vec<Along> {
        (0..self.shape.len()).map(Along::all).collect()
    }

    fn finish(self, part: Option<Part>) -> Plan {
        let mut plan = self.plan;
        plan.axes = essential(self.shape).collect();
        plan.part = part;
        plan.merge(&vec![0; plan.axes.len()]);
        plan
    }

    /// Adds a node's operation, computed at these indices, behind those of its operands; returns its number.
    fn step(&mut self, node: &Node, axes: &[Along]) -> Outcome<usize> {
        let operands = node.operands();
        let mut sources = Vec::with_capacity(operands.len());
        for (position, operand) in operands.iter().enumerate() {
            sources.push(match operand {
                Operand::Scalar(value) if is_constant(node.op, position, *value) => Source::Constant(*value),
                Operand::Scalar(value) => {
                    self.plan.scalars.push(*value);
                    Source::Scalar(self.plan.scalars.len() - 1)
                }
                Operand::Array(array, shape) => self.array(array, shape, &spread(axes, &node.shape, shape))?,
            });
        }
        self.plan.steps.push(Step { op: node.op, sources });
        Ok(self.plan.steps.len() - 1)
    }

    /// Returns where the elements of an array come from, which is looked at as one of this shape and read at these indices.
    fn array(&mut self, array: &Array, shape: &[usize], axes: &[Along]) -> Outcome<Source> {
        if let Some(work) = array.data().work() {
            if let Some(node) = node_of(&*work)
                && let Some(found) = self.node(node, &work, (array, shape, axes), 1)?
            {
                return Ok(found);
            }
            if let Some(picked) = picked_of(&*work)
                && let Some(found) = self.picked(picked, &work, (array, shape, axes))?
            {
                return Ok(found);
            }
            if let Some(view) = view_of(&*work)
                && array.scalar() == Some(view.scalar)
                && let Some(axes) = align(&view.shape, shape, axes)
                && let Some(source) = view.source()
                && self.is_near(view, &source)
            {
                let alone = Arc::strong_count(source.data()) == 2;
                let computes = alone && source.data().computed().is_none();
                let axes: Vec<Along> = view.axes.iter().map(|along| along.within(&axes)).collect();
                let known = self.known(&source, view, &axes);
                if known.is_some() || view.reads_through(array, computes) {
                    return known.map_or_else(|| self.look(view, &source, alone, &axes), Ok);
                }
            }
        }
        prepare(array, self.site)?;
        self.input(array, shape, axes)
    }

    /// Returns where the elements of a view come from, whose array is read at these indices. If that is not stored and nobody else
    /// has it, they are computed.
    fn look(&mut self, view: &View, source: &Array, alone: bool, axes: &[Along]) -> Outcome<Source> {
        if let (true, Some(work)) = (alone, source.data().work())
            && let Some(node) = node_of(&*work)
            && let Some(found) = self.node(node, &work, (source, &view.from, axes), usize::MAX)?
        {
            return Ok(found);
        }
        prepare(source, self.site)?;
        self.input(source, &view.from, axes)
    }

    /// Returns where the elements of an array come from that is read at these indices, if the kernel has them already.
    fn known(&self, source: &Array, view: &View, axes: &[Along]) -> Option<Source> {
        if let Some(work) = source.data().work() {
            let node = node_of(&*work)?;
            let axes = self.belongs(node, source, &view.from, axes)?;
            let at = lattice(&node.shape, &axes, self.shape);
            return self.steps.get(&Key::new(source, (at.offset, at.strides)));
        }
        let input = self.as_input(source, &view.from, axes)?;
        self.plan.inputs.iter().position(|known| known.is(&input)).map(Source::Input)
    }

    /// Returns whether reading a view in its array moves no more bytes to the device than the view has.
    fn is_near(&self, view: &View, source: &Array) -> bool {
        let far = |storage: &Storage| storage.remote().is_some();
        let count = |shape: &[usize]| shape.iter().product::<usize>();
        let moves = self.site.device().is_remote() && source.data().computed().is_some_and(|storage| !far(storage));
        !moves || 2 * count(&view.shape) >= count(&view.from)
    }

    /// Returns the step that computes an array, which this work computes and so many others may have; `None` if it is not part of
    /// the kernel.
    fn node(
        &mut self,
        node: &Node,
        work: &Arc<dyn Work>,
        (array, shape, axes): (&Array, &[usize], &[Along]),
        others: usize,
    ) -> Outcome<Option<Source>> {
        let Some(axes) = self.belongs(node, array, shape, axes) else { return Ok(None) };
        let at = lattice(&node.shape, &axes, self.shape);
        let key = Key::new(array, (at.offset, at.strides));
        if let Some(known) = self.steps.get(&key) {
            return Ok(Some(known));
        }
        if node.seen.swap(true, Ordering::Relaxed) && Arc::strong_count(array.data()) > others {
            return Ok(None);
        }
        let step = Source::Step(self.step(node, &axes)?);
        self.steps.insert(key, (array, work.clone()), step);
        Ok(Some(step))
    }

    /// Returns where the elements of a selection come from, which this work computes; `None` if it is not part of the kernel.
    fn picked(
        &mut self,
        picked: &Picked,
        work: &Arc<dyn Work>,
        (array, shape, axes): (&Array, &[usize], &[Along]),
    ) -> Outcome<Option<Source>> {
        let fits = picked.site.is(self.site) && array.scalar() == Some(picked.scalar);
        let Some(axes) = (if fits { self.inside(&picked.shape, shape, axes) } else { None }) else { return Ok(None) };
        let at = lattice(&picked.shape, &axes, self.shape);
        let key = Key::new(array, (at.offset, at.strides));
        if let Some(known) = self.steps.get(&key) {
            return Ok(Some(known));
        }
        let Some(parts) = picked.parts() else { return Ok(None) };
        if picked.seen.swap(true, Ordering::Relaxed) && Arc::strong_count(array.data()) > 1 {
            return Ok(None);
        }
        let input = self.pick(picked, &parts, &axes)?;
        self.steps.insert(key, (array, work.clone()), input);
        Ok(Some(input))
    }

    /// Adds the input of a selection that is read at these indices, behind the computation of its positions.
    fn pick(&mut self, picked: &Picked, parts: &Parts, axes: &[Along]) -> Outcome<Source> {
        let mut picks = Vec::with_capacity(parts.lists.len());
        for list in &parts.lists {
            let own = axes.get(list.first..list.first + list.at.rank()).unwrap_or(&[]);
            let source = self.array(&list.at, list.at.shape(), own)?;
            self.plan.guards |= list.is_deferred || !matches!(source, Source::Input(_));
            picks.push((source, picked.from[list.axis + 1..].iter().product()));
        }
        parts.source.storage()?;
        let axes: Vec<Along> = picked.axes.iter().map(|along| along.within(axes)).collect();
        let input = self.as_input(&parts.source, &picked.from, &axes).ok_or_else(structs)?;
        Ok(self.add(Input { view: input.view.or(Some(0)), picks, ..input }))
    }

    /// Returns the indices at which the kernel can compute an operand where it is needed: nothing but its shape is looked at in
    /// another way, and the kernel computes no more elements than the operand has.
    fn belongs(&self, node: &Node, array: &Array, shape: &[usize], axes: &[Along]) -> Option<Vec<Along>> {
        let fits = node.site.is(self.site) && array.scalar() == Some(node.scalar);
        if fits { self.inside(&node.shape, shape, axes) } else { None }
    }

    fn inside(&self, own: &[usize], shape: &[usize], axes: &[Along]) -> Option<Vec<Along>> {
        let count = |shape: &[usize]| shape.iter().product::<usize>();
        if count(self.shape) <= count(own) { align(own, shape, axes) } else { None }
    }

    fn input(&mut self, array: &Array, shape: &[usize], axes: &[Along]) -> Outcome<Source> {
        let input = self.as_input(array, shape, axes).ok_or_else(structs)?;
        Ok(self.add(input))
    }

    fn add(&mut self, input: Input) -> Source {
        let known = self.plan.inputs.iter().position(|known| known.is(&input));
        Source::Input(known.unwrap_or_else(|| {
            self.plan.inputs.push(input);
            self.plan.inputs.len() - 1
        }))
    }

    /// Returns an array as an input that is read at these indices; `None` if it has structs.
    fn as_input(&self, array: &Array, shape: &[usize], axes: &[Along]) -> Option<Input> {
        let at = lattice(shape, axes, self.shape);
        let kept = at.strides.iter().zip(self.shape).filter(|(_, len)| **len != 1);
        let (mut next, mut in_order) = (1, at.offset == 0);
        for (&stride, &len) in kept.clone().rev().filter(|(stride, _)| **stride != 0) {
            in_order &= stride == next;
            next *= len as isize;
        }
        let is_whole = in_order && next as usize == shape.iter().product::<usize>();
        let strides = kept.map(|(stride, _)| *stride).collect();
        let view = (!is_whole).then_some(at.offset);
        Some(Input { array: array.clone(), scalar: array.scalar()?, strides, view, picks: Vec::new() })
    }
}

fn structs() -> Problem {
    Problem::new("E0999", "internal error: an array of structs in an expression")
}

/// How an array advances along an axis, as far as it is part of the kernel: by a stride that is a parameter in a view.
fn advance(stride: isize, in_view: bool) -> u8 {
    match (stride, in_view) {
        (0, _) => 0,
        (1, _) | (_, false) => 1,
        _ => 2,
    }
}

/// Returns whether a scalar operand is part of the kernel: a small power, which is computed by multiplications.
pub(super) fn is_constant(op: Op, position: usize, value: Value) -> bool {
    op == Op::Binary(BinaryOp::Pow) && position == 1 && [1.0, 2.0, 3.0, 4.0].contains(&value.as_f64())
}

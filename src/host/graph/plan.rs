//! Which operations one kernel computes: from the node of a result to the operations below it in order, the arrays and scalars that
//! they read, and the axes of the index space.
//!
//! Axes of extent 1 are dropped, and adjacent axes along which all inputs advance alike, or all repeat, are merged: operands of one
//! shape are read along a single axis, whatever their rank.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustc_hash::FxHashMap;

use crate::host::array::broadcast::strides;
use crate::host::array::{Array, Data, MAX_EXTENT, Work};
use crate::host::graph::node::{Node, Op, Operand, essential, node_of};
use crate::host::graph::site::Site;
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
    pub strides: Vec<usize>,
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
}

struct Planner<'r> {
    /// The shape of the result.
    shape: &'r [usize],
    site: &'r Site,
    plan: Plan,
    /// Steps of nodes, by the data that they compute.
    steps: FxHashMap<*const Data, usize>,
    /// Keeps the data alive whose addresses are keys.
    works: Vec<(Array, Arc<dyn Work>)>,
}

impl Plan {
    /// Plans the computation of a node, which is the last step. Operands that do not belong into its kernel are computed.
    pub fn of(root: &Node) -> Outcome<Plan> {
        let mut planner = Planner::new(&root.shape, &root.site);
        planner.step(root)?;
        let mut plan = planner.plan;
        plan.axes = essential(&root.shape).collect();
        plan.merge(&vec![0; plan.axes.len()]);
        Ok(plan)
    }

    /// Plans the computation of an array of this shape, whose axes fall into groups; axes of different groups stay apart. Returns
    /// where its elements come from, and the group of each axis of the plan.
    pub fn grouped(array: &Array, shape: &[usize], groups: &[u8], site: &Site) -> Outcome<(Plan, Source, Vec<u8>)> {
        let mut planner = Planner::new(shape, site);
        let source = planner.array(shape, array, shape)?;
        let mut plan = planner.plan;
        plan.axes = essential(shape).collect();
        let kept: Vec<u8> = groups.iter().zip(shape).filter(|(_, len)| **len != 1).map(|(group, _)| *group).collect();
        let groups = plan.merge(&kept);
        Ok((plan, source, groups))
    }

    /// Merges adjacent axes of one group, from the innermost one on. Returns the groups of the merged axes.
    fn merge(&mut self, groups: &[u8]) -> Vec<u8> {
        let lens = std::mem::take(&mut self.axes);
        let olds: Vec<Vec<usize>> = self.inputs.iter_mut().map(|input| std::mem::take(&mut input.strides)).collect();
        let mut merged: Vec<u8> = Vec::with_capacity(lens.len());
        // Innermost first.
        for (axis, (&len, &group)) in lens.iter().zip(groups).enumerate().rev() {
            let joins = self.axes.last().is_some_and(|&inner| {
                let alike = |(input, old): (&Input, &Vec<usize>)| match input.strides.last() {
                    Some(0) => old[axis] == 0,
                    Some(&stride) => old[axis] == stride * inner,
                    None => false,
                };
                merged.last() == Some(&group)
                    && inner.checked_mul(len).is_some_and(|all| all <= MAX_EXTENT)
                    && self.inputs.iter().zip(&olds).all(alike)
            });
            if let (true, Some(inner)) = (joins, self.axes.last_mut()) {
                *inner *= len;
                continue;
            }
            self.axes.push(len);
            merged.push(group);
            self.inputs.iter_mut().zip(&olds).for_each(|(input, old)| input.strides.push(old[axis]));
        }
        if self.axes.is_empty() {
            self.axes.push(1);
            merged.push(0);
            self.inputs.iter_mut().for_each(|input| input.strides.push(0));
        }
        self.axes.reverse();
        merged.reverse();
        self.inputs.iter_mut().for_each(|input| input.strides.reverse());
        merged
    }

    /// Returns a text of bytes that is equal for plans with the same kernel.
    pub fn key(&self) -> Vec<u8> {
        let mut key = Vec::with_capacity(16 + 8 * (self.inputs.len() + self.steps.len()));
        key.extend([self.axes.len() as u8, self.inputs.len() as u8, self.scalars.len() as u8]);
        for input in &self.inputs {
            key.push(input.scalar as u8);
            let repeats = input.strides.iter().map(|&stride| u8::from(stride == 0));
            key.extend(repeats);
        }
        key.extend(self.scalars.iter().map(|value| value.ty as u8));
        for step in &self.steps {
            key.extend(match step.op {
                Op::Unary(op) => [0, op as u8],
                Op::Binary(op) => [1, op as u8],
                Op::Math(function) => [2, function as u8],
                Op::Convert(to) => [3, to as u8],
                Op::Select => [4, 0],
            });
            for source in &step.sources {
                match *source {
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
        key
    }
}

impl<'r> Planner<'r> {
    fn new(shape: &'r [usize], site: &'r Site) -> Planner<'r> {
        Planner { shape, site, plan: Plan::default(), steps: FxHashMap::default(), works: Vec::new() }
    }

    /// Adds a node's operation behind those of its operands; returns its number.
    fn step(&mut self, node: &Node) -> Outcome<usize> {
        let mut sources = Vec::with_capacity(node.operands.len());
        for (position, operand) in node.operands.iter().enumerate() {
            sources.push(match operand {
                Operand::Scalar(value) if is_constant(node.op, position, *value) => Source::Constant(*value),
                Operand::Scalar(value) => {
                    self.plan.scalars.push(*value);
                    Source::Scalar(self.plan.scalars.len() - 1)
                }
                Operand::Array(array, shape) => self.array(&node.shape, array, shape)?,
            });
        }
        self.plan.steps.push(Step { op: node.op, sources });
        Ok(self.plan.steps.len() - 1)
    }

    fn array(&mut self, user: &[usize], array: &Array, shape: &[usize]) -> Outcome<Source> {
        let id = Arc::as_ptr(array.data());
        if let Some(work) = array.data().work()
            && let Some(node) = node_of(&*work)
            && self.belongs(node, array, shape)
        {
            if let Some(&step) = self.steps.get(&id) {
                return Ok(Source::Step(step));
            }
            if !node.seen.swap(true, Ordering::Relaxed) || Arc::strong_count(array.data()) == 1 {
                let step = self.step(node)?;
                self.steps.insert(id, step);
                self.works.push((array.clone(), work));
                return Ok(Source::Step(step));
            }
        }
        array.storage()?;
        self.input(user, array, shape)
    }

    /// Returns whether the kernel can compute an operand where it is needed: it has the shape of the result, and nothing but its
    /// shape is looked at in another way.
    fn belongs(&self, node: &Node, array: &Array, shape: &[usize]) -> bool {
        node.site.is(self.site)
            && array.scalar() == Some(node.scalar)
            && essential(shape).eq(essential(self.shape))
            && essential(&node.shape).eq(essential(shape))
    }

    fn input(&mut self, user: &[usize], array: &Array, shape: &[usize]) -> Outcome<Source> {
        let Some(scalar) = array.scalar() else {
            return Err(Problem::new("E0999", "internal error: an array of structs in an expression"));
        };
        let all = strides(shape, user);
        let strides: Vec<usize> = all.into_iter().zip(user).filter(|(_, len)| **len != 1).map(|(s, _)| s).collect();
        let same = |input: &Input| {
            Arc::ptr_eq(input.array.data(), array.data()) && input.scalar == scalar && input.strides == strides
        };
        if let Some(known) = self.plan.inputs.iter().position(same) {
            return Ok(Source::Input(known));
        }
        self.plan.inputs.push(Input { array: array.clone(), scalar, strides });
        Ok(Source::Input(self.plan.inputs.len() - 1))
    }
}

/// Returns whether a scalar operand is part of the kernel: a small power, which is computed by multiplications.
fn is_constant(op: Op, position: usize, value: Value) -> bool {
    op == Op::Binary(BinaryOp::Pow) && position == 1 && [1.0, 2.0, 3.0, 4.0].contains(&value.as_f64())
}

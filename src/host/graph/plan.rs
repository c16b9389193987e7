//! Fusion planner: decides which operations one kernel computes, which arrays and scalars it reads, and the axes of its
//! index space. Input: the node of a result. Output: a [`FusionPlan`].
//!
//! Axes of extent 1 are dropped. Adjacent axes are merged if each input has a single stride for both axes or is
//! broadcast along both. So an expression of arrays with equal shapes needs a single axis. The planner visits operands
//! recursively, together with the indices at which the result reads them. Therefore the kernel can read a view directly
//! from its source array. It computes a source that has no other readers at the view's indices, and the positions of a
//! gather inline.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::array::{Array, DeferredWork, MAX_EXTENT};
use crate::graph::context::ExecContext;
use crate::graph::lazy_gather::{GatherSource, LazyGather, as_gather};
use crate::graph::memo::{DeferredKey, DeferredMemo};
use crate::graph::node::{DeferredNode, ElementwiseOp, NodeOperand, as_node, non_unit_extents};
use crate::graph::residency::materialize_for;
use crate::graph::view::{LazyView, ViewAxis, align_axes, as_view, broadcast_axes, view_lattice};
use crate::problem::{HostResult, RuntimeError};
use clk_runtime::storage::Storage;
use clk_scalar::ops::BinaryOp;
use clk_scalar::{Scalar, ScalarValue};

/// The source of an operand's value in the kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum OperandSource {
    Input(usize),
    /// A scalar that is passed as a kernel parameter; the index into the plan's scalars.
    Scalar(usize),
    /// A scalar that is a constant in the kernel's code.
    Constant(ScalarValue),
    Step(usize),
}

impl OperandSource {
    /// Appends bytes that identify this operand to the cache key of a kernel.
    pub fn append_key(self, key: &mut Vec<u8>) {
        match self {
            OperandSource::Input(i) => key.extend([0, i as u8]),
            OperandSource::Scalar(i) => key.extend([1, i as u8]),
            OperandSource::Step(i) => key.extend([2, i as u8]),
            OperandSource::Constant(value) => {
                key.extend([3, value.ty as u8]);
                key.extend(value.bits.to_le_bytes());
            }
        }
    }
}

/// An operation of the kernel.
#[derive(Debug)]
pub(super) struct FusedOp {
    pub op: ElementwiseOp,
    pub sources: Vec<OperandSource>,
}

/// An array that the kernel reads.
#[derive(Debug)]
pub(super) struct PlanInput {
    pub array: Array,
    pub scalar: Scalar,
    /// For each axis of the plan, the distance in elements from one index to the next; 0 if the array is broadcast
    /// along the axis.
    pub strides: Vec<isize>,
    /// For a view, the position of the first element that is read. `None` if all elements of the array are read in
    /// order.
    pub offset: Option<usize>,
    /// For a gather, the computed positions that are added to the index: their sources, and their strides in elements.
    /// `offset` must be set too.
    pub gathers: Vec<(OperandSource, usize)>,
}

impl PlanInput {
    /// Returns whether both inputs read the same elements.
    fn is_same(&self, other: &PlanInput) -> bool {
        Arc::ptr_eq(self.array.data(), other.array.data())
            && (self.scalar, self.offset) == (other.scalar, other.offset)
            && self.strides == other.strides
            && self.gathers == other.gathers
    }
}

/// The slice of an array to which a kernel writes its result: the first element, and the stride of each axis of the
/// plan.
#[derive(Debug)]
pub(super) struct OutputWindow {
    pub offset: usize,
    pub strides: Vec<isize>,
}

/// The plan of a fused kernel.
#[derive(Debug, Default)]
pub(super) struct FusionPlan {
    /// The extents of the index space, outermost first; at least one.
    pub axes: Vec<usize>,
    pub inputs: Vec<PlanInput>,
    pub scalars: Vec<ScalarValue>,
    /// The operations in the order of evaluation.
    pub steps: Vec<FusedOp>,
    /// Set if the result is written to a slice of an existing array.
    pub output_window: Option<OutputWindow>,
    /// Index of the input whose storage is donated to the result.
    pub donor: Option<usize>,
    /// Whether loads need bounds checks. They are needed if the kernel computes positions again: if an operation is not
    /// deterministic, the positions may differ from those that were checked.
    pub has_guards: bool,
}

struct FusionPlanner<'r> {
    /// The shape of the result.
    shape: &'r [usize],
    context: &'r ExecContext,
    plan: FusionPlan,
    /// Maps nodes and gathers, with the offset and the strides at which they are computed, to values of the kernel.
    steps: DeferredMemo<(usize, Vec<isize>), OperandSource>,
}

impl FusionPlan {
    /// Plans a kernel whose last step is the operation of a node. Operands that cannot be fused are computed before.
    pub fn for_node(root: &DeferredNode) -> HostResult<FusionPlan> {
        let mut planner = FusionPlanner::new(&root.shape, &root.context);
        planner.add_node(root, &planner.identity_axes())?;
        Ok(planner.finish(None))
    }

    /// Plans a kernel that copies the elements of a view of `source`, and returns their source in the kernel. `alone`
    /// is true if the view has the only reference to the array.
    pub fn for_view(view: &LazyView, source: &Array, alone: bool) -> HostResult<(FusionPlan, OperandSource)> {
        let mut planner = FusionPlanner::new(&view.shape, &view.context);
        let element = planner.view_source(view, source, alone, &view.axes)?;
        Ok((planner.finish(None), element))
    }

    /// Plans a kernel that computes a gather, and returns the source of its elements in the kernel.
    pub fn for_gather(picked: &LazyGather, parts: &GatherSource) -> HostResult<(FusionPlan, OperandSource)> {
        let mut planner = FusionPlanner::new(&picked.shape, &picked.context);
        let element = planner.add_gather(picked, parts, &planner.identity_axes())?;
        Ok((planner.finish(None), element))
    }

    /// Plans a kernel that writes an operand to a slice of an array, and returns the source of the elements in the
    /// kernel.
    pub fn for_window(
        operand: &NodeOperand,
        shape: &[usize],
        part: OutputWindow,
        context: &ExecContext,
    ) -> HostResult<(FusionPlan, OperandSource)> {
        let mut planner = FusionPlanner::new(shape, context);
        let element = match operand {
            NodeOperand::Scalar(value) => {
                planner.plan.scalars.push(*value);
                OperandSource::Scalar(0)
            }
            NodeOperand::Array(array, own) => {
                let source = planner.array(array, own, &broadcast_axes(&planner.identity_axes(), shape, own))?;
                context.forget_result(array);
                source
            }
        };
        Ok((planner.finish(Some(part)), element))
    }

    /// Plans a kernel that computes an array whose axes belong to groups, such as the axes before, along and after a
    /// reduction. Axes of different groups are not merged. Returns the source of the elements in the kernel, and the
    /// group of each axis of the plan.
    pub fn for_axis_groups(
        array: &Array,
        shape: &[usize],
        groups: &[u8],
        context: &ExecContext,
    ) -> HostResult<(FusionPlan, OperandSource, Vec<u8>)> {
        let mut planner = FusionPlanner::new(shape, context);
        let source = planner.array(array, shape, &planner.identity_axes())?;
        let mut plan = planner.plan;
        plan.axes = non_unit_extents(shape).collect();
        let kept_groups: Vec<u8> =
            groups.iter().zip(shape).filter(|(_, len)| **len != 1).map(|(group, _)| *group).collect();
        let groups = plan.merge_axes(&kept_groups);
        Ok((plan, source, groups))
    }

    /// Merges adjacent axes of one group, from the innermost axis outward. Returns the groups of the merged axes.
    fn merge_axes(&mut self, groups: &[u8]) -> Vec<u8> {
        let lens = std::mem::take(&mut self.axes);
        let mut all: Vec<&mut Vec<isize>> = self.inputs.iter_mut().map(|input| &mut input.strides).collect();
        all.extend(self.output_window.as_mut().map(|part| &mut part.strides));
        let olds: Vec<Vec<isize>> = all.iter_mut().map(|strides| std::mem::take(*strides)).collect();
        let mut merged: Vec<u8> = Vec::with_capacity(lens.len());
        // The loop visits the axes from the innermost outward.
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

    /// Returns the inputs that are kernel parameters, with their indices. The donated input is omitted, because the
    /// kernel reads it through the result parameter.
    pub fn parameter_inputs(&self) -> impl Iterator<Item = (usize, &PlanInput)> {
        self.inputs.iter().enumerate().filter(|(i, _)| self.donor != Some(*i))
    }

    /// Returns the cache key of the kernel: plans with equal keys have the same kernel.
    pub fn cache_key(&self) -> Vec<u8> {
        let mut key = Vec::with_capacity(16 + 8 * (self.inputs.len() + self.steps.len()));
        key.extend([self.axes.len() as u8, self.inputs.len() as u8, self.scalars.len() as u8, self.has_guards.into()]);
        key.push(self.donor.map_or(0, |donor| donor as u8 + 1));
        for input in &self.inputs {
            key.extend([input.scalar as u8, input.offset.is_some().into()]);
            key.extend(input.strides.iter().map(|&stride| stride_kind(stride, input.offset.is_some())));
            key.push(input.gathers.len() as u8);
            for (source, stride) in &input.gathers {
                source.append_key(&mut key);
                key.push(stride_kind(*stride as isize, true));
            }
        }
        if let Some(part) = &self.output_window {
            key.extend(part.strides.iter().map(|&stride| 16 + stride_kind(stride, true)));
        }
        key.extend(self.scalars.iter().map(|value| value.ty as u8));
        for step in &self.steps {
            key.extend(step.op.key());
            step.sources.iter().for_each(|source| source.append_key(&mut key));
        }
        key
    }
}

impl<'r> FusionPlanner<'r> {
    fn new(shape: &'r [usize], context: &'r ExecContext) -> FusionPlanner<'r> {
        FusionPlanner { shape, context, plan: FusionPlan::default(), steps: DeferredMemo::default() }
    }

    /// Returns the identity indexing for a result that has the shape of the kernel's index space.
    fn identity_axes(&self) -> Vec<ViewAxis> {
        (0..self.shape.len()).map(ViewAxis::full).collect()
    }

    fn finish(self, part: Option<OutputWindow>) -> FusionPlan {
        let mut plan = self.plan;
        plan.axes = non_unit_extents(self.shape).collect();
        plan.output_window = part;
        plan.merge_axes(&vec![0; plan.axes.len()]);
        plan
    }

    /// Adds the operands and the operation of a node, computed at these indices. Returns the index of its step.
    fn add_node(&mut self, node: &DeferredNode, axes: &[ViewAxis]) -> HostResult<usize> {
        let operands = node.operands();
        let mut sources = Vec::with_capacity(operands.len());
        for (position, operand) in operands.iter().enumerate() {
            sources.push(match operand {
                NodeOperand::Scalar(value) if is_kernel_constant(node.op, position, *value) => {
                    OperandSource::Constant(*value)
                }
                NodeOperand::Scalar(value) => {
                    self.plan.scalars.push(*value);
                    OperandSource::Scalar(self.plan.scalars.len() - 1)
                }
                NodeOperand::Array(array, shape) => {
                    self.array(array, shape, &broadcast_axes(axes, &node.shape, shape))?
                }
            });
        }
        self.plan.steps.push(FusedOp { op: node.op, sources });
        Ok(self.plan.steps.len() - 1)
    }

    /// Returns the source of an operand that reads an array with this shape at these indices. Adds steps and inputs to
    /// the plan if necessary.
    fn array(&mut self, array: &Array, shape: &[usize], axes: &[ViewAxis]) -> HostResult<OperandSource> {
        if let Some(work) = array.data().work() {
            if let Some(node) = as_node(&*work)
                && let Some(found) = self.node_source(node, &work, array, shape, axes, 1)?
            {
                return Ok(found);
            }
            if let Some(picked) = as_gather(&*work)
                && let Some(found) = self.gather_source(picked, &work, array, shape, axes)?
            {
                return Ok(found);
            }
            if let Some(view) = as_view(&*work)
                && array.scalar() == Some(view.scalar)
                && let Some(axes) = align_axes(&view.shape, shape, axes)
                && let Some(source) = view.source()
                && self.saves_no_upload(view, &source)
            {
                let is_sole_owner = Arc::strong_count(source.data()) == 2;
                let computes = is_sole_owner && source.data().computed().is_none();
                let axes: Vec<ViewAxis> = view.axes.iter().map(|along| along.compose(&axes)).collect();
                let existing = self.existing_source(&source, view, &axes);
                if existing.is_some() || view.should_read_through(array, computes) {
                    return existing.map_or_else(|| self.view_source(view, &source, is_sole_owner, &axes), Ok);
                }
            }
        }
        materialize_for(array, self.context)?;
        self.add_array(array, shape, axes)
    }

    /// Like [`Self::array`], but for the source of a view, read at these indices. A deferred source that has no other
    /// owner is computed inline.
    fn view_source(
        &mut self,
        view: &LazyView,
        source: &Array,
        is_sole_owner: bool,
        axes: &[ViewAxis],
    ) -> HostResult<OperandSource> {
        if let (true, Some(work)) = (is_sole_owner, source.data().work())
            && let Some(node) = as_node(&*work)
            && let Some(found) = self.node_source(node, &work, source, &view.source_shape, axes, usize::MAX)?
        {
            return Ok(found);
        }
        materialize_for(source, self.context)?;
        self.add_array(source, &view.source_shape, axes)
    }

    /// Returns the value of the source of a view at these indices, if the kernel already computes or reads it.
    fn existing_source(&self, source: &Array, view: &LazyView, axes: &[ViewAxis]) -> Option<OperandSource> {
        if let Some(work) = source.data().work() {
            let node = as_node(&*work)?;
            let axes = self.fusible_axes(node, source, &view.source_shape, axes)?;
            let at = view_lattice(&node.shape, &axes, self.shape);
            return self.steps.get(&DeferredKey::new(source, (at.offset, at.strides)));
        }
        let input = self.to_input(source, &view.source_shape, axes)?;
        self.plan.inputs.iter().position(|known| known.is_same(&input)).map(OperandSource::Input)
    }

    /// Returns whether the kernel may read the source of the view without excessive uploads: uploading the source
    /// copies at most twice as many bytes as uploading the view.
    fn saves_no_upload(&self, view: &LazyView, source: &Array) -> bool {
        let is_remote = |storage: &Storage| storage.remote().is_some();
        let count = |shape: &[usize]| shape.iter().product::<usize>();
        let needs_upload = self.context.device().memory().is_some()
            && source.data().computed().is_some_and(|storage| !is_remote(storage));
        !needs_upload || 2 * count(&view.shape) >= count(&view.source_shape)
    }

    /// Adds a step that computes an array inline, and returns it; `None` if the array should be computed separately.
    /// `work` is the deferred work of the array. Computing it inline a second time is allowed only if the array has at
    /// most `others` references.
    fn node_source(
        &mut self,
        node: &DeferredNode,
        work: &Arc<dyn DeferredWork>,
        array: &Array,
        shape: &[usize],
        axes: &[ViewAxis],
        others: usize,
    ) -> HostResult<Option<OperandSource>> {
        let Some(axes) = self.fusible_axes(node, array, shape, axes) else { return Ok(None) };
        let at = view_lattice(&node.shape, &axes, self.shape);
        let key = DeferredKey::new(array, (at.offset, at.strides));
        if let Some(known) = self.steps.get(&key) {
            return Ok(Some(known));
        }
        if node.was_inlined.swap(true, Ordering::Relaxed) && Arc::strong_count(array.data()) > others {
            return Ok(None);
        }
        let step = OperandSource::Step(self.add_node(node, &axes)?);
        self.steps.insert(key, array, work.clone(), step);
        Ok(Some(step))
    }

    /// Adds an input that gathers inline, and returns it; `None` if the gather should be computed separately.
    fn gather_source(
        &mut self,
        picked: &LazyGather,
        work: &Arc<dyn DeferredWork>,
        array: &Array,
        shape: &[usize],
        axes: &[ViewAxis],
    ) -> HostResult<Option<OperandSource>> {
        let is_compatible = picked.context.can_share_kernel(self.context) && array.scalar() == Some(picked.scalar);
        let Some(axes) = (if is_compatible { self.aligned_axes(&picked.shape, shape, axes) } else { None }) else {
            return Ok(None);
        };
        let at = view_lattice(&picked.shape, &axes, self.shape);
        let key = DeferredKey::new(array, (at.offset, at.strides));
        if let Some(known) = self.steps.get(&key) {
            return Ok(Some(known));
        }
        let Some(parts) = picked.pending_source() else { return Ok(None) };
        if picked.was_inlined.swap(true, Ordering::Relaxed) && Arc::strong_count(array.data()) > 1 {
            return Ok(None);
        }
        let input = self.add_gather(picked, &parts, &axes)?;
        self.steps.insert(key, array, work.clone(), input);
        Ok(Some(input))
    }

    /// Adds the computation of a gather's positions at these indices, and the input that reads the gathered elements.
    fn add_gather(
        &mut self,
        picked: &LazyGather,
        parts: &GatherSource,
        axes: &[ViewAxis],
    ) -> HostResult<OperandSource> {
        let mut picks = Vec::with_capacity(parts.lists.len());
        for list in &parts.lists {
            let own = axes.get(list.first_axis..list.first_axis + list.positions.rank()).unwrap_or(&[]);
            let source = self.array(&list.positions, list.positions.shape(), own)?;
            self.plan.has_guards |= list.is_deferred || !matches!(source, OperandSource::Input(_));
            picks.push((source, picked.source_shape[list.axis + 1..].iter().product()));
        }
        parts.source.storage()?;
        let axes: Vec<ViewAxis> = picked.axes.iter().map(|along| along.compose(axes)).collect();
        let input = self.to_input(&parts.source, &picked.source_shape, &axes).ok_or_else(struct_array_error)?;
        Ok(self.add_input(PlanInput { offset: input.offset.or(Some(0)), gathers: picks, ..input }))
    }

    /// Returns the indices at which the kernel can compute a node inline. `None` if the array is a `bitcast` of the
    /// node, if the shapes are incompatible, or if the kernel would compute elements more than once.
    fn fusible_axes(
        &self,
        node: &DeferredNode,
        array: &Array,
        shape: &[usize],
        axes: &[ViewAxis],
    ) -> Option<Vec<ViewAxis>> {
        let is_compatible = node.context.can_share_kernel(self.context) && array.scalar() == Some(node.scalar);
        if is_compatible { self.aligned_axes(&node.shape, shape, axes) } else { None }
    }

    fn aligned_axes(&self, own: &[usize], shape: &[usize], axes: &[ViewAxis]) -> Option<Vec<ViewAxis>> {
        let count = |shape: &[usize]| shape.iter().product::<usize>();
        if count(self.shape) <= count(own) { align_axes(own, shape, axes) } else { None }
    }

    fn add_array(&mut self, array: &Array, shape: &[usize], axes: &[ViewAxis]) -> HostResult<OperandSource> {
        let input = self.to_input(array, shape, axes).ok_or_else(struct_array_error)?;
        Ok(self.add_input(input))
    }

    fn add_input(&mut self, input: PlanInput) -> OperandSource {
        let existing = self.plan.inputs.iter().position(|existing| existing.is_same(&input));
        OperandSource::Input(existing.unwrap_or_else(|| {
            self.plan.inputs.push(input);
            self.plan.inputs.len() - 1
        }))
    }

    /// Creates the input that reads an array at these indices; `None` for an array of structs.
    fn to_input(&self, array: &Array, shape: &[usize], axes: &[ViewAxis]) -> Option<PlanInput> {
        let at = view_lattice(shape, axes, self.shape);
        let kept_strides = at.strides.iter().zip(self.shape).filter(|(_, len)| **len != 1);
        let (mut next, mut in_order) = (1, at.offset == 0);
        for (&stride, &len) in kept_strides.clone().rev().filter(|(stride, _)| **stride != 0) {
            in_order &= stride == next;
            next *= len as isize;
        }
        let is_whole = in_order && next as usize == shape.iter().product::<usize>();
        let strides = kept_strides.map(|(stride, _)| *stride).collect();
        let view = (!is_whole).then_some(at.offset);
        Some(PlanInput { array: array.clone(), scalar: array.scalar()?, strides, offset: view, gathers: Vec::new() })
    }
}

fn struct_array_error() -> RuntimeError {
    RuntimeError::new("E0999", "internal error: an array of structs in an expression")
}

/// Classifies a stride for the kernel's cache key: 0, 1, or 2 for a stride that is a parameter of a view.
fn stride_kind(stride: isize, in_view: bool) -> u8 {
    match (stride, in_view) {
        (0, _) => 0,
        (1, _) | (_, false) => 1,
        _ => 2,
    }
}

/// Returns whether a scalar operand is compiled into the kernel as a constant. This applies to small exponents, for
/// which powers become multiplications.
pub(super) fn is_kernel_constant(op: ElementwiseOp, position: usize, value: ScalarValue) -> bool {
    op == ElementwiseOp::Binary(BinaryOp::Pow) && position == 1 && [1.0, 2.0, 3.0, 4.0].contains(&value.as_f64())
}

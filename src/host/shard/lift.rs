//! Lifts operations to sharded arrays: elementwise operations, operations on rows, slices and transposes run separately
//! on each shard. Each function returns `None` if no operand is sharded in a suitable way; the caller then gathers the
//! arrays.

use crate::array::{Array, ElementType};
use crate::graph::{self, ElementwiseOp, ExecContext, NodeOperand, scalar_shape};
use crate::problem::HostResult;
use crate::shard::layout::ShardLayout;
use crate::shard::sharded::{self, ShardDevices, ShardState, Sharded, as_sharded};
use clk_scalar::Scalar;

/// An operand of the operations on the shards.
enum ShardOperand {
    /// All shards use the same operand.
    Replicated(NodeOperand),
    Parts(Vec<NodeOperand>),
}

/// Applies an elementwise operation to sharded arrays. Takes the same arguments as [`graph::defer`].
pub(crate) fn lift_elementwise(
    exec: &ExecContext,
    op: ElementwiseOp,
    list: &[NodeOperand],
    scalar: Scalar,
    element: &ElementType,
    shape: &[usize],
) -> HostResult<Option<Array>> {
    let Some((layout, team)) = list.iter().find_map(|operand| layout_of_result(operand, shape)) else {
        return Ok(None);
    };
    let faults = op.may_fault(list);
    let mut fresh = true;
    let mut operands = Vec::with_capacity(list.len());
    for operand in list {
        operands.push(split_operand(operand, &layout, &team, shape, faults, &mut fresh)?);
    }
    let part = |p: usize| {
        let mut own = shape.to_vec();
        own[layout.axis] = layout.rows_with_halo(p).len();
        let of_part = |operand: &ShardOperand| match operand {
            ShardOperand::Replicated(operand) => operand.clone(),
            ShardOperand::Parts(parts) => parts[p].clone(),
        };
        let exec = exec.on(&team.contexts[p]);
        graph::defer(&exec, op, operands.iter().map(of_part).collect(), scalar, element.clone(), &own)
    };
    let parts = (0..layout.parts()).map(part).collect::<HostResult<Vec<Array>>>()?;
    let outer = if element.lanes() > 1 { &shape[..shape.len() - 1] } else { shape };
    Sharded::into_array(element.clone(), outer, layout, team, ShardState { parts, fresh }).map(Some)
}

/// The operands of an elementwise operation, all sharded with the same layout.
pub(crate) struct PartitionedOperands {
    pub layout: ShardLayout,
    pub team: ShardDevices,
    /// The shards of each array. If an array broadcasts along the sharded axis, each shard uses the whole array.
    pub parts: Vec<Vec<Array>>,
}

/// Shards arrays that broadcast to this shape with a common layout, and updates their halos. `None` if the result
/// cannot have the layout of one of the arrays.
pub(crate) fn partition_operands(arrays: &[Array], shape: &[usize]) -> HostResult<Option<PartitionedOperands>> {
    let operands: Vec<NodeOperand> = arrays.iter().map(|a| NodeOperand::Array(a.clone(), a.shape().to_vec())).collect();
    let Some((layout, team)) = operands.iter().find_map(|operand| layout_of_result(operand, shape)) else {
        return Ok(None);
    };
    let mut parts = Vec::with_capacity(arrays.len());
    for (operand, array) in operands.iter().zip(arrays) {
        let of_part = |operand: NodeOperand| match operand {
            NodeOperand::Array(array, _) => array,
            NodeOperand::Scalar(_) => array.clone(),
        };
        parts.push(match split_operand(operand, &layout, &team, shape, true, &mut true)? {
            ShardOperand::Replicated(operand) => {
                let whole = of_part(operand);
                team.contexts
                    .iter()
                    .map(|context| sharded::replicate(&whole, context))
                    .collect::<HostResult<Vec<Array>>>()?
            }
            ShardOperand::Parts(parts) => parts.into_iter().map(of_part).collect(),
        });
    }
    Ok(Some(PartitionedOperands { layout, team, parts }))
}

/// Returns the layout and the devices of a result of this shape, if it can be sharded like this operand.
fn layout_of_result(operand: &NodeOperand, shape: &[usize]) -> Option<(ShardLayout, ShardDevices)> {
    let NodeOperand::Array(array, own) = operand else { return None };
    let sharded = as_sharded(array)?;
    let layout = sharded.layout();
    let axis = shape.len().checked_sub(own.len())? + layout.axis;
    (shape.get(axis) == Some(&layout.len())).then(|| (layout.with_axis(axis), sharded.team().clone()))
}

/// Splits an operand for the shards of a result of this shape. Sets `fresh` to false if halos of the operand are stale.
/// If the operation may fault, exchanges stale halos instead, so that stale values cannot cause a fault.
fn split_operand(
    operand: &NodeOperand,
    layout: &ShardLayout,
    team: &ShardDevices,
    shape: &[usize],
    faults: bool,
    fresh: &mut bool,
) -> HostResult<ShardOperand> {
    let NodeOperand::Array(array, own) = operand else { return Ok(ShardOperand::Replicated(operand.clone())) };
    let sharded = as_sharded(array);
    let axis = (layout.axis + own.len()).checked_sub(shape.len());
    let Some(axis) = axis.filter(|&axis| own.get(axis) == Some(&layout.len()) && axis < array.rank()) else {
        // The operand broadcasts along the sharded axis, so that each shard uses it whole.
        let whole = sharded.map(|sharded| sharded.gather_all()).transpose()?.unwrap_or_else(|| array.clone());
        return Ok(ShardOperand::Replicated(NodeOperand::Array(whole, own.clone())));
    };
    let layout = layout.with_axis(axis);
    let sharded = match sharded {
        Some(sharded) if *sharded.layout() == layout && sharded.team().has_same_devices(team) => Some(sharded),
        _ => as_sharded(&sharded::shard(array, &layout, team)?),
    };
    let Some(sharded) = sharded else { return Ok(ShardOperand::Replicated(operand.clone())) };
    if faults {
        sharded.exchange_halos()?;
    }
    let state = sharded.parts();
    *fresh &= state.fresh;
    let operand = |array: Array| {
        let own = padded_shape(&array, own.len());
        NodeOperand::Array(array, own)
    };
    Ok(ShardOperand::Parts(state.parts.into_iter().map(operand).collect()))
}

/// Returns the shape of an operand, extended to `rank` axes with leading axes of extent 1. The components of vectors
/// are the last axis.
fn padded_shape(array: &Array, rank: usize) -> Vec<usize> {
    let mut own = scalar_shape(array.element(), array.shape());
    // In an operation with vectors, scalars get a last axis of extent 1.
    own.resize(rank, 1);
    own
}

/// Applies an operation that treats each row along the sharded axis separately. In its result, this is the axis `axis`.
/// With `exact`, the operation may fault, so that stale halos are exchanged first.
pub(crate) fn lift_rows(
    exec: &ExecContext,
    sharded: &Sharded,
    axis: usize,
    exact: bool,
    mut of_part: impl FnMut(&ExecContext, usize, &Array) -> HostResult<Array>,
) -> HostResult<Array> {
    if exact {
        sharded.exchange_halos()?;
    }
    let (layout, team) = (sharded.layout().with_axis(axis), sharded.team().clone());
    let ShardState { parts, fresh } = sharded.parts();
    let mut done = Vec::with_capacity(parts.len());
    for (p, part) in parts.iter().enumerate() {
        done.push(of_part(&exec.on(&team.contexts[p]), p, part)?);
    }
    let Some(first) = done.first() else { return Array::zeros(sharded.element().clone(), sharded.shape()) };
    let (element, mut shape) = (first.element().clone(), first.shape().to_vec());
    shape[axis] = layout.len();
    Sharded::into_array(element, &shape, layout, team, ShardState { parts: done, fresh })
}

/// Applies a function to the rows that each shard owns.
pub(crate) fn map_owned_parts<T>(
    exec: &ExecContext,
    sharded: &Sharded,
    mut of_part: impl FnMut(&ExecContext, &Array) -> HostResult<T>,
) -> HostResult<Vec<T>> {
    let parts = sharded.own_parts()?;
    let mut done = Vec::with_capacity(parts.len());
    for (p, part) in parts.iter().enumerate() {
        done.push(of_part(&exec.on(&sharded.team().contexts[p]), part)?);
    }
    Ok(done)
}

/// Slices a sharded array. `axes` must read the whole sharded axis in order, or one of its rows.
pub(crate) fn lift_slice(
    exec: &ExecContext,
    sharded: &Sharded,
    axes: &[graph::ViewAxis],
    shape: &[usize],
) -> HostResult<Option<Array>> {
    let layout = sharded.layout();
    let cut = axes[layout.axis];
    if cut.step == 0 {
        let Some((owner, _)) = layout.owners(cut.start..cut.start + 1).next() else { return Ok(None) };
        let mut axes = axes.to_vec();
        axes[layout.axis].start -= layout.rows_with_halo(owner).start;
        let exec = exec.on(&sharded.team().contexts[owner]);
        return graph::make_view(&exec, &sharded.parts().parts[owner], axes, shape).map(Some);
    }
    if (cut.start, cut.step) != (0, 1) || shape.get(cut.axis) != Some(&layout.len()) {
        return Ok(None);
    }
    let picked = lift_rows(exec, sharded, cut.axis, false, |exec, p, part| {
        let mut own = shape.to_vec();
        own[cut.axis] = layout.rows_with_halo(p).len();
        graph::make_view(exec, part, axes.to_vec(), &own)
    })?;
    Ok(Some(picked))
}

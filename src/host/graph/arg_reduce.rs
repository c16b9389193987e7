//! Arg-reduction: the positions of the smallest or largest elements along an axis. The first of several equal elements
//! wins; NaNs are skipped; the position is 0 if all elements are NaN. The computation uses the same rounds as
//! [`reduce`](mod@crate::graph::reduce), on pairs of an element and its position. The order of combination does
//! not affect the result.

use crate::array::{Array, ElementType};
use crate::graph::context::ExecContext;
use crate::graph::evaluate::{self, internal_error};
use crate::graph::kernel_builder::{self, ArgReduceRound, MAX_AXES};
use crate::graph::library_kernels;
use crate::graph::node::ReductionShape;
use crate::graph::plan::{FusionPlan, OperandSource, PlanInput};
use crate::graph::reduce::{MAX_HOST_SCALARS, MAX_I32_EXTENT, PlannedReduction, plan_reduction};
use crate::graph::row_plan::round_results;
use crate::problem::HostResult;
use clk_runtime::storage::Storage;
use clk_runtime::{Arg, LaunchExtents};
use clk_scalar::ops::BinaryOp;
use clk_scalar::{Scalar, ScalarValue, dynamic};

/// Returns the positions of the largest or the smallest elements along the rows of an array. The parameters have the
/// same meaning as in [`reduce`](crate::graph::reduce::reduce).
pub(crate) fn arg_reduce(
    context: &ExecContext,
    largest: bool,
    array: &Array,
    shape: &[usize],
    groups: &[u8],
    rows: ReductionShape,
) -> HostResult<Option<Array>> {
    let ReductionShape { outer, len, inner } = rows;
    let scalar = array.scalar().ok_or_else(|| internal_error("the least of structs"))?;
    let is_on_host = array.data().computed().is_some_and(|storage| storage.here().is_some());
    if outer * len * inner <= MAX_HOST_SCALARS && is_on_host {
        return arg_reduce_on_host(largest, array, scalar, rows).map(Some);
    }
    let Some(PlannedReduction { context, mut plan, element, mut axis }) =
        plan_reduction(context, array, shape, groups, rows, scalar.size())?
    else {
        return Ok(None);
    };
    let (mut remaining, mut element, mut position) = (len, element, None);
    loop {
        let results = round_results(remaining);
        let index = if remaining > MAX_I32_EXTENT { Scalar::I64 } else { Scalar::I32 };
        let round = ArgReduceRound { element, position, axis, index, scalar, largest };
        let (values, positions) = launch_round(&plan, &round, remaining, results, &context)?;
        let shape = [outer, results, inner];
        let positions = Array::with_storage(ElementType::Scalar(Scalar::I32), &shape, positions)?;
        if results == 1 {
            return Ok(Some(positions));
        }
        let values = Array::with_storage(ElementType::Scalar(scalar), &shape, values)?;
        let strides = vec![(results * inner) as isize, inner as isize, 1];
        let input =
            |array: Array, scalar| PlanInput { array, scalar, strides: strides.clone(), offset: None, gathers: vec![] };
        plan = FusionPlan {
            axes: shape.to_vec(),
            inputs: vec![input(values, scalar), input(positions, Scalar::I32)],
            ..FusionPlan::default()
        };
        (element, position, axis, remaining) = (OperandSource::Input(0), Some(OperandSource::Input(1)), 1, results);
    }
}

/// Runs one round, which reduces `len` elements along the axis to `round_results` elements. Returns the best elements
/// and their positions.
fn launch_round(
    plan: &FusionPlan,
    round: &ArgReduceRound,
    len: usize,
    round_results: usize,
    context: &ExecContext,
) -> HostResult<(Storage, Storage)> {
    let mut key = plan.cache_key();
    for source in [Some(round.element), round.position].into_iter().flatten() {
        key.extend(match source {
            OperandSource::Input(i) => [252, i as u8],
            OperandSource::Step(i) => [253, i as u8],
            OperandSource::Scalar(_) | OperandSource::Constant(_) => {
                return Err(internal_error("the least of a scalar"));
            }
        });
    }
    key.extend([254, round.axis as u8, round.index as u8, round.scalar as u8, round.largest.into()]);
    let executable = context.kernel(key, || {
        evaluate::load_kernel(context, kernel_builder::arg_reduce_kernel(plan, round), plan.has_guards)
    })?;
    let mut axes = plan.axes.clone();
    axes[round.axis] = round_results;
    let count = axes.iter().product::<usize>();
    let (mut values, mut positions) = (Storage::unset(count * round.scalar.size()), Storage::unset(count * 4));
    let mut args = evaluate::input_args(plan)?;
    args.push(Arg::ArrayMut { storage: &mut values, shape: evaluate::to_extents(&axes) });
    args.push(Arg::ArrayMut { storage: &mut positions, shape: evaluate::to_extents(&axes) });
    args.extend(plan.scalars.iter().map(|value| Arg::Value(vec![*value])));
    args.extend(
        [round_results, len / round_results, len]
            .map(|n| Arg::Value(vec![ScalarValue::of(n as i64).to_type(round.index)])),
    );
    let mut space = [1; MAX_AXES];
    space.iter_mut().zip(&axes).for_each(|(slot, &n)| *slot = n as u32);
    library_kernels::launch(
        context,
        &*executable,
        LaunchExtents::Threads(space),
        &mut args,
        &round.scalar.into(),
        &axes,
    )?;
    drop(args);
    Ok((values, positions))
}

fn arg_reduce_on_host(
    largest: bool,
    array: &Array,
    scalar: Scalar,
    ReductionShape { outer, len, inner }: ReductionShape,
) -> HostResult<Array> {
    let bytes = array.bytes()?;
    let order = if largest { BinaryOp::Gt } else { BinaryOp::Lt };
    let mut result = Array::zeros(Scalar::I32, &[outer, 1, inner])?;
    for (column, place) in result.items_mut::<i32>()?.iter_mut().enumerate() {
        let (block, within) = (column / inner, column % inner);
        let mut so_far: Option<ScalarValue> = None;
        for row in 0..len {
            let at = ((block * len + row) * inner + within) * scalar.size();
            let value = ScalarValue::from_bytes(scalar, bytes.get(at..).unwrap_or(&[]));
            let is_better = match so_far {
                _ if value.is_nan() => false,
                Some(so_far) => dynamic::binary(order, value, so_far).map_err(evaluate::scalar_error)?.is_true(),
                None => true,
            };
            if is_better {
                (so_far, *place) = (Some(value), row as i32);
            }
        }
    }
    Ok(result)
}

//! Positions of the least or the largest elements along an axis: of several the first, NaNs skipped, 0 where there is nothing else.
//!
//! The rounds are those of [`fold`](mod@crate::host::graph::fold); what they combine are elements with their positions. The result
//! does not depend on the order.

use crate::device::storage::Storage;
use crate::device::{Arg, Extents};
use crate::host::array::{Array, Element};
use crate::host::graph::emit::{self, AXES, Best};
use crate::host::graph::fold::{LONG, Lined, SMALL, lined};
use crate::host::graph::library;
use crate::host::graph::node::Rows;
use crate::host::graph::plan::{Input, Plan, Source};
use crate::host::graph::row_plan::results;
use crate::host::graph::run::{self, broken};
use crate::host::graph::site::Site;
use crate::host::problem::Outcome;
use crate::lang::ops::BinaryOp;
use crate::lang::scalar::{Scalar, Value, dynamic};

/// Returns the positions along the rows of an array, as [`fold`](crate::host::graph::fold::fold) reduces them, of the largest or
/// of the least elements.
pub(crate) fn best(largest: bool, array: &Array, shape: &[usize], groups: &[u8], rows: Rows) -> Outcome<Option<Array>> {
    let Rows { outer, len, inner } = rows;
    let scalar = array.scalar().ok_or_else(|| broken("the least of structs"))?;
    let here = array.data().computed().is_some_and(|storage| storage.here().is_some());
    if outer * len * inner <= SMALL && here {
        return on_host(largest, array, scalar, rows).map(Some);
    }
    let Some(Lined { site, mut plan, element, mut axis }) = lined(array, shape, groups, rows, scalar.size())? else {
        return Ok(None);
    };
    let (mut left, mut element, mut position) = (len, element, None);
    loop {
        let results = results(left);
        let index = if left > LONG { Scalar::I64 } else { Scalar::I32 };
        let round = Best { element, position, axis, index, scalar, largest };
        let (values, positions) = launch(&plan, &round, (left, results), &site)?;
        let shape = [outer, results, inner];
        let positions = Array::with_storage(Element::Scalar(Scalar::I32), &shape, positions)?;
        if results == 1 {
            return Ok(Some(positions));
        }
        let values = Array::with_storage(Element::Scalar(scalar), &shape, values)?;
        let strides = vec![(results * inner) as isize, inner as isize, 1];
        let input = |array: Array, scalar| Input { array, scalar, strides: strides.clone(), view: None, picks: vec![] };
        plan = Plan {
            axes: shape.to_vec(),
            inputs: vec![input(values, scalar), input(positions, Scalar::I32)],
            ..Plan::default()
        };
        (element, position, axis, left) = (Source::Input(0), Some(Source::Input(1)), 1, results);
    }
}

/// Runs a round; returns the best elements and their positions.
fn launch(plan: &Plan, round: &Best, (len, results): (usize, usize), site: &Site) -> Outcome<(Storage, Storage)> {
    let mut key = plan.key();
    for source in [Some(round.element), round.position].into_iter().flatten() {
        key.extend(match source {
            Source::Input(i) => [252, i as u8],
            Source::Step(i) => [253, i as u8],
            Source::Scalar(_) | Source::Constant(_) => return Err(broken("the least of a scalar")),
        });
    }
    key.extend([254, round.axis as u8, round.index as u8, round.scalar as u8, round.largest.into()]);
    let executable = site.kernel(key, || run::load(site, emit::best(plan, round), plan.guards))?;
    let mut axes = plan.axes.clone();
    axes[round.axis] = results;
    let count = axes.iter().product::<usize>();
    let (mut values, mut positions) = (Storage::unset(count * round.scalar.size()), Storage::unset(count * 4));
    let mut args = run::inputs(plan)?;
    args.push(Arg::ArrayMut { storage: &mut values, shape: run::extents(&axes) });
    args.push(Arg::ArrayMut { storage: &mut positions, shape: run::extents(&axes) });
    args.extend(plan.scalars.iter().map(|value| Arg::Value(vec![*value])));
    args.extend([results, len / results, len].map(|n| Arg::Value(vec![Value::of(n as i64).to_type(round.index)])));
    let mut space = [1; AXES];
    space.iter_mut().zip(&axes).for_each(|(slot, &n)| *slot = n as u32);
    library::launch(site, &*executable, Extents::Threads(space), &mut args, (&round.scalar.into(), &axes))?;
    drop(args);
    Ok((values, positions))
}

fn on_host(largest: bool, array: &Array, scalar: Scalar, Rows { outer, len, inner }: Rows) -> Outcome<Array> {
    let bytes = array.bytes()?;
    let order = if largest { BinaryOp::Gt } else { BinaryOp::Lt };
    let mut result = Array::zeros(Scalar::I32, &[outer, 1, inner])?;
    for (column, place) in result.items_mut::<i32>()?.iter_mut().enumerate() {
        let (block, within) = (column / inner, column % inner);
        let mut so_far: Option<Value> = None;
        for row in 0..len {
            let at = ((block * len + row) * inner + within) * scalar.size();
            let value = Value::from_bytes(scalar, bytes.get(at..).unwrap_or(&[]));
            let is_better = match so_far {
                _ if value.is_nan() => false,
                Some(so_far) => dynamic::binary(order, value, so_far).map_err(run::failed)?.is_true(),
                None => true,
            };
            if is_better {
                (so_far, *place) = (Some(value), row as i32);
            }
        }
    }
    Ok(result)
}

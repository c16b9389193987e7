//! Operations that are done part by part: elementwise ones, those on rows, slices, and transposes.
//!
//! Each function returns `None` where no operand is sharded in a way that lets the operation be done on parts; then whoever asks does it on
//! the gathered arrays.

use crate::host::array::{Array, Element};
use crate::host::graph::{self, Op, Operand, with_lanes};
use crate::host::problem::Outcome;
use crate::host::shard::layout::Layout;
use crate::host::shard::value::{self, Sharded, State, Team, of};
use crate::lang::scalar::Scalar;

/// An operand on parts.
enum Operands {
    /// The same for all.
    Whole(Operand),
    Parts(Vec<Operand>),
}

/// Applies an operation to each element; the arguments are those of [`graph::defer`].
pub(crate) fn each(
    op: Op,
    list: &[Operand],
    scalar: Scalar,
    element: &Element,
    shape: &[usize],
) -> Outcome<Option<Array>> {
    let Some((layout, team)) = list.iter().find_map(|operand| leads(operand, shape)) else { return Ok(None) };
    let faults = op.may_fault(list);
    let mut fresh = true;
    let mut operands = Vec::with_capacity(list.len());
    for operand in list {
        operands.push(split(operand, &layout, &team, shape, faults, &mut fresh)?);
    }
    let part = |p: usize| {
        let mut own = shape.to_vec();
        own[layout.axis] = layout.held(p).len();
        let of_part = |operand: &Operands| match operand {
            Operands::Whole(operand) => operand.clone(),
            Operands::Parts(parts) => parts[p].clone(),
        };
        let _at = team.sites[p].clone().enter();
        graph::defer(op, operands.iter().map(of_part).collect(), scalar, element.clone(), &own)
    };
    let parts = (0..layout.parts()).map(part).collect::<Outcome<Vec<Array>>>()?;
    let outer = if element.lanes() > 1 { &shape[..shape.len() - 1] } else { shape };
    Sharded::array(element.clone(), outer, layout, team, State { parts, fresh }).map(Some)
}

/// Arrays in parts, as an operation on each element takes them.
pub(crate) struct Apart {
    pub layout: Layout,
    pub team: Team,
    /// Of each array its parts; those of one that repeats along the cut axis are all of it.
    pub parts: Vec<Vec<Array>>,
}

/// Takes arrays that broadcast to this shape apart, with fresh halos; `None` if the result cannot be cut like one of them.
pub(crate) fn apart(arrays: &[Array], shape: &[usize]) -> Outcome<Option<Apart>> {
    let operands: Vec<Operand> = arrays.iter().map(|a| Operand::Array(a.clone(), a.shape().to_vec())).collect();
    let Some((layout, team)) = operands.iter().find_map(|operand| leads(operand, shape)) else { return Ok(None) };
    let mut parts = Vec::with_capacity(arrays.len());
    for (operand, array) in operands.iter().zip(arrays) {
        let of_part = |operand: Operand| match operand {
            Operand::Array(array, _) => array,
            Operand::Scalar(_) => array.clone(),
        };
        parts.push(match split(operand, &layout, &team, shape, true, &mut true)? {
            Operands::Whole(operand) => {
                let whole = of_part(operand);
                team.sites.iter().map(|site| value::replica(&whole, site)).collect::<Outcome<Vec<Array>>>()?
            }
            Operands::Parts(parts) => parts.into_iter().map(of_part).collect(),
        });
    }
    Ok(Some(Apart { layout, team, parts }))
}

/// Returns how a result of this shape is cut if it is as this operand is.
fn leads(operand: &Operand, shape: &[usize]) -> Option<(Layout, Team)> {
    let Operand::Array(array, own) = operand else { return None };
    let sharded = of(array)?;
    let layout = sharded.layout();
    let axis = shape.len().checked_sub(own.len())? + layout.axis;
    (shape.get(axis) == Some(&layout.len())).then(|| (layout.along(axis), sharded.team().clone()))
}

/// Returns an operand for each part of a result of this shape. `fresh` becomes false where halos of the operand are stale; if `faults`,
/// they are exchanged instead.
fn split(
    operand: &Operand,
    layout: &Layout,
    team: &Team,
    shape: &[usize],
    faults: bool,
    fresh: &mut bool,
) -> Outcome<Operands> {
    let Operand::Array(array, own) = operand else { return Ok(Operands::Whole(operand.clone())) };
    let sharded = of(array);
    let axis = (layout.axis + own.len()).checked_sub(shape.len());
    let Some(axis) = axis.filter(|&axis| own.get(axis) == Some(&layout.len()) && axis < array.rank()) else {
        // It repeats along the cut axis.
        let whole = sharded.map(|sharded| sharded.whole()).transpose()?.unwrap_or_else(|| array.clone());
        return Ok(Operands::Whole(Operand::Array(whole, own.clone())));
    };
    let layout = layout.along(axis);
    let sharded = match sharded {
        Some(sharded) if *sharded.layout() == layout && sharded.team().is(team) => Some(sharded),
        _ => of(&value::shard(array, &layout, team)?),
    };
    let Some(sharded) = sharded else { return Ok(Operands::Whole(operand.clone())) };
    if faults {
        sharded.refresh()?;
    }
    let state = sharded.parts();
    *fresh &= state.fresh;
    let operand = |array: Array| {
        let own = own_shape(&array, own.len());
        Operand::Array(array, own)
    };
    Ok(Operands::Parts(state.parts.into_iter().map(operand).collect()))
}

/// Returns the shape of an operand of so many axes, with the components of vectors if it has them.
fn own_shape(array: &Array, rank: usize) -> Vec<usize> {
    let mut own = with_lanes(array.element(), array.shape());
    // Scalars beside vectors.
    own.resize(rank, 1);
    own
}

/// Does something that does not look beyond a row of the cut axis: it gives an array in which that is `axis`. If `exact`, it may fault,
/// and does not see stale rows.
pub(crate) fn rows(
    sharded: &Sharded,
    axis: usize,
    exact: bool,
    mut of_part: impl FnMut(usize, &Array) -> Outcome<Array>,
) -> Outcome<Array> {
    if exact {
        sharded.refresh()?;
    }
    let (layout, team) = (sharded.layout().along(axis), sharded.team().clone());
    let State { parts, fresh } = sharded.parts();
    let mut done = Vec::with_capacity(parts.len());
    for (p, part) in parts.iter().enumerate() {
        let _at = team.sites[p].clone().enter();
        done.push(of_part(p, part)?);
    }
    let Some(first) = done.first() else { return Array::zeros(sharded.element().clone(), sharded.shape()) };
    let (element, mut shape) = (first.element().clone(), first.shape().to_vec());
    shape[axis] = layout.len();
    Sharded::array(element, &shape, layout, team, State { parts: done, fresh })
}

/// Does something with the rows that each part owns.
pub(crate) fn each_own<T>(sharded: &Sharded, mut of_part: impl FnMut(&Array) -> Outcome<T>) -> Outcome<Vec<T>> {
    let parts = sharded.own_parts()?;
    let mut done = Vec::with_capacity(parts.len());
    for (p, part) in parts.iter().enumerate() {
        let _at = sharded.team().sites[p].clone().enter();
        done.push(of_part(part)?);
    }
    Ok(done)
}

/// Picks from a sharded array, read as `axes` say: all of the cut axis in order, or one of its rows.
pub(crate) fn pick(sharded: &Sharded, axes: &[graph::Along], shape: &[usize]) -> Outcome<Option<Array>> {
    let layout = sharded.layout();
    let cut = axes[layout.axis];
    if cut.step == 0 {
        let Some((owner, _)) = layout.owners(cut.start..cut.start + 1).next() else { return Ok(None) };
        let mut axes = axes.to_vec();
        axes[layout.axis].start -= layout.held(owner).start;
        let _at = sharded.team().sites[owner].clone().enter();
        return graph::view(&sharded.parts().parts[owner], axes, shape).map(Some);
    }
    if (cut.start, cut.step) != (0, 1) || shape.get(cut.axis) != Some(&layout.len()) {
        return Ok(None);
    }
    let picked = rows(sharded, cut.axis, false, |p, part| {
        let mut own = shape.to_vec();
        own[cut.axis] = layout.held(p).len();
        graph::view(part, axes.to_vec(), &own)
    })?;
    Ok(Some(picked))
}

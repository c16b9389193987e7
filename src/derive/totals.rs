//! Adjoints that are sums over all threads: of values, and of elements at constant indices, such as the weights of a stencil.
//!
//! Input: a reverse derivative over an index space, in which every thread adds to the same few elements. Output: a kernel of fewer
//! threads, each of which computes what many threads of the launch would have added, and keeps the sums, in `f64`, in an array of its
//! own; what calls it adds them up. Nothing is atomic, and the extents of the launch alone decide the order of the additions.

use super::def::{Role, Totals};
use super::lost::Lost;
use super::repeat::{Addition, Copies, additions, free_name};
use super::rules::constant;
use crate::base::arena::Arena;
use crate::ir::build::{FunctionBuilder, Range};
use crate::ir::def::*;
use crate::ir::typing::I32;
use crate::pass::edit;

/// The most sums.
const MOST: usize = 64;

/// An addition to an element that is the same for all threads.
pub(super) struct Common {
    addition: Addition,
    ty: Ty,
    /// The indices; of a value, the component if it is a vector.
    at: Vec<u32>,
}

/// Returns the additions to an adjoint, if all go to elements that are the same for all threads.
pub(super) fn common(body: &Function, memory: MemId, is_value: bool) -> Option<Vec<Common>> {
    let [leaf] = &body.memories[memory].layout.leaves[..] else { return None };
    let scalar = leaf.ty.scalar();
    if !matches!(scalar, Scalar::F32 | Scalar::F64) || !is_value && leaf.ty.lanes() > 1 {
        return None;
    }
    let index = |&id: &ExprId| u32::try_from(edit::integer_of(body, id)?).ok();
    let element = |place: &Place| match place.component {
        _ if !is_value => place.indices.iter().map(index).collect(),
        None if leaf.ty.lanes() > 1 => None,
        component => Some(component.map(u32::from).into_iter().collect()),
    };
    let found = additions(body, memory)?.into_iter().enumerate().map(|(number, place)| {
        Some(Common { addition: (memory, number), ty: Ty::Scalar(scalar), at: element(place)? })
    });
    found.collect::<Option<Vec<Common>>>().filter(|found| !found.is_empty())
}

/// Makes the kernel of the sums of these additions, each with the parameter whose adjoint it is a part of.
pub(super) fn totals(
    (made, roles, held): (&Module, &[Role], &[Place]),
    all: &[(usize, Common)],
) -> Result<Option<Totals>, Lost> {
    if all.is_empty() || all.len() > MOST {
        return Ok(None);
    }
    let mut b = FunctionBuilder::new("totals");
    let (copies, mut params) = Copies::begin(&mut b, (made, roles, held), None);
    let rank = copies.space.len();
    let sums = b.array(free_name(made, "sums"), Access::Out, Layout::plain(Ty::Scalar(Scalar::F64)), rank + 1);
    params.push(Role::Sums(all.len() as u32));
    let mut functions = Arena::default();
    let wanted: Vec<(Addition, Ty)> = all.iter().map(|(_, common)| (common.addition, common.ty)).collect();
    let copy = functions.push(copies.copy("parts".into(), &wanted));
    let locals: Vec<LocalId> = all
        .iter()
        .map(|_| {
            let zero = constant(&mut b, Ty::Scalar(Scalar::F64), 0.0);
            b.variable("sum", zero)
        })
        .collect();
    let types: Vec<Ty> = wanted.iter().map(|(_, ty)| *ty).collect();
    let limits = copies.limits(&mut b);
    nest(&mut b, &limits, sums, &mut vec![], &mut |b, thread| {
        for (part, &local) in copies.call(b, copy, &types, thread).into_iter().zip(&locals) {
            let (before, part) = (b.read(local), b.convert(part, Scalar::F64));
            let next = b.binary(BinOp::Add, before, part);
            b.write(local, next);
        }
    });
    for (number, &local) in locals.iter().enumerate() {
        let mut at = vec![b.i32(number as i32)];
        at.extend((0..rank).map(|k| b.index(k as u8)));
        let sum = b.read(local);
        b.store(sums, &at, sum);
    }
    let module = copies.finish(made, functions, b, "sums")?;
    let sums = all.iter().map(|(param, common)| (*param, common.at.clone())).collect();
    Ok(Some(Totals { module, params, sums }))
}

/// Loops over the threads of the launch that a thread stands for: along each axis from its own index on, in steps of as many threads as
/// there are.
fn nest(
    b: &mut FunctionBuilder,
    space: &[ExprId],
    sums: MemId,
    thread: &mut Vec<ExprId>,
    fill: &mut dyn FnMut(&mut FunctionBuilder, &[ExprId]),
) {
    let axis = thread.len();
    let Some(&end) = space.get(axis) else { return fill(b, thread) };
    let (label, local) = (b.label(), b.local("of", I32));
    let (start, step) = (b.index(axis as u8), b.extent(sums, axis as u8 + 1));
    let body = b.in_block(|b| {
        thread.push(b.read(local));
        nest(b, space, sums, thread, fill);
        thread.pop();
    });
    // The loads of several iterations are in flight together.
    let unroll = if axis + 1 == space.len() { Unroll::By(4) } else { Unroll::Auto };
    b.for_(label, local, Range { start, end, step, inclusive: false }, unroll, body);
}

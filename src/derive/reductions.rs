//! Adjoints that are sums over all threads: of by-value parameters, and of elements at constant indices, such as
//! stencil weights.
//!
//! Input: a reverse derivative over an index space in which every thread adds to the same few elements. Output: a
//! kernel with fewer threads. Each thread computes the additions of many threads of the original launch, and stores the
//! sums as `f64` in its own elements of an array. The caller adds up these elements. No atomics are needed, and the
//! order of the additions depends only on the launch's extents.

use super::derived::{DerivedParamRole, ReductionKernel};
use super::error::NotDifferentiable;
use super::recompute::{Addition, RecomputeKernel, ReverseKernel, additions, free_name};
use super::rules::constant;
use clk_base::arena::Arena;
use clk_ir::build::{FunctionBuilder, IrForRange};
use clk_ir::def::*;
use clk_ir::typing::I32;

/// The maximum number of sums that a reduction kernel computes.
const MAX_SUMS: usize = 64;

/// An addition to an element that is the same for all threads.
pub(super) struct UniformAddition {
    addition: Addition,
    ty: Ty,
    /// The indices of the element; for a by-value vector, the component.
    element: Vec<u32>,
}

/// Returns the additions to an adjoint, if each addition is to the same element in all threads.
pub(super) fn uniform_additions(body: &Function, memory: MemId, is_value: bool) -> Option<Vec<UniformAddition>> {
    let [leaf] = &body.memories[memory].layout.leaves[..] else { return None };
    let scalar = leaf.ty.scalar();
    if !matches!(scalar, Scalar::F32 | Scalar::F64) || !is_value && leaf.ty.lanes() > 1 {
        return None;
    }
    let index = |&id: &ExprId| u32::try_from(body.const_integer(id)?).ok();
    let element = |place: &Place| match place.component {
        _ if !is_value => place.indices.iter().map(index).collect(),
        None if leaf.ty.lanes() > 1 => None,
        component => Some(component.map(u32::from).into_iter().collect()),
    };
    let uniform = additions(body, memory)?.into_iter().enumerate().map(|(number, place)| {
        Some(UniformAddition { addition: (memory, number), ty: Ty::Scalar(scalar), element: element(place)? })
    });
    uniform.collect::<Option<Vec<UniformAddition>>>().filter(|uniform| !uniform.is_empty())
}

/// Generates the reduction kernel for these additions, each with the parameter to whose adjoint it adds.
pub(super) fn make_reduction_kernel(
    reverse: ReverseKernel<'_>,
    all: &[(usize, UniformAddition)],
) -> Result<Option<ReductionKernel>, NotDifferentiable> {
    if all.is_empty() || all.len() > MAX_SUMS {
        return Ok(None);
    }
    let mut b = FunctionBuilder::new("totals");
    let (copies, mut params) = RecomputeKernel::begin(&mut b, reverse, None);
    let rank = copies.space.len();
    let layout = ElementLayout::plain(Ty::Scalar(Scalar::F64));
    let sums = b.array(free_name(reverse.module, "sums"), Access::Out, layout, rank + 1);
    params.push(DerivedParamRole::Sums(all.len() as u32));
    let mut functions = Arena::default();
    let additions: Vec<(Addition, Ty)> = all.iter().map(|(_, addition)| (addition.addition, addition.ty)).collect();
    let copy = functions.push(copies.copy("parts".into(), &additions));
    let locals: Vec<LocalId> = all
        .iter()
        .map(|_| {
            let zero = constant(&mut b, Ty::Scalar(Scalar::F64), 0.0);
            b.variable("sum", zero)
        })
        .collect();
    let types: Vec<Ty> = additions.iter().map(|(_, ty)| *ty).collect();
    let limits = copies.limits(&mut b);
    nest_loops(&mut b, &limits, sums, &mut vec![], &mut |b, thread| {
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
    let module = copies.finish(reverse.module, functions, b, "sums")?;
    let sums = all.iter().map(|(param, addition)| (*param, addition.element.clone())).collect();
    Ok(Some(ReductionKernel { module, params, sums }))
}

/// Emits a grid-stride loop over the threads of the original launch. Along each axis, it starts at this thread's index
/// and advances by the number of threads of the reduction kernel.
fn nest_loops(
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
        nest_loops(b, space, sums, thread, fill);
        thread.pop();
    });
    // Unrolling lets the loads of several iterations overlap.
    let unroll = if axis + 1 == space.len() { Unroll::By(4) } else { Unroll::Auto };
    b.for_(label, local, IrForRange { start, end, step, inclusive: false }, unroll, body);
}

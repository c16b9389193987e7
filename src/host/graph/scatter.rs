//! Scatter on a GPU: assignment to the elements at positions that an array contains, as in `a[indices] = x`. If several
//! values are assigned to one element, the last one wins. To make the result independent of the order of threads, a
//! first kernel finds the last value of each element, and a second one writes only these values. Scatter-add sorts the
//! positions; one thread then adds all values of one element in their order.

use crate::array::{AlignedBytes, Array, ElementType, MAX_EXTENT};
use crate::graph::context::ExecContext;
use crate::graph::evaluate::{defer, internal_error, to_extents};
use crate::graph::gather::are_in_bounds;
use crate::graph::library_kernels::{self, LibraryArgument};
use crate::graph::node::{ElementwiseOp, NodeOperand};
use crate::graph::residency::{may_be_on_device, struct_words};
use crate::graph::sort;
use crate::problem::HostResult;
use clk_runtime::storage::Storage;
use clk_runtime::{Arg, LaunchExtents};
use clk_scalar::ops::BinaryOp;
use clk_scalar::{Scalar, ScalarValue};

/// The values that a scatter writes.
pub(crate) enum ScatterValues<'v> {
    /// The bytes of one element, which is written to all positions.
    Fill(&'v [u8]),
    /// One row of elements for each position.
    Rows(&'v Array),
    /// Like `Rows`, but no two positions are equal.
    UniqueRows(&'v Array),
}

/// Returns whether the array is on a GPU or may be computed there, so that the scatter should run on the GPU.
pub(crate) fn can_scatter_on_gpu(context: &ExecContext, array: &Array) -> bool {
    // `is_gpu` may initialize a device, so it is called only if necessary.
    may_be_on_device(context, array) && context.is_gpu()
}

/// Writes rows of values to an array at positions along its first axes. There is one list of positions per axis, with
/// one position for each row of values. Returns false without changing anything if the host must do it instead, for
/// example to report a position that is out of bounds.
pub(crate) fn scatter(
    context: &ExecContext,
    array: &mut Array,
    lists: &[&Array],
    values: &ScatterValues<'_>,
) -> HostResult<bool> {
    let Some((word, each)) = struct_words(array.element().size()).filter(|_| can_scatter_on_gpu(context, array)) else {
        return Ok(false);
    };
    let Some((writer, width)) = ScatterKernel::new(context, array, lists, each)? else { return Ok(false) };
    let (count, rows) = (writer.count, writer.rows);
    let own = array.element().clone();
    // The values are computed before the array is written, because they may depend on the same array.
    let (name, first) = match values {
        ScatterValues::Fill(bytes) => {
            let bytes = AlignedBytes::copy_of(bytes).ok_or_else(|| internal_error("an element without memory"))?;
            ("put_all", vec![(Storage::of_bytes(bytes), vec![each])])
        }
        ScatterValues::Rows(_) => ("put_rows", vec![(writer.last_rows(&own)?, vec![rows])]),
        ScatterValues::UniqueRows(_) => ("put_each", Vec::new()),
    };
    let value_rows = match values {
        ScatterValues::Fill(_) => None,
        ScatterValues::Rows(value_rows) | ScatterValues::UniqueRows(value_rows) => Some((*value_rows).clone()),
    };
    let mut args = vec![writer.at()?];
    args.extend(first.iter().map(|(storage, shape)| Arg::Array { storage, shape: to_extents(shape) }));
    if let Some(value_rows) = &value_rows {
        args.push(Arg::Array { storage: value_rows.storage()?, shape: to_extents(&[count, width]) });
    }
    args.push(Arg::ArrayMut { storage: array.storage_mut()?, shape: to_extents(&[rows, width]) });
    writer.launch(name, &[LibraryArgument::Type(word)], [count, width], args, &own)?;
    Ok(true)
}

/// Scatter-add: returns an array of the shape of `array`, in which each element is the sum of the rows' values at its
/// position, in their order, or zero. Float sums are computed in `f64` and rounded once. `None` if the host must do it
/// instead.
pub(crate) fn scatter_add(
    context: &ExecContext,
    array: &Array,
    lists: &[&Array],
    rows: &Array,
) -> HostResult<Option<Array>> {
    let own = array.element().clone();
    let Some(scalar) = own.scalar() else { return Ok(None) };
    let Some((writer, width)) = ScatterKernel::new(context, array, lists, own.lanes())? else { return Ok(None) };
    let (count, places) = (writer.count, writer.rows);
    let Some(order) = sort::gpu_sort_positions(context, &writer.at, Scalar::I32, Some(places))? else {
        return Ok(None);
    };
    let mut sums = Storage::zeros(places * width * scalar.size());
    let mut args = vec![writer.at()?, Arg::Array { storage: order.storage()?, shape: to_extents(&[count]) }];
    args.push(Arg::Array { storage: rows.storage()?, shape: to_extents(&[count, width]) });
    args.push(Arg::ArrayMut { storage: &mut sums, shape: to_extents(&[places, width]) });
    writer.launch("add_rows", &[LibraryArgument::Type(scalar)], [count, width], args, &own)?;
    Array::with_storage(own, &writer.shape, sums).map(Some)
}

/// Combines positions along several axes to linear (row-major) positions.
fn flat_positions(context: &ExecContext, lists: &[&Array], axes: &[usize]) -> HostResult<Array> {
    let mut sum: Option<Array> = None;
    for (axis, list) in lists.iter().enumerate() {
        let shape = list.shape().to_vec();
        let apply = |op: ElementwiseOp, operands: Vec<NodeOperand>| {
            defer(context, op, operands, Scalar::I32, Scalar::I32.into(), &shape)
        };
        let operand = |array: &Array| NodeOperand::Array(array.clone(), shape.clone());
        let mut at = (*list).clone();
        if at.scalar() != Some(Scalar::I32) {
            at = apply(ElementwiseOp::Convert(Scalar::I32), vec![operand(&at)])?;
        }
        let stride = axes[axis + 1..].iter().product::<usize>();
        if stride != 1 {
            let stride = NodeOperand::Scalar(ScalarValue::of(stride as i32));
            at = apply(ElementwiseOp::Binary(BinaryOp::Mul), vec![operand(&at), stride])?;
        }
        sum = Some(match sum {
            None => at,
            Some(sum) => apply(ElementwiseOp::Binary(BinaryOp::Add), vec![operand(&sum), operand(&at)])?,
        });
    }
    sum.ok_or_else(|| internal_error("an assignment without positions"))
}

struct ScatterKernel<'w> {
    context: &'w ExecContext,
    at: Array,
    count: usize,
    rows: usize,
    shape: Vec<usize>,
}

impl<'w> ScatterKernel<'w> {
    /// Prepares a scatter to an array whose elements consist of `each` words. Also returns the number of words of a
    /// row. `None` if the array is empty or too large, or if a position is out of bounds.
    fn new(
        context: &'w ExecContext,
        array: &Array,
        lists: &[&Array],
        each: usize,
    ) -> HostResult<Option<(ScatterKernel<'w>, usize)>> {
        let (axes, rest) = array.shape().split_at(lists.len().min(array.rank()));
        let (rows, width) = (axes.iter().product::<usize>(), rest.iter().product::<usize>() * each);
        let count = lists.first().map_or(0, |list| list.count());
        if ![count, width, rows].iter().all(|&n| (1..MAX_EXTENT).contains(&n)) {
            return Ok(None);
        }
        for (list, &len) in lists.iter().zip(axes) {
            if !are_in_bounds(list, len, context)? {
                return Ok(None);
            }
        }
        let at = flat_positions(context, lists, axes)?;
        Ok(Some((ScatterKernel { context, at, count, rows, shape: array.shape().to_vec() }, width)))
    }

    fn at(&self) -> HostResult<Arg<'_>> {
        Ok(Arg::Array { storage: self.at.storage()?, shape: to_extents(&[self.count]) })
    }

    /// For each element of the first axes, returns 1 plus the index of the last row that is written to it; 0 if no row
    /// is.
    fn last_rows(&self, own: &ElementType) -> HostResult<Storage> {
        let mut last = Storage::zeros(self.rows * Scalar::I32.size());
        let args = vec![self.at()?, Arg::ArrayMut { storage: &mut last, shape: to_extents(&[self.rows]) }];
        self.launch("last_rows", &[], [self.count, 1], args, own)?;
        Ok(last)
    }

    fn launch(
        &self,
        name: &'static str,
        given: &[LibraryArgument],
        [count, width]: [usize; 2],
        mut args: Vec<Arg<'_>>,
        own: &ElementType,
    ) -> HostResult<()> {
        let executable = library_kernels::library_kernel(self.context, name, given)?;
        let space = LaunchExtents::Threads([count as u32, width as u32, 1]);
        library_kernels::launch(self.context, &*executable, space, &mut args, own, &self.shape)
    }
}

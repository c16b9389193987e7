//! Writing to positions that are an array, where the array is on a GPU: of several values for one element, the last one stays. A first
//! kernel finds the last one for each place; a second one writes those alone, so that no order of threads shows. What is added at
//! positions is added in their order: they are sorted, and a thread adds what goes to one place.

use crate::device::storage::Storage;
use crate::device::{Arg, Extents};
use crate::host::array::{AlignedBytes, Array, Element, MAX_EXTENT};
use crate::host::graph::library::{self, Given};
use crate::host::graph::node::{Op, Operand};
use crate::host::graph::pick::is_inside;
use crate::host::graph::place::{is_there, words};
use crate::host::graph::run::{broken, defer, extents};
use crate::host::graph::site::Site;
use crate::host::graph::sort;
use crate::host::problem::Outcome;
use crate::lang::ops::BinaryOp;
use crate::lang::scalar::{Scalar, Value};

/// What is written.
pub(crate) enum Values<'v> {
    /// The bytes of one element.
    One(&'v [u8]),
    /// Elements of the array's type, as many as are written; of `Each`, no two are for one place.
    Rows(&'v Array),
    Each(&'v Array),
}

/// Returns whether an array is written where it is.
pub(crate) fn takes(array: &Array) -> bool {
    // A device is looked for only if it is needed.
    is_there(array) && Site::current().is_gpu()
}

/// Writes to an array, at positions along its first axes; each list has one of them for each row that is written. Returns false if it has
/// done nothing: the host does it, or reports a position that is not inside.
pub(crate) fn put(array: &mut Array, lists: &[&Array], values: &Values<'_>) -> Outcome<bool> {
    let site = Site::current();
    let Some((word, each)) = words(array.element().size()).filter(|_| takes(array)) else { return Ok(false) };
    let Some((writer, width)) = Writer::new(&site, array, lists, each)? else { return Ok(false) };
    let (count, rows) = (writer.count, writer.rows);
    let own = array.element().clone();
    // What is read is computed before the array is written: it may be its own elements.
    let (name, first) = match values {
        Values::One(bytes) => {
            let bytes = AlignedBytes::copy_of(bytes).ok_or_else(|| broken("an element without memory"))?;
            ("put_all", vec![(Storage::of_bytes(bytes), vec![each])])
        }
        Values::Rows(_) => ("put_rows", vec![(writer.last(&own)?, vec![rows])]),
        Values::Each(_) => ("put_each", Vec::new()),
    };
    let given = match values {
        Values::One(_) => None,
        Values::Rows(given) | Values::Each(given) => Some((*given).clone()),
    };
    let mut args = vec![writer.at()?];
    args.extend(first.iter().map(|(storage, shape)| Arg::Array { storage, shape: extents(shape) }));
    if let Some(given) = &given {
        args.push(Arg::Array { storage: given.storage()?, shape: extents(&[count, width]) });
    }
    args.push(Arg::ArrayMut { storage: array.storage_mut()?, shape: extents(&[rows, width]) });
    writer.launch(name, &[Given::Type(word)], [count, width], args, &own)?;
    Ok(true)
}

/// Returns zeros like an array, to which rows are added at positions along its first axes, in the order of the positions: sums in `f64`,
/// rounded once. `None` if it has done nothing.
pub(crate) fn added(array: &Array, lists: &[&Array], rows: &Array) -> Outcome<Option<Array>> {
    let (site, own) = (Site::current(), array.element().clone());
    let Some(scalar) = own.scalar() else { return Ok(None) };
    let Some((writer, width)) = Writer::new(&site, array, lists, own.lanes())? else { return Ok(None) };
    let (count, places) = (writer.count, writer.rows);
    let Some(order) = sort::order_of(&site, &writer.at, Scalar::I32, Some(places))? else { return Ok(None) };
    let mut sums = Storage::zeros(places * width * scalar.size());
    let mut args = vec![writer.at()?, Arg::Array { storage: order.storage()?, shape: extents(&[count]) }];
    args.push(Arg::Array { storage: rows.storage()?, shape: extents(&[count, width]) });
    args.push(Arg::ArrayMut { storage: &mut sums, shape: extents(&[places, width]) });
    writer.launch("add_rows", &[Given::Type(scalar)], [count, width], args, &own)?;
    Array::with_storage(own, &writer.shape, sums).map(Some)
}

/// Returns where each row goes, counted over all axes.
fn flat(lists: &[&Array], axes: &[usize]) -> Outcome<Array> {
    let mut sum: Option<Array> = None;
    for (axis, list) in lists.iter().enumerate() {
        let shape = list.shape().to_vec();
        let apply = |op: Op, operands: Vec<Operand>| defer(op, operands, Scalar::I32, Scalar::I32.into(), &shape);
        let operand = |array: &Array| Operand::Array(array.clone(), shape.clone());
        let mut at = (*list).clone();
        if at.scalar() != Some(Scalar::I32) {
            at = apply(Op::Convert(Scalar::I32), vec![operand(&at)])?;
        }
        let stride = axes[axis + 1..].iter().product::<usize>();
        if stride != 1 {
            let stride = Operand::Scalar(Value::of(stride as i32));
            at = apply(Op::Binary(BinaryOp::Mul), vec![operand(&at), stride])?;
        }
        sum = Some(match sum {
            None => at,
            Some(sum) => apply(Op::Binary(BinaryOp::Add), vec![operand(&sum), operand(&at)])?,
        });
    }
    sum.ok_or_else(|| broken("an assignment without positions"))
}

struct Writer<'w> {
    site: &'w Site,
    at: Array,
    count: usize,
    rows: usize,
    shape: Vec<usize>,
}

impl<'w> Writer<'w> {
    /// Returns a writer of an array, each element of which is so many numbers, and the numbers of a row; `None` if there are too many, or
    /// none, or positions that are not inside.
    fn new(site: &'w Site, array: &Array, lists: &[&Array], each: usize) -> Outcome<Option<(Writer<'w>, usize)>> {
        let (axes, rest) = array.shape().split_at(lists.len().min(array.rank()));
        let (rows, width) = (axes.iter().product::<usize>(), rest.iter().product::<usize>() * each);
        let count = lists.first().map_or(0, |list| list.count());
        if ![count, width, rows].iter().all(|&n| (1..MAX_EXTENT).contains(&n)) {
            return Ok(None);
        }
        for (list, &len) in lists.iter().zip(axes) {
            if !is_inside(list, len, site)? {
                return Ok(None);
            }
        }
        let at = flat(lists, axes)?;
        Ok(Some((Writer { site, at, count, rows, shape: array.shape().to_vec() }, width)))
    }

    fn at(&self) -> Outcome<Arg<'_>> {
        Ok(Arg::Array { storage: self.at.storage()?, shape: extents(&[self.count]) })
    }

    /// Returns the number of the last row that goes to each place, from 1 on.
    fn last(&self, own: &Element) -> Outcome<Storage> {
        let mut last = Storage::zeros(self.rows * Scalar::I32.size());
        let args = vec![self.at()?, Arg::ArrayMut { storage: &mut last, shape: extents(&[self.rows]) }];
        self.launch("last_rows", &[], [self.count, 1], args, own)?;
        Ok(last)
    }

    fn launch(
        &self,
        name: &'static str,
        given: &[Given],
        [count, width]: [usize; 2],
        mut args: Vec<Arg<'_>>,
        own: &Element,
    ) -> Outcome<()> {
        let executable = library::kernel(self.site, name, given)?;
        let space = Extents::Threads([count as u32, width as u32, 1]);
        library::launch(self.site, &*executable, space, &mut args, (own, &self.shape))
    }
}

//! Writing to positions that are an array, where the array is on a GPU: of several values for one element, the last one stays. A first
//! kernel finds the last one for each place; a second one writes those alone, so that no order of threads shows.

use crate::device::storage::Storage;
use crate::device::{Arg, Extents};
use crate::host::array::{AlignedBytes, Array, Element, MAX_EXTENT};
use crate::host::graph::library::{self, Given};
use crate::host::graph::node::{Op, Operand};
use crate::host::graph::pick::is_inside;
use crate::host::graph::place::{is_there, words};
use crate::host::graph::run::{broken, defer, extents};
use crate::host::graph::site::Site;
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
    is_there(array) && Site::current().device().is_remote()
}

/// Writes to an array, at positions along its first axes; each list has one of them for each row that is written. Returns false if it has
/// done nothing: the host does it, or reports a position that is not inside.
pub(crate) fn put(array: &mut Array, lists: &[&Array], values: &Values<'_>) -> Outcome<bool> {
    let site = Site::current();
    let (axes, rest) = array.shape().split_at(lists.len().min(array.rank()));
    let (rows, behind) = (axes.iter().product::<usize>(), rest.iter().product::<usize>());
    let size = array.element().size();
    let Some((word, each)) = words(size) else { return Ok(false) };
    let (count, width) = (lists.first().map_or(0, |list| list.count()), behind * each);
    let fits = [count, width, rows].iter().all(|&n| (1..MAX_EXTENT).contains(&n));
    if !fits || !takes(array) {
        return Ok(false);
    }
    for (list, &len) in lists.iter().zip(axes) {
        if !is_inside(list, len, &site)? {
            return Ok(false);
        }
    }
    let at = flat(lists, axes)?;
    let writer = Writer { site: &site, at: &at, count, rows, shape: array.shape().to_vec() };
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
    at: &'w Array,
    count: usize,
    rows: usize,
    shape: Vec<usize>,
}

impl Writer<'_> {
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

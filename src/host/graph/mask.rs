//! Selections by masks: the positions that a mask on a GPU marks, and choosing one value there.

use crate::device::storage::Storage;
use crate::device::{Arg, Extents};
use crate::host::array::{Array, Element, MAX_EXTENT};
use crate::host::graph::library::{self, Given};
use crate::host::graph::node::{Op, Operand};
use crate::host::graph::pick::FEW;
use crate::host::graph::place::is_there;
use crate::host::graph::run::{broken, defer, extents};
use crate::host::graph::site::Site;
use crate::host::graph::view::with_lanes;
use crate::host::problem::Outcome;
use crate::lang::scalar::{Scalar, Value};

/// As in `std.scan`.
const TILE: usize = 4096;
const THREADS: u32 = 256;

/// Returns the positions, in order, of what a mask marks that selects from this array or writes to it; `None` if that is better done
/// on the host, as both are there.
pub(crate) fn marked(mask: &Array, array: &Array) -> Outcome<Option<Array>> {
    let (count, site) = (mask.count(), Site::current());
    // A device is looked for only if it is needed.
    let any = is_there(mask) || is_there(array);
    if !any || count == 0 || count > MAX_EXTENT - TILE || array.is_empty() || !site.device().is_remote() {
        return Ok(None);
    }
    let bytes = mask.seen_as(Element::Scalar(Scalar::U8), &[count])?;
    let (tiles, word) = (count.div_ceil(TILE), Element::Scalar(Scalar::I32));
    let grid = |blocks: usize, threads: u32| Extents::Grid { grid: [blocks as u32, 1, 1], block: [threads, 1, 1] };
    let input = || -> Outcome<Arg<'_>> { Ok(Arg::Array { storage: bytes.storage()?, shape: extents(&[count]) }) };
    let mut starts = Storage::zeros((tiles + 1) * word.size());
    let mut args = vec![input()?, Arg::ArrayMut { storage: &mut starts, shape: extents(&[tiles + 1]) }];
    let executable = library::kernel(&site, "marks", &[])?;
    library::launch(&site, &*executable, grid(tiles, THREADS), &mut args, (&word, &[tiles + 1]))?;
    drop(args);
    let mut args = [Arg::ArrayMut { storage: &mut starts, shape: extents(&[tiles + 1]) }];
    let executable = library::kernel(&site, "starts", &[Given::Type(Scalar::I32)])?;
    library::launch(&site, &*executable, grid(1, 1024), &mut args, (&word, &[tiles + 1]))?;
    let starts = Array::with_storage(word, &[tiles + 1], starts)?;
    let total = starts.item(tiles)?.and_then(|total| total.as_int());
    let total = total.and_then(|total| usize::try_from(total).ok()).ok_or_else(|| broken("a count of marks"))?;
    let (element, shape) = (Element::Scalar(Scalar::I32), [total]);
    if total == 0 {
        return Array::zeros(element, &shape).map(Some);
    }
    let mut storage = Storage::unset(total * element.size());
    let mut args = vec![
        input()?,
        Arg::Array { storage: starts.storage()?, shape: extents(&[tiles + 1]) },
        Arg::ArrayMut { storage: &mut storage, shape: extents(&shape) },
    ];
    let executable = library::kernel(&site, "places", &[])?;
    library::launch(&site, &*executable, grid(tiles, THREADS), &mut args, (&element, &shape))?;
    drop(args);
    let at = Array::with_storage(element, &shape, storage)?;
    at.data().note_below(Scalar::I32, count);
    Ok(Some(at))
}

/// Returns an array with this value where a mask holds, which has the shape of its first axes; `None` if that is better done in place,
/// on the host, as both are there.
pub(crate) fn chosen(array: &Array, mask: &Array, value: Value) -> Outcome<Option<Array>> {
    let own = array.element().clone();
    let is_near = !is_there(array) && !is_there(mask);
    if own != Element::Scalar(value.ty) || is_near || array.count() <= FEW {
        return Ok(None);
    }
    let mut over = mask.shape().to_vec();
    over.resize(array.rank(), 1);
    let shape = with_lanes(&own, array.shape());
    let operands =
        vec![Operand::Array(mask.clone(), over), Operand::Scalar(value), Operand::Array(array.clone(), shape.clone())];
    defer(Op::Select, operands, value.ty, own, &shape).map(Some)
}

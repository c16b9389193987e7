//! Selections by masks that a GPU has or computes: in, a mask and what it selects from; out, the elements there, or their positions, and
//! choosing one value there.
//!
//! A kernel of `std.scan` takes one pass over memory. A mask that compares an array with a number is no array in between: the kernel
//! compares.

use std::sync::Arc;

use crate::device::storage::Storage;
use crate::device::{Arg, Extents};
use crate::host::array::{AlignedBytes, Array, Element, MAX_EXTENT, no_memory};
use crate::host::graph::library::{self, Given};
use crate::host::graph::node::{Op, Operand, node_of};
use crate::host::graph::pick::FEW;
use crate::host::graph::place::is_there;
use crate::host::graph::run::{broken, defer, extents};
use crate::host::graph::site::{Held, Site};
use crate::host::graph::view::{Along, view, with_lanes};
use crate::host::problem::Outcome;
use crate::lang::ops::BinaryOp;
use crate::lang::scalar::{Scalar, Value};

/// As in `std.scan`.
const THREADS: usize = 512;
/// Elements of a thread; of large ones fewer, as shared memory holds what a block chooses.
const EACH: usize = 16;
const EACH_LARGE: usize = 8;
/// What is selected stays in memory for all elements unless it is so many times smaller.
const SPARSE: usize = 4;

/// What a kernel asks of the elements of an array: a function of `std.scan`, and what they are compared with.
struct Asked {
    by: Array,
    holds: &'static str,
    limit: Value,
}

impl Asked {
    fn of(mask: &Array) -> Outcome<Asked> {
        if let Some(compares) = Asked::compares(mask) {
            Held::used(mask);
            return Ok(compares);
        }
        let by = mask.seen_as(Element::Scalar(Scalar::U8), &[mask.count()])?;
        Ok(Asked { by, holds: "marked", limit: Value::zero(Scalar::U8) })
    }

    /// Returns what a deferred mask compares with a number, if that is an array that has been computed.
    fn compares(mask: &Array) -> Option<Asked> {
        let work = mask.data().work()?;
        let node = node_of(&*work)?;
        let (Op::Binary(op), operands) = (node.op, node.operands()) else { return None };
        let (array, shape, limit, op) = match &operands[..] {
            [Operand::Array(array, shape), Operand::Scalar(limit)] => (array, shape, limit, op),
            [Operand::Scalar(limit), Operand::Array(array, shape)] => (array, shape, limit, turned(op)),
            _ => return None,
        };
        let is_plain = array.scalar() == Some(limit.ty) && array.element().lanes() == 1 && limit.ty != Scalar::Bool;
        let is_computed = shape == &node.shape && array.count() == mask.count() && array.data().computed().is_some();
        let holds = match op {
            BinaryOp::Eq => "equal",
            BinaryOp::Ne => "unequal",
            BinaryOp::Lt => "below",
            BinaryOp::Le => "at_most",
            BinaryOp::Gt => "above",
            BinaryOp::Ge => "at_least",
            _ => return None,
        };
        (is_plain && is_computed).then(|| Asked { by: array.clone(), holds, limit: *limit })
    }
}

/// Returns the comparison with its operands the other way round.
fn turned(op: BinaryOp) -> BinaryOp {
    match op {
        BinaryOp::Lt => BinaryOp::Gt,
        BinaryOp::Le => BinaryOp::Ge,
        BinaryOp::Gt => BinaryOp::Lt,
        BinaryOp::Ge => BinaryOp::Le,
        other => other,
    }
}

/// Where the elements come from: see `chosen` in `std.scan`.
enum Chosen {
    Positions,
    Array(Array),
    Itself,
}

/// Returns the site of a GPU that selects by this mask from this array, or writes to it; `None` if that is better done on the host, as both
/// are there.
fn site(mask: &Array, array: &Array) -> Option<Site> {
    let any = is_there(mask) || is_there(array);
    let fits = mask.count() > 0 && mask.count() <= MAX_EXTENT - THREADS * EACH && !array.is_empty();
    // A device is looked for only if it is needed.
    (any && fits).then(Site::current).filter(|site| site.is_gpu())
}

/// Returns the positions, in order, of what a mask marks that selects from this array or writes to it; `None` if that is better done
/// on the host.
pub(crate) fn marked(mask: &Array, array: &Array) -> Outcome<Option<Array>> {
    let Some(site) = site(mask, array) else { return Ok(None) };
    let at = choose(&site, &Asked::of(mask)?, Chosen::Positions, Scalar::I32.into())?;
    at.data().note_below(Scalar::I32, mask.count());
    Ok(Some(at))
}

/// Returns the elements of an array, in order, that a mask of its shape marks; `None` if that is better done by their positions, or on the
/// host.
pub(crate) fn selected(array: &Array, mask: &Array) -> Outcome<Option<Array>> {
    let element = array.element().clone();
    let word = [Scalar::U8, Scalar::U16, Scalar::U32, Scalar::U64].into_iter().find(|w| w.size() == element.size());
    let (Some(word), true) = (word, array.shape() == mask.shape()) else { return Ok(None) };
    let Some(site) = site(mask, array) else { return Ok(None) };
    array.storage()?;
    let asked = Asked::of(mask)?;
    let is_same = Arc::ptr_eq(asked.by.data(), array.data()) && element == Element::Scalar(asked.limit.ty);
    let from = match is_same {
        true => Chosen::Itself,
        false => Chosen::Array(array.seen_as(Element::Scalar(word), &[array.count()])?),
    };
    Held::used(array);
    choose(&site, &asked, from, element).map(Some)
}

/// Runs the kernel, whose result has elements of this type.
fn choose(site: &Site, asked: &Asked, from: Chosen, element: Element) -> Outcome<Array> {
    let count = asked.by.count();
    let size = element.size();
    let each = if size > 4 { EACH_LARGE } else { EACH };
    let blocks = count.div_ceil(THREADS * each);
    let (scalar, mode) = match &from {
        Chosen::Positions => (Scalar::I32, 0),
        Chosen::Array(words) => (words.scalar().ok_or_else(|| broken("a selection of structs"))?, 1),
        Chosen::Itself => (asked.limit.ty, 2),
    };
    let given = [
        Given::Type(scalar),
        Given::Type(asked.limit.ty),
        Given::Function(asked.holds, asked.limit.ty),
        Given::Number(mode),
        Given::Number(each as i32),
    ];
    let executable = library::kernel(site, "chosen", &given)?;
    let (none, mut told) = (Storage::zeros(0), Storage::zeros(blocks * Scalar::U64.size()));
    let mut found = Storage::unset(count * size);
    let input = match &from {
        Chosen::Array(words) => Arg::Array { storage: words.storage()?, shape: extents(&[count]) },
        Chosen::Positions | Chosen::Itself => Arg::Array { storage: &none, shape: extents(&[0]) },
    };
    let mut args = [
        Arg::Array { storage: asked.by.storage()?, shape: extents(&[count]) },
        Arg::Value(vec![asked.limit]),
        input,
        Arg::ArrayMut { storage: &mut told, shape: extents(&[blocks]) },
        Arg::ArrayMut { storage: &mut found, shape: extents(&[count]) },
    ];
    let grid = Extents::Grid { grid: [blocks as u32, 1, 1], block: [THREADS as u32, 1, 1] };
    library::launch(site, &*executable, grid, &mut args, (&element, &[count]))?;
    drop(args);
    let told = Array::with_storage(Element::Scalar(Scalar::U64), &[blocks], told)?;
    let total = told.item(blocks - 1)?.and_then(|word| word.as_int());
    let total = total.map(|word| (word & 0xffff_ffff) as usize).filter(|&total| total <= count);
    let total = total.ok_or_else(|| broken("a count of marks"))?;
    if total == 0 {
        return Array::zeros(element, &[0]);
    }
    if total > count / SPARSE {
        let found = match found.here().and_then(|bytes| bytes.get(..total * size)) {
            // Here, where it is counted what a GPU does, which copies nothing.
            Some(bytes) => {
                let bytes = AlignedBytes::copy_of(bytes).ok_or_else(|| no_memory(&element, &[total]))?;
                Storage::of_bytes(bytes)
            }
            None => {
                found.cut(total * size);
                found
            }
        };
        return Array::with_storage(element, &[total], found);
    }
    let found = Array::with_storage(element, &[count], found)?;
    let part = Held::aside(|| view(&found, vec![Along::all(0)], &[total]))?;
    part.storage()?;
    Ok(part)
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

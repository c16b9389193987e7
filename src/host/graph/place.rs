//! Where the bytes of an array are, and arrays of vectors and structs as arrays of scalars.

use std::cell::Cell;

use crate::host::array::{Array, Element};
use crate::host::graph::site::Site;
use crate::host::problem::Outcome;
use crate::lang::scalar::Scalar;

/// Returns whether the host has the array.
pub(super) fn is_here(array: &Array) -> bool {
    array.data().computed().is_some_and(|storage| storage.here().is_some())
}

/// Returns whether a GPU has the array.
pub(super) fn is_far(array: &Array) -> bool {
    array.data().computed().is_some_and(|storage| storage.remote().is_some())
}

/// Returns whether a GPU has the array, or may compute it; all do where it is counted what they cost one.
pub(super) fn is_there(array: &Array) -> bool {
    array.data().computed().is_none() || is_far(array) || Site::current().counts()
}

/// Returns an array as one of scalars, and the extent of its last axis if that is one more: the components of vectors, or the words of
/// structs. `None` for structs without a size.
pub(super) fn in_scalars(array: &Array) -> Outcome<Option<(Array, Option<usize>)>> {
    let element = array.element();
    if element.scalar().is_some() {
        return Ok(Some((array.clone(), Some(element.lanes()).filter(|&lanes| lanes > 1))));
    }
    let Some((word, words)) = words(element.size()) else { return Ok(None) };
    let source = array.seen_as(Element::Scalar(word), &[array.shape(), &[words]].concat())?;
    Ok(Some((source, Some(words))))
}

/// Returns the largest words that a struct of so many bytes consists of, and their number.
pub(crate) fn words(size: usize) -> Option<(Scalar, usize)> {
    let fits = [Scalar::U32, Scalar::U16, Scalar::U8].into_iter().find(|word| size.is_multiple_of(word.size()))?;
    (size > 0).then(|| (fits, size / fits.size()))
}

thread_local! {
    static FOR_DEVICE: Cell<bool> = const { Cell::new(false) };
}

/// Computes an array that a kernel on a site's device reads.
pub(crate) fn prepare(array: &Array, site: &Site) -> Outcome<()> {
    let before = FOR_DEVICE.replace(site.device().is_remote());
    let computed = array.storage().map(drop);
    FOR_DEVICE.set(before);
    computed
}

/// Returns whether what is computed next is for a kernel of a device with memory of its own; what that needs is not.
pub(super) fn is_for_device() -> bool {
    FOR_DEVICE.replace(false)
}

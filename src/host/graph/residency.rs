//! Residency: whether the bytes of an array are on the host or on a GPU. Also converts arrays of vectors and structs to
//! arrays of scalars.

use crate::array::{Array, ElementType, Reader};
use crate::graph::context::ExecContext;
use crate::problem::HostResult;
use clk_scalar::Scalar;

/// Returns whether the array's bytes are in host memory.
pub(super) fn is_on_host(array: &Array) -> bool {
    array.data().computed().is_some_and(|storage| storage.here().is_some())
}

/// Returns whether the array's bytes are in device memory.
pub(super) fn is_on_device(array: &Array) -> bool {
    array.data().computed().is_some_and(|storage| storage.remote().is_some())
}

/// Returns whether the array is on a GPU or may be computed there. Always true when the costs of expression kernels are
/// counted.
pub(super) fn may_be_on_device(context: &ExecContext, array: &Array) -> bool {
    array.data().computed().is_none() || is_on_device(array) || context.counts_launches()
}

/// Reinterprets an array as an array of scalars. Vectors and structs get an additional last axis (the components of a
/// vector, or the words of a struct), whose extent is returned too. `None` for structs of size 0.
pub(super) fn view_as_scalars(array: &Array) -> HostResult<Option<(Array, Option<usize>)>> {
    let element = array.element();
    if element.scalar().is_some() {
        return Ok(Some((array.clone(), Some(element.lanes()).filter(|&lanes| lanes > 1))));
    }
    let Some((word, words)) = struct_words(element.size()) else { return Ok(None) };
    let source = array.reinterpret_as(ElementType::Scalar(word), &[array.shape(), &[words]].concat())?;
    Ok(Some((source, Some(words))))
}

/// Returns the largest unsigned integer type (word) whose size divides the size of a struct, and the number of words in
/// the struct.
pub(crate) fn struct_words(size: usize) -> Option<(Scalar, usize)> {
    let largest_word =
        [Scalar::U32, Scalar::U16, Scalar::U8].into_iter().find(|word| size.is_multiple_of(word.size()))?;
    (size > 0).then(|| (largest_word, size / largest_word.size()))
}

/// Computes a deferred array that a kernel on the device of this context is about to read.
pub(crate) fn materialize_for(array: &Array, context: &ExecContext) -> HostResult<()> {
    if array.data().computed().is_some() {
        return Ok(());
    }
    let reader = if context.device().memory().is_some() { Reader::Device } else { Reader::Host };
    array.data().storage_for(reader).map(drop)
}

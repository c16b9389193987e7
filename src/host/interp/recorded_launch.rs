//! Launches recorded during a run, for queries about the provenance of elements (`clk why`).
//!
//! Input: each launch before and after it runs. Output: its kernel, its original arguments, and the arrays that it
//! wrote. Arrays are copy-on-write, so keeping one costs a copy only if it is written later.

use std::sync::Arc;

use crate::array::Array;
use crate::value::HostValue;
use clk_base::source::Span;
use clk_check::typed::KernelId;
use clk_lower::Instance;
use clk_runtime::LaunchExtents;

/// A completed launch.
pub struct RecordedLaunch {
    pub instance: Instance,
    pub extents: LaunchExtents,
    pub span: Span,
    /// The locations of the argument expressions, by parameter of the signature. `None` for omitted arguments.
    pub arg_spans: Vec<Option<Span>>,
    /// The arguments before the launch, by parameter. The hidden arguments follow.
    pub arguments: Vec<HostValue>,
    /// The arrays that the launch wrote, by parameter.
    pub results: Vec<Option<HostValue>>,
}

impl RecordedLaunch {
    pub fn kernel(&self) -> KernelId {
        self.instance.kernel
    }

    /// Returns the parameter through which the launch wrote this array.
    pub fn result_param(&self, array: &Array) -> Option<usize> {
        self.results.iter().position(|left| matches!(left, Some(HostValue::Array(own)) if is_same_array(own, array)))
    }

    /// Like [`Self::result_param`], but ignores the shape, because the script may have reshaped the array after the
    /// launch.
    pub fn reshaped_result_param(&self, array: &Array) -> Option<usize> {
        let is_it = |own: &Array| Arc::ptr_eq(own.data(), array.data()) && own.element() == array.element();
        self.results.iter().position(|left| matches!(left, Some(HostValue::Array(own)) if is_it(own)))
    }
}

/// Returns whether two arrays share storage, shape and element type, so that they are the same value.
pub(super) fn is_same_array(a: &Array, b: &Array) -> bool {
    Arc::ptr_eq(a.data(), b.data()) && a.shape() == b.shape() && a.element() == b.element()
}

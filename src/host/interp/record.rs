//! The launches of a run, kept for whoever asks later where an element came from.
//!
//! Input: each launch before and after it happens. Output: its kernel, its arguments as they were, and the arrays that it left. Arrays are
//! values: to keep one costs a copy only where it is written afterwards.

use std::sync::Arc;

use crate::base::source::Span;
use crate::check::typed::KernelId;
use crate::device::Extents;
use crate::host::array::Array;
use crate::host::value::Value;
use crate::lower::Instance;

/// A launch that has happened.
pub struct Recorded {
    pub instance: Instance,
    pub extents: Extents,
    pub span: Span,
    /// The expressions of the arguments, by parameter of the signature.
    pub places: Vec<Option<Span>>,
    /// The arguments as they were, by parameter, and behind them those that the signature does not show.
    pub given: Vec<Value>,
    /// The arrays that it left, by parameter.
    pub left: Vec<Option<Value>>,
}

impl Recorded {
    pub fn kernel(&self) -> KernelId {
        self.instance.kernel
    }

    /// Returns the parameter in which it left an array.
    pub fn made(&self, array: &Array) -> Option<usize> {
        self.left.iter().position(|left| matches!(left, Some(Value::Array(own)) if is_same(own, array)))
    }

    /// Returns the parameter in which it left an array's elements, if only their shape has changed since.
    pub fn made_reshaped(&self, array: &Array) -> Option<usize> {
        let is_it = |own: &Array| Arc::ptr_eq(own.data(), array.data()) && own.element() == array.element();
        self.left.iter().position(|left| matches!(left, Some(Value::Array(own)) if is_it(own)))
    }
}

/// Returns whether two arrays are one value: nothing was written since, and the elements are seen alike.
pub(super) fn is_same(a: &Array, b: &Array) -> bool {
    Arc::ptr_eq(a.data(), b.data()) && a.shape() == b.shape() && a.element() == b.element()
}

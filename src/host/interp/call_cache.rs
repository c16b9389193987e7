//! Caches the result of argument binding at each call expression. Library functions are generic and call each other
//! thousands of times, usually with arguments of the same types and shapes.
//!
//! Input: a call and its argument values. Output: a [`CheckedCall`] with compile-time arguments, dimensions and code.
//! A call is cached only if these depend on nothing but the [`CallKey`] ([`CallCache::cacheable_kinds`]). So its
//! compile-time arguments must not be computed, and no extent in the signature may depend on the value of an argument.
//! New definitions clear the cache.

use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashMap;

use crate::value::HostValue;
use clk_base::source::Span;
use clk_check::typed::{Body, GenericArg, Signature};
use clk_lower::GenericArgument;

use super::call_cache_key::{ArgumentKind, depends_only_on_caller, have_same_arguments, reads_variable};
use super::code::{CodeMode, HostCode};
use super::frame::HostFrame;

/// Maximum number of cached calls. A full cache is cleared.
const MAX_ENTRIES: usize = 4096;

/// The cache key of a call: a cached call with an equal key can be reused.
pub(super) struct CallKey<'a> {
    pub body: &'a Arc<Body>,
    /// The compile-time arguments of the caller.
    pub caller: &'a Arc<[GenericArgument]>,
    pub mode: CodeMode,
    pub values: &'a [HostValue],
}

/// A call whose arguments were bound and checked.
pub(super) struct CheckedCall {
    body: Arc<Body>,
    caller: Arc<[GenericArgument]>,
    mode: CodeMode,
    kinds: Vec<ArgumentKind>,
    pub generics: Arc<[GenericArgument]>,
    pub dims: Vec<Option<i64>>,
    pub code: Arc<HostCode>,
    /// Element type and shape of an array result that passed the check against the signature, if there was one.
    result: OnceLock<ArgumentKind>,
}

impl CheckedCall {
    /// Returns whether an array result with the same element type and shape already passed the check.
    pub fn has_checked_result(&self, value: &HostValue) -> bool {
        matches!(value, HostValue::Array(_)) && self.result.get().is_some_and(|kind| kind.matches(Some(value)))
    }

    /// Records that a result passed the check against the signature.
    pub fn note_result(&self, value: &HostValue) {
        if let (HostValue::Array(_), Some(kind)) = (value, ArgumentKind::of(Some(value))) {
            let _ = self.result.set(kind);
        }
    }
}

/// Cached calls, by the span of the call expression.
#[derive(Default)]
pub(super) struct CallCache(FxHashMap<Span, Arc<CheckedCall>>);

impl CallCache {
    pub fn find(&self, like: &CallKey<'_>, span: Span) -> Option<Arc<CheckedCall>> {
        let call = self.0.get(&span)?;
        let same = Arc::ptr_eq(&call.body, like.body)
            && have_same_arguments(&call.caller, like.caller)
            && call.mode == like.mode
            && call.kinds.len() == like.values.len()
            && call.kinds.iter().zip(like.values).all(|(kind, value)| kind.matches(Some(value)));
        same.then(|| call.clone())
    }

    /// Returns the kinds of the argument values if the call can be cached, otherwise `None`. Binding must depend only
    /// on the kinds and on the caller's compile-time arguments, and must not convert a value.
    pub fn cacheable_kinds(
        sig: &Signature,
        generics: &[GenericArg],
        values: &[HostValue],
    ) -> Option<Vec<ArgumentKind>> {
        if !depends_only_on_caller(generics) || sig.dim_exprs.iter().any(|expr| reads_variable(expr)) {
            return None;
        }
        let plain = |value| {
            ArgumentKind::of(Some(value))
                .filter(|kind| matches!(kind, ArgumentKind::Array(..) | ArgumentKind::Scalar(_)))
        };
        values.iter().map(plain).collect()
    }

    /// Caches a call. `bound` has its compile-time arguments and dimensions. `kinds` are the kinds of its argument
    /// values.
    pub fn insert(
        &mut self,
        key: &CallKey<'_>,
        kinds: Vec<ArgumentKind>,
        bound: &HostFrame,
        code: &Arc<HostCode>,
        span: Span,
    ) -> Arc<CheckedCall> {
        if self.0.len() >= MAX_ENTRIES {
            self.0.clear();
        }
        let call = Arc::new(CheckedCall {
            body: key.body.clone(),
            caller: key.caller.clone(),
            mode: key.mode,
            kinds,
            generics: bound.generics.clone(),
            dims: bound.dims.clone(),
            code: code.clone(),
            result: OnceLock::new(),
        });
        self.0.insert(span, call.clone());
        call
    }
}

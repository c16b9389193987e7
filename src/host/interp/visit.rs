//! Caching of what binding finds at a call of a function of the script, for arguments of the same types and shapes from a caller with the
//! same compile-time arguments: functions of libraries are generic, and call each other, thousands of times.
//!
//! Input: a call, and the values of its arguments. Output: a [`Visit`]: compile-time arguments, dimensions and code of the function. Idea:
//! all of these depend on nothing else where the call names no compile-time argument that is computed, and no extent of the signature
//! depends on a value ([`is_closed`], [`Visits::may_keep`]); until there is a new definition, which a name may mean.

use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashMap;

use crate::base::source::Span;
use crate::check::typed::{Body, GenericArg, Signature};
use crate::host::value::Value;
use crate::lower::Argument;

use super::alike::{Kind, are_same, is_closed, reads};
use super::code::{Code, Mode};

/// Maximum number of cached calls; beyond it the cache is cleared.
const KEPT: usize = 4096;

/// What the arguments of a call have to be for it to be like an earlier one.
pub(super) struct Like<'a> {
    pub body: &'a Arc<Body>,
    /// The compile-time arguments of the caller.
    pub caller: &'a Arc<[Argument]>,
    pub mode: Mode,
    pub values: &'a [Value],
}

/// A call whose arguments were bound and checked.
pub(super) struct Visit {
    body: Arc<Body>,
    caller: Arc<[Argument]>,
    mode: Mode,
    kinds: Vec<Kind>,
    pub generics: Arc<[Argument]>,
    pub dims: Vec<Option<i64>>,
    pub code: Arc<Code>,
    /// The kind of an array that was found to be a result of this function.
    result: OnceLock<Kind>,
}

impl Visit {
    /// Whether an array of this kind was found to be a result.
    pub fn has_given(&self, value: &Value) -> bool {
        matches!(value, Value::Array(_)) && self.result.get().is_some_and(|kind| kind.is_of(Some(value)))
    }

    /// Notes a result that was checked.
    pub fn gives(&self, value: &Value) {
        if let (Value::Array(_), Some(kind)) = (value, Kind::of(Some(value))) {
            let _ = self.result.set(kind);
        }
    }
}

/// Calls, by the span of their expression.
#[derive(Default)]
pub(super) struct Visits(FxHashMap<Span, Arc<Visit>>);

impl Visits {
    pub fn find(&self, like: &Like<'_>, span: Span) -> Option<Arc<Visit>> {
        let visit = self.0.get(&span)?;
        let same = Arc::ptr_eq(&visit.body, like.body)
            && are_same(&visit.caller, like.caller)
            && visit.mode == like.mode
            && visit.kinds.len() == like.values.len()
            && visit.kinds.iter().zip(like.values).all(|(kind, value)| kind.is_of(Some(value)));
        same.then(|| visit.clone())
    }

    /// Returns the kinds of the values if what a call binds depends on them and its caller's compile-time arguments alone, and if
    /// binding changes none of them.
    pub fn may_keep(sig: &Signature, generics: &[GenericArg], values: &[Value]) -> Option<Vec<Kind>> {
        if !is_closed(generics) || sig.dim_exprs.iter().any(|expr| reads(expr)) {
            return None;
        }
        let plain = |value| Kind::of(Some(value)).filter(|kind| matches!(kind, Kind::Array(..) | Kind::Scalar(_)));
        values.iter().map(plain).collect()
    }

    pub fn keep(
        &mut self,
        (body, caller, mode): (&Arc<Body>, &Arc<[Argument]>, Mode),
        kinds: Vec<Kind>,
        (generics, dims): (&Arc<[Argument]>, &[Option<i64>]),
        code: &Arc<Code>,
        span: Span,
    ) -> Arc<Visit> {
        if self.0.len() >= KEPT {
            self.0.clear();
        }
        let visit = Arc::new(Visit {
            body: body.clone(),
            caller: caller.clone(),
            mode,
            kinds,
            generics: generics.clone(),
            dims: dims.to_vec(),
            code: code.clone(),
            result: OnceLock::new(),
        });
        self.0.insert(span, visit.clone());
        visit
    }
}

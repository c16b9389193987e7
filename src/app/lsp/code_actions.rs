//! Code actions: the fixes of diagnostics as edits of a document.

use std::ops::Range;

use serde_json::{Value, json};

use super::convert;
use super::source_places::SourcePlaces;
use crate::fixes;
use clk_base::diag::{Diagnostic, Fix};

/// Returns the code actions of the diagnostics that touch a range. `shown` returns the diagnostics as they are
/// published.
pub(super) fn actions_of(
    places: &SourcePlaces<'_>,
    diagnostics: &[Diagnostic],
    shown: &dyn Fn() -> Vec<Value>,
    range: Range<usize>,
    params: &Value,
) -> Value {
    let only: Option<Vec<&str>> =
        params.pointer("/context/only").and_then(Value::as_array).map(|o| o.iter().filter_map(Value::as_str).collect());
    let is_requested = |kind: &str| only.as_ref().is_none_or(|only| only.iter().any(|o| kind.starts_with(o)));
    let mut out = Vec::new();
    if is_requested("quickfix") {
        for (index, found) in diagnostics.iter().enumerate() {
            let touches = found.labels.iter().any(|l| {
                l.span.file == places.file && l.span.range().start <= range.end && range.start <= l.span.range().end
            });
            if touches {
                out.extend(found.fixes.iter().filter_map(|fix| {
                    Some(json!({
                        "title": fix.title,
                        "kind": "quickfix",
                        "isPreferred": convert::is_sure(fix),
                        "diagnostics": [shown().get(index)],
                        "edit": places.fix(&[fix])?,
                    }))
                }));
            }
        }
    }
    let sure: Vec<&Fix> = fixes::non_overlapping(diagnostics, places.file);
    if is_requested("source.fixAll")
        && !sure.is_empty()
        && let Some(edit) = places.fix(&sure)
    {
        out.push(json!({ "title": "Apply all fixes that are sure", "kind": "source.fixAll", "edit": edit }));
    }
    Value::Array(out)
}

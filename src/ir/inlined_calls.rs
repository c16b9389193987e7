//! Call sites of inlined functions.
//!
//! If checks are enabled, the file number of a span in an inlined body is the index of an [`InlinedCall`] of the
//! containing function, instead of a file. [`resolve_span`] returns the original location and the call chain.

use clk_base::source::{FileId, Span};

/// A call whose body was inlined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InlinedCall {
    /// The file of the called function.
    pub file: FileId,
    /// The span of the call, which may itself be in an inlined body.
    pub span: Span,
}

/// If this bit of the file number is set, the other bits are the index of an [`InlinedCall`].
const INLINED: u32 = 1 << 31;

/// Returns the index of the inlined call that contains a span; `None` if the span is in the function's own source.
fn call_index(span: Span) -> Option<usize> {
    (span.file.0 & INLINED != 0).then_some((span.file.0 & !INLINED) as usize)
}

/// Translates a span of the callee when its body is inlined for call number `call`. The callee's own calls are
/// renumbered to start at `first`.
pub fn inline_span(span: Span, callee: FileId, call: usize, first: usize) -> Span {
    let name = |number: usize| Span { file: FileId(INLINED | number as u32), ..span };
    match call_index(span) {
        Some(inner) => name(first + inner),
        None if span.file == callee && span != Span::default() => name(call),
        None => span,
    }
}

/// Returns the source location of a span, and the calls through which it was inlined, innermost first.
pub fn resolve_span(calls: &[InlinedCall], mut span: Span) -> (Span, Vec<Span>) {
    let mut location: Option<Span> = None;
    let mut trace = vec![];
    while let Some(call) = call_index(span).and_then(|number| calls.get(number)) {
        let place = Span { file: call.file, ..span };
        match location {
            None => location = Some(place),
            Some(_) => trace.push(place),
        }
        span = call.span;
    }
    match location {
        None => (span, trace),
        Some(place) => {
            trace.push(span);
            (place, trace)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolving_returns_the_location_and_the_calls() {
        let at = |file, start| Span::new(FileId(file), start, start + 1);
        // `inner` (file 2) was inlined into `outer` (file 1) at offset 10, and `outer` into the kernel (file 0) at
        // offset 20.
        let inner = inline_span(at(2, 5), FileId(2), 0, 1);
        let calls = [InlinedCall { file: FileId(2), span: at(1, 10) }];
        assert_eq!(resolve_span(&calls, inner), (at(2, 5), vec![at(1, 10)]));
        let moved = inline_span(inner, FileId(1), 0, 1);
        let calls = [
            InlinedCall { file: FileId(1), span: at(0, 20) },
            InlinedCall { file: FileId(2), span: inline_span(at(1, 10), FileId(1), 0, 1) },
        ];
        assert_eq!(resolve_span(&calls, moved), (at(2, 5), vec![at(1, 10), at(0, 20)]));
        assert_eq!(resolve_span(&calls, at(0, 3)), (at(0, 3), vec![]));
    }
}

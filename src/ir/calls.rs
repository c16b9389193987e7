//! Call sites of inlined functions.
//!
//! In a run with checks, a span in an inlined body holds, in place of its file, the call that it was inlined for: the number of a
//! [`Call`] of the function that now contains it. [`resolve`] returns the original location, and the chain of calls.

use crate::base::source::{FileId, Span};

/// A call whose body was inlined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The file of the called function.
    pub file: FileId,
    /// The span of the call, which may itself be in an inlined body.
    pub span: Span,
}

/// A bit of the file number that marks a span which refers to a call.
const INLINED: u32 = 1 << 31;

/// Returns the number of the call that a span refers to.
fn call_of(span: Span) -> Option<usize> {
    (span.file.0 & INLINED != 0).then_some((span.file.0 & !INLINED) as usize)
}

/// Translates a span of a called function when its body is inlined for call number `call`; the callee's own calls are renumbered
/// from `first` on.
pub fn inlined(span: Span, callee: FileId, call: usize, first: usize) -> Span {
    let name = |number: usize| Span { file: FileId(INLINED | number as u32), ..span };
    match call_of(span) {
        Some(inner) => name(first + inner),
        None if span.file == callee && span != Span::default() => name(call),
        None => span,
    }
}

/// Returns the original location of a span and the calls that led there, innermost first.
pub fn resolve(calls: &[Call], mut span: Span) -> (Span, Vec<Span>) {
    let mut found: Option<Span> = None;
    let mut trace = vec![];
    while let Some(call) = call_of(span).and_then(|number| calls.get(number)) {
        let place = Span { file: call.file, ..span };
        match found {
            None => found = Some(place),
            Some(_) => trace.push(place),
        }
        span = call.span;
    }
    match found {
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
    fn a_span_finds_its_way_back() {
        let at = |file, start| Span::new(FileId(file), start, start + 1);
        // `inner` of file 2 was inlined into `outer` of file 1 at 10, and that into the kernel of file 0 at 20.
        let inner = inlined(at(2, 5), FileId(2), 0, 1);
        let calls = [Call { file: FileId(2), span: at(1, 10) }];
        assert_eq!(resolve(&calls, inner), (at(2, 5), vec![at(1, 10)]));
        let moved = inlined(inner, FileId(1), 0, 1);
        let calls = [
            Call { file: FileId(1), span: at(0, 20) },
            Call { file: FileId(2), span: inlined(at(1, 10), FileId(1), 0, 1) },
        ];
        assert_eq!(resolve(&calls, moved), (at(2, 5), vec![at(1, 10), at(0, 20)]));
        assert_eq!(resolve(&calls, at(0, 3)), (at(0, 3), vec![]));
    }
}

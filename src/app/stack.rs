//! The end of the stack of the thread that does the work.

use std::cell::Cell;

thread_local! {
    /// Address near the end of this thread's stack that leaves a reserve for code other than script calls; 0 if unknown.
    static END: Cell<usize> = const { Cell::new(0) };
}

/// Sets the address for this thread.
pub(crate) fn set_end(end: usize) {
    END.set(end);
}

/// Returns the address for this thread.
pub fn end() -> usize {
    END.get()
}

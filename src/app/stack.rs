//! Address of the end of the working thread's stack, which limits recursion.

use std::cell::Cell;

/// Stack sizes in bytes to try for the working thread: deep expressions and calls are walked recursively. Stack is only address
/// space until it is used; if the system limits even that, a smaller one is taken.
pub(crate) const STACKS: [usize; 3] = [512 << 20, 64 << 20, 8 << 20];

thread_local! {
    /// Address near the end of this thread's stack that leaves a reserve for code other than script calls; 0 if unknown.
    static END: Cell<usize> = const { Cell::new(0) };
}

/// Sets [`END`] for this thread.
pub(crate) fn set_end(end: usize) {
    END.set(end);
}

/// Returns [`END`] of this thread.
pub fn end() -> usize {
    END.get()
}

//! The lowest stack address that script calls may reach, which limits the depth of recursion.

use std::cell::Cell;

/// Stack sizes in bytes to try for the working thread, largest first. They are large because deeply nested expressions
/// and calls are processed recursively. An unused stack needs only address space. If the system limits that, a smaller
/// size is used.
pub(crate) const STACKS: [usize; 3] = [512 << 20, 64 << 20, 8 << 20];

thread_local! {
    /// The lowest address that script calls of this thread may use; 0 if it is unknown. The stack below it is reserved
    /// for other code.
    static END: Cell<usize> = const { Cell::new(0) };
}

/// Sets [`END`] for this thread.
pub(crate) fn set_stack_end(end: usize) {
    END.set(end);
}

/// Returns [`END`] of this thread.
pub fn stack_end() -> usize {
    END.get()
}

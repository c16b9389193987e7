//! The kinds of memory accesses, shared by the simulator, the sanitizer, the profiler and the stepper.

/// What a thread does to an array element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessKind {
    Load,
    Store,
    /// An atomic read-modify-write. It is treated as a write even if it leaves the element unchanged.
    AtomicRmw,
    AtomicLoad,
}

impl AccessKind {
    pub fn is_atomic(self) -> bool {
        matches!(self, AccessKind::AtomicRmw | AccessKind::AtomicLoad)
    }

    /// Returns whether unordered accesses of these kinds by different threads to one element race. A plain store races
    /// with every other access, and an atomic read-modify-write also with a plain load.
    pub fn conflicts_with(self, other: AccessKind) -> bool {
        use AccessKind::*;
        matches!((self, other), (Store, _) | (_, Store) | (Load, AtomicRmw) | (AtomicRmw, Load))
    }
}

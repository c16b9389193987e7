//! Descriptions of memory accesses in sanitizer events.

use super::reg::Reg;

/// The kind of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    Load,
    Store,
    /// An atomic operation that may change the element, whether or not it does.
    Atomic,
    /// An atomic load.
    Look,
}

impl Touch {
    pub fn is_atomic(self) -> bool {
        matches!(self, Touch::Atomic | Touch::Look)
    }

    /// Returns whether unordered accesses of these kinds by different threads to one element race: a plain write races with every
    /// other access, and an atomic update also with a plain read.
    pub fn conflicts(self, other: Touch) -> bool {
        use Touch::*;
        matches!((self, other), (Store, _) | (_, Store) | (Load, Atomic) | (Atomic, Load))
    }
}

/// How the indices of an access vary between lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// All lanes have the same.
    One,
    /// Mostly contiguous rows: see `memory::resolve`.
    Rows,
    /// Each lane has its own.
    Lanes,
}

/// The static description of an access in events.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    pub touch: Touch,
    /// Number of the code's access: memory, indices, location in the source.
    pub access: u32,
    /// A number among the accesses of its memory; `site` is the same for shadow words, where those from 255 on share one.
    pub number: u32,
    pub site: u8,
    pub form: Form,
    /// The number of adjacent scalars that it accesses in the element, and the bytes of one.
    pub components: u8,
    pub pitch: usize,
    /// The stored registers, by component.
    pub values: Vec<Reg>,
    pub traits: Traits,
    /// The number of the code's atomic operation, for an atomic.
    pub atomic: u32,
}

/// Facts that the analysis of the kernel found about an access.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traits {
    /// An atomic whose old value is unused and does not influence the new one.
    pub overwrites: bool,
    /// An atomic whose old value influences control flow or addresses.
    pub decides: bool,
    /// An atomic that is the only effect of a loop, which retries until it succeeds.
    pub takes: bool,
    /// A load of an element that the same thread stores to somewhere: of several readers, stores may race with the others.
    pub own: bool,
}

//! Access sites: static descriptions of the loads, stores and atomic operations of a kernel, for the sanitizer.

use super::register_ids::Reg;
pub(crate) use clk_ir::AccessKind;
use clk_ir::variance::Variance;

/// The static description of one load, store or atomic operation, passed to the sanitizer with each event.
#[derive(Clone, Debug)]
pub(crate) struct AccessSite {
    pub kind: AccessKind,
    /// Index of the access in the code's table of accesses.
    pub access: u32,
    /// Index among the access sites of its memory. `shadow_id` is this index in 8 bits, for shadow words; all indices
    /// from 255 on share the value 255.
    pub index_in_memory: u32,
    pub shadow_id: u8,
    /// How the indices vary between lanes. If they are affine, lanes access rows of elements, which are mostly
    /// contiguous; see `memory::resolve_affine`.
    pub variance: Variance,
    /// The number of adjacent scalars accessed within the element, and the size of each scalar in bytes (`pitch`).
    pub components: u8,
    pub pitch: usize,
    /// The registers whose values a store writes, one per component.
    pub values: Vec<Reg>,
    pub traits: AccessTraits,
    /// For an atomic operation, its index in the code's table of atomics.
    pub atomic: u32,
}

/// Results of the static analysis of an access.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AccessTraits {
    /// Set for an atomic operation whose old value is unused and does not influence the new one.
    pub ignores_old_value: bool,
    /// Set for an atomic operation whose old value influences control flow or addresses.
    pub influences_control: bool,
    /// Set for an atomic operation that is the only effect of a loop, which retries it until it succeeds.
    pub is_retried: bool,
    /// Set for a load of an element that the same thread also stores to. If other threads also load the element, that
    /// store may race with their loads.
    pub reads_own_store: bool,
}

//! The events of a launch that observers are notified of: steps and memory accesses.

use super::memory::{ArrayRef, ArrayStorage};
use super::value::ThreadValue;
use clk_base::source::Span;
pub use clk_ir::AccessKind;
use clk_ir::def::Ty;

/// A step of a launch: its number, and the thread that executes a statement in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepPosition {
    pub step: u64,
    /// Linear index of the block, x fastest. In `threads` kernels, the index of the group of 32 threads.
    pub block: u64,
    /// Linear index of the thread in the block.
    pub thread: u32,
}

/// An access to one element of an array, to a scalar field of the element, or to a component of a vector.
#[derive(Debug)]
pub struct AccessEvent<'a, 'm> {
    pub kind: AccessKind,
    pub array: &'a ArrayRef<'m>,
    /// Byte offset in the array.
    pub offset: usize,
    pub ty: Ty,
    /// The value before the access; `None` if the memory was unwritten.
    pub before: Option<ThreadValue>,
    /// The value that the access reads or writes.
    pub value: ThreadValue,
    pub span: Span,
}

impl AccessEvent<'_, '_> {
    pub fn store(&self) -> ArrayStorage {
        self.array.store
    }

    pub fn writes(&self) -> bool {
        self.kind != AccessKind::Load
    }

    /// Returns the path of the accessed component in the element, such as `.mass` or `.at.x`; empty if the access is to
    /// the whole element.
    pub fn part(&self) -> String {
        let layout = self.array.layout;
        let within = self.offset % layout.size.max(1);
        let Some(leaf) = layout.leaves.iter().rfind(|leaf| leaf.offset <= within) else { return String::new() };
        let path = if leaf.path.is_empty() { String::new() } else { format!(".{}", leaf.path) };
        let lane = (within - leaf.offset) / self.ty.scalar().size();
        match "xyzw".chars().nth(lane).filter(|_| leaf.ty.lanes() > self.ty.lanes()) {
            Some(lane) => format!("{path}.{lane}"),
            None => path,
        }
    }

    /// Returns whether the access overlaps `size` bytes at `offset` of its array.
    pub fn touches(&self, offset: usize, size: usize) -> bool {
        self.offset < offset + size && offset < self.offset + self.ty.size()
    }
}

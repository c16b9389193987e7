//! What an observer of a run sees of memory, and when.

use super::memory::{Array, Store};
use super::value::Val;
use crate::base::source::Span;
use crate::ir::def::Ty;

/// A step of a launch: its number, and who takes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct At {
    pub step: u64,
    /// The number of the block, x fastest; of `threads` kernels, the number of the group of 32.
    pub block: u64,
    /// The number of the thread in the block.
    pub thread: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
    /// Reads and writes.
    Atomic,
}

/// An access to one element of an array, or to a leaf or a component of it.
#[derive(Debug)]
pub struct Access<'a, 'm> {
    pub kind: Kind,
    pub array: &'a Array<'m>,
    /// In bytes, of what is accessed, in the array.
    pub offset: usize,
    pub ty: Ty,
    /// The value before; `None` if nothing was written there.
    pub before: Option<Val>,
    /// The value read or written.
    pub value: Val,
    pub span: Span,
}

impl Access<'_, '_> {
    pub fn store(&self) -> Store {
        self.array.store
    }

    pub fn writes(&self) -> bool {
        self.kind != Kind::Read
    }

    /// Returns the name of the part of the element that it is to: `.mass`, `.at.x`, or nothing for all of it.
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

    /// Returns whether it touches one of so many bytes at an offset.
    pub fn touches(&self, offset: usize, size: usize) -> bool {
        self.offset < offset + size && offset < self.offset + self.ty.size()
    }
}

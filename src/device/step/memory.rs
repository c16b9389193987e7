//! Arrays of a launch: bytes in pages that states share until one of them writes, with a bit for each byte that was written.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::value::Val;
use crate::ir::def::{FunctionId, Layout, MemId, Ty};
use crate::lang::scalar::Value;

/// Bytes in a page. A scalar lies in one page, as its alignment divides this.
const PAGE: usize = 4096;

#[derive(Clone, Debug, PartialEq)]
struct Page {
    bytes: Vec<u8>,
    /// One bit for each byte; none if all are written.
    written: Option<Vec<u64>>,
}

impl Page {
    /// Bytes that it takes.
    fn size(&self) -> u64 {
        (self.bytes.len() + self.written.as_ref().map_or(0, |bits| 8 * bits.len())) as u64
    }
}

/// The bytes of an array. A copy shares the pages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bytes {
    pages: Vec<Arc<Page>>,
    len: usize,
}

impl Bytes {
    /// Returns a copy of bytes that are all written, or none of them.
    pub(super) fn of(bytes: &[u8], written: bool) -> Bytes {
        let page = |bytes: &[u8]| {
            let bits = (!written).then(|| vec![0; bytes.len().div_ceil(64)]);
            Arc::new(Page { bytes: bytes.to_vec(), written: bits })
        };
        Bytes { pages: bytes.chunks(PAGE).map(page).collect(), len: bytes.len() }
    }

    /// Returns zeros that nobody wrote. They share one page.
    pub(super) fn unwritten(len: usize) -> Bytes {
        let page = |len: usize| Arc::new(Page { bytes: vec![0; len], written: Some(vec![0; len.div_ceil(64)]) });
        let whole = page(PAGE.min(len));
        let mut pages = vec![whole; len / PAGE];
        if !len.is_multiple_of(PAGE) {
            pages.push(page(len % PAGE));
        }
        Bytes { pages, len }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the value at an offset; `None` if not all of it was written.
    ///
    /// # Panics
    /// if it is not inside.
    pub fn get(&self, offset: usize, ty: Ty) -> Option<Val> {
        let size = ty.scalar().size();
        let is_written = |lane: usize| {
            let (page, at) = self.at(offset + lane * size);
            page.written.as_ref().is_none_or(|bits| bits[at / 64] >> (at % 64) & 1 != 0)
        };
        (0..usize::from(ty.lanes())).all(is_written).then(|| self.load(offset, ty))
    }

    fn at(&self, offset: usize) -> (&Page, usize) {
        (&self.pages[offset / PAGE], offset % PAGE)
    }

    /// Returns the value at an offset, whether it was written or not.
    pub(super) fn load(&self, offset: usize, ty: Ty) -> Val {
        let size = ty.scalar().size();
        let lane = |lane: usize| {
            let (page, at) = self.at(offset + lane * size);
            Value::from_bytes(ty.scalar(), &page.bytes[at..][..size])
        };
        Val::from_values(ty, (0..usize::from(ty.lanes())).map(lane))
    }

    /// Writes a value; returns how many bytes of pages had to be copied for that.
    pub(super) fn store(&mut self, offset: usize, val: Val) -> u64 {
        let size = val.ty.scalar().size();
        let mut copied = 0;
        for (lane, value) in val.values().enumerate() {
            let offset = offset + lane * size;
            let page = &mut self.pages[offset / PAGE];
            if Arc::get_mut(page).is_none() {
                copied += page.size();
            }
            let (page, at) = (Arc::make_mut(page), offset % PAGE);
            page.bytes[at..][..size].copy_from_slice(&value.to_bytes()[..size]);
            for at in at..at + size {
                if let Some(bits) = &mut page.written {
                    bits[at / 64] |= 1 << (at % 64);
                }
            }
        }
        copied
    }

    /// Makes all of it unwritten.
    pub(super) fn clear(&mut self) {
        *self = Bytes::unwritten(self.len);
    }

    pub(super) fn copy_to(&self, to: &mut [u8]) {
        for (to, page) in to.chunks_mut(PAGE).zip(&self.pages) {
            to.copy_from_slice(&page.bytes);
        }
    }

    /// Calls `f` with the address and the size of each page.
    pub(super) fn pages(&self, f: &mut dyn FnMut(usize, u64)) {
        self.pages.iter().for_each(|page| f(Arc::as_ptr(page) as usize, page.size()));
    }
}

/// The storage of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Store {
    /// The launch's argument at this position.
    Global(usize),
    /// A function's shared array; each block has one.
    Shared(FunctionId, MemId),
    /// A thread's local array.
    Local(usize),
}

/// An array of a function, resolved to what the launch or the caller passed for it.
#[derive(Clone, Debug)]
pub struct Array<'m> {
    pub name: &'m str,
    pub store: Store,
    pub layout: &'m Layout,
    pub extents: Vec<u32>,
}

impl Array<'_> {
    /// Returns the name of the element at an offset: `s[3, 4]`.
    pub(super) fn element(&self, offset: usize) -> String {
        let mut element = offset / self.layout.size.max(1);
        let mut indices: Vec<String> = vec![];
        for &extent in self.extents.iter().rev() {
            let extent = (extent as usize).max(1);
            indices.insert(0, (element % extent).to_string());
            element /= extent;
        }
        let index = if indices.is_empty() { String::new() } else { format!("[{}]", indices.join(", ")) };
        format!("{}{index}", self.name)
    }

    /// Returns the name of the place at an offset, with its field: `points[3].mass`.
    pub(super) fn place(&self, offset: usize) -> String {
        let within = offset % self.layout.size.max(1);
        let leaf = self.layout.leaves.iter().rfind(|leaf| leaf.offset <= within);
        match leaf.map_or("", |leaf| &leaf.path) {
            "" => self.element(offset),
            path => format!("{}.{path}", self.element(offset)),
        }
    }
}

/// The shared arrays of a block.
pub(super) type Shared = BTreeMap<(FunctionId, MemId), Bytes>;

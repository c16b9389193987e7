//! The arrays of a launch, stored in copy-on-write pages that several states can share. One bit per byte records
//! whether the byte was written.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::value::ThreadValue;
use clk_ir::def::{ElementLayout, FunctionId, MemId, Ty};
use clk_scalar::ScalarValue;

/// Bytes in a page. A scalar never crosses pages, because its alignment divides this size.
const PAGE: usize = 4096;

#[derive(Clone, Debug, PartialEq)]
struct MemoryPage {
    bytes: Vec<u8>,
    /// One bit for each byte that was written; `None` if all bytes were written.
    written: Option<Vec<u64>>,
}

impl MemoryPage {
    /// Memory use in bytes.
    fn size(&self) -> u64 {
        (self.bytes.len() + self.written.as_ref().map_or(0, |bits| 8 * bits.len())) as u64
    }
}

/// The bytes of an array in copy-on-write pages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PagedBytes {
    pages: Vec<Arc<MemoryPage>>,
    len: usize,
}

impl PagedBytes {
    /// Copies bytes, and marks all of them as written or as unwritten.
    pub(super) fn of(bytes: &[u8], written: bool) -> PagedBytes {
        let page = |bytes: &[u8]| {
            let bits = (!written).then(|| vec![0; bytes.len().div_ceil(64)]);
            Arc::new(MemoryPage { bytes: bytes.to_vec(), written: bits })
        };
        PagedBytes { pages: bytes.chunks(PAGE).map(page).collect(), len: bytes.len() }
    }

    /// Returns `len` zero bytes, all marked as unwritten. Their pages share memory.
    pub(super) fn unwritten(len: usize) -> PagedBytes {
        let page = |len: usize| Arc::new(MemoryPage { bytes: vec![0; len], written: Some(vec![0; len.div_ceil(64)]) });
        let whole = page(PAGE.min(len));
        let mut pages = vec![whole; len / PAGE];
        if !len.is_multiple_of(PAGE) {
            pages.push(page(len % PAGE));
        }
        PagedBytes { pages, len }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the value at an offset; `None` if some of its bytes are unwritten.
    ///
    /// # Panics
    /// Panics if the offset is out of range.
    pub fn get(&self, offset: usize, ty: Ty) -> Option<ThreadValue> {
        let size = ty.scalar().size();
        let is_written = |lane: usize| {
            let (page, at) = self.at(offset + lane * size);
            page.written.as_ref().is_none_or(|bits| bits[at / 64] >> (at % 64) & 1 != 0)
        };
        (0..usize::from(ty.lanes())).all(is_written).then(|| self.load(offset, ty))
    }

    fn at(&self, offset: usize) -> (&MemoryPage, usize) {
        (&self.pages[offset / PAGE], offset % PAGE)
    }

    /// Returns the value at an offset, even if its bytes are unwritten.
    pub(super) fn load(&self, offset: usize, ty: Ty) -> ThreadValue {
        let size = ty.scalar().size();
        let lane = |lane: usize| {
            let (page, at) = self.at(offset + lane * size);
            ScalarValue::from_bytes(ty.scalar(), &page.bytes[at..][..size])
        };
        ThreadValue::from_values(ty, (0..usize::from(ty.lanes())).map(lane))
    }

    /// Writes a value. Returns the number of bytes that were copied because the page was shared.
    pub(super) fn store(&mut self, offset: usize, val: ThreadValue) -> u64 {
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

    /// Marks the whole array as unwritten.
    pub(super) fn clear(&mut self) {
        *self = PagedBytes::unwritten(self.len);
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

/// Identifies the storage of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ArrayStorage {
    /// The array argument of the launch at this position.
    Global(usize),
    /// A `shared` array that this function declares. Each block has its own copy.
    Shared(FunctionId, MemId),
    /// A local array, by its index among the thread's local arrays.
    Local(usize),
}

/// An array that a function accesses, with the storage that it is bound to in the current call.
#[derive(Clone, Debug)]
pub struct ArrayRef<'m> {
    pub name: &'m str,
    pub store: ArrayStorage,
    pub layout: &'m ElementLayout,
    pub extents: Vec<u32>,
}

impl ArrayRef<'_> {
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

    /// Returns the name of the element and field at an offset: `points[3].mass`.
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
pub(super) type SharedArrays = BTreeMap<(FunctionId, MemId), PagedBytes>;

//! [`ByteSource`] and [`ArchiveFile`]: files that are read in parts, so that an archive is not in memory as a whole.

use std::sync::Arc;

use crate::files::file;
use crate::problem::{HostResult, RuntimeError};
use clk_base::file_error::FileError;
use clk_base::{alloc, stop};

/// The bytes of a file, which can be read in parts. All reads see the same content, or fail.
pub trait ByteSource: Send + Sync {
    /// Returns the length of the file.
    fn byte_len(&self) -> u64;

    /// Fills `into` with the bytes of the file from `offset` on.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), FileError>;
}

impl ByteSource for &[u8] {
    fn byte_len(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), FileError> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let part = self.get(start..).and_then(|rest| rest.get(..into.len()));
        into.copy_from_slice(part.ok_or(FileError::Refused("it ends early"))?);
        Ok(())
    }
}

impl ByteSource for Vec<u8> {
    fn byte_len(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), FileError> {
        self.as_slice().read_at(offset, into)
    }
}

/// An archive with its name.
#[derive(Clone, Copy)]
pub(crate) struct ArchiveFile<'a> {
    pub name: &'a str,
    pub source: &'a dyn ByteSource,
}

impl ArchiveFile<'_> {
    pub fn byte_len(&self) -> u64 {
        self.source.byte_len()
    }

    /// Returns `len` bytes from `offset` on; `None` if the file does not have them.
    pub fn read(&self, offset: u64, len: u64) -> HostResult<Option<Vec<u8>>> {
        let Some(count) = self.checked_len(offset, len) else { return Ok(None) };
        let mut bytes = alloc::zeros(count);
        self.fill(offset, &mut bytes)?;
        Ok(Some(bytes))
    }

    /// Returns `len` as a number of bytes in memory, if the file has that many from `offset` on.
    fn checked_len(&self, offset: u64, len: u64) -> Option<usize> {
        let end = offset.checked_add(len)?;
        (end <= self.byte_len()).then(|| usize::try_from(len).ok())?
    }

    /// Fills `into` with the bytes from `offset` on.
    pub fn fill(&self, offset: u64, into: &mut [u8]) -> HostResult<()> {
        for (part, bytes) in into.chunks_mut(stop::POLL_BYTES).enumerate() {
            stop::poll();
            let read = self.source.read_at(offset + (part * stop::POLL_BYTES) as u64, bytes);
            read.map_err(|reason| RuntimeError::new("E0701", format!("cannot read `{}`: {reason}", self.name)))?;
        }
        Ok(())
    }

    /// Returns the error for a file that is invalid in its format.
    pub fn damaged(&self, reason: impl std::fmt::Display) -> RuntimeError {
        file::damaged(self.name, reason)
    }

    /// Returns the error for a valid file whose content has no type in Clk.
    pub fn unsupported(&self, reason: impl std::fmt::Display) -> RuntimeError {
        file::unsupported(self.name, reason)
    }
}

/// An archive that outlives the call of `load`: its members refer to it.
#[derive(Clone)]
pub(crate) struct OpenArchive {
    pub name: Arc<str>,
    pub source: Arc<dyn ByteSource>,
}

impl OpenArchive {
    pub fn file(&self) -> ArchiveFile<'_> {
        ArchiveFile { name: &self.name, source: &*self.source }
    }
}

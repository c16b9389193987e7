//! Reads and writes zip archives with the features that .npz files need: stored or deflated entries, and 64-bit sizes.

use std::io::Read;

use flate2::read::DeflateDecoder;

use crate::files::file::bytes_text;
use crate::files::source::ArchiveFile;
use crate::problem::{HostResult, RuntimeError};
use clk_base::{alloc, stop};

/// An entry of the central directory.
#[derive(Clone)]
pub(crate) struct ZipEntry {
    pub name: String,
    method: u16,
    flags: u16,
    crc: u32,
    packed: u64,
    pub unpacked: u64,
    /// Offset of the local header.
    offset: u64,
}

const LOCAL: u32 = 0x0403_4b50;
const CENTRAL: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
const END_64: u32 = 0x0606_4b50;
const LOCATOR_64: u32 = 0x0706_4b50;
/// Length of the record that locates the 64-bit end record. It precedes the end record.
const LOCATOR_64_LEN: u8 = 20;
/// Length of a local header without its name and its extra field.
const LOCAL_LEN: u64 = 30;
/// A 32-bit field of all ones means that the 64-bit value is in the extra field.
const IN_EXTRA: u32 = u32::MAX;
/// Compression methods of entries.
const STORED: u16 = 0;
const DEFLATED: u16 = 8;
/// Upper bound of the number of bytes that deflate needs in addition to the first part of incompressible data.
const DEFLATE_OVERHEAD: u64 = 4096;
/// Upper bound of the compression ratio. The maximum ratio of deflate is 1032.
const BEST_RATIO: u64 = 1040;

/// Reads little-endian fields in sequence.
struct FieldReader<'a> {
    rest: &'a [u8],
}

impl<'a> FieldReader<'a> {
    fn take_bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take_bytes(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take_bytes(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take_bytes(8)?.try_into().ok()?))
    }
}

/// Returns the entries of an archive.
pub(crate) fn entries(file: ArchiveFile<'_>) -> HostResult<Vec<ZipEntry>> {
    let no_end = || file.damaged("it has no directory at its end, so it was cut off or is not a zip archive");
    let directory = directory(file)?.ok_or_else(no_end)?;
    let broken = || file.damaged("its directory is not where its end record says");
    let len = directory.end.checked_sub(directory.offset).ok_or_else(broken)?;
    let bytes = file.read(directory.offset, len)?.ok_or_else(broken)?;
    let mut fields = FieldReader { rest: &bytes };
    let mut entries = Vec::new();
    let mut packed = 0u64;
    for _ in 0..directory.count {
        let entry = read_central_entry(&mut fields).ok_or_else(|| file.damaged("its directory ends early"))?;
        packed = packed.saturating_add(entry.packed);
        if packed > file.byte_len() {
            return Err(file.damaged("its entries are longer together than the file"));
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// The position of the central directory.
struct DirectoryPosition {
    count: u64,
    offset: u64,
    /// Offset of the first record after the directory.
    end: u64,
}

/// Finds the central directory through the end record, which only a comment of up to 64 KiB may follow.
fn directory(file: ArchiveFile<'_>) -> HostResult<Option<DirectoryPosition>> {
    let tail_start = file.byte_len().saturating_sub(u64::from(LOCATOR_64_LEN) + 22 + 65_535);
    let Some(tail) = file.read(tail_start, file.byte_len() - tail_start)? else { return Ok(None) };
    let latest = tail.len().saturating_sub(22);
    let earliest = latest.saturating_sub(65_535);
    let is_end = |at: &usize| tail.get(*at..at + 4) == Some(&END.to_le_bytes());
    let Some(at) = (earliest..=latest).rev().find(is_end) else { return Ok(None) };
    let end = tail_start + at as u64;
    let mut fields = FieldReader { rest: tail.get(at + 8..).unwrap_or(&[]) };
    let mut narrow = || Some((fields.u16()?, fields.u16()?, fields.u32()?, fields.u32()?));
    let Some((_, count, _, offset)) = narrow() else { return Ok(None) };
    let narrow = DirectoryPosition { count: count.into(), offset: offset.into(), end };
    if count != u16::MAX && offset != IN_EXTRA {
        return Ok(Some(narrow));
    }
    let Some(locator) = at.checked_sub(LOCATOR_64_LEN.into()).and_then(|at| tail.get(at..)) else { return Ok(None) };
    let mut fields = FieldReader { rest: locator };
    if fields.u32() != Some(LOCATOR_64) {
        return Ok(Some(narrow));
    }
    let Some(end) = fields.take_bytes(4).and_then(|_| fields.u64()) else { return Ok(None) };
    let Some(record) = file.read(end, 56)? else { return Ok(None) };
    let mut fields = FieldReader { rest: &record };
    let mut wide = || {
        let is_end = fields.u32()? == END_64;
        fields.take_bytes(28)?;
        let (count, _, offset) = (fields.u64()?, fields.u64()?, fields.u64()?);
        is_end.then_some(DirectoryPosition { count, offset, end })
    };
    Ok(wide())
}

fn read_central_entry(fields: &mut FieldReader) -> Option<ZipEntry> {
    if fields.u32()? != CENTRAL {
        return None;
    }
    fields.take_bytes(4)?;
    let (flags, method) = (fields.u16()?, fields.u16()?);
    fields.take_bytes(4)?;
    let crc = fields.u32()?;
    let (packed, unpacked) = (fields.u32()?, fields.u32()?);
    let (name, extra, comment) = (fields.u16()?, fields.u16()?, fields.u16()?);
    fields.take_bytes(8)?;
    let offset = fields.u32()?;
    let name = String::from_utf8_lossy(fields.take_bytes(name.into())?).into_owned();
    let mut wide = wide_fields(fields.take_bytes(extra.into())?);
    fields.take_bytes(comment.into())?;
    let mut widen = |narrow: u32| if narrow == IN_EXTRA { wide.as_mut()?.u64() } else { Some(narrow.into()) };
    let (unpacked, packed, offset) = (widen(unpacked)?, widen(packed)?, widen(offset)?);
    Some(ZipEntry { name, method, flags, crc, packed, unpacked, offset })
}

/// Returns the 64-bit fields in an extra field.
fn wide_fields(extra: &[u8]) -> Option<FieldReader<'_>> {
    let mut fields = FieldReader { rest: extra };
    loop {
        let (id, len) = (fields.u16()?, fields.u16()?);
        let content = fields.take_bytes(len.into())?;
        if id == 1 {
            return Some(FieldReader { rest: content });
        }
    }
}

impl ZipEntry {
    /// Decompresses an entry and verifies its checksum. The allocated memory is at most [`BEST_RATIO`] times the
    /// compressed size, so that a wrong size in the archive cannot exhaust memory.
    pub fn read(&self, file: ArchiveFile<'_>) -> HostResult<Vec<u8>> {
        let packed = self.packed_bytes(file, self.packed)?;
        let content = match self.method {
            STORED => packed,
            _ => self.inflate(&packed).ok_or_else(|| self.wrong_size_error(file))?,
        };
        match checksum(&content) == self.crc {
            true => Ok(content),
            false => Err(file.damaged(format!("the checksum of its entry `{}` does not match its bytes", self.name))),
        }
    }

    /// Decompresses up to `count` bytes at the beginning of an entry, without reading the rest.
    pub fn first_bytes(&self, file: ArchiveFile<'_>, count: u64) -> HostResult<Vec<u8>> {
        let count = count.min(self.unpacked);
        if self.method == STORED {
            return self.packed_bytes(file, count);
        }
        // Data that deflate cannot compress become slightly longer, and tables precede them.
        let packed = self.packed_bytes(file, self.packed.min(count + DEFLATE_OVERHEAD))?;
        let mut first = Vec::new();
        // The stream ends early, which is an error only for the whole entry.
        let _ = DeflateDecoder::new(&*packed).take(count).read_to_end(&mut first);
        Ok(first)
    }

    fn wrong_size_error(&self, file: ArchiveFile<'_>) -> RuntimeError {
        let (packed, unpacked) = (bytes_text(self.packed.into()), bytes_text(self.unpacked.into()));
        file.damaged(format!("its entry `{}` does not unpack from {packed} to the {unpacked} it promises", self.name))
    }

    /// Returns the first `count` bytes of the compressed data.
    fn packed_bytes(&self, file: ArchiveFile<'_>, count: u64) -> HostResult<Vec<u8>> {
        let name = &self.name;
        if self.flags & 1 != 0 {
            return Err(file.unsupported(format!("is encrypted (its entry `{name}` needs a password)")));
        }
        match self.method {
            STORED if self.packed != self.unpacked => {
                return Err(file.damaged(format!("its stored entry `{name}` has two different sizes")));
            }
            STORED | DEFLATED => {}
            other => {
                let method = method_name(other);
                return Err(file.unsupported(format!("packs its entry `{name}` with {method}; Clk knows deflate")));
            }
        }
        let gone = || file.damaged(format!("its entry `{name}` is not where the directory says"));
        let header = file.read(self.offset, LOCAL_LEN)?.ok_or_else(gone)?;
        let mut local = FieldReader { rest: &header };
        let mut lengths = || {
            let is_local = local.u32()? == LOCAL;
            local.take_bytes(22)?;
            is_local.then_some((local.u16()?, local.u16()?))
        };
        let (name_len, extra_len) = lengths().ok_or_else(gone)?;
        let start = self.offset.saturating_add(LOCAL_LEN + u64::from(name_len) + u64::from(extra_len));
        file.read(start, count)?.ok_or_else(gone)
    }

    /// Decompresses the data of the entry. Returns `None` if the result does not have the length in the directory.
    fn inflate(&self, packed: &[u8]) -> Option<Vec<u8>> {
        if self.unpacked > self.packed.saturating_mul(BEST_RATIO).saturating_add(64) {
            return None;
        }
        let len = usize::try_from(self.unpacked).ok()?;
        let mut content = alloc::vec(len);
        // The limit is one byte more than the length in the directory, to detect a longer stream.
        let mut stream = DeflateDecoder::new(packed).take(self.unpacked.saturating_add(1));
        while stream.by_ref().take(stop::POLL_INTERVAL as u64).read_to_end(&mut content).ok()? > 0 {
            stop::poll();
        }
        (content.len() == len).then_some(content)
    }
}

fn method_name(method: u16) -> String {
    match method {
        12 => "bzip2".into(),
        14 => "LZMA".into(),
        93 => "zstd".into(),
        95 => "xz".into(),
        99 => "AES".into(),
        other => format!("method {other}"),
    }
}

fn checksum(content: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    for part in content.chunks(stop::POLL_BYTES) {
        stop::poll();
        sum.update(part);
    }
    sum.finalize()
}

/// Builds an archive of stored entries (like `np.savez`).
#[derive(Default)]
pub(crate) struct ZipWriter {
    bytes: Vec<u8>,
    central: Vec<u8>,
    count: u64,
}

/// 1 January 1980. A constant date makes the archives reproducible.
const DATE: u16 = 0x21;

impl ZipWriter {
    pub fn add(&mut self, name: &str, content: &[u8]) {
        let (offset, size) = (self.bytes.len() as u64, content.len() as u64);
        let crc = checksum(content);
        let narrow = |n: u64| u32::try_from(n).unwrap_or(IN_EXTRA);
        let wide = size >= IN_EXTRA.into();
        let mut extra = Vec::new();
        if wide {
            extra.extend([1, 0, 16, 0]);
            extra.extend(size.to_le_bytes());
            extra.extend(size.to_le_bytes());
        }
        // Version 2.0 for plain entries, 4.5 for 64-bit sizes; bit 11 marks names as UTF-8.
        let head = |to: &mut Vec<u8>| {
            let version: u16 = if wide { 45 } else { 20 };
            for field in [version, 1 << 11, 0, 0, DATE] {
                to.extend(field.to_le_bytes());
            }
            for field in [crc, narrow(size), narrow(size)] {
                to.extend(field.to_le_bytes());
            }
            to.extend((name.len() as u16).to_le_bytes());
        };
        self.bytes.extend(LOCAL.to_le_bytes());
        head(&mut self.bytes);
        self.bytes.extend((extra.len() as u16).to_le_bytes());
        self.bytes.extend(name.bytes());
        self.bytes.extend(&extra);
        alloc::append(&mut self.bytes, content);

        if offset >= IN_EXTRA.into() {
            let len = if wide { 24u8 } else { 8 };
            extra = if wide { extra.split_off(4) } else { vec![] };
            extra.extend(offset.to_le_bytes());
            extra.splice(0..0, [1, 0, len, 0]);
        }
        self.central.extend(CENTRAL.to_le_bytes());
        self.central.extend(45u16.to_le_bytes());
        head(&mut self.central);
        self.central.extend((extra.len() as u16).to_le_bytes());
        self.central.extend([0; 10]);
        self.central.extend(narrow(offset).to_le_bytes());
        self.central.extend(name.bytes());
        self.central.extend(&extra);
        self.count += 1;
    }

    pub fn finish(mut self) -> Vec<u8> {
        let (offset, size, count) = (self.bytes.len() as u64, self.central.len() as u64, self.count);
        self.bytes.append(&mut self.central);
        let end_64 = self.bytes.len() as u64;
        if count >= u16::MAX.into() || offset >= IN_EXTRA.into() {
            self.bytes.extend(END_64.to_le_bytes());
            self.bytes.extend(44u64.to_le_bytes());
            self.bytes.extend([45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            for field in [count, count, size, offset] {
                self.bytes.extend(field.to_le_bytes());
            }
            self.bytes.extend(LOCATOR_64.to_le_bytes());
            self.bytes.extend(0u32.to_le_bytes());
            self.bytes.extend(end_64.to_le_bytes());
            self.bytes.extend(1u32.to_le_bytes());
        }
        let count = u16::try_from(count).unwrap_or(u16::MAX);
        let narrow = |n: u64| u32::try_from(n).unwrap_or(IN_EXTRA);
        self.bytes.extend(END.to_le_bytes());
        self.bytes.extend([0; 4]);
        self.bytes.extend(count.to_le_bytes());
        self.bytes.extend(count.to_le_bytes());
        self.bytes.extend(narrow(size).to_le_bytes());
        self.bytes.extend(narrow(offset).to_le_bytes());
        self.bytes.extend([0; 2]);
        self.bytes
    }
}

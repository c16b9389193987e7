//! .npz files: named arrays as .npy files in a zip archive.

use std::any::Any;
use std::sync::Arc;

use indexmap::IndexMap;
use smol_str::SmolStr;

use crate::array::{Array, DeferredWork, Reader};
use crate::files::file::{Members, NamedFile};
use crate::files::source::{ArchiveFile, OpenArchive};
use crate::files::{npy, zip};
use crate::problem::{HostResult, RuntimeError};
use crate::value::HostValue;
use clk_runtime::storage::Storage;

/// Maximum length of an array's name in bytes. Zip archives limit file names, which have an extension, to 65,535 bytes.
const LONGEST_NAME: usize = 65_000;

/// Number of bytes of a member that are read to learn its type. It suffices for the header of most arrays.
const FIRST_BYTES: u64 = 1024;

/// Decodes all members of an archive.
pub(crate) fn decode(file: &NamedFile) -> HostResult<HostValue> {
    let archive = ArchiveFile { name: file.name, source: &file.bytes };
    members(archive, |entry| read_member(archive, entry))
}

/// Opens an archive. Reads its directory and the headers of its members. A member is read when a program first uses its
/// elements.
pub(crate) fn open(archive: &OpenArchive) -> HostResult<HostValue> {
    let file = archive.file();
    members(file, |entry| {
        let name = member_name(file, entry);
        let mut first = entry.first_bytes(file, FIRST_BYTES)?;
        let header_len = npy::header_len(&first) as u64;
        if header_len > FIRST_BYTES {
            first = entry.first_bytes(file, header_len)?;
        }
        let header = npy::NpyHeader::read(&NamedFile { name: &name, bytes: &first })?;
        let (element, shape) = header.array_type(&name, entry.unpacked)?;
        Array::deferred(element, &shape, Arc::new(NpzMember { archive: archive.clone(), entry: entry.clone() }))
    })
}

/// Returns the table of the members. `read` returns one member. Entries that are not .npy files are skipped, as in
/// NumPy. An array of a type that Clk does not have, such as the texts that `scipy.sparse.save_npz` writes, is an error
/// only when a program reads it.
fn members(file: ArchiveFile<'_>, read: impl Fn(&zip::ZipEntry) -> HostResult<Array>) -> HostResult<HostValue> {
    let mut members = Members::default();
    let entries = zip::entries(file)?;
    for entry in &entries {
        let Some(name) = entry.name.strip_suffix(".npy") else { continue };
        members.add(file.name, name, read(entry))?;
    }
    match (members.is_empty(), entries.first()) {
        (true, Some(entry)) => Err(file.unsupported(format!("holds no arrays; its first entry is `{}`", entry.name))),
        _ => members.table(),
    }
}

/// Returns the name of a member for messages, which put it between backquotes.
fn member_name(file: ArchiveFile<'_>, entry: &zip::ZipEntry) -> String {
    format!("{}` (`{}` in it)", file.name, entry.name).trim_end_matches('`').to_string()
}

fn read_member(file: ArchiveFile<'_>, entry: &zip::ZipEntry) -> HostResult<Array> {
    let content = entry.read(file)?;
    npy::decode(&NamedFile { name: &member_name(file, entry), bytes: &content })
}

/// The bytes of a member that has not been read yet.
struct NpzMember {
    archive: OpenArchive,
    entry: zip::ZipEntry,
}

impl DeferredWork for NpzMember {
    fn run(&self, len: usize, _: Reader) -> HostResult<Storage> {
        let file = self.archive.file();
        let array = read_member(file, &self.entry)?;
        // An array in Fortran order is a view, whose bytes are computed here.
        array.bytes()?;
        match array.into_storage() {
            Ok(storage) if storage.len() == len => Ok(storage),
            _ => Err(file.damaged(format!("its entry `{}` has changed", self.entry.name))),
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Returns the total uncompressed size of the arrays in bytes, according to the directory of the archive. An entry that
/// is larger than the directory says cannot be read.
pub(crate) fn uncompressed_size(file: &NamedFile) -> HostResult<u64> {
    let archive = ArchiveFile { name: file.name, source: &file.bytes };
    Ok(zip::entries(archive)?.iter().fold(0, |sum: u64, entry| sum.saturating_add(entry.unpacked)))
}

pub(crate) fn encode(arrays: &IndexMap<SmolStr, Array>) -> HostResult<Vec<u8>> {
    let mut archive = zip::ZipWriter::default();
    for (name, array) in arrays {
        if name.len() > LONGEST_NAME {
            let title = format!("the name of an array has {} letters, too many for a .npz file", name.len());
            return Err(RuntimeError::new("E0715", title));
        }
        archive.add(&format!("{name}.npy"), &npy::encode(array)?);
    }
    Ok(archive.finish())
}

//! .npz files: named arrays as .npy files in a zip archive.

use indexmap::IndexMap;
use smol_str::SmolStr;

use crate::array::Array;
use crate::files::file::{Members, NamedFile};
use crate::files::{npy, zip};
use crate::problem::{HostResult, RuntimeError};
use crate::value::HostValue;

/// Maximum length of an array's name in bytes. Zip archives limit file names, which have an extension, to 65,535 bytes.
const LONGEST_NAME: usize = 65_000;

/// Decodes an archive. Entries that are not .npy files are skipped, as in NumPy. An array of a type that Clk does not
/// have, such as the texts that `scipy.sparse.save_npz` writes, is an error only when a program reads it.
pub(crate) fn decode(file: &NamedFile) -> HostResult<HostValue> {
    let mut members = Members::default();
    let entries = zip::entries(file)?;
    for entry in &entries {
        let Some(name) = entry.name.strip_suffix(".npy") else { continue };
        let inner = format!("{}` (`{}` in it)", file.name, entry.name);
        let array = entry
            .read(file)
            .and_then(|content| npy::decode(&NamedFile { name: inner.trim_end_matches('`'), bytes: &content }));
        members.add(file, name, array)?;
    }
    match (members.is_empty(), entries.first()) {
        (true, Some(entry)) => Err(file.unsupported(format!("holds no arrays; its first entry is `{}`", entry.name))),
        _ => members.table(),
    }
}

/// Returns the total uncompressed size of the arrays in bytes, according to the directory of the archive. An entry that
/// is larger than the directory says cannot be read.
pub(crate) fn uncompressed_size(file: &NamedFile) -> HostResult<u64> {
    Ok(zip::entries(file)?.iter().fold(0, |sum: u64, entry| sum.saturating_add(entry.unpacked)))
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

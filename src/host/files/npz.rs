//! .npz files: named arrays as .npy files in a zip archive.

use indexmap::IndexMap;
use smol_str::SmolStr;

use crate::host::array::Array;
use crate::host::files::file::{File, Members};
use crate::host::files::{npy, zip};
use crate::host::problem::{Outcome, Problem};
use crate::host::value::Value;

/// The limit of zip, less the extension.
const LONGEST_NAME: usize = 65_000;

/// Decodes an archive; entries that are not .npy files are skipped, as in NumPy. Arrays of types that Clk does not have, such as the texts
/// that `scipy.sparse.save_npz` writes, are errors only when they are read.
pub(crate) fn decode(file: &File) -> Outcome<Value> {
    let mut members = Members::default();
    let entries = zip::entries(file)?;
    for entry in &entries {
        let Some(name) = entry.name.strip_suffix(".npy") else { continue };
        let inner = format!("{}` (`{}` in it)", file.name, entry.name);
        let array = entry
            .read(file)
            .and_then(|content| npy::decode(&File { name: inner.trim_end_matches('`'), bytes: &content }));
        members.add(file, name, array)?;
    }
    match (members.is_empty(), entries.first()) {
        (true, Some(entry)) => Err(file.unsupported(format!("holds no arrays; its first entry is `{}`", entry.name))),
        _ => members.table(),
    }
}

/// Returns the total uncompressed size of the arrays in bytes, as the directory states it; reading an entry that is larger fails.
pub(crate) fn unpacked(file: &File) -> Outcome<u64> {
    Ok(zip::entries(file)?.iter().fold(0, |sum: u64, entry| sum.saturating_add(entry.unpacked)))
}

pub(crate) fn encode(arrays: &IndexMap<SmolStr, Array>) -> Outcome<Vec<u8>> {
    let mut archive = zip::Writer::default();
    for (name, array) in arrays {
        if name.len() > LONGEST_NAME {
            let title = format!("the name of an array has {} letters, too many for a .npz file", name.len());
            return Err(Problem::new("E0715", title));
        }
        archive.add(&format!("{name}.npy"), &npy::encode(array)?);
    }
    Ok(archive.finish())
}

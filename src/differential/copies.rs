//! Copies the arrays of a launch, so that the launch can be executed again.
//!
//! Input: the arguments of a launch. Output: copies of the arrays that the launch may write, and arguments that refer
//! to the copies.

use clk_base::aligned::AlignedBytes;
use clk_runtime::storage::Storage;
use clk_runtime::{Arg, DeviceError};

/// By argument position, copies of the arrays that a kernel may write; `None` for all other arguments.
pub(super) type WrittenArrays = Vec<Option<Storage>>;

/// Duplicates copied arrays; `None` if there is not enough memory.
pub(super) fn duplicate_arrays(copies: &[Option<Storage>]) -> Option<WrittenArrays> {
    let duplicate_one = |copy: &Option<Storage>| match copy {
        Some(copy) => copy.duplicate().map(Some),
        None => Some(None),
    };
    copies.iter().map(duplicate_one).collect()
}

/// Copies an array that the launch may write; `None` for other arguments.
pub(super) fn copy(arg: &Arg<'_>) -> Result<Option<Storage>, DeviceError> {
    let copied = match arg {
        Arg::Write { bytes, .. } => AlignedBytes::copy_of(bytes).map(Storage::of_bytes),
        Arg::ArrayMut { storage, .. } => storage.duplicate(),
        _ => return Ok(None),
    };
    let byte_count = match arg {
        Arg::Write { bytes, .. } => bytes.len(),
        Arg::ArrayMut { storage, .. } => storage.len(),
        _ => 0,
    } as u64;
    copied.map(Some).ok_or(DeviceError::NoHostMemory { wanted: byte_count })
}

/// Returns an argument that refers to `copy`, or to the original array if there is no copy.
pub(super) fn with_copy<'a>(arg: &'a Arg<'_>, copy: &'a mut Option<Storage>) -> Arg<'a> {
    match (arg, copy) {
        (Arg::Value(values), _) => Arg::Value(values.clone()),
        (Arg::Read { bytes, shape }, _) => Arg::Read { bytes, shape: shape.clone() },
        (Arg::Array { storage, shape }, _) => Arg::Array { storage, shape: shape.clone() },
        (Arg::Write { shape, .. } | Arg::ArrayMut { shape, .. }, Some(storage)) => {
            Arg::ArrayMut { storage, shape: shape.clone() }
        }
        (Arg::Write { bytes, shape }, None) => Arg::Read { bytes, shape: shape.clone() },
        (Arg::ArrayMut { storage, shape }, None) => Arg::Array { storage, shape: shape.clone() },
    }
}

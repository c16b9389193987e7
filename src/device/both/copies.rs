//! Copies of the arrays of a launch, for further runs of it.
//!
//! Input: the arguments of a launch. Output: what the arrays hold that it may write, and arguments that write to such copies instead.

use crate::base::aligned::AlignedBytes;
use crate::device::storage::Storage;
use crate::device::{Arg, DeviceError};

/// The contents of the arrays that a kernel may write.
pub(super) type Copies = Vec<Option<Storage>>;

/// Returns the same contents once more; `None` if there is not enough memory.
pub(super) fn duplicated(copies: &[Option<Storage>]) -> Option<Copies> {
    let again = |copy: &Option<Storage>| match copy {
        Some(copy) => copy.duplicate().map(Some),
        None => Some(None),
    };
    copies.iter().map(again).collect()
}

/// Returns a copy of an array for the other device to write to.
pub(super) fn copy(arg: &Arg<'_>) -> Result<Option<Storage>, DeviceError> {
    let copied = match arg {
        Arg::Write { bytes, .. } => AlignedBytes::copy_of(bytes).map(Storage::of_bytes),
        Arg::ArrayMut { storage, .. } => storage.duplicate(),
        _ => return Ok(None),
    };
    let wanted = match arg {
        Arg::Write { bytes, .. } => bytes.len(),
        Arg::ArrayMut { storage, .. } => storage.len(),
        _ => 0,
    } as u64;
    copied.map(Some).ok_or(DeviceError::NoHostMemory { wanted })
}

/// Returns the argument for the other device.
pub(super) fn again<'a>(arg: &'a Arg<'_>, copy: &'a mut Option<Storage>) -> Arg<'a> {
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

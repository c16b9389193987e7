//! .safetensors files: named arrays with a JSON header. It is the only format of Clk that supports `bf16`.

use std::any::Any;
use std::sync::Arc;

use ::safetensors::tensor::{Metadata, TensorInfo};
use ::safetensors::{Dtype, SafeTensorError};
use indexmap::IndexMap;
use smol_str::SmolStr;

use crate::array::{Array, DeferredWork, Reader};
use crate::files::file::{Members, NamedFile, bytes_text, check_shape};
use crate::files::items::scalars_only;
use crate::files::source::{ArchiveFile, OpenArchive};
use crate::problem::{HostResult, RuntimeError};
use crate::value::HostValue;
use clk_base::{alloc, stop};
use clk_runtime::storage::Storage;
use clk_scalar::Scalar;

/// Maximum length in bytes of a header. The format's own library rejects files with a longer one.
const MOST_HEADER: usize = 100_000_000;

/// Decodes all tensors of a file.
pub(crate) fn decode(file: &NamedFile) -> HostResult<HostValue> {
    let archive = ArchiveFile { name: file.name, source: &file.bytes };
    tensors(archive, |tensor| {
        let mut array = Array::zeros(tensor.scalar, &tensor.shape)?;
        tensor.read(archive, array.bytes_mut()?)?;
        Ok(array)
    })
}

/// Opens a file. Reads its header. A tensor is read when a program first uses its elements.
pub(crate) fn open(archive: &OpenArchive) -> HostResult<HostValue> {
    tensors(archive.file(), |tensor| {
        let shape = tensor.shape.clone();
        Array::deferred(tensor.scalar.into(), &shape, Arc::new(DeferredTensor { archive: archive.clone(), tensor }))
    })
}

/// A tensor of a type that Clk has.
struct TensorPosition {
    scalar: Scalar,
    shape: Vec<usize>,
    /// Offset of the first byte in the file.
    offset: u64,
}

impl TensorPosition {
    /// Reads the elements. For a `bool`, any nonzero byte is true.
    fn read(&self, file: ArchiveFile<'_>, bytes: &mut [u8]) -> HostResult<()> {
        file.fill(self.offset, bytes)?;
        if self.scalar == Scalar::Bool {
            stop::polled(bytes).for_each(|byte| *byte = u8::from(*byte != 0));
        }
        Ok(())
    }
}

/// The bytes of a tensor that has not been read yet.
struct DeferredTensor {
    archive: OpenArchive,
    tensor: TensorPosition,
}

impl DeferredWork for DeferredTensor {
    fn run(&self, len: usize, _: Reader) -> HostResult<Storage> {
        let mut storage = Storage::zeros(len);
        self.tensor.read(self.archive.file(), storage.bytes_mut()?)?;
        Ok(storage)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Returns the table of the tensors. `read` returns one tensor. The table has them in the order of their data in the
/// file. A tensor of a type that Clk does not have, such as F8, is an error only when a program reads it.
fn tensors(file: ArchiveFile<'_>, read: impl Fn(TensorPosition) -> HostResult<Array>) -> HostResult<HostValue> {
    let (mut infos, data_start) = header(file)?;
    // Empty tensors share their offset, so they are ordered by name.
    infos.sort_by(|(a, x), (b, y)| (x.data_offsets.0, a).cmp(&(y.data_offsets.0, b)));
    let mut members = Members::default();
    for (name, info) in infos {
        let array = tensor_position(file, &name, &info, data_start).and_then(&read);
        members.add(file.name, &name, array)?;
    }
    members.table()
}

/// Reads the header of a file. Returns the descriptions of the tensors and the offset of the data.
fn header(file: ArchiveFile<'_>) -> HostResult<(Vec<(String, TensorInfo)>, u64)> {
    let damaged = |error| damaged(file, error);
    let first = file.read(0, 8)?.and_then(|first| first.first_chunk().copied());
    let len = u64::from_le_bytes(first.ok_or_else(|| damaged(SafeTensorError::HeaderTooSmall))?);
    let too_long = || {
        let length = bytes_text(file.byte_len().into());
        file.damaged(format!("it promises a header of {len} bytes, and the file has {length}"))
    };
    if len > MOST_HEADER as u64 {
        return Err(too_long());
    }
    let header = file.read(8, len)?.ok_or_else(too_long)?;
    let header = std::str::from_utf8(&header).map_err(|error| damaged(SafeTensorError::InvalidHeader(error)))?;
    let malformed = |error| damaged(SafeTensorError::InvalidHeaderDeserialization(error));
    let entries: serde_json::Map<String, serde_json::Value> = serde_json::from_str(header).map_err(malformed)?;
    let mut infos = Vec::with_capacity(entries.len());
    for (name, entry) in entries {
        if name != "__metadata__" {
            infos.push((name, serde_json::from_value::<TensorInfo>(entry).map_err(malformed)?));
        }
    }
    infos.sort_by_key(|(_, info)| info.data_offsets);
    // The library checks that the tensors neither overlap nor leave gaps, and that their sizes match their shapes.
    let metadata = Metadata::new(None, infos.clone()).map_err(damaged)?;
    if (metadata.data_len() as u64).checked_add(8 + len) != Some(file.byte_len()) {
        return Err(damaged(SafeTensorError::MetadataIncompleteBuffer));
    }
    Ok((infos, 8 + len))
}

fn tensor_position(
    file: ArchiveFile<'_>,
    name: &str,
    info: &TensorInfo,
    data_start: u64,
) -> HostResult<TensorPosition> {
    let scalar = scalar(info.dtype).ok_or_else(|| {
        file.unsupported(format!("holds a tensor `{name}` of type {:?}, which Clk has no type for", info.dtype))
    })?;
    let dims: Vec<u64> = info.shape.iter().map(|&n| n as u64).collect();
    let (shape, _) = check_shape(file.name, &dims, scalar.size())?;
    Ok(TensorPosition { scalar, shape, offset: data_start + info.data_offsets.0 as u64 })
}

/// Converts an error of the `safetensors` library, such as a wrong offset, to the error for a damaged file.
fn damaged(file: ArchiveFile<'_>, error: SafeTensorError) -> RuntimeError {
    let length = bytes_text(file.byte_len().into());
    match error {
        SafeTensorError::HeaderTooSmall => file.damaged(format!("it is only {length} long")),
        SafeTensorError::InvalidHeader(_) => file.damaged("its header is not text"),
        SafeTensorError::InvalidHeaderDeserialization(error) => {
            file.damaged(format!("its header is malformed ({error})"))
        }
        SafeTensorError::MetadataIncompleteBuffer => {
            file.damaged(format!("the tensors that its header lists do not fill the file of {length} exactly"))
        }
        SafeTensorError::InvalidOffset(name) => {
            file.damaged(format!("its tensor `{name}` overlaps another or leaves a gap"))
        }
        SafeTensorError::TensorInvalidInfo => file.damaged("the size of a tensor does not match its type and shape"),
        SafeTensorError::ValidationOverflow => file.damaged("the size of a tensor is beyond all bounds"),
        other => file.damaged(other),
    }
}

fn scalar(dtype: Dtype) -> Option<Scalar> {
    Some(match dtype {
        Dtype::BOOL => Scalar::Bool,
        Dtype::I8 => Scalar::I8,
        Dtype::I16 => Scalar::I16,
        Dtype::I32 => Scalar::I32,
        Dtype::I64 => Scalar::I64,
        Dtype::U8 => Scalar::U8,
        Dtype::U16 => Scalar::U16,
        Dtype::U32 => Scalar::U32,
        Dtype::U64 => Scalar::U64,
        Dtype::F16 => Scalar::F16,
        Dtype::BF16 => Scalar::Bf16,
        Dtype::F32 => Scalar::F32,
        Dtype::F64 => Scalar::F64,
        _ => return None,
    })
}

fn dtype(scalar: Scalar) -> Dtype {
    match scalar {
        Scalar::Bool => Dtype::BOOL,
        Scalar::I8 => Dtype::I8,
        Scalar::I16 => Dtype::I16,
        Scalar::I32 => Dtype::I32,
        Scalar::I64 => Dtype::I64,
        Scalar::U8 => Dtype::U8,
        Scalar::U16 => Dtype::U16,
        Scalar::U32 => Dtype::U32,
        Scalar::U64 => Dtype::U64,
        Scalar::F16 => Dtype::F16,
        Scalar::Bf16 => Dtype::BF16,
        Scalar::F32 => Dtype::F32,
        Scalar::F64 => Dtype::F64,
    }
}

/// Encodes arrays; vectors become an additional axis.
pub(crate) fn encode(arrays: &IndexMap<SmolStr, Array>) -> HostResult<Vec<u8>> {
    let failed = |error: SafeTensorError| RuntimeError::new("E0715", format!("the file cannot be written: {error}"));
    let mut tensors = Vec::with_capacity(arrays.len());
    for (name, array) in arrays {
        let (scalar, shape) = scalars_only(array)?;
        tensors.push((name, dtype(scalar), shape, array.bytes()?));
    }
    // The same order as in the format's own library: tensors with wider types first, so that all data are aligned.
    tensors.sort_by(|(a, x, ..), (b, y, ..)| y.cmp(x).then(a.cmp(b)));
    let mut end = 0;
    let mut infos = Vec::with_capacity(tensors.len());
    for (name, dtype, shape, bytes) in &tensors {
        let start = end;
        end += bytes.len();
        infos.push((name.to_string(), TensorInfo { dtype: *dtype, shape: shape.clone(), data_offsets: (start, end) }));
    }
    let metadata = Metadata::new(None, infos).map_err(failed)?;
    let mut header = serde_json::to_vec(&metadata)
        .map_err(|error| RuntimeError::new("E0715", format!("the file cannot be written: {error}")))?;
    header.resize(header.len().next_multiple_of(8), b' ');
    if header.len() > MOST_HEADER {
        let title = format!("the names and shapes of the arrays take {} bytes", header.len());
        return Err(RuntimeError::new("E0715", title).note(format!("a .safetensors file has room for {MOST_HEADER}")));
    }
    let mut file = alloc::vec(8 + header.len() + end);
    file.extend_from_slice(&(header.len() as u64).to_le_bytes());
    file.extend_from_slice(&header);
    tensors.iter().for_each(|(.., bytes)| alloc::append(&mut file, bytes));
    Ok(file)
}

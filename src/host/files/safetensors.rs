//! .safetensors files: named arrays with a JSON header. It is the only format of Clk that supports `bf16`.

use ::safetensors::tensor::{Metadata, TensorInfo, TensorView};
use ::safetensors::{Dtype, SafeTensorError, SafeTensors};
use indexmap::IndexMap;
use smol_str::SmolStr;

use crate::array::Array;
use crate::files::file::{Members, NamedFile, bytes_text, check_shape};
use crate::files::items::scalars_only;
use crate::problem::{HostResult, RuntimeError};
use crate::value::HostValue;
use clk_base::{alloc, stop};
use clk_scalar::Scalar;

/// Maximum length in bytes of a header. The format's own library rejects files with a longer one.
const MOST_HEADER: usize = 100_000_000;

/// Decodes the tensors of a file. The table has them in the order of their data in the file. A tensor of a type that
/// Clk does not have, such as F8, is an error only when a program reads it.
pub(crate) fn decode(file: &NamedFile) -> HostResult<HostValue> {
    let tensors = SafeTensors::deserialize(file.bytes).map_err(|error| damaged(file, error))?;
    let mut views = tensors.tensors();
    // Empty tensors share their offset, so they are ordered by name.
    views.sort_by(|(a, x), (b, y)| (x.data().as_ptr(), a).cmp(&(y.data().as_ptr(), b)));
    let mut members = Members::default();
    for (name, view) in views {
        members.add(file, &name, tensor(file, &name, &view))?;
    }
    members.table()
}

fn tensor(file: &NamedFile, name: &str, view: &TensorView<'_>) -> HostResult<Array> {
    let scalar = scalar(view.dtype()).ok_or_else(|| {
        file.unsupported(format!("holds a tensor `{name}` of type {:?}, which Clk has no type for", view.dtype()))
    })?;
    let dims: Vec<u64> = view.shape().iter().map(|&n| n as u64).collect();
    let (shape, _) = check_shape(file, &dims, scalar.size())?;
    let mut array = Array::from_bytes(scalar, &shape, view.data())?;
    if scalar == Scalar::Bool {
        stop::polled(array.bytes_mut()?).for_each(|byte| *byte = u8::from(*byte != 0));
    }
    Ok(array)
}

/// Converts an error of the `safetensors` library, such as a wrong offset, to the error for a damaged file.
fn damaged(file: &NamedFile, error: SafeTensorError) -> RuntimeError {
    let length = bytes_text(file.bytes.len() as u128);
    let promised = file.bytes.first_chunk::<8>().map_or(0, |len| u64::from_le_bytes(*len));
    match error {
        SafeTensorError::HeaderTooSmall => file.damaged(format!("it is only {length} long")),
        SafeTensorError::HeaderTooLarge | SafeTensorError::InvalidHeaderLength => {
            file.damaged(format!("it promises a header of {promised} bytes, and the file has {length}"))
        }
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

//! .safetensors files: named arrays with a JSON header; the only format here with bf16.

use ::safetensors::tensor::{Metadata, TensorInfo, TensorView};
use ::safetensors::{Dtype, SafeTensorError, SafeTensors};
use indexmap::IndexMap;
use smol_str::SmolStr;

use crate::base::{room, stop};
use crate::host::array::Array;
use crate::host::files::file::{File, Members, bytes_text, checked_shape};
use crate::host::files::items::scalars_only;
use crate::host::problem::{Outcome, Problem};
use crate::host::value::Value;
use crate::lang::scalar::Scalar;

/// Maximum length of a header in bytes that readers accept.
const MOST_HEADER: usize = 100_000_000;

/// Decodes the tensors of a file, in the order of their data. Tensors of types that Clk does not have, such as F8, are errors only when they
/// are read.
pub(crate) fn decode(file: &File) -> Outcome<Value> {
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

fn tensor(file: &File, name: &str, view: &TensorView<'_>) -> Outcome<Array> {
    let scalar = scalar(view.dtype()).ok_or_else(|| {
        file.unsupported(format!("holds a tensor `{name}` of type {:?}, which Clk has no type for", view.dtype()))
    })?;
    let dims: Vec<u64> = view.shape().iter().map(|&n| n as u64).collect();
    let (shape, _) = checked_shape(file, &dims, scalar.size())?;
    let mut array = Array::from_bytes(scalar, &shape, view.data())?;
    if scalar == Scalar::Bool {
        stop::polled(array.bytes_mut()?).for_each(|byte| *byte = u8::from(*byte != 0));
    }
    Ok(array)
}

/// Returns the error for an invalid file, with the numbers in question.
fn damaged(file: &File, error: SafeTensorError) -> Problem {
    let length = bytes_text(file.bytes.len() as u128);
    let promised = file.bytes.first_chunk::<8>().map_or(0, |len| u64::from_le_bytes(*len));
    match error {
        SafeTensorError::HeaderTooSmall => file.damaged(format!("it is only {length} long")),
        SafeTensorError::HeaderTooLarge | SafeTensorError::InvalidHeaderLength => {
            file.damaged(format!("it promises a header of {promised} bytes, and the file has {length}"))
        }
        SafeTensorError::InvalidHeader(_) => file.damaged("its header is not text"),
        SafeTensorError::InvalidHeaderDeserialization(error) => {
            file.damaged(format!("its header is not what it should be ({error})"))
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
pub(crate) fn encode(arrays: &IndexMap<SmolStr, Array>) -> Outcome<Vec<u8>> {
    let failed = |error: SafeTensorError| Problem::new("E0715", format!("the file cannot be written: {error}"));
    let mut tensors = Vec::with_capacity(arrays.len());
    for (name, array) in arrays {
        let (scalar, shape) = scalars_only(array)?;
        tensors.push((name, dtype(scalar), shape, array.bytes()?));
    }
    // Ordered as the format's own library does: wider types first, so that all data are aligned.
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
        .map_err(|error| Problem::new("E0715", format!("the file cannot be written: {error}")))?;
    header.resize(header.len().next_multiple_of(8), b' ');
    if header.len() > MOST_HEADER {
        let title = format!("the names and shapes of the arrays take {} bytes", header.len());
        return Err(Problem::new("E0715", title).note(format!("a .safetensors file has room for {MOST_HEADER}")));
    }
    let mut file = room::vec(8 + header.len() + end);
    file.extend_from_slice(&(header.len() as u64).to_le_bytes());
    file.extend_from_slice(&header);
    tensors.iter().for_each(|(.., bytes)| room::append(&mut file, bytes));
    Ok(file)
}

//! Arrays in GPU memory: selects the device of a call, synchronizes with the library that owns an array, and parses
//! `__cuda_array_interface__`.
//!
//! A call runs on the GPU of its arrays; a `device` option may only name that GPU. The call waits for the work that
//! fills its arrays:
//!
//! - torch, CuPy: an event on the library's current stream;
//! - other libraries with DLPack: a stream of Clk that the producer makes wait for its work;
//! - `__cuda_array_interface__`: the stream in its entry `stream`: none (no wait), 1 (default stream), 2 (default
//!   stream of the thread), or a handle.
//!
//! If all arrays belong to torch or CuPy, their current stream waits for the kernels, and the call returns early.
//! Otherwise, and if a kernel may report a fault, the call waits. Unaligned and overlapping memory is copied on the
//! GPU. torch and CuPy convert other layouts to row-major order; for other libraries, such arrays are rejected.

use std::cell::Cell;

use clk_host::array::ElementType;
use clk_lang::embed::{self, CallOptions};
use clk_scalar::Scalar;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::array::ClkArray;
use crate::convert;
use crate::dlpack::row_major_strides;
use crate::errors;
use crate::imported_array::{self, ArrayLibrary, ImportedArray, MAX_AXES, Residency};

/// The current stream of a library on a GPU, queried once per call.
#[derive(Default)]
pub struct StreamCache(Cell<Option<(ArrayLibrary, u32, usize)>>);

/// The memory in which an imported array may be.
pub enum Destination<'a> {
    /// Host memory.
    Host,
    /// Host memory, or the memory of a GPU on which the options of the call allow it to run.
    Call(&'a CallOptions, &'a StreamCache),
}

impl Destination<'_> {
    /// Returns the current stream of a library on a GPU, from the cache or by `query`.
    pub fn current_stream(
        &self,
        py: Python<'_>,
        library: ArrayLibrary,
        gpu: u32,
        query: impl FnOnce() -> PyResult<usize>,
    ) -> PyResult<usize> {
        let cache = match self {
            Destination::Host => None,
            Destination::Call(_, cache) => Some(cache),
        };
        if let Some((cached_library, cached_gpu, stream)) = cache.and_then(|cache| cache.0.get())
            && (cached_library, cached_gpu) == (library, gpu)
        {
            return Ok(stream);
        }
        let stream = query()?;
        reject_captured_stream(py, stream)?;
        cache.into_iter().for_each(|cache| cache.0.set(Some((library, gpu, stream))));
        Ok(stream)
    }

    /// Rejects an array in the memory of a GPU if it cannot be used there.
    pub fn check_gpu(&self, py: Python<'_>, gpu: u32) -> PyResult<()> {
        let copy = "copy it to the host first: `x.cpu()`, `cupy.asnumpy(x)`";
        let options = match self {
            Destination::Host => {
                let title = "an array in GPU memory is not accepted here".to_string();
                return Err(errors::call_error(py, "E0809", title, &[copy], &[]));
            }
            Destination::Call(options, _) => options,
        };
        if options.is_checked() {
            let title = "calls with checks run on the simulator, but this array is in GPU memory".to_string();
            return Err(errors::call_error(py, "E0809", title, &[copy], &[]));
        }
        let Some(device) = &options.device else { return Ok(()) };
        if parse_gpu_number(device) == Some(gpu) {
            return Ok(());
        }
        let title = format!("the call runs on `{device}`, but this array is in the memory of `gpu:{gpu}`");
        let help = format!("leave out `device` to run on the GPU of the arrays, or pass `device=\"gpu:{gpu}\"`");
        Err(errors::call_error(py, "E0809", title, &[&help, copy], &[]))
    }
}

/// Rejects a stream that is being captured in a CUDA graph.
fn reject_captured_stream(py: Python<'_>, stream: usize) -> PyResult<()> {
    if !embed::is_capturing(stream) {
        return Ok(());
    }
    let title = "a call of Clk cannot be captured in a CUDA graph, but this stream is being captured".to_string();
    let help = "call it outside of `torch.cuda.graph`";
    let note = "a call may wait for its kernels to report their faults";
    Err(errors::call_error(py, "E0809", title, &[help], &[note]))
}

/// Returns the number of the GPU with this device name.
fn parse_gpu_number(device: &str) -> Option<u32> {
    match device.strip_prefix("gpu") {
        Some("") => Some(0),
        Some(rest) => rest.strip_prefix(':')?.parse().ok(),
        None => (device == "auto").then_some(0),
    }
}

/// Returns the GPU whose memory has arrays of the call; `None` if all are in host memory. Rejects arrays of several
/// GPUs.
pub fn find_common_gpu(py: Python<'_>, arrays: &[Option<ImportedArray>]) -> PyResult<Option<u32>> {
    let mut numbers = arrays.iter().flatten().filter(|array| !array.is_empty()).filter_map(ImportedArray::gpu);
    let Some(first) = numbers.next() else { return Ok(arrays.iter().flatten().find_map(ImportedArray::gpu)) };
    match numbers.find(|number| *number != first) {
        None => Ok(Some(first)),
        Some(other) => {
            let title = format!("the arrays of this call are in the memory of `gpu:{first}` and of `gpu:{other}`");
            let help = "copy them to one GPU: `x.to(\"cuda:0\")`, `jax.device_put(x, device)`";
            Err(errors::call_error(py, "E0809", title, &[help], &[]))
        }
    }
}

/// Returns a stream of Clk to pass to `__dlpack__`. The producer makes this stream wait for its own work on the array.
pub fn synchronization_stream(py: Python<'_>, gpu: u32) -> PyResult<usize> {
    py.detach(|| embed::lender_stream(gpu)).map_err(|reason| {
        let title = format!("this array is in the memory of GPU {gpu}, which cannot be used");
        errors::call_error(py, "E0809", title, &[], &[&reason.to_string()])
    })
}

/// Returns whether a library runs its work on a current stream, and its allocator reuses memory in the order of that
/// stream.
pub fn is_stream_ordered(library: ArrayLibrary) -> bool {
    matches!(library, ArrayLibrary::Torch | ArrayLibrary::CuPy)
}

/// Asks torch or CuPy for its current stream on a GPU.
pub fn query_current_stream(py: Python<'_>, library: ArrayLibrary, gpu: u32) -> PyResult<usize> {
    let (module, function, handle) = match library {
        ArrayLibrary::CuPy => ("cupy", intern!(py, "get_current_stream"), intern!(py, "ptr")),
        _ => ("torch", intern!(py, "current_stream"), intern!(py, "cuda_stream")),
    };
    let cuda = py.import(module)?.getattr(intern!(py, "cuda"))?;
    cuda.call_method1(function, (gpu,))?.getattr(handle)?.extract()
}

/// Runs `work` with a GPU as torch's current device.
pub fn with_torch_gpu<'py, T>(py: Python<'py>, gpu: u32, work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    let cuda = py.import(intern!(py, "torch"))?.getattr(intern!(py, "cuda"))?;
    let current: u32 = cuda.call_method0(intern!(py, "current_device"))?.extract()?;
    if current == gpu {
        return work();
    }
    cuda.call_method1(intern!(py, "set_device"), (gpu,))?;
    let result = work();
    cuda.call_method1(intern!(py, "set_device"), (current,))?;
    result
}

/// The contents of a `__cuda_array_interface__`.
#[derive(Debug)]
pub struct CudaArrayInterface {
    pub address: u64,
    pub scalar: Scalar,
    pub shape: Vec<usize>,
    /// Strides in bytes.
    pub strides: Vec<isize>,
    pub readonly: bool,
    /// The stream whose work has to complete before the array is used.
    pub after: Option<usize>,
}

/// Parses a `__cuda_array_interface__`.
pub fn parse_cuda_array_interface(dict: &Bound<'_, PyDict>) -> PyResult<CudaArrayInterface> {
    let py = dict.py();
    let invalid =
        |title: String| errors::call_error(py, "E0809", title, &[], &["its `__cuda_array_interface__` says so"]);
    let get = |name: &str| Ok::<_, PyErr>(dict.get_item(name)?.filter(|value| !value.is_none()));
    let require = |name: &str| get(name)?.ok_or_else(|| invalid(format!("`__cuda_array_interface__` has no `{name}`")));
    let version: i64 = require("version")?.extract()?;
    if !(2..=3).contains(&version) {
        let title = format!("`__cuda_array_interface__` has version {version}; versions 2 and 3 are supported");
        return Err(invalid(title));
    }
    if get("mask")?.is_some() {
        return Err(invalid("masked arrays are not supported".into()));
    }
    let shape: Vec<usize> = convert::limited_items(&require("shape")?, MAX_AXES)?;
    let typestr = require("typestr")?;
    let typestr = typestr.cast::<PyString>()?.to_string_lossy().into_owned();
    let scalar = parse_typestr(&typestr).ok_or_else(|| imported_array::unsupported_type_error(py, &typestr))?;
    let (address, readonly): (u64, bool) = require("data")?.extract()?;
    let strides = match get("strides")? {
        None => row_major_strides(&shape, scalar.size() as isize),
        Some(strides) => convert::limited_items(&strides, MAX_AXES)?,
    };
    if strides.len() != shape.len() {
        return Err(invalid(format!("an array of {} axes has {} strides", shape.len(), strides.len())));
    }
    let after = match get("stream")?.map(|stream| stream.extract::<i128>()).transpose()? {
        // Version 2 of the protocol has no stream, so the call waits for the default stream.
        None => (version == 2).then_some(1),
        Some(0) => {
            let title = "stream 0 of a `__cuda_array_interface__` is not allowed, since it is ambiguous".to_string();
            let help = "the library has to pass 1 for the default stream, or 2 for the default stream of the thread";
            return Err(errors::call_error(py, "E0809", title, &[help], &[]));
        }
        Some(stream) => {
            Some(usize::try_from(stream).map_err(|_| invalid(format!("stream {stream} is not a valid CUDA stream")))?)
        }
    };
    if address == 0 && !shape.contains(&0) {
        return Err(invalid("an array that is not empty has the address 0".into()));
    }
    Ok(CudaArrayInterface { address, scalar, shape, strides, readonly, after })
}

/// Returns whether the `__cuda_array_interface__` of an object declares it as writable. Unversioned DLPack capsules
/// have no such information.
pub fn is_declared_writable(object: &Bound<'_, PyAny>) -> bool {
    let interface = object.getattr(intern!(object.py(), "__cuda_array_interface__"));
    let data = interface.and_then(|interface| interface.get_item("data")?.extract::<(u64, bool)>());
    data.is_ok_and(|(_, readonly)| !readonly)
}

/// Parses a `typestr` such as `<f4`.
fn parse_typestr(typestr: &str) -> Option<Scalar> {
    use Scalar::*;
    let order = typestr.chars().next()?;
    let scalar = match typestr.get(1..)? {
        "b1" => Bool,
        "i1" => I8,
        "i2" => I16,
        "i4" => I32,
        "i8" => I64,
        "u1" => U8,
        "u2" => U16,
        "u4" => U32,
        "u8" => U64,
        "f2" => F16,
        "f4" => F32,
        "f8" => F64,
        _ => return None,
    };
    (order == '<' || order == '=' || scalar.size() == 1).then_some(scalar)
}

/// Returns the `typestr` of a type, such as `<f4`.
pub fn typestr(scalar: Scalar) -> Option<String> {
    let kind = match scalar {
        Scalar::Bf16 => return None,
        Scalar::Bool => 'b',
        scalar if scalar.is_float() => 'f',
        scalar if scalar.is_unsigned() => 'u',
        _ => 'i',
    };
    let order = if scalar.size() == 1 { '|' } else { '<' };
    Some(format!("{order}{kind}{}", scalar.size()))
}

/// Imports an array by its `__cuda_array_interface__`.
pub fn from_cuda_array_interface(object: &Bound<'_, PyAny>, destination: &Destination<'_>) -> PyResult<ImportedArray> {
    let py = object.py();
    let dict = object.getattr(intern!(py, "__cuda_array_interface__"))?;
    let interface = parse_cuda_array_interface(dict.cast::<PyDict>()?)?;
    let gpu = match interface.address {
        0 => 0,
        address => embed::gpu_of_address(address).ok_or_else(|| {
            let title = format!("address {address:#x} of a `__cuda_array_interface__` is not in the memory of a GPU");
            errors::call_error(py, "E0809", title, &[], &["or the GPU driver is missing: see `clk devices`"])
        })?,
    };
    destination.check_gpu(py, gpu)?;
    interface.after.map_or(Ok(()), |stream| reject_captured_stream(py, stream))?;
    let residency = Residency::Gpu { number: gpu, after: interface.after, in_order: false };
    let CudaArrayInterface { address, scalar, shape, strides, readonly, .. } = interface;
    let data = std::ptr::without_provenance_mut(address as usize);
    ImportedArray::from_object(object, data, ElementType::Scalar(scalar), shape, strides, readonly, residency)
}

/// Prepares an array in GPU memory for a call. For an input that is not row-major, its library makes a contiguous copy.
/// Elements of type `bool` are normalized to the bytes 0 and 1.
pub fn normalize<'py>(
    object: &Bound<'py, PyAny>,
    array: ImportedArray,
    destination: &Destination<'_>,
    is_written: bool,
) -> PyResult<ImportedArray> {
    let py = object.py();
    let is_bool = array.element == ElementType::Scalar(Scalar::Bool);
    if array.gpu().is_none() || array.is_empty() || (array.is_row_major() || is_written) && !is_bool {
        return Ok(array);
    }
    let library = array.library;
    let byte_view = |object: &Bound<'py, PyAny>| object.call_method1(intern!(py, "view"), (uint8_type(py, library)?,));
    let normalized = match library {
        ArrayLibrary::Torch if is_bool => {
            // A `bool` is true if its byte is not 0.
            let detached = object.call_method0(intern!(py, "detach"))?;
            let bools = byte_view(&detached)?.call_method1(intern!(py, "ne"), (0,))?;
            if is_written {
                detached.call_method1(intern!(py, "copy_"), (bools,))?;
                return Ok(array);
            }
            bools.call_method0(intern!(py, "contiguous"))?
        }
        ArrayLibrary::Torch => object.call_method0(intern!(py, "contiguous"))?,
        ArrayLibrary::CuPy if is_bool => {
            let bools = byte_view(object)?.call_method1(intern!(py, "__ne__"), (0,))?;
            if is_written {
                object.set_item(py.Ellipsis(), bools)?;
                // Import again, so that the call waits for this assignment.
                return imported_array::import_array(object, None, destination);
            }
            py.import("cupy")?.call_method1("ascontiguousarray", (bools,))?
        }
        ArrayLibrary::CuPy => py.import("cupy")?.call_method1("ascontiguousarray", (object,))?,
        // `bool` elements of JAX and Clk are always 0 or 1.
        ArrayLibrary::Jax if array.is_row_major() => return Ok(array),
        _ if array.is_row_major() && object.is_instance_of::<ClkArray>() => return Ok(array),
        _ if is_bool => {
            let title = "the `bool` elements of this array in GPU memory may be bytes other than 0 and 1".to_string();
            let help = "pass its bytes as `u8` and compare them in Clk, or convert it to an array of torch or CuPy";
            return Err(errors::call_error(py, "E0809", title, &[help], &[]));
        }
        _ => {
            let title = "this array in GPU memory is not contiguous in row-major order".to_string();
            let help = "make it contiguous with its library: `x.contiguous()`, `cupy.ascontiguousarray(x)`";
            return Err(errors::call_error(py, "E0809", title, &[help], &[]));
        }
    };
    imported_array::import_array(&normalized, None, destination)
}

/// The type `uint8` of a library.
fn uint8_type(py: Python<'_>, library: ArrayLibrary) -> PyResult<Bound<'_, PyAny>> {
    match library {
        ArrayLibrary::Torch => py.import(intern!(py, "torch"))?.getattr(intern!(py, "uint8")),
        _ => Ok(PyString::new(py, "uint8").into_any()),
    }
}

//! Imports arrays of other libraries as arguments.
//!
//! Accepts objects with the buffer protocol, `__dlpack__`, `__array_interface__` or `__cuda_array_interface__`, and
//! describes their memory as an [`ImportedArray`]. An input is used in place if it is aligned and contiguous, and
//! copied otherwise. An output must be contiguous.

use std::any::Any;
use std::ffi::CStr;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use clk_host::array::{Array, ElementType, MAX_EXTENT};
use clk_lang::embed::{EmbedValue, Lending};
use clk_runtime::import::{ForeignStream, ImportedBuffer};
use clk_scalar::Scalar;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyType};

use crate::dlpack;
use crate::dlpack_exchange::{self, ExchangeApi};
use crate::errors;
use crate::gpu::{self, Destination};

/// The alignment in bytes that the simulator and GPUs require.
const ALIGN: usize = 16;

/// The maximum number of axes, as in NumPy and the buffer protocol.
pub const MAX_AXES: usize = 64;

/// The library that made an array argument. Results are returned as arrays of the same library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayLibrary {
    NumPy,
    Torch,
    Jax,
    CuPy,
    /// Clk itself (`clk.Array`). Also used for arrays of unknown libraries, for which results are `clk.Array`s.
    Own,
}

/// The library and memory of the arrays that a call returns.
#[derive(Clone, Copy, Debug)]
pub struct ArrayForm {
    pub library: ArrayLibrary,
    /// Whether results stay in GPU memory.
    pub on_gpu: bool,
}

impl ArrayForm {
    pub const NUMPY: ArrayForm = ArrayForm { library: ArrayLibrary::NumPy, on_gpu: false };
}

/// Keeps the memory of an array alive: a [`BufferView`], a [tensor](dlpack::OwnedTensor) of DLPack, or the
/// [object](ObjectOwner) itself. It is reference-counted, because the script may drop its array before the
/// call writes the result back to the memory.
type MemoryOwner = Arc<dyn Any + Send + Sync>;

/// A Python object that owns the memory.
struct ObjectOwner(Option<Py<PyAny>>);

impl Drop for ObjectOwner {
    fn drop(&mut self) {
        let _ = Python::try_attach(|_| drop(self.0.take()));
    }
}

/// A view in the buffer protocol. It must not move after it is filled in, since shape and strides may point into it.
struct BufferView(ffi::Py_buffer);

// SAFETY: any thread may release a view, since it holds the interpreter's lock when it does.
unsafe impl Send for BufferView {}
// SAFETY: shared references are only read.
unsafe impl Sync for BufferView {}

impl Drop for BufferView {
    fn drop(&mut self) {
        // If the interpreter is already finalized, the view leaks, which is harmless.
        let _ = Python::try_attach(|_| {
            // SAFETY: the view was filled by `PyObject_GetBuffer`, or is all zeros, and is released once.
            unsafe { ffi::PyBuffer_Release(&raw mut self.0) };
        });
    }
}

/// The memory in which the elements of an array are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residency {
    Host,
    Gpu {
        number: u32,
        /// The stream whose queued work has to complete before the array is used.
        after: Option<usize>,
        /// Whether the library runs its later work on the same stream, and therefore after the kernels of the call.
        in_order: bool,
    },
}

/// An array of another library.
pub struct ImportedArray {
    pub library: ArrayLibrary,
    pub element: ElementType,
    residency: Residency,
    data: *mut u8,
    pub shape: Vec<usize>,
    /// Strides in bytes.
    strides: Vec<isize>,
    pub readonly: bool,
    /// Whether the call writes the array.
    pub is_written: bool,
    owner: MemoryOwner,
}

/// NumPy's array type, loaded at the first use.
static NDARRAY: PyOnceLock<Option<Py<PyType>>> = PyOnceLock::new();

/// Returns NumPy's array type, or `None` if NumPy is not installed.
pub fn ndarray(py: Python<'_>) -> Option<&'static Py<PyType>> {
    let load = || py.import("numpy").and_then(|numpy| numpy.getattr("ndarray")).ok()?.cast_into::<PyType>().ok();
    NDARRAY.get_or_init(py, || load().map(Bound::unbind)).as_ref()
}

/// Returns whether an object is a NumPy array, or supports DLPack or `__cuda_array_interface__`.
pub fn is_array(object: &Bound<'_, PyAny>) -> bool {
    let py = object.py();
    if ndarray(py).is_some_and(|ty| object.is_exact_instance(ty.bind(py))) {
        return true;
    }
    let has_attribute = |name| object.hasattr(name).unwrap_or(false);
    has_attribute(intern!(py, "__dlpack__")) || has_attribute(intern!(py, "__cuda_array_interface__"))
}

/// Imports an array. For a parameter with structs as elements, `record` is their NumPy `dtype` and their element type.
pub fn import_array(
    object: &Bound<'_, PyAny>,
    record: Option<(&Bound<'_, PyAny>, &ElementType)>,
    destination: &Destination<'_>,
) -> PyResult<ImportedArray> {
    let py = object.py();
    if let ArrayTypeInfo { library, exchange_api: Some(api) } = type_info(&object.get_type())
        && let Some(array) = from_exchange_api(object, library, api, destination)?
    {
        return Ok(array);
    }
    let is_numpy = ndarray(py).is_some_and(|ty| object.is_instance(ty.bind(py)).unwrap_or(false));
    if is_numpy {
        return from_numpy(object, record);
    }
    let has_attribute = |name| object.hasattr(name).unwrap_or(false);
    if has_attribute(intern!(py, "__dlpack__")) {
        return from_dlpack(object, destination);
    }
    if has_attribute(intern!(py, "__cuda_array_interface__")) {
        return gpu::from_cuda_array_interface(object, destination);
    }
    // Objects with NumPy's `__array_interface__`, such as NumPy scalars and images of PIL.
    if has_attribute(intern!(py, "__array_interface__")) && ndarray(py).is_some() {
        let array = py.import("numpy")?.call_method1("asarray", (object,))?;
        return from_numpy(&array, record);
    }
    if let Ok(view) = buffer(object) {
        return from_buffer(object, view, ArrayLibrary::Own);
    }
    Err(not_an_array_error(object, None, false))
}

/// Returns whether an object supports at least one of the protocols that describe its memory.
pub fn is_readable(object: &Bound<'_, PyAny>) -> bool {
    is_array(object) || object.hasattr("__array_interface__").unwrap_or(false) || buffer(object).is_ok()
}

/// Returns the exception for an object that is not an array. `dtype` is NumPy's name of the element type that the
/// parameter requires. `is_out` is whether the call would write to the array.
pub fn not_an_array_error(object: &Bound<'_, PyAny>, dtype: Option<&str>, is_out: bool) -> PyErr {
    let py = object.py();
    let kind = object.get_type().name().map_or_else(|_| "object".into(), |name| name.to_string());
    let dtype = dtype.map_or_else(|| "dtype=…".to_string(), |name| format!("\"{name}\""));
    let help = match object.hasattr("to_numpy").unwrap_or(false) {
        _ if is_out => format!("`numpy.empty(shape, {dtype})` is an array to write to"),
        // A series or data frame of pandas or polars.
        true => format!("`x.to_numpy({dtype})` is its array"),
        false => format!("`numpy.asarray(x, {dtype})` makes one"),
    };
    errors::call_error(py, "E0809", format!("a `{kind}` is not an array"), &[&help], &[])
}

/// Acquires a view of an object's buffer.
fn buffer(object: &Bound<'_, PyAny>) -> PyResult<Arc<BufferView>> {
    let mut view = Arc::new(BufferView(ffi::Py_buffer::new()));
    let Some(BufferView(fields)) = Arc::get_mut(&mut view) else { unreachable!("the view is not shared yet") };
    // SAFETY: the view is on the heap and does not move until it is released.
    match unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), fields, ffi::PyBUF_RECORDS_RO) } {
        0 => Ok(view),
        _ => Err(PyErr::fetch(object.py())),
    }
}

fn from_numpy(object: &Bound<'_, PyAny>, record: Option<(&Bound<'_, PyAny>, &ElementType)>) -> PyResult<ImportedArray> {
    let py = object.py();
    let is_plain = ndarray(py).is_some_and(|ty| object.is_exact_instance(ty.bind(py)));
    if !is_plain && object.hasattr(intern!(py, "mask")).unwrap_or(false) {
        let help = "replace masked elements: `x.filled(…)`; or ignore the mask: `x.data`";
        return Err(errors::call_error(py, "E0809", "masked arrays are not supported".into(), &[help], &[]));
    }
    if let Some((expected, element)) = record {
        let dtype = object.getattr(intern!(py, "dtype"))?;
        if dtype.eq(expected)? {
            return from_view(py, ArrayLibrary::NumPy, element.clone(), buffer(object)?);
        }
        let title = format!("the elements of this array are `{dtype}`, not `{element}`");
        let help = format!("make it with the `dtype` of the module: `numpy.zeros(n, module.dtype(\"{element}\"))`");
        return Err(errors::call_error(py, "E0809", title, &[&help], &[]));
    }
    match buffer(object) {
        Ok(view) => from_buffer(object, view, ArrayLibrary::NumPy),
        Err(_) => {
            let dtype = object.getattr(intern!(py, "dtype"))?.to_string();
            if dtype == "bfloat16" {
                let integers = object.call_method1(intern!(py, "view"), (intern!(py, "uint16"),))?;
                return from_view(py, ArrayLibrary::NumPy, ElementType::Scalar(Scalar::Bf16), buffer(&integers)?);
            }
            Err(unsupported_type_error(py, &dtype))
        }
    }
}

/// Returns the exception for elements of a type that Clk does not have.
pub fn unsupported_type_error(py: Python<'_>, name: &str) -> PyErr {
    let title = format!("Clk has no type for elements of `{name}`");
    let types = "supported types: bool, int8 to int64, uint8 to uint64, float16, bfloat16, float32, float64";
    let help = match name.contains('>') {
        true => "convert it to native byte order: `x.astype(x.dtype.newbyteorder(\"=\"))`",
        false if name.contains("complex") || name.starts_with('Z') => {
            "pass real and imaginary parts: `x.real`, `x.imag`"
        }
        false if name.contains("float8") => {
            "convert it: `x.astype(\"float16\")`, `x.to(torch.float16)`; or pass its bytes: `x.view(\"uint8\")`, `x.view(torch.uint8)`"
        }
        false => "convert it: `x.astype(…)`",
    };
    errors::call_error(py, "E0809", title, &[help], &[types])
}

fn from_buffer(object: &Bound<'_, PyAny>, view: Arc<BufferView>, library: ArrayLibrary) -> PyResult<ImportedArray> {
    let format = match view.0.format.is_null() {
        // According to the protocol, a missing format means bytes.
        true => c"B",
        // SAFETY: a null-terminated string that lives as long as the view.
        false => unsafe { CStr::from_ptr(view.0.format) },
    };
    let size = usize::try_from(view.0.itemsize).unwrap_or(0);
    match parse_buffer_format(format.to_bytes(), size) {
        Some(scalar) => from_view(object.py(), library, ElementType::Scalar(scalar), view),
        None => {
            let format = || format!("{} of {size} bytes", format.to_string_lossy());
            let dtype = object.getattr("dtype").map_or_else(|_| format(), |dtype| dtype.to_string());
            Err(unsupported_type_error(object.py(), &dtype))
        }
    }
}

/// Imports an array from a view. Exporters may leave out fields: NULL strides (as for ctypes) mean contiguous row-major
/// order, and a NULL shape means one axis.
fn from_view(
    py: Python<'_>,
    library: ArrayLibrary,
    element: ElementType,
    view: Arc<BufferView>,
) -> PyResult<ImportedArray> {
    let BufferView(buffer) = &*view;
    let invalid = |problem: &str| errors::call_error(py, "E0809", format!("this buffer {problem}"), &[], &[]);
    let rank = match usize::try_from(buffer.ndim) {
        Ok(rank) if rank <= MAX_AXES => rank,
        _ => return Err(invalid(&format!("has {} axes; the maximum is {MAX_AXES}", buffer.ndim))),
    };
    let size = element.size();
    if usize::try_from(buffer.itemsize) != Ok(size) {
        return Err(invalid(&format!("has elements of {} bytes, but `{element}` has {size}", buffer.itemsize)));
    }
    let bytes = usize::try_from(buffer.len).map_err(|_| invalid("has a negative length"))?;
    // SAFETY: a field that is not NULL has an entry for each axis, and lives as long as the view.
    let entries = |field: *const isize| (!field.is_null()).then(|| unsafe { std::slice::from_raw_parts(field, rank) });
    let extents = match entries(buffer.shape) {
        Some(shape) => shape.iter().map(|&extent| usize::try_from(extent)).collect::<Result<Vec<_>, _>>(),
        None if rank == 0 => Ok(vec![]),
        None if rank == 1 => Ok(vec![bytes / size.max(1)]),
        None => return Err(invalid("does not give its shape")),
    };
    let shape = extents.map_err(|_| invalid("has a negative extent"))?;
    let expected_bytes = shape.iter().try_fold(size, |product, extent| product.checked_mul(*extent));
    if expected_bytes != Some(bytes) {
        return Err(invalid(&format!("has {bytes} bytes, which does not match its shape {shape:?}")));
    }
    if entries(buffer.suboffsets).is_some_and(|offsets| offsets.iter().any(|&offset| offset >= 0)) {
        return Err(invalid("is not supported: it contains pointers to other memory"));
    }
    let strides = match entries(buffer.strides) {
        Some(strides) => strides.to_vec(),
        None => dlpack::row_major_strides(&shape, size as isize),
    };
    if buffer.buf.is_null() && bytes > 0 {
        return Err(invalid("has elements but no memory"));
    }
    let (data, readonly) = (buffer.buf.cast(), buffer.readonly != 0);
    let (residency, owner) = (Residency::Host, view);
    ImportedArray { library, element, residency, data, shape, strides, readonly, is_written: false, owner }.validate(py)
}

/// Parses an element format of the buffer protocol.
fn parse_buffer_format(format: &[u8], size: usize) -> Option<Scalar> {
    let (order, code) = match format {
        [code] => (b'@', *code),
        [order, code] => (*order, *code),
        _ => return None,
    };
    let is_native = match order {
        b'@' | b'=' => true,
        b'<' => cfg!(target_endian = "little"),
        b'>' | b'!' => cfg!(target_endian = "big"),
        _ => false,
    };
    if !is_native && size > 1 {
        return None;
    }
    use Scalar::*;
    match (code, size) {
        (b'?', 1) => Some(Bool),
        (b'b', 1) => Some(I8),
        (b'h', 2) => Some(I16),
        // The size of a `long` depends on the platform, and ctypes uses `<l` for 8 bytes as well.
        (b'i' | b'l', 4) => Some(I32),
        (b'l' | b'q' | b'n', 8) => Some(I64),
        (b'B', 1) => Some(U8),
        (b'H', 2) => Some(U16),
        (b'I' | b'L', 4) => Some(U32),
        (b'L' | b'Q' | b'N', 8) => Some(U64),
        (b'e', 2) => Some(F16),
        (b'f', 4) => Some(F32),
        (b'd', 8) => Some(F64),
        _ => None,
    }
}

/// The library of a Python type, and its DLPack exchange API if it has one.
#[derive(Clone, Copy)]
pub struct ArrayTypeInfo {
    pub library: ArrayLibrary,
    pub exchange_api: Option<&'static ExchangeApi>,
}

/// Returns the library and the exchange API of a type, from a cache.
pub fn type_info(ty: &Bound<'_, PyType>) -> ArrayTypeInfo {
    static CACHE: Mutex<Vec<(Py<PyType>, ArrayTypeInfo)>> = Mutex::new(Vec::new());
    let lock_cache = || CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, info)) = lock_cache().iter().find(|(cached, _)| cached.is(ty)) {
        return *info;
    }
    let info = ArrayTypeInfo { library: library_of(ty), exchange_api: dlpack_exchange::find_exchange_api(ty) };
    let mut cache = lock_cache();
    // The size of the cache is limited, because a program may keep creating types.
    if cache.len() < 64 {
        cache.push((ty.clone().unbind(), info));
    }
    info
}

fn library_of(ty: &Bound<'_, PyType>) -> ArrayLibrary {
    // An attribute that is not a string is treated as an empty name.
    let text = |ty: &Bound<'_, PyAny>, name: &str| -> String {
        ty.getattr(name).and_then(|text| text.extract()).unwrap_or_default()
    };
    let is_tensor = |base: &Bound<'_, PyAny>| text(base, "__module__") == "torch" && text(base, "__name__") == "Tensor";
    match text(ty, "__module__").split('.').next().unwrap_or("") {
        "numpy" => ArrayLibrary::NumPy,
        "torch" => ArrayLibrary::Torch,
        "jax" | "jaxlib" => ArrayLibrary::Jax,
        "cupy" => ArrayLibrary::CuPy,
        // Subclasses of `torch.Tensor` need the same treatment: they may be lazy, require gradients, or have pending
        // work.
        _ if ty.mro().iter().any(|base| is_tensor(&base)) => ArrayLibrary::Torch,
        _ => ArrayLibrary::Own,
    }
}

/// Imports an array by the exchange API of its library. Returns `None` if the API fails. The caller then imports a
/// DLPack capsule instead, which reports an error with the reason.
fn from_exchange_api(
    object: &Bound<'_, PyAny>,
    library: ArrayLibrary,
    api: &ExchangeApi,
    destination: &Destination<'_>,
) -> PyResult<Option<ImportedArray>> {
    let py = object.py();
    let Ok(tensor) = api.import_array(object) else { return Ok(None) };
    if library == ArrayLibrary::Torch {
        check_torch_tensor(object, tensor.scalar.is_err())?;
    }
    let residency = match dlpack_residency(py, tensor.device)? {
        Residency::Gpu { number, .. } => {
            destination.check_gpu(py, number)?;
            if !api.has_current_stream() {
                return Ok(None);
            }
            let stream = destination.current_stream(py, library, number, || api.current_stream(py, number))?;
            // Unknown libraries may free memory out of stream order, and use results on other
            // streams.
            Residency::Gpu { number, after: Some(stream), in_order: gpu::is_stream_ordered(library) }
        }
        Residency::Host => Residency::Host,
    };
    from_dlpack_tensor(object, tensor, library, residency, false).map(Some)
}

/// Imports a tensor of DLPack. If `assume_readonly`, the array is read-only, even if the tensor has no such flag.
fn from_dlpack_tensor(
    object: &Bound<'_, PyAny>,
    tensor: dlpack::ImportedTensor,
    library: ArrayLibrary,
    residency: Residency,
    assume_readonly: bool,
) -> PyResult<ImportedArray> {
    let py = object.py();
    let scalar = tensor.scalar.map_err(|name| unsupported_type_error(py, &name))?;
    let (data, is_empty) = (tensor.data, tensor.shape.contains(&0));
    if !is_empty && has_no_storage(object, data.addr(), scalar.size(), library)? {
        let title = "this array has elements but no memory".to_string();
        let notes = ["in torch, these are fake tensors, lazy zeros, and tensors whose storage was freed"];
        return Err(errors::call_error(py, "E0809", title, &["`torch.zeros_like(x)` makes zeros with memory"], &notes));
    }
    let array = ImportedArray {
        library,
        element: ElementType::Scalar(scalar),
        residency,
        data,
        shape: tensor.shape,
        strides: tensor.strides,
        // JAX arrays are immutable even if their capsules do not say so.
        readonly: tensor.readonly || library == ArrayLibrary::Jax || assume_readonly,
        is_written: false,
        owner: Arc::new(tensor.owner),
    };
    array.validate(py)
}

/// Returns whether a tensor of torch has no memory. `address` is then not null, but the tensor's offset in its storage,
/// which torch adds to a null pointer.
fn has_no_storage(object: &Bound<'_, PyAny>, address: usize, size: usize, library: ArrayLibrary) -> PyResult<bool> {
    // A larger address cannot be a mere offset. This check avoids the call below for ordinary tensors.
    if address == 0 || address >= 1 << 40 || library != ArrayLibrary::Torch {
        return Ok(address == 0);
    }
    let offset: usize = object.call_method0(intern!(object.py(), "storage_offset"))?.extract()?;
    Ok(offset.checked_mul(size) == Some(address))
}

/// Imports an array by `__dlpack__`.
fn from_dlpack(object: &Bound<'_, PyAny>, destination: &Destination<'_>) -> PyResult<ImportedArray> {
    let py = object.py();
    let library = type_info(&object.get_type()).library;
    let detached;
    let object = if library == ArrayLibrary::Torch {
        check_torch_tensor(object, true)?;
        // Torch does not export tensors that require a gradient.
        detached = match requires_gradient(object)? {
            true => object.call_method0(intern!(py, "detach"))?,
            false => object.clone(),
        };
        &detached
    } else {
        object
    };
    let device: (i32, i32) = object.call_method0(intern!(py, "__dlpack_device__"))?.extract()?;
    let residency = dlpack_residency(py, device)?;
    let (residency, tensor) = match residency {
        Residency::Host => (residency, dlpack::import_capsule(&request_capsule(object, None)?)?),
        Residency::Gpu { number, .. } => {
            destination.check_gpu(py, number)?;
            let in_order = gpu::is_stream_ordered(library);
            let (after, stream) = match in_order {
                true => {
                    let query = || gpu::query_current_stream(py, library, number);
                    // Stream -1 tells the producer not to synchronize.
                    (destination.current_stream(py, library, number, query)?, -1)
                }
                false => gpu::synchronization_stream(py, number).map(|stream| (stream, stream as i64))?,
            };
            let import = || dlpack::import_capsule(&request_capsule(object, Some(stream))?);
            // Torch would use a stream of its current GPU, which may not be the GPU of the array.
            let tensor =
                if library == ArrayLibrary::Torch { gpu::with_torch_gpu(py, number, import) } else { import() };
            (Residency::Gpu { number, after: Some(after), in_order }, tensor?)
        }
    };
    if dlpack_residency(py, tensor.device)? != dlpack_residency(py, device)? {
        let title = "`__dlpack_device__` and the capsule of `__dlpack__` name different devices".to_string();
        return Err(errors::call_error(py, "E0809", title, &[], &[]));
    }
    // An unversioned capsule has no read-only flag, so another protocol must declare the array as writable.
    let assume_readonly = !tensor.versioned && library == ArrayLibrary::Own && !gpu::is_declared_writable(object);
    from_dlpack_tensor(object, tensor, library, residency, assume_readonly)
}

/// Returns the memory of a DLPack device.
fn dlpack_residency(py: Python<'_>, device: (i32, i32)) -> PyResult<Residency> {
    match device {
        (dlpack::CPU | dlpack::CUDA_HOST, _) => Ok(Residency::Host),
        (dlpack::CUDA | dlpack::CUDA_MANAGED, number @ 0..) => {
            Ok(Residency::Gpu { number: number as u32, after: None, in_order: false })
        }
        (kind, number) => {
            let title = "this array is neither in host memory nor in the memory of an NVIDIA GPU".to_string();
            let help = "copy it to the host first: `x.cpu()`";
            Err(errors::call_error(
                py,
                "E0809",
                title,
                &[help],
                &[&format!("DLPack calls its device ({kind}, {number})")],
            ))
        }
    }
}

/// Calls `__dlpack__`. The producer makes `stream` wait for its work on the array.
fn request_capsule<'py>(object: &Bound<'py, PyAny>, stream: Option<i64>) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    let kwargs = PyDict::new(py);
    if let Some(stream) = stream {
        kwargs.set_item(intern!(py, "stream"), stream)?;
    }
    let call = |kwargs: &Bound<'py, PyDict>| object.call_method(intern!(py, "__dlpack__"), (), Some(kwargs));
    kwargs.set_item(intern!(py, "max_version"), (1, 1))?;
    match call(&kwargs) {
        // Older libraries do not have this parameter.
        Err(error) if error.is_instance_of::<pyo3::exceptions::PyTypeError>(py) => {
            kwargs.del_item(intern!(py, "max_version"))?;
            call(&kwargs)
        }
        other => other,
    }
}

/// Rejects tensors with gradients or tangents, which would be lost, and lazy tensors, whose values differ from those in
/// memory.
fn check_torch_tensor(object: &Bound<'_, PyAny>, may_be_complex: bool) -> PyResult<()> {
    let py = object.py();
    let has_property = |method: &Bound<'_, PyString>| {
        object.call_method0(method).and_then(|result| result.extract::<bool>()).unwrap_or(false)
    };
    if requires_gradient(object)? && is_recording(py)? {
        let help = [
            "`x.detach()` passes its value",
            "`clk.torch.function(…)` makes a function that autograd can differentiate",
        ];
        let title = "this tensor requires a gradient, which would be lost here".to_string();
        return Err(errors::call_error(py, "E0809", title, &help, &[]));
    }
    // Only complex tensors can be conjugated.
    if may_be_complex && has_property(intern!(py, "is_conj")) || has_property(intern!(py, "is_neg")) {
        let help = ["`x.resolve_conj()` and `x.resolve_neg()` make a tensor with its own memory"];
        return Err(errors::call_error(py, "E0809", "this tensor is a lazy view of another one".into(), &help, &[]));
    }
    if has_tangent(object)? {
        let title = "this tensor has a forward-mode tangent, which would be lost here".to_string();
        let help = "`torch.autograd.forward_ad.unpack_dual(x).primal` passes its value";
        return Err(errors::call_error(py, "E0809", title, &[help], &[]));
    }
    Ok(())
}

fn requires_gradient(tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
    tensor.getattr(intern!(tensor.py(), "requires_grad"))?.extract()
}

/// Returns whether autograd currently records operations. It does not under `no_grad` and `inference_mode`.
fn is_recording(py: Python<'_>) -> PyResult<bool> {
    py.import(intern!(py, "torch"))?.call_method0(intern!(py, "is_grad_enabled"))?.extract()
}

/// Returns whether a tensor has a tangent of torch's forward-mode differentiation.
fn has_tangent(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    static FORWARD: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = object.py();
    let load = || Ok::<_, PyErr>(py.import("torch.autograd.forward_ad")?.into_any().unbind());
    let forward = FORWARD.get_or_try_init(py, load)?.bind(py);
    // Tangents exist only inside `dual_level`.
    let level = forward.getattr(intern!(py, "_current_level")).and_then(|level| level.extract::<i64>());
    if level.is_ok_and(|level| level < 0) {
        return Ok(false);
    }
    let parts = forward.call_method1(intern!(py, "unpack_dual"), (object,))?;
    Ok(!parts.getattr(intern!(py, "tangent"))?.is_none())
}

impl ImportedArray {
    /// Returns an array in memory that a Python object keeps alive.
    pub fn from_object(
        object: &Bound<'_, PyAny>,
        data: *mut u8,
        element: ElementType,
        shape: Vec<usize>,
        strides: Vec<isize>,
        readonly: bool,
        residency: Residency,
    ) -> PyResult<ImportedArray> {
        let library = type_info(&object.get_type()).library;
        let owner: MemoryOwner = Arc::new(ObjectOwner(Some(object.clone().unbind())));
        ImportedArray { library, element, residency, data, shape, strides, readonly, is_written: false, owner }
            .validate(object.py())
    }

    /// Rejects shapes that are too large for Clk, and memory that exceeds the address space.
    fn validate(self, py: Python<'_>) -> PyResult<ImportedArray> {
        let invalid = |title: String| errors::call_error(py, "E0809", title, &[], &[]);
        if let Some(extent) = self.shape.iter().find(|&&extent| extent > MAX_EXTENT) {
            return Err(invalid(format!("this array has an axis of {extent} elements; the maximum is {MAX_EXTENT}")));
        }
        let axes = self.shape.iter().zip(&self.strides);
        let mut spans = axes.map(|(&extent, &stride)| stride.unsigned_abs().checked_mul(extent.saturating_sub(1)));
        let span = spans.try_fold(self.element.size(), |sum, span| sum.checked_add(span?));
        let is_addressable =
            |span: usize| isize::try_from(span).is_ok() && self.data.addr().checked_add(span).is_some();
        if self.is_empty() || self.bytes() <= isize::MAX as usize && span.is_some_and(is_addressable) {
            return Ok(self);
        }
        Err(invalid(format!(
            "an array of shape {:?} with strides {:?} exceeds the address space",
            self.shape, self.strides
        )))
    }

    /// Returns the library and memory of the results of a call with this array.
    pub fn form(&self) -> ArrayForm {
        ArrayForm { library: self.library, on_gpu: self.residency != Residency::Host }
    }

    /// Returns the number of the GPU whose memory has the array.
    pub fn gpu(&self) -> Option<u32> {
        match self.residency {
            Residency::Host => None,
            Residency::Gpu { number, .. } => Some(number),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    fn bytes(&self) -> usize {
        self.shape.iter().fold(self.element.size(), |bytes, extent| bytes.saturating_mul(*extent))
    }

    /// Returns whether the array is contiguous in row-major order. Strides of axes with one element are ignored.
    pub fn is_row_major(&self) -> bool {
        let mut expected = self.element.size() as isize;
        let mut axes = self.shape.iter().zip(&self.strides).rev();
        self.is_empty()
            || axes.all(|(&extent, &stride)| {
                let is_expected = extent == 1 || stride == expected;
                expected = expected.saturating_mul(extent as isize);
                is_expected
            })
    }

    /// Returns the address range of the elements.
    pub fn range(&self) -> std::ops::Range<usize> {
        if self.is_empty() {
            return 0..0;
        }
        let (mut low, mut high) = (self.data.addr(), self.data.addr() + self.element.size());
        for (&extent, &stride) in self.shape.iter().zip(&self.strides) {
            let span = stride.unsigned_abs() * (extent - 1);
            if stride < 0 { low = low.saturating_sub(span) } else { high += span }
        }
        low..high
    }

    /// Returns whether the address ranges of two arrays overlap.
    pub fn overlaps(&self, other: &ImportedArray) -> bool {
        let (a, b) = (self.range(), other.range());
        a.start < b.end && b.start < a.end
    }

    /// Converts an array in GPU memory to an argument; returns `None` for host memory. The call copies the array if it
    /// is not aligned, or if `force_copy`.
    pub fn to_gpu_argument(&self, force_copy: bool) -> Option<EmbedValue> {
        let Residency::Gpu { number, after, in_order } = self.residency else { return None };
        let address = self.data.addr() as u64;
        let keep_alive = self.owner.clone();
        let buffer = ImportedBuffer {
            gpu: number,
            address,
            bytes: self.bytes(),
            after: after.map(ForeignStream),
            in_order,
            keep_alive,
        };
        let is_copied = force_copy || !self.data.addr().is_multiple_of(ALIGN);
        // SAFETY: the owner keeps the memory alive, and `gpu::normalize` has made it contiguous. Either the call waits
        // for its work, or the stream waits in whose order the library's allocator reuses the memory. Synchronization
        // with other threads and streams is up to the caller, as for every function of the library.
        Some(EmbedValue::Lent(unsafe { Lending::new(self.element.clone(), self.shape.clone(), buffer, is_copied) }))
    }

    /// Converts an input in host memory to an array of Clk. The array uses the memory in place if possible and not
    /// `force_copy`; otherwise it is a copy.
    pub fn to_input(&self, force_copy: bool) -> PyResult<Array> {
        let in_place = !force_copy && self.is_row_major() && !self.is_empty() && self.data.addr().is_multiple_of(ALIGN);
        if in_place
            && self.has_valid_bools()
            && let Some(array) = self.borrow()?
        {
            return Ok(array);
        }
        self.to_copy()
    }

    /// Converts an output in host memory to an array of Clk. The flag is whether the array is a copy that the caller
    /// must write back.
    pub fn to_output(&self) -> PyResult<(Array, bool)> {
        if !self.is_empty()
            && self.data.addr().is_multiple_of(ALIGN)
            && self.has_valid_bools()
            && let Some(array) = self.borrow()?
        {
            return Ok((array, false));
        }
        Ok((self.to_copy()?, true))
    }

    /// Returns an array of Clk that uses the memory in place; `None` if that is not possible.
    fn borrow(&self) -> PyResult<Option<Array>> {
        let Some(start) = NonNull::new(self.data) else { return Ok(None) };
        let owner = Box::new(self.owner.clone());
        // SAFETY: the owner keeps the memory alive, and it is contiguous. The call writes it only if no other argument
        // overlaps it. Other threads may write it during the call, as during every function that releases the
        // interpreter's lock: the simulator's accesses tolerate that.
        let array = unsafe { Array::lent(self.element.clone(), &self.shape, start, owner) };
        array.map_err(errors::from_runtime_error)
    }

    /// Returns whether all bytes of `bool` elements are 0 or 1, as Clk requires. True for other element types.
    fn has_valid_bools(&self) -> bool {
        if self.element != ElementType::Scalar(Scalar::Bool) {
            return true;
        }
        // SAFETY: called for contiguous memory, which the owner keeps alive.
        let bytes = unsafe { std::slice::from_raw_parts(self.data, self.bytes()) };
        bytes.iter().all(|&byte| byte <= 1)
    }

    /// Copies the elements to an array of Clk.
    fn to_copy(&self) -> PyResult<Array> {
        let mut array = Array::zeros(self.element.clone(), &self.shape).map_err(errors::from_runtime_error)?;
        if self.is_empty() {
            return Ok(array);
        }
        let size = self.element.size();
        let to = array.bytes_mut().map_err(errors::from_runtime_error)?;
        // SAFETY: the owner keeps the memory that shape and strides describe.
        unsafe { copy_strided(self.data, &self.shape, &self.strides, size, to) };
        if self.element == ElementType::Scalar(Scalar::Bool) {
            to.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
        }
        Ok(array)
    }

    /// Returns whether an array of Clk has this shape. The components of its vectors correspond to the last axis here.
    pub fn has_same_shape(&self, array: &Array) -> bool {
        let lanes = array.element().lanes();
        let own = match self.shape.split_last() {
            Some((last, rest)) if lanes > 1 && *last == lanes => rest,
            _ => &self.shape,
        };
        array.shape() == own
    }

    /// Copies the elements of `array` back to the memory of this array, which must be contiguous.
    pub fn write_back(&self, array: &Array) -> PyResult<()> {
        if self.residency != Residency::Host {
            // The call itself writes back to GPU memory.
            return Ok(());
        }
        let bytes = array.bytes().map_err(errors::from_runtime_error)?;
        if bytes.len() == self.bytes() && !bytes.is_empty() && bytes.as_ptr() != self.data {
            // SAFETY: the memory has this many contiguous, writable bytes, and the owner keeps it alive. The array has
            // other memory.
            unsafe { std::ptr::copy(bytes.as_ptr(), self.data, bytes.len()) };
        }
        Ok(())
    }
}

/// Copies a strided array to contiguous memory.
///
/// # Safety
/// All elements that shape and strides describe are readable.
unsafe fn copy_strided(from: *const u8, shape: &[usize], strides: &[isize], size: usize, to: &mut [u8]) {
    let Some((&extent, rest)) = shape.split_first() else {
        // SAFETY: copies one element, which the caller guarantees to be readable.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), size) };
        return;
    };
    let bytes = to.len() / extent.max(1);
    if rest.is_empty() && strides[0] == size as isize {
        // SAFETY: copies a contiguous row of elements, which the caller guarantees to be readable.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
        return;
    }
    for (i, to) in to.chunks_exact_mut(bytes.max(1)).enumerate() {
        let from = from.wrapping_offset(i as isize * strides[0]);
        // SAFETY: the arguments describe a subset of the elements, and every element is readable.
        unsafe { copy_strided(from, rest, &strides[1..], size, to) };
    }
}

//! Arrays of other libraries as arguments.
//!
//! Input: any object with NumPy's buffers, `__dlpack__`, `__array_interface__` or `__cuda_array_interface__`. Output: a [`Foreign`]: where
//! its elements are, in memory of the host or of a GPU, and what they are. An argument that is read is used in place if it is laid out as
//! Clk's arrays are, and copied otherwise; one that is written has to be so laid out, or is refused.

use std::any::Any;
use std::ffi::CStr;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use clk_lang::app::embed::{Argument, Lending};
use clk_lang::device::lent::Lent;
use clk_lang::host::array::{Array, Element, MAX_EXTENT};
use clk_lang::lang::scalar::Scalar;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyType};

use crate::dlpack;
use crate::errors;
use crate::exchange::{self, Table};
use crate::gpu::{self, Wanted};

/// Addresses that arrays may have, on the simulator and on GPUs.
const ALIGN: usize = 16;

/// The maximum number of axes, as of NumPy and of the buffer protocol.
pub const MAX_AXES: usize = 64;

/// A library whose arrays are given, and in which results are returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    NumPy,
    Torch,
    Jax,
    CuPy,
    /// Arrays of this package, and of libraries that are not known by name.
    Own,
}

/// What results are.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    pub library: Library,
    /// Whether they stay in the memory of a GPU.
    pub far: bool,
}

impl Form {
    pub const NUMPY: Form = Form { library: Library::NumPy, far: false };
}

/// Keeps the memory of an array: a [`View`], the [tensor](dlpack::Taken) of a DLPack capsule, or the [object](Held) itself. Shared, since a
/// function may drop an array that it was lent before the call copies the result back into the memory.
type Keeper = Arc<dyn Any + Send + Sync>;

/// An object that keeps its memory.
struct Held(Option<Py<PyAny>>);

impl Drop for Held {
    fn drop(&mut self) {
        let _ = Python::try_attach(|_| drop(self.0.take()));
    }
}

/// A view of a buffer. It stays where it was filled, since shape and strides may point into it.
struct View(ffi::Py_buffer);

// SAFETY: a view is released with the interpreter's lock, whichever thread does it.
unsafe impl Send for View {}
// SAFETY: nothing is done through shared references.
unsafe impl Sync for View {}

impl Drop for View {
    fn drop(&mut self) {
        // Without an interpreter, at its end, there is nothing to release.
        let _ = Python::try_attach(|_| {
            // SAFETY: the view was filled by `PyObject_GetBuffer`, or is all zeros, and is released once.
            unsafe { ffi::PyBuffer_Release(&raw mut self.0) };
        });
    }
}

/// The memory that an array is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Host,
    /// That of a GPU, and the stream whose work so far comes before any use.
    Gpu {
        number: u32,
        after: Option<usize>,
        /// Whether its library goes on on that stream.
        in_order: bool,
    },
}

/// An array of another library.
pub struct Foreign {
    pub library: Library,
    pub element: Element,
    place: Place,
    data: *mut u8,
    pub shape: Vec<usize>,
    /// In bytes.
    strides: Vec<isize>,
    pub readonly: bool,
    /// Whether the call writes it.
    pub written: bool,
    keeper: Keeper,
}

/// NumPy's array type, once it has been needed.
static NDARRAY: PyOnceLock<Option<Py<PyType>>> = PyOnceLock::new();

/// Returns NumPy's array type; absent without NumPy.
pub fn ndarray(py: Python<'_>) -> Option<&'static Py<PyType>> {
    let find = || py.import("numpy").and_then(|numpy| numpy.getattr("ndarray")).ok()?.cast_into::<PyType>().ok();
    NDARRAY.get_or_init(py, || find().map(Bound::unbind)).as_ref()
}

/// Whether an object is an array to this package.
pub fn is_array(object: &Bound<'_, PyAny>) -> bool {
    let py = object.py();
    if ndarray(py).is_some_and(|ty| object.is_exact_instance(ty.bind(py))) {
        return true;
    }
    let has = |name| object.hasattr(name).unwrap_or(false);
    has(intern!(py, "__dlpack__")) || has(intern!(py, "__cuda_array_interface__"))
}

/// Reads what an object says of its memory. `record` is NumPy's type of the structs that are wanted, and their element type.
pub fn read(
    object: &Bound<'_, PyAny>,
    record: Option<(&Bound<'_, PyAny>, &Element)>,
    wanted: &Wanted<'_>,
) -> PyResult<Foreign> {
    let py = object.py();
    if let Kind { library, table: Some(table) } = kind_of(&object.get_type())
        && let Some(found) = of_table(object, library, table, wanted)?
    {
        return Ok(found);
    }
    let is_numpy = ndarray(py).is_some_and(|ty| object.is_instance(ty.bind(py)).unwrap_or(false));
    if is_numpy {
        return of_numpy(object, record);
    }
    let has = |name| object.hasattr(name).unwrap_or(false);
    if has(intern!(py, "__dlpack__")) {
        return of_dlpack(object, wanted);
    }
    if has(intern!(py, "__cuda_array_interface__")) {
        return gpu::of_interface(object, wanted);
    }
    // A NumPy scalar, and what else has NumPy's interface, such as pictures of PIL.
    if has(intern!(py, "__array_interface__")) && ndarray(py).is_some() {
        let array = py.import("numpy")?.call_method1("asarray", (object,))?;
        return of_numpy(&array, record);
    }
    if let Ok(view) = buffer(object) {
        return of_buffer(object, view, Library::Own);
    }
    Err(no_array(object, None, false))
}

/// Whether an object says where its elements are.
pub fn is_readable(object: &Bound<'_, PyAny>) -> bool {
    is_array(object) || object.hasattr("__array_interface__").unwrap_or(false) || buffer(object).is_ok()
}

/// Returns the exception for an object that is not an array. `dtype` is NumPy's name of the type that its elements should have, and
/// `is_out` is whether a result is to be written to it.
pub fn no_array(object: &Bound<'_, PyAny>, dtype: Option<&str>, is_out: bool) -> PyErr {
    let py = object.py();
    let kind = object.get_type().name().map_or_else(|_| "object".into(), |name| name.to_string());
    let dtype = dtype.map_or_else(|| "dtype=…".to_string(), |name| format!("\"{name}\""));
    let help = match object.hasattr("to_numpy").unwrap_or(false) {
        _ if is_out => format!("`numpy.empty(shape, {dtype})` is an array to write to"),
        // Series and frames of pandas and polars.
        true => format!("`x.to_numpy({dtype})` is its array"),
        false => format!("`numpy.asarray(x, {dtype})` makes one"),
    };
    errors::refused(py, "E0809", format!("a `{kind}` is not an array"), &[&help], &[])
}

fn buffer(object: &Bound<'_, PyAny>) -> PyResult<Arc<View>> {
    let mut view = Arc::new(View(ffi::Py_buffer::new()));
    let Some(View(fields)) = Arc::get_mut(&mut view) else { unreachable!("nothing else has the view yet") };
    // SAFETY: the view stays where it is filled, on the heap, until it is released.
    match unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), fields, ffi::PyBUF_RECORDS_RO) } {
        0 => Ok(view),
        _ => Err(PyErr::fetch(object.py())),
    }
}

fn of_numpy(object: &Bound<'_, PyAny>, record: Option<(&Bound<'_, PyAny>, &Element)>) -> PyResult<Foreign> {
    let py = object.py();
    let is_plain = ndarray(py).is_some_and(|ty| object.is_exact_instance(ty.bind(py)));
    if !is_plain && object.hasattr(intern!(py, "mask")).unwrap_or(false) {
        let help = "decide what masked elements are: `x.filled(…)`, or `x.data` for what is under the mask";
        return Err(errors::refused(py, "E0809", "a masked array has elements that are none".into(), &[help], &[]));
    }
    if let Some((wanted, element)) = record {
        let dtype = object.getattr(intern!(py, "dtype"))?;
        if dtype.eq(wanted)? {
            return with_view(py, Library::NumPy, element.clone(), buffer(object)?);
        }
        let title = format!("the elements of this array are `{dtype}`, not `{element}`");
        let help =
            format!("make it with the type that the module gives: `numpy.zeros(n, module.dtype(\"{element}\"))`");
        return Err(errors::refused(py, "E0809", title, &[&help], &[]));
    }
    match buffer(object) {
        Ok(view) => of_buffer(object, view, Library::NumPy),
        Err(_) => {
            let dtype = object.getattr(intern!(py, "dtype"))?.to_string();
            if dtype == "bfloat16" {
                let words = object.call_method1(intern!(py, "view"), (intern!(py, "uint16"),))?;
                return with_view(py, Library::NumPy, Element::Scalar(Scalar::Bf16), buffer(&words)?);
            }
            Err(no_type(py, &dtype))
        }
    }
}

pub fn no_type(py: Python<'_>, name: &str) -> PyErr {
    let title = format!("Clk has no type for elements of `{name}`");
    let types = "the types are bool, int8 to int64, uint8 to uint64, float16, bfloat16, float32 and float64";
    let help = match name.contains('>') {
        true => "turn the bytes around: `x.astype(x.dtype.newbyteorder(\"=\"))`",
        false if name.contains("complex") || name.starts_with('Z') => "pass parts: `x.real`, `x.imag`",
        false if name.contains("float8") => {
            "convert it: `x.astype(\"float16\")`, `x.to(torch.float16)`; or pass its bytes: `x.view(\"uint8\")`, `x.view(torch.uint8)`"
        }
        false => "convert it: `x.astype(…)`",
    };
    errors::refused(py, "E0809", title, &[help], &[types])
}

fn of_buffer(object: &Bound<'_, PyAny>, view: Arc<View>, library: Library) -> PyResult<Foreign> {
    let format = match view.0.format.is_null() {
        // Without a format, elements are bytes.
        true => c"B",
        // SAFETY: a text that ends with zero and lives as long as the view.
        false => unsafe { CStr::from_ptr(view.0.format) },
    };
    let size = usize::try_from(view.0.itemsize).unwrap_or(0);
    match scalar_of(format.to_bytes(), size) {
        Some(scalar) => with_view(object.py(), library, Element::Scalar(scalar), view),
        None => {
            let format = || format!("{} of {size} bytes", format.to_string_lossy());
            let dtype = object.getattr("dtype").map_or_else(|_| format(), |dtype| dtype.to_string());
            Err(no_type(object.py(), &dtype))
        }
    }
}

/// Reads shape and strides of a view. Exporters may leave out fields: strides that are NULL mean row-major order without gaps, as ctypes
/// has it, and a shape that is NULL means one axis.
fn with_view(py: Python<'_>, library: Library, element: Element, view: Arc<View>) -> PyResult<Foreign> {
    let View(buffer) = &*view;
    let wrong = |what: &str| errors::refused(py, "E0809", format!("this buffer {what}"), &[], &[]);
    let rank = match usize::try_from(buffer.ndim) {
        Ok(rank) if rank <= MAX_AXES => rank,
        _ => return Err(wrong(&format!("has {} axes; the most are {MAX_AXES}", buffer.ndim))),
    };
    let size = element.size();
    if usize::try_from(buffer.itemsize) != Ok(size) {
        return Err(wrong(&format!("has elements of {} bytes, and `{element}` has {size}", buffer.itemsize)));
    }
    let bytes = usize::try_from(buffer.len).map_err(|_| wrong("has a negative length"))?;
    // SAFETY: a field that is not NULL has an entry for each axis, and lives as long as the view.
    let entries = |field: *const isize| (!field.is_null()).then(|| unsafe { std::slice::from_raw_parts(field, rank) });
    let extents = match entries(buffer.shape) {
        Some(shape) => shape.iter().map(|&extent| usize::try_from(extent)).collect::<Result<Vec<_>, _>>(),
        None if rank == 0 => Ok(vec![]),
        None if rank == 1 => Ok(vec![bytes / size.max(1)]),
        None => return Err(wrong("does not give its shape")),
    };
    let shape = extents.map_err(|_| wrong("has a negative extent"))?;
    let all = shape.iter().try_fold(size, |all, extent| all.checked_mul(*extent));
    if all != Some(bytes) {
        return Err(wrong(&format!("has {bytes} bytes, which its shape {shape:?} does not take")));
    }
    if entries(buffer.suboffsets).is_some_and(|offsets| offsets.iter().any(|&offset| offset >= 0)) {
        return Err(wrong("consists of pointers to parts"));
    }
    let strides = match entries(buffer.strides) {
        Some(strides) => strides.to_vec(),
        None => dlpack::row_major(&shape, size as isize),
    };
    if buffer.buf.is_null() && bytes > 0 {
        return Err(wrong("has elements, and no memory"));
    }
    let (data, readonly) = (buffer.buf.cast(), buffer.readonly != 0);
    let place = Place::Host;
    let found = Foreign { library, element, place, data, shape, strides, readonly, written: false, keeper: view };
    found.checked(py)
}

/// Returns the type of a format of the buffer protocol.
fn scalar_of(format: &[u8], size: usize) -> Option<Scalar> {
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
        // The size of a `long` depends on the system, and ctypes writes `<l` for one of 8 bytes.
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

/// What is known of a type of arrays.
#[derive(Clone, Copy)]
pub struct Kind {
    pub library: Library,
    pub table: Option<&'static Table>,
}

/// Returns what is known of a type, which is asked once.
pub fn kind_of(ty: &Bound<'_, PyType>) -> Kind {
    static KNOWN: Mutex<Vec<(Py<PyType>, Kind)>> = Mutex::new(Vec::new());
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, kind)) = known().iter().find(|(own, _)| own.is(ty)) {
        return *kind;
    }
    let kind = Kind { library: library_of(ty), table: exchange::of(ty) };
    let mut known = known();
    // Types that a program makes again and again are asked each time.
    if known.len() < 64 {
        known.push((ty.clone().unbind(), kind));
    }
    kind
}

fn library_of(ty: &Bound<'_, PyType>) -> Library {
    // What is no text is no name that is known.
    let text = |ty: &Bound<'_, PyAny>, name: &str| -> String {
        ty.getattr(name).and_then(|text| text.extract()).unwrap_or_default()
    };
    let is_tensor = |base: &Bound<'_, PyAny>| text(base, "__module__") == "torch" && text(base, "__name__") == "Tensor";
    match text(ty, "__module__").split('.').next().unwrap_or("") {
        "numpy" => Library::NumPy,
        "torch" => Library::Torch,
        "jax" | "jaxlib" => Library::Jax,
        "cupy" => Library::CuPy,
        // Tensors of derived types can be all that torch's own can: lazy, with gradients, on streams.
        _ if ty.mro().iter().any(|base| is_tensor(&base)) => Library::Torch,
        _ => Library::Own,
    }
}

/// Reads an array by the functions of its library; `None` if that refuses, which it explains if it is asked for a capsule.
fn of_table(
    object: &Bound<'_, PyAny>,
    library: Library,
    table: &Table,
    wanted: &Wanted<'_>,
) -> PyResult<Option<Foreign>> {
    let py = object.py();
    let Ok(tensor) = table.read(object) else { return Ok(None) };
    if library == Library::Torch {
        of_torch(object, tensor.scalar.is_err())?;
    }
    let place = match place_of(py, tensor.device)? {
        Place::Gpu { number, .. } => {
            wanted.takes(py, number)?;
            if !table.has_stream() {
                return Ok(None);
            }
            let stream = wanted.stream(py, library, number, || table.stream(py, number))?;
            // Of other libraries it is not known whether they free memory in the order of that stream, and results may go anywhere.
            Place::Gpu { number, after: Some(stream), in_order: gpu::is_in_order(library) }
        }
        Place::Host => Place::Host,
    };
    of_tensor(object, tensor, library, place, false).map(Some)
}

fn of_tensor(
    object: &Bound<'_, PyAny>,
    tensor: dlpack::Tensor,
    library: Library,
    place: Place,
    is_silent: bool,
) -> PyResult<Foreign> {
    let py = object.py();
    let scalar = tensor.scalar.map_err(|name| no_type(py, &name))?;
    let (data, is_empty) = (tensor.data, tensor.shape.contains(&0));
    if !is_empty && is_nowhere(object, data.addr(), scalar.size(), library)? {
        let title = "this array has elements, and no memory".to_string();
        let notes = ["torch's fake tensors have none, its lazy zeros, and those whose storage was freed"];
        return Err(errors::refused(
            py,
            "E0809",
            title,
            &["`torch.zeros_like(x)` makes zeros that have memory"],
            &notes,
        ));
    }
    let found = Foreign {
        library,
        element: Element::Scalar(scalar),
        place,
        data,
        shape: tensor.shape,
        strides: tensor.strides,
        // Arrays of JAX never change, also where its capsules do not say so; nor is anything said by those of older libraries.
        readonly: tensor.readonly || library == Library::Jax || is_silent,
        written: false,
        keeper: Arc::new(tensor.taken),
    };
    found.checked(py)
}

/// Whether an address is that of no memory. Torch adds the offset of a tensor in its storage to it.
fn is_nowhere(object: &Bound<'_, PyAny>, address: usize, size: usize, library: Library) -> PyResult<bool> {
    // Above are the usual addresses of memory, which need not be asked about.
    if address == 0 || address >= 1 << 40 || library != Library::Torch {
        return Ok(address == 0);
    }
    let offset: usize = object.call_method0(intern!(object.py(), "storage_offset"))?.extract()?;
    Ok(offset.checked_mul(size) == Some(address))
}

fn of_dlpack(object: &Bound<'_, PyAny>, wanted: &Wanted<'_>) -> PyResult<Foreign> {
    let py = object.py();
    let library = kind_of(&object.get_type()).library;
    let detached;
    let object = if library == Library::Torch {
        of_torch(object, true)?;
        // Torch gives no capsule of one that requires a gradient.
        detached = match requires_gradient(object)? {
            true => object.call_method0(intern!(py, "detach"))?,
            false => object.clone(),
        };
        &detached
    } else {
        object
    };
    let device: (i32, i32) = object.call_method0(intern!(py, "__dlpack_device__"))?.extract()?;
    let place = place_of(py, device)?;
    let (place, tensor) = match place {
        Place::Host => (place, dlpack::take(&capsule(object, None)?)?),
        Place::Gpu { number, .. } => {
            wanted.takes(py, number)?;
            let in_order = gpu::is_in_order(library);
            // What torch is told to make wait is another GPU's stream, if that is its current one.
            let (after, stream) = match in_order {
                true => (wanted.stream(py, library, number, || gpu::stream_of(py, library, number))?, -1),
                false => gpu::meeting(py, number).map(|stream| (stream, stream as i64))?,
            };
            let take = || dlpack::take(&capsule(object, Some(stream))?);
            let tensor = if library == Library::Torch { gpu::on_torch_gpu(py, number, take) } else { take() };
            (Place::Gpu { number, after: Some(after), in_order }, tensor?)
        }
    };
    if place_of(py, tensor.device)? != place_of(py, device)? {
        let title = "`__dlpack_device__` says another device than the capsule of `__dlpack__`".to_string();
        return Err(errors::refused(py, "E0809", title, &[], &[]));
    }
    let is_silent = !tensor.versioned && library == Library::Own && !gpu::says_writable(object);
    of_tensor(object, tensor, library, place, is_silent)
}

/// Returns the memory that a device of DLPack stands for.
fn place_of(py: Python<'_>, device: (i32, i32)) -> PyResult<Place> {
    match device {
        (dlpack::CPU | dlpack::CUDA_HOST, _) => Ok(Place::Host),
        (dlpack::CUDA | dlpack::CUDA_MANAGED, number @ 0..) => {
            Ok(Place::Gpu { number: number as u32, after: None, in_order: false })
        }
        (kind, number) => {
            let title = "this array is neither in the memory of the host nor of an NVIDIA GPU".to_string();
            let help = "copy it to the host first: `x.cpu()`";
            Err(errors::refused(py, "E0809", title, &[help], &[&format!("DLPack calls its device ({kind}, {number})")]))
        }
    }
}

/// Asks for the capsule of an array, which waits for its work in this stream.
fn capsule<'py>(object: &Bound<'py, PyAny>, stream: Option<i64>) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    let named = PyDict::new(py);
    if let Some(stream) = stream {
        named.set_item(intern!(py, "stream"), stream)?;
    }
    let ask = |named: &Bound<'py, PyDict>| object.call_method(intern!(py, "__dlpack__"), (), Some(named));
    named.set_item(intern!(py, "max_version"), (1, 1))?;
    match ask(&named) {
        // Older libraries do not know the argument.
        Err(error) if error.is_instance_of::<pyo3::exceptions::PyTypeError>(py) => {
            named.del_item(intern!(py, "max_version"))?;
            ask(&named)
        }
        other => other,
    }
}

/// Refuses tensors whose elements are not what their memory says. Only complex ones can be conjugated.
fn of_torch(object: &Bound<'_, PyAny>, may_be_complex: bool) -> PyResult<()> {
    let py = object.py();
    let is = |name: &Bound<'_, PyString>| {
        object.call_method0(name).and_then(|answer| answer.extract::<bool>()).unwrap_or(false)
    };
    if requires_gradient(object)? && is_recording(py)? {
        let help =
            ["`x.detach()` passes what it holds", "`clk.torch.function(…)` is a call that autograd sees through"];
        let title = "this tensor requires its gradient, which would be lost here".to_string();
        return Err(errors::refused(py, "E0809", title, &help, &[]));
    }
    if may_be_complex && is(intern!(py, "is_conj")) || is(intern!(py, "is_neg")) {
        let help = ["`x.resolve_conj()`, `x.resolve_neg()` make one with its own memory"];
        return Err(errors::refused(py, "E0809", "this tensor is a lazy view of another one".into(), &help, &[]));
    }
    if has_tangent(object)? {
        let title = "this tensor has a tangent of forward mode, which would be lost here".to_string();
        let help = "`torch.autograd.forward_ad.unpack_dual(x).primal` passes what it holds";
        return Err(errors::refused(py, "E0809", title, &[help], &[]));
    }
    Ok(())
}

fn requires_gradient(tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
    tensor.getattr(intern!(tensor.py(), "requires_grad"))?.extract()
}

/// Whether torch records operations for gradients: not under `no_grad` and `inference_mode`.
fn is_recording(py: Python<'_>) -> PyResult<bool> {
    py.import(intern!(py, "torch"))?.call_method0(intern!(py, "is_grad_enabled"))?.extract()
}

/// Whether a tensor carries a derivative of torch's forward mode.
fn has_tangent(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    static FORWARD: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = object.py();
    let find = || Ok::<_, PyErr>(py.import("torch.autograd.forward_ad")?.into_any().unbind());
    let forward = FORWARD.get_or_try_init(py, find)?.bind(py);
    // Outside of all levels no tensor has one.
    let level = forward.getattr(intern!(py, "_current_level")).and_then(|level| level.extract::<i64>());
    if level.is_ok_and(|level| level < 0) {
        return Ok(false);
    }
    let parts = forward.call_method1(intern!(py, "unpack_dual"), (object,))?;
    Ok(!parts.getattr(intern!(py, "tangent"))?.is_none())
}

impl Foreign {
    /// Returns an array whose memory an object keeps.
    pub fn of_object(
        object: &Bound<'_, PyAny>,
        data: *mut u8,
        element: Element,
        (shape, strides): (Vec<usize>, Vec<isize>),
        readonly: bool,
        place: Place,
    ) -> PyResult<Foreign> {
        let library = kind_of(&object.get_type()).library;
        let keeper: Keeper = Arc::new(Held(Some(object.clone().unbind())));
        let found = Foreign { library, element, place, data, shape, strides, readonly, written: false, keeper };
        found.checked(object.py())
    }

    /// Refuses shapes that no array of Clk has, and memory beyond the address space.
    fn checked(self, py: Python<'_>) -> PyResult<Foreign> {
        let wrong = |title: String| errors::refused(py, "E0809", title, &[], &[]);
        if let Some(extent) = self.shape.iter().find(|&&extent| extent > MAX_EXTENT) {
            return Err(wrong(format!("this array has an axis of {extent} elements; the most are {MAX_EXTENT}")));
        }
        let axes = self.shape.iter().zip(&self.strides);
        let mut reaches = axes.map(|(&extent, &stride)| stride.unsigned_abs().checked_mul(extent.saturating_sub(1)));
        let reach = reaches.try_fold(self.element.size(), |all, reach| all.checked_add(reach?));
        let fits = |reach: usize| isize::try_from(reach).is_ok() && self.data.addr().checked_add(reach).is_some();
        if self.is_empty() || self.bytes() <= isize::MAX as usize && reach.is_some_and(fits) {
            return Ok(self);
        }
        Err(wrong(format!("an array of shape {:?} with strides {:?} is larger than memory", self.shape, self.strides)))
    }

    /// Returns the form of results that are like this array.
    pub fn form(&self) -> Form {
        Form { library: self.library, far: self.place != Place::Host }
    }

    /// Returns the number of the GPU that has the array.
    pub fn gpu(&self) -> Option<u32> {
        match self.place {
            Place::Host => None,
            Place::Gpu { number, .. } => Some(number),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    fn bytes(&self) -> usize {
        self.shape.iter().fold(self.element.size(), |bytes, extent| bytes.saturating_mul(*extent))
    }

    /// Whether elements are in row-major order without gaps. Strides of axes with one element do not matter.
    pub fn is_row_major(&self) -> bool {
        let mut wanted = self.element.size() as isize;
        let mut axes = self.shape.iter().zip(&self.strides).rev();
        self.is_empty()
            || axes.all(|(&extent, &stride)| {
                let fits = extent == 1 || stride == wanted;
                wanted = wanted.saturating_mul(extent as isize);
                fits
            })
    }

    /// Returns the range of addresses that elements take.
    pub fn range(&self) -> std::ops::Range<usize> {
        if self.is_empty() {
            return 0..0;
        }
        let (mut low, mut high) = (self.data.addr(), self.data.addr() + self.element.size());
        for (&extent, &stride) in self.shape.iter().zip(&self.strides) {
            let reach = stride.unsigned_abs() * (extent - 1);
            if stride < 0 { low = low.saturating_sub(reach) } else { high += reach }
        }
        low..high
    }

    /// Whether two arrays may have memory in common.
    pub fn overlaps(&self, other: &Foreign) -> bool {
        let (a, b) = (self.range(), other.range());
        a.start < b.end && b.start < a.end
    }

    /// Returns an array of a GPU as an argument, in place if it is so aligned and not `copied`; `None` for one of the host.
    pub fn lending(&self, copied: bool) -> Option<Argument> {
        let Place::Gpu { number, after, in_order } = self.place else { return None };
        let address = self.data.addr() as u64;
        let keeper = self.keeper.clone();
        let lent = Lent { gpu: number, address, bytes: self.bytes(), after, in_order, keeper };
        let is_copied = copied || !self.data.addr().is_multiple_of(ALIGN);
        // SAFETY: the keeper keeps the memory, of this shape and without gaps (`gpu::fitting`), and the call waits for all its work, or has
        // the stream do so to which the library's allocator leaves it. What other threads and streams do with it meanwhile is theirs, as with every function of the library.
        Some(Argument::Lent(unsafe { Lending::new(self.element.clone(), self.shape.clone(), lent, is_copied) }))
    }

    /// Returns the array of the host for a call that reads it: in place if that is possible, unless `copied`.
    pub fn reading(&self, copied: bool) -> PyResult<Array> {
        let in_place = !copied && self.is_row_major() && !self.is_empty() && self.data.addr().is_multiple_of(ALIGN);
        if in_place
            && self.are_truths()
            && let Some(array) = self.lent()?
        {
            return Ok(array);
        }
        self.copied()
    }

    /// Returns the array of the host for a call that writes it, and whether what is written has to be copied back.
    pub fn writing(&self) -> PyResult<(Array, bool)> {
        if !self.is_empty()
            && self.data.addr().is_multiple_of(ALIGN)
            && self.are_truths()
            && let Some(array) = self.lent()?
        {
            return Ok((array, false));
        }
        Ok((self.copied()?, true))
    }

    fn lent(&self) -> PyResult<Option<Array>> {
        let Some(start) = NonNull::new(self.data) else { return Ok(None) };
        let keeper = Box::new(self.keeper.clone());
        // SAFETY: the keeper keeps the memory, of this shape and without gaps. It is written only for arguments of which no other
        // part of the call is in the same memory. Other threads of the program could write it meanwhile, as they could during every
        // function that works without the interpreter's lock: the simulator accesses elements in ways that allow for this.
        let lent = unsafe { Array::lent(self.element.clone(), &self.shape, start, keeper) };
        lent.map_err(errors::of_problem)
    }

    /// Whether the elements, if they are truth values, are all 0 or 1.
    fn are_truths(&self) -> bool {
        if self.element != Element::Scalar(Scalar::Bool) {
            return true;
        }
        // SAFETY: called for memory without gaps, which the keeper keeps.
        let bytes = unsafe { std::slice::from_raw_parts(self.data, self.bytes()) };
        bytes.iter().all(|&byte| byte <= 1)
    }

    /// Copies the elements to an array of Clk.
    fn copied(&self) -> PyResult<Array> {
        let mut array = Array::zeros(self.element.clone(), &self.shape).map_err(errors::of_problem)?;
        if self.is_empty() {
            return Ok(array);
        }
        let size = self.element.size();
        let to = array.bytes_mut().map_err(errors::of_problem)?;
        // SAFETY: all elements are in the range that shape and strides describe, which the keeper keeps.
        unsafe { gather(self.data, &self.shape, &self.strides, size, to) };
        if self.element == Element::Scalar(Scalar::Bool) {
            to.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
        }
        Ok(array)
    }

    /// Whether an array of Clk has this shape; the components of its vectors are a last axis here.
    pub fn has_shape_of(&self, array: &Array) -> bool {
        let lanes = array.element().lanes();
        let own = match self.shape.split_last() {
            Some((last, rest)) if lanes > 1 && *last == lanes => rest,
            _ => &self.shape,
        };
        array.shape() == own
    }

    /// Copies elements back into the memory, which has no gaps.
    pub fn store(&self, array: &Array) -> PyResult<()> {
        if self.place != Place::Host {
            // The call has done so.
            return Ok(());
        }
        let bytes = array.bytes().map_err(errors::of_problem)?;
        if bytes.len() == self.bytes() && !bytes.is_empty() && bytes.as_ptr() != self.data {
            // SAFETY: as many bytes are there, writable and without gaps, and the keeper keeps them. The array has memory of its own.
            unsafe { std::ptr::copy(bytes.as_ptr(), self.data, bytes.len()) };
        }
        Ok(())
    }
}

/// Copies elements that lie at strides to memory without gaps.
///
/// # Safety
/// All elements that shape and strides describe are readable.
unsafe fn gather(from: *const u8, shape: &[usize], strides: &[isize], size: usize, to: &mut [u8]) {
    let Some((&extent, rest)) = shape.split_first() else {
        // SAFETY: one element, as required.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), size) };
        return;
    };
    let part = to.len() / extent.max(1);
    if rest.is_empty() && strides[0] == size as isize {
        // SAFETY: a row of elements without gaps.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
        return;
    }
    for (at, part) in to.chunks_exact_mut(part.max(1)).enumerate() {
        let from = from.wrapping_offset(at as isize * strides[0]);
        // SAFETY: a part of the elements.
        unsafe { gather(from, rest, &strides[1..], size, part) };
    }
}

//! `clk.Array`: an array in host or GPU memory that Clk owns, and conversions of results to arrays of other libraries.
//!
//! Other libraries use the memory without copying, through the buffer protocol, DLPack or `__cuda_array_interface__`.
//! GPU memory that was exported is freed only after all work of the GPU, like `cudaFree`, because the streams that use
//! it are unknown.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use clk_host::array::{Array, ElementType};
use clk_host::format;
use clk_host::value::HostValue;
use clk_lang::embed::{ExportedArray, numpy_name};
use clk_scalar::Scalar;
use pyo3::exceptions::{PyAttributeError, PyBufferError};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyMemoryView, PyTuple, PyType};

use crate::dlpack::{self, ExportedMemory, row_major_strides};
use crate::dlpack_exchange::ExchangeApi;
use crate::errors;
use crate::gpu;
use crate::imported_array::{self, ArrayForm, ArrayLibrary};

/// An array in memory that Clk owns. `numpy.asarray`, `torch.from_dlpack` and the like use it without copying.
#[pyclass(name = "Array", module = "clk", frozen, weakref)]
pub struct ClkArray {
    /// The array. If its elements are in GPU memory (`gpu_array`), this only has the shape and the element type.
    array: Array,
    /// The elements, if they are in GPU memory.
    gpu_array: Option<ExportedArray>,
    /// Whether the memory was exported, so that other libraries may use it.
    is_exported: AtomicBool,
    data: *mut u8,
    /// The shape for other libraries: the components of vectors are the last axis.
    shape: Box<[isize]>,
    strides: Box<[isize]>,
    /// The format of an element in the buffer protocol; `None` for unsupported types.
    format: Option<&'static CStr>,
    scalar: Option<Scalar>,
}

// SAFETY: the address belongs to the array's memory, which has no other owner: see `ClkArray::new`.
unsafe impl Send for ClkArray {}
// SAFETY: as above. Other libraries synchronize their accesses to the memory as for any array.
unsafe impl Sync for ClkArray {}

impl ClkArray {
    /// Wraps an array, in host memory. Memory that other arrays share is copied, so that writes to this array do not
    /// change them.
    pub fn new(mut array: Array) -> PyResult<ClkArray> {
        let data = array.bytes_mut().map_err(errors::from_runtime_error)?.as_mut_ptr();
        let data = if array.is_empty() { dlpack::empty_array_address() } else { data };
        Ok(ClkArray::with_memory(array, None, data))
    }

    /// Wraps an array. It stays in GPU memory if it is there and no other array shares the memory; otherwise it is
    /// moved to host memory.
    pub fn keep_on_gpu(array: Array) -> PyResult<ClkArray> {
        match ExportedArray::of(array) {
            Err(array) => ClkArray::new(array),
            Ok(gpu_array) => {
                let data = std::ptr::without_provenance_mut(gpu_array.address as usize);
                let array = gpu_array.shape().map_err(errors::from_runtime_error)?;
                Ok(ClkArray::with_memory(array, Some(gpu_array), data))
            }
        }
    }

    fn with_memory(array: Array, gpu_array: Option<ExportedArray>, data: *mut u8) -> ClkArray {
        let mut shape: Vec<usize> = array.shape().to_vec();
        let mut size = array.element().size();
        let scalar = match array.element() {
            ElementType::Scalar(scalar) => Some(*scalar),
            ElementType::Vector(scalar, lanes) if size == scalar.size() * usize::from(*lanes) => {
                shape.push(usize::from(*lanes));
                size = scalar.size();
                Some(*scalar)
            }
            _ => None,
        };
        let format = scalar.and_then(format_of);
        let strides = row_major_strides(&shape, size as isize).into();
        let shape = shape.into_iter().map(|extent| extent as isize).collect();
        ClkArray { array, gpu_array, is_exported: AtomicBool::new(false), data, shape, strides, format, scalar }
    }

    /// Returns the array in host memory. If its elements are in GPU memory, returns a copy of their current values.
    fn to_host(&self, py: Python<'_>) -> PyResult<Array> {
        let Some(gpu_array) = &self.gpu_array else { return Ok(self.array.clone()) };
        py.detach(|| gpu_array.read()).map_err(errors::from_runtime_error)
    }

    fn device(&self) -> (i32, i32) {
        self.gpu_array.as_ref().map_or((dlpack::CPU, 0), |array| (dlpack::CUDA, array.gpu as i32))
    }

    pub fn array(&self) -> &Array {
        &self.array
    }

    fn extents(&self) -> Vec<usize> {
        self.shape.iter().map(|&extent| extent as usize).collect()
    }
}

impl Drop for ClkArray {
    fn drop(&mut self) {
        let Some(gpu_array) = self.gpu_array.take() else { return };
        let is_exported = *self.is_exported.get_mut();
        // Release without the interpreter's lock: it may wait for GPU work that needs the interpreter.
        let mut release = Some(move || gpu_array.release(is_exported));
        let released = Python::try_attach(|py| py.detach(|| release.take().map(|release| release())));
        if released.is_none() {
            release.take().into_iter().for_each(|release| release());
        }
    }
}

/// Returns the format string of a type in the buffer protocol.
fn format_of(scalar: Scalar) -> Option<&'static CStr> {
    Some(match scalar {
        Scalar::Bool => c"?",
        Scalar::I8 => c"b",
        Scalar::I16 => c"h",
        Scalar::I32 => c"i",
        Scalar::I64 => c"q",
        Scalar::U8 => c"B",
        Scalar::U16 => c"H",
        Scalar::U32 => c"I",
        Scalar::U64 => c"Q",
        Scalar::F16 => c"e",
        Scalar::F32 => c"f",
        Scalar::F64 => c"d",
        Scalar::Bf16 => return None,
    })
}

#[pymethods]
impl ClkArray {
    /// The extents. The components of vectors are the last axis.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.shape.iter())
    }

    /// NumPy's name of the element type, or the name of a struct.
    #[getter]
    fn dtype(&self) -> String {
        self.scalar.map_or_else(|| self.array.element().to_string(), |scalar| numpy_name(scalar).into())
    }

    /// The type in Clk, such as `[f32; 3]`.
    #[getter]
    fn r#type(&self) -> String {
        self.array.type_name()
    }

    fn __len__(&self) -> PyResult<usize> {
        self.extents().first().copied().ok_or_else(|| pyo3::exceptions::PyTypeError::new_err("an array without axes"))
    }

    /// An element, or a view that shares the memory, with the semantics of NumPy. Without NumPy, has the semantics of
    /// `memoryview`.
    fn __getitem__<'py>(slf: &Bound<'py, Self>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        to_sequence(slf)?.get_item(key)
    }

    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Ok(to_sequence(slf)?.try_iter()?.into_any())
    }

    /// The elements as Python numbers, in nested lists.
    fn tolist<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        to_sequence(slf)?.call_method0(intern!(slf.py(), "tolist"))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let text = format::print(&HostValue::Array(self.to_host(py)?)).map_err(errors::from_runtime_error)?;
        Ok(format!("{text}\n{}", self.array.type_name()))
    }

    /// This array as a NumPy array: a view of host memory, or a copy of GPU memory.
    fn numpy<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        to_numpy(slf)
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = to_numpy(slf)?;
        match (dtype, copy) {
            (Some(dtype), _) if !dtype.is_none() => array.call_method1("astype", (dtype,)),
            (_, Some(true)) => array.call_method0("copy"),
            _ => Ok(array),
        }
    }

    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__(
        slf: &Bound<'_, Self>,
        stream: Option<Bound<'_, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let own = slf.get();
        check_stream(stream, own.gpu_array.is_some())?;
        let device = own.device();
        let other_device = dl_device.filter(|requested| *requested != device);
        if other_device.is_some_and(|requested| requested != (dlpack::CPU, 0)) {
            return Err(PyBufferError::new_err("this array can only be copied to host memory"));
        }
        let owner = match (other_device, copy) {
            (Some(_), Some(false)) => {
                return Err(PyBufferError::new_err("this array is in the memory of another device"));
            }
            (Some(_), _) => Bound::new(py, ClkArray::new(own.to_host(py)?)?)?,
            (None, Some(true)) if own.gpu_array.is_some() => {
                return Err(PyBufferError::new_err(
                    "an array in GPU memory is not copied here: copy it with the consuming library",
                ));
            }
            (None, Some(true)) => Bound::new(py, ClkArray::new(own.array.clone())?)?,
            (None, _) => slf.clone(),
        };
        let own = owner.get();
        let Some(scalar) = own.scalar else {
            return Err(PyBufferError::new_err(format!(
                "DLPack has no type for elements of `{}`",
                own.array.element()
            )));
        };
        dlpack::export_capsule(py, to_export(&owner, scalar), max_version.is_some_and(|(major, _)| major >= 1))
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        self.device()
    }

    /// The `__cuda_array_interface__` of an array in GPU memory. Arrays in host memory do not have this attribute.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let no_attribute = |reason: &str| PyAttributeError::new_err(reason.to_string());
        let Some(gpu_array) = &self.gpu_array else { return Err(no_attribute("this array is in host memory")) };
        let typestr = self.scalar.and_then(gpu::typestr);
        let typestr =
            typestr.ok_or_else(|| no_attribute("`__cuda_array_interface__` has no type for these elements"))?;
        self.is_exported.store(true, Ordering::Relaxed);
        let interface = PyDict::new(py);
        interface.set_item("shape", self.shape(py)?)?;
        interface.set_item("typestr", typestr)?;
        interface.set_item("data", (gpu_array.address, false))?;
        interface.set_item("strides", py.None())?;
        // The call that made the array has waited for its kernels, so consumers need not synchronize.
        interface.set_item("stream", py.None())?;
        interface.set_item("version", 3)?;
        Ok(interface)
    }

    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("the view is null"));
        }
        let own = slf.get();
        if own.gpu_array.is_some() {
            return Err(PyBufferError::new_err("this array is in GPU memory: `numpy()` copies it"));
        }
        let (wants_format, is_flat) = (flags & ffi::PyBUF_FORMAT != 0, flags & ffi::PyBUF_ND == 0);
        let format = match (&own.format, wants_format) {
            (Some(format), true) => format.as_ptr().cast_mut(),
            (None, true) => {
                let text = format!("the buffer protocol has no type for `{}`: use `numpy()`", own.array.element());
                return Err(PyBufferError::new_err(text));
            }
            (_, false) => std::ptr::null_mut(),
        };
        let fortran = flags & ffi::PyBUF_F_CONTIGUOUS == ffi::PyBUF_F_CONTIGUOUS;
        if fortran && own.shape.iter().filter(|&&extent| extent > 1).count() > 1 {
            return Err(PyBufferError::new_err("the elements are in row-major order"));
        }
        let bytes =
            own.shape.iter().product::<isize>() * own.scalar.map_or(own.array.element().size(), Scalar::size) as isize;
        // SAFETY: the caller passes a view to fill in. Memory, shape and strides live as long as the object that the
        // view refers to.
        unsafe {
            (*view).buf = own.data.cast::<c_void>();
            (*view).len = bytes;
            (*view).readonly = 0;
            (*view).itemsize = own.scalar.map_or(own.array.element().size(), Scalar::size) as isize;
            (*view).format = format;
            (*view).ndim = if is_flat { 1 } else { own.shape.len() as c_int };
            (*view).shape = if is_flat { std::ptr::null_mut() } else { own.shape.as_ptr().cast_mut() };
            let strided = flags & ffi::PyBUF_STRIDES == ffi::PyBUF_STRIDES;
            (*view).strides = if strided { own.strides.as_ptr().cast_mut() } else { std::ptr::null_mut() };
            (*view).suboffsets = std::ptr::null_mut();
            (*view).internal = std::ptr::null_mut();
            (*view).obj = slf.into_any().into_ptr();
        }
        Ok(())
    }

    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {}
}

/// Rejects an invalid `stream` argument of `__dlpack__`. Other streams need not wait, since the call that made the
/// array has waited for its kernels.
fn check_stream(stream: Option<Bound<'_, PyAny>>, is_on_gpu: bool) -> PyResult<()> {
    let Some(stream) = stream.filter(|stream| !stream.is_none()) else { return Ok(()) };
    if !is_on_gpu {
        return Err(PyBufferError::new_err("an array in host memory has no stream"));
    }
    match stream.extract::<i64>()? {
        0 => Err(PyBufferError::new_err(
            "stream 0 is ambiguous: pass 1 for the default stream, 2 for the default stream of the thread",
        )),
        _ => Ok(()),
    }
}

/// Returns NumPy's `dtype` of a scalar type, from a cache.
fn numpy_type<'py>(py: Python<'py>, scalar: Scalar) -> PyResult<Bound<'py, PyAny>> {
    static DTYPES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let dtypes = DTYPES.get_or_init(py, || PyDict::new(py).unbind()).bind(py);
    let name = numpy_name(scalar);
    if let Some(dtype) = dtypes.get_item(name)? {
        return Ok(dtype);
    }
    let base = match scalar {
        Scalar::Bf16 => {
            let no_ml_dtypes = |_| {
                let help = ["`pip install ml_dtypes`", "`torch.bfloat16` needs no other package"];
                errors::call_error(
                    py,
                    "E0809",
                    "NumPy has no bfloat16 without the package ml_dtypes".into(),
                    &help,
                    &[],
                )
            };
            py.import("ml_dtypes").map_err(no_ml_dtypes)?.getattr("bfloat16")?
        }
        _ => name.into_pyobject(py)?.into_any(),
    };
    let dtype = py.import("numpy")?.call_method1("dtype", (base,))?;
    dtypes.set_item(name, &dtype)?;
    Ok(dtype)
}

/// Returns NumPy's `dtype` of an element type. The `dtype` of a struct has the same memory layout as in Clk.
pub fn dtype_of<'py>(py: Python<'py>, element: &ElementType) -> PyResult<Bound<'py, PyAny>> {
    let ElementType::Record(_) = element else {
        let scalar = element.scalar().unwrap_or(Scalar::F32);
        let base = numpy_type(py, scalar)?;
        return match element.lanes() {
            1 => Ok(base),
            lanes => py.import("numpy")?.call_method1("dtype", ((base, (lanes,)),)),
        };
    };
    let (mut names, mut formats, mut offsets) = (vec![], vec![], vec![]);
    for (name, field, offset) in element.fields() {
        // Fields of tuples have numbers, but NumPy requires names.
        names.push(if name.parse::<usize>().is_ok() { format!("f{name}") } else { name.to_string() });
        formats.push(dtype_of(py, &field)?);
        offsets.push(offset);
    }
    let layout = PyDict::new(py);
    layout.set_item("names", names)?;
    layout.set_item("formats", formats)?;
    layout.set_item("offsets", offsets)?;
    layout.set_item("itemsize", element.size())?;
    py.import("numpy")?.call_method1("dtype", (layout,))
}

/// Returns a NumPy array of the elements, or a `memoryview` if NumPy is not installed.
fn to_sequence<'py>(array: &Bound<'py, ClkArray>) -> PyResult<Bound<'py, PyAny>> {
    match imported_array::ndarray(array.py()) {
        Some(_) => to_numpy(array),
        None => Ok(PyMemoryView::from(array)?.into_any()),
    }
}

/// Returns a NumPy array: a view of host memory, or a copy of GPU memory.
pub fn to_numpy<'py>(array: &Bound<'py, ClkArray>) -> PyResult<Bound<'py, PyAny>> {
    let py = array.py();
    if array.get().gpu_array.is_some() {
        return to_numpy(&Bound::new(py, ClkArray::new(array.get().to_host(py)?)?)?);
    }
    let own = array.get();
    let Some(ndarray) = imported_array::ndarray(py) else {
        return Err(pyo3::exceptions::PyImportError::new_err("NumPy is not installed"));
    };
    let dtype = match own.scalar {
        Some(scalar) => numpy_type(py, scalar)?,
        None => dtype_of(py, own.array.element())?,
    };
    let shape = PyTuple::new(py, own.shape.iter())?;
    if own.array.is_empty() {
        return py.import("numpy")?.call_method1(intern!(py, "empty"), (shape, dtype));
    }
    ndarray.bind(py).call1((shape, dtype, array))
}

/// Describes the memory of an array for DLPack, and marks the array as exported.
fn to_export(own: &Bound<'_, ClkArray>, scalar: Scalar) -> ExportedMemory {
    let array = own.get();
    array.is_exported.store(true, Ordering::Relaxed);
    let (device, shape) = (array.device(), array.extents());
    ExportedMemory { device, data: array.data, scalar, shape, owner: own.clone().into_any().unbind() }
}

/// Returns torch's DLPack exchange API, if it has one.
fn torch_exchange_api(py: Python<'_>) -> PyResult<Option<&'static ExchangeApi>> {
    static API: PyOnceLock<Option<&'static ExchangeApi>> = PyOnceLock::new();
    let find_api = || {
        let ty = py.import("torch")?.getattr("Tensor")?.cast_into::<PyType>()?;
        Ok::<_, PyErr>(imported_array::type_info(&ty).exchange_api)
    };
    API.get_or_try_init(py, find_api).copied()
}

/// Converts a result to an array of the library that `form` names.
pub fn to_library_array<'py>(py: Python<'py>, array: Array, form: ArrayForm) -> PyResult<Bound<'py, PyAny>> {
    let own = if form.on_gpu { ClkArray::keep_on_gpu(array)? } else { ClkArray::new(array)? };
    // Element types that DLPack does not support become NumPy arrays.
    let (scalar, has_dlpack_type, is_on_gpu) = (own.scalar, own.scalar.is_some(), own.gpu_array.is_some());
    let own = Bound::new(py, own)?;
    let from_dlpack = |module: &str| py.import(module)?.call_method1(intern!(py, "from_dlpack"), (&own,));
    match form.library {
        ArrayLibrary::NumPy if !is_on_gpu && imported_array::ndarray(py).is_some() => to_numpy(&own),
        // Uses the exchange API, or a capsule. With `torch.from_dlpack`, torch would query a stream in Python, which
        // takes longer than a small kernel and is unnecessary here.
        ArrayLibrary::Torch if let Some(scalar) = scalar => match torch_exchange_api(py)? {
            Some(api) => api.export_array(py, to_export(&own, scalar)),
            None => {
                let capsule = ClkArray::__dlpack__(&own, None, None, None, None)?;
                py.import("torch.utils.dlpack")?.call_method1(intern!(py, "from_dlpack"), (capsule,))
            }
        },
        ArrayLibrary::Jax if has_dlpack_type => from_dlpack("jax.numpy"),
        ArrayLibrary::CuPy if has_dlpack_type && is_on_gpu => from_dlpack("cupy"),
        ArrayLibrary::CuPy if has_dlpack_type => {
            py.import("cupy")?.call_method1(intern!(py, "asarray"), (to_numpy(&own)?,))
        }
        ArrayLibrary::Torch | ArrayLibrary::Jax | ArrayLibrary::CuPy => to_numpy(&own),
        _ => Ok(own.into_any()),
    }
}

//! `clk.Array`: a result in memory of Clk, of the host or of a GPU, which other libraries use without copying.
//!
//! Memory of a GPU that others have been given goes back when all work of that GPU is over, as with `cudaFree`: nobody else knows on which
//! streams they use it.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use clk_lang::app::embed::{Far, numpy_name};
use clk_lang::host::array::{Array, Element};
use clk_lang::host::format;
use clk_lang::host::value::Value;
use clk_lang::lang::scalar::Scalar;
use pyo3::exceptions::{PyAttributeError, PyBufferError};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyMemoryView, PyTuple, PyType};

use crate::dlpack::{self, Given, row_major};
use crate::errors;
use crate::exchange::Table;
use crate::foreign::{self, Form, Library};
use crate::gpu;

/// An array in memory of Clk. `numpy.asarray`, `torch.from_dlpack` and the like use it without copying.
#[pyclass(name = "Array", module = "clk", frozen, weakref)]
pub struct ClkArray {
    /// Without memory if a GPU has the elements.
    array: Array,
    /// Set for one in the memory of a GPU.
    far: Option<Far>,
    /// Whether others have the memory, too.
    shared: AtomicBool,
    data: *mut u8,
    /// As other libraries see it: the components of vectors are a last axis.
    shape: Box<[isize]>,
    strides: Box<[isize]>,
    /// The format in the buffer protocol; absent for types that it does not have.
    format: Option<&'static CStr>,
    scalar: Option<Scalar>,
}

// SAFETY: the address is that of the array's memory, which nobody else has: see `ClkArray::new`.
unsafe impl Send for ClkArray {}
// SAFETY: as above; what other libraries do with the memory, they do as with any array.
unsafe impl Sync for ClkArray {}

impl ClkArray {
    /// Takes an array. Memory that others have is copied, so that whoever changes it changes this array alone.
    pub fn new(mut array: Array) -> PyResult<ClkArray> {
        let data = array.bytes_mut().map_err(errors::of_problem)?.as_mut_ptr();
        let data = if array.is_empty() { dlpack::nowhere() } else { data };
        Ok(ClkArray::at(array, None, data))
    }

    /// Takes an array that is to stay in the memory of a GPU, if it is there and has that for itself.
    pub fn staying(array: Array) -> PyResult<ClkArray> {
        match Far::of(array) {
            Err(array) => ClkArray::new(array),
            Ok(far) => {
                let data = std::ptr::without_provenance_mut(far.address as usize);
                Ok(ClkArray::at(far.shape().map_err(errors::of_problem)?, Some(far), data))
            }
        }
    }

    fn at(array: Array, far: Option<Far>, data: *mut u8) -> ClkArray {
        let mut shape: Vec<usize> = array.shape().to_vec();
        let mut size = array.element().size();
        let scalar = match array.element() {
            Element::Scalar(scalar) => Some(*scalar),
            Element::Vector(scalar, lanes) if size == scalar.size() * usize::from(*lanes) => {
                shape.push(usize::from(*lanes));
                size = scalar.size();
                Some(*scalar)
            }
            _ => None,
        };
        let format = scalar.and_then(format_of);
        let strides = row_major(&shape, size as isize).into();
        let shape = shape.into_iter().map(|extent| extent as isize).collect();
        ClkArray { array, far, shared: AtomicBool::new(false), data, shape, strides, format, scalar }
    }

    /// Returns the array with its bytes on the host: itself, or a copy of what a GPU has now.
    fn here(&self, py: Python<'_>) -> PyResult<Array> {
        let Some(far) = &self.far else { return Ok(self.array.clone()) };
        py.detach(|| far.read()).map_err(errors::of_problem)
    }

    fn device(&self) -> (i32, i32) {
        self.far.as_ref().map_or((dlpack::CPU, 0), |far| (dlpack::CUDA, far.gpu as i32))
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
        let Some(far) = self.far.take() else { return };
        let shared = *self.shared.get_mut();
        // Others may need the interpreter for the work that is waited for.
        let mut release = Some(move || far.release(shared));
        let released = Python::try_attach(|py| py.detach(|| release.take().map(|release| release())));
        if released.is_none() {
            release.take().into_iter().for_each(|release| release());
        }
    }
}

/// Returns the format of a type in the buffer protocol.
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
    /// The extents; the components of vectors are a last axis.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.shape.iter())
    }

    /// The type of the elements as NumPy calls it, or the name of a struct.
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

    /// Elements, and parts that share the memory, as NumPy has them; without NumPy as `memoryview` has them.
    fn __getitem__<'py>(slf: &Bound<'py, Self>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        viewed(slf)?.get_item(key)
    }

    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Ok(viewed(slf)?.try_iter()?.into_any())
    }

    /// The elements as numbers of Python, in a list for each axis.
    fn tolist<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        viewed(slf)?.call_method0(intern!(slf.py(), "tolist"))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let text = format::print(&Value::Array(self.here(py)?)).map_err(errors::of_problem)?;
        Ok(format!("{text}\n{}", self.array.type_name()))
    }

    /// This array as one of NumPy: in the same memory, or a copy of what a GPU has.
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
        allow_stream(stream, own.far.is_some())?;
        let here = own.device();
        let elsewhere = dl_device.filter(|device| *device != here);
        if elsewhere.is_some_and(|device| device != (dlpack::CPU, 0)) {
            return Err(PyBufferError::new_err("this array is copied to the processor's memory only"));
        }
        let owner = match (elsewhere, copy) {
            (Some(_), Some(false)) => return Err(PyBufferError::new_err("this array is in other memory")),
            (Some(_), _) => Bound::new(py, ClkArray::new(own.here(py)?)?)?,
            (None, Some(true)) if own.far.is_some() => {
                return Err(PyBufferError::new_err("a copy in the memory of the GPU is up to who takes the array"));
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
        dlpack::give(py, given(&owner, scalar), max_version.is_some_and(|(major, _)| major >= 1))
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        self.device()
    }

    /// Where a GPU has the elements, for libraries that ask for this; its absence says that none has them.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let lacks = |why: &str| PyAttributeError::new_err(why.to_string());
        let Some(far) = &self.far else { return Err(lacks("this array is in memory of the processor")) };
        let kind = self.scalar.and_then(gpu::typestr);
        let kind = kind.ok_or_else(|| lacks("`__cuda_array_interface__` has no type for these elements"))?;
        self.shared.store(true, Ordering::Relaxed);
        let facts = PyDict::new(py);
        facts.set_item("shape", self.shape(py)?)?;
        facts.set_item("typestr", kind)?;
        facts.set_item("data", (far.address, false))?;
        facts.set_item("strides", py.None())?;
        // Nothing has to be waited for.
        facts.set_item("stream", py.None())?;
        facts.set_item("version", 3)?;
        Ok(facts)
    }

    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("no view"));
        }
        let own = slf.get();
        if own.far.is_some() {
            return Err(PyBufferError::new_err("this array is in the memory of a GPU: `numpy()` copies it"));
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
        // SAFETY: the caller gives a view to fill. The memory, shape and strides live as long as the object that the view refers to.
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

/// Refuses a stream that no consumer may name. All others have nothing to wait for: calls have waited for their work.
fn allow_stream(stream: Option<Bound<'_, PyAny>>, is_far: bool) -> PyResult<()> {
    let Some(stream) = stream.filter(|stream| !stream.is_none()) else { return Ok(()) };
    if !is_far {
        return Err(PyBufferError::new_err("memory of the processor has no streams"));
    }
    match stream.extract::<i64>()? {
        0 => Err(PyBufferError::new_err("stream 0 may mean two streams: 1 is the default one, 2 that of the thread")),
        _ => Ok(()),
    }
}

/// Returns NumPy's type for a scalar type: asked for once.
fn numpy_type<'py>(py: Python<'py>, scalar: Scalar) -> PyResult<Bound<'py, PyAny>> {
    static KNOWN: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let known = KNOWN.get_or_init(py, || PyDict::new(py).unbind()).bind(py);
    let name = numpy_name(scalar);
    if let Some(found) = known.get_item(name)? {
        return Ok(found);
    }
    let found = match scalar {
        Scalar::Bf16 => {
            let lacks = |_| {
                let help = ["`pip install ml_dtypes`", "`torch.bfloat16` needs no other package"];
                errors::refused(py, "E0809", "NumPy has no bfloat16 without the package ml_dtypes".into(), &help, &[])
            };
            py.import("ml_dtypes").map_err(lacks)?.getattr("bfloat16")?
        }
        _ => name.into_pyobject(py)?.into_any(),
    };
    let dtype = py.import("numpy")?.call_method1("dtype", (found,))?;
    known.set_item(name, &dtype)?;
    Ok(dtype)
}

/// Returns NumPy's type for elements: that of a scalar, or of a struct with the same layout.
pub fn dtype_of<'py>(py: Python<'py>, element: &Element) -> PyResult<Bound<'py, PyAny>> {
    let Element::Record(_) = element else {
        let scalar = element.scalar().unwrap_or(Scalar::F32);
        let base = numpy_type(py, scalar)?;
        return match element.lanes() {
            1 => Ok(base),
            lanes => py.import("numpy")?.call_method1("dtype", ((base, (lanes,)),)),
        };
    };
    let (mut names, mut formats, mut offsets) = (vec![], vec![], vec![]);
    for (name, field, offset) in element.fields() {
        // NumPy's fields have names.
        names.push(if name.parse::<usize>().is_ok() { format!("f{name}") } else { name.to_string() });
        formats.push(dtype_of(py, &field)?);
        offsets.push(offset);
    }
    let facts = PyDict::new(py);
    facts.set_item("names", names)?;
    facts.set_item("formats", formats)?;
    facts.set_item("offsets", offsets)?;
    facts.set_item("itemsize", element.size())?;
    py.import("numpy")?.call_method1("dtype", (facts,))
}

/// Returns an array as one of NumPy, or else as a view of Python.
fn viewed<'py>(array: &Bound<'py, ClkArray>) -> PyResult<Bound<'py, PyAny>> {
    match foreign::ndarray(array.py()) {
        Some(_) => to_numpy(array),
        None => Ok(PyMemoryView::from(array)?.into_any()),
    }
}

/// Returns an array of NumPy in the memory of one of Clk, or a copy of one that a GPU has.
pub fn to_numpy<'py>(array: &Bound<'py, ClkArray>) -> PyResult<Bound<'py, PyAny>> {
    let py = array.py();
    if array.get().far.is_some() {
        return to_numpy(&Bound::new(py, ClkArray::new(array.get().here(py)?)?)?);
    }
    let own = array.get();
    let Some(ndarray) = foreign::ndarray(py) else {
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

/// Returns an array to be given away.
fn given(own: &Bound<'_, ClkArray>, scalar: Scalar) -> Given {
    let array = own.get();
    array.shared.store(true, Ordering::Relaxed);
    let (device, shape) = (array.device(), array.extents());
    Given { device, data: array.data, scalar, shape, owner: own.clone().into_any().unbind() }
}

/// Returns torch's functions that exchange tensors, if it has some.
fn torch(py: Python<'_>) -> PyResult<Option<&'static Table>> {
    static KNOWN: PyOnceLock<Option<&'static Table>> = PyOnceLock::new();
    let find = || {
        let ty = py.import("torch")?.getattr("Tensor")?.cast_into::<PyType>()?;
        Ok::<_, PyErr>(foreign::kind_of(&ty).table)
    };
    KNOWN.get_or_try_init(py, find).copied()
}

/// Returns an array as one of a library.
pub fn in_form<'py>(py: Python<'py>, array: Array, form: Form) -> PyResult<Bound<'py, PyAny>> {
    let own = if form.far { ClkArray::staying(array)? } else { ClkArray::new(array)? };
    // What DLPack has no type for stays with NumPy.
    let (scalar, is_plain, is_far) = (own.scalar, own.scalar.is_some(), own.far.is_some());
    let own = Bound::new(py, own)?;
    let taken = |module: &str| py.import(module)?.call_method1(intern!(py, "from_dlpack"), (&own,));
    match form.library {
        Library::NumPy if !is_far && foreign::ndarray(py).is_some() => to_numpy(&own),
        // The capsule itself: there is no stream to agree on, and torch asks for one in Python, which takes longer than a small kernel.
        Library::Torch if let Some(scalar) = scalar => match torch(py)? {
            Some(table) => table.array(py, given(&own, scalar)),
            None => {
                let capsule = ClkArray::__dlpack__(&own, None, None, None, None)?;
                py.import("torch.utils.dlpack")?.call_method1(intern!(py, "from_dlpack"), (capsule,))
            }
        },
        Library::Jax if is_plain => taken("jax.numpy"),
        Library::CuPy if is_plain && is_far => taken("cupy"),
        Library::CuPy if is_plain => py.import("cupy")?.call_method1(intern!(py, "asarray"), (to_numpy(&own)?,)),
        Library::Torch | Library::Jax | Library::CuPy => to_numpy(&own),
        _ => Ok(own.into_any()),
    }
}

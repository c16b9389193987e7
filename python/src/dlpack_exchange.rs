//! DLPack's C exchange API: `__dlpack_c_exchange_api__` of DLPack 1.3, which torch provides since 2.10.
//!
//! A type publishes a table of C functions that import an array, export an array, and return the current stream.
//! Calling them is much faster than `__dlpack__`: for torch, a call of `__dlpack__` takes longer than a small kernel.

use std::ffi::{CStr, c_int, c_void};
use std::ptr::{NonNull, null_mut};

use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods, PyType};
use pyo3::{ffi, intern};

use crate::dlpack::{self, DlManagedTensorVersioned, ImportedTensor};

const CAPSULE_NAME: &CStr = c"dlpack_exchange_api";

/// The fields with which the table of every version begins (`DLPackExchangeAPIHeader`). `earlier` points to a table of
/// an older version.
#[repr(C)]
struct ExchangeApiHeader {
    major: u32,
    minor: u32,
    earlier: *const ExchangeApiHeader,
}

/// The table of major version 1 (`DLPackExchangeAPI`). Functions that a library does not provide are null.
#[repr(C)]
pub struct ExchangeApi {
    header: ExchangeApiHeader,
    allocate: *const c_void,
    from_object: Option<unsafe extern "C" fn(*mut ffi::PyObject, *mut *mut DlManagedTensorVersioned) -> c_int>,
    to_object: Option<unsafe extern "C" fn(*mut DlManagedTensorVersioned, *mut *mut ffi::PyObject) -> c_int>,
    view: *const c_void,
    stream: Option<unsafe extern "C" fn(c_int, i32, *mut *mut c_void) -> c_int>,
}

/// The maximum number of tables searched in the linked list of versions.
const MAX_VERSIONS: usize = 64;

// SAFETY: a table never changes.
unsafe impl Sync for ExchangeApi {}

/// Returns the table that a type itself defines. An inherited table is ignored, since the elements of a derived type
/// may differ.
pub fn find_exchange_api(ty: &Bound<'_, PyType>) -> Option<&'static ExchangeApi> {
    let py = ty.py();
    let attributes = ty.getattr(intern!(py, "__dict__")).ok()?;
    let capsule = attributes.get_item(intern!(py, "__dlpack_c_exchange_api__")).ok()?.cast_into::<PyCapsule>().ok()?;
    let mut header =
        capsule.pointer_checked(Some(CAPSULE_NAME)).ok()?.cast::<ExchangeApiHeader>().as_ptr().cast_const();
    for _ in 0..MAX_VERSIONS {
        if header.is_null() {
            break;
        }
        // SAFETY: a capsule of this name points to such a list, which lives as long as the process.
        let ExchangeApiHeader { major, earlier, .. } = unsafe { &*header };
        if *major == dlpack::MAJOR {
            // SAFETY: a header of this major version begins a table of this layout.
            return Some(unsafe { &*header.cast::<ExchangeApi>() });
        }
        header = *earlier;
    }
    None
}

fn pending_exception(py: Python<'_>) -> PyErr {
    PyErr::take(py).unwrap_or_else(|| PyBufferError::new_err("an array could not be exchanged"))
}

fn missing_function(function: &str) -> PyErr {
    PyBufferError::new_err(format!("`__dlpack_c_exchange_api__` has no `{function}`"))
}

impl ExchangeApi {
    /// Imports an array; its memory stays valid until the result is dropped. Does not synchronize with pending work on
    /// the array.
    pub fn import_array(&self, object: &Bound<'_, PyAny>) -> PyResult<ImportedTensor> {
        let from_object = self.from_object.ok_or_else(|| missing_function("managed_tensor_from_py_object_no_sync"))?;
        let mut managed = null_mut();
        // SAFETY: the object is of the type that published this table.
        let code = unsafe { from_object(object.as_ptr(), &raw mut managed) };
        match NonNull::new(managed).filter(|_| code == 0) {
            Some(managed) => dlpack::import_managed(managed),
            None => Err(pending_exception(object.py())),
        }
    }

    /// Returns the library's current stream on a GPU.
    pub fn current_stream(&self, py: Python<'_>, gpu: u32) -> PyResult<usize> {
        let current_work_stream = self.stream.ok_or_else(|| missing_function("current_work_stream"))?;
        let mut stream = null_mut();
        // SAFETY: the function of the table writes to `stream`.
        let code = unsafe { current_work_stream(dlpack::CUDA, gpu as i32, &raw mut stream) };
        if code == 0 { Ok(stream.addr()) } else { Err(pending_exception(py)) }
    }

    /// Returns whether the library can report its current stream.
    pub fn has_current_stream(&self) -> bool {
        self.stream.is_some()
    }

    /// Makes an array of the library from exported memory.
    pub fn export_array<'py>(&self, py: Python<'py>, export: dlpack::ExportedMemory) -> PyResult<Bound<'py, PyAny>> {
        let to_object = self.to_object.ok_or_else(|| missing_function("managed_tensor_to_py_object_no_sync"))?;
        let managed = dlpack::export_managed(export);
        let mut object = null_mut();
        // SAFETY: the function takes ownership of the structure, and returns a new reference.
        unsafe {
            match to_object(managed, &raw mut object) {
                0 => Bound::from_owned_ptr_or_err(py, object),
                _ => Err(pending_exception(py)),
            }
        }
    }
}

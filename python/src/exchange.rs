//! Arrays of libraries that exchange them by functions in C: `__dlpack_c_exchange_api__` of DLPack 1.3, as torch has it since 2.10.
//!
//! Input: an object whose very type has that table. Output: what a capsule of DLPack would say, which takes such libraries longer than a
//! small kernel with its call; the stream on which they work; and results as arrays of theirs.

use std::ffi::{CStr, c_int, c_void};
use std::ptr::{NonNull, null_mut};

use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods, PyType};
use pyo3::{ffi, intern};

use crate::dlpack::{self, ManagedVersioned};

const NAME: &CStr = c"dlpack_exchange_api";

/// The begin of each version of the table, of which there may be a list.
#[repr(C)]
struct Header {
    major: u32,
    minor: u32,
    earlier: *const Header,
}

/// Functions that a library does not have are null.
#[repr(C)]
pub struct Table {
    header: Header,
    allocate: *const c_void,
    from_object: Option<unsafe extern "C" fn(*mut ffi::PyObject, *mut *mut ManagedVersioned) -> c_int>,
    to_object: Option<unsafe extern "C" fn(*mut ManagedVersioned, *mut *mut ffi::PyObject) -> c_int>,
    view: *const c_void,
    stream: Option<unsafe extern "C" fn(c_int, i32, *mut *mut c_void) -> c_int>,
}

/// Versions that a list is searched for.
const MOST: usize = 64;

// SAFETY: a table never changes.
unsafe impl Sync for Table {}

/// Returns the table of a type that has one itself: a derived type may mean other elements.
pub fn of(ty: &Bound<'_, PyType>) -> Option<&'static Table> {
    let py = ty.py();
    let own = ty.getattr(intern!(py, "__dict__")).ok()?;
    let capsule = own.get_item(intern!(py, "__dlpack_c_exchange_api__")).ok()?.cast_into::<PyCapsule>().ok()?;
    let mut header = capsule.pointer_checked(Some(NAME)).ok()?.cast::<Header>().as_ptr().cast_const();
    for _ in 0..MOST {
        if header.is_null() {
            break;
        }
        // SAFETY: a capsule of this name has such a list, which lives as long as the process.
        let Header { major, earlier, .. } = unsafe { &*header };
        if *major == dlpack::MAJOR {
            // SAFETY: of this version it is this table.
            return Some(unsafe { &*header.cast::<Table>() });
        }
        header = *earlier;
    }
    None
}

fn raised(py: Python<'_>) -> PyErr {
    PyErr::take(py).unwrap_or_else(|| PyBufferError::new_err("an array could not be exchanged"))
}

fn lacks(function: &str) -> PyErr {
    PyBufferError::new_err(format!("`__dlpack_c_exchange_api__` has no `{function}`"))
}

impl Table {
    /// Reads an array, whose memory stays until what is returned is dropped. Nobody is made to wait for its work.
    pub fn read(&self, object: &Bound<'_, PyAny>) -> PyResult<dlpack::Tensor> {
        let from_object = self.from_object.ok_or_else(|| lacks("managed_tensor_from_py_object_no_sync"))?;
        let mut made = null_mut();
        // SAFETY: the object is of the type that has this table.
        let code = unsafe { from_object(object.as_ptr(), &raw mut made) };
        match NonNull::new(made).filter(|_| code == 0) {
            Some(managed) => dlpack::take_managed(managed),
            None => Err(raised(object.py())),
        }
    }

    /// Returns the stream on which the library works on a GPU now.
    pub fn stream(&self, py: Python<'_>, gpu: u32) -> PyResult<usize> {
        let ask = self.stream.ok_or_else(|| lacks("current_work_stream"))?;
        let mut stream = null_mut();
        // SAFETY: a function of the table, which fills in the stream.
        let code = unsafe { ask(dlpack::CUDA, gpu as i32, &raw mut stream) };
        if code == 0 { Ok(stream.addr()) } else { Err(raised(py)) }
    }

    /// Whether it says on which stream its library works.
    pub fn has_stream(&self) -> bool {
        self.stream.is_some()
    }

    /// Makes an array of the library in memory that is given away.
    pub fn array<'py>(&self, py: Python<'py>, given: dlpack::Given) -> PyResult<Bound<'py, PyAny>> {
        let to_object = self.to_object.ok_or_else(|| lacks("managed_tensor_to_py_object_no_sync"))?;
        let managed = dlpack::managed(given);
        let mut made = null_mut();
        // SAFETY: the structure is given to the function, which returns a new reference.
        unsafe {
            match to_object(managed, &raw mut made) {
                0 => Bound::from_owned_ptr_or_err(py, made),
                _ => Err(raised(py)),
            }
        }
    }
}

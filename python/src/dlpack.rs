//! DLPack, the protocol by which array libraries share memory without copying: the structures of its C header, and
//! capsules.
//!
//! Import turns a capsule of another library into an [`ImportedTensor`]. Export turns memory of Clk and its owner into
//! a capsule. Capsules come in two layouts: the older one without a version, and the versioned one, which has a
//! read-only flag.

use std::ffi::{CStr, c_void};
use std::ptr::{self, NonNull};

use clk_scalar::Scalar;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::imported_array::MAX_AXES;

/// DLPack's device type for ordinary host memory. [`CUDA_HOST`] is host memory that CUDA has pinned.
pub const CPU: i32 = 1;
pub const CUDA_HOST: i32 = 3;

/// DLPack's device type for the memory of NVIDIA GPUs. [`CUDA_MANAGED`] is CUDA's managed memory.
pub const CUDA: i32 = 2;
pub const CUDA_MANAGED: i32 = 13;

/// The major version of DLPack whose structures this file defines; [`MINOR`] is the minor version.
pub const MAJOR: u32 = 1;
const MINOR: u32 = 1;

/// The bit of [`DlManagedTensorVersioned::flags`] for read-only memory.
const READ_ONLY: u64 = 1;

const UNVERSIONED: &CStr = c"dltensor";
const UNVERSIONED_USED: &CStr = c"used_dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const VERSIONED_USED: &CStr = c"used_dltensor_versioned";

#[repr(C)]
#[derive(Clone, Copy)]
struct DlDataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct DlTensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    dtype: DlDataType,
    shape: *mut i64,
    /// Strides in elements; null for row-major memory without gaps.
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct DlManagedTensor {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DlManagedTensor)>,
}

#[repr(C)]
pub struct DlManagedTensorVersioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DlManagedTensorVersioned)>,
    flags: u64,
    tensor: DlTensor,
}

/// A managed tensor that Clk has taken from a capsule. Dropping it calls the deleter of the exporting library.
pub enum OwnedTensor {
    Unversioned(NonNull<c_void>),
    Versioned(NonNull<c_void>),
}

// SAFETY: only its owner uses the structure, and deleters acquire the interpreter's lock themselves.
unsafe impl Send for OwnedTensor {}
// SAFETY: shared references give no access to the structure.
unsafe impl Sync for OwnedTensor {}

impl Drop for OwnedTensor {
    fn drop(&mut self) {
        match *self {
            OwnedTensor::Unversioned(managed) => {
                let managed = managed.cast::<DlManagedTensor>().as_ptr();
                // SAFETY: the tensor was taken from its capsule, so this type must call the deleter once.
                unsafe { (*managed).deleter.inspect(|deleter| deleter(managed)) };
            }
            OwnedTensor::Versioned(managed) => {
                let managed = managed.cast::<DlManagedTensorVersioned>().as_ptr();
                // SAFETY: as above.
                unsafe { (*managed).deleter.inspect(|deleter| deleter(managed)) };
            }
        }
    }
}

/// A tensor that was imported from a capsule.
pub struct ImportedTensor {
    pub data: *mut u8,
    /// DLPack's device type, and the device's number.
    pub device: (i32, i32),
    /// The type of the elements. The error is the name of a type that Clk does not support.
    pub scalar: Result<Scalar, String>,
    pub shape: Vec<usize>,
    /// Strides in bytes.
    pub strides: Vec<isize>,
    pub readonly: bool,
    /// Whether the capsule has the versioned layout. Only this layout has the read-only flag.
    pub versioned: bool,
    /// Keeps the memory alive.
    pub owner: OwnedTensor,
}

/// Takes ownership of the tensor in a capsule that `__dlpack__` has returned.
pub fn import_capsule(capsule: &Bound<'_, PyAny>) -> PyResult<ImportedTensor> {
    let object = capsule.as_ptr();
    // SAFETY: the object is alive, and the names are constant strings.
    let (unversioned, versioned) = unsafe {
        (
            ffi::PyCapsule_IsValid(object, UNVERSIONED.as_ptr()) != 0,
            ffi::PyCapsule_IsValid(object, VERSIONED.as_ptr()) != 0,
        )
    };
    if !unversioned && !versioned {
        return Err(PyBufferError::new_err("`__dlpack__` has not returned a DLPack capsule that is still unused"));
    }
    let (name, used) = if versioned { (VERSIONED, VERSIONED_USED) } else { (UNVERSIONED, UNVERSIONED_USED) };
    // SAFETY: a valid capsule of this name points to its structure. Renaming the capsule transfers ownership of the
    // structure.
    let pointer = unsafe {
        let pointer = ffi::PyCapsule_GetPointer(object, name.as_ptr());
        NonNull::new(pointer).filter(|_| ffi::PyCapsule_SetName(object, used.as_ptr()) == 0)
    };
    let Some(pointer) = pointer else { return Err(PyErr::fetch(capsule.py())) };
    if versioned {
        import_managed(pointer.cast())
    } else {
        let owner = OwnedTensor::Unversioned(pointer);
        // SAFETY: a capsule of this name has this structure.
        let managed = unsafe { pointer.cast::<DlManagedTensor>().as_ref() };
        read_tensor(&managed.tensor, false, owner)
    }
}

/// Takes ownership of a managed tensor.
pub fn import_managed(pointer: NonNull<DlManagedTensorVersioned>) -> PyResult<ImportedTensor> {
    let owner = OwnedTensor::Versioned(pointer.cast());
    // SAFETY: the structure is alive until `owner` is dropped; these fields come first in every version.
    let managed = unsafe { pointer.as_ref() };
    if managed.major != MAJOR {
        let (major, minor) = (managed.major, managed.minor);
        let message = format!("DLPack {major}.{minor} is not supported: the major version must be {MAJOR}");
        return Err(PyBufferError::new_err(message));
    }
    read_tensor(&managed.tensor, managed.flags & READ_ONLY != 0, owner)
}

fn read_tensor(raw: &DlTensor, readonly: bool, owner: OwnedTensor) -> PyResult<ImportedTensor> {
    let invalid = |problem: String| PyBufferError::new_err(format!("the tensor of this DLPack capsule {problem}"));
    let rank = usize::try_from(raw.ndim).ok().filter(|&rank| rank <= MAX_AXES);
    let rank = rank.ok_or_else(|| invalid(format!("has {} axes; the maximum is {MAX_AXES}", raw.ndim)))?;
    let slice = |pointer: *const i64| match pointer.is_null() || rank == 0 {
        true => &[][..],
        // SAFETY: the tensor has one extent per axis, and one stride per axis if it has strides.
        false => unsafe { std::slice::from_raw_parts(pointer, rank) },
    };
    let extents = slice(raw.shape);
    if extents.len() != rank {
        return Err(invalid("does not give its shape".into()));
    }
    let shape = extents.iter().map(|&extent| usize::try_from(extent)).collect::<Result<Vec<_>, _>>();
    let shape = shape.map_err(|_| invalid(format!("has the shape {extents:?}")))?;
    let scalar = to_scalar(raw.dtype);
    let size = scalar.as_ref().map_or(1, |scalar| scalar.size()) as isize;
    let strides = match raw.strides.is_null() {
        true => row_major_strides(&shape, size),
        // `ImportedArray::validate` later rejects a stride that saturates here.
        false => slice(raw.strides).iter().map(|&stride| (stride as isize).saturating_mul(size)).collect(),
    };
    let data = raw.data.cast::<u8>().wrapping_add(raw.byte_offset as usize);
    let (device, versioned) = ((raw.device_type, raw.device_id), matches!(owner, OwnedTensor::Versioned(_)));
    Ok(ImportedTensor { data, device, scalar, shape, strides, readonly, versioned, owner })
}

/// Returns the strides of a contiguous row-major array, in units of `size`.
pub fn row_major_strides(shape: &[usize], size: isize) -> Vec<isize> {
    let mut strides = vec![size; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis] as isize);
    }
    strides
}

fn to_scalar(ty: DlDataType) -> Result<Scalar, String> {
    use Scalar::*;
    let scalar = match (ty.code, ty.bits) {
        (0, 8) => Some(I8),
        (0, 16) => Some(I16),
        (0, 32) => Some(I32),
        (0, 64) => Some(I64),
        (1, 8) => Some(U8),
        (1, 16) => Some(U16),
        (1, 32) => Some(U32),
        (1, 64) => Some(U64),
        (2, 16) => Some(F16),
        (2, 32) => Some(F32),
        (2, 64) => Some(F64),
        (4, 16) => Some(Bf16),
        (6, 8) => Some(Bool),
        _ => None,
    };
    scalar.filter(|_| ty.lanes == 1).ok_or_else(|| match ty.code {
        5 => format!("complex{}", ty.bits),
        7..=14 => "float8".into(),
        code => format!("DLPack type code {code} with {} bits and {} lanes", ty.bits, ty.lanes),
    })
}

fn to_dl_type(scalar: Scalar) -> DlDataType {
    let code = match scalar {
        Scalar::Bool => 6,
        Scalar::Bf16 => 4,
        ty if ty.is_float() => 2,
        ty if ty.is_unsigned() => 1,
        _ => 0,
    };
    DlDataType { code, bits: scalar.bits() as u8, lanes: 1 }
}

/// The context of an exported tensor. It keeps the owner of the memory alive, and contains the extents and strides to
/// which the tensor points.
struct ExportContext {
    _owner: Py<PyAny>,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

/// Memory to export to another library.
pub struct ExportedMemory {
    pub device: (i32, i32),
    pub data: *mut u8,
    pub scalar: Scalar,
    pub shape: Vec<usize>,
    pub owner: Py<PyAny>,
}

/// Returns a tensor that describes the memory, and a pointer to its [`ExportContext`].
fn to_dl_tensor(export: ExportedMemory) -> (DlTensor, *mut c_void) {
    let strides = row_major_strides(&export.shape, 1).into_iter().map(|stride| stride as i64).collect();
    let shape = export.shape.iter().map(|&extent| extent as i64).collect();
    let mut context = Box::new(ExportContext { _owner: export.owner, shape, strides });
    let tensor = DlTensor {
        data: export.data.cast(),
        device_type: export.device.0,
        device_id: export.device.1,
        ndim: context.shape.len() as i32,
        dtype: to_dl_type(export.scalar),
        shape: context.shape.as_mut_ptr(),
        strides: context.strides.as_mut_ptr(),
        byte_offset: 0,
    };
    (tensor, Box::into_raw(context).cast())
}

/// Makes a managed tensor of the versioned layout, which its deleter frees.
pub fn export_managed(export: ExportedMemory) -> *mut DlManagedTensorVersioned {
    let (tensor, context) = to_dl_tensor(export);
    let deleter = Some(delete_versioned as unsafe extern "C" fn(_));
    Box::into_raw(Box::new(DlManagedTensorVersioned { major: MAJOR, minor: MINOR, context, deleter, flags: 0, tensor }))
}

/// Makes a capsule, with the versioned layout if `versioned`.
pub fn export_capsule(py: Python<'_>, export: ExportedMemory, versioned: bool) -> PyResult<Py<PyAny>> {
    let (pointer, name, destructor): (*mut c_void, &CStr, ffi::PyCapsule_Destructor) = if versioned {
        (export_managed(export).cast(), VERSIONED, destroy_versioned_capsule)
    } else {
        let (tensor, context) = to_dl_tensor(export);
        let deleter = Some(delete as unsafe extern "C" fn(_));
        (Box::into_raw(Box::new(DlManagedTensor { tensor, context, deleter })).cast(), UNVERSIONED, destroy_capsule)
    };
    // SAFETY: the pointer is not null, and the name is a constant. The capsule is a new reference.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyCapsule_New(pointer, name.as_ptr(), Some(destructor))) }
        .map(Bound::unbind)
}

/// Frees the context of an exported tensor, which releases the owner of the memory.
fn release_context(context: *mut c_void) {
    // If the interpreter is already finalized, the context leaks, which is harmless.
    let _ = Python::try_attach(|_| {
        // SAFETY: `to_dl_tensor` has made the context from a box, and a deleter runs once.
        drop(unsafe { Box::from_raw(context.cast::<ExportContext>()) });
    });
}

unsafe extern "C" fn delete(managed: *mut DlManagedTensor) {
    // SAFETY: a deleter is called once, with the box that `export_capsule` has made.
    release_context(unsafe { Box::from_raw(managed) }.context);
}

unsafe extern "C" fn delete_versioned(managed: *mut DlManagedTensorVersioned) {
    // SAFETY: a deleter is called once, with the box that `export_managed` has made.
    release_context(unsafe { Box::from_raw(managed) }.context);
}

/// The destructor of unversioned capsules: deletes the tensor if no consumer has taken it.
unsafe extern "C" fn destroy_capsule(capsule: *mut ffi::PyObject) {
    // SAFETY: called for a capsule that is being freed. A consumer that takes the tensor renames the capsule.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, UNVERSIONED.as_ptr()) != 0 {
            delete(ffi::PyCapsule_GetPointer(capsule, UNVERSIONED.as_ptr()).cast());
        }
    }
}

/// The destructor of versioned capsules, like [`destroy_capsule`].
unsafe extern "C" fn destroy_versioned_capsule(capsule: *mut ffi::PyObject) {
    // SAFETY: called for a capsule that is being freed, like `destroy_capsule`.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) != 0 {
            delete_versioned(ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast());
        }
    }
}

/// Returns the address that empty arrays use: aligned and not null. No memory may be accessed at it.
pub fn empty_array_address() -> *mut u8 {
    ptr::dangling_mut::<[u64; 2]>().cast()
}

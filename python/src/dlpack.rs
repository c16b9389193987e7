//! DLPack, by which array libraries exchange memory without copying: the structures of its C header, and capsules of both forms.
//!
//! Input: a capsule that another library has made, or memory of ours with what keeps it. Output: a [`Tensor`], or a capsule.

use std::ffi::{CStr, c_void};
use std::ptr::{self, NonNull};

use clk_lang::lang::scalar::Scalar;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::foreign::MAX_AXES;

/// The devices whose memory the processor reads: its own, and what CUDA has pinned.
pub const CPU: i32 = 1;
pub const CUDA_HOST: i32 = 3;

/// The devices whose memory a GPU of NVIDIA has: its own, and what it shares with the processor.
pub const CUDA: i32 = 2;
pub const CUDA_MANAGED: i32 = 13;

/// The version of the structures here.
pub const MAJOR: u32 = 1;
const MINOR: u32 = 1;

/// Bit of [`ManagedVersioned::flags`].
const READ_ONLY: u64 = 1;

const PLAIN: &CStr = c"dltensor";
const PLAIN_USED: &CStr = c"used_dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const VERSIONED_USED: &CStr = c"used_dltensor_versioned";

#[repr(C)]
#[derive(Clone, Copy)]
struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct RawTensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    dtype: DataType,
    shape: *mut i64,
    /// In elements; null for row-major memory without gaps.
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Managed {
    tensor: RawTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
pub struct ManagedVersioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedVersioned)>,
    flags: u64,
    tensor: RawTensor,
}

/// Memory that was taken from a capsule; given back when this is dropped.
pub enum Taken {
    Plain(NonNull<c_void>),
    Versioned(NonNull<c_void>),
}

// SAFETY: the structure is used by its owner alone, and deleters take the interpreter's lock themselves.
unsafe impl Send for Taken {}
// SAFETY: nothing is done through shared references.
unsafe impl Sync for Taken {}

impl Drop for Taken {
    fn drop(&mut self) {
        match *self {
            Taken::Plain(managed) => {
                let managed = managed.cast::<Managed>().as_ptr();
                // SAFETY: it was taken from a capsule, which leaves it to us to call the deleter, once.
                unsafe { (*managed).deleter.inspect(|deleter| deleter(managed)) };
            }
            Taken::Versioned(managed) => {
                let managed = managed.cast::<ManagedVersioned>().as_ptr();
                // SAFETY: as above.
                unsafe { (*managed).deleter.inspect(|deleter| deleter(managed)) };
            }
        }
    }
}

/// What a capsule holds.
pub struct Tensor {
    pub data: *mut u8,
    pub device: (i32, i32),
    /// The type of the elements, or what it is called.
    pub scalar: Result<Scalar, String>,
    pub shape: Vec<usize>,
    /// In bytes.
    pub strides: Vec<isize>,
    pub readonly: bool,
    /// Whether the capsule is of the form that says what is read-only.
    pub versioned: bool,
    pub taken: Taken,
}

/// Takes the memory of a capsule that `__dlpack__` has returned.
pub fn take(capsule: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let object = capsule.as_ptr();
    // SAFETY: the object is alive, and the names are constants.
    let (plain, versioned) = unsafe {
        (ffi::PyCapsule_IsValid(object, PLAIN.as_ptr()) != 0, ffi::PyCapsule_IsValid(object, VERSIONED.as_ptr()) != 0)
    };
    if !plain && !versioned {
        return Err(PyBufferError::new_err("`__dlpack__` has not returned a DLPack capsule that is still unused"));
    }
    let (name, used) = if versioned { (VERSIONED, VERSIONED_USED) } else { (PLAIN, PLAIN_USED) };
    // SAFETY: a valid capsule of this name has a pointer to its structure; renamed, it leaves the structure to us.
    let pointer = unsafe {
        let pointer = ffi::PyCapsule_GetPointer(object, name.as_ptr());
        NonNull::new(pointer).filter(|_| ffi::PyCapsule_SetName(object, used.as_ptr()) == 0)
    };
    let Some(pointer) = pointer else { return Err(PyErr::fetch(capsule.py())) };
    if versioned {
        take_managed(pointer.cast())
    } else {
        let taken = Taken::Plain(pointer);
        // SAFETY: a capsule of this name has this structure.
        let managed = unsafe { pointer.cast::<Managed>().as_ref() };
        read(&managed.tensor, false, taken)
    }
}

/// Takes the memory of a structure that now belongs to the caller.
pub fn take_managed(pointer: NonNull<ManagedVersioned>) -> PyResult<Tensor> {
    let taken = Taken::Versioned(pointer.cast());
    // SAFETY: the structure is alive until `taken` is dropped; these fields come first in every version.
    let managed = unsafe { pointer.as_ref() };
    if managed.major != MAJOR {
        let text =
            format!("DLPack {}.{} is not understood, which is not version {MAJOR}", managed.major, managed.minor);
        return Err(PyBufferError::new_err(text));
    }
    read(&managed.tensor, managed.flags & READ_ONLY != 0, taken)
}

fn read(raw: &RawTensor, readonly: bool, taken: Taken) -> PyResult<Tensor> {
    let wrong = |what: String| PyBufferError::new_err(format!("the tensor of this DLPack capsule {what}"));
    let rank = usize::try_from(raw.ndim).ok().filter(|&rank| rank <= MAX_AXES);
    let rank = rank.ok_or_else(|| wrong(format!("has {} axes; the most are {MAX_AXES}", raw.ndim)))?;
    let slice = |pointer: *const i64| match pointer.is_null() || rank == 0 {
        true => &[][..],
        // SAFETY: a tensor of this rank has as many extents, and as many strides if it has any.
        false => unsafe { std::slice::from_raw_parts(pointer, rank) },
    };
    let extents = slice(raw.shape);
    if extents.len() != rank {
        return Err(wrong("does not give its shape".into()));
    }
    let shape = extents.iter().map(|&extent| usize::try_from(extent)).collect::<Result<Vec<_>, _>>();
    let shape = shape.map_err(|_| wrong(format!("has the shape {extents:?}")))?;
    let scalar = scalar_of(raw.dtype);
    let size = scalar.as_ref().map_or(1, |scalar| scalar.size()) as isize;
    let strides = match raw.strides.is_null() {
        true => row_major(&shape, size),
        // A stride beyond memory is refused with the shape.
        false => slice(raw.strides).iter().map(|&stride| (stride as isize).saturating_mul(size)).collect(),
    };
    let data = raw.data.cast::<u8>().wrapping_add(raw.byte_offset as usize);
    let (device, versioned) = ((raw.device_type, raw.device_id), matches!(taken, Taken::Versioned(_)));
    Ok(Tensor { data, device, scalar, shape, strides, readonly, versioned, taken })
}

/// Returns the strides in bytes of memory without gaps.
pub fn row_major(shape: &[usize], size: isize) -> Vec<isize> {
    let mut strides = vec![size; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis] as isize);
    }
    strides
}

fn scalar_of(ty: DataType) -> Result<Scalar, String> {
    use Scalar::*;
    let found = match (ty.code, ty.bits) {
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
    found.filter(|_| ty.lanes == 1).ok_or_else(|| match ty.code {
        5 => format!("complex{}", ty.bits),
        7..=14 => "float8".into(),
        code => format!("DLPack's type {code} of {} bits and {} lanes", ty.bits, ty.lanes),
    })
}

fn type_of(scalar: Scalar) -> DataType {
    let code = match scalar {
        Scalar::Bool => 6,
        Scalar::Bf16 => 4,
        ty if ty.is_float() => 2,
        ty if ty.is_unsigned() => 1,
        _ => 0,
    };
    DataType { code, bits: scalar.bits() as u8, lanes: 1 }
}

/// What a capsule of ours keeps: the owner of the memory, and the extents that its tensor points to.
struct Kept {
    _owner: Py<PyAny>,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

/// Memory to be given away.
pub struct Given {
    pub device: (i32, i32),
    pub data: *mut u8,
    pub scalar: Scalar,
    pub shape: Vec<usize>,
    pub owner: Py<PyAny>,
}

/// Returns the tensor of a structure, and the context that keeps what it points to.
fn described(given: Given) -> (RawTensor, *mut c_void) {
    let strides = row_major(&given.shape, 1).into_iter().map(|stride| stride as i64).collect();
    let shape = given.shape.iter().map(|&extent| extent as i64).collect();
    let mut kept = Box::new(Kept { _owner: given.owner, shape, strides });
    let tensor = RawTensor {
        data: given.data.cast(),
        device_type: given.device.0,
        device_id: given.device.1,
        ndim: kept.shape.len() as i32,
        dtype: type_of(given.scalar),
        shape: kept.shape.as_mut_ptr(),
        strides: kept.strides.as_mut_ptr(),
        byte_offset: 0,
    };
    (tensor, Box::into_raw(kept).cast())
}

/// Makes a structure of the versioned form, which its deleter frees.
pub fn managed(given: Given) -> *mut ManagedVersioned {
    let (tensor, context) = described(given);
    let deleter = Some(delete_versioned as unsafe extern "C" fn(_));
    Box::into_raw(Box::new(ManagedVersioned { major: MAJOR, minor: MINOR, context, deleter, flags: 0, tensor }))
}

/// Makes a capsule, of the versioned form if the consumer takes that.
pub fn give(py: Python<'_>, given: Given, versioned: bool) -> PyResult<Py<PyAny>> {
    let (pointer, name, destructor): (*mut c_void, &CStr, ffi::PyCapsule_Destructor) = if versioned {
        (managed(given).cast(), VERSIONED, unused_versioned)
    } else {
        let (tensor, context) = described(given);
        let deleter = Some(delete as unsafe extern "C" fn(_));
        (Box::into_raw(Box::new(Managed { tensor, context, deleter })).cast(), PLAIN, unused)
    };
    // SAFETY: the pointer is not null, and the name is a constant. The capsule is a new reference.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyCapsule_New(pointer, name.as_ptr(), Some(destructor))) }
        .map(Bound::unbind)
}

/// Gives back what a tensor of ours keeps.
fn release(context: *mut c_void) {
    // Without an interpreter, at its end, nothing is left to give back to.
    let _ = Python::try_attach(|_| {
        // SAFETY: the context is the box that `described` has made, given back once.
        drop(unsafe { Box::from_raw(context.cast::<Kept>()) });
    });
}

unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: a deleter is called once, with the box that `managed` or `give` has made.
    release(unsafe { Box::from_raw(managed) }.context);
}

unsafe extern "C" fn delete_versioned(managed: *mut ManagedVersioned) {
    // SAFETY: as above.
    release(unsafe { Box::from_raw(managed) }.context);
}

/// Destructors of capsules: what nobody has taken is deleted with them.
unsafe extern "C" fn unused(capsule: *mut ffi::PyObject) {
    // SAFETY: called for a capsule that is being freed; one whose name has changed belongs to whoever took it.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, PLAIN.as_ptr()) != 0 {
            delete(ffi::PyCapsule_GetPointer(capsule, PLAIN.as_ptr()).cast());
        }
    }
}

unsafe extern "C" fn unused_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: as above.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) != 0 {
            delete_versioned(ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast());
        }
    }
}

/// Returns no memory: for capsules that hold empty arrays.
pub fn nowhere() -> *mut u8 {
    ptr::dangling_mut::<[u64; 2]>().cast()
}

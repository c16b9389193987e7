//! Arrays with value semantics: a shape, an element type and shared, copy-on-write storage.
//!
//! Elements are stored in row-major order without gaps. Cloning an array shares its storage. The first write to a
//! shared array copies it, so that a change through one variable is never visible through another one. The bytes of an
//! array may be deferred: the first access computes them.

pub(crate) mod array_data;
pub(crate) mod array_scalar;
pub(crate) mod broadcast;
pub(crate) mod element;
pub mod element_value;
pub(crate) mod slice;
pub(crate) mod strided;

use std::any::Any;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use smallvec::SmallVec;

pub(crate) use array_data::{Data, DeferredWork, Reader};
pub use array_scalar::ArrayScalar;
pub(crate) use clk_base::aligned::AlignedBytes;
use clk_base::stop;
pub(crate) use element::FieldLayout;
pub use element::{ElementType, RecordLayout};
pub use slice::SliceSpec;

use crate::problem::{HostResult, RuntimeError};
use clk_runtime::storage::Storage;
use clk_scalar::Scalar;

/// Maximum extent of an axis. It is limited because extents are `i32` in kernels.
pub const MAX_EXTENT: usize = i32::MAX as usize;

/// The extents of an array, stored inline for up to four axes, because arrays are cloned often.
type Shape = SmallVec<[usize; 4]>;

/// An n-dimensional array.
#[derive(Clone, Debug)]
pub struct Array {
    element: ElementType,
    shape: Shape,
    data: Arc<Data>,
}

impl Array {
    /// Creates an array whose bytes are all zero: zeros, `false`, or records of zeros.
    pub fn zeros(element: impl Into<ElementType>, shape: &[usize]) -> HostResult<Array> {
        let element = element.into();
        let bytes = byte_count(&element, shape)?;
        let data = AlignedBytes::zeroed(bytes).ok_or_else(|| no_memory(&element, shape))?;
        Ok(Array { element, shape: shape.into(), data: Arc::new(Storage::of_bytes(data).into()) })
    }

    /// Creates an array of zeros whose memory is allocated on first use, either on a device or on the host.
    pub fn unplaced(element: impl Into<ElementType>, shape: &[usize]) -> HostResult<Array> {
        let element = element.into();
        let bytes = byte_count(&element, shape)?;
        Ok(Array { element, shape: shape.into(), data: Arc::new(Storage::zeros(bytes).into()) })
    }

    /// Creates an array whose bytes are computed by `work` on first use.
    pub(crate) fn deferred(element: ElementType, shape: &[usize], work: Arc<dyn DeferredWork>) -> HostResult<Array> {
        let bytes = byte_count(&element, shape)?;
        Ok(Array { element, shape: shape.into(), data: Arc::new(Data::deferred(bytes, work)) })
    }

    /// Creates an array with this storage, whose size must match the shape.
    pub fn with_storage(element: ElementType, shape: &[usize], storage: Storage) -> HostResult<Array> {
        let (need, have) = (byte_count(&element, shape)?, storage.len());
        if need != have {
            return Err(RuntimeError::new("E0503", format!("an array of {need} bytes cannot be made of {have} bytes")));
        }
        Ok(Array { element, shape: shape.into(), data: Arc::new(storage.into()) })
    }

    /// Creates an array with a copy of these bytes; an error if their number does not match the shape.
    pub fn from_bytes(element: impl Into<ElementType>, shape: &[usize], bytes: &[u8]) -> HostResult<Array> {
        let mut array = Array::zeros(element, shape)?;
        if array.byte_len() != bytes.len() {
            let (need, have) = (array.byte_len(), bytes.len());
            return Err(RuntimeError::new("E0503", format!("an array of {need} bytes cannot be made of {have} bytes")));
        }
        stop::copy(array.bytes_mut()?, bytes);
        Ok(array)
    }

    /// Creates an array that takes ownership of these bytes without copying; an error if their number does not match
    /// the shape.
    pub fn of_aligned(element: impl Into<ElementType>, shape: &[usize], bytes: AlignedBytes) -> HostResult<Array> {
        let element = element.into();
        let (need, have) = (byte_count(&element, shape)?, bytes.len());
        if need != have {
            return Err(RuntimeError::new("E0503", format!("an array of {need} bytes cannot be made of {have} bytes")));
        }
        Ok(Array { element, shape: shape.into(), data: Arc::new(Storage::of_bytes(bytes).into()) })
    }

    /// Creates an array that uses borrowed memory without copying it. `lender` keeps the memory alive. Returns `None`
    /// if the address is not a multiple of 16. To protect the memory from writes, keep a clone of the array, so that
    /// the first write copies the array.
    ///
    /// # Safety
    /// `start` points to enough initialized bytes for the array. They are valid for reads until `lender` is dropped.
    /// While the array is borrowed mutably, they are also valid for writes, and no other code accesses them.
    pub unsafe fn lent(
        element: ElementType,
        shape: &[usize],
        start: NonNull<u8>,
        lender: Box<dyn Any + Send + Sync>,
    ) -> HostResult<Option<Array>> {
        let bytes = byte_count(&element, shape)?;
        // SAFETY: as required of the caller.
        let bytes = unsafe { AlignedBytes::from_foreign(start, bytes, lender) };
        bytes.map(|bytes| Array::of_aligned(element, shape, bytes)).transpose()
    }

    /// Creates a 1-d array of these scalars.
    pub fn from_items<T: ArrayScalar>(items: &[T]) -> HostResult<Array> {
        Array::from_shaped(items, &[items.len()])
    }

    /// Creates an array of these scalars in row-major order.
    pub fn from_shaped<T: ArrayScalar>(items: &[T], shape: &[usize]) -> HostResult<Array> {
        Array::from_bytes(T::SCALAR, shape, bytemuck::cast_slice(items))
    }

    /// Creates an array of zeros and lets `fill` write its scalars (the lanes of a vector are adjacent).
    pub fn build<T: ArrayScalar>(
        element: ElementType,
        shape: &[usize],
        fill: impl FnOnce(&mut [T]),
    ) -> HostResult<Array> {
        let mut array = Array::zeros(element, shape)?;
        fill(array.items_mut()?);
        Ok(array)
    }

    pub fn element(&self) -> &ElementType {
        &self.element
    }

    /// Returns the scalar type of a scalar or vector element.
    pub fn scalar(&self) -> Option<Scalar> {
        self.element.scalar()
    }

    /// Returns the extents, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the extents as the `u32` that devices use.
    pub fn extents(&self) -> Vec<u32> {
        self.shape.iter().map(|&n| n as u32).collect()
    }

    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Returns the number of elements.
    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }

    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Returns the bytes. Computes them, or copies them from the device, if necessary. Fails if the device has failed.
    pub fn bytes(&self) -> HostResult<&[u8]> {
        Ok(self.storage()?.bytes()?)
    }

    /// Computes the bytes and copies them to the host, if necessary.
    pub fn fetched(self) -> HostResult<HostArray> {
        self.bytes()?;
        Ok(HostArray(self))
    }

    /// Returns the size of the elements in bytes, without computing or copying them.
    pub fn byte_len(&self) -> usize {
        self.data.len()
    }

    /// Returns the bytes for writing. Copies the storage first if it is shared.
    pub fn bytes_mut(&mut self) -> HostResult<&mut [u8]> {
        Ok(self.storage_mut()?.bytes_mut()?)
    }

    /// Returns the bytes for writing if they are only on the host and are not shared with another array.
    #[inline]
    pub(crate) fn own_bytes_mut(&mut self) -> Option<&mut [u8]> {
        Arc::get_mut(&mut self.data)?.computed_mut()?.host_only_mut()
    }

    /// Returns the contents of the array: its storage, or the work that computes it.
    pub fn data(&self) -> &Arc<Data> {
        &self.data
    }

    /// Returns an array with the same type and shape, but other bytes of the same size.
    pub(crate) fn with_data(&self, data: Arc<Data>) -> Array {
        Array { data, ..self.clone() }
    }

    /// Returns whether the array is known to be the 1-d array of the integers 0, 1, 2, ….
    pub(crate) fn is_iota(&self) -> bool {
        let is_row = self.rank() == 1 && self.byte_len() == self.data.len();
        is_row && self.scalar().is_some_and(|scalar| self.data.is_iota(scalar))
    }

    /// Returns the storage. Computes it now if it is deferred.
    pub fn storage(&self) -> HostResult<&Storage> {
        self.data.storage()
    }

    /// Returns the storage for writing. Computes it now if it is deferred, and copies it if it is shared.
    pub fn storage_mut(&mut self) -> HostResult<&mut Storage> {
        self.storage()?;
        if Arc::get_mut(&mut self.data).is_none() {
            self.data.detach_readers();
        }
        if Arc::get_mut(&mut self.data).is_none() {
            let copy = self.storage()?.duplicate().ok_or_else(|| no_memory(&self.element, &self.shape))?;
            self.data = Arc::new(copy.into());
        }
        match Arc::get_mut(&mut self.data) {
            Some(data) => data.storage_mut(),
            None => Err(no_memory(&self.element, &self.shape)),
        }
    }

    /// Returns the storage if this array has the only reference to it; otherwise returns the array unchanged.
    pub(crate) fn into_storage(self) -> Result<Storage, Array> {
        let Array { element, shape, data } = self;
        Arc::try_unwrap(data).and_then(Data::into_storage).map_err(|data| Array { element, shape, data })
    }

    /// Returns the scalars in row-major order (the lanes of a vector are adjacent). Fails if their type is not `T`.
    pub fn items<T: ArrayScalar>(&self) -> HostResult<&[T]> {
        let bytes = if self.scalar() == Some(T::SCALAR) { Some(self.bytes()?) } else { None };
        let items = bytes.and_then(|bytes| bytemuck::checked::try_cast_slice(bytes).ok());
        items.ok_or_else(|| foreign_items::<T>(&self.element))
    }

    /// Returns the scalars for writing. Fails if their type is not `T`.
    pub(crate) fn items_mut<T: ArrayScalar>(&mut self) -> HostResult<&mut [T]> {
        let foreign = foreign_items::<T>;
        if self.scalar() != Some(T::SCALAR) {
            return Err(foreign(&self.element));
        }
        let element = self.element.clone();
        bytemuck::checked::try_cast_slice_mut(self.bytes_mut()?).map_err(|_| foreign(&element))
    }

    /// Reinterprets the bytes as elements of another type. If its size differs, the last extent changes: `[u8; 8, 32]`
    /// becomes `[f32x4; 8, 2]`. `None` if the size of a row is not a multiple of the new element size.
    pub(crate) fn reinterpret(&self, element: ElementType) -> Option<Array> {
        let (from, to) = (self.element.size(), element.size());
        let mut shape = self.shape.clone();
        if from != to {
            let last = shape.last_mut()?;
            let row = last.checked_mul(from)?;
            *last = (to > 0 && row % to == 0 && row / to <= MAX_EXTENT).then(|| row / to)?;
        }
        Some(Array { element, shape, data: self.data.clone() })
    }

    /// Reinterprets the elements as an equivalent type with the same layout: a last axis of two to four scalars becomes
    /// a vector, or a struct becomes another struct with the same fields. `None` if the layouts differ.
    pub fn recast(&self, element: &ElementType) -> Option<Array> {
        let shape = match (&self.element, element, self.shape.split_last()) {
            (own, other, _) if own == other => self.shape.clone(),
            (ElementType::Scalar(own), ElementType::Vector(scalar, lanes), Some((last, rest)))
                if own == scalar && *last == usize::from(*lanes) =>
            {
                rest.into()
            }
            (ElementType::Record(own), ElementType::Record(other), _) if own.layout == other.layout => {
                self.shape.clone()
            }
            _ => return None,
        };
        Some(Array { element: element.clone(), shape, data: self.data.clone() })
    }

    /// Reinterprets the bytes as an array of this element type and shape, which must have the same size in bytes.
    pub(crate) fn reinterpret_as(&self, element: ElementType, shape: &[usize]) -> HostResult<Array> {
        Array { element, ..self.clone() }.with_shape(shape)
    }

    /// Returns the same elements with another shape; an error if the element counts differ.
    pub fn with_shape(&self, shape: &[usize]) -> HostResult<Array> {
        if byte_count(&self.element, shape)? != self.byte_len() {
            let (from, to) = (shape_text(&self.shape), shape_text(shape));
            let title = format!("an array of shape {from} cannot take the shape {to}");
            let (have, need) = (self.count(), shape.iter().product::<usize>());
            return Err(RuntimeError::new("E0503", title).note(format!("{from} has {have} elements, {to} has {need}")));
        }
        Ok(Array { shape: shape.into(), ..self.clone() })
    }

    /// Describes for the user where the bytes reside.
    pub fn place(&self) -> &'static str {
        let Some(storage) = self.data.computed() else {
            return if self.data.persistent_work().is_some() { "in parts" } else { "not computed yet" };
        };
        match (storage.here().is_some(), storage.remote().is_some()) {
            (true, true) => "on the host and a GPU",
            (true, false) => "on the host",
            (false, true) => "on a GPU",
            (false, false) => "zeros that take no memory yet",
        }
    }

    /// Returns the type as in source code: `[f32; 3, 4]`.
    pub fn type_name(&self) -> String {
        let extents: Vec<String> = self.shape.iter().map(usize::to_string).collect();
        match extents.is_empty() {
            true => format!("[{}]", self.element),
            false => format!("[{}; {}]", self.element, extents.join(", ")),
        }
    }
}

/// Arrays are equal if their types, shapes and bytes are equal. Therefore a NaN equals itself, and 0.0 differs from
/// -0.0. An array that cannot be read is not equal to any array. The operator `==` of scripts is
/// [`crate::ops::binary()`]; it fails if an array cannot be read.
impl PartialEq for Array {
    fn eq(&self, other: &Array) -> bool {
        let same = |a: HostResult<&[u8]>, b: HostResult<&[u8]>| matches!((a, b), (Ok(a), Ok(b)) if a == b);
        self.element == other.element && self.shape == other.shape && same(self.bytes(), other.bytes())
    }
}

/// An array whose bytes are in host memory, so that reading them cannot fail.
#[derive(Clone, Debug)]
pub struct HostArray(Array);

impl HostArray {
    pub fn bytes(&self) -> &[u8] {
        // The bytes were on the host when this value was created, and they stay there: a storage drops its bytes only
        // through a mutable borrow, which requires that the array is not shared.
        self.0.data.computed().and_then(Storage::here).unwrap_or(&[])
    }
}

impl Deref for HostArray {
    type Target = Array;

    fn deref(&self) -> &Array {
        &self.0
    }
}

impl From<HostArray> for Array {
    fn from(array: HostArray) -> Array {
        array.0
    }
}

/// Memory use of arrays, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrayBytes {
    pub host: usize,
    pub device: usize,
}

impl ArrayBytes {
    /// Returns the memory use of these arrays. Bytes that arrays share are counted once.
    pub fn of(arrays: &[&Array]) -> ArrayBytes {
        let mut counted: Vec<*const Data> = Vec::new();
        let mut all = ArrayBytes::default();
        for array in arrays {
            let id = Arc::as_ptr(&array.data);
            if let (false, Some(storage)) = (counted.contains(&id), array.data.computed()) {
                all.host += storage.here().map_or(0, <[u8]>::len);
                all.device += if storage.remote().is_some() { storage.len() } else { 0 };
                counted.push(id);
            }
        }
        all
    }
}

/// Formats a shape for messages: `(3, 4)`, `(5,)`, `()`.
pub(crate) fn shape_text(shape: &[usize]) -> String {
    match shape {
        [n] => format!("({n},)"),
        _ => format!("({})", shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// Returns the size of an array in bytes; an error if an axis is too long or the size overflows.
pub fn byte_count(element: &ElementType, shape: &[usize]) -> HostResult<usize> {
    if let Some(axis) = shape.iter().position(|&n| n > MAX_EXTENT) {
        let title = format!("axis {axis} of an array would have {} elements", shape[axis]);
        let problem = RuntimeError::new("E0509", title).note(format!("an axis has at most {MAX_EXTENT} elements"));
        return Err(problem.help("use two axes, which may have more elements together: `zeros(rows, 1 << 20)`"));
    }
    if shape.contains(&0) {
        return Ok(0);
    }
    let product = shape.iter().try_fold(element.size(), |bytes, &n| bytes.checked_mul(n));
    product.filter(|&bytes| bytes <= isize::MAX as usize).ok_or_else(|| no_memory(element, shape))
}

/// Returns the internal error for accessing elements as scalars of a wrong type.
fn foreign_items<T: ArrayScalar>(element: &ElementType) -> RuntimeError {
    let title = format!("internal error: elements of type {element} were read as {}", T::SCALAR);
    RuntimeError::new("E0999", title).help("please report this as a bug of Clk")
}

pub(crate) fn no_memory(element: &ElementType, shape: &[usize]) -> RuntimeError {
    let gib = shape.iter().map(|&n| n as f64).product::<f64>() * element.size() as f64 / (1u64 << 30) as f64;
    let shape = shape_text(shape);
    RuntimeError::new("E0509", format!("there is not enough memory for an array of {element} with the shape {shape}"))
        .note(format!("it would take {gib:.1} GiB"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clk_runtime::storage::FailedMemory;

    fn unreadable_array() -> Array {
        let mut array = Array::from_items(&[1i32, 2, 3]).unwrap();
        array.storage_mut().unwrap().set_device_copy(Arc::new(FailedMemory::unavailable()));
        array
    }

    #[test]
    fn an_array_of_a_failed_device_gives_its_error() {
        let gone = RuntimeError::from(FailedMemory::unavailable().0);
        let mut array = unreadable_array();
        assert_eq!(array.bytes().unwrap_err(), gone);
        assert_eq!(array.items::<i32>().unwrap_err(), gone);
        assert_eq!(array.item(0).unwrap_err(), gone);
        assert_eq!(array.get(&[2]).unwrap_err(), gone);
        assert_eq!(array.bytes_mut().unwrap_err(), gone);
        assert_eq!(array.items_mut::<i32>().unwrap_err(), gone);
        assert_eq!(array.clone().fetched().unwrap_err(), gone);
        assert_eq!(array.get(&[3]).unwrap_err().code, "E0502");
        assert_eq!(array.item(3), Ok(None));
        assert_eq!((array.count(), array.byte_len(), array.type_name().as_str()), (3, 12, "[i32; 3]"));
    }

    #[test]
    fn an_array_that_cannot_be_read_equals_none() {
        let (array, here) = (unreadable_array(), Array::from_items(&[1i32, 2, 3]).unwrap());
        for other in [&here, &array.clone()] {
            assert_ne!(array, *other);
            assert_ne!(*other, array);
        }
        assert_eq!(here, here.clone());
        assert_ne!(here, Array::from_items(&[1i32, 2, 4]).unwrap());
    }

    #[test]
    fn shared_bytes_are_counted_once() {
        let (here, far) = (Array::from_items(&[1i32, 2, 3]).unwrap(), unreadable_array());
        let (again, empty) = (here.clone(), Array::unplaced(Scalar::F64, &[5]).unwrap());
        let all = ArrayBytes::of(&[&here, &far, &again, &empty]);
        assert_eq!(all, ArrayBytes { host: 12, device: 12 });
        assert_eq!((here.place(), far.place()), ("on the host", "on a GPU"));
        assert_eq!(empty.place(), "zeros that take no memory yet");
    }

    #[test]
    fn items_have_the_element_type_of_the_array() {
        let mut array = Array::from_items(&[1i32, 2]).unwrap();
        assert_eq!(array.items::<i32>().unwrap(), [1, 2]);
        assert_eq!(array.items::<f32>().unwrap_err().code, "E0999");
        assert_eq!(array.items_mut::<u32>().unwrap_err().code, "E0999");
        assert!(Array::from_items::<f64>(&[]).unwrap().items::<f64>().unwrap().is_empty());
        assert!(Array::unplaced(Scalar::F64, &[0, 3]).unwrap().items_mut::<f64>().unwrap().is_empty());
    }
}

//! Arrays with value semantics: a shape, an element type and shared, copy-on-write storage.
//!
//! Elements are stored in row-major order without gaps. Cloning an array shares its storage; the first write to a shared array
//! copies it, so a change through one variable is never visible through another. The bytes of an array may be yet to be computed:
//! whoever reads or writes them has that done.

pub(crate) mod broadcast;
pub(crate) mod data;
pub(crate) mod element;
pub(crate) mod item;
pub mod leaf;
pub(crate) mod slice;
pub(crate) mod strided;

use std::any::Any;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use smallvec::SmallVec;

pub(crate) use crate::base::aligned::AlignedBytes;
use crate::base::stop;
pub(crate) use data::{Data, Work};
pub(crate) use element::FieldLayout;
pub use element::{Element, RecordLayout};
pub use item::Item;
pub use slice::SliceSpec;

use crate::device::storage::Storage;
use crate::host::problem::{Outcome, Problem};
use crate::lang::scalar::Scalar;

/// Maximum extent of an axis: dimensions are `i32` in kernels.
pub const MAX_EXTENT: usize = i32::MAX as usize;

/// The extents of an array. Arrays are cloned far more often than they have more than four axes: extents lie in the array.
type Shape = SmallVec<[usize; 4]>;

/// An n-dimensional array.
#[derive(Clone, Debug)]
pub struct Array {
    element: Element,
    shape: Shape,
    data: Arc<Data>,
}

impl Array {
    /// Creates an array of zeros (`false`, zeroed records).
    pub fn zeros(element: impl Into<Element>, shape: &[usize]) -> Outcome<Array> {
        let element = element.into();
        let bytes = byte_count(&element, shape)?;
        let data = AlignedBytes::zeroed(bytes).ok_or_else(|| no_memory(&element, shape))?;
        Ok(Array { element, shape: shape.into(), data: Arc::new(Storage::of_bytes(data).into()) })
    }

    /// Creates an array of zeros whose memory is allocated at its first use, on a device or on the host.
    pub fn unplaced(element: impl Into<Element>, shape: &[usize]) -> Outcome<Array> {
        let element = element.into();
        let bytes = byte_count(&element, shape)?;
        Ok(Array { element, shape: shape.into(), data: Arc::new(Storage::zeros(bytes).into()) })
    }

    /// Creates an array whose bytes this work computes when they are needed.
    pub(crate) fn deferred(element: Element, shape: &[usize], work: Arc<dyn Work>) -> Outcome<Array> {
        let bytes = byte_count(&element, shape)?;
        Ok(Array { element, shape: shape.into(), data: Arc::new(Data::deferred(bytes, work)) })
    }

    /// Creates an array of these bytes, whose number matches the shape.
    pub fn with_storage(element: Element, shape: &[usize], storage: Storage) -> Outcome<Array> {
        let (need, have) = (byte_count(&element, shape)?, storage.len());
        if need != have {
            return Err(Problem::new("E0503", format!("an array of {need} bytes cannot be made of {have} bytes")));
        }
        Ok(Array { element, shape: shape.into(), data: Arc::new(storage.into()) })
    }

    /// Creates an array with a copy of these bytes; an error if their number does not match the shape.
    pub fn from_bytes(element: impl Into<Element>, shape: &[usize], bytes: &[u8]) -> Outcome<Array> {
        let mut array = Array::zeros(element, shape)?;
        if array.byte_len() != bytes.len() {
            let (need, have) = (array.byte_len(), bytes.len());
            return Err(Problem::new("E0503", format!("an array of {need} bytes cannot be made of {have} bytes")));
        }
        stop::copy(array.bytes_mut()?, bytes);
        Ok(array)
    }

    /// Creates an array that takes ownership of these bytes without copying; an error if their number does not match the shape.
    pub fn of_aligned(element: impl Into<Element>, shape: &[usize], bytes: AlignedBytes) -> Outcome<Array> {
        let element = element.into();
        let (need, have) = (byte_count(&element, shape)?, bytes.len());
        if need != have {
            return Err(Problem::new("E0503", format!("an array of {need} bytes cannot be made of {have} bytes")));
        }
        Ok(Array { element, shape: shape.into(), data: Arc::new(Storage::of_bytes(bytes).into()) })
    }

    /// Creates an array in memory that `lender` keeps, without copying; `None` if the address is no multiple of 16. Whoever lends
    /// memory that is not to be written keeps a clone of the array: then the first write copies it.
    ///
    /// # Safety
    /// As many bytes as the array takes are initialized, and valid for reads until `lender` is dropped; for writes, too, and used by
    /// nobody else, while the array is borrowed mutably.
    pub unsafe fn lent(
        element: Element,
        shape: &[usize],
        start: NonNull<u8>,
        lender: Box<dyn Any + Send + Sync>,
    ) -> Outcome<Option<Array>> {
        let bytes = byte_count(&element, shape)?;
        // SAFETY: as required of the caller.
        let bytes = unsafe { AlignedBytes::lent(start, bytes, lender) };
        bytes.map(|bytes| Array::of_aligned(element, shape, bytes)).transpose()
    }

    /// Creates a 1-d array of these items.
    pub fn from_items<T: Item>(items: &[T]) -> Outcome<Array> {
        Array::from_shaped(items, &[items.len()])
    }

    /// Creates an array of these items in row-major order.
    pub fn from_shaped<T: Item>(items: &[T], shape: &[usize]) -> Outcome<Array> {
        Array::from_bytes(T::SCALAR, shape, bytemuck::cast_slice(items))
    }

    /// Creates an array of zeros and lets `fill` write its scalars (the lanes of a vector are adjacent).
    pub fn build<T: Item>(element: Element, shape: &[usize], fill: impl FnOnce(&mut [T])) -> Outcome<Array> {
        let mut array = Array::zeros(element, shape)?;
        fill(array.items_mut()?);
        Ok(array)
    }

    pub fn element(&self) -> &Element {
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

    /// Returns the extents as devices take them.
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

    /// Returns the bytes, computed and copied from the device if necessary; an error if that device has failed.
    pub fn bytes(&self) -> Outcome<&[u8]> {
        Ok(self.storage()?.bytes()?)
    }

    /// Copies the bytes from the device if necessary.
    pub fn fetched(self) -> Outcome<HostArray> {
        self.bytes()?;
        Ok(HostArray(self))
    }

    /// Returns the size in bytes, wherever the storage is.
    pub fn byte_len(&self) -> usize {
        self.data.len()
    }

    /// Returns the bytes for writing; copies shared storage first.
    pub fn bytes_mut(&mut self) -> Outcome<&mut [u8]> {
        Ok(self.storage_mut()?.bytes_mut()?)
    }

    /// Returns the bytes for writing if they are on the host alone and belong to this array alone.
    #[inline]
    pub(crate) fn own_bytes_mut(&mut self) -> Option<&mut [u8]> {
        Arc::get_mut(&mut self.data)?.computed_mut()?.own_mut()
    }

    /// Returns what the array holds: its storage, or the work that computes it.
    pub fn data(&self) -> &Arc<Data> {
        &self.data
    }

    /// Returns the array with other bytes, as many.
    pub(crate) fn with_data(&self, data: Arc<Data>) -> Array {
        Array { data, ..self.clone() }
    }

    /// Returns whether this is known to be a row of the integers 0, 1, 2, ….
    pub(crate) fn is_counting(&self) -> bool {
        let is_row = self.rank() == 1 && self.byte_len() == self.data.len();
        is_row && self.scalar().is_some_and(|scalar| self.data.is_counting(scalar))
    }

    /// Returns the storage, computed now if necessary.
    pub fn storage(&self) -> Outcome<&Storage> {
        self.data.storage()
    }

    /// Returns the storage for writing, computed now if necessary; copies shared storage first.
    pub fn storage_mut(&mut self) -> Outcome<&mut Storage> {
        self.storage()?;
        if Arc::get_mut(&mut self.data).is_none() {
            self.data.settle();
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

    /// Returns the storage if nobody else has it, or else the array.
    pub(crate) fn into_storage(self) -> Result<Storage, Array> {
        let Array { element, shape, data } = self;
        Arc::try_unwrap(data).and_then(Data::into_storage).map_err(|data| Array { element, shape, data })
    }

    /// Returns the scalars, which are of this type, in row-major order (the lanes of a vector are adjacent).
    pub fn items<T: Item>(&self) -> Outcome<&[T]> {
        let bytes = if self.scalar() == Some(T::SCALAR) { Some(self.bytes()?) } else { None };
        let items = bytes.and_then(|bytes| bytemuck::checked::try_cast_slice(bytes).ok());
        items.ok_or_else(|| foreign_items::<T>(&self.element))
    }

    /// Returns the scalars, which are of this type, for writing.
    pub(crate) fn items_mut<T: Item>(&mut self) -> Outcome<&mut [T]> {
        let foreign = foreign_items::<T>;
        if self.scalar() != Some(T::SCALAR) {
            return Err(foreign(&self.element));
        }
        let element = self.element.clone();
        bytemuck::checked::try_cast_slice_mut(self.bytes_mut()?).map_err(|_| foreign(&element))
    }

    /// Reinterprets the bytes as elements of another type. If its size differs, the last extent changes: `[u8; 8, 32]` becomes
    /// `[f32x4; 8, 2]`. `None` if the bytes of a row are not a whole number of elements.
    pub(crate) fn reinterpret(&self, element: Element) -> Option<Array> {
        let (from, to) = (self.element.size(), element.size());
        let mut shape = self.shape.clone();
        if from != to {
            let last = shape.last_mut()?;
            let row = last.checked_mul(from)?;
            *last = (to > 0 && row % to == 0 && row / to <= MAX_EXTENT).then(|| row / to)?;
        }
        Some(Array { element, shape, data: self.data.clone() })
    }

    /// Reinterprets the elements as an equivalent type with the same layout: scalars along a last axis of two to four as vectors,
    /// or a struct as one with the same fields. `None` if the layouts differ.
    pub fn recast(&self, element: &Element) -> Option<Array> {
        let shape = match (&self.element, element, self.shape.split_last()) {
            (own, other, _) if own == other => self.shape.clone(),
            (Element::Scalar(own), Element::Vector(scalar, lanes), Some((last, rest)))
                if own == scalar && *last == usize::from(*lanes) =>
            {
                rest.into()
            }
            (Element::Record(own), Element::Record(other), _) if own.layout == other.layout => self.shape.clone(),
            _ => return None,
        };
        Some(Array { element: element.clone(), shape, data: self.data.clone() })
    }

    /// Returns the same bytes as elements of this type in this shape, which take as many bytes.
    pub(crate) fn seen_as(&self, element: Element, shape: &[usize]) -> Outcome<Array> {
        Array { element, ..self.clone() }.with_shape(shape)
    }

    /// Returns the same elements with another shape; an error if the element counts differ.
    pub fn with_shape(&self, shape: &[usize]) -> Outcome<Array> {
        if byte_count(&self.element, shape)? != self.byte_len() {
            let (from, to) = (shape_text(&self.shape), shape_text(shape));
            let title = format!("an array of shape {from} cannot take the shape {to}");
            let (have, need) = (self.count(), shape.iter().product::<usize>());
            return Err(Problem::new("E0503", title).note(format!("{from} has {have} elements, {to} has {need}")));
        }
        Ok(Array { shape: shape.into(), ..self.clone() })
    }

    /// Returns where the bytes are, as a remark for the user.
    pub fn place(&self) -> &'static str {
        let Some(storage) = self.data.computed() else {
            return if self.data.lasting().is_some() { "in parts" } else { "not computed yet" };
        };
        match (storage.here().is_some(), storage.remote().is_some()) {
            (true, true) => "on the host and a GPU",
            (true, false) => "on the host",
            (false, true) => "on a GPU",
            (false, false) => "zeros that take no memory yet",
        }
    }

    /// As the user would write its type: `[f32; 3, 4]`.
    pub fn type_name(&self) -> String {
        let extents: Vec<String> = self.shape.iter().map(usize::to_string).collect();
        match extents.is_empty() {
            true => format!("[{}]", self.element),
            false => format!("[{}; {}]", self.element, extents.join(", ")),
        }
    }
}

/// Arrays are equal if their types, shapes and bytes are (so a NaN equals itself, and 0.0 is not equal to -0.0). One that cannot be
/// read is equal to none. The `==` of scripts is [`crate::host::ops::binary()`], which reports that as an error.
impl PartialEq for Array {
    fn eq(&self, other: &Array) -> bool {
        let same = |a: Outcome<&[u8]>, b: Outcome<&[u8]>| matches!((a, b), (Ok(a), Ok(b)) if a == b);
        self.element == other.element && self.shape == other.shape && same(self.bytes(), other.bytes())
    }
}

/// An array whose bytes are in host memory, so that reading them cannot fail.
#[derive(Clone, Debug)]
pub struct HostArray(Array);

impl HostArray {
    pub fn bytes(&self) -> &[u8] {
        // They were there when this was created, and stay: a storage drops them only where it is borrowed mutably, which an
        // array allows only if nobody else has it.
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

/// The bytes that arrays take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    pub host: usize,
    pub device: usize,
}

impl Footprint {
    /// Returns what these arrays take; those that share their bytes are counted once.
    pub fn of(arrays: &[&Array]) -> Footprint {
        let mut seen: Vec<*const Data> = Vec::new();
        let mut all = Footprint::default();
        for array in arrays {
            let id = Arc::as_ptr(&array.data);
            if let (false, Some(storage)) = (seen.contains(&id), array.data.computed()) {
                all.host += storage.here().map_or(0, <[u8]>::len);
                all.device += if storage.remote().is_some() { storage.len() } else { 0 };
                seen.push(id);
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
pub fn byte_count(element: &Element, shape: &[usize]) -> Outcome<usize> {
    if let Some(axis) = shape.iter().position(|&n| n > MAX_EXTENT) {
        let title = format!("axis {axis} of an array would have {} elements", shape[axis]);
        let problem = Problem::new("E0509", title).note(format!("an axis has at most {MAX_EXTENT} elements"));
        return Err(problem.help("use two axes, which may have more elements together: `zeros(rows, 1 << 20)`"));
    }
    if shape.contains(&0) {
        return Ok(0);
    }
    let product = shape.iter().try_fold(element.size(), |bytes, &n| bytes.checked_mul(n));
    product.filter(|&bytes| bytes <= isize::MAX as usize).ok_or_else(|| no_memory(element, shape))
}

/// Returns the internal error for a view of elements as numbers of another type.
fn foreign_items<T: Item>(element: &Element) -> Problem {
    let title = format!("internal error: elements of type {element} were read as {}", T::SCALAR);
    Problem::new("E0999", title).help("please report this as a bug of Clk")
}

pub(crate) fn no_memory(element: &Element, shape: &[usize]) -> Problem {
    let gib = shape.iter().map(|&n| n as f64).product::<f64>() * element.size() as f64 / (1u64 << 30) as f64;
    let shape = shape_text(shape);
    Problem::new("E0509", format!("there is not enough memory for an array of {element} with the shape {shape}"))
        .note(format!("it would take {gib:.1} GiB"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::storage::Gone;

    fn lost() -> Array {
        let mut array = Array::from_items(&[1i32, 2, 3]).unwrap();
        array.storage_mut().unwrap().written_remotely(Arc::new(Gone::unavailable()));
        array
    }

    #[test]
    fn an_array_of_a_failed_device_gives_its_error() {
        let gone = Problem::from(Gone::unavailable().0);
        let mut array = lost();
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
        let (array, here) = (lost(), Array::from_items(&[1i32, 2, 3]).unwrap());
        for other in [&here, &array.clone()] {
            assert_ne!(array, *other);
            assert_ne!(*other, array);
        }
        assert_eq!(here, here.clone());
        assert_ne!(here, Array::from_items(&[1i32, 2, 4]).unwrap());
    }

    #[test]
    fn shared_bytes_are_counted_once() {
        let (here, far) = (Array::from_items(&[1i32, 2, 3]).unwrap(), lost());
        let (again, empty) = (here.clone(), Array::unplaced(Scalar::F64, &[5]).unwrap());
        let all = Footprint::of(&[&here, &far, &again, &empty]);
        assert_eq!(all, Footprint { host: 12, device: 12 });
        assert_eq!((here.place(), far.place()), ("on the host", "on a GPU"));
        assert_eq!(empty.place(), "zeros that take no memory yet");
    }

    #[test]
    fn items_have_the_arrays_type() {
        let mut array = Array::from_items(&[1i32, 2]).unwrap();
        assert_eq!(array.items::<i32>().unwrap(), [1, 2]);
        assert_eq!(array.items::<f32>().unwrap_err().code, "E0999");
        assert_eq!(array.items_mut::<u32>().unwrap_err().code, "E0999");
        assert!(Array::from_items::<f64>(&[]).unwrap().items::<f64>().unwrap().is_empty());
        assert!(Array::unplaced(Scalar::F64, &[0, 3]).unwrap().items_mut::<f64>().unwrap().is_empty());
    }
}

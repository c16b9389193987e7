//! Arrays with value semantics: a shape, an element type and shared bytes that are copied when written.
//!
//! Elements lie in row-major order without gaps. Cloning an array shares its bytes; the first write to a shared array
//! takes a private copy, so no two variables are ever seen to change together.

pub(crate) mod broadcast;
pub(crate) mod element;
pub(crate) mod item;
pub(crate) mod leaf;
pub(crate) mod slice;

use std::sync::Arc;

pub(crate) use crate::base::aligned::AlignedBytes;
use crate::base::stop;
pub(crate) use element::FieldLayout;
pub use element::{Element, RecordLayout};
pub use item::Item;
pub use slice::SliceSpec;

use crate::device::storage::Storage;
use crate::host::problem::{Outcome, Problem};
use crate::lang::scalar::Scalar;

/// The largest extent of an axis: dimensions are `i32` in kernels.
pub(crate) const MAX_EXTENT: usize = i32::MAX as usize;

/// An n-d array.
#[derive(Clone, Debug)]
pub struct Array {
    element: Element,
    shape: Vec<usize>,
    data: Arc<Storage>,
}

impl Array {
    /// An array of zeros (`false`, zeroed records).
    pub fn zeros(element: impl Into<Element>, shape: &[usize]) -> Outcome<Array> {
        let element = element.into();
        let bytes = byte_count(&element, shape)?;
        let data = AlignedBytes::zeroed(bytes).ok_or_else(|| no_memory(&element, shape))?;
        Ok(Array { element, shape: shape.to_vec(), data: Arc::new(Storage::of_bytes(data)) })
    }

    /// An array of zeros that takes memory where it is first used: on a device, or here.
    pub(crate) fn unplaced(element: impl Into<Element>, shape: &[usize]) -> Outcome<Array> {
        let element = element.into();
        let bytes = byte_count(&element, shape)?;
        Ok(Array { element, shape: shape.to_vec(), data: Arc::new(Storage::zeros(bytes)) })
    }

    /// An array of these bytes, which have to be as many as the shape asks for.
    pub fn from_bytes(element: impl Into<Element>, shape: &[usize], bytes: &[u8]) -> Outcome<Array> {
        let mut array = Array::zeros(element, shape)?;
        if array.bytes().len() != bytes.len() {
            let (need, have) = (array.bytes().len(), bytes.len());
            return Err(Problem::new("E0503", format!("an array of {need} bytes cannot be made of {have} bytes")));
        }
        stop::copy(array.bytes_mut()?, bytes);
        Ok(array)
    }

    /// The array that these bytes are: they are not copied. They have to be as many as the shape asks for.
    pub(crate) fn of_aligned(element: impl Into<Element>, shape: &[usize], bytes: AlignedBytes) -> Outcome<Array> {
        let element = element.into();
        let (need, have) = (byte_count(&element, shape)?, bytes.len());
        if need != have {
            return Err(Problem::new("E0503", format!("an array of {need} bytes cannot be made of {have} bytes")));
        }
        Ok(Array { element, shape: shape.to_vec(), data: Arc::new(Storage::of_bytes(bytes)) })
    }

    /// A 1-d array of these items.
    pub fn from_items<T: Item>(items: &[T]) -> Outcome<Array> {
        Array::from_shaped(items, &[items.len()])
    }

    /// An array of these items in row-major order.
    pub fn from_shaped<T: Item>(items: &[T], shape: &[usize]) -> Outcome<Array> {
        Array::from_bytes(T::SCALAR, shape, bytemuck::cast_slice(items))
    }

    /// An array whose scalars `fill` writes (lanes of vectors side by side); they are zero before.
    pub fn build<T: Item>(element: Element, shape: &[usize], fill: impl FnOnce(&mut [T])) -> Outcome<Array> {
        let mut array = Array::zeros(element, shape)?;
        if let Some(items) = array.items_mut()? {
            fill(items);
        }
        Ok(array)
    }

    pub fn element(&self) -> &Element {
        &self.element
    }

    /// The scalar of a plain or vector element.
    pub fn scalar(&self) -> Option<Scalar> {
        self.element.scalar()
    }

    /// The extents, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The extents as a device wants them.
    pub fn extents(&self) -> Vec<u32> {
        self.shape.iter().map(|&n| n as u32).collect()
    }

    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// The number of elements.
    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }

    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// The bytes, brought here if a device has them.
    ///
    /// # Unwinds
    /// with [`crate::device::storage::Lost`] if that device has failed.
    pub fn bytes(&self) -> &[u8] {
        self.data.bytes()
    }

    /// How many bytes there are, wherever.
    pub(crate) fn byte_len(&self) -> usize {
        self.data.len()
    }

    /// The bytes for writing; shared ones are copied first.
    pub fn bytes_mut(&mut self) -> Outcome<&mut [u8]> {
        self.storage_mut().map(Storage::bytes_mut)
    }

    /// Where the bytes are.
    pub(crate) fn storage(&self) -> &Storage {
        &self.data
    }

    /// The same for writing; a shared one is copied first.
    pub(crate) fn storage_mut(&mut self) -> Outcome<&mut Storage> {
        if Arc::get_mut(&mut self.data).is_none() {
            let copy = self.data.duplicate().ok_or_else(|| no_memory(&self.element, &self.shape))?;
            self.data = Arc::new(copy);
        }
        match Arc::get_mut(&mut self.data) {
            Some(data) => Ok(data),
            None => Err(no_memory(&self.element, &self.shape)),
        }
    }

    /// Whether both share their bytes (and so are equal without a look).
    pub(crate) fn shares_bytes_with(&self, other: &Array) -> bool {
        Arc::ptr_eq(&self.data, &other.data)
    }

    /// The scalars in row-major order (lanes of vectors side by side), if they are of this type.
    pub fn items<T: Item>(&self) -> Option<&[T]> {
        if self.scalar() != Some(T::SCALAR) {
            return None;
        }
        bytemuck::checked::try_cast_slice(self.bytes()).ok()
    }

    /// The scalars for writing.
    pub(crate) fn items_mut<T: Item>(&mut self) -> Outcome<Option<&mut [T]>> {
        if self.scalar() != Some(T::SCALAR) {
            return Ok(None);
        }
        Ok(bytemuck::checked::try_cast_slice_mut(self.bytes_mut()?).ok())
    }

    /// The same bytes as elements of another type. If those have another size, the last extent changes: `[u8; 8, 32]` is
    /// `[f32x4; 8, 2]`. Nothing if a row's bytes do not make whole elements.
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

    /// The same bytes as what another program means by them: numbers along a last axis of two to four as vectors, a struct as
    /// one with the same fields. Nothing if they do not lie so.
    pub(crate) fn recast(&self, element: &Element) -> Option<Array> {
        let shape = match (&self.element, element, self.shape.split_last()) {
            (own, other, _) if own == other => self.shape.clone(),
            (Element::Scalar(own), Element::Vector(scalar, lanes), Some((last, rest)))
                if own == scalar && *last == usize::from(*lanes) =>
            {
                rest.to_vec()
            }
            (Element::Record(own), Element::Record(other), _) if own.layout == other.layout => self.shape.clone(),
            _ => return None,
        };
        Some(Array { element: element.clone(), shape, data: self.data.clone() })
    }

    /// The same elements in another shape of as many.
    pub(crate) fn with_shape(&self, shape: &[usize]) -> Outcome<Array> {
        if byte_count(&self.element, shape)? != self.byte_len() {
            let (from, to) = (shape_text(&self.shape), shape_text(shape));
            let title = format!("an array of shape {from} cannot take the shape {to}");
            let (have, need) = (self.count(), shape.iter().product::<usize>());
            return Err(Problem::new("E0503", title).note(format!("{from} has {have} elements, {to} has {need}")));
        }
        Ok(Array { shape: shape.to_vec(), ..self.clone() })
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

/// Two arrays are equal if type, shape and bytes are (so a NaN equals itself, and 0.0 is not -0.0).
impl PartialEq for Array {
    fn eq(&self, other: &Array) -> bool {
        self.element == other.element
            && self.shape == other.shape
            && (self.shares_bytes_with(other) || self.bytes() == other.bytes())
    }
}

/// A shape as messages show it: `(3, 4)`, `(5,)`, `()`.
pub(crate) fn shape_text(shape: &[usize]) -> String {
    match shape {
        [n] => format!("({n},)"),
        _ => format!("({})", shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// How many bytes an array takes; an error if an axis is too long or the whole cannot be addressed.
pub(crate) fn byte_count(element: &Element, shape: &[usize]) -> Outcome<usize> {
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

fn no_memory(element: &Element, shape: &[usize]) -> Problem {
    let gib = shape.iter().map(|&n| n as f64).product::<f64>() * element.size() as f64 / (1u64 << 30) as f64;
    let shape = shape_text(shape);
    Problem::new("E0509", format!("there is not enough memory for an array of {element} with the shape {shape}"))
        .note(format!("it would take {gib:.1} GiB"))
}

//! Conversion of single array elements between bytes and values.

use std::sync::Arc;

use crate::array::{Array, ElementType, RecordLayout, shape_text};
use crate::problem::{HostResult, RuntimeError};
use crate::value::{HostValue, RecordValue, Vector};
use clk_base::stop;
use clk_ir::def::Leaf;
use clk_scalar::Scalar;

/// Writes the bits of a scalar in little-endian order.
fn write_bits(bytes: &mut [u8], bits: u64) {
    bytes.iter_mut().zip(bits.to_le_bytes()).for_each(|(place, byte)| *place = byte);
}

/// Decodes the bytes of an element.
pub fn read(element: &ElementType, bytes: &[u8]) -> HostValue {
    match element {
        ElementType::Scalar(ty) => HostValue::Scalar(clk_scalar::ScalarValue::from_bytes(*ty, bytes)),
        ElementType::Vector(ty, lanes) => HostValue::Vector(read_vector(*ty, *lanes, bytes)),
        ElementType::Record(record) => read_record(record, &record.layout.leaves, bytes),
    }
}

fn read_vector(ty: Scalar, lanes: u8, bytes: &[u8]) -> Vector {
    let bits = bytes.chunks_exact(ty.size()).map(|lane| clk_scalar::ScalarValue::from_bytes(ty, lane).bits);
    Vector::new(ty, bits.take(usize::from(lanes)))
}

/// Decodes a record. For a nested record, `leaves` are its leaves in the outermost record, and offsets and `bytes`
/// begin at the outermost record.
fn read_record(record: &Arc<RecordLayout>, leaves: &[Leaf], bytes: &[u8]) -> HostValue {
    let fields = record.fields.iter().map(|field| {
        let own = leaves.get(field.leaves.clone()).unwrap_or(&[]);
        match (&field.element, own.first()) {
            (ElementType::Record(inner), _) => read_record(inner, own, bytes),
            (plain, Some(leaf)) => read(plain, bytes.get(leaf.offset..leaf.offset + plain.size()).unwrap_or(&[])),
            (_, None) => HostValue::Unit,
        }
    });
    let fields = fields.collect();
    match record.is_tuple() {
        true => HostValue::Tuple(fields),
        false => HostValue::Record(RecordValue { layout: record.clone(), fields }),
    }
}

/// Overwrites an element with a value of the same type. Untyped literals take the type of the element.
pub(crate) fn write(element: &ElementType, bytes: &mut [u8], value: &HostValue) -> HostResult<()> {
    let mut flat = Vec::new();
    flatten(element, value, &mut flat)?;
    let layout = element.layout();
    for (leaf, bits) in layout.leaves.iter().zip(flat) {
        let size = leaf.ty.scalar().size();
        let lanes = bytes.get_mut(leaf.offset..leaf.offset + leaf.ty.size()).unwrap_or(&mut []);
        lanes.chunks_exact_mut(size).zip(bits).for_each(|(place, bits)| write_bits(place, bits));
    }
    Ok(())
}

/// Appends the lanes of each leaf (scalar or vector field) of a value, in order.
fn flatten(element: &ElementType, value: &HostValue, into: &mut Vec<[u64; 4]>) -> HostResult<()> {
    let wrong = || {
        RuntimeError::new(
            "E0504",
            format!("a value of type {} cannot be an element of type {element}", value.type_name()),
        )
    };
    match (element, value) {
        (ElementType::Scalar(ty), _) => {
            let number = value.adapt(*ty).filter(|n| n.ty == *ty).ok_or_else(wrong)?;
            into.push([number.bits, 0, 0, 0]);
        }
        (ElementType::Vector(ty, lanes), HostValue::Vector(v)) if v.ty() == *ty && v.lanes() == usize::from(*lanes) => {
            into.push(v.all_bits());
        }
        (ElementType::Record(layout), HostValue::Record(record)) if record.layout == *layout => {
            for (field, value) in layout.fields.iter().zip(&record.fields) {
                flatten(&field.element, value, into)?;
            }
        }
        (ElementType::Record(layout), HostValue::Tuple(parts))
            if layout.is_tuple() && parts.len() == layout.fields.len() =>
        {
            for (field, value) in layout.fields.iter().zip(parts) {
                flatten(&field.element, value, into)?;
            }
        }
        _ => return Err(wrong()),
    }
    Ok(())
}

/// Returns the element type of an array that contains this value; `None` if the value cannot be an array element.
pub(crate) fn element_of(value: &HostValue) -> Option<ElementType> {
    match value {
        HostValue::Scalar(number) => Some(ElementType::Scalar(number.ty)),
        HostValue::Int(_) => Some(ElementType::Scalar(Scalar::I32)),
        HostValue::Float(_) => Some(ElementType::Scalar(Scalar::F32)),
        HostValue::Vector(v) => Some(ElementType::Vector(v.ty(), v.lanes() as u8)),
        HostValue::Record(record) => Some(ElementType::Record(record.layout.clone())),
        HostValue::Tuple(parts) => {
            let parts: Option<Vec<ElementType>> = parts.iter().map(element_of).collect();
            Some(ElementType::Record(Arc::new(RecordLayout::tuple(parts?))))
        }
        HostValue::Unit
        | HostValue::Str(_)
        | HostValue::Array(_)
        | HostValue::Range(_)
        | HostValue::Table(_)
        | HostValue::Strings(_)
        | HostValue::Timing(_)
        | HostValue::Kernel(_)
        | HostValue::Traced(_) => None,
    }
}

impl Array {
    /// Returns the element at a row-major position; `None` if the position is out of range.
    pub fn item(&self, position: usize) -> HostResult<Option<HostValue>> {
        if position >= self.count() {
            return Ok(None);
        }
        let size = self.element().size();
        let place = position * size..(position + 1) * size;
        let element = |bytes: &[u8]| Some(read(self.element(), bytes.get(place.clone())?));
        let storage = self.storage()?;
        if let Some(bytes) = storage.here() {
            return Ok(element(bytes));
        }
        match storage.peek(place.start, size)? {
            Some(bytes) => Ok(Some(read(self.element(), &bytes))),
            None => Ok(element(self.bytes()?)),
        }
    }

    /// Returns the elements at these row-major positions; positions beyond the end are skipped.
    pub fn items_at(&self, positions: impl IntoIterator<Item = usize>) -> impl Iterator<Item = HostResult<HostValue>> {
        positions.into_iter().filter_map(|position| self.item(position).transpose())
    }

    /// Writes the element at a row-major position.
    pub(crate) fn set_item(&mut self, position: usize, value: &HostValue) -> HostResult<()> {
        let element = self.element().clone();
        let (size, shape) = (element.size(), shape_text(self.shape()));
        let place = self.bytes_mut()?.chunks_exact_mut(size.max(1)).nth(position);
        let beyond =
            || RuntimeError::new("E0502", format!("there is no element {position} in an array of shape {shape}"));
        write(&element, place.ok_or_else(beyond)?, value)
    }

    /// Creates an array filled with one value.
    pub fn full(value: &HostValue, shape: &[usize]) -> HostResult<Array> {
        let Some(element) = element_of(value) else {
            return Err(RuntimeError::new(
                "E0504",
                format!("a value of type {} cannot fill an array", value.type_name()),
            ));
        };
        Array::full_of(element, value, shape)
    }

    /// Like [`Array::full`], but with an element type, to which an untyped literal is converted.
    pub(crate) fn full_of(element: ElementType, value: &HostValue, shape: &[usize]) -> HostResult<Array> {
        let mut one = vec![0; element.size()];
        write(&element, &mut one, value)?;
        let mut array = Array::zeros(element, shape)?;
        if one.iter().any(|&b| b != 0) {
            let places = array.bytes_mut()?.chunks_exact_mut(one.len());
            stop::polled(places).for_each(|place| place.copy_from_slice(&one));
        }
        Ok(array)
    }
}

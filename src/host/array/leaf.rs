//! Conversion of single array elements between bytes and values.

use std::sync::Arc;

use crate::base::stop;
use crate::host::array::{Array, Element, RecordLayout, shape_text};
use crate::host::problem::{Outcome, Problem};
use crate::host::value::{Record, Value, Vector};
use crate::ir::def::Leaf;
use crate::lang::scalar::{self, Scalar};

/// Writes the bits of a scalar in little-endian order.
fn write_bits(bytes: &mut [u8], bits: u64) {
    bytes.iter_mut().zip(bits.to_le_bytes()).for_each(|(place, byte)| *place = byte);
}

/// Decodes an element.
pub fn read(element: &Element, bytes: &[u8]) -> Value {
    match element {
        Element::Scalar(ty) => Value::Scalar(scalar::Value::from_bytes(*ty, bytes)),
        Element::Vector(ty, lanes) => Value::Vector(read_vector(*ty, *lanes, bytes)),
        Element::Record(record) => read_record(record, &record.layout.leaves, bytes),
    }
}

fn read_vector(ty: Scalar, lanes: u8, bytes: &[u8]) -> Vector {
    let bits = bytes.chunks_exact(ty.size()).map(|lane| scalar::Value::from_bytes(ty, lane).bits);
    Vector::new(ty, bits.take(usize::from(lanes)))
}

/// Decodes a record. `leaves` are those of the outermost record: the offsets of an inner one count from there.
fn read_record(record: &Arc<RecordLayout>, leaves: &[Leaf], bytes: &[u8]) -> Value {
    let fields = record.fields.iter().map(|field| {
        let own = leaves.get(field.leaves.clone()).unwrap_or(&[]);
        match (&field.element, own.first()) {
            (Element::Record(inner), _) => read_record(inner, own, bytes),
            (plain, Some(leaf)) => read(plain, bytes.get(leaf.offset..leaf.offset + plain.size()).unwrap_or(&[])),
            (_, None) => Value::Unit,
        }
    });
    let fields = fields.collect();
    match record.is_tuple() {
        true => Value::Tuple(fields),
        false => Value::Record(Record { layout: record.clone(), fields }),
    }
}

/// Writes a value over an element. Their types must be equal; untyped literals adapt.
pub(crate) fn write(element: &Element, bytes: &mut [u8], value: &Value) -> Outcome<()> {
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

/// Appends the lanes of each leaf of a value in order.
fn flatten(element: &Element, value: &Value, into: &mut Vec<[u64; 4]>) -> Outcome<()> {
    let wrong = || {
        Problem::new("E0504", format!("a value of type {} cannot be an element of type {element}", value.type_name()))
    };
    match (element, value) {
        (Element::Scalar(ty), _) => {
            let number = value.adapt(*ty).filter(|n| n.ty == *ty).ok_or_else(wrong)?;
            into.push([number.bits, 0, 0, 0]);
        }
        (Element::Vector(ty, lanes), Value::Vector(v)) if v.ty() == *ty && v.lanes() == usize::from(*lanes) => {
            into.push(v.all_bits());
        }
        (Element::Record(layout), Value::Record(record)) if record.layout == *layout => {
            for (field, value) in layout.fields.iter().zip(&record.fields) {
                flatten(&field.element, value, into)?;
            }
        }
        (Element::Record(layout), Value::Tuple(parts)) if layout.is_tuple() && parts.len() == layout.fields.len() => {
            for (field, value) in layout.fields.iter().zip(parts) {
                flatten(&field.element, value, into)?;
            }
        }
        _ => return Err(wrong()),
    }
    Ok(())
}

/// Returns the element type for a value; `None` if it cannot be an array element.
pub(crate) fn element_of(value: &Value) -> Option<Element> {
    match value {
        Value::Scalar(number) => Some(Element::Scalar(number.ty)),
        Value::Int(_) => Some(Element::Scalar(Scalar::I32)),
        Value::Float(_) => Some(Element::Scalar(Scalar::F32)),
        Value::Vector(v) => Some(Element::Vector(v.ty(), v.lanes() as u8)),
        Value::Record(record) => Some(Element::Record(record.layout.clone())),
        Value::Tuple(parts) => {
            let parts: Option<Vec<Element>> = parts.iter().map(element_of).collect();
            Some(Element::Record(Arc::new(RecordLayout::tuple(parts?))))
        }
        Value::Unit
        | Value::Str(_)
        | Value::Array(_)
        | Value::Range(_)
        | Value::Table(_)
        | Value::Strings(_)
        | Value::Timing(_)
        | Value::Kernel(_)
        | Value::Traced(_) => None,
    }
}

impl Array {
    /// Returns the element at a row-major position, if it exists.
    pub fn item(&self, position: usize) -> Outcome<Option<Value>> {
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

    /// Returns the elements at these row-major positions, as far as they exist.
    pub fn items_at(&self, positions: impl IntoIterator<Item = usize>) -> impl Iterator<Item = Outcome<Value>> {
        positions.into_iter().filter_map(|position| self.item(position).transpose())
    }

    /// Writes the element at a row-major position.
    pub(crate) fn set_item(&mut self, position: usize, value: &Value) -> Outcome<()> {
        let element = self.element().clone();
        let (size, shape) = (element.size(), shape_text(self.shape()));
        let place = self.bytes_mut()?.chunks_exact_mut(size.max(1)).nth(position);
        let beyond = || Problem::new("E0502", format!("there is no element {position} in an array of shape {shape}"));
        write(&element, place.ok_or_else(beyond)?, value)
    }

    /// Creates an array filled with one value.
    pub fn full(value: &Value, shape: &[usize]) -> Outcome<Array> {
        let Some(element) = element_of(value) else {
            return Err(Problem::new("E0504", format!("a value of type {} cannot fill an array", value.type_name())));
        };
        Array::full_of(element, value, shape)
    }

    /// Creates an array filled with one value, converted to the element type if it is an untyped literal.
    pub(crate) fn full_of(element: Element, value: &Value, shape: &[usize]) -> Outcome<Array> {
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

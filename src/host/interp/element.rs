//! Elements of arrays whose bytes are on the host: what `x[i]` costs in a loop.

use crate::host::array::{Array, Element as Kind};
use crate::host::value::Value;
use crate::lang::scalar::{self, Scalar};

use super::code::{Base, Element};
use super::frame::Frame;
use super::machine::Machine;

/// Returns the position of an element in an array of scalars of this type; `None` if there is none, or the array is another one.
#[inline(always)]
fn position(array: &Array, element: &Element, slots: &[u64]) -> Option<usize> {
    if !matches!(array.element(), Kind::Scalar(ty) if *ty == element.ty) || array.rank() != element.indices.len() {
        return None;
    }
    if let ([(slot, Scalar::I32)], [extent]) = (&element.indices[..], array.shape()) {
        let index = slots[*slot as usize] as i32;
        return if index >= 0 && (index as usize) < *extent { Some(index as usize) } else { None };
    }
    let mut position = 0;
    for (&(slot, ty), &extent) in element.indices.iter().zip(array.shape()) {
        let bits = slots[slot as usize];
        let index = match ty {
            Scalar::I32 => usize::try_from(bits as i32).ok()?,
            Scalar::I64 => usize::try_from(bits as i64).ok()?,
            ty => usize::try_from(scalar::Value { ty, bits }.as_integer()?).ok()?,
        };
        if index >= extent {
            return None;
        }
        position = position * extent + index;
    }
    Some(position)
}

/// Reads a scalar out of bytes.
#[inline(always)]
fn load(ty: Scalar, bytes: &[u8], at: usize) -> Option<u64> {
    Some(match ty.size() {
        4 => u64::from(u32::from_le_bytes(bytes.get(at * 4..)?.first_chunk().copied()?)),
        8 => u64::from_le_bytes(bytes.get(at * 8..)?.first_chunk().copied()?),
        2 => u64::from(u16::from_le_bytes(bytes.get(at * 2..)?.first_chunk().copied()?)),
        _ if ty == Scalar::Bool => u64::from(*bytes.get(at)? != 0),
        _ => u64::from(*bytes.get(at)?),
    })
}

#[inline(always)]
fn store(size: usize, bytes: &mut [u8], at: usize, value: u64) -> Option<()> {
    let place = bytes.get_mut(at * size..(at + 1) * size)?;
    match size {
        4 => place.copy_from_slice(&(value as u32).to_le_bytes()),
        8 => place.copy_from_slice(&value.to_le_bytes()),
        2 => place.copy_from_slice(&(value as u16).to_le_bytes()),
        _ => place.copy_from_slice(&[value as u8]),
    }
    Some(())
}

impl Machine<'_> {
    /// Returns the value of a variable that is not kept in a slot.
    #[inline(always)]
    pub(super) fn base<'f>(&'f self, frame: &'f Frame, base: Base) -> Option<&'f Value> {
        match base {
            Base::Local(local) => frame.local(local),
            Base::Global(id) => self.interp.globals.get(id.index())?.as_ref(),
        }
    }

    #[inline(always)]
    pub(super) fn base_mut<'f>(&'f mut self, frame: &'f mut Frame, base: Base) -> Option<&'f mut Value> {
        match base {
            Base::Local(local) => frame.locals.get_mut(local.index())?.as_mut(),
            Base::Global(id) => self.interp.globals.get_mut(id.index())?.as_mut(),
        }
    }

    /// Reads an element if its array is on the host and has it.
    #[inline(always)]
    pub(super) fn element_here(&self, frame: &Frame, element: &Element) -> Option<u64> {
        let Some(Value::Array(array)) = self.base(frame, element.base) else { return None };
        let at = position(array, element, &frame.slots)?;
        load(element.ty, array.data().computed()?.here()?, at)
    }

    /// Writes an element if its array is on the host alone, belongs to this variable alone, and has the element. Returns whether
    /// it has been written.
    #[inline(always)]
    pub(super) fn set_element_here(&mut self, frame: &mut Frame, element: &Element, value: u64) -> bool {
        let place = match element.base {
            Base::Local(local) => frame.locals.get_mut(local.index()),
            Base::Global(id) => self.interp.globals.get_mut(id.index()),
        };
        match place {
            Some(Some(Value::Array(array))) => write(array, element, &frame.slots, value).is_some(),
            _ => false,
        }
    }
}

#[inline(always)]
fn write(array: &mut Array, element: &Element, slots: &[u64], value: u64) -> Option<()> {
    let at = position(array, element, slots)?;
    store(element.ty.size(), array.own_bytes_mut()?, at, value)
}

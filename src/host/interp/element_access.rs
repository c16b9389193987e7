//! Fast path for `x[i]` in loops: reads and writes elements of arrays in host memory.

use crate::array::{Array, ElementType as Kind};
use crate::value::HostValue;
use clk_scalar::Scalar;

use super::code::{ArrayVariable, ElementAccess};
use super::context::{EvalContext, Interpreter};
use super::frame::HostFrame;

/// Returns the row-major position of an element. Returns `None` if an index is out of range, or if the array's element
/// type or rank is not that of the access.
#[inline(always)]
fn element_position(array: &Array, element: &ElementAccess, slots: &[u64]) -> Option<usize> {
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
            ty => usize::try_from(clk_scalar::ScalarValue { ty, bits }.as_integer()?).ok()?,
        };
        if index >= extent {
            return None;
        }
        position = position * extent + index;
    }
    Some(position)
}

/// Reads the bits of the scalar with index `at` from an array's bytes.
#[inline(always)]
fn load_scalar(ty: Scalar, bytes: &[u8], at: usize) -> Option<u64> {
    Some(match ty.size() {
        4 => u64::from(u32::from_le_bytes(bytes.get(at * 4..)?.first_chunk().copied()?)),
        8 => u64::from_le_bytes(bytes.get(at * 8..)?.first_chunk().copied()?),
        2 => u64::from(u16::from_le_bytes(bytes.get(at * 2..)?.first_chunk().copied()?)),
        _ if ty == Scalar::Bool => u64::from(*bytes.get(at)? != 0),
        _ => u64::from(*bytes.get(at)?),
    })
}

#[inline(always)]
fn store_scalar(size: usize, bytes: &mut [u8], at: usize, value: u64) -> Option<()> {
    let place = bytes.get_mut(at * size..(at + 1) * size)?;
    match size {
        4 => place.copy_from_slice(&(value as u32).to_le_bytes()),
        8 => place.copy_from_slice(&value.to_le_bytes()),
        2 => place.copy_from_slice(&(value as u16).to_le_bytes()),
        _ => place.copy_from_slice(&[value as u8]),
    }
    Some(())
}

impl Interpreter {
    #[inline(always)]
    pub(super) fn variable_value_mut<'f>(
        &'f mut self,
        frame: &'f mut HostFrame,
        base: ArrayVariable,
    ) -> Option<&'f mut HostValue> {
        match base {
            ArrayVariable::Local(local) => frame.locals.get_mut(local.index())?.as_mut(),
            ArrayVariable::Global(id) => self.globals.get_mut(id.index())?.as_mut(),
        }
    }
}

impl EvalContext<'_> {
    /// Returns the value of a variable that is not kept in a slot.
    #[inline(always)]
    pub(super) fn variable_value<'f>(&'f self, frame: &'f HostFrame, base: ArrayVariable) -> Option<&'f HostValue> {
        match base {
            ArrayVariable::Local(local) => frame.local(local),
            ArrayVariable::Global(id) => self.interp.globals.get(id.index())?.as_ref(),
        }
    }

    /// Reads the bits of an element. Returns `None` if its array is not in host memory or an index is out of range.
    #[inline(always)]
    pub(super) fn read_host_element(&self, frame: &HostFrame, element: &ElementAccess) -> Option<u64> {
        let Some(HostValue::Array(array)) = self.variable_value(frame, element.base) else { return None };
        let at = element_position(array, element, &frame.slots)?;
        load_scalar(element.ty, array.data().computed()?.here()?, at)
    }

    /// Writes an element and returns true if its array is only in host memory, no other variable shares the array, and
    /// the indices are in range. Otherwise returns false.
    #[inline(always)]
    pub(super) fn write_host_element(&mut self, frame: &mut HostFrame, element: &ElementAccess, value: u64) -> bool {
        let place = match element.base {
            ArrayVariable::Local(local) => frame.locals.get_mut(local.index()),
            ArrayVariable::Global(id) => self.interp.globals.get_mut(id.index()),
        };
        match place {
            Some(Some(HostValue::Array(array))) => write_if_exclusive(array, element, &frame.slots, value).is_some(),
            _ => false,
        }
    }
}

#[inline(always)]
fn write_if_exclusive(array: &mut Array, element: &ElementAccess, slots: &[u64], value: u64) -> Option<()> {
    let at = element_position(array, element, slots)?;
    store_scalar(element.ty.size(), array.own_bytes_mut()?, at, value)
}

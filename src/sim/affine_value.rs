//! The values of affine indices in a running group: base and coefficients are read from uniform registers.

use super::code::{AXES, AffineIndex, Coef};
use super::group::{GroupShape, ThreadGroup};
use super::group_registers::GroupRegisters;

/// The value of an affine index: a base, and a step per axis.
pub(crate) struct AffineValue {
    pub base: i64,
    pub step: [i64; AXES],
}

impl AffineValue {
    /// Reads base and coefficients of an affine form.
    pub unsafe fn of(registers: &GroupRegisters, index: &AffineIndex) -> AffineValue {
        // SAFETY: C5: affine forms have uniform registers of 4-byte lanes.
        unsafe {
            AffineValue { base: narrow_base(registers, index), step: index.coef.map(|c| coefficient(registers, c)) }
        }
    }

    /// Returns the smallest and the largest value in the group.
    pub fn bounds(&self, shape: &GroupShape) -> (i64, i64) {
        let spans = (0..AXES).map(|d| self.step[d] * (shape.extents[d] as i64 - 1));
        spans.fold((self.base, self.base), |(low, high), span| (low + span.min(0), high + span.max(0)))
    }
}

#[inline(always)]
pub(crate) unsafe fn coefficient(registers: &GroupRegisters, c: Coef) -> i64 {
    match c {
        Coef::Zero => 0,
        Coef::Const(v) => v.into(),
        // SAFETY: C5: coefficients are uniform registers of 4-byte lanes.
        Coef::Reg(r) => unsafe { registers.first::<i32>(r) }.into(),
    }
}

/// Returns the value of the base of an affine index.
#[inline(always)]
pub(crate) unsafe fn index_base(registers: &GroupRegisters, index: &AffineIndex) -> i64 {
    // SAFETY: C5: the base of an index has the declared width. It is uniform, or the caller wants the first lane.
    unsafe { if index.wide { registers.first::<i64>(index.base) } else { narrow_base(registers, index) } }
}

/// Like [`index_base`], for a base of 4-byte lanes.
#[inline(always)]
pub(crate) unsafe fn narrow_base(registers: &GroupRegisters, index: &AffineIndex) -> i64 {
    // SAFETY: C5: the caller's base has 4-byte lanes.
    unsafe {
        if index.unsigned {
            registers.first::<u32>(index.base).into()
        } else {
            registers.first::<i32>(index.base).into()
        }
    }
}

/// Returns the value of an affine index in one lane.
pub(crate) unsafe fn index_of_lane(g: &ThreadGroup, index: &AffineIndex, lane: usize) -> i64 {
    // SAFETY: C5: the base has the declared width, and coefficients are uniform registers of 4-byte lanes. The caller's
    // lane exists.
    unsafe {
        if index.wide {
            return g.registers.lane::<i64>(index.base, lane);
        }
        let mut value = g.registers.lane::<i32>(index.base, lane);
        let coordinates = g.shape.coordinates(lane);
        for d in 0..AXES {
            value = value
                .wrapping_add((coefficient(&g.registers, index.coef[d]) as i32).wrapping_mul(coordinates[d] as i32));
        }
        if index.unsigned { (value as u32).into() } else { value.into() }
    }
}

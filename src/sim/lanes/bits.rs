//! The representation of scalars in registers.

use clk_scalar::Scalar;

/// Returns whether registers of this type take 8 bytes per lane.
pub(crate) fn is_wide(scalar: Scalar) -> bool {
    scalar.size() == 8
}

/// Converts lane bits to a scalar's raw bits (zero-extended).
pub(crate) fn raw_of_lane(scalar: Scalar, lane: u64) -> u64 {
    match scalar {
        Scalar::Bool => (lane != 0).into(),
        _ => lane & (u64::MAX >> (64 - scalar.bits())),
    }
}

/// Converts a scalar's raw bits to lane bits (4 or 8 bytes).
pub(crate) fn lane_of_raw(scalar: Scalar, raw: u64) -> u64 {
    match scalar {
        Scalar::Bool if raw != 0 => u32::MAX.into(),
        Scalar::I8 => (raw as i8 as i32 as u32).into(),
        Scalar::I16 => (raw as i16 as i32 as u32).into(),
        _ => raw,
    }
}

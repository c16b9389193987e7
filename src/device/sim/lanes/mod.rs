//! Loops over lanes: the generic drivers that every arithmetic op is an instance of.
//!
//! - `step`: the drivers, and their selection by instruction set; `bits`: scalars in registers.
//! - [`arith`], [`convert`], [`fused`], [`slow`], [`mask`]: the ops; [`wide`]: explicit vector types.

pub(crate) mod arith;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
mod bits;
pub(crate) mod convert;
pub(crate) mod fused;
pub(crate) mod mask;
pub(crate) mod slow;
mod step;
pub(crate) mod wide;

pub(crate) use self::bits::{is_wide, lane_of_raw, raw_of_lane};
pub(crate) use self::step::{
    Fn1, Fn2, Fn3, Lane, Map1, Map2, Map3, Step, chunks, each_chunk, load, pick, pick_vectors, plain, store,
};
pub(crate) use crate::device::sim::isa::Isa;

/// Selects a step by its vector type: `pick_wide!(isa, V => Step<V>)`.
macro_rules! pick_wide {
    ($isa:expr, $v:ident => $step:ty) => {
        match $isa {
            #[cfg(target_arch = "x86_64")]
            $crate::device::sim::lanes::Isa::Avx512 => {
                type $v = $crate::device::sim::lanes::wide::V512;
                $crate::device::sim::lanes::pick_vectors::<$step>($isa)
            }
            #[cfg(target_arch = "x86_64")]
            $crate::device::sim::lanes::Isa::Avx2 => {
                type $v = $crate::device::sim::lanes::wide::V256;
                $crate::device::sim::lanes::pick_vectors::<$step>($isa)
            }
            _ => {
                type $v = $crate::device::sim::lanes::wide::Portable;
                $crate::device::sim::lanes::plain::<$step>()
            }
        }
    };
}
pub(crate) use pick_wide;

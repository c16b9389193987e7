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
    Fn1, Fn2, Fn3, LaneScalar, Map1, Map2, Map3, OpStep, chunks, each_chunk, load, pick, pick_vectors, plain, store,
};

/// Selects a step by its vector type: `pick_wide!(isa, V => Step<V>)`.
macro_rules! pick_wide {
    ($isa:expr, $v:ident => $step:ty) => {
        match $isa {
            #[cfg(target_arch = "x86_64")]
            clk_runtime::Isa::Avx512 => {
                type $v = $crate::lanes::wide::V512;
                $crate::lanes::pick_vectors::<$step>($isa)
            }
            #[cfg(target_arch = "x86_64")]
            clk_runtime::Isa::Avx2 => {
                type $v = $crate::lanes::wide::V256;
                $crate::lanes::pick_vectors::<$step>($isa)
            }
            _ => {
                type $v = $crate::lanes::wide::Portable;
                $crate::lanes::plain::<$step>()
            }
        }
    };
}
pub(crate) use pick_wide;

//! The scalar types and their exact arithmetic. This module alone defines the arithmetic of Clk. The simulator, the
//! reference interpreter, constant folding and the host use it, and the generated CUDA code reproduces it.
//!
//! - [`element`]: the traits for generic code, such as the simulator's lane loops. `int`, `float` and `half` implement
//!   these traits, and `convert` implements the conversions between types.
//! - `math32`, `trig32`, `math64`: the approximated functions, in portable arithmetic, so that every machine gives the
//!   same bits.
//! - [`dynamic`]: the same operations on a [`ScalarValue`], whose type is known only at run time.
//! - [`decimal`]: number literals, rounded once to any float type; [`format`](mod@format): conversion of values to
//!   text.

#![allow(rustdoc::private_intra_doc_links)]

pub mod array_assumption;
pub mod builtin;
mod convert;
pub mod decimal;
pub mod derivative;
pub mod dynamic;
pub(crate) mod element;
pub mod exact;
pub mod fault_help;
mod float;
pub mod foreign_names;
pub mod format;
pub(crate) mod functions;
mod fused;
pub mod half;
mod half_convert;
mod int;
pub mod math32;
pub mod math64;
pub mod ops;
pub mod philox;
pub mod tensor_core_model;
pub(crate) mod trig32;
mod value;

use std::fmt;

pub use ::half::{bf16, f16};
pub(crate) use convert::Convert;
pub use element::Logic;
pub use element::{Float, Integer, NumericScalar, ScalarType};
pub use value::ScalarValue;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Scalar {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F16,
    Bf16,
    F32,
    F64,
}

impl Scalar {
    pub const ALL: [Scalar; 13] = {
        use Scalar::*;
        [Bool, I8, I16, I32, I64, U8, U16, U32, U64, F16, Bf16, F32, F64]
    };

    pub fn name(self) -> &'static str {
        use Scalar::*;
        match self {
            Bool => "bool",
            I8 => "i8",
            I16 => "i16",
            I32 => "i32",
            I64 => "i64",
            U8 => "u8",
            U16 => "u16",
            U32 => "u32",
            U64 => "u64",
            F16 => "f16",
            Bf16 => "bf16",
            F32 => "f32",
            F64 => "f64",
        }
    }

    pub fn from_name(name: &str) -> Option<Scalar> {
        Self::ALL.into_iter().find(|s| s.name() == name)
    }

    /// Returns the size in bytes; a `bool` takes one byte, 0 or 1.
    pub fn size(self) -> usize {
        use Scalar::*;
        match self {
            Bool | I8 | U8 => 1,
            I16 | U16 | F16 | Bf16 => 2,
            I32 | U32 | F32 => 4,
            I64 | U64 | F64 => 8,
        }
    }

    pub fn bits(self) -> u32 {
        self.size() as u32 * 8
    }

    /// Returns the bits of the only NaN that operations compute: quiet, with sign and payload zero. Returns 0 for types
    /// without NaN.
    pub fn canonical_nan(self) -> u64 {
        match self {
            Scalar::F16 => 0x7e00,
            Scalar::Bf16 => 0x7fc0,
            Scalar::F32 => 0x7fc0_0000,
            Scalar::F64 => 0x7ff8_0000_0000_0000,
            _ => 0,
        }
    }

    pub fn is_float(self) -> bool {
        matches!(self, Scalar::F16 | Scalar::Bf16 | Scalar::F32 | Scalar::F64)
    }

    pub fn is_signed(self) -> bool {
        matches!(self, Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64)
    }

    pub fn is_unsigned(self) -> bool {
        matches!(self, Scalar::U8 | Scalar::U16 | Scalar::U32 | Scalar::U64)
    }

    pub fn is_int(self) -> bool {
        self.is_signed() || self.is_unsigned()
    }

    pub fn is_num(self) -> bool {
        self != Scalar::Bool
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

//! An assembler for the part of x86-64 that compiled kernels use. Input: one call per instruction. Output: machine code that runs
//! at any address aligned to 64 bytes.
//!
//! - [`operand`]: registers, addresses, and whatever else instructions are given.
//! - [`buffer`]: the [`Assembler`]: bytes, labels, and a pool of constants behind the code.
//! - [`form`]: the encodings with a VEX or EVEX prefix, of which each vector instruction is a row in a table.
//! - [`scalar`], [`vector`], [`transfer`], [`mask`]: the instructions; [`tables`]: the rows.
//!
//! An assembler is made for AVX-512 or for AVX2 and encodes all vector instructions alike. Debug builds stop at what cannot be
//! encoded, which is a fault of the caller: an instruction that the other set has, a register above 15 or a mask with AVX2.

mod buffer;
mod form;
mod mask;
mod operand;
mod scalar;
mod tables;
#[cfg(test)]
mod tests;
mod transfer;
mod vector;

pub(crate) use self::buffer::Assembler;
pub(crate) use self::mask::Kop;
pub(crate) use self::operand::{Cond, Const, Gpr, Kreg, Label, Len, Masking, Mem, Rm, Size, Src, VecMem, Vreg};
pub(crate) use self::scalar::{Alu, Shift};
pub(crate) use self::tables::{Cmp, V2, V2i, V3, V3i};
pub(crate) use self::transfer::{Gather, Narrow};

//! An assembler for the part of x86-64 that compiled kernels use.
//!
//! Input: one call per instruction. Output: machine code that runs at any address aligned to 64 bytes. Main idea: an
//! assembler is created for AVX-512 or AVX2, and encodes all vector instructions for this instruction set, mostly from
//! tables ([`instruction_tables`], [`vex_encoding`]). Debug builds panic at instructions that cannot be encoded, such
//! as a masked instruction with AVX2. Comments of functions describe what the emitted instruction does.

mod buffer;
mod instruction_tables;
mod mask;
mod operand;
mod scalar;
#[cfg(test)]
mod tests;
mod transfer;
mod vector;
mod vex_encoding;

pub(crate) use self::buffer::Assembler;
pub(crate) use self::instruction_tables::{Cmp, V2, V2i, V3, V3i};
pub(crate) use self::mask::Kop;
pub(crate) use self::operand::{
    CodeLabel, ConditionCode, Gpr, Kreg, Len, Masking, Mem, OperandSize, PoolConst, Rm, Src, VecMem, Vreg,
};
pub(crate) use self::scalar::{Alu, ShiftOp};
pub(crate) use self::transfer::{Gather, Narrow};

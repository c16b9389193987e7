//! Just-in-time compilation of kernels to x86-64 machine code.
//!
//! [`asm`] encodes instructions; [`exec`] turns the bytes into memory that can be called.

// The code generator, which uses all of it, is not here yet.
#![allow(dead_code, unused_imports)]

pub(crate) mod asm;
pub(crate) mod exec;

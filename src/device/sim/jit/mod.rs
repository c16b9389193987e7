//! Just-in-time compilation of kernels to x86-64 machine code with AVX-512.
//!
//! - [`asm`] encodes instructions; [`exec`] turns the bytes into memory that can be called.
//! - [`alloc`] gives the values of a region their places, [`frame`] says what lies where in memory, [`emit`] writes the code;
//!   [`functions`] are what it calls.
//! - [`machine`] compiles a region and runs the code for a group.

mod alloc;
// Its tests cover instructions that no code uses yet.
#[allow(dead_code, unused_imports)]
pub(crate) mod asm;
mod emit;
mod exec;
mod frame;
mod functions;
pub(crate) mod machine;

pub(crate) use self::exec::allowed;

//! NVIDIA's GPUs: CUDA text is compiled by NVRTC and run through the driver. Both libraries are opened when they are first
//! needed, so that one binary starts on machines with and without them.
//!
//! [`text`] turns a prepared kernel into CUDA C++ and says how it is to be launched. It runs nothing and needs neither.

pub mod nvrtc;
pub mod text;

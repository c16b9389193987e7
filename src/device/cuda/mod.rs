//! NVIDIA's GPUs: CUDA text is compiled by NVRTC and run through the driver. Both libraries are opened when they are first
//! needed, so that one binary starts on machines with and without them.

pub mod nvrtc;

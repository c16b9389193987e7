//! Random kernels.

pub fn compare() {}

//! Layer 1: the vocabulary that every stage shares.
pub mod builtin;
pub mod codes;
pub mod ops;
pub mod philox;
pub mod scalar;

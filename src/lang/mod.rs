//! Layer 1: vocabulary shared by all stages.
pub mod builtin;
pub mod codes;
pub mod cores;
pub mod derivative;
pub(crate) mod functions;
pub mod ops;
pub mod philox;
pub mod promise;
pub mod scalar;

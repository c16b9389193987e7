//! Layer 6: values, arrays and the script interpreter.
pub mod array;
pub mod files;
pub mod format;
pub(crate) mod grad;
pub(crate) mod graph;
pub mod interp;
pub mod ops;
pub mod picture;
pub mod problem;
pub mod ranks;
pub mod shard;
pub mod tuned;
pub mod unwind;
pub mod value;

//! Layer 6 of the compiler: everything that runs on the host, such as values, arrays and the script interpreter.

#![allow(rustdoc::private_intra_doc_links)]

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

pub use graph::ExecContext;

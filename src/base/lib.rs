//! Layer 0: general infrastructure, independent of Clk.

// Module docs may link to private items: `cargo doc --document-private-items` shows them.
#![allow(rustdoc::private_intra_doc_links)]

pub mod affine;
pub mod aligned;
pub mod alloc;
pub mod arena;
pub mod background;
pub mod clock;
pub mod diag;
pub mod escape;
pub mod file_error;
pub mod idset;
pub mod linear;
pub mod render;
pub mod shared;
pub mod source;
pub mod stop;
pub mod threads;

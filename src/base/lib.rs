//! The crate of the layer [`base`], named so that code spells its path as `crate::base` here and everywhere above.

#![allow(rustdoc::private_intra_doc_links)]

#[path = "mod.rs"]
pub mod base;

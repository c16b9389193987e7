//! The crate of the layer [`lang`], named so that code spells its path as `crate::lang` here and everywhere above.

#![allow(rustdoc::private_intra_doc_links)]

#[path = "mod.rs"]
pub mod lang;

use clk_lang_base::base;

//! The crate of the layer [`ir`], named so that code spells its path as `crate::ir` here and everywhere above.

#![allow(rustdoc::private_intra_doc_links)]

#[path = "mod.rs"]
pub mod ir;

use clk_lang_base::base;
use clk_lang_lang::lang;

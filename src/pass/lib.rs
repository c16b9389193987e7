//! The crate of the layer [`pass`], named so that code spells its path as `crate::pass` here and everywhere above.

#![allow(rustdoc::private_intra_doc_links)]

#[path = "mod.rs"]
pub mod pass;

use clk_lang_base::base;
use clk_lang_ir::ir;
use clk_lang_lang::lang;

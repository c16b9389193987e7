//! The crate of the layer [`device`], named so that code spells its path as `crate::device` here and everywhere above.

#![allow(rustdoc::private_intra_doc_links)]

#[path = "mod.rs"]
pub mod device;

use clk_lang_base::base;
use clk_lang_ir::ir;
use clk_lang_lang::lang;

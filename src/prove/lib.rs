//! The crate of the layer [`prove`], named so that code spells its path as `crate::prove` here and everywhere above.

#![allow(rustdoc::private_intra_doc_links)]

#[path = "mod.rs"]
pub mod prove;

use clk_lang_base::base;
use clk_lang_check::check;
use clk_lang_compile::compile;
use clk_lang_device::device;
use clk_lang_ir::ir;
use clk_lang_lang::lang;
use clk_lang_lower::lower;

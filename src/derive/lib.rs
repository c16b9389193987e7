//! The crate of the layer [`mod@derive`], named so that code spells its path as `crate::derive` here and everywhere above.

#![allow(rustdoc::private_intra_doc_links)]

#[path = "mod.rs"]
pub mod derive;

use clk_lang_base::base;
use clk_lang_device::device;
use clk_lang_ir::ir;
use clk_lang_lang::lang;
use clk_lang_pass::pass;

//! The crate of the layer [`compile`], named so that code spells its path as `crate::compile` here and everywhere above.

#![allow(rustdoc::private_intra_doc_links)]

#[path = "mod.rs"]
pub mod compile;

use clk_lang_base::base;
use clk_lang_check::check;
use clk_lang_derive::derive;
use clk_lang_device::device;
use clk_lang_ir::ir;
use clk_lang_lang::lang;
use clk_lang_lower::lower;
use clk_lang_pass::pass;
use clk_lang_syntax::syntax;

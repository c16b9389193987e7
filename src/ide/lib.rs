//! The crate of the layer [`ide`], named so that code spells its path as `crate::ide` here and everywhere above.

#![allow(rustdoc::private_intra_doc_links)]

#[path = "mod.rs"]
pub mod ide;

use clk_lang_base::base;
use clk_lang_check::check;
use clk_lang_compile::compile;
use clk_lang_lang::lang;
use clk_lang_lower::lower;
use clk_lang_syntax::syntax;

//! The crate of the layer [`lower`], named so that code spells its path as `crate::lower` here and everywhere above.

#![allow(rustdoc::private_intra_doc_links)]

#[path = "mod.rs"]
pub mod lower;

use clk_lang_base::base;
use clk_lang_check::check;
use clk_lang_ir::ir;
use clk_lang_lang::lang;
use clk_lang_syntax::syntax;

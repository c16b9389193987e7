//! The crate of the layer [`syntax`], named so that code spells its path as `crate::syntax` here and everywhere above.

#![allow(rustdoc::private_intra_doc_links)]

#[path = "mod.rs"]
pub mod syntax;

use clk_lang_base::base;
use clk_lang_lang::lang;

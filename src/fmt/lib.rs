//! The crate of the layer [`fmt`], named so that code spells its path as `crate::fmt` here and everywhere above.

#![allow(rustdoc::private_intra_doc_links)]

#[path = "mod.rs"]
pub mod fmt;

use clk_lang_base::base;
use clk_lang_syntax::syntax;

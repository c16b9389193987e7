//! The crate of the layer [`profile`], named so that code spells its path as `crate::profile` here and everywhere above.

#![allow(rustdoc::private_intra_doc_links)]

#[path = "mod.rs"]
pub mod profile;

use clk_lang_base::base;
use clk_lang_device::device;
use clk_lang_syntax::syntax;

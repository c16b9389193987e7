//! The crate of the layer [`device`], named so that code spells its path as `crate::device` here and everywhere above.

#![allow(rustdoc::private_intra_doc_links)]
// Without GPUs and machine code, parts of what they share with the simulator have no use.
#![cfg_attr(target_family = "wasm", allow(dead_code, unused_imports))]

#[path = "mod.rs"]
pub mod device;

use clk_lang_base::base;
use clk_lang_ir::ir;
use clk_lang_lang::lang;

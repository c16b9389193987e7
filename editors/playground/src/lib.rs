//! Clk in a web page: scripts run on the simulator, in one thread, without a system.
//!
//! Input: the text of a script. Output: [`Event`]s in the order in which they happen, and an exit code. The scripts of the page lie in
//! `src/app/site/assets`; `abi` is what they call, when this is compiled to WebAssembly.

#[cfg(target_family = "wasm")]
mod abi;
mod run;
mod world;

pub use run::{format, run};

use clk_lang_base::base;
use clk_lang_compile::compile;
use clk_lang_device::device;
use clk_lang_fmt::fmt;
use clk_lang_host::host;
#[cfg(target_family = "wasm")]
use clk_lang_ide::ide;
use clk_lang_ir::ir;
use clk_lang_prove::prove;

/// What a run gives to the page.
#[derive(Debug, PartialEq)]
pub enum Event<'e> {
    Print(&'e str),
    /// A message: as JSON, and as a terminal would show it in color.
    Report(&'e str, &'e str),
    /// A picture: its MIME type, and its content.
    Picture(&'e str, &'e [u8]),
    /// A file that the script has written: its name, and its content.
    File(&'e str, &'e [u8]),
    /// The value of the last expression, as a session shows it.
    Value(&'e str),
    /// A program, formatted.
    Formatted(&'e str),
    /// A program with its colors, as HTML.
    Colored(&'e str),
}

/// Takes events.
pub type Page<'p> = &'p mut dyn FnMut(Event<'_>);

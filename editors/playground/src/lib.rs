//! Runs Clk in a web page: scripts run on the simulator, in one thread, without an operating system.
//!
//! Input: the text of a script. Output: [`PageEvent`]s in chronological order, and an exit code. The JavaScript of the
//! page is in `src/app/site/assets`. It calls the functions of `abi`, which are compiled to WebAssembly.

#[cfg(target_family = "wasm")]
mod abi;
mod run;
mod world;

pub use run::{format, run};

/// An event that a run sends to the page.
#[derive(Debug, PartialEq)]
pub enum PageEvent<'e> {
    Print(&'e str),
    /// A diagnostic: as JSON, and as text with ANSI colors.
    Report(&'e str, &'e str),
    /// A picture: MIME type and content.
    Picture(&'e str, &'e [u8]),
    /// A file that the script has written: name and content.
    File(&'e str, &'e [u8]),
    /// The value of the last expression, as an interactive session shows it.
    Value(&'e str),
    /// A formatted program.
    Formatted(&'e str),
    /// A highlighted program, as HTML.
    Colored(&'e str),
}

/// A callback that receives the events.
pub type EventSink<'p> = &'p mut dyn FnMut(PageEvent<'_>);

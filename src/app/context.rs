//! State shared by all commands and by sessions.

use std::sync::Arc;

use super::console::Console;
use super::devices::{Choice, Machine};
use super::exit;
use super::interrupt::Interrupt;
use super::script::Limits;
use crate::device::cuda::text::Options;
use crate::device::sim::{Isa, Jit};

/// State shared by all commands.
pub(crate) struct Context {
    pub console: Console,
    pub interrupt: Interrupt,
    pub limits: Limits,
    /// Options of CUDA code generation.
    pub text: Options,
    /// All devices, and the selected one.
    pub machine: Arc<Machine>,
    pub device: Choice,
    /// The simulator's instruction set.
    pub isa: Isa,
    /// When it compiles kernels to machine code.
    pub jit: Jit,
}

impl Context {
    /// Prints a page, or the complaint that there is none; returns the exit code.
    pub fn show(&mut self, found: Result<String, String>) -> u8 {
        match found {
            Ok(text) => {
                self.console.print(&text);
                exit::OK
            }
            Err(complaint) => {
                self.console.error_line(&complaint);
                exit::FAILURE
            }
        }
    }
}

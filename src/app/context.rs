//! State shared by all commands and by sessions.

use std::sync::Arc;

use super::console::Console;
use super::devices::{DeviceChoice, DeviceRegistry, GpuCodeOptions};
use super::exit;
use super::interrupt::Interrupt;
use super::script::RunLimits;
use crate::command_error::CommandResult;
use clk_runtime::Isa;
use clk_sim::Jit;

/// State shared by all commands.
pub(crate) struct AppContext {
    pub console: Console,
    pub interrupt: Interrupt,
    pub limits: RunLimits,
    /// Options for the code that GPUs run.
    pub text: GpuCodeOptions,
    /// Opens devices by name.
    pub machine: Arc<DeviceRegistry>,
    pub device: DeviceChoice,
    /// The host instruction set that the simulator uses.
    pub isa: Isa,
    /// When the simulator compiles kernels to machine code.
    pub jit: Jit,
}

impl AppContext {
    /// Prints a page or an error; returns the exit code.
    pub fn show(&mut self, found: CommandResult) -> u8 {
        match found {
            Ok(text) => {
                self.console.print(&text);
                exit::OK
            }
            Err(complaint) => {
                self.console.error_line(&complaint.to_string());
                exit::FAILURE
            }
        }
    }
}

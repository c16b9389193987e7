//! A `World` for scripts run in tests: it collects printed output, displays nothing, and has no files.

use clk_lang::host::interp::{Shown, World};

/// The printed output of a script.
#[derive(Default)]
pub struct Paper(pub String);

impl World for Paper {
    fn print(&mut self, text: &str) {
        self.0 += text;
    }
    fn show(&mut self, _: Shown) {}
    fn read(&mut self, path: &str) -> Result<Vec<u8>, String> {
        Err(format!("{path} is not there"))
    }
    fn write(&mut self, _: &str, _: &[u8]) -> Result<(), String> {
        Ok(())
    }
}

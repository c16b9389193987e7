//! A world for scripts that tests run by themselves: it keeps what is printed, shows nothing, and has no files.

use clk_lang::host::interp::{Shown, World};

/// What a script has printed.
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

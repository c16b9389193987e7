//! The effects available to scripts: printing, showing pictures, reading and writing files.

use super::console::Console;
use super::{disk, picture};
use crate::host::interp::{Shown, World};

/// Effects on the terminal and the disk.
pub(crate) struct Terminal<'a> {
    pub console: &'a mut Console,
}

impl World for Terminal<'_> {
    fn print(&mut self, text: &str) {
        self.console.print(text);
    }

    fn show(&mut self, shown: Shown) {
        if let Some(stage) = &self.console.stage {
            return stage.show(&shown);
        }
        let drawn = picture::draw(&shown, self.console.style, self.console.graphics());
        self.console.print(&drawn);
    }

    fn read(&mut self, path: &str) -> Result<Vec<u8>, String> {
        disk::read(&disk::path_of(path))
    }

    fn write(&mut self, path: &str, bytes: &[u8]) -> Result<(), String> {
        // Output printed before this point must be visible before the file exists.
        self.console.flush();
        disk::write_whole(&disk::path_of(path), bytes)
    }
}

/// Effects on the disk, with printed output captured: tests show it only if they fail.
#[derive(Default)]
pub(crate) struct Captured {
    pub printed: String,
}

impl World for Captured {
    fn print(&mut self, text: &str) {
        self.printed.push_str(text);
    }

    fn show(&mut self, _: Shown) {
        self.printed.push_str("(a picture)\n");
    }

    fn read(&mut self, path: &str) -> Result<Vec<u8>, String> {
        disk::read(&disk::path_of(path))
    }

    fn write(&mut self, path: &str, bytes: &[u8]) -> Result<(), String> {
        disk::write_whole(&disk::path_of(path), bytes)
    }
}

//! The side effects of scripts: printing, showing pictures, reading and writing files.

use std::sync::Arc;

use super::console::Console;
use super::{disk, picture};
use clk_base::file_error::FileError;
use clk_host::files::ByteSource;
use clk_host::interp::HostEffects;
use clk_host::picture::shown::ShownPicture;

/// Effects for a terminal: output goes to the console, and files are on disk.
pub(crate) struct TerminalEffects<'a> {
    pub console: &'a mut Console,
}

impl HostEffects for TerminalEffects<'_> {
    fn print(&mut self, text: &str) {
        self.console.print(text);
    }

    fn show(&mut self, shown: ShownPicture) {
        if let Some(stage) = &self.console.stage {
            return stage.show(&shown);
        }
        if let Some(delay) = shown.delay
            && self.console.has_cursor()
        {
            picture::play(&shown, delay, self.console);
        }
        let drawn = picture::draw(&shown, self.console.style, self.console.graphics());
        self.console.print(&drawn);
    }

    fn read(&mut self, path: &str) -> Result<Vec<u8>, FileError> {
        disk::read(&disk::path_of(path))
    }

    fn open(&mut self, path: &str) -> Result<Arc<dyn ByteSource>, FileError> {
        disk::open_parts(&disk::path_of(path))
    }

    fn write(&mut self, path: &str, bytes: &[u8]) -> Result<(), FileError> {
        // Makes output that was printed before this call visible before the file exists.
        self.console.flush();
        disk::write_atomically(&disk::path_of(path), bytes)
    }
}

/// Effects that capture printed output; files are on disk. `clk test` shows the output only if a test fails.
#[derive(Default)]
pub(crate) struct CapturedEffects {
    pub printed: String,
}

impl HostEffects for CapturedEffects {
    fn print(&mut self, text: &str) {
        self.printed.push_str(text);
    }

    fn show(&mut self, _: ShownPicture) {
        self.printed.push_str("(a picture)\n");
    }

    fn read(&mut self, path: &str) -> Result<Vec<u8>, FileError> {
        disk::read(&disk::path_of(path))
    }

    fn open(&mut self, path: &str) -> Result<Arc<dyn ByteSource>, FileError> {
        disk::open_parts(&disk::path_of(path))
    }

    fn write(&mut self, path: &str, bytes: &[u8]) -> Result<(), FileError> {
        disk::write_atomically(&disk::path_of(path), bytes)
    }
}

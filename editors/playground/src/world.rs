//! The effects of scripts in a browser. Files exist only in memory; the data files of the examples are built in.

use std::collections::BTreeMap;

use crate::{EventSink, PageEvent};
use clk_base::file_error::FileError;
use clk_host::interp::HostEffects;
use clk_host::picture::shown::ShownPicture;

/// The data files that the examples read: name and content.
const EXAMPLE_FILES: &[(&str, &[u8])] = &[
    ("examples/data/digits.npz", include_bytes!("../../../examples/data/digits.npz")),
    ("examples/data/flowers.csv", include_bytes!("../../../examples/data/flowers.csv")),
    ("examples/data/network.mtx", include_bytes!("../../../examples/data/network.mtx")),
    ("examples/data/residues.npy", include_bytes!("../../../examples/data/residues.npy")),
    ("examples/data/roads.safetensors", include_bytes!("../../../examples/data/roads.safetensors")),
    ("examples/data/shapes.png", include_bytes!("../../../examples/data/shapes.png")),
    ("examples/data/two_classes.npz", include_bytes!("../../../examples/data/two_classes.npz")),
];

/// The side effects of a script: output goes to the page, and files are kept in memory.
pub(crate) struct BrowserEffects<'p> {
    pub page: EventSink<'p>,
    /// The files that this run has written.
    written: BTreeMap<String, Vec<u8>>,
}

impl<'p> BrowserEffects<'p> {
    pub fn new(page: EventSink<'p>) -> Self {
        BrowserEffects { page, written: BTreeMap::new() }
    }
}

impl HostEffects for BrowserEffects<'_> {
    fn print(&mut self, text: &str) {
        (self.page)(PageEvent::Print(text));
    }

    fn show(&mut self, picture: ShownPicture) {
        match picture.file() {
            Ok((kind, content, _)) => (self.page)(PageEvent::Picture(kind, &content)),
            Err(problem) => (self.page)(PageEvent::Print(&format!("({})\n", problem.title))),
        }
    }

    fn read(&mut self, path: &str) -> Result<Vec<u8>, FileError> {
        let path = path.trim_start_matches("./");
        if let Some(bytes) = self.written.get(path) {
            return Ok(bytes.clone());
        }
        let data = EXAMPLE_FILES.iter().find(|(name, _)| *name == path);
        data.map(|(_, bytes)| bytes.to_vec())
            .ok_or(FileError::Refused("in a browser, a script can only read files that it has written"))
    }

    fn write(&mut self, path: &str, bytes: &[u8]) -> Result<(), FileError> {
        let path = path.trim_start_matches("./");
        (self.page)(PageEvent::File(path, bytes));
        self.written.insert(path.into(), bytes.to_vec());
        Ok(())
    }
}

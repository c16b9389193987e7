//! The effects that scripts have in a browser: files are in the memory of the page. The data of the examples is there from the beginning.

use std::collections::BTreeMap;

use crate::host::interp::{Shown, World};
use crate::host::picture::shown;
use crate::{Event, Page};

/// The data of the examples.
const DATA: &[(&str, &[u8])] = &[
    ("examples/data/digits.npz", include_bytes!("../../../examples/data/digits.npz")),
    ("examples/data/flowers.csv", include_bytes!("../../../examples/data/flowers.csv")),
    ("examples/data/residues.npy", include_bytes!("../../../examples/data/residues.npy")),
    ("examples/data/roads.safetensors", include_bytes!("../../../examples/data/roads.safetensors")),
    ("examples/data/shapes.png", include_bytes!("../../../examples/data/shapes.png")),
    ("examples/data/two_classes.npz", include_bytes!("../../../examples/data/two_classes.npz")),
];

/// Effects on a page.
pub(crate) struct Browser<'p> {
    pub page: Page<'p>,
    /// The files that this run has written.
    written: BTreeMap<String, Vec<u8>>,
}

impl<'p> Browser<'p> {
    pub fn new(page: Page<'p>) -> Self {
        Browser { page, written: BTreeMap::new() }
    }
}

impl World for Browser<'_> {
    fn print(&mut self, text: &str) {
        (self.page)(Event::Print(text));
    }

    fn show(&mut self, picture: Shown) {
        match shown::file(&picture) {
            Ok((kind, content, _)) => (self.page)(Event::Picture(kind, &content)),
            Err(problem) => (self.page)(Event::Print(&format!("({})\n", problem.title))),
        }
    }

    fn read(&mut self, path: &str) -> Result<Vec<u8>, String> {
        let path = path.trim_start_matches("./");
        if let Some(bytes) = self.written.get(path) {
            return Ok(bytes.clone());
        }
        let data = DATA.iter().find(|(name, _)| *name == path);
        data.map(|(_, bytes)| bytes.to_vec())
            .ok_or_else(|| "in a browser there are only the files that the script has written".into())
    }

    fn write(&mut self, path: &str, bytes: &[u8]) -> Result<(), String> {
        let path = path.trim_start_matches("./");
        (self.page)(Event::File(path, bytes));
        self.written.insert(path.into(), bytes.to_vec());
        Ok(())
    }
}

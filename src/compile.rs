//! Layer 5: sources to a checked program. Pure: files come through [`Files`].

use std::path::{Path, PathBuf};

use crate::base::diag::Diagnostic;
use crate::base::source::{FileId, Sources};
use crate::check::typed::{ModuleId, Program};

/// Where imported files come from.
pub trait Files {
    /// The text of a file, or why there is none ("no such file", "not UTF-8 at byte 17").
    fn read(&self, path: &Path) -> Result<String, String>;
}

/// The texts and the program of one run or one REPL session.
#[derive(Clone, Default)]
pub struct Session {
    pub sources: Sources,
    pub program: Program,
    /// The module that scripts and REPL entries add to.
    pub main: Option<ModuleId>,
    /// The folder that relative imports of REPL entries start from.
    pub folder: PathBuf,
}

/// What became of a text.
pub struct Outcome {
    pub file: FileId,
    /// Warnings, and errors if it was refused.
    pub diagnostics: Vec<Diagnostic>,
    /// Chunks of `program.chunks` that are new and have to run, in order.
    pub chunks: std::ops::Range<usize>,
}

impl Outcome {
    pub fn failed(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }
}

impl Session {
    /// Compiles a script with what it imports into the main module. After an error the program is as it was before.
    pub fn add(&mut self, _name: &str, _text: &str, _files: &dyn Files) -> Outcome {
        unimplemented!()
    }
}

//! Data of a session: sources, program, loaded modules and the definitions made by its entries.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use indexmap::IndexMap;
use rustc_hash::FxHashSet;
use smol_str::SmolStr;

use crate::base::diag::Diagnostic;
use crate::base::source::{FileId, Sources};
use crate::check::typed::{ModuleId, Program};
use crate::syntax::ast;

/// Access to imported files.
pub trait Files {
    /// Returns the text of a file, or the reason why it cannot be read ("no such file", "not UTF-8 at byte 17").
    fn read(&self, path: &Path) -> Result<String, String>;

    /// Returns the names of the files in the same directory, for suggestions about a misspelled import.
    fn neighbors(&self, _path: &Path) -> Vec<String> {
        vec![]
    }

    /// Returns the file of the module `words` (`shapes`, or `shapes.solid`) of a project, as imported by a file in a folder; `None`
    /// if the folder belongs to no project.
    fn module(&self, _words: &[&str], _folder: &Path) -> Option<Result<PathBuf, Missing>> {
        None
    }
}

/// Why a module of a project is not available.
pub struct Missing {
    pub code: &'static str,
    pub title: String,
    pub help: String,
}

/// No files: for texts that import only the standard library.
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _path: &Path) -> Result<String, String> {
        Err("there are no files here".into())
    }
}

/// The sources and the program of a run or a REPL session.
#[derive(Clone, Default)]
pub struct Session {
    pub sources: Sources,
    pub program: Program,
    /// The module to which scripts and REPL entries are added.
    pub main: Option<ModuleId>,
    /// The directory for relative imports of the main module; if empty, the directory of the text's own path.
    pub folder: PathBuf,
    /// Imported modules, each loaded once.
    pub modules: Modules,
    /// Definitions made by the entries of a session.
    pub definitions: Definitions,
}

/// Result of compiling a text.
pub struct Outcome {
    pub file: FileId,
    /// Warnings, and errors if it was refused.
    pub diagnostics: Vec<Diagnostic>,
    /// The new chunks of `program.chunks`, to be run in order.
    pub chunks: std::ops::Range<usize>,
}

impl Outcome {
    pub fn failed(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }

    /// Removes warnings, which may be consequences of errors (an apparently unused name may be used in a broken statement).
    pub(super) fn without_warnings(&mut self) {
        self.diagnostics.retain(Diagnostic::is_error);
    }
}

/// A definition and its syntax tree.
#[derive(Debug)]
pub struct Definition {
    pub(super) name: SmolStr,
    pub(super) item: ast::Item,
    /// All words in it, which include every name it may refer to.
    pub(super) words: FxHashSet<SmolStr>,
}

/// The definitions made by a session's entries.
#[derive(Clone, Debug, Default)]
pub struct Definitions {
    pub(super) known: IndexMap<SmolStr, Arc<Definition>>,
    /// Definitions that no longer compile with what they depend on, and why. Their names are unbound meanwhile.
    pub(super) aside: IndexMap<SmolStr, (Arc<Definition>, String)>,
}

/// Identity of a module, independent of how it was imported.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    Library(String),
    File(PathBuf),
}

impl Key {
    /// Returns the name for messages and `Module::name`.
    pub fn name(&self) -> String {
        match self {
            Key::Library(name) => format!("std.{name}"),
            Key::File(path) => path.display().to_string(),
        }
    }
}

/// The modules loaded in a session.
#[derive(Clone, Debug, Default)]
pub struct Modules {
    pub(super) known: HashMap<Key, ModuleId>,
}

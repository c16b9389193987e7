//! The data of a session: sources, program, loaded modules and definitions.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use indexmap::IndexMap;
use rustc_hash::FxHashSet;
use smol_str::SmolStr;

use clk_base::diag::Diagnostic;
use clk_base::file_error::FileError;
use clk_base::shared::CopyOnWrite;
use clk_base::source::{FileId, SourceMap};
use clk_check::typed::{ModuleId, Program};
use clk_syntax::ast;

/// Access to imported files.
pub trait Files {
    /// Returns the text of a file.
    fn read(&self, path: &Path) -> Result<String, FileError>;

    /// Adds the text of a file, or its translation from another language, to the sources.
    fn load(&self, path: &Path, sources: &mut SourceMap) -> Result<LoadedFile, FileError> {
        Ok(LoadedFile::of_text(path, self.read(path)?, sources))
    }

    /// Returns the names of the files in the same directory, for suggestions about a misspelled import.
    fn neighbors(&self, _path: &Path) -> Vec<String> {
        vec![]
    }

    /// Returns the file of a project's module, such as `shapes` or `shapes.solid`, that a file in `_folder` imports;
    /// `None` if the folder does not belong to a project.
    fn module(&self, _words: &[&str], _folder: &Path) -> Option<Result<PathBuf, MissingModule>> {
        None
    }
}

/// A file whose text is in the sources.
pub struct LoadedFile {
    pub file: FileId,
    /// Messages about its translation. Those about the text are not included.
    pub diagnostics: Vec<Diagnostic>,
}

impl LoadedFile {
    /// Adds a text to the sources.
    pub fn of_text(path: &Path, text: String, sources: &mut SourceMap) -> LoadedFile {
        LoadedFile { file: sources.add(path.display().to_string(), text), diagnostics: vec![] }
    }
}

/// The error for an import of a project's module that is not available.
pub struct MissingModule {
    pub code: &'static str,
    pub title: String,
    pub help: String,
}

/// An implementation of [`Files`] without any files, for texts that import only the standard library.
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _path: &Path) -> Result<String, FileError> {
        Err(FileError::Refused("files are not available here"))
    }
}

/// The sources and the program of a script or a REPL session.
#[derive(Clone, Default)]
pub struct Session {
    pub sources: SourceMap,
    pub program: Program,
    /// The module to which scripts and REPL entries are added.
    pub main: Option<ModuleId>,
    /// The directory for relative imports of the main module. If empty, the directory that contains the text's own
    /// file.
    pub folder: PathBuf,
    /// Imported modules, each loaded once.
    pub modules: Modules,
    /// The definitions made by the entries of a REPL session.
    pub definitions: SessionDefinitions,
}

/// The result of compiling a source text.
pub struct CompileResult {
    pub file: FileId,
    /// Warnings, and errors if the text was rejected.
    pub diagnostics: Vec<Diagnostic>,
    /// The range of new chunks in `program.chunks`, to be run in order.
    pub chunks: std::ops::Range<usize>,
}

impl CompileResult {
    pub fn failed(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }

    /// Removes all warnings, because they may be consequences of errors: a name that seems unused may be used in a
    /// statement that could not be parsed.
    pub(super) fn drop_warnings(&mut self) {
        self.diagnostics.retain(Diagnostic::is_error);
    }
}

/// A definition in a REPL session, with its syntax tree.
#[derive(Debug)]
pub struct SessionDefinition {
    pub(super) name: SmolStr,
    pub(super) item: ast::Item,
    /// All identifiers in the definition, which include every name to which it may refer.
    pub(super) words: FxHashSet<SmolStr>,
}

/// The definitions made by the entries of a REPL session.
#[derive(Clone, Debug, Default)]
pub struct SessionDefinitions {
    pub(super) current: CopyOnWrite<IndexMap<SmolStr, Arc<SessionDefinition>>>,
    /// Definitions that no longer compile with the current versions of their dependencies, and why. Their names are
    /// unbound until they compile again.
    pub(super) set_aside: CopyOnWrite<IndexMap<SmolStr, (Arc<SessionDefinition>, String)>>,
}

/// The identity of a module. It does not depend on the path by which the module was imported.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ModuleKey {
    Library(String),
    File(PathBuf),
}

impl ModuleKey {
    /// Returns the module's name, which is used in messages and as `Module::name`.
    pub fn name(&self) -> String {
        match self {
            ModuleKey::Library(name) => format!("std.{name}"),
            ModuleKey::File(path) => path.display().to_string(),
        }
    }
}

/// The modules loaded in a session.
#[derive(Clone, Debug, Default)]
pub struct Modules {
    pub(super) ids: CopyOnWrite<HashMap<ModuleKey, ModuleId>>,
}

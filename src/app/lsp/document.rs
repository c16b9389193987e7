//! An open document and its analysis.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::cuda_analysis::CudaAnalysis;
use super::text::Text;
use crate::disk::Disk;
use crate::{cuda_files, uri};
use clk_base::file_error::FileError;
use clk_base::source::SourceMap;
use clk_compile::{Files, LoadedFile, MissingModule};
use clk_ide::Analysis;
use clk_import::ImportOptions;
use clk_syntax::ast::{ImportSource, Item, ItemKind};

pub(crate) struct Document {
    pub text: Text,
    pub version: i64,
    /// The name of the source: the path of the file, or the URI in angle brackets for a text that is not a file.
    pub name: String,
    pub path: Option<PathBuf>,
    /// Whether the text is CUDA C++, and not Clk.
    pub is_cuda: bool,
    /// The analysis of a Clk program, computed when a request or the publication of diagnostics first needs it.
    pub analysis: OnceLock<Arc<Analysis>>,
    /// The analysis of a CUDA file, computed likewise.
    pub cuda: OnceLock<Arc<CudaAnalysis>>,
    #[cfg(test)]
    pub is_endless: bool,
}

impl Document {
    pub fn new(address: &str, is_cuda: bool, text: Text, version: i64) -> Document {
        let path = uri::to_path(address);
        let name = path.as_ref().map_or_else(|| format!("<{address}>"), |p| p.display().to_string());
        Document {
            text,
            version,
            name,
            path,
            is_cuda,
            analysis: OnceLock::new(),
            cuda: OnceLock::new(),
            #[cfg(test)]
            is_endless: false,
        }
    }

    /// Returns the same text without an analysis, because a file that it imports has changed.
    pub fn outdated(&self, address: &str) -> Document {
        Document::new(address, self.is_cuda, self.text.clone(), self.version)
    }

    /// Whether the document imports files. Before it is analyzed, returns whether it contains the word `import`.
    pub fn may_import_files(&self) -> bool {
        if self.is_cuda {
            // Only local headers are read.
            return self.text.as_str().lines().any(|line| line.contains("include") && line.contains('"'));
        }
        let is_import = |item: &Item| matches!(&item.kind, ItemKind::Import(import) if matches!(import.source, ImportSource::File { .. }));
        match self.analysis.get() {
            Some(analysis) => analysis.tree.items.iter().any(is_import),
            None => self.text.as_str().contains("import"),
        }
    }
}

/// Returns whether a document that an editor opens is CUDA C++. Editors call the language of CUDA files `cuda`,
/// `cuda-cpp` or `cpp`.
pub(crate) fn is_cuda(address: &str, language: &str) -> bool {
    let has_name = || uri::to_path(address).is_some_and(|path| cuda_files::is_cuda_file(&path));
    matches!(language, "cuda" | "cuda-cpp") || (language != "clk" && has_name())
}

/// The open documents, by URI.
pub(crate) type Documents = BTreeMap<String, Arc<Document>>;

/// The files as the editor shows them: the text of an open document replaces the file on disk.
pub(crate) struct Overlay<'d>(pub &'d Documents);

impl Files for Overlay<'_> {
    fn read(&self, path: &Path) -> Result<String, FileError> {
        match self.0.values().find(|d| d.path.as_deref() == Some(path)) {
            Some(document) => Ok(document.text.as_str().to_owned()),
            None => Disk.read(path),
        }
    }

    fn load(&self, path: &Path, sources: &mut SourceMap) -> Result<LoadedFile, FileError> {
        match cuda_files::is_cuda_file(path) {
            true => cuda_files::load_module(path, &ImportOptions::default(), &|path| self.read(path), sources),
            false => Ok(LoadedFile::of_text(path, self.read(path)?, sources)),
        }
    }

    fn module(&self, words: &[&str], folder: &Path) -> Option<Result<PathBuf, MissingModule>> {
        Disk.module(words, folder)
    }

    fn neighbors(&self, path: &Path) -> Vec<String> {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().take(2000);
        let mut names: Vec<String> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

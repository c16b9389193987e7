//! The analysis of an open CUDA file: its translation, the messages of the checker, and the faults that proofs find.
//!
//! Faults are searched after the other messages are published, one kernel at a time, so that requests need not wait
//! for proofs.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::source_places::SourcePlaces;
use super::text::Text;
use crate::cuda_files::{self, LoadedCuda};
use crate::cuda_proofs::{self, KERNEL_TIME, TOTAL_TIME};
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::typed::KernelId;
use clk_compile::{Files, Session};
use clk_import::ImportOptions;
use clk_import::ast::{CppDecl, CppDeclKind, CppFunction, FunctionBody, FunctionName};
use clk_import::source::SourceSpan;
use clk_prove::kernels_of_file;
use clk_syntax::ast::{ItemKind, SourceFile};

/// The search for faults in the kernels of a file.
#[derive(Default)]
struct FaultSearch {
    /// The number of kernels that were searched.
    searched: usize,
    used: Duration,
    found: Vec<Diagnostic>,
}

/// A function of a CUDA file.
pub(crate) struct CudaSymbol {
    pub name: String,
    /// `__global__`, `__device__` or empty.
    pub detail: &'static str,
    pub range: Range<usize>,
    pub name_range: Range<usize>,
}

/// A translated kernel and where it is defined.
pub(crate) struct KernelPlace<'a> {
    /// The name in the translation.
    pub name: &'a str,
    /// The name in the CUDA file.
    pub place: Range<usize>,
    /// Whether the kernel is one of several instances of a template.
    pub is_instance: bool,
}

pub(crate) struct CudaAnalysis {
    pub session: Session,
    pub loaded: LoadedCuda,
    tree: SourceFile,
    /// Messages at places of the CUDA file and of its headers.
    diagnostics: Vec<Diagnostic>,
    kernels: Vec<KernelId>,
    search: Mutex<FaultSearch>,
}

impl CudaAnalysis {
    /// Translates and checks a text. `name` is its path; `files` provides its headers.
    pub fn new(name: &str, text: &str, files: &dyn Files) -> CudaAnalysis {
        let mut session = Session::default();
        let read = |path: &std::path::Path| files.read(path);
        let options = ImportOptions::default();
        let loaded = cuda_files::translate(name, text.to_owned(), &options, &read, &mut session.sources);
        let (tree, _) = clk_syntax::parse(loaded.file, session.sources.text(loaded.file));
        let mut outcome = session.add_file(loaded.file, files);
        if !outcome.failed() {
            outcome.diagnostics.extend(session.examine());
        }
        let refused = loaded.program.refused.iter().map(|refused| refused.diagnostic.clone());
        let errors = loaded.kernel_errors.iter().cloned();
        let all = loaded.diagnostics.iter().cloned().chain(refused).chain(errors).chain(outcome.diagnostics);
        let diagnostics = all.map(|found| found.at_origins(&session.sources).into_owned()).collect();
        let kernels = kernels_of_file(&session.program, session.main);
        CudaAnalysis { session, loaded, tree, diagnostics, kernels, search: Mutex::default() }
    }

    fn search(&self) -> MutexGuard<'_, FaultSearch> {
        self.search.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all messages that are known so far.
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        self.diagnostics.iter().chain(&self.search().found).cloned().collect()
    }

    /// Returns whether a kernel remains in which to search for faults.
    pub fn has_unsearched(&self) -> bool {
        let search = self.search();
        search.searched < self.kernels.len() && search.used < TOTAL_TIME
    }

    /// Searches for faults in the next kernel. Returns whether there are any.
    pub fn search_next(&self) -> bool {
        let (at, used) = {
            let search = self.search();
            (search.searched, search.used)
        };
        let Some(id) = self.kernels.get(at).filter(|_| used < TOTAL_TIME) else { return false };
        let start = Instant::now();
        let limit = KERNEL_TIME.min(TOTAL_TIME.saturating_sub(used));
        let faults = cuda_proofs::find_faults(&self.session, *id, &self.loaded.program.kernels, limit);
        let mut search = self.search();
        (search.searched, search.used) = (at + 1, used + start.elapsed());
        let faults = faults.iter().map(|found| found.at_origins(&self.session.sources).into_owned());
        let count = search.found.len();
        search.found.extend(faults);
        search.found.len() > count
    }

    pub fn kernel(&self, name: &str) -> Option<KernelId> {
        self.kernels.iter().copied().find(|id| self.session.program.kernels[*id].name == name)
    }

    /// Returns how to show places of these sources in a document.
    pub fn places<'a>(&'a self, text: &'a Text, address: &'a str) -> SourcePlaces<'a> {
        SourcePlaces { sources: &self.session.sources, file: self.loaded.source, text, address }
    }

    /// Returns the `#include` directive of this file through which a diagnostic's file is read.
    pub fn blamed_include(&self, found: &Diagnostic) -> Range<usize> {
        let file = found.primary().map(|span| span.file);
        let directives = file.into_iter().flat_map(|file| self.loaded.provenance.includes(file));
        directives.filter(|directive| directive.file == self.loaded.source).last().map_or(0..0, |place| place.range())
    }

    /// Returns the range of a place in this file that no macro produced.
    fn own_range(&self, place: SourceSpan) -> Option<Range<usize>> {
        (place.span.file == self.loaded.source && place.expansion.is_none()).then(|| place.span.range())
    }

    /// Returns the translated kernels that are in this file, in textual order. Instances of a template have one place.
    pub fn kernels(&self) -> Vec<KernelPlace<'_>> {
        let all = &self.loaded.program.kernels;
        let in_file = all.iter().filter(|kernel| self.kernel(&kernel.clk_name).is_some());
        let mut own: Vec<KernelPlace<'_>> = in_file
            .filter_map(|kernel| {
                let is_instance = all.iter().filter(|other| other.source == kernel.source).count() > 1;
                Some(KernelPlace { name: &kernel.clk_name, place: self.own_range(kernel.source)?, is_instance })
            })
            .collect();
        own.sort_by_key(|kernel| kernel.place.start);
        own
    }

    /// Returns a text in Markdown about the kernel whose name in its definition is at an offset, and the range of the
    /// name: the signatures in Clk of the kernel's instances, and their assumptions.
    pub fn hover(&self, offset: usize) -> Option<(String, Range<usize>)> {
        let kernels = self.kernels();
        let here: Vec<&KernelPlace<'_>> =
            kernels.iter().filter(|kernel| kernel.place.start <= offset && offset <= kernel.place.end).collect();
        let place = here.first()?.place.clone();
        let texts: Vec<String> = here.iter().filter_map(|kernel| self.description(kernel.name)).collect();
        (!texts.is_empty()).then(|| (texts.join("\n\n---\n\n"), place))
    }

    fn description(&self, name: &str) -> Option<String> {
        let sources = &self.session.sources;
        let header = self.tree.items.iter().find_map(|item| match &item.kind {
            ItemKind::Kernel(kernel) if kernel.name.text == name => {
                Some(Span::new(self.loaded.file, kernel.name.span.range().start, kernel.body.span.range().start))
            }
            _ => None,
        })?;
        let mut text = format!("```clk\nkernel {}\n```", sources.slice(header).trim_end());
        let kernel = self.loaded.program.kernels.iter().find(|kernel| kernel.clk_name == name)?;
        if !kernel.assumptions.is_empty() {
            text += "\n\nThe translation assumes that";
        }
        for assumption in &kernel.assumptions {
            let (line, _) = sources.line_column(assumption.source.span);
            text += &format!("\n- {} (line {line})", assumption.text);
        }
        Some(text)
    }

    /// Returns the kernels and other functions that this file defines, in textual order.
    pub fn symbols(&self) -> Vec<CudaSymbol> {
        let mut out = vec![];
        self.add_symbols(&self.loaded.unit.decls, "", &mut out);
        out.sort_by_key(|symbol| symbol.name_range.start);
        out
    }

    fn add_symbols(&self, decls: &[CppDecl], scope: &str, out: &mut Vec<CudaSymbol>) {
        for decl in decls {
            match &decl.kind {
                CppDeclKind::LinkageBlock(decls) => self.add_symbols(decls, scope, out),
                CppDeclKind::Namespace { name, decls, .. } => {
                    let inner =
                        name.as_ref().map_or_else(|| scope.to_owned(), |name| format!("{scope}{}::", name.text));
                    self.add_symbols(decls, &inner, out);
                }
                CppDeclKind::Record(record) => {
                    let name = record.name.as_ref().map_or("", |name| name.text.as_str());
                    let scope = format!("{scope}{name}::");
                    for member in record.members.iter().flatten() {
                        self.add_symbols(std::slice::from_ref(&member.decl), &scope, out);
                    }
                }
                CppDeclKind::Function(function) => out.extend(self.symbol(function, decl.span, scope)),
                CppDeclKind::Refused { name: Some(name), kernel, .. } => {
                    if let Some(name_range) = self.own_range(name.span) {
                        let (name, detail) = (format!("{scope}{}", name.text), if *kernel { "__global__" } else { "" });
                        let range = self.range_around(&name_range, decl.span);
                        out.push(CudaSymbol { name, detail, range, name_range });
                    }
                }
                _ => {}
            }
        }
    }

    fn symbol(&self, function: &CppFunction, place: SourceSpan, scope: &str) -> Option<CudaSymbol> {
        if matches!(function.body, FunctionBody::None | FunctionBody::Deleted | FunctionBody::Pure) {
            return None;
        }
        let name = match &function.name {
            FunctionName::Plain(name) | FunctionName::Constructor(name) => name.to_string(),
            FunctionName::Destructor(name) => format!("~{name}"),
            FunctionName::Operator(name) => format!("operator{name}"),
            FunctionName::Conversion => "operator".to_owned(),
        };
        let scope = match &function.scope {
            Some(outer) => format!("{scope}{}::", self.session.sources.slice(outer.span.span)),
            None => scope.to_owned(),
        };
        let name_range = self.own_range(function.name_span)?;
        let detail = match &function.attributes {
            attributes if attributes.global => "__global__",
            attributes if attributes.device => "__device__",
            _ => "",
        };
        let range = self.range_around(&name_range, place);
        Some(CudaSymbol { name: format!("{scope}{name}"), detail, range, name_range })
    }

    /// Returns the range of a declaration; that of its name if a macro produced a part of it.
    fn range_around(&self, name: &Range<usize>, place: SourceSpan) -> Range<usize> {
        let whole = self.own_range(place).filter(|whole| whole.start <= name.start && name.end <= whole.end);
        whole.unwrap_or_else(|| name.clone())
    }
}

//! Resolves imports to modules, loads each module once, and reports import cycles.

use std::path::{Component, Path, PathBuf};

use super::session::{Files, ModuleKey, Session};
use clk_base::diag::{Applicability, Diagnostic};
use clk_base::file_error::FileError;
use clk_base::source::{FileId, Span};
use clk_check::Imports;
use clk_check::typed::{Module, ModuleId};
use clk_stdlib as library;
use clk_syntax::ast;

impl Session {
    /// Forgets which files were imported, so that they are read again when they are imported next.
    pub fn forget_files(&mut self) {
        self.modules.ids.retain(|key, _| matches!(key, ModuleKey::Library(_)));
    }
}

/// Loads the imports of a text, recursively.
pub(super) struct ImportLoader<'a> {
    session: &'a mut Session,
    files: &'a dyn Files,
    diagnostics: &'a mut Vec<Diagnostic>,
    /// Modules being loaded, outermost first.
    open: Vec<ModuleKey>,
}

/// The maximum depth of import chains. Prevents a stack overflow.
const MAX_DEPTH: usize = 64;

impl<'a> ImportLoader<'a> {
    pub fn new(session: &'a mut Session, files: &'a dyn Files, diagnostics: &'a mut Vec<Diagnostic>) -> Self {
        ImportLoader { session, files, diagnostics, open: vec![] }
    }

    /// Loads the imports of the main text. `own` is the path of the main text, if it is a file.
    pub fn imports(mut self, tree: &ast::SourceFile, base: &Path, own: Option<PathBuf>) -> Imports {
        self.open.extend(own.map(|path| ModuleKey::File(normalize(&path))));
        self.file_imports(tree, Some(base))
    }

    /// Loads the imports of a file. `base` is the directory for relative paths; `None` for files of the standard
    /// library.
    fn file_imports(&mut self, tree: &ast::SourceFile, base: Option<&Path>) -> Imports {
        let mut imports = Imports::new();
        for item in &tree.items {
            let ast::ItemKind::Import(import) = &item.kind else { continue };
            match self.load_module(import, base) {
                Ok(module) => {
                    imports.insert(import.span, module);
                }
                Err(diagnostic) => self.diagnostics.push(*diagnostic),
            }
        }
        imports
    }

    fn load_module(&mut self, import: &ast::Import, base: Option<&Path>) -> Result<ModuleId, Box<Diagnostic>> {
        let (key, span) = module_key(import, base, self.files)?;
        if let Some(&known) = self.session.modules.ids.get(&key) {
            return Ok(known);
        }
        if let Some(start) = self.open.iter().position(|open| *open == key) {
            return Err(self.cycle_error(start, &key, span));
        }
        if self.open.len() > MAX_DEPTH {
            return Err(Box::new(
                Diagnostic::error("E0292", "imports nest too deep").at(span, format!("more than {MAX_DEPTH} deep")),
            ));
        }
        let (file, base) = match &key {
            ModuleKey::Library(name) => {
                let text = library::text(name).ok_or_else(|| unknown_library(&key.name(), span))?;
                (self.session.sources.add(format!("std/{name}.clk"), text), None)
            }
            ModuleKey::File(path) => {
                let loaded = self.files.load(path, &mut self.session.sources);
                let loaded = loaded.map_err(|why| self.unreadable_error(import, path, &why, span))?;
                self.diagnostics.extend(loaded.diagnostics);
                (loaded.file, path.parent().map(Path::to_path_buf))
            }
        };
        self.open.push(key.clone());
        let module = self.check_module(&key, file, base.as_deref());
        self.open.pop();
        self.session.modules.ids.insert(key, module);
        Ok(module)
    }

    fn check_module(&mut self, key: &ModuleKey, file: FileId, base: Option<&Path>) -> ModuleId {
        let (tree, mut diagnostics) = clk_syntax::parse(file, self.session.sources.text(file));
        let new_module = Module { name: key.name().into(), file, doc: tree.doc.clone(), ..Module::default() };
        let module = self.session.program.modules.push(new_module);
        let imports = self.file_imports(&tree, base);
        diagnostics.extend(clk_check::check(&mut self.session.program, module, &tree, &imports));
        // Warnings about files of the standard library are not shown to users.
        let is_user_file = matches!(key, ModuleKey::File(_));
        self.diagnostics.extend(diagnostics.into_iter().filter(|diagnostic| is_user_file || diagnostic.is_error()));
        module
    }

    // Messages

    fn cycle_error(&self, start: usize, key: &ModuleKey, span: Span) -> Box<Diagnostic> {
        let name = key.name();
        let mut steps: Vec<String> = self.open.iter().skip(start).map(ModuleKey::name).collect();
        steps.push(name.clone());
        let title = if steps.len() == 2 {
            format!("`{name}` imports itself")
        } else {
            format!("imports go in a circle: {}", steps.join(" → "))
        };
        Box::new(
            Diagnostic::error("E0292", title)
                .at(span, "this imports a file that is still being loaded")
                .help("move the shared definitions into a third file that both import"),
        )
    }

    fn unreadable_error(&self, import: &ast::Import, path: &Path, why: &FileError, span: Span) -> Box<Diagnostic> {
        let written = match &import.source {
            ast::ImportSource::File { path, .. } => path.as_str(),
            ast::ImportSource::Path(_) => "",
        };
        let title = format!("`{written}` cannot be imported: {why}");
        let mut diagnostic = Diagnostic::error("E0290", title).at(span, format!("looked for `{}`", path.display()));
        let file_name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let neighbors = self.files.neighbors(path);
        if let Some(closest_name) = closest(&file_name, neighbors.iter().map(String::as_str)) {
            let folder = written.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
            let text = format!("\"{folder}{closest_name}\"");
            let title = format!("did you mean {text}?");
            diagnostic = diagnostic.fix(title, span, text, Applicability::MaybeIncorrect);
        }
        Box::new(diagnostic)
    }
}

/// Resolves an import to a module. The error contains the location to report.
fn module_key(
    import: &ast::Import,
    base: Option<&Path>,
    files: &dyn Files,
) -> Result<(ModuleKey, Span), Box<Diagnostic>> {
    match &import.source {
        ast::ImportSource::File { path, span } => match base {
            Some(base) => Ok((ModuleKey::File(normalize(&base.join(path.as_str()))), *span)),
            None => {
                Err(Box::new(Diagnostic::error("E0290", "the standard library imports no files").at(*span, "a file")))
            }
        },
        ast::ImportSource::Path(names) => {
            let span = names.iter().map(|name| name.span).reduce(Span::to).unwrap_or(import.span);
            let words: Vec<&str> = names.iter().map(|name| name.text.as_str()).collect();
            match words.as_slice() {
                ["std", rest @ ..] if !rest.is_empty() => Ok((ModuleKey::Library(rest.join(".")), span)),
                ["std"] => Err(unknown_module_error("`std` itself is not a module", span)),
                words => match base.and_then(|base| files.module(words, base)) {
                    Some(Ok(path)) => Ok((ModuleKey::File(normalize(&path)), span)),
                    Some(Err(missing)) if foreign_module_help(words.first().unwrap_or(&"")).is_none() => {
                        let label = format!("`{}` is not available", words.join("."));
                        Err(Box::new(Diagnostic::error(missing.code, missing.title).at(span, label).help(missing.help)))
                    }
                    _ => Err(not_in_library_error(&words.join("."), span)),
                },
            }
        }
    }
}

fn unknown_library(name: &str, span: Span) -> Box<Diagnostic> {
    let word = name.strip_prefix("std.").unwrap_or(name);
    let title = format!("there is no module `{name}` in the standard library");
    match closest(word, library::MODULES.iter().map(|(name, _)| *name)) {
        None => unknown_module_error(&title, span),
        Some(meant) => Box::new(Diagnostic::error("E0291", title).at(span, "unknown module").fix(
            format!("did you mean `std.{meant}`?"),
            span,
            format!("std.{meant}"),
            Applicability::MaybeIncorrect,
        )),
    }
}

fn unknown_module_error(title: &str, span: Span) -> Box<Diagnostic> {
    let names: Vec<String> = library::MODULES.iter().map(|(name, _)| format!("`std.{name}`")).collect();
    let diagnostic = Diagnostic::error("E0291", title).at(span, "unknown module");
    Box::new(if names.is_empty() { diagnostic } else { diagnostic.help(format!("there are {}", names.join(", "))) })
}

fn not_in_library_error(path: &str, span: Span) -> Box<Diagnostic> {
    let first = path.split('.').next().unwrap_or(path);
    let error = Diagnostic::error("E0293", format!("`{path}` is not part of the standard library"))
        .at(span, "by name, `std.…` is imported, and what a `clk.toml` lists");
    if let Some(help) = foreign_module_help(first) {
        return Box::new(error.help(help));
    }
    if library::text(path).is_some() {
        let text = format!("std.{path}");
        return Box::new(error.fix(format!("write `{text}`"), span, text, Applicability::MachineApplicable));
    }
    let file = format!("\"./{}.clk\"", path.replace('.', "/"));
    Box::new(error.fix(format!("import the file {file}"), span, file, Applicability::MaybeIncorrect))
}

/// If the name is a module of another language, returns help text about its equivalent in Clk.
fn foreign_module_help(name: &str) -> Option<&'static str> {
    Some(match name {
        "numpy" | "np" | "cupy" | "jax" | "torch" | "scipy" => {
            "array functions are built in and need no prefix: `zeros(3, 4)`, `sum(x, axis = 0)`, `a @ b`; `clk doc` lists \
             them, with the modules of the standard library"
        }
        "numba" | "triton" | "cuda" | "pycuda" => {
            "kernels are part of the language: `kernel name(x: [f32; N], out r: [f32; N]) threads(i: N) { … }`"
        }
        "matplotlib" | "pylab" | "plt" => {
            "`plot(x, y)`, `scatter`, `bar`, `hist`, `heat(a)` and `image(a)` are built in"
        }
        "math" | "cmath" => {
            "`sqrt`, `sin`, `exp` and the like are built in, without import and prefix: `sqrt(2.0)`; the module `std.math` \
             has `PI`, `gcd`, `lerp` and others"
        }
        "time" | "timeit" => "`time { … }` measures, and `clk bench` runs `bench` blocks",
        "sys" | "os" | "argparse" => "`args` has the script's arguments; `load` and `save` deal with files",
        "pandas" | "csv" | "json" | "pickle" => {
            "`load` and `save` read and write CSV, JSON, NPY, NPZ and safetensors files"
        }
        "pytest" | "unittest" => "tests are `test \"name\" { … }`, run by `clk test`",
        _ => return None,
    })
}

/// Returns the name in `names` that is most similar to the misspelled `word`.
fn closest<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    names
        .map(|name| (strsim::damerau_levenshtein(&word.to_lowercase(), &name.to_lowercase()), name))
        .filter(|(distance, _)| *distance <= word.len().max(3) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Removes `.` and `dir/..` from a path, so that all paths to a file have the same key.
fn normalize(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(result.components().next_back(), Some(Component::Normal(_))) => {
                result.pop();
            }
            other => result.push(other),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_key() {
        for (written, module_key) in [("a/./b.clk", "a/b.clk"), ("a/../b.clk", "b.clk"), ("../b.clk", "../b.clk")] {
            assert_eq!(normalize(Path::new(written)), Path::new(module_key));
        }
    }

    #[test]
    fn near_names_are_found() {
        assert_eq!(closest("linag", ["linalg", "math"].into_iter()), Some("linalg"));
        assert_eq!(closest("zzz", ["linalg", "math"].into_iter()), None);
    }
}

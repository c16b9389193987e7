//! `clk import`: translates the kernels of a CUDA C++ file to Clk, or counts the kernels that can be translated.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::context::AppContext;
use crate::{cuda_files, disk, exit};
use clk_base::source::{SourceMap, Span};
use clk_import::{HeaderReader, ImportOptions};

pub(crate) fn files(paths: &[PathBuf], output: Option<&Path>, context: &mut AppContext) -> u8 {
    let [path] = paths else {
        context.console.error_line("error: `clk import` translates one file\n  Help: `--coverage` reads several files");
        return exit::USAGE;
    };
    let mut sources = SourceMap::default();
    let Some(translation) = cuda_files::translate(path, &mut sources, &mut context.console) else {
        context.console.summary();
        return exit::FAILURE;
    };
    match output {
        None => context.console.print(&translation.text),
        Some(output) => {
            if let Err(why) = disk::write_atomically(output, translation.text.as_bytes()) {
                context.console.report(&disk::unwritable(output, &why), &sources);
                return exit::FAILURE;
            }
        }
    }
    context.console.summary();
    if translation.refused.is_empty() { exit::OK } else { exit::FAILURE }
}

/// A kernel of the files under `--coverage`.
struct CoveredKernel {
    name: String,
    /// The construct that stops the translation; `None` for an accepted kernel.
    construct: Option<String>,
}

/// The place of a kernel's definition: the file, the line and the name. A header that several files include defines
/// its kernels once.
type DefinitionPlace = (PathBuf, usize, String);

/// Prints the number of accepted kernels, and the constructs that stop the others.
pub(crate) fn coverage(paths: &[PathBuf], context: &mut AppContext) -> u8 {
    let mut kernels: BTreeMap<DefinitionPlace, CoveredKernel> = BTreeMap::new();
    let mut failed = false;
    for path in paths {
        let mut sources = SourceMap::default();
        let text = match disk::read_source(path) {
            Ok(text) => text,
            Err(why) => {
                context.console.report(&disk::unreadable(path, &why), &sources);
                failed = true;
                continue;
            }
        };
        for (place, kernel) in kernels_of(path, text, &context.console.cuda_options, &mut sources) {
            // A kernel is accepted if it is accepted in one of the files that include it.
            let known = kernels.get(&place);
            if known.is_none_or(|known| known.construct.is_some()) {
                kernels.insert(place, kernel);
            }
        }
    }
    if context.console.json {
        for ((file, line, _), kernel) in &kernels {
            let line = json!({
                "file": file.display().to_string(),
                "line": line,
                "kernel": kernel.name,
                "accepted": kernel.construct.is_none(),
                "construct": kernel.construct,
            });
            context.console.line(&line.to_string());
        }
    } else {
        show(&kernels, context);
    }
    if failed { exit::FAILURE } else { exit::OK }
}

/// Returns the kernels of a CUDA file. A template is accepted if all of its instances are.
fn kernels_of(
    path: &Path,
    text: String,
    options: &ImportOptions,
    sources: &mut SourceMap,
) -> BTreeMap<DefinitionPlace, CoveredKernel> {
    let file = sources.add(path.display().to_string(), text);
    let read_header: &HeaderReader<'_> = &|path| disk::read_source(Path::new(path)).ok();
    let parsed = clk_import::parse(sources, file, options, read_header);
    let translation = clk_import::translate(&parsed.unit, &parsed.provenance);
    let place = |span: Span, name: &str| -> DefinitionPlace {
        let file = PathBuf::from(sources.name(span.file));
        let file = file.canonicalize().unwrap_or(file);
        (file, sources.line_column(span).0, name.to_string())
    };
    let mut kernels = BTreeMap::new();
    for kernel in &translation.kernels {
        let covered = CoveredKernel { name: kernel.name.to_string(), construct: None };
        kernels.insert(place(kernel.source.span, &kernel.name), covered);
    }
    for refused in &translation.refused {
        let construct = Some(refused.construct.to_string());
        kernels.insert(
            place(refused.source.span, &refused.name),
            CoveredKernel { name: refused.name.to_string(), construct },
        );
    }
    kernels
}

fn show(kernels: &BTreeMap<DefinitionPlace, CoveredKernel>, context: &mut AppContext) {
    let total = kernels.len();
    let mut constructs: BTreeMap<&str, Vec<&DefinitionPlace>> = BTreeMap::new();
    for (place, kernel) in kernels {
        if let Some(construct) = &kernel.construct {
            constructs.entry(construct).or_default().push(place);
        }
    }
    let accepted = total - constructs.values().map(Vec::len).sum::<usize>();
    let share = if total == 0 { 0.0 } else { 100.0 * accepted as f64 / total as f64 };
    context.console.line(&format!("{accepted} of {total} kernels are accepted ({share:.1} %)"));
    if constructs.is_empty() {
        return;
    }
    let mut rows: Vec<_> = constructs.into_iter().collect();
    rows.sort_by_key(|(construct, places)| (std::cmp::Reverse(places.len()), *construct));
    context.console.line("\nrefused  construct");
    for (construct, places) in rows {
        let (file, line, name) = places[0];
        let place = format!("{}:{line}", file.display());
        context.console.fact(&format!("{:>7}  {construct} (`{name}`, {place})", places.len()));
    }
}

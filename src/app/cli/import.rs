//! `clk import`: translates the kernels of a CUDA C++ file to Clk, or counts the kernels that can be translated.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::context::AppContext;
use crate::cuda_files::{self, LoadedCuda};
use crate::{cuda_program, disk, exit};
use clk_base::escape;
use clk_base::source::{SourceMap, Span};

/// Translates a file. With `script`, statements that launch each kernel follow the translation.
pub(crate) fn files(paths: &[PathBuf], output: Option<&Path>, script: bool, context: &mut AppContext) -> u8 {
    let [path] = paths else {
        context.console.error_line("error: `clk import` translates one file\n  Help: `--coverage` reads several files");
        return exit::USAGE;
    };
    let mut sources = SourceMap::default();
    let Some(loaded) = cuda_program::load(path, &mut sources, &mut context.console) else {
        context.console.summary();
        return exit::FAILURE;
    };
    let mut text = sources.text(loaded.file).to_string();
    if script {
        text += &loaded.script;
    }
    match output {
        None => context.console.print(&text),
        Some(output) => {
            if let Err(why) = disk::write_atomically(output, text.as_bytes()) {
                context.console.report(&disk::unwritable(output, &why), &sources);
                return exit::FAILURE;
            }
        }
    }
    context.console.summary();
    if loaded.program.refused.is_empty() { exit::OK } else { exit::FAILURE }
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
        let loaded = match cuda_files::load_unexamined(path, &context.console.cuda_options, &mut sources) {
            Ok(loaded) => loaded,
            Err(why) => {
                context.console.report(&disk::unreadable(path, &why), &sources);
                failed = true;
                continue;
            }
        };
        for (place, kernel) in covered_kernels(&loaded, &sources) {
            // A kernel is accepted if it is accepted in one of the files that include it.
            let known = kernels.get(&place);
            if known.is_none_or(|known| known.construct.is_some()) {
                kernels.insert(place, kernel);
            }
        }
    }
    let data = |((file, line, _), kernel): (&DefinitionPlace, &CoveredKernel)| {
        json!({
            "file": file.display().to_string(),
            "line": line,
            "kernel": kernel.name,
            "accepted": kernel.construct.is_none(),
            "construct": kernel.construct,
        })
    };
    context.console.results("coverage", || kernels.iter().map(data).collect(), |_| coverage_text(&kernels));
    if failed { exit::FAILURE } else { exit::OK }
}

/// Returns the kernels of a CUDA file. A template is accepted if all of its instances are.
fn covered_kernels(loaded: &LoadedCuda, sources: &SourceMap) -> BTreeMap<DefinitionPlace, CoveredKernel> {
    let place = |span: Span, name: &str| -> DefinitionPlace {
        let file = PathBuf::from(sources.name(span.file));
        let file = file.canonicalize().unwrap_or(file);
        (file, sources.line_column(span).0, name.to_string())
    };
    let mut kernels = BTreeMap::new();
    for kernel in &loaded.program.kernels {
        let covered = CoveredKernel { name: kernel.name.to_string(), construct: None };
        kernels.insert(place(kernel.source.span, &kernel.name), covered);
    }
    for refused in &loaded.program.refused {
        let construct = Some(refused.construct.to_string());
        kernels.insert(
            place(refused.source.span, &refused.name),
            CoveredKernel { name: refused.name.to_string(), construct },
        );
    }
    kernels
}

fn coverage_text(kernels: &BTreeMap<DefinitionPlace, CoveredKernel>) -> String {
    let total = kernels.len();
    let mut constructs: BTreeMap<&str, Vec<&DefinitionPlace>> = BTreeMap::new();
    for (place, kernel) in kernels {
        if let Some(construct) = &kernel.construct {
            constructs.entry(construct).or_default().push(place);
        }
    }
    let accepted = total - constructs.values().map(Vec::len).sum::<usize>();
    let share = if total == 0 { 0.0 } else { 100.0 * accepted as f64 / total as f64 };
    let mut text = format!("{accepted} of {total} kernels are accepted ({share:.1} %)\n");
    if constructs.is_empty() {
        return text;
    }
    let mut rows: Vec<_> = constructs.into_iter().collect();
    rows.sort_by_key(|(construct, places)| (std::cmp::Reverse(places.len()), *construct));
    text += "\nrefused  construct\n";
    for (construct, places) in rows {
        let (file, line, name) = places[0];
        let place = format!("{}:{line}", file.display());
        text += &format!("{:>7}  {construct} (`{name}`, {place})\n", places.len());
    }
    escape::lines(&text).into_owned()
}

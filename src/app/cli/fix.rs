//! `clk fix`: applies machine-applicable fixes.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::check::program_files;
use super::profile;
use crate::context::AppContext;
use crate::disk::{self, Disk};
use crate::{difference, exit, fixes, script};
use clk_base::diag::Diagnostic;
use clk_base::source::SourceMap;
use clk_compile::{CompileResult, Session};

/// Maximum number of rounds. Fixes may uncover further errors, but more rounds than this indicate a cycle of fixes.
const MAX_ROUNDS: usize = 16;

/// Options of `clk fix`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FixOptions {
    pub dry_run: bool,
    /// Whether to also apply the fixes that the profiler suggests.
    pub profile: bool,
}

pub(crate) fn paths(paths: &[PathBuf], manner: FixOptions, context: &mut AppContext) -> u8 {
    let FixOptions { dry_run, .. } = manner;
    let current = [PathBuf::from(".")];
    let paths = if paths.is_empty() { &current } else { paths };
    let mut failed = false;
    let (mut files, mut total) = (0, 0);
    for path in program_files(paths, context, &mut failed) {
        match file(&path, manner, context) {
            Ok(0) => {}
            Ok(count) => (files, total) = (files + 1, total + count),
            Err(()) => failed = true,
        }
    }
    let counts = json!({ "command": "fix", "files": files, "fixes": total, "applied": !dry_run });
    context.console.record("summary", counts);
    if context.console.is_human() {
        let place = match files {
            0 => String::new(),
            1 => " in 1 file".to_owned(),
            n => format!(" in {n} files"),
        };
        let fix_count = if total == 1 { "1 fix".to_owned() } else { format!("{total} fixes") };
        let would = if dry_run { "would be " } else { "" };
        context.console.line(&format!("{fix_count} {would}applied{place}"));
    }
    if failed { exit::FAILURE } else { exit::OK }
}

/// Applies the fixes of a file and returns their number. Reports a failure and returns `Err`.
fn file(path: &Path, manner: FixOptions, context: &mut AppContext) -> Result<usize, ()> {
    let name = path.display().to_string();
    let before = disk::read_source(path).map_err(|why| {
        context.console.report(&disk::unreadable(path, &why), &SourceMap::default());
    })?;
    let (mut text, mut count) = fixed(&name, &before);
    if manner.profile
        && let Some((faster, more)) = profiled(path, &text, context)
    {
        (text, count) = (faster, count + more);
    }
    if count == 0 {
        return Ok(0);
    }
    if manner.dry_run {
        let shown = difference::show(&name, &before, &text, context.console.style);
        context.console.print(&shown);
        return Ok(count);
    }
    disk::write_atomically(path, text.as_bytes()).map_err(|why| {
        context.console.report(&disk::unwritable(path, &why), &SourceMap::default());
    })?;
    Ok(count)
}

/// Profiles a program and applies the machine-applicable suggestions. Returns the changed text and the number of fixes.
fn profiled(path: &Path, text: &str, context: &mut AppContext) -> Option<(String, usize)> {
    let name = path.display().to_string();
    let folder = path.parent().unwrap_or(Path::new(""));
    let compiled = script::compile_text(&name, text, folder, &mut context.console)?;
    let advice = profile::advice_of(&compiled, context);
    let main = compiled.session.program.modules.get(compiled.session.main?)?.file;
    let edits = fixes::non_overlapping(&advice, main);
    let next = fixes::apply(text, &edits);
    let after = Session { folder: folder.to_path_buf(), ..Session::default() }.add(&name, &next, &Disk);
    (!edits.is_empty() && !after.failed()).then_some((next, edits.len()))
}

/// Applies all machine-applicable fixes of a text, in several rounds; returns the result and the number of fixes. A
/// round after which there are more errors is undone.
fn fixed(name: &str, text: &str) -> (String, usize) {
    let errors = |edits: &CompileResult| edits.diagnostics.iter().filter(|d: &&Diagnostic| d.is_error()).count();
    let compile = |text: &str| Session::default().add(name, text, &Disk);
    let (mut text, mut count) = (text.to_owned(), 0);
    let mut outcome = compile(&text);
    for _ in 0..MAX_ROUNDS {
        let edits = fixes::non_overlapping(&outcome.diagnostics, outcome.file);
        if edits.is_empty() {
            break;
        }
        let next = fixes::apply(&text, &edits);
        let after = compile(&next);
        if errors(&after) > errors(&outcome) {
            break;
        }
        count += edits.len();
        (text, outcome) = (next, after);
    }
    (text, count)
}

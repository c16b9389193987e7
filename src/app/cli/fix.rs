//! `clk fix`: applies machine-applicable fixes.

use std::path::{Path, PathBuf};

use super::check::programs;
use super::profile;
use crate::app::context::Context;
use crate::app::disk::{self, Disk};
use crate::app::{difference, exit, fixes, script};
use crate::base::diag::Diagnostic;
use crate::base::source::Sources;
use crate::compile::{Outcome, Session};

/// Limit on rounds: a fix may uncover the next error, but more rounds than this indicate a cycle.
const MAX_ROUNDS: usize = 16;

/// Options of `clk fix`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    pub dry_run: bool,
    /// Fixes that profiles advise are applied as well.
    pub profile: bool,
}

pub(crate) fn paths(paths: &[PathBuf], manner: Manner, context: &mut Context) -> u8 {
    let Manner { dry_run, .. } = manner;
    let here = [PathBuf::from(".")];
    let paths = if paths.is_empty() { &here } else { paths };
    let mut failed = false;
    let (mut files, mut total) = (0, 0);
    for path in programs(paths, context, &mut failed) {
        match file(&path, manner, context) {
            Ok(0) => {}
            Ok(count) => (files, total) = (files + 1, total + count),
            Err(()) => failed = true,
        }
    }
    if !context.console.json {
        let place = match files {
            0 => String::new(),
            1 => " in 1 file".to_owned(),
            n => format!(" in {n} files"),
        };
        let found = if total == 1 { "1 fix".to_owned() } else { format!("{total} fixes") };
        let would = if dry_run { "would be " } else { "" };
        context.console.line(&format!("{found} {would}applied{place}"));
    }
    if failed { exit::FAILURE } else { exit::OK }
}

/// Returns the number of fixes applied; `Err` after a failure was reported.
fn file(path: &Path, manner: Manner, context: &mut Context) -> Result<usize, ()> {
    let name = path.display().to_string();
    let before = disk::read_source(path).map_err(|why| {
        context.console.report(&disk::unreadable(path, &why), &Sources::default());
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
    disk::write_whole(path, text.as_bytes()).map_err(|why| {
        context.console.report(&disk::unwritable(path, &why), &Sources::default());
    })?;
    Ok(count)
}

/// Runs a program, and returns its text with what its profile is sure of, and the number of fixes.
fn profiled(path: &Path, text: &str, context: &mut Context) -> Option<(String, usize)> {
    let name = path.display().to_string();
    let folder = path.parent().unwrap_or(Path::new(""));
    let compiled = script::compile_text(&name, text, folder, &mut context.console)?;
    let advice = profile::advises(&compiled, context);
    let main = compiled.session.program.modules.get(compiled.session.main?)?.file;
    let found = fixes::together(&advice, main);
    let next = fixes::apply(text, &found);
    let after = Session { folder: folder.to_path_buf(), ..Session::default() }.add(&name, &next, &Disk);
    (!found.is_empty() && !after.failed()).then_some((next, found.len()))
}

/// Returns the text with all machine-applicable fixes applied in rounds, and their number. A round that increases the number of
/// errors is undone.
fn fixed(name: &str, text: &str) -> (String, usize) {
    let errors = |found: &Outcome| found.diagnostics.iter().filter(|d: &&Diagnostic| d.is_error()).count();
    let compile = |text: &str| Session::default().add(name, text, &Disk);
    let (mut text, mut count) = (text.to_owned(), 0);
    let mut outcome = compile(&text);
    for _ in 0..MAX_ROUNDS {
        let found = fixes::together(&outcome.diagnostics, outcome.file);
        if found.is_empty() {
            break;
        }
        let next = fixes::apply(&text, &found);
        let after = compile(&next);
        if errors(&after) > errors(&outcome) {
            break;
        }
        count += found.len();
        (text, outcome) = (next, after);
    }
    (text, count)
}

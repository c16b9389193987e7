//! `clk fmt`: formats files, directories or standard input.

use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::check::program_files;
use crate::context::AppContext;
use crate::{difference, disk, exit};
use clk_base::file_error::FileError;
use clk_base::source::SourceMap;
use clk_fmt::Formatted;

/// The number of files, the number of files whose text changed, and whether formatting has failed.
#[derive(Default)]
struct FormatStats {
    files: usize,
    changed: usize,
    failed: bool,
}

pub(crate) fn paths(paths: &[PathBuf], check: bool, lines: Option<(usize, usize)>, context: &mut AppContext) -> u8 {
    if paths == [Path::new("-")] {
        return standard_input(check, lines, context);
    }
    let current = [PathBuf::from(".")];
    let paths = if paths.is_empty() { &current } else { paths };
    let mut count = FormatStats::default();
    let mut failed = false;
    for path in program_files(paths, context, &mut failed) {
        file(&path, check, lines, &mut count, context);
    }
    context.console.summary();
    count.failed |= failed;
    if context.console.is_human() {
        report(&count, check, context);
    }
    if count.failed || check && count.changed > 0 { exit::FAILURE } else { exit::OK }
}

fn report(count: &FormatStats, check: bool, context: &mut AppContext) {
    let files = |n: usize| format!("{n} file{}", if n == 1 { "" } else { "s" });
    let line = match (check, count.changed) {
        (true, 0) if count.failed => return,
        (true, 0) => format!("{} laid out as they should be", files(count.files)),
        (true, changed) => format!("{} would change", files(changed)),
        (false, changed) => format!("{} changed out of {}", files(changed), count.files),
    };
    context.console.line(&line);
}

fn file(path: &Path, check: bool, lines: Option<(usize, usize)>, count: &mut FormatStats, context: &mut AppContext) {
    let name = path.display().to_string();
    let text = match disk::read_source(path) {
        Ok(text) => text,
        Err(why) => {
            context.console.report(&disk::unreadable(path, &why), &SourceMap::default());
            count.failed = true;
            return;
        }
    };
    count.files += 1;
    let Some(formatted) = format(&name, &text, lines, context) else {
        count.failed = true;
        return;
    };
    if formatted.text == text {
        return;
    }
    if check {
        count.changed += 1;
        let shown = difference::show(&name, &text, &formatted.text, context.console.style);
        context.console.print(&shown);
        return;
    }
    match disk::write_atomically(path, formatted.text.as_bytes()) {
        Ok(()) => count.changed += 1,
        Err(why) => {
            context.console.report(&disk::unwritable(path, &why), &SourceMap::default());
            count.failed = true;
        }
    }
}

fn standard_input(check: bool, lines: Option<(usize, usize)>, context: &mut AppContext) -> u8 {
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().read_to_end(&mut bytes);
    let text = match read.map_err(FileError::from).and_then(|_| disk::source_text(bytes)) {
        Ok(text) => text,
        Err(why) => {
            context.console.error_line(&format!("error: standard input cannot be read: {why}"));
            return exit::FAILURE;
        }
    };
    let Some(formatted) = format("<stdin>", &text, lines, context) else { return exit::FAILURE };
    if !check {
        context.console.print(&formatted.text);
        return exit::OK;
    }
    let shown = difference::show("<stdin>", &text, &formatted.text, context.console.style);
    context.console.print(&shown);
    if formatted.text == text { exit::OK } else { exit::FAILURE }
}

/// Formats a text, or only the given range of lines. Reports syntax errors and returns `None` if there are any.
fn format(name: &str, text: &str, lines: Option<(usize, usize)>, context: &mut AppContext) -> Option<Formatted> {
    let mut sources = SourceMap::default();
    let file = sources.add(name, text);
    let formatted = match lines {
        Some((first, last)) => clk_fmt::format_range(file, text, bytes_of(text, first, last)),
        None => clk_fmt::format(file, text),
    };
    formatted.map_err(|diagnostics| context.console.report_all(&diagnostics, &sources)).ok()
}

/// Returns the byte range of the lines `first..=last`, counted from 1, without the last line end.
fn bytes_of(text: &str, first: usize, last: usize) -> Range<usize> {
    let mut starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1));
    let start = starts.clone().nth(first - 1).unwrap_or(text.len());
    let end = starts.nth(last).map_or(text.len(), |next| next - 1);
    start..end.max(start)
}

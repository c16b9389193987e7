//! Renders diagnostics for terminals and as JSON lines; the only module that uses ariadne.
//!
//! Ariadne draws the frame, the source lines and the labels. The submodules reduce sources to the labeled lines
//! (`excerpt`), convert fixes to help texts (`suggest`) and wrap long texts (`wrap`, `labels`). Rendering clamps
//! invalid spans; it never fails or panics.

mod excerpt;
mod json;
mod labels;
mod suggest;
pub mod wrap;

use std::fmt::Write as _;

use ariadne::{CharSet, Color, Config, IndexType, LabelAttach, Report, ReportKind};

use crate::diag::{DiagLabel, Diagnostic, Severity};
use crate::source::{FileId, SourceMap};
use excerpt::Excerpts;

pub use json::{JSON_VERSION, applicability_word, json, place_json};

/// Rendering options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenderStyle {
    pub color: bool,
    /// Whether to use ASCII characters only.
    pub ascii: bool,
    /// Width of the terminal in columns. Source lines, labels, notes and help texts are cut or wrapped to it.
    pub width: usize,
}

impl Default for RenderStyle {
    fn default() -> Self {
        RenderStyle { color: false, ascii: false, width: 100 }
    }
}

/// Maximum number of labels shown.
const MAX_LABELS: usize = 12;

/// Returns a diagnostic as text that ends with a newline.
pub fn text(diagnostic: &Diagnostic, sources: &SourceMap, style: RenderStyle) -> String {
    let diagnostic = &*diagnostic.at_origins(sources);
    let drawn = match diagnostic.primary() {
        Some(_) => render_framed(diagnostic, sources, style),
        None => render_unframed(diagnostic, sources, style),
    };
    let drawn = if style.color { merge_colors(&drawn) } else { anstream::adapter::strip_str(&drawn).to_string() };
    trim_lines(&drawn)
}

pub fn severity_word(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

fn severity_color(severity: Severity) -> Color {
    match severity {
        Severity::Error => Color::Red,
        Severity::Warning => Color::Yellow,
        Severity::Note => Color::Cyan,
    }
}

fn heading(diagnostic: &Diagnostic) -> String {
    format!("{}[{}]", severity_word(diagnostic.severity), diagnostic.code)
}

/// Returns the wrapped help texts, which include the fixes, and the wrapped notes.
fn remarks(diagnostic: &Diagnostic, sources: &SourceMap, style: RenderStyle) -> (Vec<String>, Vec<String>) {
    let width = style.width.saturating_sub(16).max(30);
    let fold = |text: &String| wrap::fold(&convert_to_charset(&excerpt::printable(text), style), width).join("\n");
    let mut help: Vec<String> = diagnostic.help.iter().map(fold).collect();
    // The original text, before wrapping and conversion to ASCII.
    let mut last_help = diagnostic.help.last().map(String::as_str);
    for fix in &diagnostic.fixes {
        suggest::add_suggestion(fix, last_help.take(), sources, width, &mut help);
    }
    let help = help.iter().map(|text| convert_to_charset(text, style)).collect();
    (help, diagnostic.notes.iter().map(fold).collect())
}

/// Renders a diagnostic without labels: the title, then help texts and notes indented below it.
fn render_unframed(diagnostic: &Diagnostic, sources: &SourceMap, style: RenderStyle) -> String {
    let paint = |on: &str, text: &str| if style.color { format!("\x1b[{on}m{text}\x1b[0m") } else { text.to_string() };
    let color = match diagnostic.severity {
        Severity::Error => "31",
        Severity::Warning => "33",
        Severity::Note => "36",
    };
    let mut drawn = format!("{} {}\n", paint(color, &(heading(diagnostic) + ":")), title(diagnostic, style));
    let (help, notes) = remarks(diagnostic, sources, style);
    for (word, text) in help.iter().map(|t| ("Help", t)).chain(notes.iter().map(|t| ("Note", t))) {
        let indented = text.replace('\n', "\n        ");
        let _ = writeln!(drawn, "  {} {indented}", paint("38;5;115", &format!("{word}:")));
    }
    drawn
}

fn title(diagnostic: &Diagnostic, style: RenderStyle) -> String {
    convert_to_charset(&excerpt::one_line(&diagnostic.title), style)
}

/// Replaces `…`, the only non-ASCII character in messages, if the style is ASCII.
fn convert_to_charset(text: &str, style: RenderStyle) -> String {
    if style.ascii { text.replace('…', "...") } else { text.to_string() }
}

fn render_framed(diagnostic: &Diagnostic, sources: &SourceMap, style: RenderStyle) -> String {
    let Some(primary) = diagnostic.primary() else { return render_unframed(diagnostic, sources, style) };
    let labels = ordered_labels(diagnostic, primary.file);
    let mut excerpts = Excerpts::new(sources, &labels, if style.ascii { "..." } else { "…" }, style.width);
    let kind = heading(diagnostic);
    let place = |label: &DiagLabel| (label.span.file, excerpts.map(label.span));
    let mut report = Report::build(
        ReportKind::Custom(&kind, severity_color(diagnostic.severity)),
        (primary.file, excerpts.map(primary)),
    )
    .with_config(config(style))
    .with_message(title(diagnostic, style))
    .with_labels(labels.iter().map(|label| {
        let color = if label.is_primary() { severity_color(diagnostic.severity) } else { Color::Blue };
        let drawn = ariadne::Label::new(place(label)).with_color(color);
        drawn.with_message(label_text(label, style))
    }));
    let (help, notes) = remarks(diagnostic, sources, style);
    report.with_helps(help);
    report.with_notes(notes);
    let mut drawn = Vec::new();
    match report.finish().write(&mut excerpts, &mut drawn) {
        Ok(()) => {
            let texts: Vec<String> = labels.iter().map(|label| label_text(label, style)).collect();
            let drawn = labels::wrap_labels(&String::from_utf8_lossy(&drawn), &texts, style.width);
            excerpts.restore_places(&drawn)
        }
        Err(_) => render_unframed(diagnostic, sources, style),
    }
}

/// Returns the text of a label. Ariadne does not underline a location whose label is empty.
fn label_text(label: &DiagLabel, style: RenderStyle) -> String {
    let text = convert_to_charset(&excerpt::one_line(&label.text), style);
    if text.is_empty() { "here".into() } else { text }
}

/// Returns the labels in drawing order: the file of the primary label first, each file from top to bottom. Ariadne
/// starts a new section whenever a label is above the previous one.
fn ordered_labels(diagnostic: &Diagnostic, first: FileId) -> Vec<&DiagLabel> {
    let mut labels: Vec<&DiagLabel> = diagnostic.labels.iter().collect();
    labels.sort_by_key(|label| !label.is_primary());
    labels.truncate(MAX_LABELS);
    labels.sort_by_key(|label| (label.span.file != first, label.span.file, label.span.end, label.span.start));
    labels
}

fn config(style: RenderStyle) -> Config {
    Config::new()
        .with_index_type(IndexType::Byte)
        .with_color(style.color)
        .with_tab_width(excerpt::TAB)
        .with_label_attach(LabelAttach::Middle)
        .with_char_set(if style.ascii { CharSet::Ascii } else { CharSet::Unicode })
}

/// Merges the color codes of adjacent characters: ariadne colors each character separately.
fn merge_colors(text: &str) -> String {
    const OFF: &str = "\x1b[0m";
    let mut joined = String::with_capacity(text.len());
    let mut on = "";
    let mut rest = text;
    while let Some(at) = rest.find("\x1b[") {
        let (before, tail) = rest.split_at(at);
        let code = tail.find('m').map_or(tail, |end| &tail[..=end]);
        joined.push_str(before);
        rest = &tail[code.len()..];
        if code == OFF && !on.is_empty() && rest.starts_with(on) {
            rest = &rest[on.len()..];
        } else {
            joined.push_str(code);
            on = if code == OFF { "" } else { code };
        }
    }
    joined + rest
}

/// Removes the trailing blanks that ariadne leaves.
fn trim_lines(text: &str) -> String {
    let mut trimmed = String::with_capacity(text.len());
    for line in text.lines() {
        trimmed.push_str(line.trim_end());
        trimmed.push('\n');
    }
    trimmed
}

/// Numbers of errors and warnings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiagCounts {
    pub errors: usize,
    pub warnings: usize,
}

impl DiagCounts {
    pub fn count(&mut self, diagnostic: &Diagnostic) {
        match diagnostic.severity {
            Severity::Error => self.errors += 1,
            Severity::Warning => self.warnings += 1,
            Severity::Note => {}
        }
    }

    /// Returns "2 errors and 1 warning"; `None` if there were none.
    pub fn summary(self) -> Option<String> {
        let plural = |n: usize, word: &str| (n > 0).then(|| format!("{n} {word}{}", if n == 1 { "" } else { "s" }));
        match (plural(self.errors, "error"), plural(self.warnings, "warning")) {
            (Some(errors), Some(warnings)) => Some(format!("{errors} and {warnings}")),
            (errors, warnings) => errors.or(warnings),
        }
    }
}

#[cfg(test)]
mod tests;

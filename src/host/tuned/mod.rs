//! Tuned constants: selects the recorded configuration of a kernel for a launch.
//!
//! A *choice* is a configuration: a value for each tuned constant. Input: tuning files (through [`TuningStore`]), the
//! device of a launch, and its tuning class (types and size ranges). Output: a choice, or the reason why the launch
//! uses the defaults. The choice depends only on these inputs, so that every process makes the same choice.

pub mod file;

use std::sync::Arc;

use indexmap::IndexSet;
use rustc_hash::FxHashMap;
use smol_str::SmolStr;
use thiserror::Error;

use clk_base::diag::Diagnostic;
use clk_base::file_error::FileError;
use clk_base::source::{FileId, SourceMap, Span};
use clk_check::tune_configs::{self, TuneConfig};
use clk_check::typed::{self, KernelId, Program, Tunable};
use clk_runtime::LaunchProgress;
use clk_scalar::ScalarValue;
use clk_syntax::token::Tok;
use file::{ParseError, TunedEntry, TunedFile, WrittenConfig};

/// Access to tuning files. Implemented by `app`.
pub trait TuningStore: Send + Sync {
    /// Returns the name of a source's tuning file, and its text or the reason why it cannot be read. Returns `None` if
    /// the file does not exist.
    fn read(&self, source: &str) -> Option<(String, Result<String, FileError>)>;
}

/// What the interpreter does at a launch of a kernel with a `tune` clause.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum TuningMode {
    /// Use the recorded choices.
    #[default]
    UseRecorded,
    /// Measure all choices, and then launch with the defaults.
    Measure(Effort),
    /// Check that all choices compute the same results, and then launch with the defaults.
    Compare,
}

/// Limits for the measurement of a choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// Maximum time of a single launch in seconds. A choice that takes longer is rejected.
    pub limit: f64,
    /// Total time for the measurements of one choice in seconds.
    pub budget: f64,
}

/// The tuning state of an interpreter.
#[derive(Default)]
pub struct Tuning {
    pub store: Option<Arc<dyn TuningStore>>,
    pub mode: TuningMode,
    /// The kernels to measure.
    pub kernels_to_measure: Vec<KernelId>,
    /// Kills kernels that ignore the stop flag, after a time limit.
    pub end_kernels: Option<Arc<dyn Fn() + Send + Sync>>,
    files: FxHashMap<FileId, TunedFileState>,
    /// Notices about which choices launches use, and why, for `--stats`. Each is reported once.
    pub notices: IndexSet<String>,
    pub measured: Vec<TuningResult>,
    /// The progress of the measurements, for display.
    pub progress: Arc<LaunchProgress>,
    /// In mode [`TuningMode::Compare`]: the number of compared launches, and the number of choices other than the
    /// defaults that were compared.
    pub compared: (u64, u64),
}

/// The state of a tuning file.
#[derive(Clone)]
pub enum TunedFileState {
    Absent,
    Unreadable { name: String, error: Arc<FileError> },
    Damaged { name: String, damage: ParseError },
    Whole { name: String, file: Arc<TunedFile> },
}

/// The measurements for launches of one class.
#[derive(Clone, Debug)]
pub struct TuningResult {
    pub kernel: KernelId,
    pub device: String,
    pub class: String,
    /// The dimensions of the measured launch, such as `M = 40`.
    pub sizes: String,
    /// The location of the measured launch.
    pub span: Span,
    /// For each choice: the time of a launch in seconds, or the reason why the choice was rejected. The first choice is
    /// the default.
    pub candidates: Vec<(TuneConfig, Result<f64, String>)>,
    /// The index in `candidates` of the fastest choice, or 0 if none is clearly faster than the default.
    pub best: usize,
}

/// Why a line of a tuning file is out of date.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StaleReason {
    #[error("the source tunes no kernel `{0}`")]
    NoKernel(String),
    #[error("the head of `{0}` has changed since it was measured")]
    ChangedHead(SmolStr),
    #[error("`{kernel}` no longer allows {choice}")]
    NotAllowed { kernel: SmolStr, choice: String },
    #[error("`{constant}` is missing, which `{kernel}` tunes")]
    NotChosen { kernel: SmolStr, constant: String },
    #[error("`{kernel}` no longer lists {constant} = {value}")]
    NotListed { kernel: SmolStr, constant: String, value: String },
    #[error("`{kernel}` no longer tunes `{constant}`")]
    NotTuned { kernel: SmolStr, constant: String },
}

/// The reason why no choice is recorded for a launch, or why the recorded choice cannot be used.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum NoChoiceReason {
    /// There are no measurements for the kernel, the device or the tuning class.
    Nothing,
    /// `line` is the line in the tuning file.
    Stale { line: usize, reason: StaleReason },
}

impl Tuning {
    /// Returns the tuning file of a source file. Reads it at the first call.
    pub fn file(&mut self, of: FileId, sources: &SourceMap) -> TunedFileState {
        let store = &self.store;
        let read = || {
            store
                .as_ref()
                .map_or(TunedFileState::Absent, |store| TunedFileState::read_for_source(&**store, sources.name(of)))
        };
        self.files.entry(of).or_insert_with(read).clone()
    }
}

impl TunedFileState {
    /// Reads the tuning file of a source.
    pub fn read_for_source(store: &dyn TuningStore, source: &str) -> TunedFileState {
        let Some((name, text)) = store.read(source) else { return TunedFileState::Absent };
        match text.map(|text| TunedFile::parse(&text)) {
            Ok(Ok(file)) => TunedFileState::Whole { name, file: Arc::new(file) },
            Ok(Err(damage)) => TunedFileState::Damaged { name, damage },
            Err(error) => TunedFileState::Unreadable { name, error: Arc::new(error) },
        }
    }

    /// Returns the file and its name, or `None` if it does not exist. If it is unreadable or damaged, returns an error
    /// at the location `clause`.
    pub fn into_file(self, source: &str, clause: Span) -> Result<Option<(String, Arc<TunedFile>)>, Box<Diagnostic>> {
        let title = match self {
            TunedFileState::Absent => return Ok(None),
            TunedFileState::Whole { name, file } => return Ok(Some((name, file))),
            TunedFileState::Unreadable { name, error } => format!("the choices in `{name}` cannot be read: {error}"),
            TunedFileState::Damaged { name, damage } => {
                format!("`{name}` is not a tuning file: {damage}")
            }
        };
        let d = Diagnostic::error("E0526", title).at(clause, "the choices for these are in that file");
        let help = "remove the file to use the defaults";
        Err(Box::new(d.help(format!("{help}; `clk tune {source}` then writes a new one"))))
    }
}

/// Returns the location of a kernel's `tune` clause.
pub fn tune_clause(kernel: &typed::Kernel) -> Span {
    match (kernel.tunes.first(), kernel.tunes.last()) {
        (Some(first), Some(last)) => first.span.to(last.span),
        _ => kernel.name_span,
    }
}

/// Returns the warning for a line of a tuning file that is out of date.
pub fn stale_warning(
    kernel: &typed::Kernel,
    sources: &SourceMap,
    name: &str,
    line: usize,
    why: &StaleReason,
) -> Diagnostic {
    let title = format!("line {line} of `{name}` is out of date: {why}");
    let command = format!("clk tune {} {}", sources.name(kernel.span.file), kernel.name);
    let warning = Diagnostic::warning("W0612", title).at(tune_clause(kernel), "the defaults are taken");
    warning.help(format!("measure again: `{command}`"))
}

/// Returns the lines of a tuning file that are out of date for the given kernels, or that belong to other kernels. Each
/// has the reason.
pub fn find_stale_lines<'k>(
    file: &TunedFile,
    program: &Program,
    kernels: &[&'k typed::Kernel],
    sources: &SourceMap,
) -> Vec<(usize, Option<&'k typed::Kernel>, StaleReason)> {
    let mut stale_lines = vec![];
    for known in &file.kernels {
        let Some(kernel) = kernels.iter().find(|kernel| kernel.name == known.name.as_str()) else {
            stale_lines.push((known.line, None, StaleReason::NoKernel(known.name.clone())));
            continue;
        };
        if known.hash != head_hash(kernel, sources) {
            stale_lines.push((known.line, Some(*kernel), StaleReason::ChangedHead(kernel.name.clone())));
            continue;
        }
        let of_entries =
            known.entries.iter().filter_map(|entry| Some((entry.line, check_choice(program, kernel, entry).err()?)));
        stale_lines.extend(of_entries.map(|(line, why)| (line, Some(*kernel), why)));
    }
    stale_lines
}

/// The recorded choice for a launch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RecordedChoice {
    pub choice: TuneConfig,
    /// Whether the kernel's body has changed since the measurement. The recorded choice is still valid, but may not be
    /// the fastest one any more.
    pub is_of_other_body: bool,
}

/// Returns the recorded choice for launches of a kernel on a device and in a tuning class.
pub(crate) fn look_up_choice(
    file: &TunedFile,
    program: &Program,
    kernel: &typed::Kernel,
    sources: &SourceMap,
    device: &str,
    class: &str,
) -> Result<RecordedChoice, NoChoiceReason> {
    let Some(known) = file.kernels.iter().find(|known| known.name == kernel.name.as_str()) else {
        return Err(NoChoiceReason::Nothing);
    };
    if known.hash != head_hash(kernel, sources) {
        let reason = StaleReason::ChangedHead(kernel.name.clone());
        return Err(NoChoiceReason::Stale { line: known.line, reason });
    }
    let Some(entry) = known.entries.iter().find(|entry| entry.device == device && entry.class == class) else {
        return Err(NoChoiceReason::Nothing);
    };
    let stale = |reason| NoChoiceReason::Stale { line: entry.line, reason };
    let choice = check_choice(program, kernel, entry).map_err(stale)?;
    let is_of_other_body = entry.body.is_some_and(|body| body != body_hash(kernel, sources));
    Ok(RecordedChoice { choice, is_of_other_body })
}

/// Returns the choice of an entry in a tuning file, or the reason why the kernel no longer allows it.
pub fn check_choice(program: &Program, kernel: &typed::Kernel, entry: &TunedEntry) -> Result<TuneConfig, StaleReason> {
    let choice = choice_of(kernel, &entry.choice)?;
    match tune_configs::admissible(program, kernel).contains(&choice) {
        true => Ok(choice),
        false => Err(StaleReason::NotAllowed { kernel: kernel.name.clone(), choice: choice_text(kernel, &choice) }),
    }
}

/// Parses the values of a configuration, and returns them in the order of the kernel's `tune` clause.
fn choice_of(kernel: &typed::Kernel, setting: &WrittenConfig) -> Result<TuneConfig, StaleReason> {
    let mut choice = vec![];
    for tunable in &kernel.tunes {
        let name = name_of(kernel, tunable);
        let Some((_, value)) = setting.iter().find(|(given, _)| given == name) else {
            return Err(StaleReason::NotChosen { kernel: kernel.name.clone(), constant: name.into() });
        };
        let value_found = tunable.values.iter().find(|listed| tune_configs::text(**listed) == *value);
        let (constant, value) = (name.to_string(), value.clone());
        let kernel = kernel.name.clone();
        choice.push(*value_found.ok_or(StaleReason::NotListed { kernel, constant, value })?);
    }
    match setting.iter().find(|(given, _)| !kernel.tunes.iter().any(|tunable| name_of(kernel, tunable) == given)) {
        Some((name, _)) => Err(StaleReason::NotTuned { kernel: kernel.name.clone(), constant: name.clone() }),
        None => Ok(choice),
    }
}

fn name_of<'k>(kernel: &'k typed::Kernel, tunable: &Tunable) -> &'k str {
    kernel.sig.generics.get(tunable.param as usize).map_or("", |generic| generic.name.as_str())
}

/// Returns a choice as the names of the tuned constants with their values as text.
pub fn choice_config(kernel: &typed::Kernel, choice: &[ScalarValue]) -> WrittenConfig {
    let named_value =
        |(tunable, value): (&Tunable, &ScalarValue)| (name_of(kernel, tunable).to_string(), tune_configs::text(*value));
    kernel.tunes.iter().zip(choice).map(named_value).collect()
}

/// Formats a choice as `BM = 64, BN = 128`.
pub fn choice_text(kernel: &typed::Kernel, choice: &[ScalarValue]) -> String {
    file::config_text(&choice_config(kernel, choice))
}

/// Returns a hash of the tokens of a kernel's head. The head is everything before the body; comments and white space
/// are not tokens.
pub fn head_hash(kernel: &typed::Kernel, sources: &SourceMap) -> u64 {
    let span = kernel.span;
    let end = kernel.body.as_ref().map_or(span.end, |body| body.root.span.start.clamp(span.start, span.end));
    token_hash(sources.slice(Span { end, ..span }))
}

/// Returns a hash of the tokens of a kernel's body. Functions that the kernel calls do not contribute to it.
pub fn body_hash(kernel: &typed::Kernel, sources: &SourceMap) -> u64 {
    kernel.body.as_ref().map_or(0, |body| token_hash(sources.slice(body.root.span)))
}

fn token_hash(text: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let tokens = clk_syntax::lex(FileId(0), text).tokens;
    for token in tokens.iter().filter(|token| !matches!(token.kind, Tok::Newline | Tok::Eof | Tok::Doc)) {
        token.text(text).bytes().for_each(&mut add);
        add(0);
    }
    hash
}

/// Returns the size range of a dimension as text: all sizes above one power of two, up to and including the next one
/// (`513..=1024`).
pub(crate) fn size_class(size: i64) -> String {
    let size = u64::try_from(size).unwrap_or(0);
    let last = size.max(1).next_power_of_two();
    let first = if last == 1 { 0 } else { last / 2 + 1 };
    format!("{first}..={last}")
}

#[cfg(test)]
mod tests {
    use super::size_class;

    #[test]
    fn each_size_is_in_one_range() {
        let ranges: Vec<String> = [0, 1, 2, 3, 4, 5, 8, 9, 1024, 1025].into_iter().map(size_class).collect();
        assert_eq!(
            ranges,
            ["0..=1", "0..=1", "2..=2", "3..=4", "3..=4", "5..=8", "5..=8", "9..=16", "513..=1024", "1025..=2048"]
        );
    }
}

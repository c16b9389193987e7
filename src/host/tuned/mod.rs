//! Choices of tuned constants: what was measured of a program's kernels, and which choice that is for a launch.
//!
//! Input: files beside the sources (through [`Store`]) and the class of a launch: device, types and sizes. Output: a choice, or why
//! the defaults are taken. A choice depends on nothing else, so that every process makes the same one.

pub mod file;

use std::sync::Arc;

use indexmap::IndexSet;
use rustc_hash::FxHashMap;

use crate::base::diag::Diagnostic;
use crate::base::source::{FileId, Sources, Span};
use crate::check::choices::{self, Choice};
use crate::check::typed::{self, KernelId, Program, Tunable};
use crate::device::Progress;
use crate::lang::scalar::Value;
use crate::syntax::token::Tok;
use file::{Damage, Entry, File, Setting};

/// Where files of choices are. Implemented by `app`.
pub trait Store: Send + Sync {
    /// Returns the name of the file of choices of a source, and its text or why it cannot be read; `None` if there is none.
    fn read(&self, source: &str) -> Option<(String, Result<String, String>)>;
}

/// What happens at launches of tuned kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Mode {
    /// They take what was measured.
    #[default]
    Take,
    /// They take the defaults, behind measurements of all choices.
    Measure(Effort),
    /// They take the defaults, and all other choices have to give the same.
    Compare,
}

/// How long a choice is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// Seconds that the launches of one choice may take, before it is refused.
    pub limit: f64,
    /// Seconds of measurements of one choice.
    pub budget: f64,
}

/// State of an interpreter.
#[derive(Default)]
pub struct Tuning {
    pub store: Option<Arc<dyn Store>>,
    pub mode: Mode,
    /// The kernels that are measured.
    pub wanted: Vec<KernelId>,
    /// Ends kernels that do not heed the stop flag.
    pub end_kernels: Option<Arc<dyn Fn() + Send + Sync>>,
    files: FxHashMap<FileId, Read>,
    /// What launches took and why, once each.
    pub said: IndexSet<String>,
    pub measured: Vec<Measured>,
    /// Of the choices that are being measured, for display.
    pub progress: Arc<Progress>,
    /// How many launches were compared, and with how many other choices.
    pub compared: (u64, u64),
}

/// A file of choices as it was found.
#[derive(Clone)]
pub enum Read {
    Absent,
    Unreadable { name: String, why: String },
    Damaged { name: String, damage: Damage },
    Whole { name: String, file: Arc<File> },
}

/// What was found for the launches of one class.
#[derive(Clone, Debug)]
pub struct Measured {
    pub kernel: KernelId,
    pub device: String,
    pub class: String,
    /// The sizes that were measured.
    pub at: String,
    /// The launch that was measured.
    pub span: Span,
    /// For each choice the seconds of a launch, or why it is refused; the first is the default.
    pub tried: Vec<(Choice, Result<f64, String>)>,
    /// The position of the best.
    pub best: usize,
}

/// Why a file says nothing of a launch, or not what it should.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Lacking {
    /// Nothing was measured for this kernel, device or class.
    Nothing,
    /// The kernel or its lists have changed since; where in the file, and what.
    Stale { line: usize, why: String },
}

impl Tuning {
    /// Returns the file of choices of a source, read once.
    pub fn file(&mut self, of: FileId, sources: &Sources) -> Read {
        let store = &self.store;
        let read = || store.as_ref().map_or(Read::Absent, |store| Read::beside(&**store, sources.name(of)));
        self.files.entry(of).or_insert_with(read).clone()
    }
}

impl Read {
    /// Reads the file of choices of a source.
    pub fn beside(store: &dyn Store, source: &str) -> Read {
        let Some((name, text)) = store.read(source) else { return Read::Absent };
        match text.map(|text| File::parse(&text)) {
            Ok(Ok(file)) => Read::Whole { name, file: Arc::new(file) },
            Ok(Err(damage)) => Read::Damaged { name, damage },
            Err(why) => Read::Unreadable { name, why },
        }
    }

    /// Returns the file with its name, if there is one; an error, for kernels of a source with this clause, if it cannot be taken.
    pub fn whole(self, source: &str, clause: Span) -> Result<Option<(String, Arc<File>)>, Box<Diagnostic>> {
        let title = match self {
            Read::Absent => return Ok(None),
            Read::Whole { name, file } => return Ok(Some((name, file))),
            Read::Unreadable { name, why } => format!("the choices in `{name}` cannot be read: {why}"),
            Read::Damaged { name, damage } => {
                format!("`{name}` is no file of choices: line {}: {}", damage.line, damage.why)
            }
        };
        let d = Diagnostic::error("E0526", title).at(clause, "choices for these are in that file");
        let help = "take the file out, and the defaults are taken";
        Err(Box::new(d.help(format!("{help}; `clk tune {source}` then writes a new one"))))
    }
}

/// Returns the place of a kernel's `tune` clause.
pub fn clause(kernel: &typed::Kernel) -> Span {
    match (kernel.tunes.first(), kernel.tunes.last()) {
        (Some(first), Some(last)) => first.span.to(last.span),
        _ => kernel.name_span,
    }
}

/// Returns the warning of what is out of date in the line of a file: of which kernel, and why.
pub fn stale(kernel: &typed::Kernel, sources: &Sources, (name, line): (&str, usize), why: &str) -> Diagnostic {
    let title = format!("line {line} of `{name}` is out of date: {why}");
    let command = format!("clk tune {} {}", sources.name(kernel.span.file), kernel.name);
    let warning = Diagnostic::warning("W0612", title).at(clause(kernel), "the defaults are taken");
    warning.help(format!("measure again: `{command}`"))
}

/// Returns the lines of a file that are out of date for one of these kernels, each with why; and of other kernels.
pub fn all_stale<'k>(
    file: &File,
    program: &Program,
    kernels: &[&'k typed::Kernel],
    sources: &Sources,
) -> Vec<(usize, Option<&'k typed::Kernel>, String)> {
    let mut found = vec![];
    for known in &file.kernels {
        let Some(kernel) = kernels.iter().find(|kernel| kernel.name == known.name.as_str()) else {
            found.push((known.line, None, format!("the source tunes no kernel `{}`", known.name)));
            continue;
        };
        if known.hash != hash(kernel, sources) {
            found.push((known.line, Some(*kernel), other_head(kernel)));
            continue;
        }
        let of_entries =
            known.entries.iter().filter_map(|entry| Some((entry.line, allowed(program, kernel, entry).err()?)));
        found.extend(of_entries.map(|(line, why)| (line, Some(*kernel), why)));
    }
    found
}

fn other_head(kernel: &typed::Kernel) -> String {
    format!("the head of `{}` has changed since it was measured", kernel.name)
}

/// What a file says of a launch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Known {
    pub choice: Choice,
    /// It was measured with another body of the kernel. That changes no result, and perhaps which choice is best.
    pub is_of_other_body: bool,
}

/// Returns what a file says of launches of a kernel.
pub(crate) fn look_up(
    file: &File,
    program: &Program,
    kernel: &typed::Kernel,
    sources: &Sources,
    (device, class): (&str, &str),
) -> Result<Known, Lacking> {
    let Some(known) = file.kernels.iter().find(|known| known.name == kernel.name.as_str()) else {
        return Err(Lacking::Nothing);
    };
    if known.hash != hash(kernel, sources) {
        return Err(Lacking::Stale { line: known.line, why: other_head(kernel) });
    }
    let Some(entry) = known.entries.iter().find(|entry| entry.device == device && entry.class == class) else {
        return Err(Lacking::Nothing);
    };
    let choice = allowed(program, kernel, entry).map_err(|why| Lacking::Stale { line: entry.line, why })?;
    let is_of_other_body = entry.body.is_some_and(|body| body != body_hash(kernel, sources));
    Ok(Known { choice, is_of_other_body })
}

/// Returns the choice of an entry; an error, which says why, if the kernel no longer allows it.
pub fn allowed(program: &Program, kernel: &typed::Kernel, entry: &Entry) -> Result<Choice, String> {
    let choice = choice_of(kernel, &entry.choice)?;
    match choices::admissible(program, kernel).contains(&choice) {
        true => Ok(choice),
        false => Err(format!("`{}` no longer allows {}", kernel.name, text(kernel, &choice))),
    }
}

/// Returns the values of a setting, in the order of the kernel's clause.
fn choice_of(kernel: &typed::Kernel, setting: &Setting) -> Result<Choice, String> {
    let mut choice = vec![];
    for tunable in &kernel.tunes {
        let name = name_of(kernel, tunable);
        let Some((_, value)) = setting.iter().find(|(given, _)| given == name) else {
            return Err(format!("`{name}` is missing, which `{}` tunes", kernel.name));
        };
        let found = tunable.values.iter().find(|listed| choices::text(**listed) == *value);
        choice.push(*found.ok_or_else(|| format!("`{}` no longer lists {name} = {value}", kernel.name))?);
    }
    match setting.iter().find(|(given, _)| !kernel.tunes.iter().any(|tunable| name_of(kernel, tunable) == given)) {
        Some((name, _)) => Err(format!("`{}` no longer tunes `{name}`", kernel.name)),
        None => Ok(choice),
    }
}

fn name_of<'k>(kernel: &'k typed::Kernel, tunable: &Tunable) -> &'k str {
    kernel.sig.generics.get(tunable.param as usize).map_or("", |generic| generic.name.as_str())
}

/// Returns a choice with the names of the constants.
pub fn setting(kernel: &typed::Kernel, choice: &[Value]) -> Setting {
    let named = |(tunable, value): (&Tunable, &Value)| (name_of(kernel, tunable).to_string(), choices::text(*value));
    kernel.tunes.iter().zip(choice).map(named).collect()
}

/// Writes a choice as `BM = 64, BN = 128`.
pub fn text(kernel: &typed::Kernel, choice: &[Value]) -> String {
    file::setting_text(&setting(kernel, choice))
}

/// Returns a number of the tokens of a kernel's head: all before its body but comments and blanks.
pub fn hash(kernel: &typed::Kernel, sources: &Sources) -> u64 {
    let span = kernel.span;
    let end = kernel.body.as_ref().map_or(span.end, |body| body.root.span.start.clamp(span.start, span.end));
    hash_of(sources.slice(Span { end, ..span }))
}

/// Returns a number of the tokens of a kernel's body, without the functions that it calls.
pub fn body_hash(kernel: &typed::Kernel, sources: &Sources) -> u64 {
    kernel.body.as_ref().map_or(0, |body| hash_of(sources.slice(body.root.span)))
}

fn hash_of(text: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let tokens = crate::syntax::lex(FileId(0), text).tokens;
    for token in tokens.iter().filter(|token| !matches!(token.kind, Tok::Newline | Tok::Eof | Tok::Doc)) {
        token.text(text).bytes().for_each(&mut add);
        add(0);
    }
    hash
}

/// Returns the sizes that belong together with one: those between a power of two and the next.
pub(crate) fn range(size: i64) -> String {
    let size = u64::try_from(size).unwrap_or(0);
    let last = size.max(1).next_power_of_two();
    let first = if last == 1 { 0 } else { last / 2 + 1 };
    format!("{first}..={last}")
}

#[cfg(test)]
mod tests {
    use super::range;

    #[test]
    fn each_size_is_in_one_range() {
        let ranges: Vec<String> = [0, 1, 2, 3, 4, 5, 8, 9, 1024, 1025].into_iter().map(range).collect();
        assert_eq!(
            ranges,
            ["0..=1", "0..=1", "2..=2", "3..=4", "3..=4", "5..=8", "5..=8", "9..=16", "513..=1024", "1025..=2048"]
        );
    }
}

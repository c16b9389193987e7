//! Reads and updates the files with tuned configurations. The configurations for `gemm.clk` are in `gemm.tune`, in the
//! same folder.

use std::path::{Path, PathBuf};

use super::disk;
use clk_base::diag::Diagnostic;
use clk_base::file_error::FileError;
use clk_check::typed::{self, KernelId};
use clk_compile::Session;
use clk_host::format;
use clk_host::tuned::file::{MeasuredConfig, TunedEntry, TunedFile, TunedKernel};
use clk_host::tuned::{self, TunedFileState, TuningResult, TuningStore};

/// Stores tuned configurations in files next to the sources.
pub(crate) struct TuningFiles;

impl TuningStore for TuningFiles {
    fn read(&self, source: &str) -> Option<(String, Result<String, FileError>)> {
        let path = tuning_path(source)?;
        // Only a missing file means that there are no configurations. A file that exists but cannot be read is an
        // error.
        std::fs::symlink_metadata(&path).ok()?;
        Some((path.display().to_string(), disk::read_source(&path)))
    }
}

/// Returns the path of the file with the tuned configurations for a source. Returns `None` for the standard library,
/// and for a source that is not a file.
pub(crate) fn tuning_path(source: &str) -> Option<PathBuf> {
    let path = Path::new(source);
    let is_program = path.extension().is_some_and(|extension| extension == "clk") && path.is_file();
    is_program.then(|| path.with_extension("tune"))
}

/// Checks the tuned configurations of a program; returns diagnostics if the file is invalid or some of its lines are
/// outdated.
pub(crate) fn check_file(session: &Session) -> Vec<Diagnostic> {
    let (program, sources) = (&session.program, &session.sources);
    let tuned: Vec<&typed::Kernel> = program.kernels_of(session.main).map(|(_, kernel)| kernel).collect();
    let tuned: Vec<&typed::Kernel> = tuned.into_iter().filter(|kernel| !kernel.tunes.is_empty()).collect();
    let Some(first) = tuned.first() else { return vec![] };
    let source = sources.name(first.span.file);
    let (name, file) =
        match TunedFileState::read_for_source(&TuningFiles, source).into_file(source, tuned::tune_clause(first)) {
            Ok(Some(existing)) => existing,
            Ok(None) => return vec![],
            Err(damaged) => return vec![*damaged],
        };
    let said =
        tuned::find_stale_lines(&file, program, &tuned, sources).into_iter().map(|(line, kernel, why)| match kernel {
            Some(kernel) => tuned::stale_warning(kernel, sources, &name, line, &why),
            None => Diagnostic::warning("W0612", format!("line {line} of `{name}` is out of date: {why}"))
                .help(format!("`clk tune {source}` takes it out")),
        });
    said.collect()
}

/// Adds measurements to the content of a file with tuned configurations; returns the new content, and notes about
/// entries that were removed.
pub(crate) fn merge_measurements(
    old: Option<TunedFile>,
    session: &Session,
    own: &[KernelId],
    measured: &[&TuningResult],
) -> (TunedFile, Vec<String>) {
    let (mut file, mut notes) = (TunedFile::default(), vec![]);
    let old = old.unwrap_or_default();
    for gone in old
        .kernels
        .iter()
        .filter(|kernel| !own.iter().any(|id| session.program.kernels[*id].name == kernel.name.as_str()))
    {
        notes.push(format!("left out what was measured of `{}`, which the source no longer tunes", gone.name));
    }
    for id in own {
        let kernel = &session.program.kernels[*id];
        let hash = tuned::head_hash(kernel, &session.sources);
        let before = old.kernels.iter().find(|old| old.name == kernel.name.as_str());
        let mut entries = match before {
            Some(before) if before.hash == hash => before.entries.clone(),
            Some(_) => {
                notes.push(format!("left out what was measured of an earlier `{}`: its head has changed", kernel.name));
                vec![]
            }
            None => vec![],
        };
        // Values in an entry may refer to constants, which the hash of the kernel's header does not include.
        entries.retain(|entry| {
            let why = tuned::check_choice(&session.program, kernel, entry).err();
            notes.extend(why.iter().map(|why| format!("left out what was measured on {}: {why}", entry.device)));
            why.is_none()
        });
        for measured in measured.iter().filter(|measured| measured.kernel == *id) {
            let new = entry(session, measured);
            match entries.iter_mut().find(|old| old.device == new.device && old.class == new.class) {
                Some(old) => *old = new,
                None => entries.push(new),
            }
        }
        entries.sort_by_key(|entry| (entry.device.clone(), numbers(&entry.class), entry.class.clone()));
        if !entries.is_empty() {
            file.kernels.push(TunedKernel { name: kernel.name.to_string(), hash, entries, line: 0 });
        }
    }
    (file, notes)
}

fn entry(session: &Session, measured: &TuningResult) -> TunedEntry {
    let kernel = &session.program.kernels[measured.kernel];
    let setting = |at: usize| measured.candidates.get(at).map(|(choice, _)| tuned::choice_config(kernel, choice));
    let measurements = measured.candidates.iter().map(|(choice, outcome)| MeasuredConfig {
        setting: tuned::choice_config(kernel, choice),
        outcome: outcome.clone().map(format::seconds),
    });
    TunedEntry {
        device: measured.device.clone(),
        class: measured.class.clone(),
        choice: setting(measured.best).unwrap_or_default(),
        sizes: measured.sizes.clone(),
        body: Some(tuned::body_hash(kernel, &session.sources)),
        measurements: measurements.collect(),
        line: 0,
    }
}

/// Returns the numbers in the name of a size class. Entries are sorted by them.
fn numbers(text: &str) -> Vec<u64> {
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

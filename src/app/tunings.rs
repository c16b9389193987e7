//! Files of choices on the disk: `gemm.tune` beside `gemm.clk`, and what `clk tune` changes in one.

use std::path::{Path, PathBuf};

use super::disk;
use crate::base::diag::Diagnostic;
use crate::check::typed::{self, KernelId};
use crate::compile::Session;
use crate::host::format;
use crate::host::tuned::file::{Entry, File, Found, Kernel};
use crate::host::tuned::{self, Measured, Read, Store};

/// Files of choices beside their sources.
pub(crate) struct Beside;

impl Store for Beside {
    fn read(&self, source: &str) -> Option<(String, Result<String, String>)> {
        let path = beside(source)?;
        // What is there and cannot be read is not as if it were not there.
        std::fs::symlink_metadata(&path).ok()?;
        Some((path.display().to_string(), disk::read_source(&path)))
    }
}

/// Returns where the choices for the kernels of a source are; `None` for texts that are no files, and for the standard library.
pub(crate) fn beside(source: &str) -> Option<PathBuf> {
    let path = Path::new(source);
    let is_program = path.extension().is_some_and(|extension| extension == "clk") && path.is_file();
    is_program.then(|| path.with_extension("tune"))
}

/// Returns what is to be said of the file of choices of a program: it cannot be taken, or lines of it are out of date.
pub(crate) fn examined(session: &Session) -> Vec<Diagnostic> {
    let (program, sources) = (&session.program, &session.sources);
    let tuned: Vec<&typed::Kernel> = program.kernels_of(session.main).map(|(_, kernel)| kernel).collect();
    let tuned: Vec<&typed::Kernel> = tuned.into_iter().filter(|kernel| !kernel.tunes.is_empty()).collect();
    let Some(first) = tuned.first() else { return vec![] };
    let source = sources.name(first.span.file);
    let (name, file) = match Read::beside(&Beside, source).whole(source, tuned::clause(first)) {
        Ok(Some(found)) => found,
        Ok(None) => return vec![],
        Err(damaged) => return vec![*damaged],
    };
    let said = tuned::all_stale(&file, program, &tuned, sources).into_iter().map(|(line, kernel, why)| match kernel {
        Some(kernel) => tuned::stale(kernel, sources, (&name, line), &why),
        None => Diagnostic::warning("W0612", format!("line {line} of `{name}` is out of date: {why}"))
            .help(format!("`clk tune {source}` takes it out")),
    });
    said.collect()
}

/// Returns a file with what was measured of kernels of its source, and notes on what it no longer has.
pub(crate) fn merged(
    old: Option<File>,
    session: &Session,
    own: &[KernelId],
    measured: &[&Measured],
) -> (File, Vec<String>) {
    let (mut file, mut notes) = (File::default(), vec![]);
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
        let hash = tuned::hash(kernel, &session.sources);
        let before = old.kernels.iter().find(|old| old.name == kernel.name.as_str());
        let mut entries = match before {
            Some(before) if before.hash == hash => before.entries.clone(),
            Some(_) => {
                notes.push(format!("left out what was measured of an earlier `{}`: its head has changed", kernel.name));
                vec![]
            }
            None => vec![],
        };
        // Values may be constants, which are no part of the head.
        entries.retain(|entry| {
            let why = tuned::allowed(&session.program, kernel, entry).err();
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
            file.kernels.push(Kernel { name: kernel.name.to_string(), hash, entries, line: 0 });
        }
    }
    (file, notes)
}

fn entry(session: &Session, measured: &Measured) -> Entry {
    let kernel = &session.program.kernels[measured.kernel];
    let setting = |at: usize| measured.tried.get(at).map(|(choice, _)| tuned::setting(kernel, choice));
    let found = measured.tried.iter().map(|(choice, outcome)| Found {
        setting: tuned::setting(kernel, choice),
        outcome: outcome.clone().map(format::seconds),
    });
    Entry {
        device: measured.device.clone(),
        class: measured.class.clone(),
        choice: setting(measured.best).unwrap_or_default(),
        at: measured.at.clone(),
        body: Some(tuned::body_hash(kernel, &session.sources)),
        found: found.collect(),
        line: 0,
    }
}

/// Returns the numbers of a text, by which classes are ordered.
fn numbers(text: &str) -> Vec<u64> {
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

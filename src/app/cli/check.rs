//! `clk check`: compiles programs without running them and reports the diagnostics. Also proves the contracts of
//! kernels, and checks files of tuned configurations.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::json;

use super::prove::ProvedProgram;
use crate::context::AppContext;
use crate::cuda_proofs::{self, KERNEL_TIME, TOTAL_TIME};
use crate::script::{self, CompiledScript};
use crate::{disk, exit, tuning_files};
use clk_base::diag::Diagnostic;
use clk_base::render::DiagCounts;
use clk_check::typed::KernelId;
use clk_compile::Session;
use clk_prove::{check_expectations, kernels_of_file, unavoidable_faults};

/// Which kernels `clk check` tries to prove, in addition to those with contracts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckProofs {
    None,
    /// All kernels, within a time limit; only faults are reported.
    Faults,
    /// All kernels, as `clk prove` does.
    All,
}

pub(crate) fn files(paths: &[PathBuf], proofs: CheckProofs, context: &mut AppContext) -> u8 {
    let mut failed = false;
    let mut time = if proofs == CheckProofs::Faults { TOTAL_TIME } else { Duration::ZERO };
    let mut unproved = 0;
    let mut checked = 0;
    for path in program_files(paths, context, &mut failed) {
        checked += 1;
        let compiled = script::compile_file(&path, &mut context.console);
        failed |= compiled.is_none() || context.console.tally.errors > 0;
        if let Some(compiled) = &compiled {
            let (session, is_cuda) = (&compiled.session, compiled.is_cuda());
            let violations = check_contracts(session, context);
            failed |= violations.iter().any(Diagnostic::is_error);
            match proofs {
                CheckProofs::Faults if is_cuda => unproved += find_faults(compiled, &mut time, context),
                CheckProofs::Faults => unproved += find_unavoidable_faults(session, &violations, &mut time, context),
                CheckProofs::All => {
                    let program = ProvedProgram { compiled, certificates: false };
                    let kernels = kernels_of_file(&session.program, session.main);
                    failed |= program.prove_kernels(&kernels, &violations, context);
                }
                CheckProofs::None => {}
            }
            let choices = tuning_files::check_file(&compiled.session);
            failed |= choices.iter().any(Diagnostic::is_error);
            context.console.report_all(&choices, &compiled.session.sources);
            if let Some(code) = context.interrupt.exit_code() {
                return code;
            }
        }
        // Skips freeing the program node by node, which takes time: the process ends soon.
        std::mem::forget(compiled);
    }
    failed |= context.console.tally.errors > 0;
    context.console.summary();
    let DiagCounts { errors, warnings } = context.console.tally;
    let counts =
        json!({ "command": "check", "files": checked, "errors": errors, "warnings": warnings, "unproved": unproved });
    context.console.record("summary", counts);
    if unproved > 0 {
        let line = format!("note: no faults were looked for in {unproved} kernels; `clk prove` has no time limit");
        context.console.error_line(&line);
    }
    if !failed && context.console.tally.warnings == 0 && context.console.is_human() {
        let line = format!("no mistakes found in {checked} file{}\n", if checked == 1 { "" } else { "s" });
        context.console.results("summary", Vec::new, |_| line);
    }
    if failed { exit::FAILURE } else { exit::OK }
}

/// Tries to prove the contracts of the program's kernels. Reports the violations and returns them.
fn check_contracts(session: &Session, context: &mut AppContext) -> Vec<Diagnostic> {
    let mut all = vec![];
    for id in kernels_of_file(&session.program, session.main) {
        let diagnostics = check_expectations(&session.program, id);
        context.console.report_all(&diagnostics, &session.sources);
        all.extend(diagnostics);
    }
    all
}

/// Tries to prove each kernel of a CUDA file and reports the faults found. Returns the number of kernels for which the
/// time did not suffice.
fn find_faults(compiled: &CompiledScript, time: &mut Duration, context: &mut AppContext) -> usize {
    let session = &compiled.session;
    search_kernels(session, time, context, |id, limit| {
        cuda_proofs::find_faults(session, id, &compiled.cuda.kernels, limit)
    })
}

/// Runs each kernel of a Clk program at a sample of sizes, and reports the faults that no size avoids, except those
/// that are already `reported`. Returns the number of kernels for which the time did not suffice.
fn find_unavoidable_faults(
    session: &Session,
    reported: &[Diagnostic],
    time: &mut Duration,
    context: &mut AppContext,
) -> usize {
    search_kernels(session, time, context, |id, limit| {
        let faults = cuda_proofs::with_time_limit(limit, |stop| unavoidable_faults(&session.program, id, stop));
        let new = faults.into_iter().filter(|fault| !reported.contains(&fault.diagnostic));
        let explained = new.map(|fault| {
            let sizes = if fault.sizes.is_empty() { String::new() } else { format!(" with {}", fault.sizes) };
            let note = format!("found by a launch{sizes}; all other launches that were tried have this fault too");
            fault.diagnostic.note(note)
        });
        explained.collect()
    })
}

/// Searches each kernel of a file for faults and reports them, until `time` is used up. Returns the number of the other
/// kernels.
fn search_kernels(
    session: &Session,
    time: &mut Duration,
    context: &mut AppContext,
    search: impl Fn(KernelId, Duration) -> Vec<Diagnostic>,
) -> usize {
    let mut skipped = 0;
    for id in kernels_of_file(&session.program, session.main) {
        if time.is_zero() {
            skipped += 1;
            continue;
        }
        let start = Instant::now();
        let faults = search(id, KERNEL_TIME.min(*time));
        *time = time.saturating_sub(start.elapsed());
        context.console.report_all(&faults, &session.sources);
    }
    skipped
}

/// Replaces directories by the program files in them. Reports directories that cannot be listed, and then sets
/// `failed`.
pub(crate) fn program_files(paths: &[PathBuf], context: &mut AppContext, failed: &mut bool) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let within = disk::programs(path);
        files.extend(within.programs);
        for (folder, why) in within.unread {
            *failed = true;
            context.console.report(&disk::unlisted(&folder, &why), &Default::default());
        }
    }
    files
}

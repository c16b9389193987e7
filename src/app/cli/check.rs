//! `clk check`: compiles programs without running them and reports the diagnostics. Also proves the contracts of
//! kernels, and checks files of tuned configurations.

use std::path::PathBuf;

use crate::context::AppContext;
use crate::{disk, exit, script, tuning_files};
use clk_base::diag::Diagnostic;
use clk_compile::Session;
use clk_prove::{check_expectations, kernels_of_file};

pub(crate) fn files(paths: &[PathBuf], context: &mut AppContext) -> u8 {
    let mut failed = false;
    let mut checked = 0;
    for path in program_files(paths, context, &mut failed) {
        checked += 1;
        let compiled = script::compile_file(&path, &mut context.console);
        failed |= compiled.is_none() || context.console.tally.errors > 0;
        if let Some(compiled) = &compiled {
            failed |= check_contracts(&compiled.session, context);
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
    context.console.summary();
    if !failed && context.console.tally.warnings == 0 && !context.console.json {
        context.console.line(&format!("no mistakes found in {checked} file{}", if checked == 1 { "" } else { "s" }));
    }
    if failed { exit::FAILURE } else { exit::OK }
}

/// Proves the contracts of the program's kernels; returns whether one of them is violated.
fn check_contracts(session: &Session, context: &mut AppContext) -> bool {
    let mut failed = false;
    for id in kernels_of_file(&session.program, session.main) {
        let diagnostics = check_expectations(&session.program, id);
        failed |= diagnostics.iter().any(Diagnostic::is_error);
        context.console.report_all(&diagnostics, &session.sources);
    }
    failed
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

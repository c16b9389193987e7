//! `clk check`: compiles without running, proves what is expected of kernels, reads the choices of tuned ones, and reports the diagnostics.

use std::path::PathBuf;

use crate::app::context::Context;
use crate::app::{disk, exit, script, tunings};
use crate::base::diag::Diagnostic;
use crate::compile::Session;
use crate::prove::{of_file, unexpected};

pub(crate) fn files(paths: &[PathBuf], context: &mut Context) -> u8 {
    let mut failed = false;
    let mut checked = 0;
    for path in programs(paths, context, &mut failed) {
        checked += 1;
        let compiled = script::compile_file(&path, &mut context.console);
        failed |= compiled.is_none();
        if let Some(compiled) = &compiled {
            failed |= expected(&compiled.session, context);
            let choices = tunings::examined(&compiled.session);
            failed |= choices.iter().any(Diagnostic::is_error);
            context.console.report_all(&choices, &compiled.session.sources);
            if let Some(code) = context.interrupt.exit_code() {
                return code;
            }
        }
        // The process ends soon, so freeing a large tree node by node would be wasted time.
        std::mem::forget(compiled);
    }
    context.console.summary();
    if !failed && context.console.tally.warnings == 0 && !context.console.json {
        context.console.line(&format!("no mistakes found in {checked} file{}", if checked == 1 { "" } else { "s" }));
    }
    if failed { exit::FAILURE } else { exit::OK }
}

/// Proves what is expected of the program's kernels; returns whether something of it does not hold.
fn expected(session: &Session, context: &mut Context) -> bool {
    let mut failed = false;
    for id in of_file(&session.program, session.main) {
        let found = unexpected(&session.program, id);
        failed |= found.iter().any(Diagnostic::is_error);
        context.console.report_all(&found, &session.sources);
    }
    failed
}

/// Expands files and directories to program files. Reports directories that cannot be listed and sets `failed`.
pub(crate) fn programs(paths: &[PathBuf], context: &mut Context, failed: &mut bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in paths {
        if !path.is_dir() {
            found.push(path.clone());
            continue;
        }
        let within = disk::programs(path);
        found.extend(within.programs);
        for (folder, why) in within.unread {
            *failed = true;
            context.console.report(&disk::unlisted(&folder, &why), &Default::default());
        }
    }
    found
}

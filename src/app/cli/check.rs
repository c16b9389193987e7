//! `clk check`: all that can be said without running.

use std::path::PathBuf;

use super::Context;
use crate::app::{disk, exit, script};

pub(crate) fn files(paths: &[PathBuf], context: &mut Context) -> u8 {
    let mut failed = false;
    let mut checked = 0;
    for path in programs(paths, context, &mut failed) {
        checked += 1;
        let compiled = script::compile_file(&path, &mut context.console);
        failed |= compiled.is_none();
        // The process ends soon: taking a large tree apart node by node would be for nothing.
        std::mem::forget(compiled);
    }
    context.console.summary();
    if !failed && context.console.tally.warnings == 0 && !context.console.json {
        context.console.line(&format!("no mistakes found in {checked} file{}", if checked == 1 { "" } else { "s" }));
    }
    if failed { exit::FAILURE } else { exit::OK }
}

/// The program files of files and folders. What cannot be listed is reported and sets `failed`.
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

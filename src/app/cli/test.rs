//! `clk test`: runs the `test` blocks of files in order and reports how many passed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use serde_json::json;

use super::check;
use crate::app::context::Context;
use crate::app::exit;
use crate::app::script::{self, Compiled};
use crate::app::world::Captured;
use crate::base::arena::Id;
use crate::base::diag::{Diagnostic, Severity};
use crate::base::escape;
use crate::check::typed::Section;
use crate::host::interp::Interpreter;
use crate::host::tuned::Mode;
use crate::prove::{Contracts, of_file};

/// How tests are run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct How {
    /// Compare all choices of kernels with `tune`.
    pub tunings: bool,
    /// A test whose launches have warnings fails.
    pub deny_warnings: bool,
}

#[derive(Default)]
struct Count {
    passed: usize,
    failed: usize,
    skipped: usize,
    /// Launches that were compared with other choices, and with how many.
    compared: (u64, u64),
}

pub(crate) fn paths(paths: &[PathBuf], filter: Option<&str>, how: How, context: &mut Context) -> u8 {
    let here = [PathBuf::from(".")];
    let mut unlisted = false;
    let files = check::programs(if paths.is_empty() { &here } else { paths }, context, &mut unlisted);
    let mut count = Count::default();
    for path in &files {
        file(path, filter, how, context, &mut count);
        if let Some(code) = context.interrupt.exit_code() {
            return code;
        }
    }
    let skipped = if count.skipped > 0 { format!(", {} left out by the filter", count.skipped) } else { String::new() };
    let Count { passed, failed, .. } = count;
    if !context.console.json {
        if how.tunings {
            context.console.line(&compared(count.compared));
        }
        context.console.line(&format!("{passed} passed, {failed} failed{skipped}"));
    }
    if failed > 0 || unlisted { exit::FAILURE } else { exit::OK }
}

/// Says what `--tunings` has compared.
fn compared((launches, choices): (u64, u64)) -> String {
    if launches == 0 {
        return "no launch of a kernel with `tune`".into();
    }
    let (es, s) = (if launches == 1 { "" } else { "es" }, if choices == 1 { "" } else { "s" });
    format!("{launches} launch{es} gave the same with {choices} other choice{s}")
}

fn file(path: &Path, filter: Option<&str>, how: How, context: &mut Context, count: &mut Count) {
    let Some(compiled) = script::compile_file(path, &mut context.console) else {
        count.failed += 1;
        verdict(path, "(the file has mistakes)", false, 0.0, context);
        return;
    };
    let (chosen, skipped) = chosen(&compiled, filter);
    count.skipped += skipped;
    if chosen.is_empty() {
        if skipped == 0 {
            untested(&Contracts::default(), &compiled, context);
        }
        return;
    }
    if !context.console.json {
        context.console.fact(&path.display().to_string());
    }
    let mut interpreter = context.limits.interpreter(&context.interrupt, vec![]);
    let contracts = Arc::new(Contracts::default());
    interpreter.trials = Some(contracts.clone());
    if how.tunings {
        interpreter.tuning.mode = Mode::Compare;
    }
    let mut world = Captured::default();
    let uses_globals = chosen.iter().any(|&id| compiled.session.program.tests[id].uses_globals);
    if uses_globals && let Err(diagnostic) = script::run_chunks(&compiled, &mut interpreter, &mut world) {
        count.failed += chosen.len();
        verdict(path, "(the script that the tests use)", false, 0.0, context);
        explain(&diagnostic, &world, &compiled, context);
        return;
    }
    for id in chosen {
        let passed = one(path, id, &compiled, (&mut interpreter, how), context);
        *(if passed { &mut count.passed } else { &mut count.failed }) += 1;
        let (launches, choices) = std::mem::take(&mut interpreter.tuning.compared);
        count.compared = (count.compared.0 + launches, count.compared.1 + choices);
        if context.interrupt.is_set() {
            return;
        }
    }
    if skipped == 0 {
        untested(&contracts, &compiled, context);
    }
}

/// Warns of what is expected of the file's kernels and neither proved nor tested.
fn untested(contracts: &Contracts, compiled: &Compiled, context: &mut Context) {
    let session = &compiled.session;
    for id in of_file(&session.program, session.main) {
        let found = contracts.untested(&session.program, id);
        context.console.report_all(&found, &session.sources);
    }
}

/// Returns the main script's own tests (not those of its imports) that match the filter, and the number of those that do not.
fn chosen(compiled: &Compiled, filter: Option<&str>) -> (Vec<Id<Section>>, usize) {
    let tests = &compiled.session.program.tests;
    let own = tests.iter().filter(|(_, test)| Some(test.module) == compiled.session.main);
    let (chosen, left): (Vec<_>, Vec<_>) = own.partition(|(_, test)| filter.is_none_or(|f| test.title.contains(f)));
    (chosen.into_iter().map(|(id, _)| id).collect(), left.len())
}

fn one(
    path: &Path,
    id: Id<Section>,
    compiled: &Compiled,
    (interpreter, how): (&mut Interpreter, How),
    context: &mut Context,
) -> bool {
    let mut world = Captured::default();
    let start = Instant::now();
    let result = interpreter.run_test(&compiled.session, id, &mut world);
    let seconds = start.elapsed().as_secs_f64();
    let warnings = interpreter.take_warnings();
    let denied = how.deny_warnings && warnings.iter().any(|warning| warning.severity == Severity::Warning);
    verdict(path, &compiled.session.program.tests[id].title, result.is_ok() && !denied, seconds, context);
    context.console.report_all(&warnings, &compiled.session.sources);
    match result {
        Ok(()) => !denied,
        Err(diagnostic) => {
            explain(&diagnostic, &world, compiled, context);
            false
        }
    }
}

fn verdict(path: &Path, title: &str, passed: bool, seconds: f64, context: &mut Context) {
    let console = &mut context.console;
    if console.json {
        let line = json!({ "file": path.display().to_string(), "test": title, "passed": passed, "seconds": seconds });
        return console.line(&escape::json(line.to_string()));
    }
    let word = if passed { console.paint("32", "ok    ") } else { console.paint("31", "FAILED") };
    console.line(&format!("  {word}  {}  ({})", escape::name(title), duration(seconds)));
}

fn explain(diagnostic: &Diagnostic, world: &Captured, compiled: &Compiled, context: &mut Context) {
    context.console.report(diagnostic, &compiled.session.sources);
    if !world.printed.is_empty() && !context.console.json {
        context.console.error_line(&format!("printed before it failed:\n{}", world.printed.trim_end()));
    }
}

/// Formats a duration with a suitable unit.
pub(crate) fn duration(seconds: f64) -> String {
    let (scale, unit) = match seconds {
        s if s < 1e-6 => (1e9, "ns"),
        s if s < 1e-3 => (1e6, "us"),
        s if s < 1.0 => (1e3, "ms"),
        _ => (1.0, "s"),
    };
    let value = seconds * scale;
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn durations() {
        assert_eq!(duration(0.0012345), "1.23 ms");
        assert_eq!(duration(0.0456), "45.6 ms");
        assert_eq!(duration(2.5e-7), "250 ns");
        assert_eq!(duration(12.34), "12.3 s");
    }
}

//! `clk test`: runs the `test` blocks of files in order and reports how many passed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use serde_json::json;

use super::check;
use crate::context::AppContext;
use crate::effects::CapturedEffects;
use crate::exit;
use crate::output::junit::CaseStatus;
use crate::script::{self, CompiledScript};
use clk_base::arena::Id;
use clk_base::diag::{Diagnostic, Severity};
use clk_base::escape;
use clk_check::typed::TestSection;
use clk_host::interp::Interpreter;
use clk_host::tuned::TuningMode;
use clk_prove::{ContractTrials, kernels_of_file};

/// Options of `clk test`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct TestOptions {
    /// Whether to run launches of tuned kernels with every configuration and compare the results.
    pub tunings: bool,
    /// Whether a test fails if its launches have warnings.
    pub deny_warnings: bool,
}

#[derive(Default)]
struct TestStats {
    passed: usize,
    failed: usize,
    skipped: usize,
    /// Number of launches whose results were compared across configurations.
    compared_launches: u64,
    /// Total number of the configurations with which these launches were compared.
    compared_configurations: u64,
}

pub(crate) fn paths(paths: &[PathBuf], filter: Option<&str>, how: TestOptions, context: &mut AppContext) -> u8 {
    let current = [PathBuf::from(".")];
    let mut unlisted = false;
    let files = check::program_files(if paths.is_empty() { &current } else { paths }, context, &mut unlisted);
    let mut count = TestStats::default();
    for path in &files {
        file(path, filter, how, context, &mut count);
        if let Some(code) = context.interrupt.exit_code() {
            return code;
        }
    }
    let skipped = if count.skipped > 0 { format!(", {} left out by the filter", count.skipped) } else { String::new() };
    let TestStats { passed, failed, .. } = count;
    let counts = json!({ "command": "test", "files": files.len(), "passed": passed, "failed": failed, "skipped": count.skipped });
    context.console.record("summary", counts);
    if context.console.is_human() {
        if how.tunings {
            context.console.line(&comparison_summary(count.compared_launches, count.compared_configurations));
        }
        context.console.line(&format!("{passed} passed, {failed} failed{skipped}"));
    }
    if failed > 0 || unlisted { exit::FAILURE } else { exit::OK }
}

/// Summarizes the comparisons of `--tunings`.
fn comparison_summary(launches: u64, choices: u64) -> String {
    if launches == 0 {
        return "no launch of a kernel with `tune`".into();
    }
    let (es, s) = (if launches == 1 { "" } else { "es" }, if choices == 1 { "" } else { "s" });
    format!("{launches} launch{es} gave the same with {choices} other choice{s}")
}

fn file(path: &Path, filter: Option<&str>, how: TestOptions, context: &mut AppContext, count: &mut TestStats) {
    context.console.start_test_suite();
    let Some(compiled) = script::compile_file(path, &mut context.console) else {
        count.failed += 1;
        let title = "(the file does not compile)";
        verdict(path, title, false, None, "", context);
        context.console.add_test_case(&shown_path(path), title, CaseStatus::NotRun, None, "");
        return;
    };
    // Warnings about the file belong to none of its tests.
    context.console.start_test_suite();
    let (chosen, skipped) = compiled.own_tests(filter);
    count.skipped += skipped;
    if chosen.is_empty() {
        if skipped == 0 {
            warn_untested(&ContractTrials::default(), &compiled, context);
        }
        return;
    }
    if context.console.is_human() {
        context.console.fact(&path.display().to_string());
    }
    let mut interpreter = context.limits.interpreter(&context.interrupt, vec![]);
    let contracts = Arc::new(ContractTrials::default());
    interpreter.observers.trials = Some(contracts.clone());
    if how.tunings {
        interpreter.tuning.mode = TuningMode::Compare;
    }
    let mut world = CapturedEffects::default();
    let uses_globals = chosen.iter().any(|&id| compiled.session.program.tests[id].uses_globals);
    if uses_globals && let Err(diagnostic) = script::run_chunks(&compiled, &mut interpreter, &mut world) {
        count.failed += chosen.len();
        let title = "(the script whose variables the tests use)";
        verdict(path, title, false, None, &world.printed, context);
        explain(&diagnostic, &world, &compiled, context);
        context.console.add_test_case(&shown_path(path), title, CaseStatus::NotRun, None, &world.printed);
        return;
    }
    for id in chosen {
        let has_passed = run_one(path, id, &compiled, &mut interpreter, how, context);
        *(if has_passed { &mut count.passed } else { &mut count.failed }) += 1;
        let (launches, choices) = std::mem::take(&mut interpreter.tuning.compared);
        count.compared_launches += launches;
        count.compared_configurations += choices;
        if context.interrupt.is_set() {
            return;
        }
    }
    if skipped == 0 {
        warn_untested(&contracts, &compiled, context);
    }
}

/// Warns about contracts of kernels in this file that no proof covers and no test has exercised.
fn warn_untested(contracts: &ContractTrials, compiled: &CompiledScript, context: &mut AppContext) {
    let session = &compiled.session;
    for id in kernels_of_file(&session.program, session.main) {
        let diagnostics = contracts.untested(&session.program, id);
        context.console.report_all(&diagnostics, &session.sources);
    }
}

fn run_one(
    path: &Path,
    id: Id<TestSection>,
    compiled: &CompiledScript,
    interpreter: &mut Interpreter,
    how: TestOptions,
    context: &mut AppContext,
) -> bool {
    let mut world = CapturedEffects::default();
    let start = Instant::now();
    let result = interpreter.run_test(&compiled.session, id, &mut world);
    let seconds = start.elapsed().as_secs_f64();
    let warnings = interpreter.take_warnings();
    let denied = how.deny_warnings && warnings.iter().any(|warning| warning.severity == Severity::Warning);
    let title = &compiled.session.program.tests[id].title;
    let passed = result.is_ok() && !denied;
    verdict(path, title, passed, Some(seconds), &world.printed, context);
    context.console.report_all(&warnings, &compiled.session.sources);
    if let Err(diagnostic) = result {
        explain(&diagnostic, &world, compiled, context);
    }
    let status = if passed { CaseStatus::Passed } else { CaseStatus::Failed };
    context.console.add_test_case(&shown_path(path), title, status, Some(seconds), &world.printed);
    passed
}

fn shown_path(path: &Path) -> String {
    path.display().to_string()
}

/// Prints the result of a test, before its diagnostics. `seconds` is `None` if the test did not run; `printed` is the
/// output of the test.
fn verdict(path: &Path, title: &str, passed: bool, seconds: Option<f64>, printed: &str, context: &mut AppContext) {
    let printed = (!passed && !printed.is_empty()).then_some(printed);
    let record = json!({
        "file": shown_path(path), "test": title, "passed": passed, "seconds": seconds.unwrap_or_default(),
        "ran": seconds.is_some(), "checked": context.limits.checks().memory, "printed": printed,
    });
    let console = &mut context.console;
    console.record("test", record);
    if !console.is_human() {
        return;
    }
    let word = if passed { console.paint("32", "ok    ") } else { console.paint("31", "FAILED") };
    let time = seconds.map_or(String::new(), |seconds| format!("  ({})", duration(seconds)));
    console.line(&format!("  {word}  {}{time}", escape::name(title)));
}

fn explain(diagnostic: &Diagnostic, world: &CapturedEffects, compiled: &CompiledScript, context: &mut AppContext) {
    context.console.report(diagnostic, &compiled.session.sources);
    if !world.printed.is_empty() && !context.console.is_json() {
        context.console.error_line(&format!("printed before it failed:\n{}", world.printed.trim_end()));
    }
}

/// Formats a duration, in a unit that suits its magnitude.
pub(crate) fn duration(seconds: f64) -> String {
    let (scale, unit) = match seconds {
        s if s < 1e-6 => (1e9, "ns"),
        s if s < 1e-3 => (1e6, "µs"),
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

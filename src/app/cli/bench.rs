//! `clk bench`: measures the `bench` blocks of files.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::check;
use super::test::duration;
use crate::context::AppContext;
use crate::effects::CapturedEffects;
use crate::exit;
use crate::script::{self, CompiledScript};
use clk_base::arena::Id;
use clk_base::escape;
use clk_base::render::RenderStyle;
use clk_check::typed::TestSection;
use clk_host::interp::{BenchResult, Interpreter};

pub(crate) fn paths(paths: &[PathBuf], filter: Option<&str>, context: &mut AppContext) -> u8 {
    let current = [PathBuf::from(".")];
    let mut failed = false;
    let files = check::program_files(if paths.is_empty() { &current } else { paths }, context, &mut failed);
    let mut ran = 0;
    for path in &files {
        match file(path, filter, context) {
            Ok(count) => ran += count,
            Err(()) => failed = true,
        }
        if let Some(code) = context.interrupt.exit_code() {
            return code;
        }
    }
    if ran == 0 && !failed {
        context.console.error_line("no `bench` blocks found");
    }
    if failed { exit::FAILURE } else { exit::OK }
}

/// Runs the benches of a file and returns their number. Reports a failure and returns `Err`.
fn file(path: &Path, filter: Option<&str>, context: &mut AppContext) -> Result<usize, ()> {
    let compiled = script::compile_file(path, &mut context.console).ok_or(())?;
    let chosen = choose(&compiled, filter);
    if chosen.is_empty() {
        return Ok(0);
    }
    if context.console.is_human() {
        context.console.fact(&path.display().to_string());
    }
    run_all(path, &chosen, &compiled, context).map(|()| chosen.len())
}

/// Returns the benches that are in the main script, not in its imports, and whose title contains the filter.
fn choose(compiled: &CompiledScript, filter: Option<&str>) -> Vec<Id<TestSection>> {
    let benches = compiled.session.program.benches.iter();
    benches
        .filter(|(_, bench)| Some(bench.module) == compiled.session.main)
        .filter(|(_, bench)| filter.is_none_or(|f| bench.title.contains(f)))
        .map(|(id, _)| id)
        .collect()
}

/// Creates an interpreter for these benches. If one of them uses variables of the script, runs the script first.
fn prepare(
    chosen: &[Id<TestSection>],
    compiled: &CompiledScript,
    world: &mut CapturedEffects,
    context: &mut AppContext,
) -> Result<Interpreter, ()> {
    let mut interpreter = context.limits.interpreter(&context.interrupt, vec![]);
    let benches = &compiled.session.program.benches;
    if chosen.iter().any(|&id| benches[id].uses_globals) {
        let result = script::run_chunks(compiled, &mut interpreter, world);
        result.map_err(|diagnostic| context.console.report(&diagnostic, &compiled.session.sources))?;
    }
    Ok(interpreter)
}

/// Lets another program control the measurement: it sends the number of runs for a sample and receives the seconds per
/// run. Such a driver can alternate between two versions of a program, so that both are measured under the same
/// conditions.
pub(crate) fn on_demand(paths: &[PathBuf], filter: Option<&str>, context: &mut AppContext) -> u8 {
    let [path] = paths else {
        context.console.error_line("error: `--on-demand` times one bench of one file: name the file");
        return exit::USAGE;
    };
    let Some(compiled) = script::compile_file(path, &mut context.console) else { return exit::FAILURE };
    let [bench] = choose(&compiled, filter)[..] else {
        context.console.error_line("error: `--on-demand` times one bench: choose it with `--filter`");
        return exit::USAGE;
    };
    let mut world = CapturedEffects::default();
    let Ok(mut interpreter) = prepare(&[bench], &compiled, &mut world, context) else { return exit::FAILURE };
    for line in std::io::stdin().lines() {
        let Ok(Ok(runs)) = line.map(|l| l.trim().parse::<u32>()) else {
            context.console.error_line("error: a line of standard input is not a number of runs");
            return exit::FAILURE;
        };
        match interpreter.repeat_bench(&compiled.session, bench, runs, &mut world) {
            Ok(seconds) => context.console.line(&format!("{seconds:e}")),
            Err(diagnostic) => {
                context.console.report(&diagnostic, &compiled.session.sources);
                return script::failure_code(&context.interrupt);
            }
        }
        context.console.flush();
    }
    exit::OK
}

fn run_all(
    path: &Path,
    chosen: &[Id<TestSection>],
    compiled: &CompiledScript,
    context: &mut AppContext,
) -> Result<(), ()> {
    let mut world = CapturedEffects::default();
    let mut interpreter = prepare(chosen, compiled, &mut world, context)?;
    let benches = &compiled.session.program.benches;
    let mut outcome = Ok(());
    for &id in chosen {
        match interpreter.run_bench(&compiled.session, id, &mut world) {
            Ok(result) => show(path, &benches[id].title, &result, context),
            Err(diagnostic) => {
                context.console.report(&diagnostic, &compiled.session.sources);
                outcome = Err(());
            }
        }
        context.console.report_all(&interpreter.take_warnings(), &compiled.session.sources);
        context.console.flush();
        if context.interrupt.is_set() {
            break;
        }
    }
    interpreter.tuning.notices.iter().for_each(|line| context.console.error_line(line));
    outcome
}

/// Returns a quantile of a sorted list by linear interpolation.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let at = (sorted.len().saturating_sub(1)) as f64 * q;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    match (sorted.get(low), sorted.get(high)) {
        (Some(a), Some(b)) => a + (b - a) * (at - at.floor()),
        _ => f64::NAN,
    }
}

/// The distribution of a bench's times, in seconds.
struct SampleQuartiles {
    fastest: f64,
    low: f64,
    median: f64,
    high: f64,
    slowest: f64,
}

impl SampleQuartiles {
    fn of(result: &BenchResult) -> SampleQuartiles {
        let mut samples = result.samples.clone();
        samples.sort_by(f64::total_cmp);
        let [fastest, low, median, high, slowest] =
            [0.0, 0.25, 0.5, 0.75, 1.0].map(|fraction| quantile(&samples, fraction));
        SampleQuartiles { fastest, low, median, high, slowest }
    }
}

fn show(path: &Path, title: &str, result: &BenchResult, context: &mut AppContext) {
    let SampleQuartiles { fastest, low, median, high, slowest } = SampleQuartiles::of(result);
    let console = &mut context.console;
    if console.is_json() {
        let rate = |amount: Option<f64>| amount.map(|a| a / median);
        let line = json!({
            "file": path.display().to_string(), "bench": title, "runs": result.samples.len(),
            "median": median, "min": fastest, "max": slowest, "quartiles": [low, high],
            "bytes_per_second": rate(result.bytes), "flops_per_second": rate(result.flops), "items_per_second": rate(result.items),
        });
        return console.record("bench", line);
    }
    let line = summary(&escape::name(title), result, console.style);
    console.line(&line);
}

/// Formats the median, spread and rates of a bench on one line.
pub(crate) fn summary(title: &str, result: &BenchResult, style: RenderStyle) -> String {
    let SampleQuartiles { fastest, low, median, high, .. } = SampleQuartiles::of(result);
    let spread = if median > 0.0 { (high - low) / 2.0 / median * 100.0 } else { 0.0 };
    let sign = if style.ascii { "+-" } else { "±" };
    let mut line = format!("  {title:<32} {:>9} {sign}{spread:.0}%", duration(median));
    for (amount, unit) in [(result.bytes, "B/s"), (result.flops, "FLOP/s"), (result.items, "items/s")] {
        if let Some(amount) = amount {
            line += &format!("  {}", rate(amount / median, unit));
        }
    }
    line += &format!("  ({} runs, fastest {})", result.samples.len(), duration(fastest));
    if style.ascii { line.replace('µ', "u") } else { line }
}

fn rate(per_second: f64, unit: &str) -> String {
    let (scale, prefix) = match per_second {
        r if r >= 1e12 => (1e12, "T"),
        r if r >= 1e9 => (1e9, "G"),
        r if r >= 1e6 => (1e6, "M"),
        r if r >= 1e3 => (1e3, "k"),
        _ => (1.0, ""),
    };
    format!("{:.2} {prefix}{unit}", per_second / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_and_rates() {
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.5), 2.0);
        assert_eq!(quantile(&[1.0, 2.0], 0.5), 1.5);
        assert!(quantile(&[], 0.5).is_nan());
        assert_eq!(rate(12.5e9, "B/s"), "12.50 GB/s");
        assert_eq!(rate(900.0, "items/s"), "900.00 items/s");
    }
}

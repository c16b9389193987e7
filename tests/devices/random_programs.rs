//! Tests random kernels: the compiler passes and the simulator must agree with the reference interpreter.
//!
//! `CLK_RANDOM_PROGRAMS` is the number of programs, `CLK_RANDOM_SEED` the first seed. A failure prints its seed and the
//! smallest kernel found that still fails. If `CLK_RANDOM_KEEP` names a folder, the kernel is saved there in the format
//! of `tests/regressions`. A long run:
//!
//! ```text
//! CLK_RANDOM_SEED=0 CLK_RANDOM_PROGRAMS=1000000 cargo test --release --test devices everywhere
//! ```

mod peepholes;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clk_base::source::{FileId, Span};
use clk_compile::{NoFiles, Session};
use clk_fmt::format;
use clk_ir::def::Module;
use clk_ir::{Checks, PreparedKernel, text, verify};
use clk_lower::{Instance, lower};
use clk_runtime::{Control, Device, Fault, FaultKind, LaunchExtents};
use clk_step::timeline::Timeline;
use clk_step::{NoObserver, StepLaunch};
use clk_testing::generate;
use clk_testing::generate::{Argument, Program};
use clk_testing::isa;
use clk_testing::reference;
use clk_testing::setting;
use clk_testing::shrink;
use clk_testing::source;

/// The result of running a program: its final arrays, its printed lines in any order, the faults of its threads.
struct Run {
    arguments: Vec<Argument>,
    output: Vec<String>,
    faults: Vec<Fault>,
}

fn lines(output: &str) -> Vec<String> {
    let mut lines: Vec<String> = output.lines().map(str::to_string).collect();
    lines.sort();
    lines
}

fn by_reference(module: &Module, extents: LaunchExtents, arguments: &[Argument]) -> Run {
    let mut arguments = arguments.to_vec();
    let outcome = reference::launch(module, extents, &mut generate::launch_arguments(&mut arguments));
    Run { arguments, output: lines(&outcome.output), faults: outcome.faults }
}

/// Returns whether two faults have the same kind, span and thread.
fn is_same_fault(a: &Fault, b: &Fault) -> bool {
    // Ignores the span of a zero step. A step that was folded to a constant has no span of its own, since equal
    // constants share one expression.
    let placed = a.kind != FaultKind::ZeroStep;
    let place = |f: &Fault| if placed { f.span } else { Span::default() };
    (&a.kind, place(a), a.block, a.thread, &a.index) == (&b.kind, place(b), b.block, b.thread, &b.index)
}

/// Describes how a run differs from the reference. If the reference faulted, the run has to stop with one or more of
/// those faults.
fn difference(expected: &Run, actual: &Run) -> Option<String> {
    if let Some(surplus) = actual.faults.iter().find(|f| !expected.faults.iter().any(|e| is_same_fault(e, f))) {
        return Some(format!("a fault that is none: {surplus:?}\nexpected one of {:#?}", expected.faults));
    }
    if let Some(missing) = expected.faults.first() {
        return actual.faults.is_empty().then(|| format!("no fault where there is one: {missing:?}"));
    }
    for (i, pair) in expected.arguments.iter().zip(&actual.arguments).enumerate() {
        let (Argument::Array { layout, bytes, .. }, Argument::Array { bytes: actual, .. }) = pair else { continue };
        if let Some(place) = reference::first_difference(layout, actual.get(), bytes.get()) {
            return Some(format!("argument {i} differs from the expected one: {place}"));
        }
    }
    (expected.output != actual.output)
        .then(|| format!("it printed {:#?}\nand should have printed {:#?}", actual.output, expected.output))
}

/// A check runs a program in some way, and returns how the result differs from the reference.
type Check = fn(&Program, &Run) -> Option<String>;

/// Printing and parsing the module gives an equivalent module with new ids. Printing and parsing that module does not
/// change it.
fn reads_back(program: &Program, expected: &Run) -> Option<String> {
    let read = |module: &Module| text::parse(&text::print_spans(module));
    let fresh = match read(&program.module) {
        Ok(module) => module,
        Err(error) => return Some(format!("it does not read back: {error}")),
    };
    if read(&fresh).as_ref() != Ok(&fresh) {
        return Some(format!("it reads back differently:\n{}", text::print_spans(&fresh)));
    }
    difference(expected, &by_reference(&fresh, program.extents, &program.arguments))
}

fn passes_keep_the_meaning(program: &Program, expected: &Run) -> Option<String> {
    match clk_pass::prepare(program.module.clone()) {
        Err(error) => Some(error.to_string()),
        Ok(prepared) => {
            let actual = by_reference(&prepared.module, program.extents, &program.arguments);
            difference(expected, &actual).map(|d| format!("{d}\nprepared:\n{}", text::print(&prepared.module)))
        }
    }
}

/// Runs a program on the simulator, with a number of workers and an instruction set chosen by the seed. The result
/// lists warnings as faults as well.
fn by_simulator(program: &Program, prepared: PreparedKernel) -> Run {
    let simulators = isa::simulators();
    let executable = simulators[(program.seed / 3) as usize % simulators.len()].load(Arc::new(prepared), None);
    let mut arguments = program.arguments.clone();
    // A step limit prevents machine code, so only every eighth program has one. Endless programs are skipped earlier.
    let max_steps = if program.seed.is_multiple_of(8) { 100_000 } else { 0 };
    let control = Control { workers: 1 + program.seed as usize % 3, max_steps, ..Control::default() };
    match executable.launch(&program.extents.into(), &mut generate::launch_arguments(&mut arguments), &control) {
        Ok(output) => {
            let faults = control.warnings.lock().map(|w| w.clone()).unwrap_or_default();
            Run { arguments, output: lines(&output), faults }
        }
        Err(fault) => Run { arguments, output: vec![], faults: vec![*fault] },
    }
}

fn simulator_agrees(program: &Program, expected: &Run) -> Option<String> {
    match clk_pass::prepare(program.module.clone()) {
        Err(error) => Some(error.to_string()),
        Ok(prepared) => {
            let text = text::print(&prepared.module);
            let actual = by_simulator(program, prepared);
            difference(expected, &actual).map(|d| format!("{d}\nprepared:\n{text}"))
        }
    }
}

/// Runs a program with memory checks, which have nothing to report: the programs are free of races and read only
/// initialized memory.
fn checks_are_silent(program: &Program, expected: &Run) -> Option<String> {
    let checks = Checks { memory: true, ..Checks::default() };
    match clk_pass::prepare_for(program.module.clone(), checks) {
        Err(error) => Some(error.to_string()),
        Ok(prepared) => {
            let text = text::print(&prepared.module);
            let mut actual = by_simulator(program, prepared);
            // Removes what only a checked run reports: unwritten elements of `out` arrays, and where threads diverged.
            actual.faults.retain(|fault| !matches!(fault.kind, FaultKind::Incomplete { .. }));
            for fault in &mut actual.faults {
                if let FaultKind::Divergence { elsewhere, .. } = &mut fault.kind {
                    *elsewhere = None;
                }
            }
            difference(expected, &actual).map(|d| format!("{d}\nprepared:\n{text}"))
        }
    }
}

/// Runs a program on the simulator without compiler passes. Skips programs with calls, which the passes would inline.
fn simulator_agrees_without_passes(program: &Program, expected: &Run) -> Option<String> {
    if program.module.functions.len() > 1 {
        return None;
    }
    match verify::verify(program.module.clone()) {
        Err(_) => Some("it does not verify".into()),
        Ok(module) => {
            let prepared = PreparedKernel::new(module, Checks::default());
            difference(expected, &by_simulator(program, prepared))
        }
    }
}

/// Codes of compile-time errors about a constant index that is out of bounds, and a constant divisor or step that is
/// zero.
const REFUSED: &[&str] = &["E0325", "E0328", "E0484", "E0485"];

/// Prints the program as source, compiles it through the whole front end, and compares the results. Spans are not
/// compared, since those of the source differ.
fn source_means_the_same(program: &Program, expected: &Run) -> Option<String> {
    let mut text = source::text(program)?;
    // Formatting the source must not make a difference.
    if program.seed % 2 == 1 {
        text = match laid_out(&text) {
            Ok(text) => text,
            Err(why) => return Some(format!("{why}\n{text}")),
        };
    }
    let module = match compiled(&text) {
        Ok(module) => module,
        // A program that is certain to fault may be rejected at compile time.
        Err(error) if REFUSED.iter().any(|code| error.contains(code)) => return None,
        Err(error) => return Some(format!("{error}\n{text}")),
    };
    let mut actual = by_reference(&module, program.extents, &program.arguments);
    for fault in &mut actual.faults {
        let same = |e: &&Fault| is_same_fault(&Fault { span: fault.span, ..(*e).clone() }, fault);
        if let Some(same) = expected.faults.iter().find(same) {
            fault.span = same.span;
        }
    }
    difference(expected, &actual).map(|d| format!("{d}\n{text}\nlowered:\n{}", text::print(&module)))
}

/// The debugger's timeline ends with the same fault as the reference, or without one. Going to a step, forward or
/// backward, restores the state of that step.
fn time_runs_both_ways(program: &Program, expected: &Run) -> Option<String> {
    let mut arguments = program.arguments.clone();
    let args = generate::launch_arguments(&mut arguments);
    let launch = || StepLaunch::new(&program.module, program.extents, &args, 100_000);
    let mut timeline = Timeline::new(launch(), &args, 1 << 20, Default::default()).ok()?;
    let mut states = vec![timeline.now().clone()];
    while states.len() < 3000 && timeline.step(&mut NoObserver) {
        states.push(timeline.now().clone());
    }
    let mut at = program.seed as usize % states.len();
    for _ in 0..20 {
        timeline.go_to(at as u64).ok()?;
        if let Some(difference) = timeline.now().difference(&states[at]) {
            return Some(format!("at step {at} of {}: {difference}", states.len()));
        }
        at = (at * 48_271 + 11) % states.len();
    }
    timeline.go_to(u64::MAX).ok()?;
    let (faults, over) = (&timeline.now().faults, timeline.now().is_over);
    match (faults.first(), expected.faults.first()) {
        (None, None) if over => None,
        (Some(found), Some(wanted)) if is_same_fault(found, wanted) => None,
        (found, wanted) => Some(format!("the end is {found:?} and should be {wanted:?}")),
    }
}

fn laid_out(text: &str) -> Result<String, String> {
    let formatted = format(FileId(0), text).map_err(|found| format!("not laid out: {found:#?}"))?.text;
    let twice = format(FileId(0), &formatted).map_err(|found| format!("not laid out again: {found:#?}"))?.text;
    if formatted == twice { Ok(formatted) } else { Err(format!("laid out twice:\n{formatted}\n{twice}")) }
}

fn compiled(text: &str) -> Result<Module, String> {
    let mut session = Session::default();
    let outcome = session.add("random.clk", text, &NoFiles);
    if outcome.failed() {
        return Err(format!("refused: {:#?}", outcome.diagnostics.iter().find(|d| d.is_error())));
    }
    let kernel = session.program.kernels.ids().next_back().ok_or("no kernel")?;
    let instance = Instance::new(kernel, vec![]);
    lower(&session.program, &instance).map_err(|errors| format!("not lowered: {:#?}", errors.first()))
}

/// Each entry: a name, a number `n` if the check applies to every `n`-th program, and the check.
const CHECKS: &[(&str, u64, Check)] = &[
    ("passes", 4, passes_keep_the_meaning),
    ("simulator", 1, simulator_agrees),
    ("checks", 2, checks_are_silent),
    ("simulator without passes", 2, simulator_agrees_without_passes),
    ("text form", 8, reads_back),
    ("time", 8, time_runs_both_ways),
    ("source", 4, source_means_the_same),
];

/// Returns a description of the first check that fails for a program, if any. A panic also counts as a failure.
fn failure(program: &Program) -> Option<String> {
    let guarded = |run: &dyn Fn() -> Option<String>| match catch_unwind(AssertUnwindSafe(run)) {
        Ok(outcome) => outcome,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
            Some(format!("panic: {}", text.unwrap_or_default()))
        }
    };
    let check_all = || {
        let expected = by_reference(&program.module, program.extents, &program.arguments);
        if expected.faults.iter().any(|f| matches!(f.kind, FaultKind::StepLimit { .. })) {
            // Shrinking has made the program endless.
            return None;
        }
        let failed = |(name, every, check): &(&str, u64, Check)| {
            if !program.seed.is_multiple_of(*every) {
                return None;
            }
            guarded(&|| check(program, &expected)).map(|difference| format!("{name}: {difference}"))
        };
        CHECKS.iter().find_map(failed)
    };
    guarded(&check_all)
}

/// Builds the failure message with the seed and a small kernel.
fn report(seed: u64, program: Program, first: String) -> String {
    let kind = first.split(':').next().unwrap_or_default().to_string();
    let is_bad = |p: &Program| failure(p).is_some_and(|f| f.starts_with(&kind));
    let (extents, small) = (program.extents, shrink::shrink(program, is_bad));
    let last_failure = failure(&small).unwrap_or(first);
    if let Ok(folder) = std::env::var("CLK_RANDOM_KEEP") {
        let path = Path::new(&folder).join(format!("{seed}.ir"));
        fs::write(path, generate::keep::to_text(&small)).expect("written");
    }
    format!("seed {seed}, {extents:?}\n{}\n{last_failure}", text::print(&small.module))
}

#[test]
fn random_programs_match_on_all_engines() {
    let first = setting("CLK_RANDOM_SEED", 0);
    let count = setting("CLK_RANDOM_PROGRAMS", 2_500);
    let next = AtomicU64::new(first);
    let worker = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                return None;
            }
            let program = generate::program(seed);
            if let Some(difference) = failure(&program) {
                next.store(first + count, Ordering::Relaxed);
                return Some(report(seed, program, difference));
            }
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get());
    let reports: Vec<String> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        handles.into_iter().filter_map(|h| h.join().unwrap_or_else(|_| Some("a worker panicked".into()))).collect()
    });
    assert!(reports.is_empty(), "{}", reports.join("\n\n"));
}

/// Programs that once failed: `tests/regressions/*.ir`. Each runs with every instruction set, with one to three
/// workers, and through all checks.
#[test]
fn kept_programs_match_on_all_engines() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/regressions");
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).expect("a folder").map(|e| e.expect("an entry").path()).collect();
    paths.sort();
    assert!(paths.len() >= 3, "they are gone");
    for path in paths {
        let text = fs::read_to_string(&path).expect("a file");
        for seed in (0..72).step_by(8) {
            let kept_failure = failure(&generate::keep::of_text(&text, seed));
            assert!(kept_failure.is_none(), "{}: {}", path.display(), kept_failure.unwrap_or_default());
        }
    }
}

/// Saving a program in the text form of `generate::keep` and loading it preserves the program.
#[test]
fn programs_can_be_kept() {
    for seed in 0..50 {
        let program = generate::program(seed);
        let restored = generate::keep::of_text(&generate::keep::to_text(&program), seed);
        let text = generate::keep::to_text(&restored);
        assert_eq!(text, generate::keep::to_text(&generate::keep::of_text(&text, seed)), "seed {seed}");
        let (a, b) = (&program, &restored);
        let run = |p: &Program| by_reference(&p.module, p.extents, &p.arguments);
        assert_eq!(difference(&run(a), &run(b)), None, "seed {seed}");
    }
}

/// Writes the program of `CLK_RANDOM_SEED` to the file `CLK_RANDOM_KEEP`.
#[test]
#[ignore = "needs CLK_RANDOM_KEEP"]
fn keep_one() {
    let path = std::env::var("CLK_RANDOM_KEEP").expect("CLK_RANDOM_KEEP names a file");
    let program = generate::program(setting("CLK_RANDOM_SEED", 0));
    fs::write(path, generate::keep::to_text(&program)).expect("written");
}

/// Generated programs are valid: their modules verify, their launches end, and most launches have no fault.
#[test]
fn random_programs_are_valid() {
    let (mut faults, mut sources, count) = (0, 0, 500);
    for seed in 0..count {
        let program = generate::program(seed);
        let violations = clk_ir::verify::violations(&program.module);
        assert!(violations.is_empty(), "seed {seed}: {violations:#?}\n{}", text::print(&program.module));
        let run = by_reference(&program.module, program.extents, &program.arguments);
        let hangs = |f: &Fault| {
            use clk_runtime::FaultKind::*;
            matches!(f.kind, StepLimit { .. } | Divergence { .. } | Deadlock { .. })
        };
        assert!(!run.faults.iter().any(hangs), "seed {seed}: {:?}\n{}", run.faults, text::print(&program.module));
        faults += !run.faults.is_empty() as u64;
        sources += source::text(&program).is_some() as u64;
    }
    assert!(faults > count / 50 && faults < count / 4, "{faults} of {count} programs fault");
    assert!(sources > count / 4, "{sources} of {count} programs can be expressed in source");
}

/// Runs the kernel in the file `CLK_RANDOM_IR`, launched like the program of `CLK_RANDOM_SEED`. This is useful for a
/// kernel that was shrunk by hand; `crashes_are_shrunk` also uses it.
#[test]
#[ignore = "needs CLK_RANDOM_IR"]
fn one_program() {
    let mut program = generate::program(setting("CLK_RANDOM_SEED", 0));
    let path = std::env::var("CLK_RANDOM_IR").expect("CLK_RANDOM_IR names a file");
    program.module = text::parse(&std::fs::read_to_string(path).expect("a file")).expect("a kernel");
    let first_failure = failure(&program);
    assert!(first_failure.is_none(), "{}", first_failure.unwrap_or_default());
}

/// Shrinks the program of `CLK_RANDOM_SEED` while it still crashes the process that runs it.
#[test]
#[ignore = "only for a seed that crashes"]
fn crashes_are_shrunk() {
    let program = generate::program(setting("CLK_RANDOM_SEED", 0));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kernel.ir");
    let crashes = |p: &Program| {
        std::fs::write(&path, text::print_spans(&p.module)).expect("a file");
        let child = std::process::Command::new(std::env::current_exe().expect("this program"))
            .args(["random_programs::one_program", "--exact", "--ignored", "--test-threads=1"])
            .env("CLK_RANDOM_IR", &path)
            .output();
        child.is_ok_and(|output| output.status.code().is_none_or(|code| code > 128))
    };
    assert!(crashes(&program), "it does not crash");
    let small = shrink::shrink(program, crashes).module;
    println!("{}", text::print(&small));
    println!("prepared:\n{}", clk_pass::prepare(small).map_or_else(|e| e.to_string(), |p| text::print(&p.module)));
}

//! Tests the run-time checks: they must report every planted fault, and nothing in correct code.
//!
//! `tests/faults/*.clk` contain kernels with planted faults, `tests/sound/*.clk` similar kernels that are correct. A
//! line `//# title` begins a case, which is compiled and run separately, with the line numbers of the file. `[nan]` and
//! `[steps N]` before the title turn on `--trap-nan` and `--max-steps`. A comment `//~ CODE text` expects a diagnostic
//! with this code and text, which starts on the line below. `//~+ text` expects a second label on the line below: at
//! the other access of a race, or where threads diverged.
//!
//! Each case runs with 1, 2 and 7 workers and has to give the same result every time. A sound case reports nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_compile::{NoFiles, Session};
use clk_host::interp::{Interpreter, ScriptOptions};
use clk_ir::Checks;
use clk_runtime::Control;
use clk_runtime::Isa;
use clk_sim::{Jit, Simulator};
use clk_testing::world::CapturedOutput;

/// One program of a corpus file.
struct Case {
    file: String,
    title: String,
    /// The text of the file, in which all other cases are replaced by blank lines.
    text: String,
    nan: bool,
    steps: u64,
}

/// An expected diagnostic: the line, the code (`None` for a second label) and the text.
#[derive(Debug)]
struct ExpectedDiagnostic {
    line: usize,
    code: Option<String>,
    text: String,
}

fn corpus(folder: &str) -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).expect("folder").map(|e| e.expect("entry").path()).collect();
    paths.sort();
    // `CLK_TRUTH` selects cases by a substring of their file name or title, for development.
    let filter = std::env::var("CLK_TRUTH").unwrap_or_default();
    let picked = |case: &Case| case.file.contains(&filter) || case.title.contains(&filter);
    paths.iter().flat_map(|path| cases(path)).filter(picked).collect()
}

fn cases(path: &Path) -> Vec<Case> {
    let text = fs::read_to_string(path).expect("a source");
    let file = path.file_stem().expect("a name").to_string_lossy().into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let starts: Vec<usize> = (0..lines.len()).filter(|&i| lines[i].starts_with("//#")).collect();
    let case = |(n, &start): (usize, &usize)| {
        let end = starts.get(n + 1).copied().unwrap_or(lines.len());
        let own = |i: usize| if (start..end).contains(&i) { lines[i] } else { "" };
        let text = (0..lines.len()).map(own).collect::<Vec<_>>().join("\n");
        let mut title = lines[start].trim_start_matches("//#").trim();
        let (mut nan, mut steps) = (false, 0);
        if let Some((option, rest)) = title.strip_prefix('[').and_then(|t| t.split_once(']')) {
            title = rest.trim();
            nan = option == "nan";
            steps = option.strip_prefix("steps ").map_or(0, |n| n.parse().expect("a number of steps"));
        }
        Case { file: file.clone(), title: title.into(), text, nan, steps }
    };
    starts.iter().enumerate().map(case).collect()
}

fn announced(text: &str) -> Vec<ExpectedDiagnostic> {
    let lines: Vec<&str> = text.lines().collect();
    let mut announced = vec![];
    for (index, line) in lines.iter().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//~") else { continue };
        let target = (index..lines.len()).find(|&i| !lines[i].trim_start().starts_with("//~")).expect("a line below");
        let (code, text) = match comment.strip_prefix('+') {
            Some(text) => (None, text),
            None => {
                let (code, text) = comment.trim().split_once(' ').unwrap_or((comment.trim(), ""));
                (Some(code.to_string()), text)
            }
        };
        announced.push(ExpectedDiagnostic { line: target + 1, code, text: text.trim().into() });
    }
    announced
}

/// Returns the diagnostics of a case run with this many workers; an error if it does not compile.
fn run(case: &Case, workers: usize, jit: Jit) -> Result<Vec<Diagnostic>, String> {
    let start = std::time::Instant::now();
    let result = compile_and_run(case, workers, jit);
    let seconds = start.elapsed().as_secs_f64();
    if seconds > SLOW {
        println!("{}: {} ({workers} workers): {seconds:.1} s", case.file, case.title);
    }
    result
}

/// Run time in seconds above which a case is listed as slow.
const SLOW: f64 = 2.0;

fn compile_and_run(case: &Case, workers: usize, jit: Jit) -> Result<Vec<Diagnostic>, String> {
    let mut session = Session::default();
    let outcome = session.add("case.clk", &case.text, &NoFiles);
    if outcome.failed() {
        let titles: Vec<String> = outcome.diagnostics.iter().map(|d| format!("{} {}", d.code, d.title)).collect();
        return Err(format!("does not compile: {}", titles.join("; ")));
    }
    let checks = Checks { memory: true, arithmetic: true, nan: case.nan };
    let control = Control { workers, checks, max_steps: case.steps, ..Control::default() };
    let device = Arc::new(Simulator::default().with_jit(jit));
    let mut interpreter = Interpreter::new(ScriptOptions { args: vec![], control, seed: None, device });
    interpreter.observers.coverage_hints = true;
    let mut reported = vec![];
    for chunk in outcome.chunks {
        let result = interpreter.run_chunk(&session, chunk, &mut CapturedOutput::default());
        reported.extend(interpreter.take_warnings());
        if let Err(error) = result {
            reported.push(*error);
            break;
        }
    }
    Ok(reported)
}

fn line(text: &str, span: Span) -> usize {
    text[..(span.start as usize).min(text.len())].matches('\n').count() + 1
}

/// Returns the title, labels, notes and help of a diagnostic.
fn words(diagnostic: &Diagnostic) -> String {
    let labels = diagnostic.labels.iter().map(|l| l.text.as_str());
    let parts = std::iter::once(diagnostic.title.as_str()).chain(labels);
    parts.chain(diagnostic.notes.iter().chain(&diagnostic.help).map(String::as_str)).collect::<Vec<_>>().join("\n")
}

fn describe(text: &str, diagnostic: &Diagnostic) -> String {
    let labels: Vec<String> =
        diagnostic.labels.iter().map(|l| format!("line {}: {}", line(text, l.span), l.text)).collect();
    format!("{} {} ({})", diagnostic.code, diagnostic.title, labels.join("; "))
}

/// Returns whether a diagnostic matches the expectations, including those for its secondary labels.
fn meets(text: &str, diagnostic: &Diagnostic, announced: &[ExpectedDiagnostic]) -> bool {
    announced.iter().all(|a| match &a.code {
        Some(code) => {
            let at = diagnostic.primary().map(|span| line(text, span));
            diagnostic.code == code && at == Some(a.line) && words(diagnostic).contains(&a.text)
        }
        None => diagnostic
            .labels
            .iter()
            .any(|l| !l.is_primary() && line(text, l.span) == a.line && l.text.contains(&a.text)),
    })
}

/// A row of the result table: numbers of planted faults, of faults found, and of unexpected diagnostics.
#[derive(Default)]
struct Row {
    planted: usize,
    found: usize,
    surplus: usize,
}

const WORKERS: [usize; 3] = [1, 2, 7];

/// Returns the numbers of workers and the engines that a case runs with: the interpreter, and machine code if
/// available. To save time, forced exits from machine code, and all machine code of endless loops, run with two workers
/// only.
fn ways(case: &Case) -> Vec<(usize, Jit)> {
    let has_jit = Jit::Always.is_available(Isa::default());
    let jits = if has_jit { vec![Jit::Off, Jit::Always, Jit::Forced] } else { vec![Jit::Off] };
    let all = jits.into_iter().flat_map(|jit| WORKERS.map(|workers| (workers, jit)));
    let few = |jit: Jit| jit == Jit::Forced || jit == Jit::Always && case.file == "endless";
    all.filter(|&(workers, jit)| !few(jit) || workers == 2).collect()
}

#[test]
fn planted_faults_are_found_without_false_reports() {
    let mut table: BTreeMap<String, Row> = BTreeMap::new();
    let mut failures = String::new();
    let faults = corpus("faults");
    let all = std::env::var_os("CLK_TRUTH").is_none();
    assert!(!all || faults.len() >= 120, "{} planted faults", faults.len());
    for case in &faults {
        let row = table.entry(case.file.clone()).or_default();
        row.planted += 1;
        let announcements = announced(&case.text);
        assert!(announcements.iter().any(|a| a.code.is_some()), "{}: {} announces nothing", case.file, case.title);
        let mut right = true;
        let mut first = None;
        for (workers, jit) in ways(case) {
            let reported = match run(case, workers, jit) {
                Ok(reported) => reported,
                Err(why) => {
                    failures += &format!("{}: {}: {why}\n", case.file, case.title);
                    right = false;
                    break;
                }
            };
            let said: Vec<String> = reported.iter().map(|d| describe(&case.text, d)).collect();
            let expected_count = reported.iter().filter(|d| meets(&case.text, d, &announcements)).count();
            row.surplus += usize::from((workers, jit) == (1, Jit::Off)) * reported.len().saturating_sub(expected_count);
            let same = first.get_or_insert_with(|| said.clone()) == &said;
            if expected_count != 1 || reported.len() != 1 || !same {
                let mistake =
                    if expected_count == 1 && !same { "differs between runs" } else { "is not what was announced" };
                failures += &format!("{}: {} ({workers} workers, {jit}) {mistake}: {said:#?}\n", case.file, case.title);
                right = false;
                break;
            }
        }
        row.found += usize::from(right);
    }
    let sound = corpus("sound");
    assert!(!all || sound.len() >= 120, "{} look-alikes", sound.len());
    let mut alarms = 0;
    for case in &sound {
        for (workers, jit) in ways(case) {
            let said = match run(case, workers, jit) {
                Ok(reported) => reported.iter().map(|d| describe(&case.text, d)).collect::<Vec<_>>(),
                Err(why) => vec![why],
            };
            if !said.is_empty() {
                alarms += 1;
                failures += &format!("sound/{}: {} ({workers} workers, {jit}): {said:#?}\n", case.file, case.title);
                break;
            }
        }
    }
    println!("{:<16} planted  found  surplus", "kind");
    for (kind, row) in &table {
        println!("{kind:<16} {:>7} {:>6} {:>8}", row.planted, row.found, row.surplus);
    }
    let total = |f: fn(&Row) -> usize| table.values().map(f).sum::<usize>();
    println!("{:<16} {:>7} {:>6} {:>8}", "all", total(|r| r.planted), total(|r| r.found), total(|r| r.surplus));
    println!("{} look-alikes, {alarms} false alarms", sound.len());
    assert!(failures.is_empty(), "\n{failures}");
}

#[test]
fn faults_fail_the_run_and_appear_in_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let case = &corpus("faults").into_iter().find(|c| c.file == "shared_races").expect("the corpus");
    fs::write(folder.path().join("race.clk"), &case.text).expect("written");
    let unchecked = clk_testing::run(folder.path(), &["run", "race.clk"]);
    assert_eq!(unchecked.code, 0, "{}", unchecked.err);
    let checked = clk_testing::run(folder.path(), &["run", "--check", "--json", "race.clk"]);
    assert_eq!(checked.code, 1, "{}", checked.err);
    let codes: Vec<_> = clk_testing::diagnostics(&checked).iter().map(|d| d["code"].to_string()).collect();
    assert!(codes.iter().any(|c| c == "\"E0610\""), "{}", checked.err);
}

/// A kernel in which blocks add floats atomically. The sum depends on the order of blocks, which is unspecified.
const FLOAT_SUM: &str = "
kernel total(x: [f32; N], inout sum: [f32; 1]) grid(N / 64) block(64) { atomic_add(sum[0], x[global_idx.x]) }
var sum = [0.0]
total(random(1 << 18, seed = 3), sum)
print(bitcast(u32, sum[0]))
";

#[test]
fn deterministic_runs_do_not_depend_on_workers() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("sum.clk"), FLOAT_SUM).expect("written");
    let result = |workers: &str| {
        let ran = clk_testing::run(folder.path(), &["run", "--deterministic", "--workers", workers, "sum.clk"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        ran.out
    };
    let one = result("1");
    for workers in ["2", "3", "7"] {
        for _ in 0..3 {
            assert_eq!(result(workers), one);
        }
    }
}

/// The line of the conflicting write is reported correctly, even in a kernel with more than 255 accesses.
#[test]
fn lines_are_right_beyond_255_accesses() {
    let mut text =
        String::from("//# many\nkernel many(inout x: [i32; 4]) grid(2) block(64) {\n    let t = global_idx.x\n");
    for k in 0..300 {
        let comment = if k == 299 { "    //~+ writes 299\n" } else { "" };
        text += &format!("{comment}    if t == 0 {{ x[0] = {k} }}\n");
    }
    text += "    //~ E0610 `x[0]`\n    if t == 100 { x[0] = 1000 }\n}\nvar x = [0, 0, 0, 0]\nmany(x)\n";
    let case = Case { file: "many".into(), title: "many".into(), text, nan: false, steps: 0 };
    for (workers, jit) in ways(&case) {
        let reported = run(&case, workers, jit).expect("it compiles");
        assert!(reported.len() == 1 && meets(&case.text, &reported[0], &announced(&case.text)), "{reported:#?}");
    }
}

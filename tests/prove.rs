//! Proofs for all sizes: verdicts of the library, the examples and the corpora of faults, against what is known of them, and proofs
//! of random kernels against runs at all small sizes.
//!
//! `prove/verdicts.txt` is the table of verdicts, which `CLK_BLESS=1` writes anew. `CLK_PROVE_KERNELS` is the number of random
//! kernels, `CLK_PROVE_SEED` the first seed.

#[path = "prove/cases.rs"]
mod cases;
#[path = "prove/contracts.rs"]
mod contracts;
#[path = "prove/divergent.rs"]
mod divergent;
#[path = "prove/guards.rs"]
mod guards;
#[path = "prove/instances.rs"]
mod instances;
#[path = "prove/orders.rs"]
mod orders;
#[path = "prove/promised.rs"]
mod promised;
#[path = "prove/random.rs"]
mod random;
#[path = "prove/small.rs"]
mod small;
#[allow(dead_code)]
#[path = "common/random.rs"]
mod stream;
#[path = "prove/used.rs"]
mod used;
#[path = "prove/warps.rs"]
mod warps;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use clk_lang::check::typed::KernelId;
use clk_lang::compile::{NoFiles, Session};
use clk_lang::prove::{Property, Report, Verdict, examine};

const FOLDER: &str = env!("CARGO_MANIFEST_DIR");

fn compiled(name: &str, text: &str) -> Option<Session> {
    let mut session = Session::default();
    let outcome = session.add(name, text, &NoFiles);
    (!outcome.failed()).then_some(session)
}

/// Returns a program's own kernels.
fn kernels(session: &Session) -> Vec<(KernelId, String)> {
    session.program.kernels_of(session.main).map(|(id, kernel)| (id, kernel.name.to_string())).collect()
}

fn letter(report: &Report, property: Property) -> char {
    match report.verdict(property) {
        Some(Verdict::Proved { .. }) if report.largest.is_some() => 'P',
        Some(Verdict::Proved { .. }) => 'p',
        Some(Verdict::Refuted { .. }) => 'r',
        Some(Verdict::Unknown { .. }) => '.',
        None => '?',
    }
}

fn letters(report: &Report) -> String {
    Property::ALL.iter().map(|&property| letter(report, property)).collect()
}

/// One program of a corpus file; all others are blanked out.
struct Case {
    place: String,
    text: String,
}

fn cases(folder: &str, path: &Path) -> Vec<Case> {
    let text = fs::read_to_string(path).expect("a source");
    let lines: Vec<&str> = text.lines().collect();
    let starts: Vec<usize> = (0..lines.len()).filter(|&i| lines[i].starts_with("//#")).collect();
    let stem = path.file_stem().expect("a name").to_string_lossy();
    if starts.is_empty() {
        return vec![Case { place: format!("{folder}/{stem}"), text }];
    }
    let case = |(n, &start): (usize, &usize)| {
        let end = starts.get(n + 1).copied().unwrap_or(lines.len());
        let own = |i: usize| if (start..end).contains(&i) { lines[i] } else { "" };
        let title = lines[start].trim_start_matches("//#").trim();
        let place = format!("{folder}/{stem}: {title}:");
        Case { place, text: (0..lines.len()).map(own).collect::<Vec<_>>().join("\n") }
    };
    starts.iter().enumerate().map(case).collect()
}

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(FOLDER).join(folder);
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).expect("a folder").map(|e| e.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "clk"));
    paths.sort();
    paths
}

/// The property that a code of a report contradicts.
fn contradicted(code: &str) -> Option<Property> {
    match code {
        "E0601" => Some(Property::InBounds),
        "E0610" | "W0601" => Some(Property::RaceFree),
        "E0604" | "E0605" => Some(Property::Barriers),
        "W0602" => Some(Property::Written),
        _ => None,
    }
}

/// Returns the properties of which the comments of a case announce, within these lines, that they do not hold.
fn announced(text: &str, first: usize, last: usize) -> Vec<Property> {
    // `<<<…>>>` replaces the geometry that proofs are about.
    if text.contains("<<<") {
        return vec![];
    }
    let lines: Vec<&str> = text.lines().skip(first.saturating_sub(1)).take(last + 1 - first).collect();
    let mut found = vec![];
    for (i, line) in lines.iter().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//~ ") else { continue };
        let below = lines[i..].iter().find(|line| !line.trim_start().starts_with("//~")).copied().unwrap_or_default();
        let property = contradicted(comment.split_whitespace().next().unwrap_or_default());
        // Operations of a warp are not barriers of the block.
        let of_warp = !below.contains("barrier") || below.contains("warp_barrier");
        found.extend(property.filter(|property| *property != Property::Barriers || !of_warp));
    }
    found
}

/// Examines the kernels of a case; returns their lines of the table, and the number of announced faults.
fn examined(case: &Case) -> (String, usize) {
    let (mut table, mut faults) = (String::new(), 0);
    let Some(session) = compiled("case.clk", &case.text) else { return (table, faults) };
    for (id, name) in kernels(&session) {
        let report = examine(&session.program, id);
        let _ = writeln!(table, "{} {} {name}", letters(&report), case.place);
        let span = session.program.kernels[id].span;
        let (first, last) = (session.sources.line_column(span).0, session.sources.line_column(span.after()).0);
        for property in announced(&case.text, first, last) {
            let proved = matches!(report.verdict(property), Some(Verdict::Proved { .. }));
            assert!(!proved, "{} {property:?} is proved of `{name}`, and a fault is announced", case.place);
            faults += 1;
        }
    }
    (table, faults)
}

/// The table of verdicts: in bounds, free of races, written, barriers, no overflow, any order; each `p`roved, `P`roved for sizes up to 2^29,
/// `r`efuted or unknown (`.`). It is `verdicts.txt`: what a change makes of it is for its author to judge. Nothing is proved of a
/// kernel in which the corpus announces that it is not so.
#[test]
fn verdicts() {
    let folders = ["stdlib", "examples", "tests/sound", "tests/faults"];
    let all: Vec<Case> =
        folders.iter().flat_map(|folder| files(folder).into_iter().flat_map(|path| cases(folder, &path))).collect();
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, (String, usize))>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = all.get(at) else { break };
                    let start = std::time::Instant::now();
                    let result = examined(case);
                    if start.elapsed().as_secs_f64() > SLOW {
                        println!("{}: {:.1} s", case.place, start.elapsed().as_secs_f64());
                    }
                    results.lock().expect("no panic").push((at, result));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("no panic");
    results.sort_by_key(|(at, _)| *at);
    let table: String = results.iter().map(|(_, (lines, _))| lines.as_str()).collect();
    let faults: usize = results.iter().map(|(_, (_, faults))| faults).sum();
    assert!(faults >= 30, "{faults} announced faults were compared");
    compare_with_table(&table);
}

/// Compares verdicts with those of the golden table, or writes them there.
fn compare_with_table(found: &str) {
    let path = Path::new(FOLDER).join("tests/prove/verdicts.txt");
    if std::env::var("CLK_BLESS").is_ok() {
        return fs::write(path, found).expect("written");
    }
    let known = fs::read_to_string(&path).unwrap_or_default();
    let (expected, found): (Vec<&str>, Vec<&str>) = (known.lines().collect(), found.lines().collect());
    let mut changed: Vec<String> = vec![];
    changed.extend(expected.iter().filter(|line| !found.contains(line)).map(|line| format!("- {line}")));
    changed.extend(found.iter().filter(|line| !expected.contains(line)).map(|line| format!("+ {line}")));
    assert!(changed.is_empty(), "verdicts have changed (CLK_BLESS=1 keeps the new ones):\n{}", changed.join("\n"));
}

/// Run time in seconds from which a case is listed as slow.
const SLOW: f64 = 2.0;

/// Kernels that are proved right run without a report at all sizes up to 6.
#[test]
fn proofs_of_random_kernels_hold_at_all_small_sizes() {
    let number =
        |name: &str, default: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (first, count) = (number("CLK_PROVE_SEED", 1), number("CLK_PROVE_KERNELS", 60));
    let mut tally = random::Tally::default();
    for seed in first..first + count {
        random::compare(seed, &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.proved > count / 6, "too little is proved: {tally:?}");
    assert!(tally.ordered > count / 20, "too few orders are proved: {tally:?}");
    assert!(tally.refuted > count / 10, "too little is refuted: {tally:?}");
}

/// The same of kernels with `assume` clauses, with arrays that keep them.
#[test]
fn proofs_that_rest_on_contracts_hold_with_small_arrays() {
    let number =
        |name: &str, default: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (first, count) = (number("CLK_PROVE_SEED", 1), number("CLK_PROVE_KERNELS", 100));
    let mut tally = promised::Tally::default();
    for seed in first..first + count {
        promised::compare(seed, &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.proved > count / 20, "too little is proved: {tally:?}");
    assert!(tally.refuted > count / 20, "too little is refuted: {tally:?}");
    assert!(tally.unmet < tally.runs, "no launch keeps its assumptions: {tally:?}");
}

/// No warp pays more than is proved where lanes have left loops in different iterations.
#[test]
fn contracts_after_divergent_loops_hold() {
    let number =
        |name: &str, default: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (first, count) = (number("CLK_PROVE_SEED", 1), number("CLK_PROVE_KERNELS", 30));
    let mut tally = divergent::Tally::default();
    for seed in first..first + count {
        divergent::compare(seed, &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.proved > count / 4, "too few limits are proved: {tally:?}");
    assert!(tally.counted > count / 20, "no proof is about an access after a loop: {tally:?}");
    assert!(tally.refuted > count / 20, "too few limits are refuted: {tally:?}");
    assert!(tally.tight > 0 && tally.most[0] > 8 && tally.most[1] > 8, "runs are not counted: {tally:?}");
}

/// What a GPU text does not guard is in bounds in all runs.
#[test]
fn accesses_without_guards_are_in_bounds() {
    let number =
        |name: &str, default: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (first, count) = (number("CLK_PROVE_SEED", 1), number("CLK_PROVE_KERNELS", 60));
    let mut tally = guards::Tally::default();
    for seed in first..first + count {
        guards::compare(seed, &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.released as u64 > count / 6, "too little is proved: {tally:?}");
    assert!(tally.ended > count / 2, "too few runs show a guard's use: {tally:?}");
}

/// Runs that leave out what is proved report what runs that look at everything report.
#[test]
fn runs_without_what_is_proved_report_the_same() {
    let number =
        |name: &str, default: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (first, count) = (number("CLK_PROVE_SEED", 1), number("CLK_PROVE_KERNELS", 40));
    let mut tally = used::Tally::default();
    for seed in first..first + count {
        used::compare(seed, &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.reports > tally.runs / 20, "too few runs are reported: {tally:?}");
    assert!(tally.runs - tally.reports > tally.runs / 20, "nearly all runs are reported: {tally:?}");
}

/// A certificate belongs to its question: it proves nothing about another.
#[test]
fn certificates_come_with_their_questions() {
    let text = "kernel add(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, 64)) block(64) {
        let i = global_idx.x
        if i < N { y[i] = x[i] }
    }";
    let session = compiled("case.clk", text).expect("a program");
    let (id, _) = kernels(&session)[0];
    let report = examine(&session.program, id);
    assert_eq!(letters(&report), "pppppp");
    let questions = report.certificates.matches("never: ").count();
    let steps: usize = report
        .verdicts
        .iter()
        .map(|(_, verdict)| if let Verdict::Proved { steps } = verdict { *steps } else { 0 })
        .sum();
    assert_eq!(questions, steps);
    assert!(report.certificates.contains("x0 is "), "{}", report.certificates);
}

fn report(text: &str) -> Report {
    let session = compiled("case.clk", text).unwrap_or_else(|| panic!("{text}"));
    let (id, _) = kernels(&session)[0];
    examine(&session.program, id)
}

/// Each condition of the chain has the one before it in it, three times.
#[test]
fn chains_of_conditions_do_not_grow_exponentially() {
    let text = "kernel walk(inout told: [u32; B], out y: [u32; B]) threads(b: B) {
        var before = 0u32
        var last = b - 1
        while last >= 0 {
            var words: [u32; 12] = 0u32
            #unroll
            for k in 0..12 { words[k] = atomic_load(told[max(last - k, 0)]) }
            var more = true
            var taken = 0
            #unroll
            for k in 0..12 {
                more = more && words[k] != 0u32
                if more {
                    before += words[k]
                    taken += 1
                    if words[k] >> 30 == 2u32 {
                        more = false
                        taken = b + 12
                    }
                }
            }
            last -= taken
        }
        atomic_store(told[b], 2u32 << 30 | before)
        y[b] = before
    }";
    assert_eq!(letters(&report(text)), "PPPPP.");
}

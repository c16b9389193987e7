//! Proofs for all sizes: verdicts of the library, the examples and the corpora of faults, against what is known of them, and proofs
//! of random kernels against runs at all small sizes.
//!
//! `prove/verdicts.txt` is the table of verdicts, which `CLK_BLESS=1` writes anew. `CLK_PROVE_KERNELS` is the number of random
//! kernels, `CLK_PROVE_SEED` the first seed.

#[path = "prove/cases.rs"]
mod cases;
#[path = "prove/contracts.rs"]
mod contracts;
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

/// Each line: the verdicts, and a kernel.
#[test]
fn small_kernels() {
    let kernels = [
        // Steps of a parameter, and turns.
        (
            "ppppp",
            "(step: i32, x: [i32; N], inout y: [i32; M]) threads(i: N) assume step > 0, N * step <= M { y[i * step] = x[i] }",
        ),
        (
            "ppppp",
            "(w: i32, first: i32, x: [i32; N], inout y: [i32; M]) grid(ceil_div(N, 64)) block(64)
            assume w > 0, first >= 0, first + N * w <= M {
            let i = global_idx.x
            if i < N { y[first + i * w] = x[i] }
        }",
        ),
        (
            "rrppp",
            "(step: i32, inout y: [i32; M]) threads(i: 4) assume step >= -9, step < 9 { if i * step >= 0 && i * step <= M { y[i * step] = i } }",
        ),
        (
            "ppppp",
            "(k: i32, x: [i32; N], out y: [i32; N]) threads(i: N) assume k >= 0, k < N { y[(i + k) % N] = x[i] }",
        ),
        (
            "ppppp",
            "(k: i32, x: [i32; N], out y: [i32; N]) threads(i: N) assume k >= 0, k <= N { y[(i - k + N) % N] = x[i] }",
        ),
        ("ppppp", "(x: [i32; N], out y: [i32; N]) threads(i: N) { y[(i + 1) % N] = x[i] }"),
        ("pprpp", "(x: [i32; N], out y: [i32; N]) threads(i: N) { if i > 0 { y[(i + 1) % N] = x[i] } }"),
        // Where the grid rounds up, some elements are written twice.
        (
            "prppp",
            "(k: i32, x: [i32; N], out y: [i32; N]) grid(ceil_div(N, 64)) block(64) assume k >= 0, k < N {
            y[(global_idx.x + k) % N] = global_idx.x
        }",
        ),
        // Where the size of the grid rounds up, the last block is guarded.
        (
            "ppppp",
            "(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, 64)) block(64) {
            let i = global_idx.x
            if i >= N { return }
            y[i] = x[i]
        }",
        ),
        // One too far.
        (
            "rpppp",
            "(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, 64)) block(64) {
            let i = global_idx.x
            if i <= N { y[i] = x[i] }
        }",
        ),
        // A return in a loop leaves elements unwritten.
        (
            "pprpp",
            "(x: [f32; N], out y: [f32; N]) threads(i: N) {
            for k in 0..3 { if x[i] == 0.0 { return } }
            y[i] = 1.0
        }",
        ),
        // Constants whose product wraps.
        (
            ".pppr",
            "<const K: i32 = 50000>(inout y: [i32; N]) threads(i: N) {
            if K * K > 0 { y[i] = 1 } else { y[i - N] = 1 }
        }",
        ),
        // One element of four.
        ("pprpp", "(out y: [i32; 4]) threads(i: 1) { y[3] = 1 }"),
        ("pprpp", "(n: i32, out y: [i32; N, 4]) threads(i: N) { y[i, 3] = 1 }"),
        ("ppppp", "(out y: [i32; N, 1]) threads(i: N) { y[i, 0] = 1 }"),
        // Both branches, an early return, the rim.
        ("ppppp", "(x: [i32; N], out y: [i32; N]) threads(i: N) { if x[i] > 0 { y[i] = 1 } else { y[i] = 2 } }"),
        (
            "pprpp",
            "(x: [i32; N], out y: [i32; N]) threads(i: N) { if x[i] > 0 { y[i] = 1 } else if x[i] < 0 { y[i] = 2 } }",
        ),
        (
            "ppppp",
            "(x: [i32; N], out y: [i32; N]) threads(i: N) {
            if x[i] > 0 {
                y[i] = 1
                return
            }
            y[i] = 2
        }",
        ),
        ("ppppp", "(out y: [i32; N]) threads(i: N) { if i == 0 { y[0] = 1 } else { y[i] = 2 } }"),
        ("pprpp", "(out y: [i32; N]) threads(i: N) { if i == 1 { y[0] = 1 } else if i > 0 { y[i] = 2 } }"),
        // Backward.
        ("ppppp", "(out y: [i32; N]) threads(i: N) { y[N - 1 - i] = i }"),
        // What a loop has counted is no iteration of it.
        (
            ".rrpp",
            "(x: [i32; N], out y: [i32; N]) threads(i: N) {
            var n = 0
            while n < N - 1 && x[n] > 0 { n += 1 }
            y[n] = 1
        }",
        ),
        (
            "ppppp",
            "(x: [i32; N], out y: [i32; N]) threads(i: N) {
            var n = 0
            while n < N - 1 && x[n] > 0 { n += 1 }
            y[i] = n
        }",
        ),
        // A local may hold a value that the loop's variable had.
        (
            "ppppp",
            "(x: [i32; N], out y: [i32; N]) threads(i: N) {
            var best = -1
            for k in 0..N { if x[k] > x[i] { best = k } }
            y[i] = if best < 0 { 0 } else { x[best] }
        }",
        ),
        (
            "rpppp",
            "(x: [i32; N], out y: [i32; N]) threads(i: N) {
            var best = -1
            for k in 0..N { if x[k] > x[i] { best = k + 1 } }
            y[i] = if best < 0 { 0 } else { x[best] }
        }",
        ),
        // It is none of this iteration yet.
        (
            "rpppp",
            "(x: [i32; N], out y: [i32; N]) threads(i: N) {
            var best = -1
            var sum = 0
            for k in 0..N {
                if x[k] > x[i] { best = k }
                if best >= 0 { sum = x[best + 1] }
            }
            y[i] = sum
        }",
        ),
        // A step that is positive by its bounds.
        (
            "pp.pp",
            "(x: [i32; N], inout y: [i32; N]) grid(clamp(N / 64, 1, 8)) block(64) {
            for i in global_idx.x..N step grid_dim.x * 64 { y[i] = x[i] }
        }",
        ),
        // Constant offsets: all of them, and one too few.
        (
            "ppppp",
            "(out y: [i32; N, 3]) threads(i: N) {
            y[i, 0] = 0
            y[i, 1] = 1
            y[i, 2] = 2
        }",
        ),
        (
            "pprpp",
            "(out y: [i32; N, 3]) threads(i: N) {
            y[i, 0] = 0
            y[i, 2] = 2
        }",
        ),
        (
            "ppppp",
            "(out y: [i32; N]) grid(1) block(32) {
            assert(N <= 128)
            for k in 0..4 { if k * 32 + thread_idx.x < N { y[k * 32 + thread_idx.x] = k } }
        }",
        ),
        (
            "pprpp",
            "(out y: [i32; N]) grid(1) block(32) {
            assert(N <= 129)
            for k in 0..4 { if k * 32 + thread_idx.x < N { y[k * 32 + thread_idx.x] = k } }
        }",
        ),
        // An assertion behind what it would excuse.
        (
            "pp.pp",
            "(out y: [i32; N]) grid(1) block(32) {
            if thread_idx.x < N { y[thread_idx.x] = 1 }
            assert(N <= 32)
        }",
        ),
        // Quotients and remainders.
        (
            "ppppp",
            "(out y: [i32; M]) grid(ceil_div(M, 8)) block(256) {
            let row = block_idx.x * 8 + warp_idx
            if row < M && lane_idx == 0 { y[row] = 1 }
        }",
        ),
        (
            "pprpp",
            "(out y: [i32; M]) grid(ceil_div(M, 8)) block(128) {
            let row = block_idx.x * 8 + warp_idx
            if row < M && lane_idx == 0 { y[row] = 1 }
        }",
        ),
        ("ppppp", "(out y: [i32; A, B]) threads(k: A * B) { y[k / B, k % B] = k }"),
        ("pprpp", "(out y: [i32; A, B]) threads(k: A * B) { if k % B > 0 { y[k / B, k % B] = k } }"),
        ("pprpp", "(out y: [i32; A, B + 1]) threads(k: A * B) { y[k / B, k % B] = k }"),
        // The rows of a tile: threads take the elements in turn, as many as a row has, more, and a number that no row is a multiple of.
        (
            "ppppp",
            "(out y: [f32; M, 128]) grid(ceil_div(M, 64)) block(128) {
            for n in thread_idx.x..8192 step 128 {
                let r = 64 * block_idx.x + n / 128
                if r < M { y[r, n % 128] = 1.0 }
            }
        }",
        ),
        (
            "ppppp",
            "(out y: [f32; M, N]) grid(ceil_div(N, 128), ceil_div(M, 64)) block(256) {
            for n in thread_idx.x..8192 step 256 {
                let (r, c) = (64 * block_idx.y + n / 128, 128 * block_idx.x + n % 128)
                if r < M && c < N { y[r, c] = 1.0 }
            }
        }",
        ),
        (
            "ppppp",
            "(out y: [f32; M, 128]) grid(ceil_div(M, 64)) block(96) {
            for n in thread_idx.x..8192 step 96 {
                let r = 64 * block_idx.x + n / 128
                if r < M { y[r, n % 128] = 1.0 }
            }
        }",
        ),
        (
            "ppppp",
            "(out y: [f32; M, 80]) grid(ceil_div(M, 64)) block(32, 4) {
            for n in thread_idx.x + 32 * thread_idx.y..5120 step 128 {
                let r = 64 * block_idx.x + n / 80
                if r < M { y[r, n % 80] = 1.0 }
            }
        }",
        ),
        // One element less.
        (
            "pprpp",
            "(out y: [f32; M, 128]) grid(ceil_div(M, 64)) block(96) {
            for n in thread_idx.x..8191 step 96 {
                let r = 64 * block_idx.x + n / 128
                if r < M { y[r, n % 128] = 1.0 }
            }
        }",
        ),
        // A row that is a little longer.
        (
            "pprpp",
            "(out y: [f32; M, 81]) grid(ceil_div(M, 64)) block(32, 4) {
            for n in thread_idx.x + 32 * thread_idx.y..5120 step 128 {
                let r = 64 * block_idx.x + n / 80
                if r < M { y[r, n % 80] = 1.0 }
            }
        }",
        ),
        // The number of an element of all blocks together.
        (
            "ppppp",
            "(out y: [f32; M, N]) grid(ceil_div(M * N, 256)) block(256) {
            let k = global_idx.x
            if k < M * N { y[k / N, k % N] = 1.0 }
        }",
        ),
        // Tiles, of which the number of threads is no multiple of a row.
        (
            "ppppp",
            "(x: [f32; M, N], out y: [f32; M, N]) grid(ceil_div(N, 80), ceil_div(M, 64)) block(96) {
            let (i, j) = (64 * block_idx.y, 80 * block_idx.x)
            shared t: [f32; 64, 80]
            t = x[i..i + 64, j..j + 80]
            y[i..i + 64, j..j + 80] = t + 1.0
        }",
        ),
        // So does a loop without iterations.
        (
            "pprpp",
            "(n: i32, out y: [f32; N]) threads(i: N) {
            for k in 0..n { y[i] = 1.0 }
        }",
        ),
        // A loop whose step is of unknown sign may have no iterations.
        (
            "pp.pp",
            "(s: i32, out y: [i32; N]) threads(i: N) {
            for _k in 0..1 step s { y[i] = 1 }
        }",
        ),
        // A large shift to the left is none to the right.
        (
            "r..pp",
            "(x: [i32; N], out y: [i32; N]) threads(i: N) {
            let k = i64(i + 1) << 50
            if k > 1000i64 { y[i + 1] = x[i] } else { y[i] = 0 }
        }",
        ),
        // The number of an inner loop's iterations was another one in the iteration before.
        (
            "prppp",
            "(x: [i32; M], out y: [i32; 64]) grid(1) block(64) {
            shared s: [i32; 64]
            let t = thread_idx.x
            s[t] = 0
            barrier()
            var a = 0
            for k in 0..M {
                a += s[63 - t]
                barrier()
                for j in 0..k + 1 {
                    barrier()
                    s[t] = a + j
                }
            }
            y[t] = a
        }",
        ),
        // Blocks leave a loop with a grid barrier one by one.
        (
            "p.prp",
            "(x: [i32; M], out y: [i32; 4]) grid(4) block(1) {
            for k in 0..M {
                grid_barrier()
                if block_idx.x == k { break }
            }
            y[block_idx.x] = 1
        }",
        ),
        // A divisor is positive for the threads that there are alone.
        (
            "pprpp",
            "(x: [i32; N], out y: [i32; N]) grid(1) block(64) {
            let t = thread_idx.x
            if t < N { if 1000 / (64 - t) > 20 { y[t] = x[t] } else { y[t] = 2 } }
        }",
        ),
        // Whether threads leave depends on a race.
        (
            "prp.p",
            "(x: [i32; M], out y: [i32; 64]) grid(1) block(64) {
            shared s: [i32; 1]
            let t = thread_idx.x
            y[t] = 0
            for _k in 0..M {
                if t == 63 { s[0] = 1 }
                if s[0] == 1 { break }
                barrier()
            }
        }",
        ),
        // What is not followed may overflow.
        (
            "pppp.",
            "(x: [i32; N], p: i32, out y: [i32; N]) threads(i: N) {
            y[i] = if p ** 3 > 5 { x[i] } else { 0 }
        }",
        ),
        (
            "pppp.",
            "(x: [i32x2; N], p: i32x2, out y: [i32; N]) threads(i: N) {
            let v = p + p
            y[i] = if v.x > 5 { x[i].x } else { 0 }
        }",
        ),
        // The iterations of all threads cover the array.
        (
            "ppppp",
            "(out y: [f32; N]) grid(1) block(64) {
            for i in thread_idx.x..N step 64 { y[i] = 1.0 }
        }",
        ),
        // Not all of it if a thread may break out.
        (
            "pprpp",
            "(x: [f32; N], out y: [f32; N]) grid(1) block(64) {
            for i in thread_idx.x..N step 64 {
                if x[i] == 0.0 { break }
                y[i] = 1.0
            }
        }",
        ),
        // Two tiles, used in turn: one barrier an iteration is enough.
        (
            "pp.pp",
            "(x: [f32; N], inout y: [f32; N]) grid(1) block(32) {
            shared s: [f32; 2, 32]
            let t = thread_idx.x
            for k in 0..N / 32 {
                s[k % 2, t] = x[k * 32 + t]
                barrier()
                y[k * 32 + t] = s[k % 2, 31 - t]
            }
        }",
        ),
        // With one tile it is not.
        (
            "pr.pp",
            "(x: [f32; N], inout y: [f32; N]) grid(1) block(64) {
            shared s: [f32; 64]
            let t = thread_idx.x
            for k in 0..N / 64 {
                s[t] = x[k * 64 + t]
                barrier()
                y[k * 64 + t] = s[63 - t]
            }
        }",
        ),
        // A tree: each step in a loop with a barrier.
        (
            "ppppp",
            "(x: [f32; N], out y: [f32; ceil_div(N, 128)]) grid(ceil_div(N, 128)) block(128) {
            shared s: [f32; 128]
            let t = thread_idx.x
            s[t] = if global_idx.x < N { x[global_idx.x] } else { 0.0 }
            barrier()
            var k = 64
            while k > 0 {
                if t < k { s[t] += s[t + k] }
                barrier()
                k /= 2
            }
            if t == 0 { y[block_idx.x] = s[0] }
        }",
        ),
        // Rows of a matrix in one array.
        (
            "pp.pp",
            "(x: [f32; H, W], inout y: [f32; L]) threads(i: H, j: W) {
            let at = i * W + j
            if at < L { y[at] = x[i, j] }
        }",
        ),
        // An atomic among plain accesses.
        (
            "pr.pp",
            "(x: [i32; N], inout n: [i32; 1]) threads(i: N) {
            atomic_add(n[0], 1)
            if i == 0 { n[0] = 0 }
        }",
        ),
        // Atomics alone.
        ("pp.pp", "(x: [i32; N], inout n: [i32; 1]) threads(i: N) { atomic_add(n[0], 1) }"),
        // An index from memory.
        (
            "rrppp",
            "(x: [f32; N], at: [i32; N], inout y: [f32; N], out z: [f32; N]) threads(i: N) {
            y[at[i]] = x[i]
            z[i] = 0.0
        }",
        ),
        // A barrier that some threads miss.
        (
            "p.prp",
            "(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, 64)) block(64) {
            if global_idx.x < N {
                barrier()
                y[global_idx.x] = x[global_idx.x]
            }
        }",
        ),
    ];
    let mut wrong = String::new();
    for (verdicts, kernel) in kernels {
        let report = report(&format!("kernel k{kernel}"));
        let found = letters(&report)[..5].replace('P', "p");
        // A kernel without `out` arrays writes all of them.
        let expected = if kernel.contains("out ") && !kernel.contains("inout") {
            verdicts.into()
        } else {
            format!("{}{}{}", &verdicts[..2], &found[2..3], &verdicts[3..])
        };
        if found != expected {
            let _ = writeln!(wrong, "{expected} expected, {found} found: {kernel}\n{:?}", report.verdicts);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

//! Tests proofs for all sizes: compares the verdicts on the library, the examples and the fault corpora with known
//! answers, and the proofs of random kernels with runs at all small sizes.
//!
//! `prove/verdicts.txt` is the table of verdicts, which `CLK_BLESS=1` rewrites. `CLK_PROVE_KERNELS` is the number of
//! random kernels, `CLK_PROVE_SEED` the first seed.

mod assertions;
mod cases;
mod contracts;
mod divergent_loops;
mod guards;
mod initialized;
mod instances;
mod orders;
mod proof_use;
mod random;
mod random_contracts;
mod random_flat;
mod random_wrapping;
mod small_kernels;
mod unavoidable;
mod warps;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use clk_check::typed::KernelId;
use clk_compile::{NoFiles, Session};
use clk_prove::{ProofReport, ProofVerdict, Property, prove_kernel};
use clk_testing::setting;

const FOLDER: &str = env!("CARGO_MANIFEST_DIR");

fn compiled(name: &str, text: &str) -> Option<Session> {
    let mut session = Session::default();
    let outcome = session.add(name, text, &NoFiles);
    (!outcome.failed()).then_some(session)
}

/// Returns the kernels that a program itself defines, with their names.
fn kernels(session: &Session) -> Vec<(KernelId, String)> {
    session.program.kernels_of(session.main).map(|(id, kernel)| (id, kernel.name.to_string())).collect()
}

fn letter(report: &ProofReport, property: Property) -> char {
    match report.verdict(property) {
        Some(ProofVerdict::Proved { .. }) if report.largest.is_some() => 'P',
        Some(ProofVerdict::Proved { .. }) => 'p',
        Some(ProofVerdict::Refuted { .. }) => 'r',
        Some(ProofVerdict::Unknown { .. }) => '.',
        None => '?',
    }
}

fn letters(report: &ProofReport) -> String {
    let initialized = report.verdict(Property::Initialized).map(|_| Property::Initialized);
    Property::ALL.into_iter().chain(initialized).map(|property| letter(report, property)).collect()
}

/// One program of a corpus file, in whose text all other programs are replaced by blank lines.
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

/// Returns the property that a diagnostic with this code contradicts.
fn contradicted(code: &str) -> Option<Property> {
    match code {
        "E0601" => Some(Property::InBounds),
        "E0610" | "W0601" => Some(Property::RaceFree),
        "E0604" | "E0605" => Some(Property::Barriers),
        "W0602" => Some(Property::Written),
        "E0611" => Some(Property::Initialized),
        _ => None,
    }
}

/// Returns the properties that `//~` comments in these lines of a case mark as violated.
fn announced(text: &str, first: usize, last: usize) -> Vec<Property> {
    // With `<<<…>>>`, a launch overrides the geometry that proofs assume, so its faults do not contradict them.
    if text.contains("<<<") {
        return vec![];
    }
    let lines: Vec<&str> = text.lines().skip(first.saturating_sub(1)).take(last + 1 - first).collect();
    let mut properties = vec![];
    for (i, line) in lines.iter().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//~ ") else { continue };
        let code_line =
            lines[i..].iter().find(|line| !line.trim_start().starts_with("//~")).copied().unwrap_or_default();
        let property = contradicted(comment.split_whitespace().next().unwrap_or_default());
        // A fault at an operation of a warp does not contradict a proof about the barriers of the block.
        let of_warp = !code_line.contains("barrier") || code_line.contains("warp_barrier");
        properties.extend(property.filter(|property| *property != Property::Barriers || !of_warp));
    }
    properties
}

/// Examines the kernels of a case; returns their lines of the table, and the number of expected faults that were
/// compared.
fn examined(case: &Case) -> (String, usize) {
    let (mut table, mut faults) = (String::new(), 0);
    let Some(session) = compiled("case.clk", &case.text) else { return (table, faults) };
    for (id, name) in kernels(&session) {
        let report = prove_kernel(&session.program, id);
        let _ = writeln!(table, "{} {} {name}", letters(&report), case.place);
        let span = session.program.kernels[id].span;
        let (first, last) = (session.sources.line_column(span).0, session.sources.line_column(span.after()).0);
        for property in announced(&case.text, first, last) {
            let proved = matches!(report.verdict(property), Some(ProofVerdict::Proved { .. }));
            assert!(!proved, "{} {property:?} is proved for `{name}`, but the case announces a fault", case.place);
            faults += 1;
        }
    }
    (table, faults)
}

/// Compares the verdicts with the table `verdicts.txt`; the author of a change reviews the difference. A row has the
/// verdicts on: in bounds, free of races, written, barriers, no overflow, any order, and, if the kernel reads shared
/// memory, initialized. Each is `p` (proved), `P` (proved for sizes up to 2^29), `r` (refuted) or `.` (unknown). A
/// property that the corpus marks as violated must not be proved.
#[test]
fn verdicts() {
    let folders = ["stdlib", "examples", "tests/sound", "tests/faults", "tests/prove/flat"];
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

/// Compares verdicts with the golden table, or updates the table.
fn compare_with_table(table: &str) {
    let path = Path::new(FOLDER).join("tests/prove/verdicts.txt");
    if std::env::var("CLK_BLESS").is_ok() {
        return fs::write(path, table).expect("written");
    }
    let golden = fs::read_to_string(&path).unwrap_or_default();
    let (expected, table): (Vec<&str>, Vec<&str>) = (golden.lines().collect(), table.lines().collect());
    let mut changed: Vec<String> = vec![];
    changed.extend(expected.iter().filter(|line| !table.contains(line)).map(|line| format!("- {line}")));
    changed.extend(table.iter().filter(|line| !expected.contains(line)).map(|line| format!("+ {line}")));
    assert!(changed.is_empty(), "verdicts changed (CLK_BLESS=1 rewrites the table):\n{}", changed.join("\n"));
}

/// Run time in seconds above which a case is listed as slow.
const SLOW: f64 = 2.0;

/// At all sizes up to 6, runs of random kernels report no fault that contradicts a proved property.
#[test]
fn proofs_of_random_kernels_hold_at_all_small_sizes() {
    let (first, count) = (setting("CLK_PROVE_SEED", 1), setting("CLK_PROVE_KERNELS", 60));
    let (mut tally, launches) = (random::Tally::default(), random::small_launches());
    for seed in first..first + count {
        random::compare(seed, &random::kernel(seed), &launches, &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.proved > count / 6, "too little is proved: {tally:?}");
    assert!(tally.ordered > count / 20, "too few orders are proved: {tally:?}");
    assert!(tally.refuted > count / 10, "too little is refuted: {tally:?}");
}

/// Like [`proofs_of_random_kernels_hold_at_all_small_sizes`], for kernels that fill shared memory and read it.
#[test]
fn proofs_about_shared_memory_hold_at_small_sizes() {
    let (first, count) = (setting("CLK_PROVE_SEED", 1), setting("CLK_PROVE_KERNELS", 60));
    let (mut tally, launches) = (random::Tally::default(), random::small_launches());
    for seed in first..first + count {
        random::compare(seed, &random::kernel_with_shared_reads(seed), &launches, &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.initialized > count / 10, "too little is proved to be initialized: {tally:?}");
    assert!(tally.uninitialized > count / 10, "too little is refuted: {tally:?}");
}

/// Like [`proofs_of_random_kernels_hold_at_all_small_sizes`], for kernels that write the elements of a matrix or a
/// volume to a flat array, and for kernels that just miss some elements.
#[test]
fn proofs_about_flat_arrays_hold_at_small_sizes() {
    let number =
        |name: &str, default: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (first, count) = (number("CLK_PROVE_SEED", 1), number("CLK_PROVE_KERNELS", 60));
    let mut tally = random_flat::Tally::default();
    for seed in first..first + count {
        random_flat::compare(seed, &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.proved > tally.complete / 2, "too little is proved: {tally:?}");
    assert!(tally.changed_refuted > tally.changed / 4, "too little is refuted: {tally:?}");
    assert!(tally.incomplete_runs > tally.runs / 50, "too few runs leave elements unwritten: {tally:?}");
}

/// Like [`proofs_of_random_kernels_hold_at_all_small_sizes`], for indices whose computation wraps around, and arguments
/// near the limits of their types.
#[test]
fn proofs_about_wrapping_indices_hold_near_the_limits_of_types() {
    let (first, count) = (setting("CLK_PROVE_SEED", 1), setting("CLK_PROVE_KERNELS", 60));
    let mut tally = random::Tally::default();
    for seed in first..first + count {
        let (text, launches) = random_wrapping::kernel(seed);
        random::compare(seed, &text, &launches, &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.kernels > count * 3 / 4, "too few kernels are valid: {tally:?}");
    assert!(tally.proved > count / 8, "too little is proved: {tally:?}");
    assert!(tally.refuted > count / 10, "too little is refuted: {tally:?}");
}

/// Like [`proofs_of_random_kernels_hold_at_all_small_sizes`], for kernels with `assume` clauses and arrays that satisfy
/// them.
#[test]
fn proofs_that_rest_on_contracts_hold_with_small_arrays() {
    let (first, count) = (setting("CLK_PROVE_SEED", 1), setting("CLK_PROVE_KERNELS", 100));
    let mut tally = random_contracts::Tally::default();
    for seed in first..first + count {
        random_contracts::compare(seed, &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.proved > count / 20, "too little is proved: {tally:?}");
    assert!(tally.refuted > count / 20, "too little is refuted: {tally:?}");
    assert!(tally.unmet < tally.runs, "no launch satisfies its assumptions: {tally:?}");
}

/// No warp exceeds its proved access cost if lanes leave loops in different iterations.
#[test]
fn contracts_after_divergent_loops_hold() {
    let (first, count) = (setting("CLK_PROVE_SEED", 1), setting("CLK_PROVE_KERNELS", 30));
    let mut tally = divergent_loops::Tally::default();
    for seed in first..first + count {
        divergent_loops::compare(seed, &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.proved > count / 4, "too few limits are proved: {tally:?}");
    assert!(tally.counted > count / 20, "no proof covers an access after a loop: {tally:?}");
    assert!(tally.refuted > count / 20, "too few limits are refuted: {tally:?}");
    assert!(tally.tight > 0 && tally.most[0] > 8 && tally.most[1] > 8, "runs are not counted: {tally:?}");
}

/// Accesses that the generated GPU code does not check are in bounds in all runs.
#[test]
fn accesses_without_guards_are_in_bounds() {
    let (first, count) = (setting("CLK_PROVE_SEED", 1), setting("CLK_PROVE_KERNELS", 60));
    let mut tally = guards::Tally::default();
    for seed in first..first + count {
        guards::compare(seed, &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.released as u64 > count / 6, "too little is proved: {tally:?}");
    assert!(tally.ended > count / 2, "too few runs need a guard: {tally:?}");
}

/// Runs that skip proved checks report the same faults as runs with all checks.
#[test]
fn runs_with_proofs_report_the_same_faults() {
    let (first, count) = (setting("CLK_PROVE_SEED", 1), setting("CLK_PROVE_KERNELS", 40));
    let mut tally = proof_use::Tally::default();
    for seed in first..first + count {
        proof_use::compare(seed, &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.reports > tally.runs / 20, "too few runs are reported: {tally:?}");
    assert!(tally.runs - tally.reports > tally.runs / 20, "nearly all runs are reported: {tally:?}");
}

/// A conversion in an assumption is understood if it cannot change the value.
#[test]
fn assumptions_with_conversions() {
    let verdict = |ty: &str, assume: &str| {
        let text = format!(
            "kernel f(inout y: [f32; N], n: {ty}) grid(4) block(64) assume {assume} {{
                let i = global_idx.x
                if {ty}(i) < n {{ y[i] = 1.0 }}
            }}"
        );
        letter(&report(&text), Property::InBounds)
    };
    assert_eq!(verdict("u32", "u32(N) >= n"), 'p');
    assert_eq!(verdict("u32", "i64(N) >= i64(n)"), 'p');
    assert_eq!(verdict("u64", "u64(N) >= n"), 'p');
    // `n` may be too large for an `i64`.
    assert_ne!(verdict("u64", "i64(N) >= i64(n)"), 'p');
}

/// Two threads whose indices have equal rows and columns are the same, if the columns are less than the stride.
#[test]
fn rows_and_columns_of_blocks() {
    let verdict = |guard: &str, index: &str| {
        let text = format!(
            "kernel f(inout y: [f32; N], h: i32, w: i32, gx: i32, gy: i32, bx: i32, by: i32) grid(gx, gy) block(bx, by)
                assume h >= 0, w >= 0, N >= h * w
            {{
                let c = global_idx.x
                let r = global_idx.y
                if {guard} {{ y[{index}] = 1.0 }}
            }}"
        );
        letter(&report(&text), Property::RaceFree)
    };
    assert_eq!(verdict("r < h && c < w", "r * w + c"), 'p');
    assert_ne!(verdict("r < h && c <= w", "r * w + c"), 'p');
    assert_ne!(verdict("r < w && c < h", "r * w + c"), 'p');
    assert_ne!(verdict("r < h && c < w", "r * w"), 'p');
}

/// The certificates of a kernel list each proof step together with the statement that it proves.
#[test]
fn certificates_include_their_obligations() {
    let text = "kernel add(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, 64)) block(64) {
        let i = global_idx.x
        if i < N { y[i] = x[i] }
    }";
    let session = compiled("case.clk", text).expect("a program");
    let (id, _) = kernels(&session)[0];
    let report = prove_kernel(&session.program, id);
    assert_eq!(letters(&report), "pppppp");
    let questions = report.certificates.matches("never: ").count();
    let steps: usize = report
        .verdicts
        .iter()
        .map(|(_, verdict)| if let ProofVerdict::Proved { steps, .. } = verdict { *steps } else { 0 })
        .sum();
    assert_eq!(questions, steps);
    assert!(report.certificates.contains("x0 is "), "{}", report.certificates);
}

fn report(text: &str) -> ProofReport {
    let session = compiled("case.clk", text).unwrap_or_else(|| panic!("{text}"));
    let (id, _) = kernels(&session)[0];
    prove_kernel(&session.program, id)
}

/// In this kernel, each condition of a chain contains the previous one three times.
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

//! Tests the evidence in reports of races: the smallest launch that has the race, and the results of both orders of the
//! two accesses.
//!
//! `tests/evidence/*.clk` contain kernels with a race. A line `//# title` begins a case, lines that begin with `//=`
//! are the evidence notes of its report, and a line `//@` separates the kernels from the launch. The launch that the
//! first note suggests must have the same race. `CLK_BLESS=1 cargo test --test devices evidence::` rewrites the notes;
//! review the difference.

use std::fs;
use std::path::{Path, PathBuf};

use clk_testing::{clk, diagnostics, finish, finish_with_input, run};

const OFFERS: [&str; 2] = ["the smallest launch found that has it: ", "the smallest launch found in which it shows: "];

struct Case {
    title: String,
    expected: Vec<String>,
    kernels: String,
    launch: String,
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/evidence");
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).expect("folder").map(|e| e.expect("entry").path()).collect();
    paths.sort();
    paths
}

fn cases(text: &str) -> Vec<Case> {
    let mut all: Vec<Case> = vec![];
    let mut launches = false;
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("//# ") {
            let (expected, kernels, launch) = (vec![], String::new(), String::new());
            all.push(Case { title: title.into(), expected, kernels, launch });
            launches = false;
            continue;
        }
        let Some(case) = all.last_mut() else { continue };
        if let Some(note) = line.strip_prefix("//= ") {
            case.expected.push(note.into());
        } else if line == "//@" {
            launches = true;
        } else {
            let part = if launches { &mut case.launch } else { &mut case.kernels };
            *part += line;
            part.push('\n');
        }
    }
    all
}

/// Runs a program with checks; returns the reports of races, each with its lines and its notes.
fn races(program: &str) -> Vec<(String, Vec<u64>, Vec<String>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let ran = finish_with_input(clk(folder).args(["run", "--check", "--json", "-"]), program);
    let race = |report: &serde_json::Value| {
        if report["code"] != "E0610" {
            return None;
        }
        let labels = report["labels"].as_array()?;
        let accesses = labels.iter().filter(|label| label["text"].as_str() != Some("launched here"));
        let mut lines: Vec<u64> = accesses.filter_map(|label| label["line"].as_u64()).collect();
        lines.sort_unstable();
        let notes = report["notes"].as_array()?.iter().filter_map(|note| Some(note.as_str()?.to_string())).collect();
        Some((report["title"].as_str()?.to_string(), lines, notes))
    };
    let reported: Vec<_> = diagnostics(&ran).iter().filter_map(race).collect();
    assert!(!reported.is_empty(), "no race is reported\n{}\n{program}", ran.err);
    reported
}

/// Returns the notes of a report that belong to the evidence.
fn evidence(notes: &[String]) -> Vec<String> {
    let first = notes.iter().position(|note| {
        OFFERS.iter().any(|offers| note.starts_with(offers)) || note.contains("launch of few threads")
    });
    first.map_or(vec![], |first| notes[first..].to_vec())
}

/// Returns the launch and other statements that a note suggests.
fn offered(note: &str) -> Option<String> {
    let rest = OFFERS.iter().find_map(|offers| note.strip_prefix(offers))?;
    let parts: Vec<&str> = rest.split('`').collect();
    let statements: Vec<&str> = parts.iter().skip(1).step_by(2).copied().collect();
    // If the note describes the launch in words, its last code span is only the name of the kernel.
    statements.last()?.contains('(').then(|| statements.join("\n"))
}

#[test]
fn planted_races_have_their_evidence() {
    let bless = std::env::var_os("CLK_BLESS").is_some();
    let (mut failures, mut count) = (String::new(), 0);
    for path in files() {
        let text = fs::read_to_string(&path).expect("readable");
        let mut blessed = String::new();
        for case in cases(&text) {
            count += 1;
            let (_, lines, notes) = races(&(case.kernels.clone() + &case.launch)).remove(0);
            let actual = evidence(&notes);
            let notes: String = actual.iter().map(|note| format!("//= {note}\n")).collect();
            blessed += &format!("//# {}\n{notes}{}//@\n{}", case.title, case.kernels, case.launch);
            if !bless && actual != case.expected {
                failures += &format!("{}:\n{}\n  is\n{}\n", case.title, case.expected.join("\n"), actual.join("\n"));
            }
            if let Some(launch) = actual.first().and_then(|note| offered(note)) {
                let names: String =
                    case.launch.lines().filter(|line| line.starts_with("let ")).map(|l| format!("{l}\n")).collect();
                let replayed = races(&(case.kernels.clone() + &names + &launch + "\n"));
                assert_eq!(replayed[0].1, lines, "{}: the suggested launch has the same race: {launch}", case.title);
            }
        }
        if bless {
            fs::write(&path, blessed).expect("written");
        }
    }
    assert!(failures.is_empty(), "{failures}");
    assert!(count >= 20, "{count} cases");
}

/// A race that `clk prove` finds has evidence as well. The suggested array contains zeros, since for 0, 1, 2 both
/// orders give the same result.
#[test]
fn proofs_show_race_evidence() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/prove");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("evidence_of_a_proof.clk");
    let program = "kernel left(inout x: [i32; N]) threads(i: N) { if i > 0 { x[i] = x[i - 1] + 1 } }\n";
    fs::write(&path, program).expect("written");
    let ran = run(&folder, &["prove", path.to_str().expect("UTF-8")]);
    let said = ran.out + &ran.err;
    let said = said.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ");
    assert!(
        said.contains(
            "the smallest launch found that has it: `var x = zeros(3, type = i32)`, then `left(x)`, 3 threads"
        ),
        "{said}"
    );
}

/// The output for programs without a race contains no evidence, also with `--json`.
#[test]
fn race_free_programs_have_no_evidence_notes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program =
        "kernel twice(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = 2.0 * x[i] }\nprint(twice(ones(3)))\n";
    let ran = finish_with_input(clk(folder).args(["run", "--check", "--json", "-"]), program);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let ran = finish(clk(folder).args(["-e", "1 + 1", "--check"]));
    assert_eq!(ran.code, 0);
}

//! Tests the faults that no size avoids: none in correct programs, and those of planted mistakes.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{FOLDER, cases, compiled, files, kernels};
use clk_prove::{Property, unavoidable_faults};
use clk_testing::planted::{PlantedProgram, planted_programs};

/// The number of kernels that were examined, and the faults that were found.
#[derive(Default)]
struct Findings {
    kernels: usize,
    faults: Vec<(String, Property, usize)>,
}

impl Findings {
    fn examine(&mut self, place: &str, text: &str) {
        let Some(session) = compiled("case.clk", text) else { return };
        for (id, name) in kernels(&session) {
            self.kernels += 1;
            for fault in unavoidable_faults(&session.program, id, &Arc::default()) {
                let line = fault.diagnostic.primary().map_or(0, |span| session.sources.line_column(span).0);
                self.faults.push((format!("{place} {name}: {}", fault.diagnostic.title), fault.property, line));
            }
        }
    }

    fn examine_folder(&mut self, folder: &str) {
        for path in files(folder) {
            for case in cases(folder, &path) {
                self.examine(&case.place, &case.text);
            }
        }
    }

    fn text(&self) -> String {
        self.faults.iter().fold(String::new(), |mut text, (fault, property, line)| {
            let _ = writeln!(text, "{property:?} in line {line} of {fault}");
            text
        })
    }
}

fn faults_of(kernel: &str) -> Vec<(Property, usize)> {
    let mut findings = Findings::default();
    findings.examine("", kernel);
    assert_eq!(findings.kernels, 1, "{kernel}");
    findings.faults.into_iter().map(|(_, property, line)| (property, line)).collect()
}

/// Returns the programs in the manual that compile alone and are not marked as wrong.
fn programs_of_docs(folder: &Path, programs: &mut Vec<(PathBuf, String)>) {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            programs_of_docs(&path, programs);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            let text = fs::read_to_string(&path).expect("a page");
            let blocks = text.split("\n```").filter_map(|block| block.strip_prefix("clk\n"));
            programs.extend(blocks.map(|program| (path.clone(), program.to_owned())));
        }
    }
}

#[test]
fn correct_programs_have_no_unavoidable_faults() {
    let mut findings = Findings::default();
    ["stdlib", "examples", "tests/sound", "tests/prove/flat"].iter().for_each(|folder| findings.examine_folder(folder));
    println!("{} kernels", findings.kernels);
    assert!(findings.kernels > 400, "{} kernels", findings.kernels);
    assert_eq!(findings.text(), "");
}

/// The manual has programs with mistakes on purpose.
#[test]
fn unavoidable_faults_of_the_manual_are_those_that_it_shows() {
    let mut programs = vec![];
    programs_of_docs(&Path::new(FOLDER).join("docs"), &mut programs);
    let mut findings = Findings::default();
    for (path, text) in &programs {
        let place = path.strip_prefix(FOLDER).unwrap_or(path).display().to_string();
        findings.examine(&place, text);
    }
    println!("{} kernels", findings.kernels);
    assert!(findings.kernels > 60, "{} kernels", findings.kernels);
    let kernels: Vec<&str> =
        findings.faults.iter().map(|(fault, ..)| fault.split_once(':').map_or("", |(kernel, _)| kernel)).collect();
    assert_eq!(kernels, ["docs/internals/faults.md sums", "docs/proofs.md back", "docs/tour.md shift"]);
}

/// The faults of planted programs are found, unless a launch may avoid them by its sizes or elements.
#[test]
fn planted_faults_are_unavoidable() {
    let found = |program: &PlantedProgram| {
        let mut findings = Findings::default();
        findings.examine("", &program.variant);
        let is_found = |line: &usize| program.expected.iter().any(|fault| fault.line == *line);
        findings.faults.iter().any(|(_, _, line)| is_found(line))
    };
    let (mut faulty, mut correct) = (vec![], Findings::default());
    for program in planted_programs().iter().filter(|program| program.name.ends_with(".clk")) {
        faulty.extend(found(program).then(|| program.name.clone()));
        correct.examine(&program.name, &program.text);
    }
    let expected = [
        "accumulate.clk",
        "barrier_loop.clk",
        "barrier_uniform.clk",
        "halo_barrier.clk",
        "in_place_shift.clk",
        "local_taps.clk",
        "matmul_tile.clk",
        "shared_reverse.clk",
        "shared_unwritten.clk",
        "shift_left.clk",
        "tree_sum.clk",
    ];
    assert_eq!(faulty, expected);
    assert_eq!(correct.text(), "");
}

#[test]
fn faults_that_depend_on_sizes_are_not_reported() {
    let of = |params: &str, body: &str| faults_of(&format!("kernel f({params}) threads(i: N) {{\n{body}\n}}"));
    assert_eq!(of("x: [f32; N], out y: [f32; N]", "y[i] = x[i + 1]"), [(Property::InBounds, 2)]);
    // A launch may pass a longer array, or zero.
    assert_eq!(of("x: [f32; M], out y: [f32; N]", "y[i] = x[i + 1]"), []);
    assert_eq!(of("x: [f32; N], k: i32, out y: [f32; N]", "y[i] = x[i + k]"), []);
    assert_eq!(of("x: [f32; N], k: i32, out y: [f32; N]", "y[i] = x[i + k + 1]"), []);
    // A launch may pass indices that are different, or in range.
    assert_eq!(of("x: [f32; N], at: [i32; N], inout y: [f32; N]", "y[at[i]] = x[i]"), []);
    assert_eq!(of("x: [f32; N], at: [i32; N], out y: [f32; N]", "y[i] = x[at[i]]"), []);
    assert_eq!(of("inout x: [f32; N]", "if i > 0 { x[i] = x[i - 1] }"), [(Property::RaceFree, 2)]);
    // One block, or a multiple of its size.
    let block = "kernel f(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, 64)) block(64) {
        y[global_idx.x] = x[global_idx.x]
    }";
    assert_eq!(faults_of(block), []);
}

#[test]
fn faults_of_blocks_are_reported() {
    let of = |store: &str, barrier: &str, read: &str| {
        faults_of(&format!(
            "kernel f(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, 64)) block(64) {{
                shared s: [f32; 64]
                let (t, i) = (thread_idx.x, global_idx.x)
                {store}
                {barrier}
                if i < N {{ y[i] = {read} }}
            }}"
        ))
    };
    let store = "s[t] = if i < N { x[i] } else { 0.0 }";
    assert_eq!(of(store, "barrier()", "s[63 - t]"), []);
    assert_eq!(of(store, "", "s[63 - t]"), [(Property::RaceFree, 6)]);
    assert_eq!(of(store, "if t < 32 { barrier() }", "s[t]"), [(Property::Barriers, 5)]);
    assert_eq!(of("if t < 63 { s[t] = 1.0 }", "barrier()", "s[63 - t]"), [(Property::Initialized, 6)]);
    // All threads store if the length is a multiple of the block.
    assert_eq!(of("if i < N { s[t] = x[i] }", "barrier()", "s[63 - t]"), []);
}

//! Proves kernels of CUDA files. Each file of `tests/cuda_files/faults` has a mistake, with its code above the line as
//! `//~ CODE`; those of `tests/cuda_files/sound` look similar and are correct.

use std::fs;
use std::path::{Path, PathBuf};

use clk_testing::{clk, finish};

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cuda_files").join(folder);
    let entries = fs::read_dir(&folder).expect("the folder exists");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("the folder is readable").path()).collect();
    files.sort();
    files
}

/// Returns the code and the line of each error and of each warning in the output.
fn findings(output: &str) -> Vec<(String, usize)> {
    let mut findings = vec![];
    let mut code = None;
    for line in output.lines() {
        if let Some(rest) = line.strip_prefix("error[").or_else(|| line.strip_prefix("warning[")) {
            code = rest.split_once(']').map(|(code, _)| code.to_string());
        } else if let (Some((_, place)), true) = (line.split_once(".cu:"), line.contains("─[ "))
            && let Some(code) = code.take()
            && let Some(number) = place.split(':').next().and_then(|number| number.parse().ok())
        {
            findings.push((code, number));
        }
    }
    findings
}

fn prove(path: &Path) -> (Option<String>, Vec<(String, usize)>) {
    let folder = path.parent().expect("a file in a folder");
    let name = path.file_name().expect("a file").to_string_lossy().into_owned();
    let proved = finish(clk(folder).args(["prove", "--color", "never", &name]));
    let unproved = (proved.code > 1).then(|| proved.err.clone());
    (unproved, findings(&proved.err))
}

#[test]
fn planted_faults_are_found_at_their_lines() {
    let mut wrong = vec![];
    for path in files("faults") {
        let text = fs::read_to_string(&path).expect("the file");
        let marks =
            text.lines().enumerate().filter_map(|(at, line)| Some((line.split_once("//~ ")?.1.to_string(), at + 2)));
        let (failure, found) = prove(&path);
        for mark in marks {
            if failure.is_some() || !found.contains(&mark) {
                wrong.push(format!("{}: expected {mark:?}, found {found:?} {failure:?}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn correct_kernels_raise_no_alarm() {
    let mut wrong = vec![];
    for path in files("sound") {
        let (failure, found) = prove(&path);
        if failure.is_some() || found.iter().any(|(code, _)| code.starts_with('E') || code == "W0601") {
            wrong.push(format!("{}: {found:?} {failure:?}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

//! Proves kernels of CUDA files. Each file of `tests/cuda_files/faults` has a mistake; those of
//! `tests/cuda_files/sound` look similar and are correct.
//!
//! A comment above the line of the mistake has its code: `//~ CODE` if `clk prove` finds it for all arrays, `//~ run
//! CODE` if it depends on the elements of arrays, so that `clk run --check` finds it. For the latter, comments `//
//! script:` have the lines of a script that launches the kernel.

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

/// Runs the script in the comments of a CUDA file with all checks.
fn run_script(path: &Path, text: &str) -> Vec<(String, usize)> {
    let name = path.file_name().expect("a file").to_string_lossy();
    let folder = tempfile::tempdir().expect("a folder");
    let lines = text.lines().filter_map(|line| line.strip_prefix("// script: "));
    let script = lines.fold(format!("import \"./{name}\"\n"), |script, line| script + line + "\n");
    fs::copy(path, folder.path().join(&*name)).expect("copied");
    fs::write(folder.path().join("script.clk"), script).expect("written");
    let ran = finish(clk(folder.path()).args(["run", "--check", "--color", "never", "script.clk"]));
    findings(&ran.err)
}

#[test]
fn planted_faults_are_found_at_their_lines() {
    let (mut wrong, mut marked) = (vec![], vec![]);
    for path in files("faults") {
        let text = fs::read_to_string(&path).expect("the file");
        let marks =
            text.lines().enumerate().filter_map(|(at, line)| Some((line.split_once("//~ ")?.1.to_string(), at + 2)));
        let (failure, proved) = prove(&path);
        let ran = if text.contains("// script: ") { run_script(&path, &text) } else { vec![] };
        for (mark, line) in marks {
            let (code, found) = match mark.strip_prefix("run ") {
                Some(code) => (code, &ran),
                None => (mark.as_str(), &proved),
            };
            if failure.is_some() || !found.contains(&(code.to_owned(), line)) {
                wrong.push(format!("{}: expected {mark} in line {line}: {found:?} {failure:?}", path.display()));
            }
            marked.push(code.to_owned());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(marked.len() >= 70, "{} faults", marked.len());
    let count = |code: &str| marked.iter().filter(|marked| *marked == code).count();
    assert!(count("E0611") >= 5 && count("E0612") >= 4, "{marked:?}");
}

/// `clk check` finds a read of unwritten shared memory too. Its time is limited, so only a few files are tested.
#[test]
fn quick_checks_find_unwritten_shared_memory() {
    for name in ["shared_counter_unwritten.cu", "shared_tail_unwritten.cu"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cuda_files/faults");
        let text = fs::read_to_string(folder.join(name)).expect("the file");
        let line = text.lines().position(|line| line.contains("//~ E0611")).expect("a mark") + 2;
        let checked = || findings(&finish(clk(&folder).args(["check", "--color", "never", name])).err);
        // On a busy machine, the time may not suffice.
        let found = (0..5).any(|_| checked().contains(&("E0611".to_owned(), line)));
        assert!(found, "{name}: {:?}", checked());
        let none = findings(&finish(clk(&folder).args(["check", "--no-prove", "--color", "never", name])).err);
        assert_eq!(none, [], "{name}");
    }
}

/// A script that imports a CUDA file has the warnings about its kernels.
#[test]
fn imported_files_have_warnings() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cuda_files/faults/lock_without_fence.cu");
    let text = fs::read_to_string(&path).expect("the file");
    let line = text.lines().position(|line| line.contains("//~ W0858")).expect("a mark") + 2;
    assert_eq!(run_script(&path, ""), [("W0858".to_owned(), line)]);
    let folder = tempfile::tempdir().expect("a folder");
    let block_scope = folder.path().join("count.cu");
    let text = "__global__ void count(int *bins) { if (blockIdx.x < 8) atomicAdd_block(&bins[0], 1); }\n";
    fs::write(&block_scope, text).expect("written");
    assert_eq!(run_script(&block_scope, ""), [("W0857".to_owned(), 1)]);
}

#[test]
fn correct_kernels_raise_no_alarm() {
    let mut wrong = vec![];
    let files = files("sound");
    assert!(files.len() >= 20, "{} files", files.len());
    for path in files {
        let (failure, found) = prove(&path);
        if failure.is_some()
            || found.iter().any(|(code, _)| code.starts_with('E') || ["W0601", "W0858"].contains(&code.as_str()))
        {
            wrong.push(format!("{}: {found:?} {failure:?}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

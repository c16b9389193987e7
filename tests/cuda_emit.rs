//! CUDA text, looked at: `tests/cuda/*.clk` and what `clk emit --stage cuda` makes of them (`.cu`). `CLK_BLESS=1` rewrites
//! the expectations.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

fn programs() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cuda");
    let entries = fs::read_dir(folder).expect("the folder is there");
    let mut found: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    found.retain(|path| path.extension().is_some_and(|e| e == "clk"));
    found.sort();
    found
}

fn emitted(path: &Path, options: &[&str]) -> String {
    let folder = path.parent().expect("a folder");
    let name = path.file_name().expect("a name").to_string_lossy().into_owned();
    let words: Vec<&str> =
        ["emit", "--stage", "cuda"].into_iter().chain(options.iter().copied()).chain([name.as_str()]).collect();
    let ran = common::run(folder, &words);
    assert_eq!(ran.code, 0, "{}: {}", path.display(), ran.err);
    ran.out
}

#[test]
fn texts_are_as_they_were() {
    let programs = programs();
    assert!(programs.len() >= 4, "{} programs", programs.len());
    let mut changed = vec![];
    for path in programs {
        let text = emitted(&path, &[]);
        let golden = path.with_extension("cu");
        if std::env::var_os("CLK_BLESS").is_some() {
            fs::write(&golden, &text).expect("written");
        } else if fs::read_to_string(&golden).ok().as_deref() != Some(&text) {
            changed.push(golden.display().to_string());
        }
    }
    assert!(changed.is_empty(), "changed: {changed:?}; CLK_BLESS=1 rewrites them");
}

/// The text of one kernel, with the comments before it.
fn kernel(text: &str, name: &str) -> String {
    let mut found = String::new();
    for line in text.lines() {
        found.push_str(line);
        found.push('\n');
        if line == "}" {
            if found.contains(&format!(" {name}(")) {
                return found;
            }
            found.clear();
        }
    }
    panic!("no kernel `{name}` in\n{text}");
}

#[test]
fn guards_stand_where_nothing_is_proved() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cuda/guards.clk");
    let text = emitted(&path, &[]);
    let guards = |name: &str| kernel(&text, name).matches("report(faults").count();
    assert_eq!(guards("proved"), 0);
    assert_eq!(guards("gathered"), 1, "x[at[i]]");
    assert_eq!(guards("refined"), 0);
    assert_eq!(guards("growing"), 1, "the last one, behind the loop");
    assert_eq!(guards("divided"), 2, "the divisors d and N");
    assert_eq!(guards("tested"), 0);
}

#[test]
fn switches_change_the_text() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cuda/index_space.clk");
    let saxpy = |options: &[&str]| kernel(&emitted(&path, options), "saxpy");
    assert!(saxpy(&[]).contains("a thread takes 4 indices"));
    let one = saxpy(&["--no-coarsen"]);
    assert!(!one.contains("#pragma unroll") && one.contains("if (i >= n)"), "{one}");
    assert!(saxpy(&["--lines"]).contains("#line 4 \"index_space.clk\""));
    let guards = path.with_file_name("guards.clk");
    assert!(!emitted(&guards, &["--unchecked"]).contains("report("));
}

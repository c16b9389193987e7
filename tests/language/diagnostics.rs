//! Tests diagnostics as users see them.
//!
//! The tests run each `tests/diagnostics/**/*.clk`. A comment `//~ CODE text` expects a diagnostic with this code and
//! text, whose primary label starts on the line below. Several such comments may precede a line. A comment that begins
//! with `//~?` instead expects a diagnostic without a location. A missing or an unexpected diagnostic fails the test.
//!
//! If the first line of a program is a comment such as `//# --check`, it runs with these command line options.
//!
//! Programs under `golden/` also have a `.stderr` file with the complete rendered output.
//! `CLK_BLESS=1 cargo test --test language diagnostics::` rewrites these; review the difference.

use std::fs;
use std::path::{Path, PathBuf};

use clk_testing::{RunOutput, clk, diagnostics, finish};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnostics")
}

fn programs(folder: &Path, paths: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder).expect("folder").map(|e| e.expect("entry").path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            programs(&path, paths);
        } else if path.extension().is_some_and(|e| e == "clk") {
            paths.push(path);
        }
    }
}

/// Runs a program in its own folder, so that diagnostics name it without a path.
fn run(path: &Path, options: &[&str]) -> RunOutput {
    let folder = path.parent().expect("a folder");
    let name = path.file_name().expect("a name");
    let source = fs::read_to_string(path).expect("readable");
    let own = source.lines().next().and_then(|line| line.strip_prefix("//# ")).unwrap_or("");
    let own = own.split_whitespace();
    finish(clk(folder).args(["run", "--color", "never", "--max-steps", "1000000"]).args(own).args(options).arg(name))
}

/// The source lines, labels, help and notes of a diagnostic fit the width of the terminal, even if it is narrow. With
/// `--ascii` the output is ASCII if the program is.
#[test]
fn messages_fit_narrow_terminals() {
    let mut paths = Vec::new();
    programs(&folder().join("golden"), &mut paths);
    let mut failures = String::new();
    for path in paths {
        let at = |columns: &str| {
            let folder = path.parent().expect("a folder");
            let source = fs::read_to_string(&path).expect("readable");
            let own = source.lines().next().and_then(|line| line.strip_prefix("//# ")).unwrap_or("").to_owned();
            let mut command = clk(folder);
            command.env("COLUMNS", columns).args(["run", "--ascii", "--color", "never", "--max-steps", "1000000"]);
            finish(command.args(own.split_whitespace()).arg(path.file_name().expect("a name"))).err
        };
        let (wide, narrow) = (at("80"), at("50"));
        if !wide.is_ascii() && fs::read_to_string(&path).is_ok_and(|source| source.is_ascii()) {
            failures += &format!("{}: not ASCII\n{wide}\n", path.display());
        }
        for (columns, text) in [(80, &wide), (50, &narrow)] {
            // Titles may be wider, since the terminal wraps them, and so may paths, which cannot be wrapped.
            let title = |line: &str| ["error[", "warning["].iter().any(|start| line.starts_with(start));
            let framed = text.lines().filter(|line| !title(line) && !line.contains(",-["));
            for line in framed.filter(|line| line.chars().count() > columns) {
                failures += &format!("{} at {columns}: {line}\n", path.display());
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

/// An expected diagnostic: its line (`None` if it has no location), code and text.
#[derive(Debug)]
struct Expected {
    line: Option<u64>,
    code: String,
    text: String,
}

fn expectations(source: &str) -> Vec<Expected> {
    let lines: Vec<&str> = source.lines().collect();
    let mut announced = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//~") else { continue };
        let (placed, comment) = match comment.strip_prefix('?') {
            Some(rest) => (false, rest),
            None => (true, comment),
        };
        let (code, text) = comment.trim().split_once(' ').unwrap_or((comment.trim(), ""));
        let target =
            lines[index..].iter().position(|l| !l.trim_start().starts_with("//~")).expect("a line below") + index;
        announced.push(Expected {
            line: placed.then_some(target as u64 + 1),
            code: code.into(),
            text: text.trim().into(),
        });
    }
    announced
}

fn primary_line(diagnostic: &serde_json::Value) -> Option<u64> {
    let labels = diagnostic["labels"].as_array()?;
    labels.iter().find(|l| l["primary"] == true).or(labels.first())?["line"].as_u64()
}

fn meets(diagnostic: &serde_json::Value, expected: &Expected) -> bool {
    // Collects the titles, labels, notes and help texts of the diagnostics.
    let mut all = String::new();
    collect_texts(diagnostic, &mut all);
    diagnostic["code"] == expected.code.as_str()
        && primary_line(diagnostic) == expected.line
        && all.contains(&expected.text)
}

fn collect_texts(value: &serde_json::Value, all: &mut String) {
    match value {
        serde_json::Value::String(text) => {
            all.push_str(text);
            all.push('\n');
        }
        serde_json::Value::Array(values) => values.iter().for_each(|v| collect_texts(v, all)),
        serde_json::Value::Object(map) => map.values().for_each(|v| collect_texts(v, all)),
        _ => {}
    }
}

/// Returns the differences between the expected and the reported diagnostics of a program.
fn differences(path: &Path) -> Vec<String> {
    let source = fs::read_to_string(path).expect("readable");
    let ran = run(path, &["--json"]);
    let mut reported = diagnostics(&ran);
    let mut wrong = Vec::new();
    for expected in expectations(&source) {
        match reported.iter().position(|d| meets(d, &expected)) {
            Some(at) => drop(reported.remove(at)),
            None => wrong.push(format!("missing: {expected:?}")),
        }
    }
    for surplus in reported {
        wrong.push(format!("surplus: line {:?}: {} {}", primary_line(&surplus), surplus["code"], surplus["title"]));
    }
    if ran.code != 0 && ran.code != 1 {
        wrong.push(format!("exit code {}: {}", ran.code, ran.err));
    }
    wrong
}

#[test]
fn expected_diagnostics_are_reported() {
    let mut paths = Vec::new();
    programs(&folder(), &mut paths);
    assert!(paths.len() >= 15, "the programs are found");
    let mut failures = String::new();
    for path in paths {
        let wrong = differences(&path);
        if !wrong.is_empty() {
            failures +=
                &format!("{}\n  {}\n", path.strip_prefix(folder()).expect("inside").display(), wrong.join("\n  "));
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
}

#[test]
fn golden_messages() {
    let bless = std::env::var_os("CLK_BLESS").is_some_and(|v| v == "1");
    let mut paths = Vec::new();
    programs(&folder().join("golden"), &mut paths);
    let mut failures = String::new();
    for path in paths {
        let ran = run(&path, &[]);
        let golden = path.with_extension("stderr");
        if bless {
            fs::write(&golden, &ran.err).expect("written");
        }
        let expected = fs::read_to_string(&golden).unwrap_or_default().replace("\r\n", "\n");
        if ran.err != expected || ran.err.is_empty() {
            failures += &format!("{}\n--- expected\n{expected}\n--- reported\n{}\n", path.display(), ran.err);
        }
    }
    assert!(failures.is_empty(), "messages changed (CLK_BLESS=1 rewrites the files):\n{failures}");
}

#[test]
fn the_harness_parses_expectations() {
    let announcements =
        expectations("let a = 1\n//~ E0301 not a number\n  //~ W0001\nlet b = a + x\n//~? E0701 no file\nlet c = 2\n");
    let parsed: Vec<(Option<u64>, &str, &str)> =
        announcements.iter().map(|e| (e.line, e.code.as_str(), e.text.as_str())).collect();
    assert_eq!(parsed, [(Some(4), "E0301", "not a number"), (Some(4), "W0001", ""), (None, "E0701", "no file")]);
}

//! Tests the examples on the pages of `clk explain`: a wrong example causes the code of its page, and a correct example
//! runs without diagnostics.

use std::fs;

use clk_codes::Page;
use clk_testing::{diagnostics, run};

/// Codes that a short program on one page cannot cause: they require the keyboard, a session, a test, several files,
/// files of other users, CUDA files, hundreds of nested brackets, GPUs, requests of other programs, threads that wait
/// for each other, a bug of Clk, or code that the checker rejects earlier.
const WITHOUT_EXAMPLES: &[&str] = &[
    "E0111", "E0292", "E0294", "E0486", "E0488", "E0489", "E0526", "E0527", "E0547", "E0550", "E0551", "E0554",
    "E0599", "E0605", "E0607", "E0615", "E0620", "E0621", "E0622", "E0623", "E0703", "E0711", "E0713", "E0730",
    "E0731", "E0732", "E0801", "E0802", "E0803", "E0804", "E0805", "E0806", "E0807", "E0808", "E0809", "E0850",
    "E0851", "E0852", "E0999", "W0010", "W0604", "W0607", "W0612", "W0850", "W0851", "W0852", "W0853", "W0854",
    "W0856", "W0857", "W0858", "W0908",
];

/// Returns the ```` ```clk ```` blocks of a page with the flags after `clk`.
fn examples(page: &Page) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in page.text.lines() {
        match (&mut open, line.trim_start().strip_prefix("```")) {
            (None, Some(info)) => open = Some((info.trim().to_string(), String::new())),
            (Some(_), Some(_)) => {
                let (info, text) = open.take().expect("open");
                if let Some(flags) = info.strip_prefix("clk") {
                    blocks.push((flags.trim().to_string(), text));
                }
            }
            (Some((_, text)), None) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{}: a code block is not closed", page.code);
    blocks
}

/// Describes how the diagnostics of an example contradict its flags; `None` if they agree.
fn complaint(page: &Page, flags: &str, text: &str) -> Option<String> {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.clk"), text).expect("written");
    let ran = match flags {
        "fails check" => run(folder.path(), &["check", "--json", "example.clk"]),
        "fails test" => run(folder.path(), &["test", "--json", "example.clk"]),
        "fails tunings" => run(folder.path(), &["test", "--tunings", "--json", "example.clk"]),
        "fails proof" => run(folder.path(), &["prove", "--json", "example.clk"]),
        "fails profile" => run(folder.path(), &["profile", "--json", "example.clk"]),
        _ => run(folder.path(), &["run", "--check", "--json", "--max-steps", "100000", "example.clk"]),
    };
    let reported: Vec<String> =
        diagnostics(&ran).iter().map(|d| d["code"].as_str().unwrap_or("?").to_string()).collect();
    let right = match flags {
        "fails" | "fails check" | "fails test" | "fails tunings" | "fails proof" | "fails profile" => {
            reported.iter().any(|code| code == page.code)
        }
        // The checker detects this mistake before the run, and reports it with another code.
        "fails early" => ran.code == 1 && !reported.is_empty(),
        "" => ran.code == 0 && reported.is_empty(),
        other => return Some(format!("{}: unknown flags `{other}`", page.code)),
    };
    (!right).then(|| {
        format!("{} ```clk {flags}``` gave {reported:?}, exit code {}:\n{text}\n{}", page.code, ran.code, ran.err)
    })
}

#[test]
fn examples_have_the_documented_diagnostics() {
    let mut failures = Vec::new();
    for page in clk_codes::pages() {
        let examples = examples(page);
        let shows_mistake = examples.iter().any(|(flags, _)| flags.starts_with("fails"));
        if !shows_mistake && !WITHOUT_EXAMPLES.contains(&page.code) {
            failures.push(format!("{}: the page shows no mistake", page.code));
        }
        failures.extend(examples.iter().filter_map(|(flags, text)| complaint(page, flags, text)));
    }
    assert!(failures.is_empty(), "{} examples:\n{}", failures.len(), failures.join("\n"));
}

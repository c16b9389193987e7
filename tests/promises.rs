//! What a script says of its values holds, or its run says that it does not.
//!
//! `tests/promises/*.clk` hold small scripts. A line `//# title` begins one, which is checked and run by itself, with checks on;
//! `[free]` before the title leaves them off. Above the line at fault stands `//~ CODE text`: what is reported has this code,
//! starts on the line below, and has the text somewhere. A script without such a line runs to its end, and its asserts hold.
//! Files that a script saves are kept in memory. `CLK_PROMISES` picks scripts by a part of their file's name or title.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use clk_lang::base::diag::Diagnostic;
use clk_lang::compile::{NoFiles, Session};
use clk_lang::device::Control;
use clk_lang::device::sim::Simulator;
use clk_lang::host::interp::{Interpreter, Options, Shown, World};
use clk_lang::ir::Checks;

/// Files in memory, and what was printed.
#[derive(Default)]
struct Memory {
    files: HashMap<String, Vec<u8>>,
    printed: String,
}

impl World for Memory {
    fn print(&mut self, text: &str) {
        self.printed += text;
    }
    fn show(&mut self, _: Shown) {}
    fn read(&mut self, path: &str) -> Result<Vec<u8>, String> {
        self.files.get(path).cloned().ok_or_else(|| "it is not there".into())
    }
    fn write(&mut self, path: &str, bytes: &[u8]) -> Result<(), String> {
        self.files.insert(path.into(), bytes.to_vec());
        Ok(())
    }
}

/// The errors of a script, from its check or from its run, and what it printed.
fn run(text: &str, checks: bool) -> (Vec<Diagnostic>, String) {
    let mut session = Session::default();
    let outcome = session.add("case.clk", text, &NoFiles);
    if outcome.failed() {
        return (outcome.diagnostics.into_iter().filter(Diagnostic::is_error).collect(), String::new());
    }
    let checks = Checks { memory: checks, arithmetic: checks, nan: false };
    let control = Control { workers: 1, checks, ..Control::default() };
    let device = Arc::new(Simulator::default());
    let mut interpreter = Interpreter::new(Options { args: vec![], control, seed: None, device });
    let mut world = Memory::default();
    for chunk in outcome.chunks {
        if let Err(error) = interpreter.run_chunk(&session, chunk, &mut world) {
            return (vec![*error], world.printed);
        }
    }
    (vec![], world.printed)
}

fn line(text: &str, diagnostic: &Diagnostic) -> usize {
    let start = diagnostic.primary().map_or(0, |span| span.start as usize);
    text[..start.min(text.len())].matches('\n').count() + 1
}

/// Everything that a diagnostic says.
fn words(diagnostic: &Diagnostic) -> String {
    let labels = diagnostic.labels.iter().map(|l| l.text.as_str());
    let parts = std::iter::once(diagnostic.title.as_str()).chain(labels);
    parts.chain(diagnostic.notes.iter().chain(&diagnostic.help).map(String::as_str)).collect::<Vec<_>>().join("\n")
}

/// Line, code and text of what a script announces.
fn announced(text: &str) -> Vec<(usize, String, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = vec![];
    for (index, line) in lines.iter().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//~ ") else { continue };
        let below = (index..lines.len()).find(|&i| !lines[i].trim_start().starts_with("//~")).expect("a line below");
        let (code, text) = comment.split_once(' ').unwrap_or((comment, ""));
        found.push((below + 1, code.to_string(), text.trim().to_string()));
    }
    found
}

/// What is wrong with a script's verdict; empty if nothing is.
fn judged(name: &str, text: &str, checks: bool) -> String {
    let wanted = announced(text);
    let (found, _) = run(text, checks);
    let said: Vec<String> =
        found.iter().map(|d| format!("  line {}: {} {}", line(text, d), d.code, words(d))).collect();
    let fits = wanted.len() == found.len()
        && wanted.iter().all(|(at, code, text_)| {
            found.iter().any(|d| d.code == code && line(text, d) == *at && words(d).contains(text_.as_str()))
        });
    if fits { String::new() } else { format!("{name}: wanted {wanted:?}, got\n{}\n", said.join("\n")) }
}

#[test]
fn scripts_keep_their_promises_or_say_where_they_do_not() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/promises");
    let picked = std::env::var("CLK_PROMISES").unwrap_or_default();
    let (mut failures, mut count) = (String::new(), 0);
    let mut paths: Vec<_> = fs::read_dir(folder).expect("folder").map(|e| e.expect("entry").path()).collect();
    paths.sort();
    for path in paths {
        let file = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let source = fs::read_to_string(&path).expect("a source");
        let (mut title, mut text) = (String::new(), String::new());
        for line in source.lines().chain(["//# "]) {
            let Some(next) = line.strip_prefix("//#") else {
                text += line;
                text.push('\n');
                continue;
            };
            let name = format!("{file}: {title}");
            if !title.is_empty() && name.contains(&picked) {
                count += 1;
                failures += &judged(&name, &text, !title.starts_with("[free]"));
            }
            (title, text) = (next.trim().to_string(), String::new());
        }
    }
    assert!(!picked.is_empty() || count >= 45, "{count} scripts");
    assert!(failures.is_empty(), "\n{failures}");
}

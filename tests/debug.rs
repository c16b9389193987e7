//! The debugger in the terminal: scripted sessions, and the planted mistakes of `tests/faults`.
//!
//! A program in `tests/debugging` ends in a session: `//$ command`, and below it `//> text` for each line that its output has to
//! contain, in this order.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{Ran, clk, finish};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn programs(folder: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        fs::read_dir(root().join(folder)).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    found.retain(|path| path.extension().is_some_and(|end| end == "clk"));
    found.sort();
    found
}

/// Debugs a program with these commands.
fn debug(path: &Path, commands: &[&str]) -> Ran {
    let mut command = clk(path.parent().expect("a folder"));
    command.arg("debug");
    for word in commands {
        command.args(["-c", word]);
    }
    finish(command.arg(path.file_name().expect("a name")))
}

/// The commands of a session, each with the texts that its output contains.
fn session(text: &str) -> Vec<(&str, Vec<&str>)> {
    let mut found: Vec<(&str, Vec<&str>)> = vec![];
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("//$ ") {
            found.push((command, vec![]));
        } else if let (Some(wanted), Some((_, texts))) = (line.strip_prefix("//> "), found.last_mut()) {
            texts.push(wanted);
        }
    }
    found
}

#[test]
fn sessions_show_what_they_say() {
    let mut wrong = vec![];
    for path in programs("tests/debugging") {
        let text = fs::read_to_string(&path).expect("a program");
        let commands = session(&text);
        assert!(!commands.is_empty(), "{} has no session", path.display());
        let words: Vec<&str> = commands.iter().map(|(command, _)| *command).collect();
        let ran = debug(&path, &words);
        let mut rest = ran.out.as_str();
        for (command, wanted) in &commands {
            let prompt = format!("(clk) {command}\n");
            let Some(at) = rest.find(&prompt) else {
                wrong.push(format!("{}: `{command}` was not reached", path.display()));
                break;
            };
            rest = &rest[at + prompt.len()..];
            let mut answer = &rest[..rest.find("(clk) ").unwrap_or(rest.len())];
            for text in wanted {
                match answer.find(text) {
                    Some(at) => answer = &answer[at + text.len()..],
                    None => wrong.push(format!("{}: behind `{command}` there is no `{text}`", path.display())),
                }
            }
        }
        if !wrong.is_empty() {
            wrong.push(format!("{}\n{}", ran.out, ran.err));
            break;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The programs of a file of `tests/faults`, each with the line and the code of its first fault that ends every run.
fn planted(text: &str) -> Vec<(String, usize, &str)> {
    let mut found = vec![];
    for part in text.split("//# ").skip(1) {
        let program = format!("//# {part}");
        let lines: Vec<&str> = part.lines().collect();
        let mark = lines.iter().position(|line| line.trim_start().starts_with("//~ "));
        let Some(at) = mark else { continue };
        let code = lines[at].trim_start().trim_start_matches("//~ ").split_whitespace().next().unwrap_or("");
        if ["E0601", "E0602", "E0603", "E0608"].contains(&code) {
            found.push((program, at + 2, code));
        }
    }
    found
}

#[test]
fn planted_mistakes_end_in_the_debugger_at_their_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut count = 0;
    let mut wrong = vec![];
    for path in programs("tests/faults") {
        for (program, line, code) in planted(&fs::read_to_string(&path).expect("a program")) {
            let file = folder.path().join("planted.clk");
            fs::write(&file, &program).expect("written");
            let ran = debug(&file, &["run", "where", "back", "info locals"]);
            count += 1;
            let here = format!("planted.clk:{line}, step ");
            if !ran.out.contains(&format!("error[{code}]")) || !ran.out.contains(&here) {
                wrong.push(format!("{}: no {code} at line {line}\n{program}\n{}{}", path.display(), ran.out, ran.err));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 20, "{count} planted mistakes");
}

/// A breakpoint that no thread passes has every launch run step by step.
#[test]
fn launches_give_the_same_step_by_step() {
    let mut count = 0;
    for path in programs("tests/debugging") {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let plain = finish(clk(path.parent().expect("a folder")).args(["run", &name]));
        if plain.code != 0 {
            continue;
        }
        let stepped = debug(&path, &["break nan block 400000", "run"]);
        let shown = stepped.out.replace("the script is over; `run` runs it again\n", "");
        let own = shown.split_once("(clk) run\n").map_or("", |(_, own)| own);
        assert_eq!(own, plain.out, "{name}");
        count += 1;
    }
    assert!(count >= 6, "{count} programs");
}

#[test]
fn commands_come_from_standard_input() {
    use std::io::Write;
    use std::process::Stdio;
    let path = root().join("tests/debugging/fault.clk");
    let mut command = clk(path.parent().expect("a folder"));
    let mut child = command
        .args(["debug", "fault.clk"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("clk starts");
    child.stdin.take().expect("a pipe").write_all(b"run\nprint at\nquit\n").expect("written");
    let output = child.wait_with_output().expect("clk ends");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("(clk) print at\n8\n"), "{text}");
}

#[test]
fn a_run_says_how_to_debug_where_nobody_is() {
    let ran = finish(clk(&root().join("tests/debugging")).args(["run", "--debug-on-fault", "fault.clk"]));
    assert!(ran.err.contains("clk debug"), "{}", ran.err);
    assert!(ran.err.contains("error[E0601]"), "{}", ran.err);
    assert_eq!(ran.code, 1);
}

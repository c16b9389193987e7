//! Tests the debugger in the terminal with scripted sessions, and with the planted faults of `tests/faults`.
//!
//! A program in `tests/debugging` ends with a session in comments. Each command is a line `//$ command`, followed by
//! lines `//> text`: its output must contain these texts in this order.

use std::fs;
use std::path::{Path, PathBuf};

use clk_testing::{RunOutput, clk, finish};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn programs(folder: &str) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(root().join(folder)).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "clk"));
    paths.sort();
    paths
}

/// Debugs a program with these commands.
fn debug(path: &Path, commands: &[&str]) -> RunOutput {
    let mut command = clk(path.parent().expect("a folder"));
    command.arg("debug");
    for word in commands {
        command.args(["-c", word]);
    }
    finish(command.arg(path.file_name().expect("a name")))
}

/// Returns the commands of the session in a program, each with the texts that its output must contain.
fn session(text: &str) -> Vec<(&str, Vec<&str>)> {
    let mut commands: Vec<(&str, Vec<&str>)> = vec![];
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("//$ ") {
            commands.push((command, vec![]));
        } else if let (Some(expected), Some((_, texts))) = (line.strip_prefix("//> "), commands.last_mut()) {
            texts.push(expected);
        }
    }
    commands
}

#[test]
fn tests_of_a_file_are_debugged() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.clk");
    let text = "kernel increase(inout x: [i32; N]) threads(i: N) {\n    x[i] += 1\n}\n\
        test \"adds one\" {\n    var x = [1, 2]\n    increase(x)\n    assert(x[1] == 3)\n}\n\
        test \"another\" { assert(true) }\n";
    fs::write(&path, text).expect("written");
    let ran = debug(&path, &["next", "quit"]);
    assert!(ran.err.contains("`clk debug --test TITLE"), "{}{}", ran.out, ran.err);
    let of_test = |title: &str| {
        finish(clk(folder.path()).args(["debug", "--test", title, "-c", "launch", "-c", "step", "-c", "quit", "a.clk"]))
    };
    let ran = of_test("adds");
    assert!(ran.out.contains("launch 1 of `increase`") && ran.out.contains("x[i] += 1"), "{}{}", ran.out, ran.err);
    let ran = of_test("another");
    assert!(!ran.out.contains("launch 1"), "{}{}", ran.out, ran.err);
}

/// The advice depends on the kernel's source, and must not depend on who reports the fault.
#[test]
fn a_fault_has_the_same_advice_in_the_debugger() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.clk");
    let kernel = "kernel shift(x: [f32; N], out y: [f32; N]) threads(i: N) {\n    y[i] = x[i + 1]\n}\n";
    fs::write(&path, format!("{kernel}let y = shift([1.0, 2.0])\n")).expect("written");
    let advice = |text: &str| text.lines().find(|line| line.contains("Help: ")).map(str::to_owned);
    let expected = advice(&finish(clk(folder.path()).args(["run", "a.clk"])).err);
    assert!(expected.as_ref().is_some_and(|help| help.contains("guard the access")), "{expected:?}");
    assert_eq!(advice(&debug(&path, &["continue", "quit"]).out), expected);
}

#[test]
fn debugger_sessions_match_the_expected_output() {
    let mut wrong = vec![];
    for path in programs("tests/debugging") {
        let text = fs::read_to_string(&path).expect("a program");
        let commands = session(&text);
        assert!(!commands.is_empty(), "{} has no session", path.display());
        let words: Vec<&str> = commands.iter().map(|(command, _)| *command).collect();
        let ran = debug(&path, &words);
        let mut rest = ran.out.as_str();
        for (command, expected) in &commands {
            let prompt = format!("(clk) {command}\n");
            let Some(at) = rest.find(&prompt) else {
                wrong.push(format!("{}: `{command}` was not reached", path.display()));
                break;
            };
            rest = &rest[at + prompt.len()..];
            let mut answer = &rest[..rest.find("(clk) ").unwrap_or(rest.len())];
            for text in expected {
                match answer.find(text) {
                    Some(at) => answer = &answer[at + text.len()..],
                    None => wrong.push(format!("{}: no `{text}` after `{command}`", path.display())),
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

/// Returns the programs in a file of `tests/faults` whose first fault ends even a run without checks, each with the
/// line and the code of that fault.
fn planted(text: &str) -> Vec<(String, usize, &str)> {
    let mut programs = vec![];
    for part in text.split("//# ").skip(1) {
        let program = format!("//# {part}");
        let lines: Vec<&str> = part.lines().collect();
        let mark = lines.iter().position(|line| line.trim_start().starts_with("//~ "));
        let Some(at) = mark else { continue };
        let code = lines[at].trim_start().trim_start_matches("//~ ").split_whitespace().next().unwrap_or("");
        if ["E0601", "E0602", "E0603", "E0608"].contains(&code) {
            programs.push((program, at + 2, code));
        }
    }
    programs
}

#[test]
fn planted_faults_stop_the_debugger_at_their_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut count = 0;
    let mut wrong = vec![];
    for path in programs("tests/faults") {
        for (program, line, code) in planted(&fs::read_to_string(&path).expect("a program")) {
            let file = folder.path().join("planted.clk");
            fs::write(&file, &program).expect("written");
            let ran = debug(&file, &["run", "where", "back", "info locals"]);
            count += 1;
            let stop = format!("planted.clk:{line}, step ");
            if !ran.out.contains(&format!("error[{code}]")) || !ran.out.contains(&stop) {
                wrong.push(format!("{}: no {code} at line {line}\n{program}\n{}{}", path.display(), ran.out, ran.err));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 20, "{count} planted mistakes");
}

/// Programs print the same in the stepper as in plain runs. A breakpoint that no thread reaches makes every launch run
/// in the stepper.
#[test]
fn stepped_launches_match_runs() {
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
fn noninteractive_runs_explain_how_to_debug() {
    let ran = finish(clk(&root().join("tests/debugging")).args(["run", "--debug-on-fault", "fault.clk"]));
    assert!(ran.err.contains("clk debug"), "{}", ran.err);
    assert!(ran.err.contains("error[E0601]"), "{}", ran.err);
    assert_eq!(ran.code, 1);
}

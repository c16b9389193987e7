//! Checks that `clk` reports the planted faults of `tests/planted` at their lines, in JSON and in SARIF, and nothing in
//! the correct programs. Also plays an agent that applies fixes and asks for proofs.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use clk_testing::planted::{ExpectedFault, PlantedProgram, planted_programs, words};
use clk_testing::{RunOutput, Schema, diagnostics, run, validate};
use serde_json::Value;

/// Number of rounds of fixes, as for `clk fix`.
const MAX_ROUNDS: usize = 16;

/// Calls a function for each program, on all cores; returns the results in the order of the programs.
fn for_each_program<T: Send>(work: impl Fn(&PlantedProgram) -> T + Sync) -> Vec<T> {
    let programs = planted_programs();
    assert_eq!(programs.len(), 50);
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get()).min(8);
    let mut results: Vec<(usize, T)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers)
            .map(|_| {
                scope.spawn(|| {
                    let mut own = vec![];
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some(program) = programs.get(at) else { return own };
                        own.push((at, work(program)));
                    }
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Runs a command on a program text, in a folder of its own.
fn run_text(name: &str, text: &str, command: &str, options: &[&str]) -> RunOutput {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join(name), text).expect("written");
    run(folder.path(), &[words(command), options, &[name]].concat())
}

/// Returns the lines of the output that are JSON.
fn json_lines(ran: &RunOutput) -> Vec<Value> {
    let lines = ran.out.lines().chain(ran.err.lines());
    lines.filter(|line| line.starts_with('{')).map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn is_in_json(fault: &ExpectedFault, lines: &[Value]) -> bool {
    let is_primary = |label: &Value| label["primary"] == true && label["line"] == fault.line;
    lines.iter().any(|line| {
        line["code"] == *fault.code && line["labels"].as_array().is_some_and(|all| all.iter().any(is_primary))
    })
}

fn is_in_sarif(fault: &ExpectedFault, log: &Value) -> bool {
    let results = log["runs"][0]["results"].as_array().expect("results");
    results.iter().any(|result| {
        let region = &result["locations"][0]["physicalLocation"]["region"];
        result["ruleId"] == *fault.code && region["startLine"] == fault.line
    })
}

#[test]
fn faults_are_in_json_and_sarif() {
    let found = for_each_program(|program| {
        let (mut lines, mut logs, mut wrong) = (vec![], vec![], vec![]);
        for command in program.commands() {
            let expected = program.expected.iter().filter(|fault| fault.commands.iter().any(|c| c == command));
            let expected: Vec<&ExpectedFault> = expected.collect();
            if expected.is_empty() {
                continue;
            }
            let json = json_lines(&run_text(&program.name, &program.variant, command, &["--json"]));
            let sarif = run_text(&program.name, &program.variant, command, &["--format", "sarif"]);
            let log: Value = serde_json::from_str(&sarif.out).expect("a SARIF log");
            for fault in expected {
                if !is_in_json(fault, &json) {
                    wrong.push(format!("{}: `{command} --json` does not report {fault:?}: {json:?}", program.name));
                }
                if !is_in_sarif(fault, &log) {
                    wrong.push(format!("{}: `{command} --format sarif` does not report {fault:?}", program.name));
                }
            }
            lines.extend(json);
            logs.push(log);
        }
        (lines, logs, wrong)
    });
    let wrong: Vec<&str> = found.iter().flat_map(|(_, _, wrong)| wrong).map(String::as_str).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let lines: Vec<Value> = found.iter().flat_map(|(lines, _, _)| lines).cloned().collect();
    let logs: Vec<Value> = found.iter().flat_map(|(_, logs, _)| logs).cloned().collect();
    assert!(lines.len() > 100 && logs.len() >= 60, "{} lines, {} logs", lines.len(), logs.len());
    validate(Schema::JsonLines, &lines);
    validate(Schema::Sarif, &logs);
}

#[test]
fn correct_programs_raise_no_alarm() {
    let alarms = for_each_program(|program| {
        let mut alarms = vec![];
        for command in program.commands() {
            let ran = run_text(&program.name, &program.text, command, &["--json"]);
            let findings = diagnostics(&ran).into_iter().filter(|line| line["severity"] != "note");
            let findings: Vec<Value> = findings.collect();
            let refuted = json_lines(&ran).iter().any(|line| line["verdict"] == "refuted");
            if ran.code != 0 || refuted || !findings.is_empty() {
                alarms.push(format!("{}: {command}: exit code {}, {findings:?}", program.name, ran.code));
            }
        }
        alarms
    });
    let alarms: Vec<String> = alarms.into_iter().flatten().collect();
    assert!(alarms.is_empty(), "{}", alarms.join("\n"));
}

/// Which fixes an agent applies.
#[derive(Clone, Copy, PartialEq)]
enum AppliedFixes {
    /// Those that are certain, as `clk fix` does.
    Certain,
    /// The first one of each error.
    First,
}

/// Applies a fix of each diagnostic, unless it overlaps an earlier one.
fn apply_fixes(text: &str, lines: &[Value], which: AppliedFixes) -> String {
    let mut edits: Vec<(usize, usize, String)> = vec![];
    for line in lines {
        let mut fixes = line["fixes"].as_array().into_iter().flatten();
        let fix = match which {
            AppliedFixes::Certain => fixes.find(|fix| fix["applicability"] == "machine-applicable"),
            AppliedFixes::First => fixes.next().filter(|_| line["severity"] == "error"),
        };
        let Some(fix) = fix else { continue };
        let offset = |edit: &Value, name: &str| edit[name].as_u64().expect("an offset") as usize;
        let own: Vec<(usize, usize, String)> = fix["edits"]
            .as_array()
            .expect("edits")
            .iter()
            .map(|edit| {
                let replacement = edit["replacement"].as_str().expect("a replacement").to_owned();
                (offset(edit, "start"), offset(edit, "end"), replacement)
            })
            .collect();
        let is_free = |(start, end, _): &(usize, usize, String)| edits.iter().all(|(a, b, _)| end < a || b < start);
        if own.iter().all(is_free) {
            edits.extend(own);
        }
    }
    edits.sort_by_key(|(start, end, _)| std::cmp::Reverse((*start, *end)));
    let mut fixed = text.to_owned();
    for (start, end, replacement) in edits {
        fixed.replace_range(start..end, &replacement);
    }
    fixed
}

/// Plays an agent: checks and applies fixes, until none is left; then asks for proofs and a run. Returns the changed
/// program, and whether it is right.
fn repair(program: &PlantedProgram, which: AppliedFixes) -> (String, bool) {
    let mut text = program.variant.clone();
    for _ in 0..MAX_ROUNDS {
        let lines = json_lines(&run_text(&program.name, &text, "check", &["--json"]));
        let next = apply_fixes(&text, &lines, which);
        if next == text {
            break;
        }
        text = next;
    }
    let is_right = program.commands().iter().all(|command| {
        let ran = run_text(&program.name, &text, command, &["--json"]);
        let is_accepted = ran.code == 0 && diagnostics(&ran).iter().all(|line| line["severity"] == "note");
        // The program also has to print the same text as the correct one.
        is_accepted
            && (*command != "run" || ran.out == run_text(&program.name, &program.text, command, &["--json"]).out)
    });
    (text, is_right)
}

#[test]
fn fixes_repair_programs() {
    let repaired = for_each_program(|program| {
        let (text, is_right) = repair(program, AppliedFixes::Certain);
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join(&program.name), &program.variant).expect("written");
        if program.name.ends_with(".clk") {
            run(folder.path(), &["fix", &program.name]);
            let by_fix = fs::read_to_string(folder.path().join(&program.name)).expect("a program");
            assert_eq!(by_fix, text, "{}: `clk fix` differs from the edits in JSON", program.name);
        }
        let by_first = is_right || repair(program, AppliedFixes::First).1;
        (program.name.clone(), is_right, by_first)
    });
    let names = |is_right: &dyn Fn(&(String, bool, bool)) -> bool| -> Vec<&str> {
        repaired.iter().filter(|all| is_right(all)).map(|(name, ..)| name.as_str()).collect()
    };
    let (certain, first) = (names(&|all| all.1), names(&|all| all.2));
    println!("certain fixes repair {} of 50 programs: {}", certain.len(), certain.join(", "));
    println!("the first fix of each error repairs {} of 50 programs: {}", first.len(), first.join(", "));
    assert!(certain.len() >= MIN_REPAIRED.0 && first.len() >= MIN_REPAIRED.1, "{certain:?}, {first:?}");
}

/// The numbers of programs that fixes alone repair, as measured when the corpus was made.
const MIN_REPAIRED: (usize, usize) = (6, 10);

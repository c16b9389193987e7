//! Reads the corpus `tests/planted`: correct programs, each with a variant that has one mistake. Its `README.md`
//! describes the comments of the programs.

use std::fs;

use crate::root;

/// A diagnostic that commands have to report for the variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedFault {
    /// The line of the primary label, counted from 1.
    pub line: usize,
    pub code: String,
    /// The commands that report it: `check`, `prove` and `run`.
    pub commands: Vec<String>,
}

/// A program of the corpus.
#[derive(Clone, Debug)]
pub struct PlantedProgram {
    /// The name of the file, such as `copy_guard.clk`.
    pub name: String,
    /// The correct program.
    pub text: String,
    /// The program with the mistake.
    pub variant: String,
    pub expected: Vec<ExpectedFault>,
}

impl PlantedProgram {
    /// Returns the commands that examine such a file: CUDA files are not run.
    pub fn commands(&self) -> &'static [&'static str] {
        if self.name.ends_with(".cu") { &["check", "prove"] } else { &["check", "prove", "run"] }
    }
}

/// Returns the words of the command line for a command of the corpus.
pub fn words(command: &str) -> &'static [&'static str] {
    match command {
        "check" => &["check"],
        "prove" => &["prove"],
        "run" => &["run", "--check"],
        other => panic!("`{other}` is not a command of the corpus"),
    }
}

/// Returns all programs, in the order of their names.
pub fn planted_programs() -> Vec<PlantedProgram> {
    let folder = root().join("tests/planted");
    let names = fs::read_dir(&folder).expect("tests/planted").map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.retain(|name| name.ends_with(".clk") || name.ends_with(".cu"));
    names.sort();
    names.into_iter().map(|name| program(&fs::read_to_string(folder.join(&name)).expect("a program"), name)).collect()
}

fn program(text: &str, name: String) -> PlantedProgram {
    let mut changes = 0;
    let mut expected = vec![];
    let mut variant = String::new();
    for (at, line) in text.split_inclusive('\n').enumerate() {
        let (code, change) = line.split_once("//- ").unwrap_or((line, ""));
        if let [_, old, _, new, ..] = change.split('`').collect::<Vec<_>>()[..] {
            assert!(code.contains(old), "{name}:{}: no `{old}`", at + 1);
            variant += &line.replacen(old, new, 1);
            changes += 1;
        } else {
            variant += line;
        }
        let Some((_, faults)) = line.split_once("//~ ") else { continue };
        for fault in faults.trim().split(", ") {
            let mut words: Vec<String> = fault.split_whitespace().map(str::to_owned).collect();
            let code = words.pop().expect("a code");
            expected.push(ExpectedFault { line: at + 1, code, commands: words });
        }
    }
    assert_eq!(changes, 1, "{name}: one change");
    assert!(!expected.is_empty() && expected.iter().all(|fault| !fault.commands.is_empty()), "{name}: no fault");
    PlantedProgram { name, text: text.to_owned(), variant, expected }
}

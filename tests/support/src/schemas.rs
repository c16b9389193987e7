//! Validates JSON documents with the Python package `jsonschema`.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::root;

/// A schema that documents are validated against.
#[derive(Clone, Copy, Debug)]
pub enum Schema {
    /// The lines of `clk --json`. Fields that the schema does not have are errors.
    JsonLines,
    /// SARIF 2.1.0.
    Sarif,
}

/// Validates documents. Prints that the check is skipped if the Python that `CLK_PYTHON` names has no `jsonschema`.
#[track_caller]
pub fn validate(schema: Schema, documents: &[Value]) {
    let python = std::env::var("CLK_PYTHON").unwrap_or_else(|_| "python3".into());
    let has_package = Command::new(&python).args(["-c", "import jsonschema"]).output();
    if !has_package.is_ok_and(|out| out.status.success()) {
        println!("skipped: {} documents are not validated: {python} has no jsonschema", documents.len());
        return;
    }
    let (path, options): (_, &[&str]) = match schema {
        Schema::JsonLines => ("docs/schema/clk-output.schema.json", &["--strict"]),
        Schema::Sarif => ("tests/schemas/sarif-2.1.0-rtm.5.json", &[]),
    };
    let mut command = Command::new(&python);
    command.current_dir(root()).args(["tests/schemas/validate.py", path]).args(options);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().expect("Python starts");
    let lines: String = documents.iter().map(|document| format!("{document}\n")).collect();
    let mut input = child.stdin.take().expect("a pipe");
    let writer = std::thread::spawn(move || {
        let _ = input.write_all(lines.as_bytes());
    });
    let output = child.wait_with_output().expect("Python ends");
    writer.join().expect("written");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{schema:?}: {text}");
}

//! Tests that declarations about values, such as their types and extents, hold, or that an error is reported.
//!
//! `tests/promises/*.clk` contain small scripts. A line `//# title` begins one, which is checked and run separately,
//! with checks on; `[free]` before the title turns them off. A comment `//~ CODE text` expects a diagnostic with this
//! code and text, which starts on the line below. A script without such a comment runs to its end, and its asserts
//! hold. Files that a script saves are kept in memory.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use clk_base::diag::Diagnostic;
use clk_base::file_error::FileError;
use clk_compile::{Files, NoFiles, Session};
use clk_host::interp::{Interpreter, ScriptOptions};
use clk_ir::Checks;
use clk_runtime::Control;
use clk_sim::Simulator;
use clk_testing::random::Random;
use clk_testing::world::FilesInMemory;

/// Checks a script and runs it if it has no errors; returns the errors and the output.
fn run(text: &str, checks: bool) -> (Vec<Diagnostic>, String) {
    let mut session = Session::default();
    let outcome = session.add("case.clk", text, &NoFiles);
    if outcome.failed() {
        return (outcome.diagnostics.into_iter().filter(Diagnostic::is_error).collect(), String::new());
    }
    let checks = Checks { memory: checks, arithmetic: checks, nan: false };
    let control = Control { workers: 1, checks, ..Control::default() };
    let device = Arc::new(Simulator::default());
    let mut interpreter = Interpreter::new(ScriptOptions { args: vec![], control, seed: None, device });
    let mut world = FilesInMemory::default();
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

/// Returns the title, labels, notes and help of a diagnostic.
fn words(diagnostic: &Diagnostic) -> String {
    let labels = diagnostic.labels.iter().map(|l| l.text.as_str());
    let parts = std::iter::once(diagnostic.title.as_str()).chain(labels);
    parts.chain(diagnostic.notes.iter().chain(&diagnostic.help).map(String::as_str)).collect::<Vec<_>>().join("\n")
}

/// Returns line, code and text of the diagnostics that a script expects.
fn announced(text: &str) -> Vec<(usize, String, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut announced = vec![];
    for (index, line) in lines.iter().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//~ ") else { continue };
        let target = (index..lines.len()).find(|&i| !lines[i].trim_start().starts_with("//~")).expect("a line below");
        let (code, text) = comment.split_once(' ').unwrap_or((comment, ""));
        announced.push((target + 1, code.to_string(), text.trim().to_string()));
    }
    announced
}

/// Describes how the diagnostics of a script differ from the expected ones; empty if they do not.
fn mismatches(name: &str, text: &str, checks: bool) -> String {
    let expected = announced(text);
    let (reported, _) = run(text, checks);
    let said: Vec<String> =
        reported.iter().map(|d| format!("  line {}: {} {}", line(text, d), d.code, words(d))).collect();
    let matches = expected.len() == reported.len()
        && expected.iter().all(|(at, code, text_)| {
            reported.iter().any(|d| d.code == code && line(text, d) == *at && words(d).contains(text_.as_str()))
        });
    if matches { String::new() } else { format!("{name}: wanted {expected:?}, got\n{}\n", said.join("\n")) }
}

#[test]
fn scripts_keep_their_promises_or_report_the_line() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/promises");
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
            if !title.is_empty() {
                count += 1;
                failures += &mismatches(&name, &text, !title.starts_with("[free]"));
            }
            (title, text) = (next.trim().to_string(), String::new());
        }
    }
    assert!(count >= 100, "{count} scripts");
    assert!(failures.is_empty(), "\n{failures}");
}

/// Returns the same source for every imported file.
struct Imported;

impl Files for Imported {
    fn read(&self, _path: &Path) -> Result<String, FileError> {
        Ok("let base = 5\nconst STEP: i32 = 2\nfn next(x: i32) -> i32 { x + STEP }\n".into())
    }
}

#[test]
fn variables_of_imported_files_are_refused_by_the_check() {
    let check = |text: &str| {
        let outcome = Session::default().add("main.clk", text, &Imported);
        outcome.diagnostics.into_iter().filter(Diagnostic::is_error).map(|d| d.code).collect::<Vec<_>>()
    };
    assert_eq!(check("import \"./lib.clk\" as lib\nprint(lib.next(1), lib.STEP)\n"), [""; 0]);
    assert_eq!(check("import \"./lib.clk\" as lib\nprint(lib.base)\n"), ["E0203"]);
    assert_eq!(check("import \"./lib.clk\" as lib\nfn f() -> i32 { lib.base }\nprint(f())\n"), ["E0203"]);
    assert_eq!(check("import \"./lib.clk\".{base}\nprint(base)\n"), ["E0203"]);
}

/// A value that is annotated with a type, described by its element type and its extents.
struct AnnotatedValue {
    element: &'static str,
    shape: Vec<usize>,
}

impl AnnotatedValue {
    fn any(random: &mut Random) -> AnnotatedValue {
        let element = ["f32", "i32", "f64", "u8", "i64", "bool"][random.next_below(6)];
        let shape = (0..random.next_below(3)).map(|_| 1 + random.next_below(3)).collect();
        AnnotatedValue { element, shape }
    }

    fn one(&self) -> &'static str {
        match self.element {
            "f32" => "1.5",
            "f64" => "2.5f64",
            "i32" => "3",
            "u8" => "4u8",
            "i64" => "5i64",
            _ => "true",
        }
    }

    fn text(&self) -> String {
        let extents: Vec<String> = self.shape.iter().map(usize::to_string).collect();
        match extents.is_empty() {
            true => self.one().into(),
            false => format!("full({}, {})", extents.join(", "), self.one()),
        }
    }

    /// Returns a random annotation, and whether the value matches it. `n` is 2 in all scripts.
    fn annotation(&self, random: &mut Random) -> (String, bool) {
        let other = AnnotatedValue::any(random);
        let mut fits_annotation = true;
        let element = if random.next_below(4) == 0 { other.element } else { self.element };
        fits_annotation &= element == self.element;
        let rank = if random.next_below(6) == 0 { other.shape.len() } else { self.shape.len() };
        fits_annotation &= rank == self.shape.len();
        let mut square: Option<usize> = None;
        let mut extents = Vec::new();
        for axis in 0..rank {
            let own = self.shape.get(axis).copied().unwrap_or(1);
            let (text, is) = match random.next_below(6) {
                0 => ("_".to_string(), own),
                1 => ("n".to_string(), 2),
                2 => ("n + 1".to_string(), 3),
                3 => ("K".to_string(), *square.get_or_insert(own)),
                _ => {
                    let k = if random.next_below(4) == 0 { 1 + random.next_below(3) } else { own };
                    (k.to_string(), k)
                }
            };
            fits_annotation &= is == own;
            extents.push(text);
        }
        let text = if rank == 0 { element.to_string() } else { format!("[{element}; {}]", extents.join(", ")) };
        (text, fits_annotation)
    }
}

/// Returns a random script that annotates a value of statically unknown type, and whether the value matches.
fn annotated(random: &mut Random) -> (String, bool) {
    let argument = AnnotatedValue::any(random);
    let (ty, fits_annotation) = argument.annotation(random);
    let scalar = argument.shape.is_empty() && !ty.starts_with('[');
    let start = format!(
        "let n = parse(i32, \"2\")\nsave(\"v.npz\", v = {})\nlet t = load(\"v.npz\")\nlet v = t.v\n",
        if argument.shape.is_empty() { format!("full(1, {})", argument.one()) } else { argument.text() }
    );
    // Files contain only arrays, so a scalar value is an element of a loaded array.
    let v = if argument.shape.is_empty() { "v[0]" } else { "v" };
    // Signatures cannot refer to variables of the script.
    let signature = ty.replace("n + 1", "3").replace('n', "2");
    let body = match random.next_below(8) {
        0 => format!("let x: {ty} = {v}\n"),
        1 => format!("var x: {ty} = {v}\nx = {v}\n"),
        2 => format!("let (x, y): ({ty}, i32) = ({v}, 1)\n"),
        3 => format!("fn f(x: {signature}) -> i32 {{ 1 }}\nprint(f({v}))\n"),
        4 => format!(
            "fn f(path: str) -> {signature} {{ let t = load(path)\n let v = t.v\n {v} }}\nprint(f(\"v.npz\"))\n"
        ),
        5 => format!(
            "fn f(path: str) -> {signature} {{ let t = load(path)\n let v = t.v\n return {v} }}\nprint(f(\"v.npz\"))\n"
        ),
        6 if scalar => format!("struct S {{ a: {ty} }}\nlet s = S {{ a: {v} }}\n"),
        _ => format!("test \"none\" {{ }}\nif n == 2 {{ let x: {ty} = {v}\n print(x) }}\n"),
    };
    // A function of a scalar applies to arrays elementwise, so it accepts an array of its parameter's type.
    let lifted = body.starts_with("fn f(x:") && !signature.starts_with('[') && !argument.shape.is_empty();
    (start + &body, if lifted { argument.element == signature } else { fits_annotation })
}

/// A type annotation that does not match the value is reported by the check or by the run. A matching one is never
/// reported.
#[test]
fn annotations_are_checked_at_the_latest_when_they_run() {
    let mut random = Random(11);
    let mut count = [0; 2];
    for _ in 0..3000 {
        let (text, fits) = annotated(&mut random);
        let (reported, _) = run(&text, true);
        let codes: Vec<&str> = reported.iter().map(|d| d.code).collect();
        count[usize::from(fits)] += 1;
        let internal = codes.contains(&"E0999");
        assert!(reported.is_empty() == fits && !internal, "{text}\nfits: {fits}, found: {reported:#?}");
    }
    assert!(count.iter().all(|&n| n > 500), "{count:?}");
}

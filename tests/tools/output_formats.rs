//! Tests the formats of `--format`: each kind of JSON line against the schema, SARIF logs, annotations of GitHub, JUnit
//! reports, and the combinations that are refused. Also runs the scripts of the GitHub Action and the hooks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use clk_scalar::ops::MathFn;
use clk_testing::{RunOutput, Schema, binary, clk, diagnostics, finish, root, run, validate};
use serde_json::Value;

const RACE: &str = "kernel reverse(x: [i32; N], out y: [i32; N]) grid(N / 64) block(64) {
    shared s: [i32; 64]
    s[thread_idx.x] = x[global_idx.x]
    y[global_idx.x] = s[63 - thread_idx.x]
}
print(\"before\")
print(reverse(arange(128))[0])
";

const KERNELS: &str = "kernel scale(x: [f32; N], out y: [f32; N]) threads(i: N)
    expect max_ulp <= 4
{
    y[i] = exp(x[i])
}
kernel total(x: [f32; N], inout y: [f32; 1]) threads(i: N) { atomic_add(y[0], x[i]) }
kernel count(x: [i32; N], inout y: [i32; 1]) threads(i: N) { atomic_add(y[0], x[i]) }
kernel spread(x: [f32; N], at: [i32; N], inout y: [f32; M]) threads(i: N)
    assume all(at >= 0 && at < M), distinct(at)
{
    y[at[i]] = x[i]
}
";

const TESTS: &str = "test \"right\" { assert(1 + 1 == 2) }
test \"wrong\\n<&>\" { print(\"told\"); assert(1 + 1 == 3, \"not \\\"so\\\" & <b>\") }
bench \"adding\" { 1 + 1 }
";

fn folder_with(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }
    folder
}

/// Returns the lines of a text that are JSON objects.
fn objects(text: &str) -> Vec<Value> {
    let lines = text.lines().filter(|line| line.starts_with('{'));
    lines.map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn sarif(ran: &RunOutput) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}{}", ran.out, ran.err))
}

fn text<'v>(value: &'v Value, path: &str) -> &'v str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_else(|| panic!("{path} in {value:#}"))
}

#[test]
fn lines_of_every_kind_are_valid() {
    let cuda = "__global__ void f(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
__global__ void g(float *x, unknown_type y) { x[threadIdx.x] = y; }
";
    let tuned = "kernel fill<const B: i32 = 32>(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, B)) block(B)
    tune B in [32, 64]
{
    let i = global_idx.x
    if i < N { y[i] = x[i] }
}
print(fill(ones(256))[0])
";
    let folder = folder_with(&[
        ("kernels.clk", KERNELS),
        ("tests.clk", TESTS),
        ("race.clk", RACE),
        ("wrong.clk", "let x = True\nlet y: f32 = 1 + nosuch\n"),
        ("none.clk", "let x = 1\nprint(x)\n"),
        ("k.cu", cuda),
        ("tuned.clk", tuned),
        ("products.clk", "let w = arange(3) * 2\nprint(w)\n"),
        ("broken.clk", "kernel broken(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[i + 1] }\n"),
    ]);
    let commands: &[&[&str]] = &[
        &["check", "kernels.clk", "wrong.clk", "missing.clk"],
        &["check", "--prove", "broken.clk", "k.cu"],
        &["prove", "kernels.clk"],
        &["prove", "broken.clk"],
        &["prove", "none.clk"],
        &["prove", "kernels.clk", "nosuch"],
        &["run", "--check", "race.clk"],
        &["run", "k.cu"],
        &["run", "--stats", "none.clk"],
        &["test", "tests.clk", "wrong.clk"],
        &["bench", "tests.clk"],
        &["fix", "--dry-run", "wrong.clk"],
        &["profile", "race.clk"],
        &["why", "products.clk", "w[1]"],
        &["import", "--coverage", "k.cu"],
        &["tune", "--device", "sim", "tuned.clk"],
        &["explain", "E9999"],
    ];
    let mut lines = vec![];
    for words in commands {
        let ran = run(folder.path(), &[&["--json"], *words].concat());
        for line in ran.err.lines() {
            assert!(line.starts_with('{'), "{words:?} prints `{line}`");
        }
        assert_eq!(objects(&run(folder.path(), &[&["--format", "json"], *words].concat()).err), objects(&ran.err));
        lines.extend(objects(&ran.out));
        lines.extend(objects(&ran.err));
    }
    let kinds: BTreeSet<&str> = lines.iter().map(|line| text(line, "/kind")).collect();
    let schema = run(root(), &["help", "schema"]);
    let schema: Value = serde_json::from_str(&schema.out).expect("the schema is JSON");
    let described: BTreeSet<&str> = schema["oneOf"]
        .as_array()
        .expect("kinds")
        .iter()
        .map(|kind| text(kind, "/$ref").trim_start_matches("#/$defs/"))
        .collect();
    assert_eq!(kinds, described, "each kind in the schema is tested, and no other is written");
    assert!(lines.iter().all(|line| line["version"] == 1));
    validate(Schema::JsonLines, &lines);
}

#[test]
fn verdicts_state_the_fidelity_of_results() {
    let folder = folder_with(&[("kernels.clk", KERNELS)]);
    let verdicts = objects(&run(folder.path(), &["prove", "--json", "kernels.clk"]).out);
    let of = |kernel: &str| verdicts.iter().find(|line| line["kernel"] == kernel).expect("a verdict");
    let fidelity = |kernel: &str| &of(kernel)["fidelity"];
    let scale = fidelity("scale");
    assert_eq!((&scale["results"], &scale["max_ulp"]), (&"ulp".into(), &4.into()));
    assert_eq!(scale["functions"], serde_json::json!([{ "name": "exp", "ulps": 2 }]));
    let total = fidelity("total");
    assert_eq!((&total["results"], &total["unordered_sums"][0]["line"]), (&"order".into(), &6.into()));
    assert_eq!(fidelity("count")["results"], "bits");
    assert_eq!(fidelity("spread")["results"], "bits");
    assert_eq!(of("spread")["assuming"][0], "all(at >= 0 && at < M)");
}

#[test]
fn races_are_code_flows() {
    let folder = folder_with(&[("a b/race.clk", RACE)]);
    let ran = run(folder.path(), &["run", "--check", "--format", "sarif", "a b/race.clk"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("before\n") && ran.err.contains("error[E0610]"), "{}", ran.err);
    let log = sarif(&ran);
    let result = &log["runs"][0]["results"][0];
    assert_eq!((text(result, "/ruleId"), text(result, "/level")), ("E0610", "error"));
    let place = result.pointer("/locations/0/physicalLocation").expect("a place");
    assert_eq!(text(place, "/artifactLocation/uri"), "a%20b/race.clk");
    let base = text(place, "/artifactLocation/uriBaseId");
    let base = text(&log["runs"][0]["originalUriBaseIds"], &format!("/{base}/uri")).to_owned();
    assert!(base.starts_with("file:///") && base.ends_with('/'), "{base}");
    assert_eq!(
        place["region"],
        serde_json::json!({ "startLine": 4, "startColumn": 23, "endLine": 4, "endColumn": 43 })
    );
    let flows = result.pointer("/codeFlows/0/threadFlows").and_then(Value::as_array).expect("thread flows");
    let lines: Vec<&Value> = flows
        .iter()
        .map(|flow| flow.pointer("/locations/0/location/physicalLocation/region/startLine").expect("a line"))
        .collect();
    assert_eq!(lines, [4, 3]);
    assert!(text(&flows[1], "/locations/0/location/message/text").contains("writes"), "{flows:?}");
    assert_eq!(text(&log["runs"][0], "/tool/driver/rules/0/id"), "E0610");
    validate(Schema::Sarif, &[log]);
}

#[test]
fn sarif_has_fixes_verdicts_and_notifications() {
    let folder = folder_with(&[
        ("wrong.clk", "let x = True\nprint(x)\n"),
        ("broken.clk", "kernel broken(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[i + 1] }\n"),
        ("tests.clk", TESTS),
    ]);
    let at = |words: &[&str]| sarif(&run(folder.path(), &[&["--format", "sarif"], words].concat()));
    let checked = at(&["check", "wrong.clk", "missing.clk"]);
    let fix = checked.pointer("/runs/0/results/0/fixes/0").expect("a fix");
    assert_eq!(text(fix, "/properties/applicability"), "machine-applicable");
    let replacement = fix.pointer("/artifactChanges/0/replacements/0").expect("a replacement");
    assert_eq!(text(replacement, "/insertedContent/text"), "true");
    assert_eq!(replacement["deletedRegion"]["startColumn"], 9);
    let invocation = &checked["runs"][0]["invocations"][0];
    assert_eq!((&invocation["executionSuccessful"], &invocation["exitCode"]), (&false.into(), &1.into()));
    assert!(text(invocation, "/toolExecutionNotifications/0/message/text").contains("missing.clk"), "{invocation}");
    let proved = at(&["prove", "broken.clk"]);
    let records = proved.pointer("/runs/0/properties/records").and_then(Value::as_array).expect("records");
    assert!(records.iter().any(|record| record["verdict"] == "refuted" && record["code"] == "E0601"), "{records:?}");
    assert_eq!(text(&proved, "/runs/0/results/0/ruleId"), "E0601");
    let tested = at(&["test", "tests.clk"]);
    assert_eq!(text(&tested, "/runs/0/results/0/ruleId"), "E0530");
    let evaluated = at(&["check", "--prove", "broken.clk"]);
    assert_eq!(evaluated["runs"][0]["results"], proved["runs"][0]["results"]);
    let device =
        sarif(&finish(clk(folder.path()).args(["--format", "sarif", "--device", "gpu:1000", "run", "wrong.clk"])));
    assert_eq!(device["runs"][0]["invocations"][0]["exitCode"], 3);
    validate(Schema::Sarif, &[checked, proved, tested, evaluated, device]);
}

#[test]
fn annotations_are_lines_of_standard_output() {
    let folder = folder_with(&[("race.clk", RACE), ("kernels.clk", KERNELS)]);
    let ran = run(folder.path(), &["run", "--check", "--format", "github", "race.clk"]);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines[0], "before");
    let start = "::error file=race.clk,line=4,endLine=4,col=23,endColumn=42,title=Clk E0610::a data race on `s[";
    assert!(lines[1].starts_with(start) && lines[1].contains("%0AHelp: put a `barrier()`"), "{}", ran.out);
    assert!(ran.err.contains("error[E0610]"), "{}", ran.err);
    let proved = run(folder.path(), &["prove", "--format", "github", "kernels.clk", "total"]);
    assert!(proved.out.contains("total\n  in bounds"), "{}", proved.out);
}

#[test]
fn junit_reports_are_valid_xml() {
    let folder = folder_with(&[("a.clk", TESTS), ("b.clk", "let x = nosuch\ntest \"never\" { assert(true) }\n")]);
    let ran = run(folder.path(), &["test", "--format", "junit", "."]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("tests=\"3\" failures=\"1\" errors=\"1\""), "{}", ran.out);
    assert!(ran.out.contains("name=\"wrong&#10;&lt;&amp;&gt;\"") || ran.out.contains("name=\"wrong\\n"), "{}", ran.out);
    assert!(ran.out.contains("<system-out>told\n</system-out>"), "{}", ran.out);
    assert!(ran.out.contains("type=\"E0530\"") && ran.out.contains("type=\"E0201\""), "{}", ran.out);
    let script = "import sys, xml.etree.ElementTree as tree
root = tree.fromstring(sys.argv[1])
cases = root.findall('testsuite/testcase')
assert root.tag == 'testsuites' and len(cases) == 3, cases
print([case.find('failure').get('message') for case in cases if case.find('failure') is not None][0])";
    match Command::new("python3").args(["-c", script, &ran.out]).output() {
        Ok(out) => {
            assert!(out.status.success(), "{}\n{}", ran.out, String::from_utf8_lossy(&out.stderr));
            assert_eq!(String::from_utf8_lossy(&out.stdout).trim(), "assertion failed: not \"so\" & <b>");
        }
        Err(error) => println!("skipped: no Python parses the report: {error}"),
    }
}

#[test]
fn formats_that_do_not_suit_are_refused() {
    let folder = folder_with(&[("a.clk", "print(1)\n")]);
    let cases: &[(&[&str], &str)] = &[
        (&["fmt", "--format", "sarif", "a.clk"], "`--format sarif` is for `clk check`"),
        (&["--format", "sarif", "-e", "1"], "all commands have `--format json`"),
        (&["explain", "--format", "github"], "`--format github` is for `clk check`"),
        (&["check", "--format", "junit", "a.clk"], "`--format junit` is for `clk test`"),
        (&["run", "--format", "sarif", "--ranks", "2", "a.clk"], "leave out `--ranks`"),
        (&["run", "--format", "sarif", "--debug-on-fault", "a.clk"], "leave out `--debug-on-fault`"),
        (&["--json", "check", "--format", "sarif", "a.clk"], "leave out --json"),
        (&["check", "--format", "xml", "a.clk"], "[possible values: human, json, sarif, github, junit]"),
        (&["check", "--prove", "--no-prove", "a.clk"], "cannot be used with"),
    ];
    for (words, way_out) in cases {
        let ran = run(folder.path(), words);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{words:?}: {}", ran.err);
        assert!(ran.err.contains(way_out), "{words:?}: {}", ran.err);
    }
    // After the script's name, `--format` is an argument of the script.
    let own = run(folder.path(), &["run", "a.clk", "--format", "sarif"]);
    assert_eq!((own.code, own.out.as_str()), (0, "1\n"), "{}", own.err);
}

#[cfg(target_os = "linux")]
#[test]
fn closed_pipes_and_full_disks_are_no_panics() {
    let folder = folder_with(&[("wrong.clk", "let x = True\nprint(y)\n"), ("tests.clk", TESTS)]);
    for words in ["check --format sarif wrong.clk", "check --format github wrong.clk", "test --format junit tests.clk"]
    {
        for (sink, expected) in [("| true; echo ${PIPESTATUS[0]} >&2", "0 or 1"), ("> /dev/full; echo $? >&2", "1")] {
            let command = format!("'{}' {words} 2> err {sink}", binary().display());
            let ran = Command::new("bash").current_dir(folder.path()).args(["-c", &command]).output().expect("bash");
            let code = String::from_utf8_lossy(&ran.stderr).trim().to_owned();
            assert!(expected.contains(&code), "`{command}` ends with {code}");
            let said = fs::read_to_string(folder.path().join("err")).expect("errors");
            assert!(!said.contains("panicked") && !said.contains("E0999"), "{said}");
            assert!(sink.contains("true") || said.contains("standard output cannot be written"), "{said}");
        }
    }
}

/// Runs a script of the action in a folder with these variables.
#[cfg(target_os = "linux")]
fn run_action(folder: &Path, script: &str, variables: &[(&str, &str)]) -> (i32, String) {
    let mut command = Command::new("bash");
    command.arg(root().join(".ci/action").join(script)).current_dir(folder).env("CLK_DEVICE", "sim");
    let ran = command.envs(variables.iter().copied()).output().expect("bash");
    let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    (ran.status.code().unwrap_or(-1), said)
}

#[cfg(target_os = "linux")]
#[test]
fn the_action_checks_a_repository() {
    let cuda = "__global__ void sum(const int *x, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) *out += x[i];
}
";
    let folder = folder_with(&[
        ("kernels/a file.clk", TESTS),
        ("kernels/sum.cu", cuda),
        (".git/x.cu", cuda),
        ("kernels/host.cu", "int main() { return 0; }\n"),
    ]);
    let clk = binary();
    let clk = clk.to_str().expect("UTF-8");
    let outputs = folder.path().join("outputs");
    let (code, said) =
        run_action(folder.path(), "install.sh", &[("CLK", clk), ("GITHUB_OUTPUT", outputs.to_str().expect("UTF-8"))]);
    assert_eq!((code, fs::read_to_string(&outputs).expect("outputs")), (0, format!("clk={clk}\n")), "{said}");
    let check = |paths: &str, prove: &str, test: &str| {
        let variables = [
            ("CLK", clk),
            ("PATH_LIST", paths),
            ("PROVE", prove),
            ("TEST", test),
            ("SARIF", "clk.sarif"),
            ("JUNIT", "clk.xml"),
        ];
        run_action(folder.path(), "check.sh", &variables)
    };
    let log = || -> Value {
        let text = fs::read_to_string(folder.path().join("clk.sarif")).expect("a log");
        serde_json::from_str(&text).expect("JSON")
    };
    let (code, said) = check("kernels\n", "true", "false");
    assert_eq!(code, 1, "{said}");
    let results = log()["runs"][0]["results"].clone();
    assert_eq!(text(&results, "/0/ruleId"), "E0610");
    assert_eq!(text(&results, "/0/locations/0/physicalLocation/artifactLocation/uri"), "kernels/sum.cu");
    let (code, said) = check("kernels/a file.clk", "false", "false");
    assert_eq!((code, log()["runs"][0]["results"].as_array().map(Vec::len)), (0, Some(0)), "{said}");
    let (code, said) = check("kernels/a file.clk", "false", "true");
    assert_eq!(code, 1, "{said}");
    assert!(fs::read_to_string(folder.path().join("clk.xml")).expect("a report").contains("<testsuites"));
    let (code, said) = check("\n", "false", "false");
    assert!(code == 2 && said.contains("::error title=Clk::the input paths is empty"), "{said}");
    // The action runs these scripts, and passes all of their variables.
    let action = fs::read_to_string(root().join("action.yml")).expect("the action");
    for name in ["install.sh", "check.sh"] {
        assert!(action.contains(&format!("run: bash \"$ACTION/.ci/action/{name}\"")), "{name}");
    }
    for name in ["CLK", "PATH_LIST", "PROVE", "TEST", "SARIF", "JUNIT", "VERSION", "REPOSITORY"] {
        assert!(action.contains(&format!("        {name}: ")), "{name}");
    }
}

/// Runs the hooks as pre-commit does: their entry with the names of changed files.
#[test]
fn hooks_check_the_files_of_a_commit() {
    let hooks = fs::read_to_string(root().join(".pre-commit-hooks.yaml")).expect("the hooks");
    let entries: Vec<&str> = hooks.lines().filter_map(|line| line.trim().strip_prefix("entry: clk ")).collect();
    assert_eq!(entries, ["check", "check --prove", "fmt", "test"]);
    let right = "kernel copy(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[i] }\n";
    let folder = folder_with(&[("right.clk", right), ("wrong.clk", "let x = nosuch\n")]);
    for entry in entries {
        let words: Vec<&str> = entry.split(' ').collect();
        let at = |files: &[&str]| run(folder.path(), &[words.as_slice(), files].concat());
        let passed = at(&["right.clk"]);
        assert_eq!(passed.code, 0, "{entry}: {}", passed.err);
        if entry != "fmt" {
            assert_eq!(at(&["right.clk", "wrong.clk"]).code, 1, "{entry}");
        }
    }
    assert!(diagnostics(&run(folder.path(), &["check", "--json", "wrong.clk"])).iter().any(|d| d["code"] == "E0201"));
}

/// `fidelity.functions` has the same errors as the table in the language reference.
#[test]
fn errors_of_functions_are_those_of_the_reference() {
    let reference = fs::read_to_string(root().join("grammar/README.md")).expect("the reference");
    let row = reference.lines().find(|line| line.starts_with("| of `f32` |")).expect("the row");
    let gpu = row.split('|').nth(3).expect("the column of GPUs");
    let (default, exceptions) = gpu.split_once(',').expect("a default and exceptions");
    let mut documented = BTreeMap::new();
    for exception in exceptions.split(':').nth(1).expect("exceptions").split(';') {
        let (ulps, names) = exception.trim().split_once(" for ").expect("`N for NAMES`");
        let ulps: u32 = ulps.parse().expect("a number");
        documented.extend(names.split('`').skip(1).step_by(2).map(|name| (name, ulps)));
    }
    assert!(documented.len() >= 10, "{documented:?}");
    let default: u32 = default.trim().parse().expect("a number");
    for row in MathFn::TABLE.iter().filter(|row| !row.function.is_exact()) {
        let expected = documented.remove(row.name).unwrap_or(default);
        assert_eq!(row.function.max_ulps(), expected, "{}", row.name);
    }
    assert!(documented.is_empty(), "not in the table of functions: {documented:?}");
}

//! The session as transcripts: what goes in, what comes out, and that a failed entry changes nothing.

mod common;

use std::path::Path;

use common::{Ran, run_with_input};

fn session(entries: &str) -> Ran {
    run_with_input(Path::new(env!("CARGO_MANIFEST_DIR")), &["repl", "--plain", "--ascii"], entries)
}

#[test]
fn values_are_shown_unless_quiet() {
    let ran = session("1 + 2\nlet x = 5\nx * x\nx * x;\n");
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "3\n25\n", ""));
}

#[test]
fn entries_go_on_over_lines() {
    let ran = session("fn twice(x: f32) -> f32 {\n    2.0 * x\n}\ntwice(4.0)\n");
    assert_eq!(ran.out, "8.0\n", "{}", ran.err);
}

#[test]
fn a_kernel_is_defined_and_launched() {
    let ran =
        session("kernel inc(x: [i32; N], out y: [i32; N]) threads(i: N) { y[i] = x[i] + 1 }\nsum(inc([1, 2, 3]))\n");
    assert_eq!(ran.out, "9\n", "{}", ran.err);
}

#[test]
fn a_failed_entry_changes_nothing() {
    let ran = session("var x = 1\nx = nosuch\nx = 2; assert(x == 3)\nx\nlet y = x + 1\ny\n");
    assert_eq!(ran.out, "1\n2\n", "{}", ran.err);
    assert!(ran.err.contains("<entry 2>:1:5") && ran.err.contains("<entry 3>:1:"), "{}", ran.err);
}

#[test]
fn names_may_be_defined_again() {
    let ran = session("let x = 1\nlet x = [1.5, 2.5]\nsum(x)\nfn f() -> i32 { 1 }\nfn f() -> i32 { 2 }\nf()\n");
    assert_eq!(ran.out, "4.0\n2\n", "{}", ran.err);
}

#[test]
fn commands() {
    let ran = session(
        "let n = 3\n:vars\n:type n + 1\n:type [1.0, 2.0]\n:doc sqrt\n:explain E0701\n:nosuch\n:reset\n:vars\n:quit\n1\n",
    );
    assert!(ran.out.starts_with("let n: i32\ni32\n[f32; 2]\n"), "{}", ran.out);
    assert!(ran.out.contains("square root") && ran.out.contains("E0701: "), "{}", ran.out);
    assert!(ran.err.contains("no command `:nosuch`"), "{}", ran.err);
    assert!(!ran.out.ends_with("1\n"), "nothing runs after :quit");
}

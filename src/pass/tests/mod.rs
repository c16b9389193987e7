//! Tests of each pass on small kernels: compare the text of the kernel before and after the pass.

mod inline;
mod locals;
mod loops;
mod pipeline;
mod values;

use super::pipeline::STANDARD;
use clk_ir::def::Module;
use clk_ir::renumber::compact;
use clk_ir::text::{parse, print};
use clk_ir::verify::violations;

#[track_caller]
fn read(text: &str) -> Module {
    let module = parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(violations(&module), Vec::<String>::new(), "the test's own kernel is valid");
    module
}

/// Runs the named passes on a module and compares the body's text.
#[track_caller]
fn check(passes: &[&str], before: &str, after: &str) {
    let mut module = read(before);
    for name in passes {
        let pass = STANDARD.iter().find(|p| p.name == *name).unwrap_or_else(|| panic!("no pass `{name}`"));
        (pass.run)(&mut module);
        assert_eq!(violations(&module), Vec::<String>::new(), "after {name}:\n{}", print(&module));
    }
    compact(&mut module);
    assert_eq!(trimmed(&print(&module)), trimmed(after), "\n{}", print(&module));
}

/// Returns the text of a kernel whose body consists of these declarations and statements.
fn kernel(body: &str) -> String {
    format!(
        "kernel k(n: i32, a: f32, x: in @x, r: out @r) grid\nfn k() {{\nglobal 2 in @x: f32[_]\nglobal 3 out @r: f32[_]\n{body}\n}}\n"
    )
}

/// Like [`check`], but `before` and `after` contain only the statements between the braces of the kernel.
#[track_caller]
fn check_body(passes: &[&str], before: &str, after: &str) {
    check(passes, &kernel(before), &kernel(after));
}

fn trimmed(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

//! Tests of variance analysis: uniform, affine and varying values.

use super::{Variance, analyze};
use crate::def::{BuiltinIndex, ExprKind, StmtKind};
use crate::text::parse;
use crate::verify::violations;
use crate::visit::each_stmt;

/// Checks the variances of a kernel. A comment such as `// affine` is the expected variance of the value defined on
/// that line; `locals` lists the expected variances of the locals.
#[track_caller]
fn check(locals: &str, body: &str) {
    let text = format!(
        "kernel k(n: i32, a: f32, x: in @x, r: out @r) grid\nfn k() {{\nglobal 2 in @x: f32[_]\nglobal 3 out @r: f32[_]\n{body}\n}}\n"
    );
    let module = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(violations(&module), Vec::<String>::new(), "the test's own kernel is valid");
    let function = &module.functions[module.kernel.body];
    let variance = analyze(function);
    let mut actual = Vec::new();
    each_stmt(&function.body, &mut |stmt| {
        if let StmtKind::Let(id) = stmt.kind {
            actual.push(variance_name(variance.exprs[id]));
        }
        stmt.kind.results(|id| actual.push(variance_name(variance.exprs[id])));
    });
    let expected: Vec<&str> = body
        .lines()
        .filter(|l| l.trim().starts_with('%'))
        .map(|l| l.split("// ").nth(1).unwrap_or("?").trim())
        .collect();
    assert_eq!(actual, expected, "{body}");
    let actual: Vec<String> = function
        .locals
        .iter()
        .map(|(id, local)| format!("{} {}", local.name, variance_name(variance.locals[id])))
        .collect();
    assert_eq!(actual.join(", "), locals);
    for (id, expr) in function.exprs.iter() {
        if let ExprKind::Id(id3, _) = expr.kind {
            let uniform = !matches!(id3, BuiltinIndex::Thread | BuiltinIndex::Global);
            assert_eq!(variance.exprs[id] == Variance::Uniform, uniform);
        }
    }
}

fn variance_name(variance: Variance) -> &'static str {
    match variance {
        Variance::Uniform => "uniform",
        Variance::Affine => "affine",
        Variance::Varying => "varying",
    }
}

#[test]
fn linear_arithmetic_is_affine() {
    check(
        "",
        "%0: i32 = block.x * block_dim.x // uniform
         %1: i32 = %0 + thread.x // affine
         %2: i32 = %1 * arg0 // affine
         %3: i32 = thread.y - %2 // affine
         %4: i32 = %3 * thread.x // varying
         %5: u32 = convert %3 // affine
         %6: i64 = convert %3 // varying
         %7: i32 = neg global.x // affine
         %8: bool = %7 < arg0 // varying
         %9: i32 = lane + 1i32 // varying
         %10: f32 = sqrt(arg1) // uniform
         %11: f32 = load @x[%0] // uniform
         %12: f32 = load @x[%1] // varying
         %13: f32 = load @r[%0] // uniform
         %14: bool = barrier_any %8 // uniform
         %15: u32 = ballot %8 // varying",
    );
}

#[test]
fn a_local_written_under_a_varying_condition_varies() {
    check(
        "uniform uniform, varying varying, inside uniform",
        "var $uniform: i32
         var $varying: i32
         var $inside: i32
         %0: bool = thread.x < arg0 // varying
         $uniform = 1i32
         $varying = 1i32
         if %0 {
             $varying = 2i32
             $inside = 3i32
             %1: i32 = read $inside // uniform
             print %1
         }
         %2: bool = arg0 < 3i32 // uniform
         if %2 {
             $uniform = 2i32
         }",
    );
}

#[test]
fn a_local_that_keeps_its_value_between_entries_varies() {
    check(
        "i uniform, kept varying",
        "var $i: i32
         var $kept: i32
         for '0 $i = 0i32 .. arg0 step 1i32 {
             %0: i32 = read $i // uniform
             %1: bool = thread.x < %0 // varying
             if %1 {
                 %2: i32 = read $kept // varying
                 $kept = %0
                 print %2
             }
         }",
    );
}

#[test]
fn loops_with_varying_ends() {
    check(
        "n uniform, m varying, i uniform, j affine",
        "var $n: i32
         var $m: i32
         var $i: i32
         var $j: i32
         $m = 0i32
         $n = 0i32
         for '0 $i = 0i32 .. thread.x step 1i32 {
             %0: i32 = read $i // uniform
             $m = %0
         }
         for '1 $j = thread.x .. arg0 step block_dim.x {
             %1: i32 = read $j // affine
             print %1
         }",
    );
}

#[test]
fn a_varying_break_makes_later_reads_vary() {
    check(
        "count varying, steps uniform, total uniform, turn uniform",
        "var $count: i32
         var $steps: i32
         var $total: i32
         var $turn: i32
         $count = 0i32
         $steps = 0i32
         $total = 0i32
         loop '0 {
             %0: i32 = read $count // varying
             %1: i32 = %0 + 1i32 // varying
             $count = %1
             %7: i32 = read $steps // uniform
             %8: i32 = %7 + 1i32 // uniform
             $steps = %8
             $turn = 4i32
             %2: i32 = read $turn // uniform
             %3: bool = thread.x < %2 // varying
             if %3 {
                 break '0
             }
         }
         loop '1 {
             %4: i32 = read $total // uniform
             %5: i32 = %4 + 1i32 // uniform
             $total = %5
             %6: bool = %5 > arg0 // uniform
             if %6 {
                 break '1
             }
         }
         %9: i32 = read $count // varying
         print %9",
    );
}

#[test]
fn break_after_a_varying_continue_is_divergent() {
    check(
        "x varying",
        "var $x: i32
         $x = 0i32
         loop '0 {
             %0: i32 = read $x // varying
             %1: i32 = %0 + 1i32 // varying
             $x = %1
             %2: bool = thread.x < 3i32 // varying
             if %2 {
                 continue '0
             }
             break '0
         }",
    );
}

#[test]
fn early_return_does_not_change_variance() {
    check(
        "x uniform",
        "var $x: i32
         %0: bool = thread.x < arg0 // varying
         if %0 {
             return
         }
         $x = 1i32
         %1: i32 = read $x // uniform
         print %1",
    );
}

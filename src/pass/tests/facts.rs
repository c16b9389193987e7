//! `facts`: uniform, affine and varying values.

use super::super::facts::analyse;
use crate::ir::def::{ExprKind, Variance};
use crate::ir::visit::each_stmt;

/// Checks variances: `// affine` behind a line is that of the value defined there; those of locals are listed in `locals`.
#[track_caller]
fn check(locals: &str, body: &str) {
    let module = super::read(&super::kernel(body));
    let facts = analyse(&module);
    let function = &module.functions[module.kernel.body];
    let mut found = Vec::new();
    each_stmt(&function.body, &mut |stmt| {
        if let crate::ir::def::StmtKind::Let(id) = stmt.kind {
            found.push(word(facts.exprs[id]));
        }
        stmt.kind.results(|id| found.push(word(facts.exprs[id])));
    });
    let expected: Vec<&str> = body
        .lines()
        .filter(|l| l.trim().starts_with('%'))
        .map(|l| l.split("// ").nth(1).unwrap_or("?").trim())
        .collect();
    assert_eq!(found, expected, "{body}");
    let found: Vec<String> =
        function.locals.iter().map(|(id, local)| format!("{} {}", local.name, word(facts.locals[id]))).collect();
    assert_eq!(found.join(", "), locals);
    for (id, expr) in function.exprs.iter() {
        if let ExprKind::Id(id3, _) = expr.kind {
            let uniform = !matches!(id3, crate::ir::def::Id3::Thread | crate::ir::def::Id3::Global);
            assert_eq!(facts.exprs[id] == Variance::Uniform, uniform);
        }
    }
}

fn word(variance: Variance) -> &'static str {
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
         %13: f32 = load @r[%0] // varying
         %14: bool = barrier_any %8 // uniform
         %15: u32 = ballot %8 // varying",
    );
}

#[test]
fn a_local_written_below_a_varying_condition_varies() {
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
fn a_varying_break_makes_what_is_written_in_its_loop_vary() {
    check(
        "count varying, total uniform, turn uniform",
        "var $count: i32
         var $total: i32
         var $turn: i32
         $count = 0i32
         $total = 0i32
         loop '0 {
             %0: i32 = read $count // varying
             %1: i32 = %0 + 1i32 // varying
             $count = %1
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
         }",
    );
}

#[test]
fn a_break_behind_a_varying_continue_is_not_taken_by_all() {
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
fn returning_does_no_harm() {
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

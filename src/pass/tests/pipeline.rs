//! Tests of the whole pipeline.

use super::super::prepare;
use super::{kernel, read, trimmed};
use clk_ir::text::print;

#[track_caller]
fn check(before: &str, after: &str) {
    let prepared = prepare(read(before)).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(trimmed(&print(&prepared.module)), trimmed(after), "\n{}", print(&prepared.module));
}

#[test]
fn an_inlined_early_return_is_a_selection() {
    check(
        "kernel k(x: in @x, r: out @r) threads 1
         fn relu(f32) -> f32 {
             %0: bool = arg0 < 0.0f32
             if %0 {
                 return 0.0f32
             }
             return arg0
         }
         fn k() {
             global 0 in @x: f32[_]
             global 1 out @r: f32[_]
             %0: f32 = load @x[index0]
             %1: f32 = call relu(%0)
             store @r[index0] = %1
         }",
        "kernel k(x: in @x, r: out @r) threads 1
         fn k() {
             global 0 in @x: f32[_]
             global 1 out @r: f32[_]
             %0: f32 = load @x[index0]
             %1: bool = %0 < 0.0f32
             %2: f32 = select %1, 0.0f32, %0
             store @r[index0] = %2
         }",
    );
}

#[test]
fn a_local_array_of_accumulators_becomes_locals() {
    check(
        &kernel(
            "local @acc: f32[2]
             var $i: i32
             var $k: i32
             declare @acc
             for '0 $i = 0i32 .. 2i32 step 1i32 {
                 %0: i32 = read $i
                 store @acc[%0] = 0.0f32
             }
             for '1 $k = 0i32 .. arg0 step 1i32 {
                 %1: i32 = read $k
                 for '2 $i = 0i32 .. 2i32 step 1i32 {
                     %2: i32 = read $i
                     %3: i32 = %1 + %2
                     %4: f32 = load @x[%3]
                     %5: f32 = load @acc[%2]
                     %6: f32 = %5 + %4
                     store @acc[%2] = %6
                 }
             }
             %7: f32 = load @acc[1i32]
             store @r[lane] = %7",
        ),
        &kernel(
            "var $k: i32
             var $acc_0: f32
             var $acc_1: f32
             $acc_0 = 0.0f32
             $acc_1 = 0.0f32
             for '0 $k = 0i32 .. arg0 step 1i32 {
                 %0: i32 = read $k
                 %1: f32 = load @x[%0]
                 %2: f32 = read $acc_0
                 %3: f32 = %2 + %1
                 $acc_0 = %3
                 %4: i32 = %0 + 1i32
                 %5: f32 = load @x[%4]
                 %6: f32 = read $acc_1
                 %7: f32 = %6 + %5
                 $acc_1 = %7
             }
             %8: f32 = read $acc_1
             store @r[lane] = %8",
        ),
    );
}

#[test]
fn a_short_circuit_is_an_and() {
    check(
        &kernel(
            "var $both: bool
             %0: bool = lane < arg0
             $both = false
             if %0 {
                 %1: bool = warp < arg0
                 $both = %1
             }
             %2: bool = read $both
             if %2 {
                 store @r[lane] = 1.0f32
             }",
        ),
        &kernel(
            "%0: bool = lane < arg0
             %1: bool = warp < arg0
             %2: bool = %0 & %1
             if %2 {
                 store @r[lane] = 1.0f32
             }",
        ),
    );
}

#[test]
fn an_invalid_module_is_described() {
    let module = clk_ir::text::parse(&kernel("if lane {\n}")).unwrap();
    let error = prepare(module).map(|_| ()).unwrap_err();
    assert!(
        error.after == "lowering" && error.violations[0].contains("a condition is") && error.text.contains("fn k()"),
        "{error}"
    );
}

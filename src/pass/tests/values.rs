//! Tests of the passes `simplify` and `cse`.

use super::{check_body, kernel};
use clk_ir::Checks;
use clk_ir::def::{ExprKind, MessageSegment, StmtKind};
use clk_ir::renumber::compact;

/// Checks the simplification of one expression, the right side of a `let`. Operands are `arg0: i32` and `arg1: f32`.
#[track_caller]
fn check(ty: &str, before: &str, after: &str) {
    let mut module = super::read(&kernel(&format!("%0: {ty} = {before}\nprint %0")));
    for pass in [super::super::simplify::run, super::super::dead_code::run] {
        pass(&mut module);
    }
    compact(&mut module);
    let text = clk_ir::text::print(&module);
    let lines: Vec<&str> =
        text.lines().map(str::trim).filter(|l| l.starts_with('%') || l.starts_with("print")).collect();
    let expected = match after.contains(' ') || after.contains('(') {
        true => format!("%0: {ty} = {after}; print %0"),
        false => format!("print {after}"),
    };
    assert_eq!(lines.join("; "), expected);
}

#[test]
fn constants_are_folded() {
    check("i32", "3i32 + 4i32", "7i32");
    check("i32", "2147483647i32 + 1i32", "-2147483648i32");
    check("f32", "0.5f32 + 0.25f32", "0.75f32");
    check("bool", "1.0f32 < 2.0f32", "true");
    check("f32", "sqrt(4.0f32)", "2.0f32");
    check("u8", "convert 300i32", "44u8");
    check("u32", "bitcast 1.0f32", "1065353216u32");
    check("i32", "1i32 / 0i32", "1i32 / 0i32");
}

#[test]
fn identity_operations_are_removed() {
    check("i32", "0i32 + arg0", "arg0");
    check("i32", "arg0 * 1i32", "arg0");
    check("i32", "arg0 * 0i32", "0i32");
    check("i32", "arg0 - arg0", "0i32");
    check("i32", "arg0 & -1i32", "arg0");
    check("i32", "arg0 << 0u32", "arg0");
    check("bool", "arg0 <= arg0", "true");
    check("f32", "arg1 * 1.0f32", "arg1");
    check("f32", "arg1 - 0.0f32", "arg1");
    check("f32", "arg1 + -0.0f32", "arg1");
    check("f32", "arg1 / 4.0f32", "arg1 * 0.25f32");
}

#[test]
fn floats_stay_exact() {
    for kept in ["arg1 + 0.0f32", "arg1 - -0.0f32", "arg1 * 0.0f32", "arg1 - arg1", "arg1 / 3.0f32"] {
        check("f32", kept, kept);
    }
    check("bool", "arg1 == arg1", "arg1 == arg1");
    check("f32", "arg1 / 2.0e38f32", "arg1 / 2e38f32");
}

#[test]
fn divisions_by_powers_of_two() {
    check("i32", "lane / 16i32", "lane >> 4i32");
    check("i32", "lane % 16i32", "lane & 15i32");
    check("i32", "arg0 / 16i32", "arg0 / 16i32");
    check("i32", "lane / 12i32", "lane / 12i32");
}

#[test]
fn logic_and_vectors() {
    check_body(
        &["simplify", "cse", "dead"],
        "%0: bool = lane < arg0
         %1: bool = not %0
         %2: bool = select %0, %1, false
         %3: bool = not %1
         %4: f32x2 = compose arg1, 2.0f32
         %5: f32 = extract %4, 0
         %6: f32 = extract %4, 1
         %7: f32x2 = compose %5, %6
         %8: i32 = select %1, 1i32, 2i32
         print %1, %2, %3, %5, %7, %8",
        "%0: bool = lane < arg0
         %1: bool = lane >= arg0
         %2: bool = %0 & %1
         %3: f32x2 = compose arg1, 2.0f32
         %4: i32 = select %1, 1i32, 2i32
         print %1, %2, %0, arg1, %3, %4",
    );
}

#[test]
fn known_extents_are_constants() {
    let mut module = super::read(&kernel("local @l: i32[5]\nprint extent(@l, 0)"));
    super::super::simplify::run(&mut module);
    let function = &module.functions[module.kernel.body];
    let StmtKind::Print { parts } = &function.body[0].kind else { panic!("a print") };
    let MessageSegment::Value(value, _) = parts[0] else { panic!("a value") };
    assert_eq!(function.exprs[value].kind, ExprKind::Const(5));
}

#[test]
fn common_subexpressions_and_loads_are_shared() {
    check_body(
        &["cse"],
        "%0: i32 = lane + 1i32
         %1: f32 = load @x[%0]
         %2: i32 = lane + 1i32
         %3: f32 = load @x[%2]
         %4: bool = %1 < %3
         if %4 {
             %5: i32 = lane + 1i32
             %6: i32 = lane + 2i32
             print %5, %6
         }
         %7: i32 = lane + 2i32
         print %7",
        "%0: i32 = lane + 1i32
         %1: f32 = load @x[%0]
         %2: bool = %1 < %1
         if %2 {
             %3: i32 = lane + 2i32
             print %0, %3
         }
         %4: i32 = lane + 2i32
         print %4",
    );
}

#[test]
fn a_load_is_reused_until_the_memory_may_change() {
    check_body(
        &["cse"],
        "shared @s: f32[4]
         %0: f32 = load @x[lane]
         %1: f32 = load @s[lane]
         barrier
         %2: f32 = load @x[lane]
         %3: f32 = load @s[lane]
         %4: f32 = load @s[lane]
         store @s[0i32] = %1
         %5: f32 = load @s[lane]
         %6: f32 = load @s[0i32]
         print %0, %2, %3, %4, %5, %6",
        "shared @s: f32[4]
         %0: f32 = load @x[lane]
         %1: f32 = load @s[lane]
         barrier
         %2: f32 = load @s[lane]
         store @s[0i32] = %1
         %3: f32 = load @s[lane]
         print %0, %0, %2, %2, %3, %1",
    );
}

#[test]
fn loops_and_branches_with_stores_invalidate_loads() {
    check_body(
        &["cse"],
        "%0: f32 = load @r[0i32]
         %1: bool = %0 < 1.0f32
         if %1 {
             store @r[0i32] = 1.0f32
         }
         %2: f32 = load @r[0i32]
         loop '0 {
             %3: f32 = load @r[0i32]
             print %2, %3
             if %1 {
                 break '0
             }
             store @r[1i32] = 1.0f32
         }",
        "%0: f32 = load @r[0i32]
         %1: bool = %0 < 1.0f32
         if %1 {
             store @r[0i32] = 1.0f32
         }
         %2: f32 = load @r[0i32]
         loop '0 {
             %3: f32 = load @r[0i32]
             print %2, %3
             if %1 {
                 break '0
             }
             store @r[1i32] = 1.0f32
         }",
    );
}

/// Returns the number of statements in a kernel's body after the pipeline for these checks.
fn count_stmts(body: &str, checks: Checks) -> usize {
    let module = super::read(&kernel(body));
    let prepared = super::super::prepare_for(module, checks).unwrap_or_else(|e| panic!("{e}"));
    prepared.module.functions[prepared.module.kernel.body].body.len()
}

const NONE: Checks = Checks { memory: false, arithmetic: false, nan: false };
const ARITHMETIC: Checks = Checks { arithmetic: true, ..NONE };
const NAN: Checks = Checks { nan: true, ..NONE };

/// With checks enabled, unused operations that the checks may report are kept; without checks they are removed.
#[test]
fn unused_operations_stay_in_checked_runs() {
    let signed = ["arg0 + arg0", "arg0 - 5i32", "arg0 * arg0", "arg0 ** arg0", "neg arg0", "abs(arg0)", "arg0 << arg0"];
    let others = [("u8", "convert arg1"), ("u32", "1u32 >> arg0")];
    let all = signed.into_iter().map(|text| ("i32", text)).chain(others);
    for (ty, text) in all {
        let body = format!("%0: {ty} = {text}");
        assert_eq!([NONE, ARITHMETIC, NAN].map(|checks| count_stmts(&body, checks)), [0, 1, 1], "{text}");
    }
    for text in ["arg1 * arg1", "arg1 / 2.0f32", "sqrt(arg1)", "fma(arg1, arg1, arg1)"] {
        let body = format!("%0: f32 = {text}");
        assert_eq!([NONE, ARITHMETIC, NAN].map(|checks| count_stmts(&body, checks)), [0, 0, 1], "{text}");
    }
    for (ty, text) in
        [("i32", "arg0 & 3i32"), ("u32", "1u32 + 2u32"), ("f32", "max(arg1, 1.0f32)"), ("bool", "arg1 < 1.0f32")]
    {
        let body = format!("%0: {ty} = {text}");
        assert_eq!([NONE, ARITHMETIC, NAN].map(|checks| count_stmts(&body, checks)), [0, 0, 0], "{text}");
    }
    let written = "var $v: i32\n%0: i32 = arg0 * arg0\n$v = %0\n%1: bool = %0 > 5i32\nif %1 {\n}";
    assert_eq!([NONE, ARITHMETIC].map(|checks| count_stmts(written, checks)), [0, 1]);
}

/// An operation on constants is not folded if the checks report it as a fault.
#[test]
fn reported_constants_stay_in_checked_runs() {
    for (ty, text, kept) in [
        ("i32", "2147483647i32 + 1i32", [false, true, true]),
        ("i32", "convert 1.0e20f32", [false, true, true]),
        ("i32", "1i32 << 40i32", [false, true, true]),
        ("f32", "3.0e38f32 * 10.0f32", [false, false, true]),
        ("f32", "0.0f32 / 0.0f32", [false, false, true]),
        ("f32", "sqrt(-1.0f32)", [false, false, true]),
        ("f32", "2.0f32 * 3.0f32", [false, false, false]),
    ] {
        let body = format!("%0: {ty} = {text}\nprint %0");
        let actual = [NONE, ARITHMETIC, NAN].map(|checks| count_stmts(&body, checks) == 2);
        assert_eq!(actual, kept, "{text}");
    }
}

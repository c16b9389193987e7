//! Tests of the division into phases, and of the verifier's messages for invalid phases.

use super::super::phases::{remove_barriers, split_into_phases};
use super::*;

/// A kernel with a value that is live across barriers in a loop, a value that the loop changes, and a counter that is
/// the same for the whole block.
const LOOP: &str = "
region together whole 128, 1, 1
values 11
read r1
write r2: i32 lanes
setup {
    %1: i64 = lanes(r1)
    %2: i64 = lanes(r2)
    %3: i64 = const 1
    %4: i64 = const 5
    %5: i64 = const 0
}
body {
    %6: v32(x, row) = load_reg %1
    %10: i32(x) = coord x
    %7: mut i64 = move %5
    block 'e1 {
        loop {
            %8: v32(x, row) = mul.i32 %6, %6
            barrier
            %0: v32(x) = broadcast %10
            %9: mut v32(x, row) = add.i32 %8, %0
            barrier
            %7 = scalar add.i64 %7, %3
            branch 'e1 if ge.i64 %7, %4
        }
    }
    store_reg %2, %9
}
";

fn region_of(text: &str) -> LaneRegion {
    let region = parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    verify(&region).unwrap_or_else(|e| panic!("{e}\n{text}"));
    region
}

fn divided() -> String {
    let mut region = region_of(LOOP);
    assert!(split_into_phases(&mut region));
    verify(&region).unwrap_or_else(|e| panic!("{e}\n{region}"));
    region.to_string()
}

fn body(text: &str) -> Vec<&str> {
    text.lines().skip_while(|line| *line != "body {").map(str::trim).collect()
}

#[test]
fn phases_save_values_of_later_phases() {
    let text = divided();
    assert_eq!(
        body(&text),
        [
            "body {",
            "%7: mut i64 = move %5",
            "each {",
            "%6: v32(x, row) = load_reg %1",
            "keep 0(x, row) %6",
            "%10: i32(x) = coord x",
            "}",
            "block 'e1 {",
            "loop {",
            "each {",
            "%11: v32(x, row) = kept 0(x, row)",
            "%8: v32(x, row) = mul.i32 %11, %11",
            "keep 1(x, row) %8",
            "}",
            "each {",
            "%12: v32(x, row) = kept 1(x, row)",
            // Cheap values are recomputed in each phase.
            "%13: i32(x) = coord x",
            "%0: v32(x) = broadcast %13",
            "%9: mut v32(x, row) = add.i32 %12, %0",
            "keep 2(x, row) %9",
            "}",
            "%7 = scalar add.i64 %7, %3",
            "branch 'e1 if ge.i64 %7, %4",
            "}",
            "}",
            "each {",
            "%14: mut v32(x, row) = kept 2(x, row)",
            "store_reg %2, %14",
            "}",
            "}",
        ],
        "{text}"
    );
    let reparsed = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(reparsed.to_string(), text);
    assert_eq!(reparsed.phase_slots, [LaneTy::V32; 3]);
    assert_eq!(reparsed.phase_origin(LaneValue(14)), LaneValue(9));
}

/// If control flow outside phases depends on a value that a phase computes, it loads the value of the first batch.
#[test]
fn control_flow_loads_saved_values() {
    let text = LOOP
        .replace("values 11", "values 12")
        .replace(
            "            barrier\n            %7 =",
            "            %11: i32 = first_lane %9\n            barrier\n            %7 =",
        )
        .replace("if ge.i64 %7, %4", "if ge.i32 %11, %10")
        .replace("%10: i32(x) = coord x\n", "%10: i32 = const 3\n");
    let mut region = region_of(&text);
    assert!(split_into_phases(&mut region));
    verify(&region).unwrap_or_else(|e| panic!("{e}\n{region}"));
    let text = region.to_string();
    let lines = body(&text);
    let branch = lines.iter().position(|line| line.starts_with("branch")).expect("a branch");
    assert_eq!(lines[branch - 1..=branch], ["%14: i32 = kept 2", "branch 'e1 if ge.i32 %14, %10"], "{text}");
}

#[test]
fn masked_barriers_are_rejected() {
    let text = LOOP.replace("if ge.i64 %7, %4", "if none %11").replace("values 11", "values 12").replace(
        "            barrier\n            %7 =",
        "            %11: mask = compare eq.i32 %8, %9\n            barrier\n            %7 =",
    );
    let mut region = region_of(&text);
    let before = region.to_string();
    assert!(!split_into_phases(&mut region));
    assert_eq!(region.to_string(), before);
}

#[test]
fn single_batch_removes_barriers() {
    let mut region = region_of(LOOP);
    remove_barriers(&mut region);
    verify(&region).unwrap_or_else(|e| panic!("{e}\n{region}"));
    assert_eq!(region.to_string(), LOOP.trim_start().replace("            barrier\n", ""));
}

#[test]
fn invalid_phases_are_rejected() {
    let text = divided();
    let check = |from: &str, to: &str, expected: &str| {
        assert_eq!(text.matches(from).count(), 1, "`{from}` in\n{text}");
        let damaged = text.replace(from, to);
        let region = parse(&damaged).unwrap_or_else(|e| panic!("{e}\n{damaged}"));
        assert_eq!(verify(&region).expect_err("a violation").to_string(), expected, "{damaged}");
    };
    check(
        "            %7 = scalar add",
        "            barrier\n            %7 = scalar add",
        "R12 phases: a barrier in `barrier`",
    );
    check("together whole 128, 1, 1", "together whole 0, 1, 1", "R12 phases: a phase in a region for unknown extents");
    check("together ", "", "R12 phases: a phase in a region for unknown extents");
    check(
        "            %7 = scalar add",
        "            leave_zero %5\n            %7 = scalar add",
        "R12 phases: an operation that is only allowed in a phase in `leave_zero %5`",
    );
    check(
        "    %7: mut i64 = move %5\n",
        "    %7: mut i64(x) = move %5\n",
        "R12 phases: a value that differs between batches in `%7 = move %5`",
    );
    check("mul.i32 %11, %11", "mul.i32 %6, %11", "R7 defined: %6 may not be defined in `%8 = mul.i32 %6, %11`");
    check(
        "                keep 1(x, row) %8\n",
        "",
        "R13 kept: the slot may not have been written in `%12 = kept 1(x, row)`",
    );
    check("kept 1(x, row)", "kept 1(x)", "R12 phases: a v32(x, row) in `%12 = kept 1(x)`");
    check(
        "kept 1(x, row)",
        "kept 3(x, row)",
        "R1 tables: an operand that is not in the tables in `%12 = kept 3(x, row)`",
    );
    check(
        "                keep 1(x, row) %8\n",
        "                each {\n                }\n",
        "R12 phases: nested phases",
    );
}

//! Tests that each rule of the LaneIR verifier rejects violations.

use super::*;

/// A small valid region. Each test replaces one line of it and thereby violates one rule.
const VALID: &str = "
region
values 16
memory 0 load store
access %5 of 0: check_row(1) %3, %4, %2
access %1 of 0: check_one %9, %2
write r4: i32 uniform
setup {
    %1: i64 = base(mem 0)
    %2: i64 = extent(mem 0, axis 0)
    %3: i64 = const 0
    %4: i64 = limit(1) %2
    %5: i64 = scalar add.i64 %1, %3
    %6: v32 = splat #3f800000
    %9: i64 = const 0
}
body {
    %0: mask = entered
    %7: i32(x) = coord x
    check_one %9, %2
    %10: i32 = load_scalar.w4 %1
    check_row(1) %3, %4, %2 under %0
    %8: mut mask = move %0
    %11: mut v32(x, row) = load.w4.row %5 under %0
    block 'e1 {
        loop {
            %12: mask = compare lt.f32 %11, %6
            %8 = mask_without %8, %12
            branch 'e1 if none %8
            %13: v32(x, row) = add.f32 %11, %6
            %11 = move %13 under %8
            branch 'e1 if eq.i64 %2, %3
            %14: v32(x) = load.w4.row %5 under %8
        }
    }
    store.w4.row %5, %11 under %0
    output(0) %10
    %15: i32(x) = scalar add.i32 %7, %10
}
";

/// Replaces `from` by `to` in the valid region, and checks the reported violation; none if `expected` is empty.
#[track_caller]
fn check(from: &str, to: &str, expected: &str) {
    check_in(VALID, from, to, expected);
}

#[track_caller]
fn check_in(region: &str, from: &str, to: &str, expected: &str) {
    let text = region.replacen(from, to, 1);
    assert!(from.is_empty() || text != region, "`{from}` is in the region");
    let region = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let violation = verify(&region).err().map_or_else(String::new, |violation| violation.to_string());
    assert_eq!(violation, expected);
}

#[test]
fn a_valid_region() {
    check("", "", "");
}

#[test]
fn r1_tables() {
    check("region", "region wide", "R1 tables: `wide` does not match the types of the values");
    check("output(0)", "output(1)", "R1 tables: an operand that is not in the tables in `output(1) %10`");
    check("memory 0 load store\n", "", "R1 tables: an operand that is not in the tables in `%1 = base(mem 0)`");
    check("base(mem 0)", "lanes(r4)", "R1 tables: an operand that is not in the tables in `%1 = lanes(r4)`");
    check("base(mem 0)", "column", "R1 tables: an operand that is not in the tables in `%1 = column`");
}

#[test]
fn r2_types() {
    check("%6: v32 = splat", "%6: i32 = splat", "R2 types: a result of type i32, not v32, in `%6 = splat #3f800000`");
    check(
        "add.f32 %11, %6",
        "add.f64 %11, %6",
        "R2 types: operands of types (v32, v32), not (v64, v64), in `%13 = add.f64 %11, %6`",
    );
    check(
        "scalar add.i64 %1, %3",
        "scalar add.i32 %1, %3",
        "R2 types: operands of types (i64, i64), not (i32, i32), in `%5 = scalar add.i32 %1, %3`",
    );
    check("scalar add.i64", "scalar add.f64", "R2 types: scalar floats in `%5 = scalar add.f64 %1, %3`");
    check(
        "add.f32 %11, %6",
        "rem.f32 %11, %6",
        "R2 types: an operation that elements of this type do not have in `%13 = rem.f32 %11, %6`",
    );
    check(
        "add.f32 %11, %6",
        "and.f32 %11, %6",
        "R2 types: an operation that elements of this type do not have in `%13 = and.f32 %11, %6`",
    );
    check("limit(1) %2", "limit(0) %2", "R2 types: a coefficient of 0 in `%4 = limit(0) %2`");
    check(
        "store.w4.row %5, %11",
        "store.w8.row %5, %11",
        "R2 types: operands of types (i64, v32), not (i64, v64), in `store.w8.row %5, %11 under %0`",
    );
    check(
        "%10: i32 = load_scalar.w4",
        "%10: i32 = load_scalar.w8",
        "R2 types: a result of type i32, not i64, in `%10 = load_scalar.w8 %1`",
    );
    check("eq.i64 %2, %3", "eq.i32 %2, %3", "R2 types: operands of other types in `branch 'e1 if eq.i32 %2, %3`");
    check(
        "branch 'e1 if none %8",
        "branch 'e1 if none %11",
        "R2 types: operands of other types in `branch 'e1 if none %11`",
    );
}

#[test]
fn r3_masks() {
    check("load.w4.row %5 under %8", "load.w4.row %5", "R3 masks: no mask in `%14 = load.w4.row %5`");
    check("store.w4.row %5, %11 under %0", "store.w4.row %5, %11", "R3 masks: no mask in `store.w4.row %5, %11`");
    check(
        "check_row(1) %3, %4, %2 under %0",
        "check_row(1) %3, %4, %2",
        "R3 masks: no mask in `check_row(1) %3, %4, %2`",
    );
    check(
        "%11, %6\n            %11 =",
        "%11, %6 under %0\n            %11 =",
        "R5 single: a move under a mask of a value that is not mutable in `%13 = add.f32 %11, %6 under %0`",
    );
    check("%13 under %8", "%13 under %6", "R3 masks: a v32 as the mask in `%11 = move %13 under %6`");
}

#[test]
fn r4_setup() {
    check("%9: i64 = const 0", "%9: i64 = move %3", "R4 setup: an operation of the body in `%9 = move %3`");
    check("%9: i64 = const 0", "%9: mut i64 = const 0", "R4 setup: a mutable value in `%9 = const 0`");
    check(
        "%9: i64 = const 0",
        "%9: i64 = scalar div.i64 %3, %3",
        "R4 setup: an operation of the body in `%9 = scalar div.i64 %3, %3`",
    );
    check(
        "    check_one %9, %2",
        "    check_range %9, %9, %2",
        "R4 setup: an operation of the setup in `check_range %9, %9, %2`",
    );
    check(
        "%6: v32 = splat #3f800000",
        "%6: v32 = broadcast %10",
        "R7 defined: %10 may not be defined in `%6 = broadcast %10`",
    );
}

#[test]
fn r5_single() {
    check(
        "%8: mut mask",
        "%8: mask",
        "R5 single: another definition of a value that is not mutable in `%8 = mask_without %8, %12`",
    );
    check(
        "%9: i64 = const 0",
        "%9: i64 = const 0\n    %9 = const 1",
        "R5 single: another definition of a value that is not mutable in `%9 = const 1`",
    );
    check(
        "%15: i32(x) = scalar add.i32 %7, %10",
        "%15: v32 = move %6 under %0",
        "R5 single: a move under a mask of a value that is not mutable in `%15 = move %6 under %0`",
    );
}

#[test]
fn r6_exits() {
    check(
        "branch 'e1 if none",
        "branch 'e2 if none",
        "R6 exits: no block with this exit is open in `branch 'e2 if none %8`",
    );
    check("    output(0) %10", "    branch 'e1", "R6 exits: no block with this exit is open in `branch 'e1`");
    check("        loop {", "        block 'e1 {\n        }\n        loop {", "R6 exits: there are two blocks 'e1");
}

#[test]
fn r7_defined() {
    check(
        "store.w4.row %5, %11",
        "store.w4.row %5, %13",
        "R7 defined: %13 may not be defined in `store.w4.row %5, %13 under %0`",
    );
    // A masked move reads its destination, which is undefined here.
    check(
        "    %11: mut v32(x, row) = load.w4.row %5 under %0\n",
        "    %11: mut v32(x, row) = move %6 under %0\n",
        "R7 defined: %11 may not be defined in `%11 = move %6 under %0`",
    );
    // The value is defined before only one of two branches to the block's end.
    check(
        "    output(0) %10",
        "    store.w4.row %5, %14 under %0",
        "R7 defined: %14 may not be defined in `store.w4.row %5, %14 under %0`",
    );
    // The value is undefined after the loop: the first branch out of the loop precedes its definition.
    check(
        "branch 'e1 if none %8\n            %13: v32(x, row) = add.f32 %11, %6",
        "%13: v32(x, row) = add.f32 %11, %6",
        "",
    );
    check(
        "branch 'e1 if eq.i64 %2, %3",
        "branch 'e1 if none %14",
        "R2 types: operands of other types in `branch 'e1 if none %14`",
    );
    check(
        "            %12: mask = compare lt.f32 %11, %6\n            %8 = mask_without %8, %12",
        "            %8 = mask_without %8, %12\n            %12: mask = compare lt.f32 %11, %6",
        "R7 defined: %12 may not be defined in `%8 = mask_without %8, %12`",
    );
}

#[test]
fn r8_coordinates() {
    check("%15: i32(x)", "%15: i32", "R8 coordinates: %15 is marked as i32");
    check("%7: i32(x) = coord x", "%7: i32(x) = coord y", "R8 coordinates: %7 is marked as i32(x)");
    check("output(0) %10", "output(0) %7", "R8 coordinates: %7 differs between vectors in `output(0) %7`");
    check(
        "    output(0) %10",
        "    block 'e2 {\n branch 'e2 if eq.i32 %7, %10\n }",
        "R8 coordinates: the condition differs between vectors in `branch if eq.i32 %7, %10`",
    );
    check("    output(0) %10", "    leave_zero %7", "R8 coordinates: %7 differs between vectors in `leave_zero %7`");
}

#[test]
fn r9_checked() {
    let missing = |check: &str, inst: &str| format!("R9 checked: `{check}` is missing in `{inst}`");
    check("    check_one %9, %2\n", "", &missing("check_one %9, %2", "%10 = load_scalar.w4 %1"));
    check(
        "    check_row(1) %3, %4, %2 under %0\n",
        "",
        &missing("check_row(1) %3, %4, %2", "%11 = load.w4.row %5 under %0"),
    );
    // The check covers too few lanes if the mask lost lanes before it.
    check(
        "    check_row(1) %3, %4, %2 under %0\n    %8: mut mask = move %0\n",
        "    %8: mut mask = move %0\n    check_row(1) %3, %4, %2 under %0\n",
        &missing("check_row(1) %3, %4, %2", "%14 = load.w4.row %5 under %8"),
    );
    // The check covers fewer lanes than the access.
    check(
        "    check_row(1) %3, %4, %2 under %0\n    %8: mut mask = move %0\n",
        "    %8: mut mask = mask_without %0, %0\n    check_row(1) %3, %4, %2 under %8\n    %8 = move %0\n",
        &missing("check_row(1) %3, %4, %2", "%11 = load.w4.row %5 under %0"),
    );
    // Only one of two paths to the access contains the check.
    check(
        "    check_one %9, %2\n",
        "    block 'e2 {\n branch 'e2 if none %0\n check_one %9, %2\n }\n",
        &missing("check_one %9, %2", "%10 = load_scalar.w4 %1"),
    );
    check(
        "access %1 of 0: check_one %9, %2\n",
        "",
        "R9 checked: no access has the address %1 in `%10 = load_scalar.w4 %1`",
    );
    check(
        "memory 0 load store",
        "memory 0 load",
        "R9 checked: memory 0 is not listed for it in `store.w4.row %5, %11 under %0`",
    );
    // The mask has gained lanes that the check does not cover.
    check(
        "            %14: v32(x) = load.w4.row %5 under %8",
        "            %8 = mask_or %8, %12\n            %14: v32(x) = load.w4.row %5 under %8",
        &missing("check_row(1) %3, %4, %2", "%14 = load.w4.row %5 under %8"),
    );
}

/// Reported addresses must be in bounds.
#[test]
fn access_reports_are_in_bounds() {
    let check_report = |line: &str, expected: &str| {
        let at = "    store.w4.row %5, %11 under %0\n";
        check(at, &format!("    {line}\n{at}"), expected);
    };
    check_report("touch.w4.row(3) %5 under %0", "");
    check_report("touch.w4.one(3) %1 under %8", "");
    check_report("touch.w4.row(3) %5", "R3 masks: no mask in `touch.w4.row(3) %5`");
    check_report(
        "touch.w4.lanes(3) %5 under %0",
        "R2 types: operands of types (i64), not (i64, v32), in `touch.w4.lanes(3) %5 under %0`",
    );
    check_report(
        "touch.w4.own(2)(3) %5 under %0",
        "R2 types: a touch of a local array in `touch.w4.own(2)(3) %5 under %0`",
    );
    check_report(
        "touch.w4.lanes(3) %5, %11 under %0",
        "R9 checked: no access has the address %5 in `touch.w4.lanes(3) %5, %11 under %0`",
    );
    check(
        "    check_row(1) %3, %4, %2 under %0\n",
        "    touch.w4.row(3) %5 under %0\n    check_row(1) %3, %4, %2 under %0\n",
        "R9 checked: `check_row(1) %3, %4, %2` is missing in `touch.w4.row(3) %5 under %0`",
    );
}

/// A check is void after its operands change, also if the change comes from an earlier loop iteration.
#[test]
fn r9_checks_of_mutable_values() {
    let text = "
region
values 6
memory 0 load
access %4 of 0: check_one %3, %2
setup {
    %1: i64 = base(mem 0)
    %2: i64 = extent(mem 0, axis 0)
    %5: i64 = const 1
}
body {
    %3: mut i64 = move %5
    %4: i64 = scalar add.i64 %1, %3
    check_one %3, %2
    block 'e1 {
        loop {
            %0: i32 = load_scalar.w4 %4
            branch 'e1 if eq.i32 %0, %0
            %3 = scalar add.i64 %3, %5
        }
    }
}
";
    let missing = "R9 checked: `check_one %3, %2` is missing in `%0 = load_scalar.w4 %4`";
    assert_eq!(verify(&parse(text).unwrap()).expect_err("a violation").to_string(), missing);
    let inside = text.replacen("        loop {\n", "        loop {\n            check_one %3, %2\n", 1);
    assert_eq!(verify(&parse(&inside).unwrap()), Ok(()));
    let constant = text.replacen("            %3 = scalar add.i64 %3, %5\n", "", 1);
    assert_eq!(verify(&parse(&constant).unwrap()), Ok(()));
}

/// A valid region with a local array.
const OWN: &str = "
region
values 12
memory 0 load store own fresh
access %1 + 2 of 0: check_one %2, %3
access %1, %7 of 0: check_lanes %6, %5
setup {
    %1: i64 = base(mem 0)
    %2: i64 = const 2
    %3: i64 = const 3
    %4: v32 = splat #1
    %5: v32 = splat #3
    %11: i64 = const 7
}
body {
    %0: mask = entered
    store.w4.own(2) %1, %4 under %0
    %8: v32(x, row) = load.w4.own(2) %1 under %0
    %9: v32(x, row) = and.i32 %8, %4
    %10: v32(x, row) = min.i32 %8, %5
    %6: v32(x, row) = add.i32 %9, %4
    %7: v32(x, row) = mul.i32 %6, %4
    store.w4.own_lanes(0) %1, %8, %7 under %0
}
";

/// An access needs no check if value ranges prove that its index is in bounds.
#[test]
fn r9_checks_proved_by_ranges() {
    let missing = |check: &str, inst: &str| format!("R9 checked: `{check}` is missing in `{inst}`");
    let lanes = missing("check_lanes %6, %5", "store.w4.own_lanes(0) %1, %8, %7 under %0");
    check_in(OWN, "", "", "");
    let first = missing("check_one %2, %3", "store.w4.own(2) %1, %4 under %0");
    check_in(OWN, "%3: i64 = const 3", "%3: i64 = const 2", &first);
    check_in(OWN, "%2: i64 = const 2", "%2: i64 = const -1", &first);
    check_in(OWN, "splat #3", "splat #2", &lanes);
    check_in(OWN, "and.i32", "or.i32", &lanes);
    check_in(OWN, "add.i32 %9, %4", "sub.i32 %9, %4", &lanes);
    // The value range has an upper bound but no lower bound.
    check_in(OWN, "add.i32 %9, %4", "add.i32 %10, %4", &lanes);
    check_in(OWN, "%6: v32(x, row) = add.i32 %9, %4", "%6: mut v32(x, row) = add.i32 %9, %4", &lanes);
    check_in(OWN, "add.i32 %9, %4", "rem.u32 %8, %5", "");
    check_in(OWN, "add.i32 %9, %4", "rem.i32 %8, %5", &lanes);
    check_in(OWN, "add.i32 %9, %4", "shr.u32 %8, %4", &lanes);
    check_in(OWN, "add.i32 %9, %4", "max.i32 %10, %4", &lanes);
    check_in(OWN, "min.i32 %8, %5", "min.i32 %8, %4", "");
}

#[test]
fn r10_own() {
    let store = "store.w4.own(2) %1, %4 under %0";
    check_in(OWN, " own fresh", " fresh", &format!("R10 own: memory 0 has accesses of another form in `{store}`"));
    check_in(OWN, store, "", "R10 own: memory 0 is loaded before it is zeroed in `%8 = load.w4.own(2) %1 under %0`");
    check_in(
        OWN,
        store,
        &format!("block 'e1 {{\n branch 'e1 if none %0\n {store}\n }}"),
        "R10 own: memory 0 is loaded before it is zeroed in `%8 = load.w4.own(2) %1 under %0`",
    );
    check_in(OWN, " own fresh", " own", "");
    check_in(
        OWN,
        "own_lanes(0)",
        "own_lanes(2)",
        "R9 checked: no access has the address %1 in `store.w4.own_lanes(2) %1, %8, %7 under %0`",
    );
    check_in(
        OWN,
        "store.w4.own(2)",
        "store.u8.own(2)",
        "R2 types: a small element of a local array in `store.u8.own(2) %1, %4 under %0`",
    );
    check_in(OWN, "own(2) %1 under %0", "own(2) %1", "R3 masks: no mask in `%8 = load.w4.own(2) %1`");
    check_in(OWN, "%8: v32(x, row)", "%8: v32(x)", "R8 coordinates: %8 is marked as v32(x)");
    check_in(
        OWN,
        "store.w4.own(2) %1, %4",
        "store.w4.row %1, %4",
        "R9 checked: no access has the address %1 in `store.w4.row %1, %4 under %0`",
    );
}

/// In regions for full groups, operations without a mask apply to all lanes, and the extents bound the coordinates.
#[test]
fn whole_groups() {
    let full_group = VALID.replacen("region", "region whole 16, 4, 1", 1);
    check_in(&full_group, "", "", "");
    let row = "check_row(1) %3, %4, %2";
    check(&format!("{row} under %0"), row, &format!("R3 masks: no mask in `{row}`"));
    check_in(&full_group, &format!("{row} under %0"), row, "");
    let store = "store.w4.row %5, %11";
    check_in(&full_group, &format!("{store} under %0"), store, &format!("R9 checked: `{row}` is missing in `{store}`"));
    let both = full_group.replacen(&format!("{row} under %0"), row, 1);
    check_in(&both, &format!("{store} under %0"), store, "");
    // Without the check, the extents of the group must prove that the index is in bounds.
    let small = VALID.replacen("extent(mem 0, axis 0)", "const 16", 1).replacen(&format!("{row} under %0\n"), "\n", 1);
    let load = "%11 = load.w4.row %5 under %0";
    let missing = format!("R9 checked: `{row}` is missing in `{load}`");
    check_in(&small, "", "", &missing);
    check_in(&small, "region", "region whole 16, 4, 1", "");
    check_in(&small, "region", "region whole 17, 4, 1", &missing);
    check_in(&small, "region", "region whole 0, 0, 0", &missing);
}

/// A small valid region with atomics.
const UPDATES: &str = "
region
values 10
memory 0 load store update
access %1, %4 of 0: check_lanes %4, %5
setup {
    %1: i64 = base(mem 0)
    %2: i64 = extent(mem 0, axis 0)
    %3: i32 = trunc %2
    %5: v32 = broadcast %3
    %6: v32 = splat #7
}
body {
    %0: mask = entered
    %4: v32(x, row) = iota(4)
    %7: mut v32(x, row) = move %6
    check_lanes %4, %5 under %0
    %8: v32(x, row) = atomic add.i32 %1, %4, %6 under %0
    %7 = atomic compare_exchange.u32 %1, %4, %8 under %0
    atomic max.u32 %1, %4, %7 under %0
    %9: v32(x, row) = atomic min.f32 %1, %4, %7 under %0
}
";

#[test]
fn r11_updates() {
    let check = |from: &str, to: &str, expected: &str| check_in(UPDATES, from, to, expected);
    check("", "", "");
    let wrong = "R2 types: an operation that elements of this type do not have in";
    check("add.i32", "xor.f32", &format!("{wrong} `%8 = atomic xor.f32 %1, %4, %6 under %0`"));
    check("max.u32 %1, %4, %7 under %0", "max.u32 %1, %4, %7", "R3 masks: no mask in `atomic max.u32 %1, %4, %7`");
    check(
        "    check_lanes %4, %5 under %0\n",
        "",
        "R9 checked: `check_lanes %4, %5` is missing in `%8 = atomic add.i32 %1, %4, %6 under %0`",
    );
    let unlisted = "R11 updates: memory 0 is not listed for it in `%8 = atomic add.i32 %1, %4, %6 under %0`";
    check("store update", "store", unlisted);
    check("load store update", "store update", unlisted);
    check(
        "%7: mut v32(x, row)",
        "%7: v32(x, row)",
        "R5 single: another definition of a value that is not mutable in `%7 = atomic compare_exchange.u32 %1, %4, %8 under %0`",
    );
}

/// A small valid region with warp operations.
const WARPS: &str = "region wide
values 9
setup {
    %1: v32 = splat #7
    %2: v64 = splat #7
}
body {
    %0: mask = entered
    %3: v32(x, row) = warp shuffle_xor.f32 %1, %1 under %0
    %4: v32(x, row) = warp reduce_add.i32 %3 under %0
    %5: mask = warp any.u32 %0 under %0
    %6: v32(x, row) = warp ballot.u32 %5 under %0
    %7: v64(x, row) = warp reduce_max.f64 %2 under %5
    %8: v32(x, row) = warp match_any.i64 %7 under %0
}
";

#[test]
fn operations_of_warps() {
    let check = |from: &str, to: &str, expected: &str| check_in(WARPS, from, to, expected);
    check("", "", "");
    assert_eq!(parse(WARPS).expect("a region").to_string(), WARPS);
    check(
        "reduce_add.i32",
        "reduce_and.f32",
        "R2 types: an operation that elements of this type do not have in `%4 = warp reduce_and.f32 %3 under %0`",
    );
    check("any.u32 %0", "any.f32 %0", "R2 types: a vote on lanes that are not bits in `%5 = warp any.f32 %0 under %0`");
    check(
        "reduce_max.f64 %2",
        "reduce_max.f32 %2",
        "R2 types: operands of types (v64), not (v32), in `%7 = warp reduce_max.f32 %2 under %5`",
    );
    check("%1, %1 under %0", "%1, %1", "R3 masks: no mask in `%3 = warp shuffle_xor.f32 %1, %1`");
}

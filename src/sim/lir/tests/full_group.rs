//! Tests of the specialization for full groups.

use super::super::full_group::specialize;
use super::*;

/// A kernel that copies a tile of 16 rows and 16 columns.
const TILE: &str = "
region
values 11
memory 0 load store
access %9 of 0: check_one %7, %1; check_row(1) %2, %3, %1
setup {
    %1: i64 = const 16
    %2: i64 = const 0
    %3: i64 = limit(1) %1
    %4: i64 = base(mem 0)
    %5: i64 = const 64
}
body {
    %0: mask = entered
    %6: i32(row) = coord y
    %7: i64(row) = sext %6
    check_one %7, %1 under %0
    check_row(1) %2, %3, %1 under %0
    %8: i64(row) = scalar mul.i64 %7, %5
    %9: i64(row) = scalar add.i64 %4, %8
    %10: v32(x, row) = load.w4.row %9 under %0
    store.w4.row %9, %10 under %0
}
";

/// Returns the lines of the printed body, after specialization for groups with these extents.
fn body(text: &str, extents: [u32; 3]) -> Vec<String> {
    let mut region = parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    verify(&region).unwrap_or_else(|e| panic!("{e}\n{text}"));
    specialize(&mut region, extents, false);
    // The compiler runs these passes after specialization.
    copy_coalescing::coalesce_copies(&mut region);
    crate::lir::fold_displacements::fold_address_constants(&mut region);
    liveness::eliminate_dead_code(&mut region);
    verify(&region).unwrap_or_else(|e| panic!("{e}\n{region}"));
    let text = region.to_string();
    let lines = text.lines().skip_while(|line| *line != "body {").skip(1).map(|line| line.trim().to_string());
    lines.take_while(|line| line != "}").collect()
}

#[test]
fn known_extents_prove_checks() {
    let remaining = |extents| {
        let lines = body(TILE, extents);
        assert!(lines.iter().all(|line| !line.contains("under") && !line.contains("entered")), "{lines:?}");
        [lines.iter().any(|line| line == "check_one %7, %1"), lines.iter().any(|line| line.starts_with("check_row"))]
    };
    assert_eq!(remaining([16, 16, 1]), [false, false]);
    assert_eq!(remaining([16, 17, 1]), [true, false]);
    assert_eq!(remaining([32, 8, 2]), [false, true]);
    assert_eq!(remaining([0, 0, 0]), [true, true]);
}

#[test]
fn a_single_row_has_constant_addresses() {
    assert_eq!(body(TILE, [16, 1, 1]), ["%10: v32(x) = load.w4.row %4", "store.w4.row %4, %10"]);
}

/// A kernel that stores in both branches of a divergent condition.
const BRANCHES: &str = "
region
values 10
read r1
write r2: i32 lanes
setup {
    %1: i64 = lanes(r1)
    %2: i64 = lanes(r2)
    %3: v32 = splat #5
}
body {
    %4: v32(x, row) = load_reg %1
    %0: mask = entered
    %5: mask = mask_of_lanes %4
    %6: mask = mask_and %5, %0
    store_reg %2, %4 under %6
    %7: mask = mask_not %5
    %8: mask = mask_and %7, %0
    block 'e1 {
        branch 'e1 if none %8
        store_reg %2, %3 under %8
    }
    %9: mask = mask_and %0, %0
    store_reg %2, %4 under %9
}
";

/// A complement also sets bits beyond the width of a narrow vector, so the pass does not remove its `and` with the mask
/// of all lanes.
#[test]
fn full_masks_are_removed() {
    assert_eq!(
        body(BRANCHES, [0; 3]),
        [
            "%4: v32(x, row) = load_reg %1",
            "%0: mask = entered",
            "%5: mask = mask_of_lanes %4",
            "store_reg %2, %4 under %5",
            "%7: mask = mask_not %5",
            "%8: mask = mask_and %7, %0",
            "block 'e1 {",
            "branch 'e1 if none %8",
            "store_reg %2, %3 under %8",
        ]
    );
    let mut region = parse(BRANCHES).expect("a region");
    specialize(&mut region, [0; 3], false);
    assert!(region.to_string().contains("    store_reg %2, %4\n"), "{region}");
}

/// The pass removes additions of 0 and multiplications by 1, and folds operations on constants.
#[test]
fn scalar_constants_are_folded() {
    let text = TILE
        .replacen("values 11", "values 15", 1)
        .replacen("%5: i64 = const 64", "%5: i64 = const 64\n%11: i64 = const 1\n%12: i64 = scalar mul.i64 %5, %11", 1)
        .replacen("mul.i64 %7, %5", "mul.i64 %7, %14", 1)
        .replacen(
            "%8: i64(row)",
            "%13: i64 = scalar add.i64 %12, %1\n%14: i64 = scalar sub.i64 %13, %1\n%8: i64(row)",
            1,
        );
    let lines = body(&text, [16, 16, 1]);
    assert!(lines.contains(&"%8: i64(row) = scalar mul.i64 %7, %14".to_string()), "{lines:?}");
    let mut region = parse(&text).expect("a region");
    specialize(&mut region, [16, 16, 1], true);
    assert!(region.setup.iter().any(|inst| inst.dst == LaneValue(14) && inst.op == LaneOp::Const(64)), "{region}");
}

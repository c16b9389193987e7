//! Tests that constants in addresses become displacements of shared sums.

use super::super::fold_displacements::fold_address_constants;
use super::*;

/// A kernel that loads the elements at distance 0, 1 and 2 from the thread's index. The last load is in a block.
const NEIGHBORS: &str = "
region
values 20
memory 0 load
memory 1 store
access %9 of 0: check_range %1, %1, %2
access %10 of 0: check_range %1, %1, %2
access %11 of 0: check_range %1, %1, %2
access %12 of 1: check_range %1, %1, %2
setup {
    %1: i64 = const 0
    %2: i64 = const 16
    %3: i64 = base(mem 0)
    %4: i64 = const 4
    %5: i64 = scalar add.i64 %3, %4
    %6: i64 = scalar add.i64 %2, %3
    %7: i64 = base(mem 1)
}
body {
    %0: mask = entered
    %8: i32(row) = coord y
    %13: i64(row) = sext %8
    %9: i64(row) = scalar add.i64 %3, %13
    %14: v32(x, row) = load.w4.row %9 under %0
    %10: i64(row) = scalar add.i64 %5, %13
    %15: v32(x, row) = load.w4.row %10 under %0
    %16: v32(x, row) = add.f32 %14, %15
    %12: i64(row) = scalar add.i64 %7, %13
    block 'e1 {
        branch 'e1 if none %0
        %11: i64(row) = scalar add.i64 %13, %6
        %17: v32(x, row) = load.w4.row %11 under %0
        store.w4.row %12, %17 under %0
    }
    store.w4.row %12, %16 under %0
    %18: i64(row) = scalar add.i64 %5, %13
    %19: i32(row) = trunc %18
}
";

/// Returns the region after the pass, and the lines of its body that compute sums.
fn sums(text: &str) -> (LaneRegion, Vec<String>) {
    let mut region = parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    verify(&region).unwrap_or_else(|e| panic!("{e}\n{text}"));
    fold_address_constants(&mut region);
    verify(&region).unwrap_or_else(|e| panic!("{e}\n{region}"));
    let text = region.to_string();
    let body = text.lines().skip_while(|line| *line != "body {");
    (region, body.filter(|line| line.contains("scalar add")).map(|line| line.trim().to_string()).collect())
}

#[test]
fn displaced_addresses_share_sums() {
    let (_, sums) = sums(NEIGHBORS);
    assert_eq!(
        sums,
        [
            "%9: i64(row) = scalar add.i64 %3, %13",
            "%10: i64(row) = scalar add.i64 %9, %4",
            "%12: i64(row) = scalar add.i64 %7, %13",
            "%11: i64(row) = scalar add.i64 %9, %2",
            // This sum is not an address, so the pass does not change it.
            "%18: i64(row) = scalar add.i64 %5, %13",
        ]
    );
}

/// A sum that is computed inside a block is not reused after the block.
#[test]
fn block_sums_are_not_used_after_the_block() {
    let first = "    %9: i64(row) = scalar add.i64 %3, %13\n    %14: v32(x, row) = load.w4.row %9 under %0\n";
    let text = NEIGHBORS.replacen(first, "", 1).replacen(
        "%10: i64(row)",
        "block 'e2 {\n branch 'e2 if none %0\n %9: i64(row) = scalar add.i64 %3, %13\n %14: v32(x, row) = load.w4.row %9 under %0\n }\n%10: i64(row)",
        1,
    );
    let text = text.replacen("add.f32 %14, %15", "add.f32 %15, %15", 1);
    let (region, sums) = sums(&text);
    assert_eq!(region.values.len(), 21);
    assert_eq!(sums[1..3], ["%20: i64(row) = scalar add.i64 %3, %13", "%10: i64(row) = scalar add.i64 %20, %4"]);
    assert!(sums.contains(&"%11: i64(row) = scalar add.i64 %20, %2".to_string()), "{sums:?}");
}

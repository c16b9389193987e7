//! Tests of the passes `hoist` and `unroll`.

use super::check_body;

#[test]
fn invariant_code_leaves_its_loops() {
    check_body(
        &["hoist"],
        "var $i: i32
         var $j: i32
         var $k: i32
         $k = 2i32
         for '0 $i = 0i32 .. arg0 step 1i32 {
             %0: i32 = read $i
             for '1 $j = 0i32 .. arg0 step 1i32 {
                 %1: i32 = %0 * 2i32
                 %2: i32 = lane + 1i32
                 %3: i32 = arg0 / lane
                 %4: i32 = read $k
                 %5: f32 = load @x[%2]
                 %6: i32 = read $j
                 print %1, %2, %3, %4, %5, %6
             }
         }",
        "var $i: i32
         var $j: i32
         var $k: i32
         $k = 2i32
         %0: i32 = lane + 1i32
         %1: i32 = read $k
         for '0 $i = 0i32 .. arg0 step 1i32 {
             %2: i32 = read $i
             %3: i32 = %2 * 2i32
             for '1 $j = 0i32 .. arg0 step 1i32 {
                 %4: i32 = arg0 / lane
                 %5: f32 = load @x[%0]
                 %6: i32 = read $j
                 print %3, %0, %4, %1, %5, %6
             }
         }",
    );
}

#[test]
fn a_loop_over_a_local_array_is_unrolled() {
    check_body(
        &["unroll", "forward", "simplify", "dead"],
        "local @v: f32[2]
         var $i: i32
         for '0 $i = 0i32 .. 2i32 step 1i32 {
             %0: i32 = read $i
             %1: i32 = %0 * 1i32
             store @v[%1] = 1.0f32
         }",
        "local @v: f32[2]
         var $i: i32
         store @v[0i32] = 1.0f32
         store @v[1i32] = 1.0f32",
    );
}

#[test]
fn jumps_in_unrolled_loops_become_block_exits() {
    check_body(
        &["unroll"],
        "var $i: i32
         for '0 $i = 4i32 ..= 2i32 step -2i32 unroll {
             %0: i32 = read $i
             %1: bool = %0 < arg0
             if %1 {
                 continue '0
             }
             loop '1 {
                 break '0
             }
         }",
        "var $i: i32
         block '0 {
             $i = 4i32
             block '3 {
                 %0: i32 = read $i
                 %1: bool = %0 < arg0
                 if %1 {
                     break '3
                 }
                 loop '2 {
                     break '0
                 }
             }
             $i = 2i32
             block '5 {
                 %2: i32 = read $i
                 %3: bool = %2 < arg0
                 if %3 {
                     break '5
                 }
                 loop '4 {
                     break '0
                 }
             }
         }",
    );
}

#[test]
fn large_loops_and_nounroll_stay() {
    let text = "var $i: i32
         for '0 $i = 0i32 .. 2i32 step 1i32 nounroll {
             %0: i32 = read $i
             print %0
         }
         for '1 $i = 0i32 .. 1000000i32 step 1i32 unroll {
             %1: i32 = read $i
             print %1
         }
         for '2 $i = 0i32 .. 64i32 step 1i32 {
             %2: i32 = read $i
             print %2
         }";
    check_body(&["unroll"], text, text);
}

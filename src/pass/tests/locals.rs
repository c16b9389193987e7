//! Tests of the passes `structure`, `forward`, `dead`, `if_convert` and `scalarize`.

use super::check_body;

#[test]
fn an_early_return_becomes_a_branch() {
    check_body(
        &["structure"],
        "%0: bool = lane < arg0
         if %0 {
             print 1i32
             return
         }
         %1: bool = lane < 3i32
         if %1 {
             return
         }
         print 2i32
         return",
        "%0: bool = lane < arg0
         if %0 {
             print 1i32
         } else {
             %1: bool = lane < 3i32
             if %1 {
             } else {
                 print 2i32
             }
         }",
    );
}

#[test]
fn a_block_with_breaks_only_at_its_end_is_removed() {
    check_body(
        &["structure"],
        "var $v: i32
         %0: bool = lane < arg0
         block '0 {
             if %0 {
                 $v = 1i32
                 break '0
             }
             $v = 2i32
             break '0
         }
         print 3i32",
        "var $v: i32
         %0: bool = lane < arg0
         if %0 {
             $v = 1i32
         } else {
             $v = 2i32
         }
         print 3i32",
    );
}

#[test]
fn a_break_out_of_a_loop_stays_and_a_trailing_continue_is_removed() {
    check_body(
        &["structure"],
        "%0: bool = lane < arg0
         block '0 {
             loop '1 {
                 if %0 {
                     break '0
                 }
                 print 1i32
                 continue '1
             }
             print 2i32
         }
         print 3i32",
        "%0: bool = lane < arg0
         block '0 {
             loop '1 {
                 if %0 {
                     break '0
                 }
                 print 1i32
             }
             print 2i32
         }
         print 3i32",
    );
}

#[test]
fn known_locals_are_replaced_by_their_values() {
    check_body(
        &["forward"],
        "var $v: i32
         $v = lane
         %0: i32 = read $v
         %1: i32 = %0 + 1i32
         $v = %1
         %2: bool = %1 < arg0
         if %2 {
             %3: i32 = read $v
             print %3
         } else {
             $v = 0i32
         }
         %4: i32 = read $v
         %5: i32 = read $v
         print %4, %5",
        "var $v: i32
         $v = lane
         %0: i32 = lane + 1i32
         $v = %0
         %1: bool = %0 < arg0
         if %1 {
             print %0
         } else {
             $v = 0i32
         }
         %2: i32 = read $v
         print %2, %2",
    );
}

#[test]
fn a_branch_that_jumps_does_not_change_known_values() {
    check_body(
        &["forward"],
        "var $v: i32
         $v = 1i32
         %0: bool = lane < arg0
         if %0 {
             $v = 2i32
             return
         }
         %1: i32 = read $v
         print %1",
        "var $v: i32
         $v = 1i32
         %0: bool = lane < arg0
         if %0 {
             $v = 2i32
             return
         }
         print 1i32",
    );
}

#[test]
fn a_loop_invalidates_the_locals_it_writes() {
    check_body(
        &["forward"],
        "var $v: i32
         var $w: i32
         var $i: i32
         $v = 1i32
         $w = 2i32
         for '0 $i = 0i32 .. arg0 step 1i32 {
             %0: i32 = read $v
             %1: i32 = read $w
             %2: i32 = read $i
             %3: i32 = %0 + %1
             %4: i32 = read $i
             %5: i32 = %3 + %4
             $v = %5
         }
         %6: i32 = read $v
         print %6",
        "var $v: i32
         var $w: i32
         var $i: i32
         $v = 1i32
         $w = 2i32
         for '0 $i = 0i32 .. arg0 step 1i32 {
             %0: i32 = read $v
             %1: i32 = read $i
             %2: i32 = %0 + 2i32
             %3: i32 = %2 + %1
             $v = %3
         }
         %4: i32 = read $v
         print %4",
    );
}

#[test]
fn dead_code_is_removed() {
    check_body(
        &["dead"],
        "var $v: i32
         %0: i32 = lane + 1i32
         %1: i32 = %0 * 2i32
         $v = %1
         %2: bool = lane < 3i32
         if %2 {
             $v = 3i32
         }
         if true {
             print 1i32
         } else {
             print 2i32
         }
         return
         print 4i32",
        "var $v: i32
         print 1i32
         return",
    );
}

#[test]
fn faults_and_loop_carried_writes_stay() {
    check_body(
        &["dead"],
        "var $v: i32
         var $w: i32
         %0: f32 = load @x[lane]
         %1: i32 = arg0 / lane
         %2: i32 = arg0 / 3i32
         $w = 0i32
         loop '0 {
             %3: i32 = read $v
             %4: bool = %3 < arg0
             if %4 {
                 break '0
             }
             $w = %3
             %5: i32 = %3 + 1i32
             $v = %5
         }",
        "var $v: i32
         var $w: i32
         %0: f32 = load @x[lane]
         %1: i32 = arg0 / lane
         loop '0 {
             %2: i32 = read $v
             %3: bool = %2 < arg0
             if %3 {
                 break '0
             }
             %4: i32 = %2 + 1i32
             $v = %4
         }",
    );
}

#[test]
fn a_write_read_after_a_jump_out_of_a_loop_stays() {
    let text = "var $v: i32
         %0: bool = lane < arg0
         $v = 1i32
         block '0 {
             loop '1 {
                 if %0 {
                     break '0
                 }
                 if %0 {
                     break '1
                 }
                 $v = 3i32
             }
             $v = 2i32
         }
         %1: i32 = read $v
         print %1";
    check_body(&["dead"], text, text);
}

#[test]
fn a_small_branch_becomes_a_selection() {
    check_body(
        &["if_convert"],
        "var $v: i32
         var $w: i32
         %0: bool = lane < arg0
         if %0 {
             %1: i32 = lane + 1i32
             $v = %1
             $w = 4i32
         } else {
             $v = 0i32
         }",
        "var $v: i32
         var $w: i32
         %0: bool = lane < arg0
         %1: i32 = lane + 1i32
         %2: i32 = read $w
         %3: i32 = select %0, %1, 0i32
         %4: i32 = select %0, 4i32, %2
         $v = %3
         $w = %4",
    );
}

#[test]
fn a_faulting_or_expensive_branch_stays() {
    let text = "var $v: f32
         %0: bool = lane < arg0
         if %0 {
             %1: f32 = load @x[lane]
             $v = %1
         }
         if %0 {
             %2: f32 = exp(arg1)
             $v = %2
         }
         if %0 {
             print 1i32
         }";
    check_body(&["if_convert"], text, text);
}

#[test]
fn an_array_with_constant_indices_becomes_locals() {
    check_body(
        &["scalarize"],
        "local @v: f32x2[2, 2]
         local @kept: f32[2]
         declare @v
         store @v[0i32, 1i32] = 1.0f32
         store @v[1i32, 0i32]:0.y = arg1
         %0: f32x2 = load @v[0i32, 1i32]
         %1: f32 = load @v[1i32, 0i32]:0.x
         store @kept[lane] = %1
         print %0"
            .replace("= 1.0f32", "= %9")
            .replace("declare @v", "declare @v\n%9: f32x2 = compose arg1, arg1")
            .as_str(),
        "local @v: f32x2[2, 2]
         local @kept: f32[2]
         var $v_0_1: f32x2
         var $v_1_0: f32x2
         %0: f32x2 = compose arg1, arg1
         $v_0_1 = %0
         %1: f32x2 = read $v_1_0
         %2: f32 = extract %1, 0
         %3: f32x2 = compose %2, arg1
         $v_1_0 = %3
         %4: f32x2 = read $v_0_1
         %5: f32x2 = read $v_1_0
         %6: f32 = extract %5, 0
         store @kept[lane] = %6
         print %4",
    );
}

#[test]
fn an_array_that_is_indexed_out_of_bounds_stays() {
    let text = "local @v: f32[2]\nstore @v[2i32] = 1.0f32";
    check_body(&["scalarize"], text, text);
}

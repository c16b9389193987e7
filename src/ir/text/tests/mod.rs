//! Tests of the text form of DeviceIR.

pub(crate) mod tiles;

use super::*;
use crate::renumber::compact;
use crate::verify::violations;

/// A module with every kind of statement, expression and declaration.
pub(crate) const EVERYTHING: &str = r#"kernel everything(alpha: f32, x: in @x, bodies: inout @bodies, counts: inout @counts) grid cooperative
fn "scale<f32>"(f32, i32) -> f32, i32 {
    param 0 in @source: f32[_]
    var $i: i32
    %0: f32 = load @source[arg1]
    %1: bool = %0 < arg0
    if %1 {
        return 0.0f32, -1i32
    }
    %2: f32 = %0 * arg0
    return %2, arg1
}
fn everything() {
    global 1 in @x: f32[_]
    global 2 inout @bodies: {pos: f32x3 at 0, mass: f32 at 12; size 16; align 4}[_, _]
    global 3 inout @counts: i32[4]
    shared @tile: f32[(i32: arg0bits + 1i32), 16]
    shared @flag: bool[]
    shared @sum: f32[2, 3]
    shared @left: f16[2, 4]
    shared @right: f16[4, 3]
    shared @part: f16[9, 9, 9]
    local @"private array": f16[8]
    var $i.0: i32
    var $i.1: i32
    var $acc: f32
    %0: f32x3 = load @bodies[thread.x, block.y]:0 cached
    %1: f32 = load @bodies[thread.x, 0i32]:0.y
    %2: f32 = extract %0, 2
    %3: f32 = neg %2
    %4: f32x2 = compose %3, %1
    %5: i32 = convert %3
    %6: u32 = bitcast %3
    %7: bool = %5 <= 3i32
    %8: bool = not %7
    %9: f32 = fma(%1, %2, -0.5f32)
    %10: f32 = select %8, %9, f32#7fc00000
    $acc = %10
    let 3u8
    for '0 $i.0 = 0i32 .. extent(@x, 0) step 1i32 unroll 4 {
        %11: i32 = read $i.0
        continue '0
    }
    for '1 $i.1 = 9i32 ..= 0i32 step -1i32 nounroll {
        break '1
    }
    for '4 $i.1 = 0i32 .. 4i32 step 1i32 adds @sum = @left * @right rounded {
        break '4
    }
    for '5 $i.1 = 0i32 .. 4i32 step 1i32 copies @left = @part[4 from %5 step 2 below 3i32, at %5, 2 from 0i32 step 1] transposed {
        break '5
    }
    loop '2 unroll {
        %12: bool = barrier_any %7
        block '3 {
            if %12 {
                break '3
            } else {
                break '2
            }
        }
    }
    barrier
    grid_barrier
    warp_barrier
    %13: i32 = barrier_count %8
    %14: i32 = atomic_add @counts[%13], 1i32
    atomic_max @counts[lane], %14
    %15: i32 = atomic_compare_exchange @counts[warp], 5i32 if %14
    %16: f32 = shuffle_xor %3, 16i32
    %17: u32 = ballot %7
    fence
    fence_block
    %18: f32, %19: i32 = call "scale<f32>"(%16, %13; @x)
    call "scale<f32>"(%16, %13; @x)
    declare @"private array"
    store @flag[] = true
    store @bodies[%19, 0i32]:1 = %18 streaming
    assert %7, "bad \"value\"\n", %18 ".3", " of ", %19
    print "x = ", %18
    print
    return
}
"#;

#[track_caller]
fn round_trip(text: &str) {
    let module = parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(print(&module), text);
    let reparsed = parse(&print(&module)).unwrap();
    assert_eq!(reparsed, module, "the same module");
    let spans = parse(&print_spans(&module)).unwrap();
    assert_eq!(spans, module, "the same module with spans");
    let mut compacted = module.clone();
    compact(&mut compacted);
    assert_eq!(compacted, module, "numbered as compact says");
}

#[test]
fn every_construct_round_trips() {
    round_trip(&EVERYTHING.replace("arg0bits", "block_dim.x"));
}

#[test]
fn the_example_is_valid() {
    let module = parse(&EVERYTHING.replace("arg0bits", "block_dim.x").replace("\n    call", "\n    // call")).unwrap();
    assert_eq!(violations(&module), Vec::<String>::new());
}

#[test]
fn spans_round_trip() {
    let mut module = parse("kernel k() grid\nfn k() {\n    %0: i32 = lane + 1i32\n    print %0\n}\n").unwrap();
    let span = clk_base::source::Span { file: clk_base::source::FileId(2), start: 5, end: 9 };
    for (_, function) in module.functions.iter_mut() {
        function.body[0].span = span;
        function.spans[clk_base::arena::Id::new(0)] = span;
        function.span = span;
    }
    let text = print_spans(&module);
    assert!(text.contains("%0: i32 = lane + 1i32 !2:5-9"), "{text}");
    assert_eq!(parse(&text).unwrap(), module);
}

#[test]
fn constants_keep_their_bits() {
    use clk_scalar::Scalar;
    for scalar in Scalar::ALL {
        let mask = u64::MAX >> (64 - scalar.bits());
        let mut state = 1u64;
        for step in 0..2000u64 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let bits = match scalar {
                Scalar::Bool => step & 1,
                _ => (if step % 2 == 0 { state ^ (state >> 31) } else { state >> (step % 64) }) & mask,
            };
            let text = format!("kernel k() grid\nfn k() {{\n    let {}\n}}\n", print::constant(bits, scalar));
            let module = parse(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
            let function = &module.functions[module.kernel.body];
            let expr = function.exprs.iter().next().unwrap().1;
            assert_eq!(expr.kind, crate::def::ExprKind::Const(bits), "{text}");
            assert_eq!(expr.ty.scalar(), scalar);
        }
    }
}

#[test]
fn errors_name_the_line() {
    let error = |text: &str| parse(text).unwrap_err().to_string();
    assert_eq!(error("kernel k() grid\nfn k() {\n  print %1\n}"), "line 4: %1 is never defined in `k`");
    assert!(error("kernel k() grid\nfn k() {\n  frobnicate\n}").starts_with("line 3: unknown statement"));
    assert!(error("kernel k() grid\nfn k() {\n  break '0 '1\n}").starts_with("line 3: expected the end of the line"));
    assert!(error("").contains("expected `kernel`"));
}

#[test]
fn parsing_damaged_text_does_not_panic() {
    let text = EVERYTHING.replace("arg0bits", "block_dim.x");
    for at in (0..text.len()).step_by(3) {
        for replacement in ["", "%", "\"", "}", "9"] {
            let mut damaged = text.clone();
            damaged.replace_range(at..at + 1, replacement);
            if let Ok(module) = parse(&damaged) {
                violations(&module);
                let _ = print(&module);
            }
        }
    }
}

//! Tests of TileIR's text form.

use super::super::{parse, parse_tiles, print, print_tiles};
use crate::def::Module;

/// The kernel of [`every_step`].
pub(crate) const KERNEL: &str = "kernel k(a: in @a, b: in @b, c: out @c) grid
fn k() {
    global 0 in @a: f16[_, _]
    global 1 in @b: f16[_, _]
    global 2 out @c: f32[_, _]
}
";

/// The steps of [`every_step`].
const STEPS: &str = r#"tiles 64 rows sm_80 {
    array arg0[M, K]
    array arg1[K, _]
    tile $acc: f32[64]
    tile $part: f16[16] left
    tile $low.2: f32
    tile $low.3: f32
    tile $"a b": i32[8]
    counter k
    $acc = e0()
    $low.2 = e0()
    for k = e1 .. e2 step 16 {
        $part = e3($low.2)
        $acc += $part * arg1[16 from e4, 64 from e1]: f16 by e5 terms 16
        $acc += arg0[16 from e4 step 2, 64 from e1] transposed: f16 by e6 * arg1[16 from e4, 64 from e1]: f16 by e5 terms 16
        barrier
        store e7($acc, $low.2) columns 64
    }
    $low.3 = reduce $acc by e8
    if e2 {
        barrier
        store e9($low.3)
    } else {
        $low.2 = e3($low.3)
        $"a b" = e1()
    }
}
"#;

/// An element kernel with these operands, a result of this type (if any), and these statements.
fn element(number: usize, operands: &[&str], result: &str, body: &str) -> String {
    let operands: String = operands.iter().map(|ty| format!(", x: {ty}")).collect();
    let position = 7 + operands.matches("x:").count();
    let (param, memory) = match result {
        "" => (String::new(), String::new()),
        ty => (", result: out @result".to_string(), format!("    global {position} out @result: {ty}[]\n")),
    };
    format!(
        "e{number} {{
kernel step(a: in @a, b: in @b, c: out @c, block_x: i32, block_y: i32, block_z: i32, k: i32{operands}{param}) threads 2
fn step() {{
    global 0 in @a: f16[_, _]
    global 1 in @b: f16[_, _]
    global 2 out @c: f32[_, _]
{memory}{body}}}
}}
"
    )
}

/// The text of a valid tile program with every kind of step.
pub(crate) fn every_step() -> String {
    let elements = [
        element(0, &[], "f32", "    store @result[] = 0.0f32\n"),
        element(1, &[], "i32", "    store @result[] = 0i32\n"),
        element(2, &[], "i32", "    store @result[] = extent(@a, 1)\n"),
        element(3, &["f32"], "f32", "    store @result[] = arg7\n"),
        element(4, &[], "i32", "    store @result[] = arg6\n"),
        element(5, &[], "f16", "    %0: f16 = load @b[index0, index1]\n    store @result[] = %0\n"),
        element(6, &[], "f16", "    %0: f16 = load @a[index1, index0]\n    store @result[] = %0\n"),
        element(7, &["f32", "f32"], "", "    %0: f32 = arg7 + arg8\n    store @c[index0, index1] = %0\n"),
        element(8, &["f32", "f32"], "f32", "    %0: f32 = max(arg7, arg8)\n    store @result[] = %0\n"),
        element(9, &["f32"], "", "    store @c[index0, 0i32] = arg7\n"),
    ];
    STEPS.to_string() + &elements.concat()
}

#[test]
fn every_step_round_trips() {
    let program = parse_tiles(&every_step()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(print_tiles(&program), every_step());
    assert_eq!(parse_tiles(&print_tiles(&program)).unwrap(), program);
    let mut count = 0;
    program.each_module(&mut |element: &Module| {
        assert_eq!(parse(&print(element)).unwrap(), *element);
        count += 1;
    });
    assert_eq!(count, 20);
}

#[test]
fn errors_in_tile_programs_name_the_line() {
    let error = |from: &str, to: &str| {
        assert!(every_step().contains(from), "{from}");
        parse_tiles(&every_step().replacen(from, to, 1)).unwrap_err().to_string()
    };
    assert_eq!(error("$part = e3", "$port = e3"), "line 13: unknown name `port`");
    assert_eq!(error("by e8", "by e80"), "line 19: there is no element kernel `e80`");
    assert_eq!(error("for k", "for j"), "line 12: unknown name `j`");
    assert_eq!(error("barrier", "fence"), "line 16: unknown step `fence`");
    assert_eq!(error("\ne1 {", "\ne2 {"), "line 38: expected `e1`, found Some(Word(\"e2\"))");
    assert!(error("sm_80", "sm_8").starts_with("line 1: expected a tensor core generation"));
}

#[test]
fn parsing_damaged_tile_programs_does_not_panic() {
    let text = every_step();
    let module = parse(KERNEL).unwrap();
    let mut parsed = 0;
    for at in (0..text.len()).step_by(7) {
        for replacement in ["", "$", "\"", "}", "9", "{", "e1"] {
            let mut damaged = text.clone();
            damaged.replace_range(at..at + 1, replacement);
            let Ok(program) = parse_tiles(&damaged) else { continue };
            let shown = print_tiles(&program);
            assert_eq!(parse_tiles(&shown).map(|again| print_tiles(&again)), Ok(shown));
            let mut module = module.clone();
            module.kernel.tile_program = Some(std::sync::Arc::new(program));
            crate::verify::violations(&module);
            parsed += 1;
        }
    }
    assert!(parsed > 100, "{parsed} damaged programs were parsed");
}

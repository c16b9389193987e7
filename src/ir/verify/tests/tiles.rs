//! Tests of the verifier of TileIR: damaged tile programs and matrix products are rejected.

use std::sync::Arc;

use super::super::{verify, violations};
use super::Random;
use crate::def::*;
use crate::text::tests::tiles::{KERNEL, every_step};
use crate::text::{parse, parse_tiles, print_tiles};
use clk_scalar::tensor_core_model::TensorCoreModel;

fn with_program(program: TileProgram) -> Module {
    let mut module = parse(KERNEL).unwrap();
    module.kernel.tile_program = Some(Arc::new(program));
    module
}

/// Checks that replacing `from` by `to` in the program causes a violation that contains `expected`.
#[track_caller]
fn check(from: &str, to: &str, expected: &str) {
    let text = every_step().replacen(from, to, 1);
    assert!(text != every_step(), "`{from}` is in the program");
    let module = with_program(parse_tiles(&text).unwrap_or_else(|e| panic!("{e}\n{text}")));
    let actual = violations(&module).join("\n");
    assert!(actual.contains(expected), "{actual}");
    assert!(verify(module).is_err());
}

#[test]
fn valid_tile_programs() {
    let module = with_program(parse_tiles(&every_step()).unwrap());
    assert_eq!(violations(&module), Vec::<String>::new());
}

#[test]
fn t1_declarations() {
    let mut module = with_program(parse_tiles(&every_step()).unwrap());
    module.kernel.form = LaunchForm::Threads { rank: 1 };
    assert!(violations(&module).join("\n").contains("its kernel is not a `grid` kernel"));
    check("64 rows", "0 rows", "its tiles have no rows");
    check("arg0[M, K]", "arg0[M]", "parameter 0 is not another array with 1 axes");
    check("arg1[K, _]", "arg0[K, _]", "parameter 0 is not another array with 2 axes");
    check("$acc: f32[64]", "$acc: f32[0]", "tile `acc` has 0 elements");
    check("$acc: f32[64]", "$acc: f32[4000000000]", "tile `acc` has 256000000000 elements");
    check("f16[16] left", "f16 left", "tile `part` is not a left operand");
    check("f16[16] left", "i32[16] left", "tile `part` is not a left operand");
}

#[test]
fn t2_values_before_use() {
    check("    $acc = e0()\n", "", "tile `acc` is read before it has values");
    check("    $low.2 = e0()\n", "", "tile `low` is read before it has values");
    check("        $part = e3($low.2)\n", "", "tile `part` is read before it has values");
    // The loop may run zero times, and only one branch of the `if` runs.
    check(
        "    $low.3 = reduce",
        "    $acc += $part * arg1[16 from e1, 64 from e1]: f16 by e5 terms 16\n    $low.3 = reduce",
        "tile `part` is read before it has values",
    );
    check(
        "        $\"a b\" = e1()\n    }\n",
        "        $\"a b\" = e1()\n    }\n    $low.2 = e3($\"a b\")\n",
        "tile `a b` is read before it has values",
    );
    check("e7($acc, $low.2) columns 64", "e7($acc, $part) columns 64", "tile `part` is a left operand, but");
    let mut program = parse_tiles(&every_step()).unwrap();
    program.steps.push(TileStep::Reduce { to: 9, of: 0, combine: parse(KERNEL).unwrap() });
    assert!(violations(&with_program(program)).join("\n").contains("tile 9 does not exist"));
}

#[test]
fn t3_extents_of_elementwise_steps() {
    check("e7($acc, $low.2) columns 64", "e7($acc, $low.2) columns 8", "tile `acc` has other columns than its step");
    check("e7($acc, $low.2) columns 64", "e7($acc, $low.2)", "tile `acc` has other columns than its step");
    check("reduce $acc", "reduce $low.2", "`low` cannot be reduced");
    check("$low.3 = reduce", "$\"a b\" = reduce", "`a b` is not a reduction of `acc`");
}

#[test]
fn t4_products() {
    check("$acc: f32[64]", "$acc: i32[64]", "tile `acc` cannot accumulate products");
    check("terms 16", "terms 24", "a product has 24 terms");
    check("terms 16", "terms 32", "a left operand is Some([64, 16])");
    check("[16 from e4, 64 from e1]", "[32 from e4, 64 from e1]", "a right operand is Some([32, 64])");
    check("[16 from e4, 64 from e1]", "[16 from e4, 8 from e1]", "a right operand is Some([16, 8])");
    check("f16[16] left", "bf16[16] left", "tile `part` is not a left operand of f16");
    check("f16[16] left", "f16[16]", "tile `part` is not a left operand of f16");
    check("transposed: f16 by", "transposed: bf16 by", "a product of bf16 and f16");
}

#[test]
fn t5_windows() {
    check("arg1[16 from", "arg2[16 from", "parameter 2 is not an input of f16 with 2 axes");
    check("arg1[16 from", "arg9[16 from", "parameter 9 is not an input of f16 with 2 axes");
    check("[16 from e4, 64 from e1]", "[64 from e1]", "a window has 1 axes");
    check(
        "[16 from e4, 64 from e1]",
        "[16 from e4, 1 from e4, 64 from e1]",
        "parameter 1 is not an input of f16 with 3",
    );
    check("[16 from e4, 64 from e1]", "[16 from e4 step 0, 64 from e1]", "a window has the step 0");
    check("[16 from e4, 64 from e1]", "[16 from e4, 64 from e1 step 2]", "a window's rows are not contiguous");
    check("[16 from e4, 64 from e1]", "[0 from e4, 64 from e1]", "a window has 0 elements");
    check("[16 from e4, 64 from e1]", "[4000000000 from e4, 4000000000 from e1]", "a window has 16000000000000000000");
    check("[16 from e4, 64 from e1]", "[16 from e4, at e1]", "a window's rows are not contiguous");
    check("f16 by e5", "f16 by e1", "`step` has no result of Scalar(F16)");
}

#[test]
fn t6_loops() {
    check("step 16 {", "step 0 {", "a loop has the step 0");
    check("step 16 {", "step 3000000000 {", "a loop has the step 3000000000");
    check("        barrier\n", "        for k = e1 .. e2 step 1 {\n        }\n        barrier\n", "a loop counts by 0");
    check("e1 .. e2", "e0 .. e2", "`step` has no result of Scalar(I32)");
    check("if e2", "if e4", "`step` reads a loop counter outside its loop");
}

#[test]
fn t7_element_kernels() {
    check("threads 2\n", "threads 1\n", "`step` is not a kernel of a row and a column");
    check(
        "a: in @a, b: in @b, c: out @c, block_x: i32",
        "a: in @a, b: in @b, c: out @c, block_x: u32",
        "is not Scalar(I32)",
    );
    check(
        "    global 0 in @a: f16[_, _]\n",
        "    global 0 in @a: f32[_, _]\n",
        "does not begin with the parameters of its",
    );
    check("e3($low.2)", "e3()", "`step` has 9 parameters, not 8");
    check("e3($low.2)", "e0($low.2)", "`step` has 8 parameters, not 9");
    check("store @result[] = 0.0f32", "store @result[] = 0i32", "the stored value is");
    check("    store @result[] = 0.0f32\n", "", "a kernel of a value stores to []");
    check(
        "    store @result[] = 0.0f32\n",
        "    store @result[] = 0.0f32\n    store @c[0i32, 0i32] = 0.0f32\n",
        "a kernel of a value stores to [7, 2]",
    );
    check(
        "    store @result[] = 0.0f32\n",
        "    store @result[] = 0.0f32\n    print \"x\"\n",
        "does more than compute an element",
    );
    check(
        "    store @result[] = 0.0f32\n",
        "    local @l: f32[4]\n    store @l[7i32] = 1i32\n    store @result[] = 0.0f32\n",
        "function `step`: ",
    );
    check(
        "%0: f32 = arg7 + arg8",
        "%0: f32 = load @c[index1, index0]",
        "`step` reads parameter 2, which is not an input",
    );
}

#[test]
fn t8_stores_are_ordered() {
    check("        barrier\n        store e7", "        store e7", "two stores to parameter 2 without a barrier");
    check("        barrier\n        store e9", "        store e9", "two stores to parameter 2 without a barrier");
}

#[test]
fn g_matrix_products() {
    let epilogue = "kernel epilogue(a: in @a, b: in @b, c: out @c, element: f32) threads 2
fn epilogue() {
    global 0 in @a: f16[_, _]
    global 1 in @b: f16[_, _]
    global 2 out @c: f32[_, _]
    store @c[index0, index1] = arg3
}
";
    let operand = |param| GemmOperand { param, transposed: false };
    let gemm = |epilogue: &str| GemmKernel {
        a: operand(0),
        b: operand(1),
        cores: TensorCoreModel::Sm90,
        tile: [16, 32],
        epilogue: parse(epilogue).unwrap(),
    };
    let violations_of = |gemm: GemmKernel| {
        let mut module = parse(KERNEL).unwrap();
        module.kernel.gemm = Some(Arc::new(gemm));
        violations(&module).join("\n")
    };
    assert_eq!(violations_of(gemm(epilogue)), "");
    let cases = [
        (GemmKernel { b: operand(2), ..gemm(epilogue) }, "its operands are not two inputs"),
        (GemmKernel { tile: [0, 32], ..gemm(epilogue) }, "tiles of [0, 32] elements"),
        (gemm(&epilogue.replace("element: f32", "element: f16")), "does not have an element of the product"),
        (gemm(&epilogue.replace("threads 2", "threads 3")), "is not a kernel of a row and a column"),
        (gemm(&epilogue.replace("= arg3", "= 1i32")), "the stored value is"),
    ];
    for (gemm, expected) in cases {
        let actual = violations_of(gemm);
        assert!(actual.contains(expected), "{actual}");
    }
}

/// Changes a random field of a tile program.
fn mutate(steps: &mut Vec<TileStep>, random: &mut Random) {
    if steps.is_empty() {
        return;
    }
    let at = random.next(steps.len());
    let other = random.next(8);
    let extent = [0, 1, 8, 16, 64, u32::MAX][random.next(6)];
    if random.next(6) == 0 {
        let step = steps.remove(at);
        steps.insert(random.next(steps.len() + 1), step);
        return;
    }
    match &mut steps[at] {
        TileStep::Map { to, operands, element } => match random.next(4) {
            0 => *to = TileTarget::Tile(other),
            1 => *to = TileTarget::Array(Some(extent)),
            2 => operands.push(other),
            _ => element.kernel.params.truncate(other),
        },
        TileStep::Reduce { to, of, .. } => *[to, of][random.next(2)] = other,
        TileStep::Mma { sum, terms, a, b } => match random.next(6) {
            0 => *sum = other,
            1 => *terms = extent,
            2 => *a = TileGemmOperand::Tile(other),
            3 => b.param = other as u32,
            4 => b.axes.truncate(random.next(3)),
            _ => b.axes.iter_mut().for_each(|axis| axis.extent = extent),
        },
        TileStep::If { then, other, .. } => mutate([then, other][random.next(2)], random),
        TileStep::Barrier => {}
        TileStep::Repeat { counter, step, body, .. } => match random.next(4) {
            0 => *counter = other,
            1 => *step = extent,
            _ => mutate(body, random),
        },
    }
}

#[test]
fn verifying_mutated_tile_programs_does_not_panic() {
    let mut random = Random(0x9e3779b97f4a7c15);
    let mut broken = 0;
    let valid = parse_tiles(&every_step()).unwrap();
    for _ in 0..1000 {
        let mut program = valid.clone();
        for _ in 0..=random.next(3) {
            match random.next(8) {
                0 => program.tiles.truncate(random.next(5)),
                1 => program.counters.clear(),
                2 => program.rows = [0, 1, u32::MAX][random.next(3)],
                _ => mutate(&mut program.steps, &mut random),
            }
        }
        print_tiles(&program);
        broken += usize::from(!violations(&with_program(program)).is_empty());
    }
    assert!(broken > 700, "the mutations break something: {broken}");
}

//! Tests of the code verifier: it accepts compiled kernels, and each rule rejects code that violates it.

use std::sync::Arc;

use super::*;
use crate::compile::{CompiledKernel, compile};
use crate::lir::tests::kernels;
use crate::strip::StripOperand;
use clk_ir::{Checks, PreparedKernel};
use clk_runtime::Isa;

/// A kernel with loads, stores and atomics of all kinds, masks, loops, a warp operation, and an assertion.
const MANY: &str = r#"
kernel many(n: i32, a: f32, b: f64, x: in @x, y: inout @y, counts: inout @counts, wide: inout @wide) grid
fn many() {
    global 3 in @x: f32[_]
    global 4 inout @y: f32[_]
    global 5 inout @counts: i32[_]
    global 6 inout @wide: f64[_]
    shared @s: f32[64]
    local @l: f32[4]
    constant @c: i32[2] = 3i32, 4i32
    var $k: i32
    var $j: i32
    var $sum: f32
    var $best: f32
    %0: f32 = load @x[thread.x]
    store @s[thread.x] = %0
    barrier
    $sum = 0.0f32
    for '0 $k = 0i32 .. arg0 step 1i32 {
        %1: i32 = read $k
        %27: i32 = %1 + thread.x
        %2: f32 = load @x[%27]
        %3: f32 = load @s[%27]
        %4: f32 = %2 * %3
        %5: f32 = read $sum
        %6: f32 = %5 + %4
        $sum = %6
    }
    %7: f32 = read $sum
    %8: bool = %7 < arg1
    $best = %0
    if %8 {
        %28: f32 = load @x[thread.x]
        store @y[thread.x] = %7
        $best = %7
    } else {
        store @y[thread.x] = %0
    }
    %9: i32 = load @c[1i32]
    %10: i32 = convert %7
    declare @l
    store @l[%10] = %7
    %11: f32 = load @l[2i32]
    %12: i32 = %10 / arg0
    %13: i32 = atomic_add @counts[%12], 1i32
    atomic_max @counts[0i32], %13
    %14: i32 = shuffle_xor %13, 16i32
    assert %8, "no ", %14
    %15: f32 = load @x[%14]
    %16: f32 = %15 + %11
    store @y[%14] = %16
    for '1 $j = 0i32 .. %14 step 1i32 {
        %17: i32 = read $j
        %18: f32 = load @x[%17]
        %19: f32 = read $best
        %20: f32 = %19 * %18
        $best = %20
    }
    %21: f64 = load @wide[thread.x]
    %22: f64 = %21 * arg2
    store @wide[thread.x] = %22
    %23: f32 = read $best
    %24: i32 = %9 ** %12
    %25: f32 = convert %24
    %26: f32 = %23 + %25
    store @y[thread.x] = %26
}
"#;

/// A kernel with three strips: one for a whole loop, one for a loop that runs until no lane is active, and one that
/// stores.
const STRIPS: &str = "
kernel strips(n: i32, a: f32, x: in @x, y: inout @y) grid
fn strips() {
    global 2 in @x: f32[_]
    global 3 inout @y: f32[_]
    var $k: i32
    var $v: f32
    var $w: f32
    %13: f32 = load @x[thread.x]
    %0: f32 = %13 + arg1
    $v = %0
    $w = %0
    for '0 $k = 0i32 .. arg0 step 1i32 {
        %1: f32 = read $v
        %2: f32 = %1 * arg1
        %3: f32 = %2 + %0
        %4: f32 = %3 * %1
        $v = %4
    }
    loop '1 {
        %5: f32 = read $w
        %6: f32 = %5 * arg1
        %7: f32 = %6 + %0
        $w = %7
        %8: bool = %7 < 4.0f32
        if %8 {
        } else {
            break '1
        }
    }
    %9: f32 = read $v
    %10: f32 = read $w
    %11: f32 = %9 * %10
    %12: f32 = %11 - arg1
    store @y[thread.x] = %12
}
";

const TREE: &str = "
kernel sum(y: inout @y) grid
fn sum() {
    global 0 inout @y: f32[_]
    shared @s: f32[64]
    var $d: i32
    store @s[thread.x] = 1.0f32
    barrier
    $d = 32i32
    loop '0 {
        %0: i32 = read $d
        %1: bool = %0 > 0i32
        if %1 {
        } else {
            break '0
        }
        %2: bool = thread.x < %0
        if %2 {
            %3: f32 = load @s[thread.x]
            %4: i32 = thread.x + %0
            %5: f32 = load @s[%4]
            %6: f32 = %3 + %5
            store @s[thread.x] = %6
        }
        barrier
        %7: i32 = %0 / 2i32
        $d = %7
    }
    %8: f32 = load @s[0i32]
    store @y[thread.x] = %8
}
";

const NOTHING: Checks = Checks { memory: false, arithmetic: false, nan: false };
const EVERYTHING: Checks = Checks { memory: true, arithmetic: true, nan: true };

fn compiled(text: &str, checks: Checks, jit: bool) -> CompiledKernel {
    let module = clk_ir::text::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let module = clk_ir::verify::verify(module).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    compile(&Arc::new(PreparedKernel::new(module, checks)), Isa::Base, jit).expect("a small kernel")
}

/// Returns the first op with this name.
#[track_caller]
fn position(compiled: &CompiledKernel, name: &str) -> usize {
    first_op(&compiled.ops, name)
}

/// Returns the index of the first op with this name.
#[track_caller]
fn first_op(ops: &[Op], name: &str) -> usize {
    let names: Vec<&str> = ops.iter().filter_map(|op| op.run.shape()).map(|shape| shape.name).collect();
    names.iter().position(|n| *n == name).unwrap_or_else(|| panic!("no `{name}` among {names:?}"))
}

/// Checks that the verifier rejects code after the function `damage` has changed the first op with this name, or its
/// table entries.
#[track_caller]
fn check_rejected(text: &str, rule: &str, name: &str, damage: impl FnOnce(&mut CompiledKernel, usize)) {
    check_rejected_with(text, NOTHING, rule, name, damage);
}

#[track_caller]
fn check_rejected_with(
    text: &str,
    checks: Checks,
    rule: &str,
    name: &str,
    damage: impl FnOnce(&mut CompiledKernel, usize),
) {
    if !cfg!(debug_assertions) {
        println!("nothing is verified without debug assertions");
        return;
    }
    let mut compiled = compiled(text, checks, rule.starts_with("C11"));
    let at = if name.is_empty() { 0 } else { position(&compiled, name) };
    damage(&mut compiled, at);
    let result = verify(&compiled.ops, &compiled.code);
    let violation = result.expect_err("damaged code is refused");
    assert!(violation.to_string().starts_with(rule), "{rule} of `{name}`: {violation}");
}

fn access(compiled: &mut CompiledKernel, at: usize) -> &mut AccessOperands {
    &mut compiled.code.accesses[compiled.ops[at].x as usize]
}

/// Adds a register to the code.
fn register(compiled: &mut CompiledKernel, def: RegDef) -> Reg {
    compiled.code.registers.defs.push(def);
    compiled.code.registers.defs.len() as Reg - 1
}

const WIDE: RegDef = RegDef::Uniform { offset: 0, wide: true };
const UNIFORM: RegDef = RegDef::Uniform { offset: 0, wide: false };
const LANES: RegDef = RegDef::Lanes { column: 0, wide: false };

#[test]
fn kernels_are_accepted() {
    let own = [("many", MANY), ("strips", STRIPS), ("tree", TREE)];
    for (name, text) in kernels::ALL.into_iter().chain(own) {
        for checks in [NOTHING, EVERYTHING] {
            for jit in [false, true] {
                let compiled = compiled(text, checks, jit);
                verify(&compiled.ops, &compiled.code).unwrap_or_else(|e| panic!("{name}: {e}"));
            }
        }
    }
}

#[test]
fn c1_registers() {
    check_rejected(MANY, "C1 registers: there is no register 60000", "divide", |c, at| c.ops[at].a = 60000);
    check_rejected(MANY, "C1 registers: there is no register", "warp", |c, at| {
        c.code.warps[c.ops[at].x as usize].value = 60000;
    });
    check_rejected(MANY, "C1 registers: register", "divide", |c, at| c.ops[at].a = register(c, WIDE));
    check_rejected(MANY, "C1 registers: register", "slow", |c, at| {
        let wide = register(c, WIDE);
        c.code.slow[c.ops[at].x as usize].args[0].0 = wide;
    });
    check_rejected(MANY, "C1 registers: register", "assert", |c, at| {
        let wide = register(c, WIDE);
        c.code.messages[c.ops[at].x as usize].parts.push(MessagePart::Value(vec![wide], Scalar::I32, "".into()));
    });
    check_rejected(MANY, "C1 registers: the result", "divide", |c, at| c.ops[at].d = register(c, UNIFORM));
    check_rejected(MANY, "C1 registers: register", "for", |c, at| {
        let lanes = register(c, LANES);
        c.code.loops[c.ops[at].y as usize].start = lanes;
    });
    check_rejected(MANY, "C1 registers: lanes of the uniform", "warp", |c, at| {
        let uniform = register(c, UNIFORM);
        c.code.warps[c.ops[at].x as usize].result = uniform;
    });
    check_rejected(MANY, "C1 registers: lanes of the uniform", "load gather", |c, at| {
        access(c, at).regs[0] = register(c, UNIFORM);
    });
}

#[test]
fn c2_masks() {
    check_rejected(MANY, "C2 masks: there is no mask 99", "resume", |c, at| c.ops[at].b = 99);
    check_rejected(MANY, "C2 masks: there is no mask 99", "split", |c, at| c.ops[at].c = 99);
    check_rejected(MANY, "C2 masks: register", "", |c, _| c.code.registers.masks[1] = c.code.registers.masks[0]);
    check_rejected(MANY, "C2 masks: register", "", |c, _| c.code.registers.masks[1] = register(c, UNIFORM));
    check_rejected(MANY, "C2 masks: mask", "resume", |c, at| {
        let reg = register(c, LANES);
        c.code.registers.masks.push(reg);
        c.ops[at].b = c.code.registers.masks.len() as MaskId - 1;
    });
    // Make the load of the `then` branch, whose value is unused, write the register that contains the mask of the
    // `else` branch.
    check_rejected(MANY, "C2 masks: mask", "split", |c, at| {
        let load = at + 1 + first_op(&c.ops[at + 1..], "load affine");
        let mut access = c.code.accesses[c.ops[load].x as usize].clone();
        access.regs = vec![c.code.registers.masks[c.ops[at].c as usize]];
        access.may_view = false;
        c.ops[load].x = c.code.accesses.len() as u32;
        c.code.accesses.push(access);
    });
}

#[test]
fn c3_flow() {
    check_rejected(MANY, "C3 flow: a jump to", "next", |c, at| c.ops[at].x = c.ops.len() as u32);
    check_rejected(MANY, "C3 flow: a jump to 0", "split", |c, at| c.ops[at].x = 0);
    check_rejected(MANY, "C3 flow: a jump of the prologue", "", |c, _| c.code.body = c.ops.len() as u32);
    check_rejected(MANY, "C3 flow: there is no op after", "", |c, _| {
        c.ops.pop();
    });
}

#[test]
fn c4_tables() {
    check_rejected(MANY, "C4 tables: there is no message", "assert", |c, at| c.ops[at].x = 99);
    check_rejected(MANY, "C4 tables: there is no span", "assert", |c, at| c.ops[at].y = 9999);
    check_rejected(MANY, "C4 tables: there is no loop", "next", |c, at| c.ops[at].y = 99);
    check_rejected(MANY, "C4 tables: the op of another loop", "next", |c, at| c.ops[at].a = register(c, UNIFORM));
    check_rejected(MANY, "C4 tables: there is no operation", "slow", |c, at| c.ops[at].x = 99);
    check_rejected(MANY, "C4 tables: there is no warp operation", "warp", |c, at| c.ops[at].x = 99);
    check_rejected(MANY, "C4 tables: there is no access", "load gather", |c, at| c.ops[at].x = 999);
    check_rejected(MANY, "C4 tables: there is no atomic operation", "atomic", |c, at| c.ops[at].x = 99);
    check_rejected(MANY, "C4 tables: there is no memory", "load gather", |c, at| access(c, at).memory = 99);
    check_rejected_with(MANY, EVERYTHING, "C4 tables: there is no note", "report touch", |c, at| c.ops[at].x = 999);
    check_rejected_with(MANY, EVERYTHING, "C4 tables: the table of tracked memories", "", |c, _| {
        c.code.events.tracked.pop();
    });
}

#[test]
fn c5_accesses() {
    check_rejected(MANY, "C5 accesses: 0 indices", "load gather", |c, at| access(c, at).axes.clear());
    check_rejected(MANY, "C5 accesses: a component beyond", "load gather", |c, at| access(c, at).offset = 4);
    check_rejected(MANY, "C5 accesses: another load's", "load gather", |c, at| access(c, at).scalar = Scalar::I16);
    check_rejected(MANY, "C5 accesses: an index of another form", "load gather", |c, at| {
        access(c, at).axes[0].coef[0] = Coef::Const(1);
    });
    check_rejected(MANY, "C5 accesses: an index of another form", "load uniform", |c, at| {
        access(c, at).axes[0].base = register(c, LANES);
    });
    let of = |c: &CompiledKernel, kind: MemoryKind| c.code.memories.iter().position(|m| m.kind == kind).unwrap() as u32;
    check_rejected(MANY, "C5 accesses: another store's", "store scatter", move |c, at| {
        access(c, at).memory = of(c, MemoryKind::Constant);
    });
    check_rejected(MANY, "C5 accesses: another load's", "load gather", move |c, at| {
        access(c, at).memory = of(c, MemoryKind::Local);
    });
    check_rejected(MANY, "C5 accesses: elements that are not a local", "load column", move |c, at| {
        access(c, at).memory = of(c, MemoryKind::Shared);
    });
    check_rejected(MANY, "C5 accesses: an atomic operation's", "atomic", move |c, at| {
        let local = of(c, MemoryKind::Local);
        c.code.accesses[c.code.atomics[c.ops[at].x as usize].access as usize].memory = local;
    });
    check_rejected(MANY, "C5 accesses: array", "declare", |c, at| c.ops[at].x = 0);
}

#[test]
fn c6_views() {
    let view = |c: &CompiledKernel| c.code.accesses.iter().find(|access| access.may_view).expect("a view").regs[0];
    check_rejected(MANY, "C6 views: register", "divide", move |c, at| c.ops[at].d = view(c));
    check_rejected(MANY, "C6 views: register", "warp", move |c, at| {
        c.code.warps[c.ops[at].x as usize].result = view(c)
    });
    check_rejected(MANY, "C6 views", "load gather", |c, at| access(c, at).may_view = true);
    check_rejected(MANY, "C6 views: register", "load affine", |c, at| {
        c.ops[at] = Op { x: c.code.body + 1, ..c.ops[position(c, "end")] };
        c.ops[at].run = crate::lanes::plain::<crate::control_flow::FenceOp>();
    });
}

#[test]
fn c7_companions() {
    let fence = crate::lanes::plain::<crate::control_flow::FenceOp>();
    check_rejected(STRIPS, "C7 companions: it is not a whole loop", "strip", |c, at| {
        let is_strip = |k: &usize| c.ops[*k].c == TURNS && c.ops[*k].run.shape() == c.ops[at].run.shape();
        let strip = (at..c.ops.len()).find(is_strip).expect("a strip of a loop");
        c.ops[strip + 1].run = fence;
    });
    check_rejected(STRIPS, "C7 companions: it precedes", "strip loop", |c, at| c.ops[at + 1].run = fence);
    check_rejected(STRIPS, "C7 companions: its jump has another mask", "strip loop", |c, at| c.ops[at + 1].b = 0);
    check_rejected(STRIPS, "C7 companions: it precedes", "aim", |c, at| c.ops[at + 1].run = fence);
    check_rejected(STRIPS, "C7 companions: no store", "aim", |c, at| c.ops[at + 2].run = fence);
    check_rejected(STRIPS, "C7 companions: a jump enters", "aim", |c, at| {
        let jump = position(c, "for");
        c.ops[jump].x = at as u32 + 1;
    });
    check_rejected_with(TREE, EVERYTHING, "C7 companions: it precedes", "report tree", |c, at| {
        c.ops[at + 1].run = fence;
    });
    check_rejected_with(MANY, EVERYTHING, "C7 companions: it precedes", "report dot", |c, at| {
        c.ops[at + 1].run = fence;
    });
}

#[test]
fn c8_strips() {
    let strip = |c: &CompiledKernel, at: usize| c.ops[at].y as usize;
    check_rejected(STRIPS, "C8 strips: there is no operand", "strip", |c, at| {
        let number = strip(c, at);
        c.code.strips[number].micros[0].m = 90;
    });
    check_rejected(STRIPS, "C8 strips: too many temporaries", "strip", |c, at| {
        let number = strip(c, at);
        c.code.strips[number].places.push(StripOperand::Scratch(200));
    });
    check_rejected(STRIPS, "C8 strips: temporary 0 is read", "strip", |c, at| {
        let number = strip(c, at);
        let places = &mut c.code.strips[number].places;
        let read = places.iter().position(|p| matches!(p, StripOperand::Reg(_))).expect("a register");
        places[read] = StripOperand::Scratch(0);
    });
    check_rejected(STRIPS, "C8 strips: it does not compute", "strip", |c, at| {
        let number = strip(c, at);
        c.code.strips[number].kept = Some(0);
    });
    check_rejected(STRIPS, "C8 strips: a mask is written", "strip loop", |c, at| {
        let number = strip(c, at);
        let places = &mut c.code.strips[number].places;
        let mask_place = places.iter().position(|p| matches!(p, StripOperand::Kept(_))).expect("a mask");
        places[mask_place] = StripOperand::Mask;
    });
}

#[test]
fn c9_memories() {
    let of = |c: &CompiledKernel, kind: MemoryKind| c.code.memories.iter().position(|m| m.kind == kind).unwrap();
    check_rejected(MANY, "C9 memories: the table of extent registers", "", |c, _| {
        c.code.memories[0].extent_regs.clear()
    });
    check_rejected(MANY, "C9 memories: a register for an extent", "", |c, _| c.code.memories[0].extent_regs[0] = 0);
    check_rejected(MANY, "C9 memories: constants are missing", "", |c, _| {
        let number = of(c, MemoryKind::Constant);
        c.code.memories[number].constants.pop();
    });
    check_rejected(MANY, "C9 memories: an extent that is not known", "", |c, _| {
        let number = of(c, MemoryKind::Local);
        c.code.memories[number].extents[0] = clk_ir::def::Extent::Launch;
    });
    check_rejected(MANY, "C9 memories: 257 bytes", "clear", |c, at| c.ops[at].x = 257);
}

#[test]
fn c10_launch() {
    check_rejected(MANY, "C10 launch: register", "", |c, _| c.code.registers.launch[0].0 = register(c, LANES));
    check_rejected(MANY, "C10 launch: register", "", |c, _| c.code.registers.launch[0].0 = register(c, WIDE));
    check_rejected(MANY, "C10 launch: a launch value", "", |c, _| {
        let value = c.code.registers.launch[0];
        c.code.registers.block.push(value);
    });
    check_rejected(MANY, "C10 launch: register", "divide", |c, at| c.ops[at].d = c.code.registers.launch[0].0);
}

#[test]
fn c11_regions() {
    let (_, text) = kernels::ALL[0];
    check_rejected(text, "C11 regions: 60000 is not", "", |c, _| c.code.regions[0].reads.push(60000));
    check_rejected(text, "C11 regions: register", "", |c, _| {
        let (reg, scalar) = (register(c, LANES), Scalar::F32);
        let written = crate::lir::WrittenRegister { reg, scalar, uniform: true };
        c.code.regions[0].writes.push(written);
    });
    check_rejected(text, "C11 regions: x is accessed", "", |c, _| {
        c.code.memories[0].kind = MemoryKind::Local;
        c.code.memories[0].extents[0] = clk_ir::def::Extent::Known(1);
    });
    check_rejected(text, "C11 regions: R1 tables", "", |c, _| c.code.regions[0].wide = true);
}

/// The verifier does not panic, regardless of the values of an op's fields.
#[test]
fn damaged_code_never_panics() {
    for (text, checks) in [(MANY, NOTHING), (MANY, EVERYTHING), (STRIPS, NOTHING), (TREE, EVERYTHING)] {
        let CompiledKernel { mut ops, code } = compiled(text, checks, false);
        let mut refusals = 0;
        for at in 0..ops.len() {
            let whole = ops[at];
            for value in [0, 1, 7, 90, 60000, NONE] {
                let wide = u32::from(value);
                let damaged = [
                    Op { d: value, ..whole },
                    Op { a: value, ..whole },
                    Op { b: value, ..whole },
                    Op { c: value, ..whole },
                    Op { x: wide, ..whole },
                    Op { y: wide, ..whole },
                    Op { run: ops[wide as usize % ops.len()].run, ..whole },
                ];
                for op in damaged {
                    ops[at] = op;
                    refusals += u32::from(verify(&ops, &code).is_err());
                }
            }
            ops[at] = whole;
        }
        assert!(refusals > 100 || !cfg!(debug_assertions), "{refusals} refusals");
    }
}

//! Tests of the verifier of DeviceIR.

mod tiles;

use super::*;

use crate::text::parse;
use clk_base::arena::Id;
use clk_base::source::Span;

/// A small valid kernel with a callee. Each test changes it so that one invariant is violated.
const VALID: &str = r#"kernel k(a: f32, x: in @x, r: out @r) grid
fn f(f32) -> f32 {
    param 0 in @p: f32[_]
    %0: f32 = load @p[0i32]
    %1: f32 = arg0 + %0
    return %1
}
fn k() {
    global 1 in @x: f32[_]
    global 2 out @r: f32x2[_]
    shared @s: i32[8]
    local @l: f32[4]
    var $i: i32
    var $v: f32
    %0: f32 = call f(arg0; @x)
    $v = %0
    %1: bool = %0 < 1.0f32
    if %1 {
        %2: i32 = lane + 1i32
        store @s[%2] = 1i32
    }
    for '0 $i = 0i32 .. 4i32 step 1i32 {
        %3: i32 = read $i
        continue '0
    }
    barrier
    %4: i32 = atomic_add @s[lane], 1i32
    store @r[0i32]:0.x = %0
}
"#;

/// Checks that replacing `from` by `to` causes exactly the violation `expected`.
#[track_caller]
fn check(from: &str, to: &str, expected: &str) {
    let text = if from.is_empty() { VALID.to_string() } else { VALID.replacen(from, to, 1) };
    assert!(from.is_empty() || text != VALID, "`{from}` is in the kernel");
    let module = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let actual = violations(&module).join("\n");
    assert_eq!(actual, expected);
    assert_eq!(verify(module).is_ok(), expected.is_empty());
}

/// Like [`check`], but `change` edits the module, for violations that the text form cannot express.
#[track_caller]
fn check_module(change: impl FnOnce(&mut Module), expected: &str) {
    let mut module = parse(VALID).unwrap();
    change(&mut module);
    let actual = violations(&module).join("\n");
    assert!(actual.contains(expected), "{actual}");
}

fn body(module: &mut Module) -> &mut Function {
    &mut module.functions[module.kernel.body]
}

#[test]
fn a_valid_kernel() {
    check("", "", "");
}

#[test]
fn m1_order_of_functions() {
    check(
        ") grid\n",
        ") grid body 7\n",
        "kernel `k`: its body #7 does not exist\nfunction `k`: global memory `x` outside the kernel's body\nfunction `k`: global memory `r` outside the kernel's body\nfunction `k`: %5: value parameter 0 does not exist\nfunction `k`: an argument is %5 of i32, not f32",
    );
    check_module(
        |m| {
            let id = m.kernel.body;
            let StmtKind::Call { function, .. } = &mut body(m).body[0].kind else { panic!("a call") };
            *function = id;
        },
        "a call of #1, which does not precede its caller",
    );
}

#[test]
fn m2_parameters_of_the_kernel() {
    check("fn k() {", "fn k(i32) {", "kernel `k`: its body has parameters or results of its own");
    check_module(
        |m| {
            m.kernel.params.remove(0);
        },
        "array parameter `x` and memory #0 do not name each other",
    );
    check_module(
        |m| {
            m.kernel.params.pop();
        },
        "global memory `r` is not its parameter's",
    );
    check(
        "param 0 in @p",
        "global 1 in @p",
        "function `f`: global memory `p` outside the kernel's body\nfunction `k`: a call of `f` with 1 memories, not 0",
    );
}

#[test]
fn m3_forms() {
    check(
        ") grid",
        ") threads 4",
        "kernel `k`: threads with 4 indices\nfunction `k`: shared memory `s` in a `threads` kernel\nfunction `k`: %7: a thread id in a `threads` kernel\nfunction `k`: a barrier in a `threads` kernel",
    );
    check("lane + 1i32", "index0 + 1i32", "function `k`: %7: index 0, which the kernel does not have");
    check("    barrier\n", "    grid_barrier\n", "function `k`: a grid barrier in a kernel that is not cooperative");
}

#[test]
fn f1_tables_and_ids() {
    check_module(|m| body(m).spans.push(Span::default()), "spans for");
    check_module(
        |m| body(m).body.push(Stmt { kind: StmtKind::Let(Id::new(99)), span: Span::default() }),
        "%99 does not exist",
    );
    check_module(|m| body(m).locals[Id::new(0)].ty = Ty::Vector(Scalar::I32, 9), "local `i` is i32x9");
}

#[test]
fn f2_layouts() {
    check("@s: i32[8]", "@s: {a: i32 at 2; size 8; align 4}[8]", "function `k`: memory `s` has an invalid layout");
}

#[test]
fn f3_extents() {
    check("@l: f32[4]", "@l: f32[_]", "function `k`: memory `l` has the extent Launch");
    check("@s: i32[8]", "@s: i32[(i32: lane * 2i32)]", "function `k`: an extent of `s` is not a launch constant (#7)");
    check("@s: i32[8]", "@s: i32[2u8]", "function `k`: an extent of `s` is u8");
}

#[test]
fn f4_positions() {
    check("param 0 in @p", "param 1 in @p", "function `f`: memory `p` has position 1");
}

#[test]
fn e1_types_of_operations() {
    check("%1: f32 = arg0 + %0", "%1: f32 = arg0 & %0", "function `f`: %1: And of f32 and f32");
    check("%1: bool = %0 < 1.0f32", "%1: bool = %0 < 1i32", "function `k`: %1: Lt of f32 and i32");
    check("%3: i32 = read $i", "%3: u32 = read $i", "function `k`: %3 is u32, but its operation has the type i32");
    check("= 1i32\n", "= i32#100000000\n", "function `k`: %9: the bits 0x100000000 do not fit i32");
}

#[test]
fn e2_evaluated_once_before_use() {
    check("store @r[0i32]:0.x = %0", "store @r[%2]:0.x = %0", "function `k`: %2 is used outside its block");
    check("$v = %0", "$v = %9\n    %9: f32 = read $v", "function `k`: %1 is used before it is evaluated");
    check_module(
        |m| {
            let s = body(m).body[2].clone();
            body(m).body.push(s);
        },
        "%1 is evaluated twice",
    );
    check("%3: i32 = read $i", "%3: i32 = result", "function `k`: a let of the result %3");
    check_module(
        |m| {
            let StmtKind::Call { results, .. } = &mut body(m).body[0].kind else { panic!("a call") };
            results[0] = Id::new(1);
        },
        "%1 is not a result",
    );
}

#[test]
fn e3_references_exist() {
    check(
        "arg0 + %0",
        "arg1 + %0",
        "function `f`: %3: value parameter 1 does not exist\nfunction `f`: %1: Add of i32 and f32",
    );
    check("store @s[%2]", "store @s[%2, %2]", "function `k`: 2 indices into `s` of rank 1");
    check("store @s[%2]", "store @s[1.0f32]", "function `k`: an index into `s` is f32");
    check(":0.x = %0", ":0.w = %0", "function `k`: component 3 of f32x2");
    check(":0.x = %0", ":1 = %0", "function `k`: leaf 1 of a layout of 1");
    check_module(|m| body(m).memories = Default::default(), "memory #2 does not exist");
    check_module(|m| body(m).locals = Default::default(), "local #0 does not exist");
}

#[test]
fn s1_operands() {
    check("$v = %0", "$v = 1i32", "function `k`: the written value is %6 of i32, not f32");
    check("if %1", "if %0", "function `k`: a condition is %0 of f32, not bool");
    check("barrier\n", "barrier %1\n", "function `k`: Block barrier with the value Some(#1)");
    check(
        "atomic_add @s[lane], 1i32",
        "atomic_add @s[lane], 1i32 if 2i32",
        "function `k`: Add with the comparison Some(#11)",
    );
    check("barrier\n", "%9: f32 = shuffle %0, 1i64\n", "function `k`: a lane is i64");
    check("barrier\n", "%9: bool = warp_any %0\n", "function `k`: Any of f32");
    check("barrier\n", "%9: f32 = shuffle %0\n", "function `k`: Shuffle with the lane None");
}

#[test]
fn s2_labels() {
    check("continue '0", "continue '1", "function `k`: continue '1 is not in a loop with that label");
    check("barrier\n", "break '0\n", "function `k`: break '0 is not in a statement with that label");
    check("barrier\n", "loop '0 {\n}\n", "function `k`: label '0 is used twice");
}

#[test]
fn s3_for() {
    check("0i32 .. 4i32", "0i64 .. 4i32", "function `k`: a for's start is %9 of i64, not i32");
    check("continue '0", "$i = 1i32", "function `k`: the body of a for writes its local `i`");
    check("continue '0", "for '1 $i = 0i32 .. 1i32 step 1i32 {\n}", "function `k`: the body of a for writes its local");
}

#[test]
fn s4_returns() {
    check("return %1", "return", "function `f`: return of 0 values, not 1");
    check("return %1", "return 1i32", "function `f`: a returned value is %4 of i32, not f32");
    check("    return %1\n", "", "function `f`: it may end without returning its results");
}

#[test]
fn s5_calls() {
    check("f(arg0; @x)", "f(1i32; @x)", "function `k`: an argument is %5 of i32, not f32");
    check("f(arg0; @x)", "f(; @x)", "function `k`: a call of `f` with 0 arguments, not 1");
    check("f(arg0; @x)", "f(arg0; @s)", "function `k`: memory `s` does not match the parameter `p`");
    check("param 0 in @p", "param 0 out @p", "function `k`: memory `x` does not match the parameter `p`");
    check("barrier\n", "call f(arg0; @x)\n", "function `k`: a call binds 0 of 1 results");
}

#[test]
fn s6_read_only_memory() {
    check("store @s[%2] = 1i32", "store @x[%2] = 1.0f32", "function `k`: `x` is read-only, but it is written");
    check("barrier\n", "declare @s\n", "function `k`: declare of #2, which is not a local array");
}

/// A random number generator for fuzzing the structure of modules.
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below.max(1) as u64) as usize
    }

    fn id<T>(&mut self) -> Id<T> {
        let far = self.next(20) == 0;
        Id::new(if far { u32::MAX as usize } else { self.next(24) })
    }
}

fn mutate(module: &mut Module, random: &mut Random) {
    let number = random.next(module.functions.len());
    let function = &mut module.functions[Id::new(number)];
    let mut count = 0;
    crate::visit::each_stmt(&function.body, &mut |_| count += 1);
    let target = random.next(count);
    let (mut at, choice) = (0, random.next(7));
    let first = function.body.first().cloned();
    crate::visit::each_stmt_mut(&mut function.body, &mut |stmt| {
        at += 1;
        if at != target + 1 {
            return;
        }
        match choice {
            0 => stmt.kind.operands_mut(|o| *o = random.id()),
            1 => stmt.kind.results_mut(|o| *o = random.id()),
            2 => stmt.kind = StmtKind::Let(random.id()),
            3 => stmt.kind.memories_mut(|m| *m = random.id()),
            4 => stmt.kind = StmtKind::Break(Label(random.next(4) as u32)),
            5 => stmt.kind.local_mut().into_iter().for_each(|l| *l = random.id()),
            _ => *stmt = first.clone().unwrap_or_else(|| stmt.clone()),
        }
    });
    let id = Id::new(random.next(function.exprs.len()));
    match random.next(8) {
        0 => function.exprs[id].kind.operands_mut(|o| *o = random.id()),
        1 => function.exprs[id].ty = Ty::Vector(Scalar::ALL[random.next(13)], random.next(7) as u8),
        2 => function.exprs[id].kind = ExprKind::Extent(random.id(), random.next(4) as u8),
        3 => function.exprs[id].kind = ExprKind::Read(random.id()),
        4 => function.memories = Default::default(),
        5 => module.kernel.body = random.id(),
        6 => module.kernel.params.truncate(random.next(3)),
        _ => {}
    }
}

#[test]
fn verifying_mutated_modules_does_not_panic() {
    let mut random = Random(0x9e3779b97f4a7c15);
    let mut broken = 0;
    for _ in 0..3000 {
        let mut module = parse(VALID).unwrap();
        for _ in 0..=random.next(3) {
            mutate(&mut module, &mut random);
        }
        broken += usize::from(!violations(&module).is_empty());
        let _ = crate::text::print(&module);
        crate::renumber::compact(&mut module);
        violations(&module);
    }
    assert!(broken > 1000, "the mutations break something: {broken}");
}

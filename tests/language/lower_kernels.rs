//! Tests the lowering of kernels whose typed trees are built by hand.

mod lower_support;

use clk_check::typed::*;
use clk_lower::{FunctionInstance, GenericArgument, lower_map};
use clk_scalar::builtin::Builtin;
use clk_scalar::ops::{AtomicOp, BarrierKind, BinaryOp, MathFn, WarpOp};
use clk_scalar::{Scalar, ScalarValue};
use lower_support::*;

fn row() -> Type {
    array(F32, vec![Dim::Name(0)])
}

fn vec(n: u8) -> Type {
    Type::Vector(Scalar::F32, n)
}

/// Checks that every line of `lines` occurs in the text, in this order.
#[track_caller]
fn in_order(text: &str, lines: &[&str]) {
    let mut rest = text;
    for line in lines {
        match rest.find(line) {
            Some(at) => rest = &rest[at + line.len()..],
            None => panic!("`{line}` is missing (or too early) in\n{text}"),
        }
    }
}

/// Adds a kernel `threads(i: N)` with a parameter `out r: [element; N]`; `build` creates the body from the index `i`
/// and the element `r[i]`.
fn over_r(
    program: &mut Program,
    generics: Vec<Generic>,
    element: Type,
    build: impl FnOnce(&mut Locals, &Expr, Expr) -> Block,
) -> KernelId {
    let mut l = Locals::default();
    let r = l.param("r", Access::Out, array(element, vec![Dim::Name(0)]));
    let i = l.push("i", I32, false, LocalKind::ThreadIndex);
    let place = index(r, vec![i.clone()]);
    let body = build(&mut l, &i, place);
    kernel(program, "k", generics, l, Some(&i), body)
}

#[test]
fn saxpy() {
    let (mut program, mut l) = (Program::default(), Locals::default());
    let alpha = l.param("alpha", Access::In, F32);
    let x = l.param("x", Access::In, row());
    let r = l.param("r", Access::Out, row());
    let i = l.push("i", I32, false, LocalKind::ThreadIndex);
    let sum = add(mul(alpha, index(x.clone(), vec![i.clone()])), index(x, vec![i.clone()]));
    let body = block(vec![assign(index(r, vec![i.clone()]), sum)], None);
    let k = kernel(&mut program, "saxpy", vec![], l, Some(&i), body);
    let expected = "\
kernel saxpy(alpha: f32, x: in @x, r: out @r, M: i32) threads 1
fn saxpy() {
    global 1 in @x: f32[_]
    global 2 out @r: f32[_]
    %3: f32 = load @x[index0]
    %4: f32 = arg0 * %3
    %5: f32 = load @x[index0]
    %6: f32 = %4 + %5
    store @r[index0] = %6
}
";
    assert_eq!(ir(&program, k, vec![]), expected);
}

#[test]
fn faulting_right_operands_are_skipped() {
    let (mut program, mut l) = (Program::default(), Locals::default());
    let x = l.param("x", Access::In, row());
    let r = l.param("r", Access::Out, array(BOOL, vec![Dim::Name(0)]));
    let i = l.push("i", I32, false, LocalKind::ThreadIndex);
    let inside = lt(add(i.clone(), int(1)), dim(0));
    let next = lt(index(x, vec![add(i.clone(), int(1))]), float(1.0));
    let cheap = and(lt(int(0), i.clone()), lt(i.clone(), dim(0)));
    let body = block(
        vec![assign(index(r.clone(), vec![i.clone()]), and(inside, next)), assign(index(r, vec![i.clone()]), cheap)],
        None,
    );
    let k = kernel(&mut program, "k", vec![], l, Some(&i), body);
    in_order(&ir(&program, k, vec![]), &["if ", "load @x", "store @r", "& ", "store @r"]);
}

#[test]
fn branches_with_values() {
    let mut program = Program::default();
    let k = over_r(&mut program, vec![], F32, |l, i, place| {
        let x = l.variable("x", F32);
        let cheap = if_else(lt(i.clone(), int(3)), value(float(1.0)), Some(value(float(2.0))), F32);
        // A branch that ends in `return` has no value.
        let leaves = block(vec![StmtKind::Return(None)], None);
        let early = if_else(lt(i.clone(), int(9)), leaves, Some(value(x.clone())), F32);
        block(vec![let_(&x, cheap), assign(place, early)], None)
    });
    let text = ir(&program, k, vec![]);
    in_order(&text, &["select", "if ", "return", "else", "store @r"]);
}

#[test]
fn structs_and_tuples_become_scalars() {
    let mut program = Program::default();
    let plain = |name: &str, ty: Type| Field { name: name.into(), ty, span: span(0), doc: None };
    let body_id = program.structs.push(Struct {
        name: "Body".into(),
        module: ModuleId::new(0),
        fields: vec![plain("pos", vec(3)), plain("state", Type::Tuple([F32, I32].into()))],
        span: span(0),
        doc: None,
    });
    let body = Type::Struct(body_id);
    let mut l = Locals::default();
    let body_param = l.param("given", Access::In, body.clone());
    let p = l.param("p", Access::InOut, array(body.clone(), vec![Dim::Name(0)]));
    let i = l.push("i", I32, false, LocalKind::ThreadIndex);
    let mine = l.variable("mine", body.clone());
    let at = index(p, vec![i.clone()]);
    let state = |e: Expr| tuple_field(field(e, 1, Type::Tuple([F32, I32].into())), 1, I32);
    let root = block(
        vec![
            let_(&mine, body_param),
            assign(lanes(field(mine.clone(), 0, vec(3)), &[1]), float(2.0)),
            update(state(at.clone()), BinaryOp::Add, int(1)),
            assign(lanes(field(at.clone(), 0, vec(3)), &[0]), float(1.0)),
            assign(at, mine),
        ],
        None,
    );
    let k = kernel(&mut program, "k", vec![], l, Some(&i), root);
    let text = ir(&program, k, vec![]);
    in_order(
        &text,
        &[
            "\"given.pos\": f32x3, \"given.state.0\": f32, \"given.state.1\": i32, p: inout @p",
            "extract",
            "compose",
            "load @p[index0]:2",
            "+ 1",
            "store @p[index0]:2 =",
            "store @p[index0]:0.x = 1",
            "store @p[index0]:0 =",
            "store @p[index0]:1 =",
            "store @p[index0]:2 =",
        ],
    );
    assert_eq!(text.matches("load").count(), 1, "only needed elements are read:\n{text}");
}

#[test]
fn functions_are_lowered_once_per_instance() {
    let mut program = Program::default();
    let mut l = Locals::default();
    let x = l.param("x", Access::In, Type::Param(0));
    let apply = Expr {
        kind: ExprKind::Call { callee: FnRef::Param(1), args: vec![x.clone(), x] },
        ty: Type::Param(0),
        span: span(1),
    };
    let generics = vec![generic_type("T"), generic_fn("op", vec![Type::Param(0); 2], Type::Param(0))];
    let twice = function(&mut program, "twice", generics, l, Type::Param(0), value(apply));
    let mut l = Locals::default();
    let (a, b) = (l.param("a", Access::In, F32), l.param("b", Access::In, F32));
    let product = function(&mut program, "product", vec![], l, F32, value(mul(a, b)));
    let k = over_r(&mut program, vec![], F32, |_, i, place| {
        let with = |op: FnRef, ty: Type| vec![GenericArg::Type(ty), GenericArg::Fn(op)];
        let user = || FnRef::Fn { id: product, generics: vec![] };
        let first = call(twice, with(user(), F32), vec![float(3.0)], F32);
        let second = call(twice, with(user(), F32), vec![float(4.0)], F32);
        let third = call(twice, with(FnRef::Builtin(Builtin::Math(MathFn::Max)), I32), vec![i.clone()], I32);
        let third = expr(ExprKind::Convert { to: Scalar::F32, expr: boxed(third) }, F32);
        block(vec![assign(place, add(add(first, second), third))], None)
    });
    let module = lowered(&program, k, vec![]);
    assert_eq!(module.functions.len(), 4, "product, two instances of twice, the kernel");
    in_order(&ir(&program, k, vec![]), &["fn product", "fn twice", "call", "fn twice", "max", "fn k"]);
}

#[test]
fn arrays_go_to_functions_and_dimensions_follow() {
    let mut program = Program::default();
    let mut l = Locals::default();
    let x = l.param("x", Access::In, row());
    let (sum, j) = (l.variable("sum", F32), l.push("j", I32, false, LocalKind::Loop));
    let root = block(
        vec![
            let_(&sum, float(0.0)),
            for_(
                &j,
                range(int(0), dim(0)),
                block(vec![update(sum.clone(), BinaryOp::Add, index(x, vec![j.clone()]))], None),
            ),
        ],
        Some(sum),
    );
    let total = function(&mut program, "total", vec![], l, F32, root);
    let mut l = Locals::default();
    let x = l.param("x", Access::In, array(F32, vec![Dim::Name(1)]));
    let r = l.param("r", Access::Out, row());
    let i = l.push("i", I32, false, LocalKind::ThreadIndex);
    let body = block(vec![assign(index(r, vec![i.clone()]), call(total, vec![], vec![x], F32))], None);
    let k = kernel(&mut program, "k", vec![], l, Some(&i), body);
    in_order(&ir(&program, k, vec![]), &["fn total_0", "extent(@x, 0)", "load @x", "fn k", "call total_0"]);
    assert!(clk_lower::hidden_params(&program, k).is_empty());
}

#[test]
fn loops_are_lowered() {
    let mut program = Program::default();
    let k = over_r(&mut program, vec![], F32, |l, i, place| {
        let acc = l.variable("acc", F32);
        let n = l.variable("n", I32);
        let j = l.push("j", I32, false, LocalKind::Loop);
        let v = l.push("v", F32, false, LocalKind::Loop);
        let skip = if_else(lt(j.clone(), int(2)), block(vec![StmtKind::Continue], None), None, Type::Unit);
        let leave = if_else(lt(int(7), j.clone()), block(vec![StmtKind::Break], None), None, Type::Unit);
        let list = expr(ExprKind::Array(vec![float(1.0), float(2.0), float(4.0)]), array(F32, vec![Dim::Known(3)]));
        let step = update(n.clone(), BinaryOp::Add, int(1));
        let forever = block(
            vec![
                run(if_else(lt(int(40), n.clone()), block(vec![StmtKind::Break], None), None, Type::Unit)),
                step.clone(),
            ],
            None,
        );
        block(
            vec![
                let_(&acc, float(0.0)),
                let_(&n, int(0)),
                for_(
                    &j,
                    range(int(0), i.clone()),
                    block(vec![run(skip), run(leave), update(acc.clone(), BinaryOp::Add, float(1.0))], None),
                ),
                for_(&v, list, block(vec![update(acc.clone(), BinaryOp::Mul, v.clone())], None)),
                StmtKind::While {
                    cond: lt(n.clone(), int(10)),
                    body: Box::new(block(vec![step], None)),
                    unroll: Unroll::Full,
                },
                StmtKind::Loop { body: forever },
                assign(place, acc),
            ],
            None,
        )
    });
    let text = ir(&program, k, vec![]);
    in_order(
        &text,
        &["for", "continue", "break", "declare", "for", "load", "loop", "break", "loop", "break", "store @r"],
    );
}

#[test]
fn local_arrays_and_shared_memory() {
    let mut program = Program::default();
    let mut l = Locals::default();
    let n = l.param("n", Access::In, I32);
    let r = l.param("r", Access::Out, row());
    let tile = l.push("tile", array(F32, vec![Dim::Known(8), Dim::Local(0)]), true, LocalKind::Shared);
    let flag = l.push("flag", array(I32, vec![]), true, LocalKind::Shared);
    let acc = l.variable("acc", array(F32, vec![Dim::Local(0), Dim::Known(4)]));
    let flag_value = Expr { ty: I32, ..flag.clone() };
    let x = || thread_x();
    let size = add(expr(ExprKind::ConstParam(0), I32), int(1));
    let root = block(
        vec![
            StmtKind::Shared { local: id(&tile), extents: vec![int(8), mul(n.clone(), int(2))] },
            StmtKind::Shared { local: id(&flag), extents: vec![] },
            StmtKind::LocalArray { local: id(&acc), extents: vec![size, int(4)], init: ArrayInit::Fill(float(0.0)) },
            assign(index(tile.clone(), vec![int(0), x()]), float(1.0)),
            assign(flag_value.clone(), int(5)),
            run(builtin(Builtin::Barrier(BarrierKind::Block), vec![], Type::Unit)),
            update(index(acc.clone(), vec![int(3), int(3)]), BinaryOp::Add, index(tile, vec![int(1), flag_value])),
            assign(index(r, vec![x()]), index(acc, vec![int(3), int(3)])),
        ],
        None,
    );
    let k = kernel(&mut program, "k", vec![generic_const("T")], l, None, root);
    let t = |n: i32| vec![GenericArgument::Const(ScalarValue::of(n))];
    let text = ir(&program, k, t(4));
    in_order(
        &text,
        &[
            "shared @tile: f32[8, ",
            "shared @flag: i32",
            "local @acc: f32[5, 4]",
            "declare @acc",
            "for",
            "for",
            "store @flag",
            "barrier",
            "load @flag",
        ],
    );
    assert_eq!(errors(&program, k, t(2)), ["E0484"], "acc[3, 3] is outside of [3, 4]");
    assert_eq!(errors(&program, k, t(-1))[0], "E0481");
    assert_eq!(errors(&program, k, t(1 << 20)), ["E0482"]);
}

#[test]
fn vectors_warps_and_atomics() {
    let mut program = Program::default();
    let mut l = Locals::default();
    let p = l.param("p", Access::InOut, array(vec(4), vec![Dim::Name(0)]));
    let v = l.variable("v", vec(4));
    let at = index(p, vec![thread_x()]);
    let scaled = binary(BinaryOp::Mul, at.clone(), float(2.0));
    let shuffled = builtin(Builtin::Warp(WarpOp::ShuffleXor), vec![v.clone(), int(16)], vec(4));
    let reduced = builtin(Builtin::Warp(WarpOp::ReduceAdd), vec![lanes(v.clone(), &[0, 1])], vec(2));
    let old = builtin(Builtin::Atomic(AtomicOp::Add), vec![lanes(at.clone(), &[2]), float(1.0)], F32);
    let root = block(
        vec![
            let_(&v, scaled),
            update(v.clone(), BinaryOp::Add, shuffled),
            assign(lanes(v.clone(), &[3, 2]), reduced),
            run(old.clone()),
            assign(lanes(v.clone(), &[0]), old),
            assign(at, v),
        ],
        None,
    );
    let k = kernel(&mut program, "k", vec![], l, None, root);
    let text = ir(&program, k, vec![]);
    in_order(
        &text,
        &[
            "load @p",
            "shuffle_xor",
            "warp_reduce_add",
            "warp_reduce_add",
            "compose",
            "    atomic_add @p[thread.x].z",
            "= atomic_add @p",
            "store @p",
        ],
    );
}

#[test]
fn message_texts() {
    let mut program = Program::default();
    let k = over_r(&mut program, vec![], F32, |_, i, place| {
        let text = |expr: Expr| {
            let parts = vec![StrPart::Text("at ".into()), StrPart::Value { expr, format: None }];
            Expr { kind: ExprKind::Str(parts), ty: Type::Str, span: span(1) }
        };
        let holds = || lt(i.clone(), int(100));
        let pair = tuple(vec![i.clone(), float(1.5)]);
        block(
            vec![
                run(builtin(Builtin::Assert, vec![holds(), text(i.clone())], Type::Unit)),
                run(builtin(Builtin::Assert, vec![holds(), text(place.clone())], Type::Unit)),
                run(builtin(Builtin::Print, vec![text(i.clone()), pair], Type::Unit)),
                assign(place, float(1.0)),
            ],
            None,
        )
    });
    // The values of the message are loaded only if the condition has failed.
    in_order(
        &ir(&program, k, vec![]),
        &["assert", "if ", "load @r", "assert", "print", "\"at \"", "\" (\"", "\", \"", "\")\\n\""],
    );
}

#[test]
fn constants() {
    let mut program = Program::default();
    // fn triangle(n: i32) -> i32 { var s = 0; for j in 0..n { s += j }; s }
    let mut l = Locals::default();
    let n = l.param("n", Access::In, I32);
    let (s, j) = (l.variable("s", I32), l.push("j", I32, false, LocalKind::Loop));
    let add_j = block(vec![update(s.clone(), BinaryOp::Add, j.clone())], None);
    let root = block(vec![let_(&s, int(0)), for_(&j, range(int(0), n), add_j)], Some(s));
    let triangle = function(&mut program, "triangle", vec![], l, I32, root);
    let constant = |program: &mut Program, name: &str, value: Expr| {
        let ty = value.ty.clone();
        program.consts.push(Const {
            name: name.into(),
            module: ModuleId::new(0),
            ty,
            value: value.into(),
            const_value: None,
            span: span(0),
            doc: None,
        })
    };
    let ten = constant(&mut program, "TEN", call(triangle, vec![], vec![int(5)], I32));
    let table = expr(ExprKind::Array(vec![float(0.5), float(0.25)]), array(F32, vec![Dim::Known(2)]));
    let table = constant(&mut program, "WEIGHTS", table);
    let zero = constant(&mut program, "ZERO", int(0));
    let bad = constant(&mut program, "BAD", binary(BinaryOp::Div, int(1), expr(ExprKind::Const(zero), I32)));
    let k = over_r(&mut program, vec![], F32, |_, i, place| {
        let weights = expr(ExprKind::Const(table), array(F32, vec![Dim::Known(2)]));
        let cond = lt(expr(ExprKind::Const(ten), I32), int(11));
        let cut = if_else(cond, value(index(weights, vec![i.clone()])), Some(value(float(0.0))), F32);
        block(vec![assign(place, cut)], None)
    });
    let text = ir(&program, k, vec![]);
    in_order(&text, &["constant @WEIGHTS: f32[2] = 0.5f32, 0.25f32", "load @WEIGHTS[index0]", "store @r"]);
    assert!(!text.contains("if "), "the condition is a constant:\n{text}");
    let k = over_r(&mut program, vec![], I32, |_, _, place| {
        block(vec![assign(place, expr(ExprKind::Const(bad), I32))], None)
    });
    assert_eq!(errors(&program, k, vec![]), ["E0489"]);
    let k = over_r(&mut program, vec![], I32, |_, i, place| {
        block(vec![assign(place, binary(BinaryOp::Rem, i.clone(), expr(ExprKind::Const(zero), I32)))], None)
    });
    assert_eq!(errors(&program, k, vec![]), ["E0485"]);
}

#[test]
fn endless_monomorphization_is_an_error() {
    let mut program = Program::default();
    // fn f<const T: i32>() -> i32 { f<T + 1>() }
    let next = GenericArg::Const(add(expr(ExprKind::ConstParam(0), I32), int(1)));
    let itself = call(FnId::new(0), vec![next], vec![], I32);
    let f = function(&mut program, "f", vec![generic_const("T")], Locals::default(), I32, value(itself));
    let k = over_r(&mut program, vec![], I32, |_, _, place| {
        block(vec![assign(place, call(f, vec![GenericArg::Const(int(0))], vec![], I32))], None)
    });
    assert_eq!(errors(&program, k, vec![]), ["E0486"]);
}

#[test]
fn functions_map_over_arrays() {
    let mut program = Program::default();
    let mut l = Locals::default();
    let (a, b) = (l.param("a", Access::In, Type::Param(0)), l.param("b", Access::In, Type::Param(0)));
    let scaled = function(&mut program, "scaled", vec![generic_type("T")], l, Type::Param(0), value(mul(a, b)));
    let f = FunctionInstance::Fn { id: scaled, arguments: vec![GenericArgument::Type(F32)] };
    for function in [f, FunctionInstance::Builtin(Builtin::Math(MathFn::Max))] {
        let module = lower_map(&program, &function, &[(F32, true), (F32, false)], Default::default()).expect("lowered");
        let text = clk_ir::text::print(&module);
        clk_ir::verify::verify(module).expect("well-formed");
        in_order(
            &text,
            &["p0: in @p0, p1: f32, result: out @result", "threads 1", "load @p0[index0]", "store @result[index0]"],
        );
    }
}

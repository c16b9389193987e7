//! Typical GPU kernels in DeviceIR, on which the simulator's speed is measured.

use std::sync::Arc;

use clk_ir::build::{FunctionBuilder, IrForRange, build_module};
use clk_ir::def::*;
use clk_ir::typing::{F32, I32, U32};
use clk_runtime::{Arg, Control, Device, Executable, LaunchExtents};
use clk_scalar::ops::{AtomicOp, BarrierKind, MathFn, UnaryOp};
use clk_scalar::{Scalar, ScalarValue};

use clk_testing::isa::some_simulators;

type B = FunctionBuilder;

/// A kernel, loaded on the simulators that [`some_simulators`] returns: every instruction set under test, the best one
/// last.
pub struct Kernel(Vec<Arc<dyn Executable>>);

pub fn load(b: FunctionBuilder, form: LaunchForm) -> Kernel {
    let prepared = clk_pass::prepare(build_module(Default::default(), b, form)).expect("the kernel is valid");
    if std::env::var("CLK_SHOW_IR").is_ok() {
        eprintln!("{}", clk_ir::text::print(&prepared.module));
    }
    let prepared = Arc::new(prepared);
    Kernel(some_simulators().iter().map(|s| s.load(prepared.clone(), None)).collect())
}

fn plain(b: &mut B, name: &str, access: Access, ty: Ty, rank: usize) -> MemId {
    b.array(name, access, ElementLayout::plain(ty), rank)
}

fn shared(b: &mut B, name: &str, ty: Ty, extents: &[u32]) -> MemId {
    let extents = extents.iter().map(|&n| Extent::Known(n)).collect();
    b.memory(name, MemorySpace::Shared, ElementLayout::plain(ty), extents)
}

fn add(b: &mut B, x: ExprId, y: ExprId) -> ExprId {
    b.binary(BinOp::Add, x, y)
}

fn sub(b: &mut B, x: ExprId, y: ExprId) -> ExprId {
    b.binary(BinOp::Sub, x, y)
}

fn mul(b: &mut B, x: ExprId, y: ExprId) -> ExprId {
    b.binary(BinOp::Mul, x, y)
}

fn barrier(b: &mut B) {
    b.barrier(BarrierKind::Block, None);
}

pub fn saxpy() -> Kernel {
    let mut b = B::new("saxpy");
    let a = b.value("a", F32);
    let x = plain(&mut b, "x", Access::In, F32, 1);
    let y = plain(&mut b, "y", Access::InOut, F32, 1);
    let i = b.index(0);
    let (v, w) = (b.load(x, &[i]), b.load(y, &[i]));
    let p = mul(&mut b, a, v);
    let s = add(&mut b, p, w);
    b.store(y, &[i], s);
    load(b, LaunchForm::Threads { rank: 1 })
}

pub fn mandel() -> Kernel {
    let mut b = B::new("mandel");
    let max = b.value("maxit", I32);
    let out = plain(&mut b, "out", Access::Out, I32, 2);
    let (py, px) = (b.index(0), b.index(1));
    let n = b.extent(out, 1);
    let n = b.convert(n, Scalar::F32);
    let k = b.f32(2.5);
    let s = b.binary(BinOp::Div, k, n);
    let scaled = |b: &mut B, p, start| {
        let p = b.convert(p, Scalar::F32);
        let (start, p) = (b.f32(start), mul(b, p, s));
        add(b, start, p)
    };
    let (cx, cy) = (scaled(&mut b, px, -2.0), scaled(&mut b, py, -1.25));
    let zero = b.f32(0.0);
    let (x, y) = (b.variable("x", zero), b.variable("y", zero));
    let zero = b.i32(0);
    let it = b.variable("it", zero);
    let label = b.label();
    let body = b.in_block(|b| {
        let n = b.read(it);
        let running = b.binary(BinOp::Lt, n, max);
        let go = b.local("go", Ty::Scalar(Scalar::Bool));
        let no = b.bool(false);
        b.write(go, no);
        b.if_then(running, |b| {
            let (x, y) = (b.read(x), b.read(y));
            let (xx, yy) = (mul(b, x, x), mul(b, y, y));
            let (sum, four) = (add(b, xx, yy), b.f32(4.0));
            let inside = b.binary(BinOp::Le, sum, four);
            b.write(go, inside);
        });
        let going = b.read(go);
        let done = b.unary(UnaryOp::Not, going);
        b.if_then(done, |b| b.break_(label));
        let (vx, vy) = (b.read(x), b.read(y));
        let (xx, yy) = (mul(b, vx, vx), mul(b, vy, vy));
        let d = sub(b, xx, yy);
        let t = add(b, d, cx);
        let two = b.f32(2.0);
        let x2 = mul(b, two, vx);
        let xy = mul(b, x2, vy);
        let ny = add(b, xy, cy);
        b.write(y, ny);
        b.write(x, t);
        let (n, one) = (b.read(it), b.i32(1));
        let n = add(b, n, one);
        b.write(it, n);
    });
    b.loop_(label, Unroll::Auto, body);
    let n = b.read(it);
    b.store(out, &[py, px], n);
    load(b, LaunchForm::Threads { rank: 2 })
}

pub fn matmul() -> Kernel {
    const T: u32 = 16;
    let mut b = B::new("matmul");
    let (ma, mb) = (plain(&mut b, "a", Access::In, F32, 2), plain(&mut b, "b", Access::In, F32, 2));
    let mc = plain(&mut b, "c", Access::Out, F32, 2);
    let (ta, tb) = (shared(&mut b, "ta", F32, &[T, T]), shared(&mut b, "tb", F32, &[T, T]));
    let (row, col) = (b.id(BuiltinIndex::Global, Axis::Y), b.id(BuiltinIndex::Global, Axis::X));
    let (ty, tx) = (b.id(BuiltinIndex::Thread, Axis::Y), b.id(BuiltinIndex::Thread, Axis::X));
    let (m, kk, n) = (b.extent(ma, 0), b.extent(ma, 1), b.extent(mb, 1));
    let zero = b.f32(0.0);
    let acc = b.variable("acc", zero);
    let (label, k0, step) = (b.label(), b.local("k0", I32), b.i32(T as i32));
    let start = b.i32(0);
    let body = b.in_block(|b| {
        let k0 = b.read(k0);
        let guarded = |b: &mut B, memory, i, j, rows, cols, tile| {
            let value = b.local("v", F32);
            let (p, q) = (b.binary(BinOp::Lt, i, rows), b.binary(BinOp::Lt, j, cols));
            let both = b.binary(BinOp::And, p, q);
            b.if_else(
                both,
                |b| {
                    let v = b.load(memory, &[i, j]);
                    b.write(value, v);
                },
                |b| {
                    let zero = b.f32(0.0);
                    b.write(value, zero);
                },
            );
            let v = b.read(value);
            b.store(tile, &[ty, tx], v);
        };
        let kx = add(b, k0, tx);
        guarded(b, ma, row, kx, m, kk, ta);
        let ky = add(b, k0, ty);
        guarded(b, mb, ky, col, kk, n, tb);
        barrier(b);
        let (zero, t) = (b.i32(0), b.i32(T as i32));
        b.for_range("k", zero, t, |b, _, k| {
            let (x, y) = (b.load(ta, &[ty, k]), b.load(tb, &[k, tx]));
            let p = mul(b, x, y);
            let old = b.read(acc);
            let new = add(b, old, p);
            b.write(acc, new);
        });
        barrier(b);
    });
    b.for_(label, k0, IrForRange { start, end: kk, step, inclusive: false }, Unroll::Auto, body);
    let (p, q) = (b.binary(BinOp::Lt, row, m), b.binary(BinOp::Lt, col, n));
    let both = b.binary(BinOp::And, p, q);
    b.if_then(both, |b| {
        let v = b.read(acc);
        b.store(mc, &[row, col], v);
    });
    load(b, LaunchForm::Grid)
}

/// Emits `for (d = 128; d > 0; d >>= 1) { if l < d { s[l] = f(s[l], s[l + d]) } barrier }`.
fn tree(b: &mut B, s: MemId, l: ExprId, combine: impl Fn(&mut B, ExprId, ExprId) -> ExprId) {
    let start = b.i32(128);
    let d = b.variable("d", start);
    let label = b.label();
    let body = b.in_block(|b| {
        let (v, zero) = (b.read(d), b.i32(0));
        let done = b.binary(BinOp::Le, v, zero);
        b.if_then(done, |b| b.break_(label));
        let inside = b.binary(BinOp::Lt, l, v);
        b.if_then(inside, |b| {
            let other = add(b, l, v);
            let (x, y) = (b.load(s, &[l]), b.load(s, &[other]));
            let z = combine(b, x, y);
            b.store(s, &[l], z);
        });
        barrier(b);
        let one = b.i32(1);
        let half = b.binary(BinOp::Shr, v, one);
        b.write(d, half);
    });
    b.loop_(label, Unroll::Auto, body);
}

fn is_first(b: &mut B, l: ExprId) -> ExprId {
    let zero = b.i32(0);
    b.binary(BinOp::Eq, l, zero)
}

pub fn reduce() -> Kernel {
    let mut b = B::new("reduce");
    let x = plain(&mut b, "x", Access::In, F32, 1);
    let part = plain(&mut b, "part", Access::Out, F32, 1);
    let s = shared(&mut b, "s", F32, &[256]);
    let (l, i) = (b.id(BuiltinIndex::Thread, Axis::X), b.id(BuiltinIndex::Global, Axis::X));
    let v = b.load(x, &[i]);
    b.store(s, &[l], v);
    barrier(&mut b);
    tree(&mut b, s, l, add);
    let first = is_first(&mut b, l);
    b.if_then(first, |b| {
        let (zero, block) = (b.i32(0), b.id(BuiltinIndex::Block, Axis::X));
        let v = b.load(s, &[zero]);
        b.store(part, &[block], v);
    });
    load(b, LaunchForm::Grid)
}

/// Emits `for i in l..n step 256`.
fn strided(b: &mut B, l: ExprId, n: ExprId, fill: impl FnOnce(&mut B, ExprId)) {
    let (label, i, step) = (b.label(), b.local("i", I32), b.i32(256));
    let body = b.in_block(|b| {
        let i = b.read(i);
        fill(b, i);
    });
    b.for_(label, i, IrForRange { start: l, end: n, step, inclusive: false }, Unroll::Auto, body);
}

pub fn reduce2() -> Kernel {
    let mut b = B::new("reduce2");
    let part = plain(&mut b, "part", Access::In, F32, 1);
    let out = plain(&mut b, "out", Access::Out, F32, 1);
    let s = shared(&mut b, "s", F32, &[256]);
    let l = b.id(BuiltinIndex::Thread, Axis::X);
    let zero = b.f32(0.0);
    let a = b.variable("a", zero);
    let n = b.extent(part, 0);
    strided(&mut b, l, n, |b, i| {
        let (old, v) = (b.read(a), b.load(part, &[i]));
        let new = add(b, old, v);
        b.write(a, new);
    });
    let v = b.read(a);
    b.store(s, &[l], v);
    barrier(&mut b);
    tree(&mut b, s, l, add);
    let first = is_first(&mut b, l);
    b.if_then(first, |b| {
        let zero = b.i32(0);
        let v = b.load(s, &[zero]);
        b.store(out, &[zero], v);
    });
    load(b, LaunchForm::Grid)
}

pub fn hist() -> Kernel {
    let mut b = B::new("hist");
    let d = plain(&mut b, "d", Access::In, Ty::Scalar(Scalar::U8), 1);
    let bins = plain(&mut b, "bins", Access::InOut, U32, 1);
    let h = shared(&mut b, "h", U32, &[256]);
    let (l, block) = (b.id(BuiltinIndex::Thread, Axis::X), b.id(BuiltinIndex::Block, Axis::X));
    let items = b.i32(4096);
    let base = mul(&mut b, block, items);
    let zero = b.constant(ScalarValue { ty: Scalar::U32, bits: 0 });
    let one = b.constant(ScalarValue { ty: Scalar::U32, bits: 1 });
    b.store(h, &[l], zero);
    barrier(&mut b);
    let (start, end, width) = (b.i32(0), b.i32(16), b.i32(256));
    b.for_range("i", start, end, |b, _, i| {
        let step = mul(b, i, width);
        let at = add(b, base, step);
        let at = add(b, at, l);
        let v = b.load(d, &[at]);
        let bin = b.convert(v, Scalar::I32);
        let place = Place { memory: h, indices: vec![bin], leaf: 0, component: None };
        b.atomic_unused(AtomicOp::Add, place, one, None);
    });
    barrier(&mut b);
    let count = b.load(h, &[l]);
    let place = Place { memory: bins, indices: vec![l], leaf: 0, component: None };
    b.atomic_unused(AtomicOp::Add, place, count, None);
    load(b, LaunchForm::Grid)
}

pub fn nbody() -> Kernel {
    let mut b = B::new("nbody");
    let v4 = Ty::Vector(Scalar::F32, 4);
    let (dt, eps2) = (b.value("dt", F32), b.value("eps2", F32));
    let (p, v) = (plain(&mut b, "p", Access::In, v4, 1), plain(&mut b, "v", Access::In, v4, 1));
    let (po, vo) = (plain(&mut b, "po", Access::Out, v4, 1), plain(&mut b, "vo", Access::Out, v4, 1));
    let tile = shared(&mut b, "tile", v4, &[256]);
    let (l, i) = (b.id(BuiltinIndex::Thread, Axis::X), b.id(BuiltinIndex::Global, Axis::X));
    let (me, vel) = (b.load(p, &[i]), b.load(v, &[i]));
    let mine: Vec<ExprId> = (0..3).map(|k| b.extract(me, k)).collect();
    let zero = b.f32(0.0);
    let acc: Vec<LocalId> = ["ax", "ay", "az"].map(|n| b.variable(n, zero)).into();
    let (label, t, step) = (b.label(), b.local("t", I32), b.i32(256));
    let (start, n) = (b.i32(0), b.extent(p, 0));
    let body = b.in_block(|b| {
        let t = b.read(t);
        let from = add(b, t, l);
        let other = b.load(p, &[from]);
        b.store(tile, &[l], other);
        barrier(b);
        let (zero, end) = (b.i32(0), b.i32(256));
        b.for_range("j", zero, end, |b, _, j| {
            let o = b.load(tile, &[j]);
            let d: Vec<ExprId> = (0..3)
                .map(|k| {
                    let c = b.extract(o, k);
                    sub(b, c, mine[k as usize])
                })
                .collect();
            let squares: Vec<ExprId> = d.iter().map(|&x| mul(b, x, x)).collect();
            let sum = add(b, squares[0], squares[1]);
            let sum = add(b, sum, squares[2]);
            let sum = add(b, sum, eps2);
            let r = b.math(MathFn::Rsqrt, &[sum]);
            let mass = b.extract(o, 3);
            let w = mul(b, mass, r);
            let w = mul(b, w, r);
            let w = mul(b, w, r);
            for k in 0..3 {
                let q = mul(b, d[k], w);
                let old = b.read(acc[k]);
                let new = add(b, old, q);
                b.write(acc[k], new);
            }
        });
        barrier(b);
    });
    b.for_(label, t, IrForRange { start, end: n, step, inclusive: false }, Unroll::Auto, body);
    let (mut nv, mut np) = (vec![], vec![]);
    for k in 0..3 {
        let (a, old) = (b.read(acc[k]), b.extract(vel, k as u8));
        let da = mul(&mut b, a, dt);
        let new = add(&mut b, old, da);
        let dp = mul(&mut b, new, dt);
        np.push(add(&mut b, mine[k], dp));
        nv.push(new);
    }
    nv.push(b.extract(vel, 3));
    np.push(b.extract(me, 3));
    let (nv, np) = (b.compose(&nv), b.compose(&np));
    b.store(vo, &[i], nv);
    b.store(po, &[i], np);
    load(b, LaunchForm::Grid)
}

pub fn softmax() -> Kernel {
    let mut b = B::new("softmax");
    let (x, y) = (plain(&mut b, "x", Access::In, F32, 2), plain(&mut b, "y", Access::Out, F32, 2));
    let s = shared(&mut b, "s", F32, &[256]);
    let (l, row) = (b.id(BuiltinIndex::Thread, Axis::X), b.id(BuiltinIndex::Block, Axis::X));
    let cols = b.extent(x, 1);
    let low = b.f32(f32::NEG_INFINITY);
    let m = b.variable("m", low);
    strided(&mut b, l, cols, |b, i| {
        let (old, v) = (b.read(m), b.load(x, &[row, i]));
        let new = b.math(MathFn::Max, &[old, v]);
        b.write(m, new);
    });
    let v = b.read(m);
    b.store(s, &[l], v);
    barrier(&mut b);
    tree(&mut b, s, l, |b, x, y| b.math(MathFn::Max, &[x, y]));
    let first = b.i32(0);
    let top = b.load(s, &[first]);
    barrier(&mut b);
    let zero = b.f32(0.0);
    let a = b.variable("a", zero);
    strided(&mut b, l, cols, |b, i| {
        let v = b.load(x, &[row, i]);
        let d = sub(b, v, top);
        let e = b.math(MathFn::Exp, &[d]);
        b.store(y, &[row, i], e);
        let old = b.read(a);
        let new = add(b, old, e);
        b.write(a, new);
    });
    let v = b.read(a);
    b.store(s, &[l], v);
    barrier(&mut b);
    tree(&mut b, s, l, add);
    let (one, sum) = (b.f32(1.0), b.load(s, &[first]));
    let r = b.binary(BinOp::Div, one, sum);
    strided(&mut b, l, cols, |b, i| {
        let v = b.load(y, &[row, i]);
        let v = mul(b, v, r);
        b.store(y, &[row, i], v);
    });
    load(b, LaunchForm::Grid)
}

pub fn jacobi() -> Kernel {
    let mut b = B::new("jacobi");
    let (a, out) = (plain(&mut b, "a", Access::In, F32, 2), plain(&mut b, "b", Access::InOut, F32, 2));
    let (y, x) = (b.index(0), b.index(1));
    let (h, w) = (b.extent(a, 0), b.extent(a, 1));
    let (zero, one) = (b.i32(0), b.i32(1));
    let (h1, w1) = (sub(&mut b, h, one), sub(&mut b, w, one));
    let conds = [
        b.binary(BinOp::Gt, x, zero),
        b.binary(BinOp::Gt, y, zero),
        b.binary(BinOp::Lt, x, w1),
        b.binary(BinOp::Lt, y, h1),
    ];
    let mut all = conds[0];
    for c in &conds[1..] {
        all = b.binary(BinOp::And, all, *c);
    }
    b.if_then(all, |b| {
        let (up, down) = (sub(b, y, one), add(b, y, one));
        let (left, right) = (sub(b, x, one), add(b, x, one));
        let loads = [b.load(a, &[up, x]), b.load(a, &[down, x]), b.load(a, &[y, left]), b.load(a, &[y, right])];
        let mut sum = loads[0];
        for l in &loads[1..] {
            sum = add(b, sum, *l);
        }
        let quarter = b.f32(0.25);
        let v = mul(b, quarter, sum);
        b.store(out, &[y, x], v);
    });
    load(b, LaunchForm::Threads { rank: 2 })
}

pub fn empty() -> Kernel {
    let mut b = B::new("empty");
    plain(&mut b, "p", Access::InOut, I32, 1);
    load(b, LaunchForm::Grid)
}

// Arguments

pub fn bytes<T: bytemuck::Pod>(data: &mut [T]) -> &mut [u8] {
    bytemuck::cast_slice_mut(data)
}

pub fn read<'a, T: bytemuck::Pod>(data: &'a [T], shape: &[usize]) -> Arg<'a> {
    Arg::Read { bytes: bytemuck::cast_slice(data), shape: shape.iter().map(|&n| n as u32).collect() }
}

pub fn write<'a, T: bytemuck::Pod>(data: &'a mut [T], shape: &[usize]) -> Arg<'a> {
    Arg::Write { bytes: bytes(data), shape: shape.iter().map(|&n| n as u32).collect() }
}

pub fn float(x: f32) -> Arg<'static> {
    Arg::Value(vec![ScalarValue { ty: Scalar::F32, bits: x.to_bits().into() }])
}

pub fn int(x: i32) -> Arg<'static> {
    Arg::Value(vec![ScalarValue { ty: Scalar::I32, bits: (x as u32).into() }])
}

pub fn grid(blocks: [usize; 2], block: [usize; 2]) -> LaunchExtents {
    let three = |n: [usize; 2]| [n[0] as u32, n[1] as u32, 1];
    LaunchExtents::Grid { grid: three(blocks), block: three(block) }
}

/// Runs the kernel with the best instruction set.
pub fn run_best(kernel: &Kernel, extents: LaunchExtents, args: &mut [Arg<'_>], workers: usize) {
    let control = Control { workers, ..Control::default() };
    kernel.0.last().expect("an instruction set").launch(&extents.into(), args, &control).expect("no fault");
}

/// Runs the kernel with each instruction set, from the same arrays, and checks that the results are bitwise equal.
pub fn run(kernel: &Kernel, extents: LaunchExtents, args: &mut [Arg<'_>], workers: usize) {
    let begin = written(args);
    run_best(kernel, extents, args, workers);
    let best = written(args);
    let control = Control { workers, ..Control::default() };
    for other in kernel.0.iter().rev().skip(1) {
        restore(args, &begin);
        other.launch(&extents.into(), args, &control).expect("no fault");
        assert!(written(args) == best, "instruction sets differ");
    }
}

/// Copies the arrays that may be written.
fn written(args: &[Arg<'_>]) -> Vec<Vec<u8>> {
    let of = |arg: &Arg<'_>| if let Arg::Write { bytes, .. } = arg { bytes.to_vec() } else { vec![] };
    args.iter().map(of).collect()
}

fn restore(args: &mut [Arg<'_>], saved: &[Vec<u8>]) {
    for (arg, saved) in args.iter_mut().zip(saved) {
        if let Arg::Write { bytes, .. } = arg {
            bytes.copy_from_slice(saved);
        }
    }
}

//! Test kernels that consist of one region each.

pub(crate) const ALL: [(&str, &str); 18] = [
    ("saxpy", SAXPY),
    ("stencil", STENCIL),
    ("matmul", MATMUL),
    ("mandelbrot", MANDELBROT),
    ("odd", ODD),
    ("nested", NESTED),
    ("wide", WIDE),
    ("bools", BOOLS),
    ("gather", GATHER),
    ("ragged", RAGGED),
    ("leaving", LEAVING),
    ("uniform", UNIFORM),
    ("small", SMALL),
    ("vectors", VECTORS),
    ("unsigned", UNSIGNED),
    ("own", OWN),
    ("half", HALF),
    ("atomics", ATOMICS),
];

/// Atomics on elements of one thread and on shared elements, with and without results, under a condition, and in a
/// loop.
pub(super) const ATOMICS: &str = "
kernel atomics(n: i32, x: inout @x, y: inout @y, z: inout @z, w: inout @w) grid
fn atomics() {
    global 1 inout @x: i32[_]
    global 2 inout @y: u64[_]
    global 3 inout @z: f32[_]
    global 4 inout @w: f64[_]
    var $k: i32
    var $sum: i32
    %0: i32 = load @x[thread.x]
    %1: i32 = %0 & 15i32
    %2: i32 = atomic_add @x[thread.x], %1
    $sum = %2
    for '0 $k = 0i32 .. arg0 step 1i32 {
        %3: i32 = read $k
        %4: u64 = convert %3
        %5: bool = %3 < %1
        if %5 {
            atomic_max @y[%1], %4
        }
        %6: i32 = atomic_compare_exchange @x[thread.x], %3 if %1
        %7: i32 = read $sum
        %8: i32 = %7 + %6
        $sum = %8
        atomic_xor @x[thread.x], %8
    }
    %9: f32 = convert %1
    %10: f32 = atomic_sub @z[thread.x], %9
    %13: f64 = convert %10
    atomic_min @w[3i32], %13
    %11: i32 = read $sum
    %12: i32 = atomic_exchange @x[thread.x], %11
    store @x[thread.x] = %12
}
";

/// Operations on 16-bit floats.
pub(super) const HALF: &str = "
kernel half(n: i32, x: in @x, y: inout @y, b: inout @b) grid
fn half() {
    global 1 in @x: f16[_]
    global 2 inout @y: f16[_]
    global 3 inout @b: bf16[_]
    local @h: f16[4]
    var $sum: f16
    var $k: i32
    declare @h
    %0: i32 = thread.x & 3i32
    $sum = 0.5f16
    for '0 $k = 0i32 .. arg0 step 1i32 {
        %1: i32 = read $k
        %2: f16 = load @x[%1]
        %3: f16 = load @x[thread.x]
        %4: f16 = %2 * %3
        %5: f16 = read $sum
        %6: f16 = %4 + %5
        store @h[%0] = %6
        %7: bool = %6 > 3.5f16
        if %7 {
            %8: f16 = load @h[2i32]
            %9: f16 = max(%8, %6)
            %10: f16 = neg %9
            $sum = %10
        } else {
            $sum = %6
        }
    }
    %11: f16 = read $sum
    store @y[thread.x] = %11
    %12: bf16 = convert %11
    %13: bf16 = load @b[thread.x]
    %14: bf16 = %12 / %13
    %15: i32 = thread.x * 16777259i32
    %16: bf16 = convert %15
    %17: bf16 = %14 - %16
    store @b[thread.x] = %17
}
";

/// Small and large local arrays, declared at the start or in a loop, and accessed at constant, uniform and varying
/// indices.
pub(super) const OWN: &str = "
kernel own(n: i32, x: in @x, y: inout @y) grid
fn own() {
    global 1 in @x: i32[_]
    global 2 inout @y: i32[_]
    local @h: i32[8]
    local @p: {a: u8 at 0, d: i64 at 8; size 16; align 8}[3, 20]
    local @inner: f32[2]
    var $k: i32
    var $j: i32
    var $sum: i32
    declare @h
    declare @p
    for '0 $k = 0i32 .. 8i32 step 1i32 {
        %0: i32 = read $k
        %1: i32 = load @x[%0]
        %2: i32 = %1 + thread.x
        store @h[%0] = %2
    }
    %3: i32 = thread.x & 7i32
    %4: i32 = load @h[%3]
    %5: i32 = arg0 & 7i32
    %6: i32 = load @h[%5]
    %7: i32 = %4 ^ %6
    %8: i32 = %7 & 3i32
    %9: bool = %8 < 3i32
    if %9 {
        %10: u8 = convert %7
        store @p[%8, %3]:0 = %10
        %11: i64 = convert %7
        store @p[2i32, %5]:1 = %11
        store @p[%8, arg0]:1 = -3i64
    }
    $sum = 0i32
    for '1 $j = 0i32 .. arg0 step 1i32 {
        %12: i32 = read $j
        declare @inner
        %13: i32 = %4 >> %12
        %14: i32 = %13 & 1i32
        %15: f32 = convert %12
        store @inner[%14] = %15
        %16: f32 = load @inner[0i32]
        %17: f32 = load @inner[1i32]
        %18: f32 = fma(%16, 8.0f32, %17)
        %19: i32 = convert %18
        %20: i32 = read $sum
        %21: i32 = %20 * 3i32
        %22: i32 = %21 + %19
        $sum = %22
        store @h[%12] = %22
    }
    %23: u8 = load @p[1i32, %3]:0
    %24: i32 = convert %23
    %25: i64 = load @p[2i32, %3]:1
    %26: i32 = convert %25
    %27: i32 = load @h[2i32]
    %28: i32 = read $sum
    %29: i32 = %24 + %26
    %30: i32 = %27 ^ %28
    %31: i32 = %29 * 31i32
    %32: i32 = %30 + %31
    store @y[thread.x] = %32
}
";

pub(super) const SAXPY: &str = "
kernel saxpy(a: f32, x: in @x, y: inout @y) grid
fn saxpy() {
    global 1 in @x: f32[_]
    global 2 inout @y: f32[_]
    %0: i32 = block.x * block_dim.x
    %1: i32 = %0 + thread.x
    %2: bool = %1 < extent(@y, 0)
    if %2 {
        %3: f32 = load @x[%1]
        %4: f32 = load @y[%1]
        %5: f32 = fma(arg0, %3, %4)
        store @y[%1] = %5
    }
}
";

pub(super) const STENCIL: &str = "
kernel stencil(x: in @x, y: inout @y) grid
fn stencil() {
    global 0 in @x: f32[_, _]
    global 1 inout @y: f32[_, _]
    %0: i32 = thread.x - 1i32
    %1: i32 = thread.x + 1i32
    %2: i32 = thread.y - 1i32
    %3: i32 = thread.y + 1i32
    %4: bool = %0 >= 0i32
    %5: bool = %1 < extent(@x, 1)
    %6: bool = %2 >= 0i32
    %7: bool = %3 < extent(@x, 0)
    %8: bool = %4 & %5
    %9: bool = %6 & %7
    %10: bool = %8 & %9
    if %10 {
        %11: f32 = load @x[thread.y, thread.x]
        %12: f32 = load @x[thread.y, %0]
        %13: f32 = load @x[thread.y, %1]
        %14: f32 = load @x[%2, thread.x]
        %15: f32 = load @x[%3, thread.x]
        %16: f32 = %12 + %13
        %17: f32 = %14 + %15
        %18: f32 = %16 + %17
        %19: f32 = fma(-4.0f32, %11, %18)
        store @y[thread.y, thread.x] = %19
    } else {
        %20: bool = thread.y < 3i32
        if %20 {
            store @y[thread.y, thread.x] = 0.5f32
        }
    }
}
";

pub(super) const MATMUL: &str = "
kernel matmul(a: in @a, b: in @b, c: inout @c) grid
fn matmul() {
    global 0 in @a: f32[_, _]
    global 1 in @b: f32[_, _]
    global 2 inout @c: f32[_, _]
    var $k: i32
    var $sum: f32
    $sum = 0.0f32
    for '0 $k = 0i32 .. extent(@b, 0) step 1i32 {
        %0: i32 = read $k
        %1: f32 = load @a[thread.y, %0]
        %2: f32 = load @b[%0, thread.x]
        %3: f32 = read $sum
        %4: f32 = fma(%1, %2, %3)
        $sum = %4
    }
    %5: f32 = read $sum
    store @c[thread.y, thread.x] = %5
}
";

pub(super) const MANDELBROT: &str = "
kernel mandelbrot(most: i32, counts: inout @counts) grid
fn mandelbrot() {
    global 1 inout @counts: i32[_, _]
    var $k: i32
    var $x: f32
    var $y: f32
    var $count: i32
    %0: f32 = convert thread.x
    %1: f32 = convert thread.y
    %2: f32 = fma(%0, 0.1f32, -2.0f32)
    %3: f32 = fma(%1, 0.25f32, -1.0f32)
    $x = 0.0f32
    $y = 0.0f32
    $count = 0i32
    for '0 $k = 0i32 .. arg0 step 1i32 {
        %4: f32 = read $x
        %5: f32 = read $y
        %6: f32 = %4 * %4
        %7: f32 = %5 * %5
        %8: f32 = %6 + %7
        %9: bool = %8 > 4.0f32
        if %9 {
            break '0
        }
        %10: f32 = %6 - %7
        %11: f32 = %10 + %2
        %12: f32 = %4 * %5
        %13: f32 = fma(2.0f32, %12, %3)
        $x = %11
        $y = %13
        %14: i32 = read $count
        %15: i32 = %14 + 1i32
        $count = %15
    }
    %16: i32 = read $count
    store @counts[thread.y, thread.x] = %16
}
";

/// A divergent `continue` and a uniform `continue`, followed by a `break`.
pub(super) const ODD: &str = "
kernel odd(n: i32, x: in @x, y: inout @y) grid
fn odd() {
    global 1 in @x: i32[_]
    global 2 inout @y: i32[_]
    var $k: i32
    var $sum: i32
    $sum = 0i32
    for '0 $k = 1i32 ..= arg0 step 2i32 {
        %0: i32 = read $k
        %1: i32 = %0 + thread.x
        %2: i32 = %1 & 2i32
        %3: bool = %2 == 0i32
        if %3 {
            continue '0
        }
        %4: i32 = load @x[%1]
        %5: bool = %0 == 5i32
        if %5 {
            continue '0
        }
        %6: i32 = read $sum
        %7: i32 = %6 + %4
        $sum = %7
        %8: bool = %7 > 40i32
        if %8 {
            break '0
        }
    }
    %9: i32 = read $sum
    store @y[thread.x] = %9
}
";

/// Bounds checks in three nested loops, with an index that depends on three counters, and in a loop that may run zero
/// times.
pub(super) const NESTED: &str = "
kernel nested(n: i32, x: in @x, y: inout @y) grid
fn nested() {
    global 1 in @x: i32[_]
    global 2 inout @y: i32[_]
    var $i: i32
    var $j: i32
    var $k: i32
    var $sum: i32
    $sum = 0i32
    for '0 $i = 0i32 .. 2i32 step 1i32 {
        %0: i32 = read $i
        for '1 $j = 0i32 .. arg0 step 1i32 {
            %1: i32 = read $j
            %2: i32 = %0 * 3i32
            %3: i32 = %2 + %1
            for '2 $k = %1 .. 4i32 step 1i32 {
                %4: i32 = read $k
                %5: i32 = %3 + %4
                %6: i32 = load @x[%5]
                %7: i32 = %5 + thread.x
                %8: i32 = load @x[%7]
                %9: i32 = read $sum
                %10: i32 = %9 + %6
                %11: i32 = %10 + %8
                $sum = %11
            }
            %12: i32 = load @x[%3]
            %13: i32 = read $sum
            %14: i32 = %13 * %12
            $sum = %14
        }
    }
    %15: i32 = read $sum
    store @y[thread.x] = %15
}
";

pub(super) const WIDE: &str = "
kernel wide(a: f64, b: i64, x: in @x, y: inout @y, z: inout @z) grid
fn wide() {
    global 2 in @x: f64[_]
    global 3 inout @y: f64[_]
    global 4 inout @z: i64[_]
    var $best: f64
    %0: f64 = load @x[thread.x]
    $best = %0
    %1: f64 = fma(%0, arg0, 1.0f64)
    %2: bool = %1 < arg0
    if %2 {
        $best = %1
    }
    %3: f64 = read $best
    store @y[thread.x] = %3
    %4: i64 = convert thread.x
    %5: i64 = %4 + arg1
    %6: i64 = load @z[thread.x]
    %7: i64 = %5 ^ %6
    %8: i64 = load @z[39i32]
    %9: i64 = %8 / 3i64
    %10: i64 = %7 + %9
    store @z[thread.x] = %10
}
";

pub(super) const BOOLS: &str = "
kernel bools(flip: bool, x: in @x, y: inout @y) grid
fn bools() {
    global 1 in @x: bool[_]
    global 2 inout @y: bool[_]
    var $any: bool
    var $all: bool
    var $k: i32
    $any = false
    $all = arg0
    for '0 $k = 0i32 .. 3i32 step 1i32 {
        %0: i32 = read $k
        %1: i32 = %0 + thread.x
        %2: bool = load @x[%1]
        %3: bool = read $any
        %4: bool = %3 | %2
        $any = %4
        %5: bool = load @x[%0]
        %6: bool = read $all
        %7: bool = %6 == %5
        $all = %7
    }
    %8: bool = read $any
    %9: bool = read $all
    %10: bool = select %8, %9, arg0
    %11: bool = %10 != %8
    %12: bool = not %11
    if %9 {
        store @y[thread.x] = %12
    } else {
        store @y[thread.x] = %8
    }
}
";

/// Indices loaded from memory, a strided index, and a division that may fault.
pub(super) const GATHER: &str = "
kernel gather(n: i32, x: in @x, p: in @p, y: inout @y) grid
fn gather() {
    global 1 in @x: f32[_]
    global 2 in @p: i32[_]
    global 3 inout @y: f32[_, _]
    %0: i32 = load @p[thread.x]
    %1: f32 = load @x[%0]
    %2: i32 = thread.x * 2i32
    %3: f32 = load @x[%2]
    %4: i32 = 15i32 - thread.x
    %5: f32 = load @x[%4]
    %6: i32 = %0 / arg0
    %7: i32 = thread.x + 1i32
    %8: i32 = %0 % %7
    %9: f32 = convert %6
    %10: f32 = convert %8
    %11: f32 = fma(%9, %10, %1)
    %12: f32 = %11 + %3
    %13: f32 = %12 + %5
    store @y[thread.x, 2i32] = %13
    %14: bool = thread.x == 7i32
    if %14 {
        store @y[0i32, %0] = 2.0f32
    }
    %15: i32 = load @p[arg0]
    %16: f32 = load @x[%15]
    store @y[thread.x, 1i32] = %16
}
";

/// Loops whose ranges differ between lanes, counting up and down.
pub(super) const RAGGED: &str = "
kernel ragged(x: in @x, y: inout @y) grid
fn ragged() {
    global 0 in @x: i32[_]
    global 1 inout @y: i32[_]
    var $k: i32
    var $j: i32
    var $sum: i32
    %0: i32 = load @x[thread.x]
    $sum = 0i32
    for '0 $k = %0 .. thread.x step 2i32 {
        %1: i32 = read $k
        %2: i32 = load @x[%1]
        %3: i32 = read $sum
        %4: i32 = %3 + %2
        $sum = %4
        %5: bool = %4 > 20i32
        if %5 {
            break '0
        }
    }
    for '1 $j = thread.x ..= %0 step -3i32 {
        %6: i32 = read $j
        %7: i32 = %6 & 1i32
        %8: bool = %7 == 0i32
        if %8 {
            continue '1
        }
        %9: i32 = load @x[%6]
        %10: i32 = load @x[3i32]
        %11: i32 = read $sum
        %12: i32 = %11 - %9
        %13: i32 = %12 ^ %10
        $sum = %13
    }
    %14: i32 = read $sum
    store @y[thread.x] = %14
}
";

/// Jumps with which lanes leave two loops and a block at once.
pub(super) const LEAVING: &str = "
kernel leaving(n: i32, x: in @x, y: inout @y) grid
fn leaving() {
    global 1 in @x: i32[_]
    global 2 inout @y: i32[_]
    var $i: i32
    var $j: i32
    var $sum: i32
    $sum = 0i32
    block '0 {
        loop '1 {
            %0: i32 = read $sum
            %1: i32 = %0 + 1i32
            $sum = %1
            %16: bool = %1 > 60i32
            if %16 {
                break '1
            }
            for '2 $j = 0i32 .. arg0 step 1i32 {
                %2: i32 = read $j
                %3: i32 = %2 + thread.x
                %4: i32 = load @x[%3]
                %5: bool = %4 == 9i32
                if %5 {
                    break '0
                }
                %6: bool = %4 == 7i32
                if %6 {
                    break '1
                } else {
                    %7: bool = %4 == 5i32
                    if %7 {
                        continue '1
                    }
                }
                %8: i32 = read $sum
                %9: i32 = %8 + %4
                $sum = %9
                %10: bool = %2 == 3i32
                if %10 {
                    break '2
                }
            }
        }
        %13: i32 = read $sum
        %14: i32 = %13 + 1000i32
        $sum = %14
    }
    %15: i32 = read $sum
    store @y[thread.x] = %15
}
";

/// Uniform control flow: an `else`, a loop that all lanes leave at once, uniform floats, and integers converted from
/// uniform floats.
pub(super) const UNIFORM: &str = "
kernel uniform(a: f32, n: i32, m: u32, x: in @x, y: inout @y) grid
fn uniform() {
    global 3 in @x: f32[_]
    global 4 inout @y: f32[_]
    var $i: i32
    var $s: f32
    var $t: i32
    $s = arg0
    $t = 1i32
    loop '0 {
        %0: f32 = read $s
        %1: i32 = read $t
        %18: f32 = load @x[%1]
        %2: f32 = max(%18, 0.5f32)
        %3: f32 = %0 + %2
        $s = %3
        %4: bool = %3 > 10.0f32
        if %4 {
            break '0
        }
        %5: i32 = convert %3
        %6: i32 = max(%5, 0i32)
        %7: i32 = min(%6, 7i32)
        $t = %7
        %8: bool = %1 == arg1
        if %8 {
            $s = 20.0f32
        } else {
            %9: f32 = read $s
            %10: f32 = %9 * 1.5f32
            $s = %10
        }
    }
    %11: f32 = read $s
    %12: f32 = sqrt(%11)
    %13: u32 = arg2 >> 1u32
    %14: i32 = convert %13
    %15: i32 = %14 + thread.x
    %16: f32 = load @x[%15]
    %17: f32 = %12 * %16
    store @y[thread.x] = %17
}
";

pub(super) const SMALL: &str = "
kernel small(x: in @x, y: inout @y, z: inout @z) grid
fn small() {
    global 0 in @x: u8[_]
    global 1 inout @y: i16[_]
    global 2 inout @z: u32[_]
    %0: u8 = load @x[thread.x]
    %1: u32 = convert %0
    %2: u32 = %1 * 77u32
    %3: i16 = convert %2
    store @y[thread.x] = %3
    %4: u32 = %2 << 3u32
    %5: u32 = %4 >> %1
    %6: u32 = %5 / 8u32
    %7: u32 = load @z[thread.x]
    %8: u32 = %7 % 16u32
    %9: u32 = %6 | %8
    store @z[thread.x] = %9
}
";

/// A simultaneous swap of vector components.
pub(super) const VECTORS: &str = "
kernel vectors(n: i32, x: inout @x) grid
fn vectors() {
    global 1 inout @x: f32x2[_]
    var $p: f32x2
    var $k: i32
    %0: f32x2 = load @x[thread.x]
    $p = %0
    for '0 $k = 0i32 .. arg0 step 1i32 {
        %1: f32x2 = read $p
        %2: f32 = extract %1, 1
        %3: f32 = extract %1, 0
        %4: bool = %2 < 3.0f32
        if %4 {
            %5: f32 = %3 + 1.0f32
            %6: f32x2 = compose %2, %5
            $p = %6
        }
    }
    %7: f32x2 = read $p
    store @x[thread.x] = %7
}
";

pub(super) const UNSIGNED: &str = "
kernel unsigned(n: u32, x: in @x, y: inout @y) grid
fn unsigned() {
    global 1 in @x: u32[_]
    global 2 inout @y: u32[_]
    var $k: u32
    var $j: u32
    var $sum: u32
    $sum = 0u32
    for '0 $k = 1u32 .. 20u32 step 3u32 {
        %0: u32 = read $k
        %1: u32 = load @x[%0]
        %2: u32 = read $sum
        %3: u32 = %2 + %1
        $sum = %3
    }
    %4: u32 = load @x[thread.x]
    for '1 $j = 0u32 ..= %4 step 2u32 {
        %5: u32 = read $j
        %6: u32 = %5 - 1u32
        %7: bool = %6 > 4u32
        if %7 {
            %8: u32 = read $sum
            %9: u32 = %8 * 3u32
            $sum = %9
        }
    }
    %10: u32 = read $sum
    store @y[thread.x] = %10
}
";

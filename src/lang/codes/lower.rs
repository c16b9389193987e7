//! E0480 to E0499 and E0999: errors found when a kernel is compiled for particular compile-time arguments.

use super::Page;

pub(crate) static PAGES: &[Page] = &[
    Page {
        code: "E0480",
        title: "the size of a thread's array is not a constant",
        text: "Each thread has its own copy of a local array, in registers if possible, so its size must be known when the \
               kernel is compiled.\n\n\
               ```clk fails early\nkernel k(n: i32, out r: [f32; N]) threads(i: N) {\n    var t: [f32; n] = 0.0\n    r[i] = t[0]\n}\n\
               let r = k(4, N = 8)\n```\n\n\
               Use a constant or a const parameter:\n\n\
               ```clk\nkernel k<const T: i32 = 4>(out r: [f32; N]) threads(i: N) {\n    var t: [f32; T] = 0.0\n    t[i % T] = 1.0\n    r[i] = t[0]\n}\n\
               let r = k(N = 8)\n```\n",
    },
    Page {
        code: "E0481",
        title: "an array without elements",
        text: "An extent of an array in a kernel is at least 1, and fits its type.\n\n\
               ```clk fails\nkernel k<const T: i32 = 4>(out r: [f32; N]) threads(i: N) {\n    var t: [f32; T - 4] = 0.0\n    r[i] = 1.0\n}\n\
               let r = k(N = 8)\n```\n",
    },
    Page {
        code: "E0482",
        title: "an array too large for a thread, or for a constant",
        text: "A thread has at most 512 KiB of local memory, and is slow long before that. Let the threads of a block share \
               an array (`shared`), or pass one to the kernel. A constant array takes at most 512 KiB, too.\n\n\
               ```clk fails\nkernel k<const T: i32 = 1000000>(out r: [f32; N]) threads(i: N) {\n    var t: [f32; T] = 0.0\n    r[i] = t[0]\n}\n\
               let r = k(N = 8)\n```\n",
    },
    Page {
        code: "E0483",
        title: "too much shared memory for a block",
        text: "A block has at most 227 KiB of shared memory, on many devices less.\n\n\
               ```clk fails\nkernel k<const T: i32 = 100000>(out r: [f32; N]) grid(1) block(32) {\n    shared t: [f32; T]\n    t[thread_idx.x] = 1.0\n    barrier()\n    if thread_idx.x < N { r[thread_idx.x] = t[0] }\n}\n\
               let r = k(N = 8)\n```\n",
    },
    Page {
        code: "E0484",
        title: "a constant index outside of an array",
        text: "The array's size and the index are both known, and the index is out of bounds.\n\n\
               ```clk fails\nkernel k<const T: i32 = 4>(out r: [f32; N]) threads(i: N) {\n    var t: [f32; 4] = 0.0\n    r[i] = t[T]\n}\n\
               let r = k(N = 8)\n```\n\n\
               Indices go from 0 to the extent minus one.\n",
    },
    Page {
        code: "E0485",
        title: "an integer divided by a constant zero",
        text: "```clk fails\nkernel k<const T: i32 = 0>(out r: [i32; N]) threads(i: N) { r[i] = i / T }\nlet r = k(N = 8)\n```\n\n\
               A branch of an `if` on constants that is not taken is not compiled, so it can guard the division:\n\n\
               ```clk\nkernel k<const T: i32 = 0>(out r: [i32; N]) threads(i: N) { r[i] = if T == 0 { 0 } else { i / T } }\nlet r = k(N = 8)\n```\n",
    },
    Page {
        code: "E0486",
        title: "a function that needs itself without end",
        text: "Functions are inlined into kernels, so they cannot be recursive, not even indirectly or with different \
               compile-time arguments in each call. Write a loop; if a stack is needed, use an array.\n",
    },
    Page {
        code: "E0487",
        title: "the size of a shared array is not known when a block starts",
        text: "A `shared` array is allocated before the threads of a block run. Its size can depend on constants, dimensions and \
               scalar parameters, but not on values computed by a thread.\n\n\
               ```clk fails early\nkernel k(out r: [f32; N]) grid(1) block(32) {\n    var n = 4\n    n += 4\n    shared t: [f32; n]\n    t[0] = 1.0\n    r[0] = t[0]\n}\n\
               let r = k(N = 8)\n```\n",
    },
    Page {
        code: "E0488",
        title: "an atomic operation on a value of several parts",
        text: "Atomic operations work on one number. For a vector or struct, use a component or field: \
               `atomic_add(p[i].x, 1.0)`.\n",
    },
    Page {
        code: "E0489",
        title: "a constant that cannot be computed",
        text: "Constants consist of literals, other constants, const parameters, operators, pure builtins and calls of \
               functions, and their evaluation must terminate without a fault.\n",
    },
    Page {
        code: "E0490",
        title: "a kernel that becomes too large",
        text: "Functions are inlined into kernels, with a copy for each call. Functions that call each other several times, in \
               many levels, lead to a kernel of millions of operations, which cannot be compiled in reasonable time.\n\n\
               ```clk fails\nfn a(x: f32) -> f32 { sin(x) + 1.0 }\nfn b(x: f32) -> f32 { a(x) + a(x) + a(x) + a(x) + a(x) + a(x) + a(x) + a(x) }\nfn c(x: f32) -> f32 { b(x) + b(x) + b(x) + b(x) + b(x) + b(x) + b(x) + b(x) }\nfn d(x: f32) -> f32 { c(x) + c(x) + c(x) + c(x) + c(x) + c(x) + c(x) + c(x) }\nfn e(x: f32) -> f32 { d(x) + d(x) + d(x) + d(x) + d(x) + d(x) + d(x) + d(x) }\nfn f(x: f32) -> f32 { e(x) + e(x) + e(x) + e(x) + e(x) + e(x) + e(x) + e(x) }\nfn g(x: f32) -> f32 { f(x) + f(x) + f(x) + f(x) + f(x) + f(x) + f(x) + f(x) }\nkernel k(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = g(x[i]) }\nlet y = k([1.0])\n```\n\nCompute what is needed several times once:\n\n\
               ```clk\nfn a(x: f32) -> f32 { sin(x) + 1.0 }\nfn b(x: f32) -> f32 { 8.0 * a(x) }\nfn c(x: f32) -> f32 { 8.0 * b(x) }\nkernel k(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = c(x[i]) }\nlet y = k([1.0])\n```\n",
    },
    Page {
        code: "E0491",
        title: "a derivative that is lost",
        text: "The gradient of a kernel is right, or the kernel is refused with the line that stands in the way. A derivative \
               does not pass through a conversion to an integer, the bits of a float, atomic operations other than sums, the \
               old value of an atomic operation or a read of what other threads' atomic operations change (both depend on the \
               order of the threads), and functions such as `lgamma` whose derivative Clk does not compute. Where several \
               threads may store at one place, one takes the derivative by an atomic exchange, so that there is no gradient of \
               a gradient: take `jvp` of it, let one thread store, or promise that indices are `distinct`.\n\n\
               `no_grad(x)` takes a value as a constant, if that is meant. Steps such as `floor` and `sign` have the derivative 0 \
               by convention, so `i32(floor(x))` needs no such word.

```clk fails
kernel levels(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[i] * f32(i32(x[i])) }
fn f(x: [f32; N]) -> f32 { sum(levels(x)) }
print(grad(f)([1.5, 2.5]))
```

```clk
kernel levels(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[i] * f32(i32(no_grad(x[i]))) }
fn f(x: [f32; N]) -> f32 { sum(levels(x)) }
assert(grad(f)([1.5, 2.5]) == [1.0, 2.0])
```
",
    },
    Page {
        code: "E0492",
        title: "a tile whose size is not known",
        text: "A tile has constant extents. A part of an array has them if its ends say so: `a[i..i + 64, k..k + 32]` has 64 rows and 32 \
               columns, wherever it begins. Beyond the edge of the array it is zero.

```clk fails
kernel twice(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, 64)) block(64) {
    let i = 64 * block_idx.x
    y[i..N] = 2.0 * x[i..N]
}
let y = twice([1.0, 2.0])
```

```clk
kernel twice(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, 64)) block(64) {
    let i = 64 * block_idx.x
    y[i..i + 64] = 2.0 * x[i..i + 64]
}
assert(twice([1.0, 2.0]) == [2.0, 4.0])
```
",
    },
    Page {
        code: "E0493",
        title: "an array that a kernel cannot compute as a whole",
        text: "The threads of a block compute expressions of whole arrays together, and only as the value of an assignment to a shared \
               array or to a part of an array. Such expressions have operators, conversions, mathematical functions, `select`, functions \
               of numbers, `sum`, `min`, `max`, `transpose`, `reshape`, `arange` and `mma`.

```clk fails
kernel twice(x: [f32x2; 8], out y: [f32x2; 8]) grid(1) block(8) {
    y[0..8] = x[0..8] + x[0..8]
}
let y = twice(zeros(8, type = f32x2))
```

```clk
kernel twice(x: [f32; 8, 2], out y: [f32; 8, 2]) grid(1) block(8) {
    y[0..8, ..] = x[0..8, ..] + x[0..8, ..]
}
assert(twice(ones(8, 2)) == full(8, 2, 2.0))
```
",
    },
    Page {
        code: "E0999",
        title: "an internal error of Clk",
        text: "Something that should be impossible happened inside the compiler. It is not an error in your program; please \
               report it with the source that causes it.\n",
    },
];

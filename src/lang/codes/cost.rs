//! The pages of what a profile advises.

use super::Page;

pub(crate) const PAGES: &[Page] = &[
    Page {
        code: "W0901",
        title: "a warp's elements lie apart in memory",
        text: "A GPU moves global memory in sectors of 32 bytes. The 32 threads of a warp access memory together: where their elements are \
adjacent, 32 floats are 4 sectors; where each lies in a sector of its own, 32 sectors are moved for the same 128 bytes. Warps are threads that are \
adjacent along the last index of `threads(…)`, and along x in blocks.

`clk profile` counts the sectors of each access. Where the launch has also been run with indices exchanged, moves less and gives the same, the \
advice has a fix, which `clk fix --profile` applies if the kernel is proved to give the same in any order of its threads. Otherwise, adjacent \
threads have to be given adjacent elements: by another layout, by sorted indices, or by way of a shared tile.

```clk fails profile
kernel double(x: [f32; N, M], out y: [f32; N, M]) threads(j: M, i: N) { y[i, j] = 2.0 * x[i, j] }
let _ = double(ones(64, 64));
```

```clk
kernel double(x: [f32; N, M], out y: [f32; N, M]) threads(i: N, j: M) { y[i, j] = 2.0 * x[i, j] }
let _ = double(ones(64, 64));
```
",
    },
    Page {
        code: "W0902",
        title: "bank conflicts in shared memory",
        text: "Shared memory has 32 banks of 4 bytes. In one pass each bank serves one word, to as many threads as want it. Threads of a warp that \
want different words of one bank are served one after the other: with rows of 32 floats, all elements of a column are in one bank, and reading a \
column takes 32 passes.

A row that is longer by one element puts them into different banks. The fix does that where all uses of the array are single elements.

```clk fails profile
kernel transposed(x: [f32; N, N], out y: [f32; N, N]) grid(N / 32, N / 32) block(32, 8) {
    shared tile: [f32; 32, 32]
    let (i, j, t) = (32 * block_idx.y, 32 * block_idx.x, thread_idx.x)
    for k in thread_idx.y..32 step 8 { tile[k, t] = x[i + k, j + t] }
    barrier()
    for k in thread_idx.y..32 step 8 { y[j + k, i + t] = tile[t, k] }
}
let _ = transposed(ones(64, 64));
```

```clk
kernel transposed(x: [f32; N, N], out y: [f32; N, N]) grid(N / 32, N / 32) block(32, 8) {
    shared tile: [f32; 32, 33]
    let (i, j, t) = (32 * block_idx.y, 32 * block_idx.x, thread_idx.x)
    for k in thread_idx.y..32 step 8 { tile[k, t] = x[i + k, j + t] }
    barrier()
    for k in thread_idx.y..32 step 8 { y[j + k, i + t] = tile[t, k] }
}
let _ = transposed(ones(64, 64));
```
",
    },
    Page {
        code: "W0903",
        title: "blocks that leave a GPU without work",
        text: "A block's threads are divided into warps of 32, and a multiprocessor holds a number of blocks, 32 at most. Blocks of 100 threads leave \
28 lanes of their last warp without work, and of blocks of 32 threads half of the threads that a multiprocessor could hold. Launches of few blocks \
leave multiprocessors without any. Blocks of 128 or 256 threads suit most kernels; kernels with `threads(…)` have them by themselves.

```clk fails profile
kernel double(x: [f32; N], out y: [f32; N]) grid(N / 32) block(32) { y[global_idx.x] = 2.0 * x[global_idx.x] }
let _ = double(ones(4096));
```

```clk
kernel double(x: [f32; N], out y: [f32; N]) grid(N / 128) block(128) { y[global_idx.x] = 2.0 * x[global_idx.x] }
let _ = double(ones(4096));
```
",
    },
    Page {
        code: "W0904",
        title: "threads of a warp go different ways",
        text: "A warp executes an instruction for all of its threads that are at it. Where they disagree about a condition, it executes both branches, \
one after the other, and in a loop it goes on until the last of its threads is done. The others wait. That costs nothing where whole warps agree, and little at \
the edge of an array.

```clk fails profile
kernel mixed(x: [f32; N], out y: [f32; N]) threads(i: N) {
    if i % 2 == 0 { y[i] = exp(x[i]) + sin(x[i]) } else { y[i] = log(1.0 + x[i]) * cos(x[i]) }
}
let _ = mixed(ones(2048));
```

```clk
kernel mixed(x: [f32; N], out y: [f32; N]) threads(i: N) {
    if i < N / 2 { y[i] = exp(x[i]) + sin(x[i]) } else { y[i] = log(1.0 + x[i]) * cos(x[i]) }
}
let _ = mixed(ones(2048));
```
",
    },
    Page {
        code: "W0905",
        title: "many threads update one element",
        text: "Atomic operations of several threads on one element are done one after the other. If each of a million threads adds its number to one \
sum, that takes a million steps, wherever the sum lies. Let a warp add up first (`warp_reduce_add`), then a block in a shared array, and update the sum once a block; \
or call `sum`, or `std.reduce`.

```clk fails profile
kernel total(x: [i32; N], inout sum: [i32; 1]) threads(i: N) { atomic_add(sum[0], x[i]) }
var all = [0]
total(ones(2048, type = i32), all)
```

```clk
kernel total(x: [i32; N], inout sum: [i32; 1]) grid(N / 256) block(256) {
    let part = warp_reduce_add(x[global_idx.x])
    if lane_idx == 0 { atomic_add(sum[0], part) }
}
var all = [0]
total(ones(2048, type = i32), all)
```
",
    },
    Page {
        code: "W0906",
        title: "a thread accesses the same element again and again",
        text: "A loop that reads and writes an element of an array in each iteration makes a request to memory for each, if it accesses other elements of the \
array as well: these might be the same one, as far as a compiler knows. In a variable, the number stays in a register. (Where a loop accesses no other elements of the array, \
compilers of GPU code do that by themselves.)

```clk fails profile
kernel sums(inout y: [f32; K, N]) threads(i: N) {
    for k in 1..K { y[0, i] += y[k, i] }
}
var y = ones(64, 1024)
sums(y)
```

```clk
kernel sums(inout y: [f32; K, N]) threads(i: N) {
    var sum = y[0, i]
    for k in 1..K { sum += y[k, i] }
    y[0, i] = sum
}
var y = ones(64, 1024)
sums(y)
```
",
    },
    Page {
        code: "W0907",
        title: "a product of matrices is written as a loop",
        text: "Each thread reads a row and a column, so that each element is loaded as often as the other factor has columns or rows: two loads for each \
multiplication, where a product in tiles has one for a hundred. A GPU is kept busy by the loads: on an H200 such a kernel reaches 6 TFLOP/s, and \
`linalg.matmul` 43. `a @ b` is the same in scripts, and kernels multiply tiles with `mma`.

```clk fails profile
kernel naive_product(a: [f32; N, K], b: [f32; K, M], out c: [f32; N, M]) threads(i: N, j: M) {
    var sum = 0.0
    for k in 0..K { sum += a[i, k] * b[k, j] }
    c[i, j] = sum
}
naive_product(ones(32, 32), ones(32, 32));
```

```clk
let c = ones(32, 32) @ ones(32, 32)
assert(c[3, 4] == 32.0)
```
",
    },
    Page {
        code: "W0908",
        title: "registers or shared memory keep threads out",
        text: "A multiprocessor has 65,536 registers and some 100 to 228 KiB of shared memory, which its blocks divide. A kernel that needs much of either \
leaves room for few threads, and there is less to do while some of them wait for memory. Where the compiler runs out of registers it *spills*: \
values are kept in memory, and loaded again. What a kernel needs of registers is known only where NVRTC is found, which compiles it (`clk doctor`).

Unroll less, keep fewer values at a time, use smaller tiles, or larger blocks for the same tile.
",
    },
];

//! E061x and W06xx: findings of runs with checks (`clk run --check`, `clk test`, the session).

use super::Page;

pub(crate) static PAGES: &[Page] = &[
    Page {
        code: "E0610",
        title: "a data race",
        text: "Two threads access one element, one of them writes it without an atomic operation (or one reads it without, and the other \
uses an atomic operation other than `atomic_load`), and nothing orders the accesses: no `barrier()` for threads of a block, no \
`warp_barrier()` or warp operation for threads of a warp, no `grid_barrier()`, and no fence followed by an atomic operation for threads \
of different blocks. The result of the kernel then depends on timing. The check does not depend on the order in this run; it finds the \
race on every run.

A fence followed by an atomic operation orders threads only if the other thread observes it: its own atomic operation must read the value that the first one wrote, and that value must affect control flow or which elements are accessed. A counter that is never read orders nothing, nor does a compare-and-exchange whose result is ignored. Since such an order may depend on which block runs first, launches with fences are executed twice, with opposite orders of blocks; the race may have appeared in the second one.

```clk fails
kernel reverse(x: [f32; N], out y: [f32; N]) grid(N / 64) block(64) {
    shared s: [f32; 64]
    let t = thread_idx.x
    s[t] = x[global_idx.x]
    y[global_idx.x] = s[63 - t]
}
print(reverse(ones(128)))
```

```clk
kernel reverse(x: [f32; N], out y: [f32; N]) grid(N / 64) block(64) {
    shared s: [f32; 64]
    let t = thread_idx.x
    s[t] = x[global_idx.x]
    barrier()
    y[global_idx.x] = s[63 - t]
}
assert(reverse(ones(128)) == ones(128))
```

In a loop, what one iteration reads may be overwritten by the next: some threads are still in the one when others begin the other. Besides \
the barrier between writing and reading, one at the end of the loop's body is needed:

```clk fails
kernel sums(x: [f32; N], out y: [f32; 32]) grid(1) block(32) {
    shared s: [f32; 32]
    let t = thread_idx.x
    var sum = 0.0
    for k in 0..N step 32 {
        s[t] = if k + t < N { x[k + t] } else { 0.0 }
        barrier()
        sum += s[31 - t]
    }
    y[t] = sum
}
print(sums(ones(64)))
```

```clk
kernel sums(x: [f32; N], out y: [f32; 32]) grid(1) block(32) {
    shared s: [f32; 32]
    let t = thread_idx.x
    var sum = 0.0
    for k in 0..N step 32 {
        s[t] = if k + t < N { x[k + t] } else { 0.0 }
        barrier()
        sum += s[31 - t]
        barrier()
    }
    y[t] = sum
}
assert(sums(ones(64)) == full(32, 2.0))
```
",
    },
    Page {
        code: "E0611",
        title: "memory that nobody has written was read",
        text: "Shared and local arrays are uninitialized when a block or a thread starts, and so are the elements of \
an `out` array.

```clk fails
kernel sums(x: [i32; N], out y: [i32; 2]) grid(2) block(32) {
    shared total: i32
    atomic_add(total, x[global_idx.x])
    barrier()
    if thread_idx.x == 0 { y[block_idx.x] = total }
}
print(sums(ones(64, type = i32)))
```

```clk
kernel sums(x: [i32; N], out y: [i32; 2]) grid(2) block(32) {
    shared total: i32
    if thread_idx.x == 0 { total = 0 }
    barrier()
    atomic_add(total, x[global_idx.x])
    barrier()
    if thread_idx.x == 0 { y[block_idx.x] = total }
}
assert(sums(ones(64, type = i32)) == [32, 32])
```
",
    },
    Page {
        code: "E0612",
        title: "a signed result does not fit its type",
        text: "Signed `+`, `-`, `*`, `**`, `abs`, negation and division wrap if the result does not fit, which is rarely intended; a power with a \
negative exponent is a fraction, which an integer cannot represent. The same applies to `atomic_add` and `atomic_sub`, in the order of this \
run, and to the sum of all lanes in `warp_reduce_add`, independent of order. Unsigned types wrap by definition; use `wrapping_add` and \
similar functions for intended wrapping.

```clk fails
kernel next(x: [i32; N], out y: [i32; N]) threads(i: N) { y[i] = x[i] + 1 }
print(next([1, 2147483647]))
```

```clk
kernel next(x: [i32; N], out y: [i32; N]) threads(i: N) { y[i] = wrapping_add(x[i], 1) }
assert(next([1, 2147483647]) == [2, -2147483648])
```
",
    },
    Page {
        code: "E0613",
        title: "a shift by more than the width",
        text: "The amount of `<<` and `>>` is taken modulo the width of the shifted type, on the simulator and on GPUs: a shift of an `i32` by 32 \
changes nothing. A negative amount does not shift in the other direction.

```clk fails
kernel powers(out y: [u32; N]) threads(i: N) { y[i] = u32(1) << u32(i) }
print(powers(N = 40))
```

```clk
kernel powers(out y: [u32; N]) threads(i: N) { y[i] = if i < 32 { u32(1) << u32(i) } else { 0 } }
assert(powers(N = 40)[39] == 0)
```
",
    },
    Page {
        code: "E0614",
        title: "a float that fits no integer",
        text: "A float that is out of the range of the integer type it is converted to becomes the nearest value in range, and NaN becomes 0. If that \
is intended, write it with `clamp`.

```clk fails
kernel shade(x: [f32; N], out y: [u8; N]) threads(i: N) { y[i] = u8(255.0 * x[i]) }
print(shade([0.5, 1.5]))
```

```clk
kernel shade(x: [f32; N], out y: [u8; N]) threads(i: N) { y[i] = u8(clamp(255.0 * x[i], 0.0, 255.0)) }
assert(shade([0.5, 1.5]) == [127, 255])
```
",
    },
    Page {
        code: "E0615",
        title: "the first NaN or infinity",
        text: "With `--trap-nan` a kernel stops at the first operation that gives a NaN or an infinity from finite numbers, which is the origin \
of those that appear later.

```text
clk run --trap-nan model.clk
```
",
    },
    Page {
        code: "E0616",
        title: "a lane that the warp does not have",
        text: "`shuffle(v, lane)` returns the value of `v` in that lane, which must exist in the warp: 0 to 31, and fewer in the last warp of a \
block whose size is not a multiple of 32. `shuffle_xor(v, mask)` takes a mask from 0 to 31. A GPU takes the number modulo 32 and returns another \
lane's value. `shuffle_up` and `shuffle_down`, and `shuffle_xor` in a warp of fewer lanes, return the lane's own value if there is no such lane.

```clk fails
kernel next(x: [i32; N], out y: [i32; N]) grid(N / 32) block(32) {
    let i = global_idx.x
    y[i] = shuffle(x[i], lane_idx + 1)
}
print(next(arange(32)))
```

```clk
kernel next(x: [i32; N], out y: [i32; N]) grid(N / 32) block(32) {
    let i = global_idx.x
    y[i] = shuffle(x[i], (lane_idx + 1) % 32)
}
assert(next(arange(32))[31] == 0)
```
",
    },
    Page {
        code: "E0617",
        title: "a warp operation among other lanes than those that do it",
        text: "With `among = m` a warp operation is executed by the lanes in the mask `m`. Each lane that executes it must be in its mask, and all \
lanes in the mask must reach this operation, in the same iteration of the surrounding loops, with the same mask; lanes with other masks form \
separate groups. A GPU would wait for lanes that never arrive, or use undefined values.

Determine the mask before the branch. Inside the branch the set of active lanes is undefined: a GPU may run them together or one at a time.

```clk fails
kernel count(x: [i32; N], inout n: [i32; 1]) grid(N / 32) block(32) {
    if x[global_idx.x] > 0 {
        let m = ballot(true, among = 0xffff_ffffu32)
        if lane_idx == i32(ctz(m)) { atomic_add(n[0], i32(popcount(m))) }
    }
}
var n = [0]
count(arange(64), n)
```

```clk
kernel count(x: [i32; N], inout n: [i32; 1]) grid(N / 32) block(32) {
    let above = x[global_idx.x] > 0
    let m = ballot(above)
    if above && lane_idx == i32(ctz(m)) { atomic_add(n[0], i32(popcount(m))) }
}
var n = [0]
count(arange(64), n)
assert(n == [63])
```
",
    },
    Page {
        code: "E0618",
        title: "a kernel does not do what is expected of it",
        text: r#"
A kernel's `expect` clause names what has to hold for all sizes. `clk check` proves it, and here a run at small sizes shows that it
does not hold; the report of that run follows. `clk test` reports launches of tests for which it does not hold. Mend the kernel, or say with `assume` what its callers never do.

```clk fails check
kernel shift(x: [f32; N], out y: [f32; N]) threads(i: N)
    expect in_bounds
{
    y[i] = x[i + 1]
}
```

```clk
kernel shift(x: [f32; N], out y: [f32; N]) threads(i: N)
    expect in_bounds
{
    y[i] = if i + 1 < N { x[i + 1] } else { 0.0 }
}
```
"#,
    },
    Page {
        code: "W0601",
        title: "threads that write the same value to one place",
        text: "Nothing orders the writes, but since all of them write the same value, the result does not depend on the order. Let a single thread \
write it, or use an atomic operation. If another access to the place is unordered as well (a read, an atomic operation, a write of another \
value), the result depends on the order, and the report is E0610.

```clk fails
kernel any_negative(x: [f32; N], inout found: [i32; 1]) threads(i: N) {
    if x[i] < 0.0 { found[0] = 1 }
}
var found = [0]
any_negative([1.0, -2.0, -3.0], found)
```

```clk
kernel any_negative(x: [f32; N], inout found: [i32; 1]) threads(i: N) {
    if x[i] < 0.0 { atomic_max(found[0], 1) }
}
var found = [0]
any_negative([1.0, -2.0, -3.0], found)
assert(found == [1])
```
",
    },
    Page {
        code: "W0602",
        title: "elements of an `out` array that were not written",
        text: "The old content of an `out` array is lost, so every element must be written. If some are to keep their values, make the array \
`inout`.

```clk fails
kernel pairs(x: [f32; N], out y: [f32; N]) threads(i: N / 2) { y[i] = x[2 * i] + x[2 * i + 1] }
print(pairs(ones(8))[0])
```

```clk
kernel pairs(x: [f32; N], out y: [f32; N / 2]) threads(i: N / 2) { y[i] = x[2 * i] + x[2 * i + 1] }
assert(pairs(ones(8)) == [2.0, 2.0, 2.0, 2.0])
```
",
    },
    Page {
        code: "W0603",
        title: "what a launch of this size cannot show",
        text: "Checks cover all orders of the threads in a launch, but not blocks or warps that the launch does not have: a kernel that was \
checked with one block may have a race between two. `clk run --check` notes this, once for each kernel, under these conditions:

- the launch has one block, or blocks of at most 32 threads, and the kernel's signature does not require that;
- between blocks: the kernel stores to the same elements in each block, or to indices read from memory, or reads with other indices what \
it stores, or blocks communicate by `fence()` and atomic operations;
- between warps: the kernel uses warp operations or `warp_barrier()`, and shared memory that is written and read.

This is only a note: the program is not wrong because of it. `clk test` and sessions do not report it, and it does not apply to `threads` \
kernels, whose indices are all concurrent.

```clk fails
kernel copy(x: [i32; N], inout last: [i32; 64]) grid(N / 64) block(64) { last[thread_idx.x] = x[global_idx.x] }
var last = zeros(64, type = i32)
copy(arange(64), last)
```

```clk
kernel copy(x: [i32; N], inout y: [i32; N]) grid(N / 64) block(64) { y[global_idx.x] = x[global_idx.x] }
var y = zeros(64, type = i32)
copy(arange(64), y)
assert(y[63] == 63)
```
",
    },
    Page {
        code: "W0604",
        title: "what two devices need not agree on",
        text: "`--device both` compares the results of a launch on the simulator and on the GPU. Two kinds of difference are permitted, and only noted:

- The result depends on the order of threads: positions in a queue assigned by `atomic_add`, or which thread takes a lock last. This is assumed if the \
kernel has atomic operations and the simulator gives another result with blocks, warps and lanes in one of four other orders. Such an array is not \
compared at all: `assert` what the program needs of it. All other arrays are compared.
- The kernel amplifies permitted errors: functions such as `exp` are accurate within some ULPs, and cancellation, a comparison or a long iteration can \
amplify the error. This is assumed if the simulator, with the results of such functions changed by 4 ULPs, differs by a similar amount: \
each element by at least an eighth, except for a few that differ by no more than others do.

The simulator's result is the one that is used. A difference explained by neither is an error (`E0623`).
",
    },
    Page {
        code: "W0605",
        title: "a result that depends on which thread comes first",
        text: "`clk prove` ran the kernel twice with the same arguments: with blocks and warps from first to last, and from last to first. Afterwards an array \
was not the same. On a GPU the order is another one in each run, so that the result may be another one in each run, too. That is not an error by itself; \
causes are

- a data race (`E0610`);
- the old values that atomic operations return: positions in a queue assigned by `atomic_add` depend on who comes first;
- `atomic_exchange`, `atomic_compare_exchange` and `atomic_store` of different values to one element: the last one stays;
- sums of floats by `atomic_add`, which are rounded in another order. Sums of integers are exact.

```clk fails proof
kernel sum(x: [f32; N], inout y: [f32; 1]) threads(i: N) { atomic_add(y[0], x[i]) }
```

A sum of integers does not depend on the order:

```clk
kernel sum(x: [f32; N], inout y: [i64; 1]) threads(i: N) { atomic_add(y[0], i64(x[i] * 65536.0)) }
var y = zeros(1, type = i64)
sum([0.5, 0.25], y)
assert(f32(y[0]) / 65536.0 == 0.75)
```
",
    },
    Page {
        code: "W0606",
        title: "what is expected of a kernel is not proved",
        text: r#"
`clk check` neither proves what the kernel's `expect` clause names nor finds sizes at which it does not hold. The label says where the
proof ends. Often an `assume` clause with what all callers have in common is missing, or a guard. `clk test` tests it with the launches that
tests make.

A proof of a kernel with compile-time parameters is about the arguments that the label names. Launches with others are reported if there
are more than eight different ones, or if the arguments are not known before the program runs: `K = ?` is handed on by a function that has
compile-time parameters itself. Arguments that matter are examined if a `test` launches the kernel with them; the warning remains.

```clk fails check
kernel bins(x: [f32; N], inout count: [i32; 8]) threads(i: N)
    expect in_bounds
{
    if x[i] >= 0.0 { atomic_add(count[min(i32(8.0 * x[i]), 7)], 1) }
}
```

Proofs do not follow floats. Here the lower bound can be stated at no cost:

```clk
kernel bins(x: [f32; N], inout count: [i32; 8]) threads(i: N)
    expect in_bounds
{
    if x[i] >= 0.0 { atomic_add(count[clamp(i32(8.0 * x[i]), 0, 7)], 1) }
}
```
"#,
    },
    Page {
        code: "W0607",
        title: "arrays that a full GPU has given to the host",
        text: "An array must be in the GPU's memory while a kernel uses it. Where there is no more memory for one, arrays that were used longest \
ago are moved to the host, and brought back when a kernel needs them. The results are the same, but each way takes a hundred times as long as \
a kernel takes to read the array. This is a note, once per run or session. Free arrays that are no longer needed (`x = zeros(0)`), \
or process the data in parts. If moving arrays is not enough, the launch is an error (`E0620`).
",
    },
    Page {
        code: "W0608",
        title: "threads of a warp that wait for each other in shared memory",
        text: r#"
A kernel expects `bank_ways <= K`, and an access takes more passes. Shared memory has 32 banks: the word of 4 bytes at address `a` is in bank `a / 4 % 32`. In
one pass each bank serves one word, to all threads of a warp that want it. Elements of 8 bytes are served to half a warp at a time, of 16 bytes to a
quarter; atomic operations on one word take a pass each.

Threads that go down a column of 32 floats want 32 words of one bank. Rows that are longer by an element move each row by a bank.

```clk fails check
kernel transpose(x: [f32; 32, 32], out y: [f32; 32, 32]) grid(1) block(32, 32)
    expect bank_ways <= 1
{
    shared tile: [f32; 32, 32]
    tile[thread_idx.y, thread_idx.x] = x[thread_idx.y, thread_idx.x]
    barrier()
    y[thread_idx.y, thread_idx.x] = tile[thread_idx.x, thread_idx.y]
}
```

```clk
kernel transpose(x: [f32; 32, 32], out y: [f32; 32, 32]) grid(1) block(32, 32)
    expect bank_ways <= 1
{
    shared tile: [f32; 32, 33]
    tile[thread_idx.y, thread_idx.x] = x[thread_idx.y, thread_idx.x]
    barrier()
    y[thread_idx.y, thread_idx.x] = tile[thread_idx.x, thread_idx.y]
}
```
"#,
    },
    Page {
        code: "W0609",
        title: "an access of a warp to many sectors of global memory",
        text: r#"
A kernel expects `sectors <= K`, and an access touches more. Global memory is moved in sectors of 32 bytes. 32 adjacent elements of 4 bytes are
in 4 sectors if the first one begins a sector, otherwise in 5; 32 elements of a column may be in 32 of them, of which each is moved for one element.

Arrays begin at a multiple of 256 bytes. Rows of `N` elements of 4 bytes begin a sector if `N` is a multiple of 8.

```clk fails check
kernel scale(x: [f32; M, N], out y: [f32; M, N]) threads(row: M, col: N)
    expect sectors <= 4
{
    y[row, col] = 2.0 * x[row, col]
}
```

```clk
kernel scale(x: [f32; M, N], out y: [f32; M, N]) threads(row: M, col: N)
    assume N % 8 == 0
    expect sectors <= 4
{
    y[row, col] = 2.0 * x[row, col]
}
```
"#,
    },
    Page {
        code: "W0610",
        title: "what is expected of a kernel is neither proved nor tested",
        text: r#"
`clk test` tests what a kernel's `expect` clause names and what is not proved, with the launches that tests make: each runs on the simulator first, on copies
of its arrays, with the checks and counts that it takes. No test has launched this kernel, or no launch came to its end. Launch it at a size that shows what is
expected.

```clk fails test
kernel gather(x: [f32; N], at: [i32; M], out y: [f32; M]) threads(i: M)
    assume all(at >= 0), all(at < N)
    expect sectors <= 8
{
    y[i] = x[at[i]]
}
```

```clk
kernel gather(x: [f32; N], at: [i32; M], out y: [f32; M]) threads(i: M)
    assume all(at >= 0), all(at < N)
    expect sectors <= 8
{
    y[i] = x[at[i]]
}

test "neighbors change places" {
    let at = arange(1000) ^ 1
    assert(gather(zeros(1000), at)[0] == 0.0)
}
```
"#,
    },
    Page {
        code: "W0611",
        title: "a fault of launches larger than those of the run",
        text: r#"
`clk run --check` finds every fault of the launches that it sees, and none of others. Where a kernel was only launched with one block, or with blocks of at
most 32 threads, although its signature allows more, the run ends with what `clk prove` does: it looks for a launch of any size that is out of bounds, has
a race, leaves threads at a barrier or overflows. Such a launch was run on the simulator before it is reported, with the sizes that the note names.
The program itself did nothing wrong, so that this is a warning. What is neither proved nor found is not reported, except for the hazards that
`W0603` lists.

Make the kernel right for these sizes, or state with `assume` which sizes it is made for.

```clk fails
kernel scale(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, 64)) block(64) { y[global_idx.x] = 2.0 * x[global_idx.x] }
print(scale(ones(64))[0])
```

```clk
kernel scale(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, 64)) block(64) {
    let i = global_idx.x
    if i < N { y[i] = 2.0 * x[i] }
}
print(scale(ones(64))[0])
```
"#,
    },
];

//! E061x and W06xx: findings of runs with checks (`clk run --check`, `clk test`, the session).

use super::Page;

pub(crate) static PAGES: &[Page] = &[
    Page {
        code: "E0610",
        title: "a data race",
        text: "Two threads touch one element, at least one of them writes it (or one uses an atomic operation and the other \
does not), and nothing orders them: no `barrier()` for threads of a block, no `warp_barrier()` or warp operation for threads of a \
warp, no `grid_barrier()`, and no fence with an atomic operation behind it for threads of different blocks. What the kernel computes \
then depends on luck. The check does not look at which came first in this run; it finds the race on every run.

A fence with an atomic operation behind it orders threads only where the other thread learns of it: its own atomic operation has to read what the first one changed, and what it reads has to decide where it goes or which elements it touches. A counter that nobody looks at orders nothing, nor does a compare-and-exchange whose result is ignored. Since such an order may depend on which block comes first, launches with fences are judged twice, in opposite orders of blocks; the race may be one of the second order.

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
",
    },
    Page {
        code: "E0611",
        title: "memory that nobody has written was read",
        text: "Shared and local arrays hold nothing in particular when a block or a thread begins, and neither do the elements of \
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
        text: "Signed `+`, `-`, `*`, `**`, `abs`, negation and division wrap when the result does not fit, which is seldom meant; a power with a \
negative exponent is a fraction, of which an integer keeps nothing. So do `atomic_add` and `atomic_sub`, in the order of this run, and \
`warp_reduce_add`, whose sum of all lanes is looked at, in no order. Unsigned types wrap by definition, and `wrapping_add` and its kin say \
that wrapping is meant.

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
        text: "The amount of `<<` and `>>` counts modulo the width of the shifted type, here and on GPUs: a shift of an `i32` by 32 shifts by \
nothing. A negative amount does not shift the other way.

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
        text: "A float that is converted to an integer type it does not fit becomes the nearest value that does, and NaN becomes 0. Where that \
is meant, `clamp` says so.

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
        text: "With `--trap-nan` a kernel stops at the first operation that makes a NaN or an infinity of finite numbers, which is where \
those that show up later come from.

```text
clk run --trap-nan model.clk
```
",
    },
    Page {
        code: "E0616",
        title: "a lane that the warp does not have",
        text: "`shuffle(v, lane)` takes the value of `v` in that lane, which has to be one of the warp's: 0 to 31, and fewer in the last warp of a \
block whose size is no multiple of 32. `shuffle_xor(v, mask)` takes a mask from 0 to 31. A GPU takes the number modulo 32 and goes on with some other \
lane's value. `shuffle_up` and `shuffle_down`, and `shuffle_xor` in a warp of fewer lanes, give the own value where there is no such lane.

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
        text: "With `among = m` a warp operation is done by the lanes whose bits `m` has. Each lane that comes has to be one of them, and all of \
them have to come, to this operation and in the same iteration of the loops around it, with the same mask; lanes with other masks form groups of \
their own. A GPU would wait for lanes that never come, or take values that nobody has given.

Which lanes go into a branch, they say before it. In it nobody knows who else is there: a GPU may run them together, or one by one.

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
        code: "W0601",
        title: "threads that write the same value to one place",
        text: "Nothing orders the writes, but as all of them write the same, the result does not depend on the order. One thread \
alone could do it, or an atomic operation.

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
        text: "What an `out` array held before is lost, so every element has to be written. If some are to stay as they are, the array \
is `inout`.

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
        text: "Checks judge all orders of the threads that a launch has. Of a second block, or a second warp, that it does not have they know \
nothing: a kernel that was checked with one block may have a race between two. `clk run --check` says so, once for each kernel, where all of this holds:

- the launch has one block, or blocks of at most 32 threads, and the kernel's signature does not fix that;
- between blocks: the kernel stores to the same elements in each block, or to elements that it finds in memory, or reads under other indices what \
it stores, or has blocks talk to each other by `fence()` and atomic operations;
- between warps: warp operations or `warp_barrier()` are there, and shared memory that is written and read.

It is a note: the program is not wrong because of it. `clk test` and the session do not say it, nor is it said of `threads` kernels, whose indices \
are all concurrent.

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
        text: "`--device both` compares what a launch leaves on the simulator and on the GPU. Two kinds of difference are permitted, and only noted:

- The result depends on which thread comes first: places in a queue that `atomic_add` hands out, who takes a lock last. It is believed where the kernel \
has atomic operations and the simulator itself leaves another array when blocks, warps and lanes come in the opposite order. Such an array is not \
compared at all: `assert` what the program needs of it. All other arrays are compared.
- The kernel amplifies permitted errors: functions like `exp` are exact within some ULPs, and a difference of nearly equal numbers, a comparison or a long \
iteration makes much of little. It is believed where the simulator itself, with the results of such functions moved by 4 ULPs, differs by about as much: \
each element by at least an eighth, but for a few that differ by no more than others do.

The simulator's result is the one that counts. A difference that neither explains is an error (`E0623`).
",
    },
];

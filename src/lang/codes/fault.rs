//! E06xx: faults of running kernels.

use super::Page;

pub(crate) static PAGES: &[Page] = &[
    Page {
        code: "E0601",
        title: "an index outside of its array",
        text: "A thread read or wrote an element out of bounds. The message names the array, the index, the thread, and \
how many other threads do the same at this line.

Usually a guard is missing: a grid consists of whole blocks, so its last block can reach past the end of an array.

```clk fails
kernel double(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, 256)) block(256) {
    let i = global_idx.x
    y[i] = 2.0 * x[i]
}
print(double(ones(1000)))
```

Guard the access, or let `threads` run exactly as many threads as there are elements:

```clk
kernel double(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, 256)) block(256) {
    let i = global_idx.x
    if i < N { y[i] = 2.0 * x[i] }
}
kernel twice(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = 2.0 * x[i] }
assert(double(ones(1000)) == twice(ones(1000)))
```

A shared array has one element for each thread of a block, not of the grid. Its index is the thread's number in the block:

```clk fails
kernel double(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, 64)) block(64) {
    shared s: [f32; 64]
    let i = global_idx.x
    if i < N { s[i] = x[i] }
    barrier()
    if i < N { y[i] = 2.0 * s[i] }
}
print(double(ones(100)))
```

```clk
kernel double(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, 64)) block(64) {
    shared s: [f32; 64]
    let (t, i) = (thread_idx.x, global_idx.x)
    if i < N { s[t] = x[i] }
    barrier()
    if i < N { y[i] = 2.0 * s[t] }
}
assert(double(ones(100)) == full(100, 2.0))
```

A negative index does not count from the end; the threads without such a neighbor need a guard of their own:

```clk fails
kernel left(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[i - 1] }
print(left(ones(4)))
```

```clk
kernel left(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = if i >= 1 { x[i - 1] } else { 0.0 } }
assert(left([1.0, 2.0, 3.0]) == [0.0, 1.0, 2.0])
```
",
    },
    Page {
        code: "E0602",
        title: "an integer was divided by zero",
        text: "Integer `/` and `%` are undefined for a divisor of zero. (Floats give an infinity or NaN.)

```clk fails
kernel share(n: i32, among: [i32; N], out each: [i32; N]) threads(i: N) { each[i] = n / among[i] }
print(share(12, [3, 0, 4]))
```

```clk
kernel share(n: i32, among: [i32; N], out each: [i32; N]) threads(i: N) {
    each[i] = if among[i] != 0 { n / among[i] } else { 0 }
}
assert(share(12, [3, 0, 4]) == [4, 0, 3])
```
",
    },
    Page {
        code: "E0603",
        title: "an assertion in a kernel failed",
        text: "`assert` in a kernel stops the launch if its condition is false, and reports the thread and the message.

```clk fails
kernel roots(x: [f32; N], out y: [f32; N]) threads(i: N) {
    assert(x[i] >= 0.0, \"x[{i}] is {x[i]}\")
    y[i] = sqrt(x[i])
}
print(roots([4.0, -1.0]))
```

```clk
kernel roots(x: [f32; N], out y: [f32; N]) threads(i: N) {
    assert(x[i] >= 0.0, \"x[{i}] is {x[i]}\")
    y[i] = sqrt(x[i])
}
assert(roots([4.0, 1.0]) == [2.0, 1.0])
```
",
    },
    Page {
        code: "E0604",
        title: "a barrier that not all threads reach",
        text: "A barrier waits for all threads of the block, and a warp operation for all lanes of the warp. Threads that took \
another branch, or returned, never reach it; on a GPU the kernel hangs or continues with wrong values.

```clk fails
kernel first_half(out y: [i32; 64]) grid(1) block(64) {
    shared s: [i32; 64]
    let t = thread_idx.x
    if t < 32 {
        s[t] = t
        barrier()
    }
    y[t] = s[t % 32]
}
print(first_half())
```

Make only the work depend on the thread, with the barrier outside of the branch:

```clk
kernel first_half(out y: [i32; 64]) grid(1) block(64) {
    shared s: [i32; 64]
    let t = thread_idx.x
    if t < 32 { s[t] = t }
    barrier()
    y[t] = s[t % 32]
}
assert(first_half()[40] == 8)
```

A `return` before the barrier is the same mistake. Put the work of the other threads into an `if` instead, so that all threads go on:

```clk fails
kernel last(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, 64)) block(64) {
    shared s: f32
    let i = global_idx.x
    if i >= N { return }
    if thread_idx.x == 0 { s = x[i] }
    barrier()
    y[i] = s
}
print(last(ones(100)))
```

```clk
kernel last(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, 64)) block(64) {
    shared s: f32
    let i = global_idx.x
    if thread_idx.x == 0 { s = x[i] }
    barrier()
    if i < N { y[i] = s }
}
assert(last(ones(100)) == ones(100))
```
",
    },
    Page {
        code: "E0605",
        title: "threads that wait for each other for ever",
        text: "A deadlock: every remaining thread waits for something that none of them can do any more. A thread may wait (by atomics) \
for blocks that started before its own, but not for later ones, unless the launch is cooperative; and never for a thread of its own warp.

If one thread takes two locks in one order and another in the opposite order, they deadlock when each has taken its first lock. Whether that happens depends on timing; the checks run such a launch a second time, in which threads that have taken a lock are interrupted by others.
",
    },
    Page {
        code: "E0606",
        title: "a kernel took more steps than allowed",
        text: "`--max-steps N` stops a kernel whose threads execute more than `N` loop iterations in total. Without it, an endless \
loop runs until Ctrl-C.

```clk fails
kernel wait(flag: [i32; 1], out done: [i32; N]) threads(i: N) {
    while flag[0] == 0 { }
    done[i] = 1
}
print(wait([0], N = 4))
```

```clk
kernel collatz(out steps: [i32; N]) threads(i: N) {
    var n = i + 1
    var count = 0
    while n != 1 {
        n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 }
        count += 1
    }
    steps[i] = count
}
assert(collatz(N = 27)[26] == 111)
```
",
    },
    Page {
        code: "E0607",
        title: "a kernel was interrupted",
        text: "Ctrl-C stopped the launch. Arrays that the kernel was writing keep what had been written so far.\n",
    },
    Page {
        code: "E0608",
        title: "a loop in steps of zero",
        text: "`for i in a..b step s` needs a nonzero step.

```clk fails
kernel every(s: i32, out n: [i32; 1]) threads(i: 1) {
    var count = 0
    for _ in 0..10 step s { count += 1 }
    n[i] = count
}
print(every(0))
```

```clk
kernel every(s: i32, out n: [i32; 1]) threads(i: 1) {
    var count = 0
    for _ in 0..10 step s { count += 1 }
    n[i] = count
}
assert(every(3) == [4])
```
",
    },
    Page {
        code: "E0609",
        title: "more shared memory than a block can have",
        text: "All `shared` arrays of a kernel together must fit into the shared memory of a block, 227 KiB. An extent that is computed
from arguments cannot be negative.

```clk fails
kernel large(n: i32, out y: [f32; 1]) grid(1) block(32) {
    shared s: [f32; n]
    s[thread_idx.x] = 1.0
    barrier()
    if thread_idx.x == 0 { y[0] = s[31] }
}
print(large(1000000))
```

```clk
kernel small(n: i32, out y: [f32; 1]) grid(1) block(32) {
    shared s: [f32; n]
    s[thread_idx.x] = 1.0
    barrier()
    if thread_idx.x == 0 { y[0] = s[31] }
}
assert(small(1000) == [1.0])
```
",
    },
    Page {
        code: "E0620",
        title: "the device's memory is full",
        text: "An array must be in the device's memory while a kernel uses it, and there is not enough free memory, given the other \
arrays and other programs. Nothing was lost: the script's arrays are unchanged. Free arrays that are no longer needed, or process \
the data in parts.
",
    },
    Page {
        code: "E0621",
        title: "a launch is larger than the device",
        text: "The arrays of one launch together exceed the device's memory, its grid has more blocks than the device \
supports, or a launch with `grid_barrier()` has more blocks than can run at the same time. Nothing was started.
",
    },
    Page {
        code: "E0622",
        title: "a device failed",
        text: "The driver refused a call, or a kernel failed in a way from which the GPU cannot recover: a hardware fault in a kernel \
without checks (`--unchecked`), or a problem of the machine. After most of these failures the GPU is unusable for this process, and the content of \
its memory is lost. `--device sim` runs the same program and reports faults at their lines.

With `--isolate`, and in sessions, kernels run in a separate process, and another process holds the arrays. There such a failure loses neither \
the session nor an array: the process is replaced, the launch is repeated on the simulator, and its fault is reported. What the kernel \
had written before it failed stays written. The simulator starts from the arrays as the kernel left them, so it may find nothing if the kernel \
changed its inputs.
",
    },
    Page {
        code: "E0623",
        title: "simulator and GPU do not agree",
        text: "`--device both` runs every launch on both devices and compares the results: bit for bit, unless the kernel calls functions \
whose results may differ by some ULPs or adds floats atomically. If they differ, the simulator repeats the launch in other orders of \
blocks and threads and with different roundings; a difference that it reproduces is not an error (`W0604`). A kernel with a data race may give \
a different result each time, on either device; otherwise this is a bug in Clk: please report it.

The report goes back to where the two part: the kernel runs once more on each device, with all that the thread computes which wrote the element recorded. The first \
operation with the same operands and another result is named; where that loads what another thread has stored, that thread is looked at next. Launches of more \
than some million steps, and kernels of tiles, are not followed. Where the difference is gone when values are recorded, it is said to be.
",
    },
];

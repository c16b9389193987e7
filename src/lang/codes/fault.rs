//! E06xx: faults of running kernels.

use super::Page;

pub(crate) static PAGES: &[Page] = &[
    Page {
        code: "E0601",
        title: "an index outside of its array",
        text: "A thread read or wrote an element that the array does not have. The message names the array, the index, the \
thread, and how many other threads do the same at this place.

Most often a guard is missing: a grid is made of whole blocks, so that its last block can reach past the end.

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
",
    },
    Page {
        code: "E0602",
        title: "an integer was divided by zero",
        text: "Integer `/` and `%` have no answer for a divisor of zero. (Floats do: an infinity or NaN.)

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
        text: "`assert` in a kernel stops the launch where its condition does not hold, with the thread and its message.

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
        text: "A barrier waits for all threads of the block, and a warp operation for all lanes of the warp. Threads that went \
another way, or returned, never come; on a GPU the kernel hangs or goes on with wrong values.

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

Only the work depends on the thread; the barrier stands outside:

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
",
    },
    Page {
        code: "E0605",
        title: "threads that wait for each other for ever",
        text: "Every thread that is left waits for something that none of them can do any more. A thread may wait (by atomics) \
for blocks that started before its own, never for later ones, unless the launch is cooperative; and never for a thread of its own warp.

Two locks that one thread takes in one order and another in the opposite order are such a wait, if each has got its first one. Whether that happens depends on luck; the checks run such a launch a second time, in which threads that have taken a lock are interrupted by others.
",
    },
    Page {
        code: "E0606",
        title: "a kernel took more steps than allowed",
        text: "`--max-steps N` stops a kernel whose threads take more than `N` turns of loops together. Without it a loop that \
never ends runs until Ctrl-C.

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
        text: "Ctrl-C stopped the launch. Arrays that the kernel was writing keep what had been written until then.\n",
    },
    Page {
        code: "E0608",
        title: "a loop in steps of zero",
        text: "`for i in a..b step s` needs a step that is not zero.

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
        text: "All `shared` arrays of a kernel together have to fit into the shared memory of a block, 227 KiB. An extent that is computed
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
        text: "An array has to be in the device's memory while a kernel works on it, and there is no room for it, with what other \
arrays hold and what other programs use. Nothing was lost: the script's arrays are as they were. Let go of arrays that are not needed any \
more, or work on a part at a time.
",
    },
    Page {
        code: "E0621",
        title: "a launch is larger than the device",
        text: "The arrays of one launch are together larger than the device's whole memory, its grid has more blocks than the device \
counts, or a launch with `grid_barrier()` has more blocks than run at the same time. Nothing was started.
",
    },
    Page {
        code: "E0622",
        title: "a device failed",
        text: "The driver refused a call or a kernel ended in a way that the GPU does not recover from: a hardware fault in a kernel \
without checks (`--unchecked`), or trouble with the machine. After most of these the GPU does nothing more for this process, and what was in its \
memory is lost. `--device sim` runs the same program and shows faults at their lines.

With `--isolate`, and in sessions, kernels run in a process of their own, and another one has the arrays. There such a failure costs neither \
the session nor an array: the process is replaced, the launch runs again on the simulator, and what that finds is the message. What a kernel \
had written until it failed stays written. The simulator works with the arrays as the kernel left them, so it may find nothing where the kernel changed what it \
read.
",
    },
    Page {
        code: "E0623",
        title: "simulator and GPU do not agree",
        text: "`--device both` runs every launch on both and compares what they wrote: bit for bit, unless the kernel calls functions \
whose result may differ by some ULPs or adds floats atomically. Where they differ, the simulator runs the launch again, in the opposite order of \
blocks and threads and with other roundings; what it then gives itself is no disagreement (`W0604`). A kernel with a data race may give \
another result each time, on either; otherwise this is a fault of Clk, worth a report.
",
    },
];

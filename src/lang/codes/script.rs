//! E051x to E059x: launching kernels and executing statements; files; and failures that are not errors in the program.

use super::Page;

pub(crate) static PAGES: &[Page] = &[
    Page {
        code: "E0510",
        title: "two arguments disagree about a dimension",
        text: r#"
A dimension has one value in a launch. The first array with its name determines it, and the others must agree. Here `N` is 3
for `x` and 4 for `y`:

```clk fails
kernel add(x: [f32; N], y: [f32; N], out r: [f32; N]) threads(i: N) { r[i] = x[i] + y[i] }
let x = zeros(parse(i32, "3"))
let y = zeros(parse(i32, "4"))
print(add(x, y))
```

If the lengths may differ, give them two names, and choose one for the geometry:

```clk
kernel add_first(x: [f32; N], y: [f32; M], out r: [f32; N]) threads(i: N) { r[i] = if i < M { x[i] + y[i] } else { x[i] } }
print(add_first(zeros(3), zeros(4)))
```
"#,
    },
    Page {
        code: "E0511",
        title: "an array has not the extent that the kernel asks for",
        text: r#"
A dimension of a parameter may be a number or an expression, as in `[f32; 4]` or `[f32; ceil_div(N, 256)]`. The argument must
have exactly that extent.

```clk fails
kernel norm(x: [f32; N, 3], out r: [f32; N]) threads(i: N) { r[i] = sqrt(x[i, 0] * x[i, 0] + x[i, 1] * x[i, 1]) }
let columns = parse(i32, "2")
print(norm(zeros(5, columns)))
```

```clk
kernel norm(x: [f32; N, 3], out r: [f32; N]) threads(i: N) { r[i] = sqrt(x[i, 0] * x[i, 0] + x[i, 1] * x[i, 1]) }
print(norm(zeros(5, 3)))
```
"#,
    },
    Page {
        code: "E0512",
        title: "an argument has not the type that is asked for",
        text: r#"
There are no implicit conversions, so an array of `f64` cannot be passed where `f32` is required. Most of these errors are reported
before the script runs; this one is about values whose type is known only at run time, such as those of `load`.

```clk fails
kernel twice(x: [f32; N], out r: [f32; N]) threads(i: N) { r[i] = 2.0 * x[i] }
save("numbers.npy", [1.0f64, 2.0f64])
print(twice(load("numbers.npy")))
```

Convert it where it is used:

```clk
kernel twice(x: [f32; N], out r: [f32; N]) threads(i: N) { r[i] = 2.0 * x[i] }
save("numbers.npy", [1.0f64, 2.0f64])
print(twice(f32(load("numbers.npy"))))
```
"#,
    },
    Page {
        code: "E0513",
        title: "a condition is not a `bool`",
        text: r#"
`if` and `while` need `true` or `false`; a number is neither, and an array of `bool` has many values.

```clk fails
save("flag.npy", [1, 2, 3])
let flag = load("flag.npy")
if flag[0] { print("set") }
```

Write an explicit comparison:

```clk
save("flag.npy", [1, 2, 3])
let flag = load("flag.npy")
if flag[0] != 0 { print("set") }
```
"#,
    },
    Page {
        code: "E0514",
        title: "an integer is needed here",
        text: r#"
Indices, dimensions and extents must be integers.

```clk fails
save("which.npy", [1.0])
let which = load("which.npy")
let names = [10, 20, 30]
print(names[which[0]])
```

```clk
save("which.npy", [1.0])
let which = load("which.npy")
let names = [10, 20, 30]
print(names[i32(which[0])])
```
"#,
    },
    Page {
        code: "E0515",
        title: "a variable is read before it has a value",
        text: r#"
A `var` may be declared without a value, but must get one before it is read. The same applies to a function that reads a
variable of the script before the line that sets it has run.

```clk fails
var total: f32
if len(args) > 5 { total = 1.0 }
print(total)
```

```clk
var total: f32 = 0.0
if len(args) > 5 { total = 1.0 }
print(total)
```
"#,
    },
    Page {
        code: "E0516",
        title: "a range goes in steps of zero",
        text: r#"
A range with a step of zero would never end.

```clk fails
let by = parse(i32, "0")
for i in 0..10 step by { print(i) }
```

```clk
let by = parse(i32, "5")
for i in 0..10 step by { print(i) }
```
"#,
    },
    Page {
        code: "E0517",
        title: "calls nest too deeply",
        text: r#"
On the host a function may call itself, but calls can be nested at most 10,000 deep, and less if each is inside of many nested
expressions.

```clk fails
fn down(n: i32) -> i32 { down(n + 1) }
print(down(0))
```

Usually the recursion never ends. If it is only very deep, use a loop instead:

```clk
fn down(n: i32) -> i32 {
    var i = n
    while i < 5000 { i += 1 }
    i
}
print(down(0))
```
"#,
    },
    Page {
        code: "E0518",
        title: "a compile-time parameter is not given and cannot be inferred",
        text: r#"
A parameter in angle brackets is inferred from the arguments, has a default, or is given by name. Usually this is reported before
the script runs; this message is for cases that are detected only at run time.

```clk fails early
kernel fill<const VALUE: i32>(out y: [i32; N]) threads(i: N) { y[i] = VALUE }
print(fill(N = 4))
```

```clk
kernel fill<const VALUE: i32>(out y: [i32; N]) threads(i: N) { y[i] = VALUE }
print(fill(N = 4, VALUE = 7))
```
"#,
    },
    Page {
        code: "E0519",
        title: "nothing says how large a dimension is",
        text: r#"
A dimension that only `out` arrays have is not determined by any argument, so the launch must give it. Usually this is reported before
the script runs; this message is for cases that are detected only at run time.

```clk fails early
kernel ramp(out y: [i32; N]) threads(i: N) { y[i] = i }
print(ramp())
```

```clk
kernel ramp(out y: [i32; N]) threads(i: N) { y[i] = i }
print(ramp(N = 4))
```
"#,
    },
    Page {
        code: "E0520",
        title: "a dimension is negative or too large",
        text: r#"
A dimension is at least 0 and at most 2147483647 (indices are `i32`).

```clk fails
kernel ramp(out y: [i32; N]) threads(i: N) { y[i] = i }
print(ramp(N = 3 - 5))
```

```clk
kernel ramp(out y: [i32; N]) threads(i: N) { y[i] = i }
print(ramp(N = 5 - 3))
```
"#,
    },
    Page {
        code: "E0521",
        title: "a block has no threads or too many",
        text: r#"
A block has 1 to 1024 threads, the product of its extents. This is the limit of the supported GPUs, and the simulator enforces
it, too.

```clk fails
kernel ramp(threads: i32, out y: [i32; N]) grid(ceil_div(N, threads)) block(threads) {
    if global_idx.x < N { y[global_idx.x] = global_idx.x }
}
print(ramp(4096, N = 10))
```

```clk
kernel ramp(threads: i32, out y: [i32; N]) grid(ceil_div(N, threads)) block(threads) {
    if global_idx.x < N { y[global_idx.x] = global_idx.x }
}
print(ramp(256, N = 10))
```
"#,
    },
    Page {
        code: "E0522",
        title: "an extent of a launch is out of range",
        text: r#"
The extents of `threads(…)` must be at least 0, those of `grid(…)` and `block(…)` at least 1, and none may exceed 2147483647.

```clk fails
kernel shifted(x: [i32; N], out y: [i32; N]) threads(i: N - 4) { y[i] = x[i + 4] }
print(shifted([1, 2]))
```

```clk
kernel shifted(x: [i32; N], out y: [i32; N]) threads(i: N) { y[i] = if i + 4 < N { x[i + 4] } else { 0 } }
print(shifted([1, 2]))
```
"#,
    },
    Page {
        code: "E0523",
        title: "a given grid does not cover the kernel's indices",
        text: r#"
`threads(i: N)` runs the body for every index. A launch with an explicit `<<<grid, block>>>` may have more threads than that (the
rest do nothing), but not fewer.

```clk fails
kernel ramp(x: [i32; N], out y: [i32; N]) threads(i: N) { y[i] = x[i] + i }
print(ramp<<<1, 32>>>(arange(100)))
```

```clk
kernel ramp(x: [i32; N], out y: [i32; N]) threads(i: N) { y[i] = x[i] + i }
print(ramp<<<4, 32>>>(arange(100)))
```
"#,
    },
    Page {
        code: "E0524",
        title: "a value is not what the type beside it says",
        text: r#"
The declared type of a variable, result, field or assignment target is enforced: element type, number of axes and extents. Errors that
can be detected earlier are reported before the script runs; the content of a file or the length of an array may be known only at run
time. An extent may be a number, an expression or a name; a new name is bound to the extent of the value, and `_` is any extent.

```clk fails
save("v.npy", [1.0, 2.0])
let v: [i32; 7] = load("v.npy")
```

```clk
save("v.npy", [1.0, 2.0])
let n = 1 + 1
let v: [f32; n] = load("v.npy")
let w: [f32; _] = load("v.npy")
assert(v == w)
```
"#,
    },
    Page {
        code: "E0525",
        title: "a launch for which an assumption of the kernel does not hold",
        text: r#"
A kernel says with `assume` what its launches have in common. Conditions on dimensions and scalar parameters are tested at every
launch, with exact integers; promises about arrays (`all(x < N)`, `ascending(x)`, `distinct(x)`, `permutation(x)`) in runs with
`--check`, because each takes a pass over the array, and on a GPU where accesses without guards rest on them, once for each version of an
array. Proofs by `clk prove` rest on both.

```clk fails
kernel lasts(x: [f32; N, M], out y: [f32; N]) threads(i: N)
    assume M > 0
{
    y[i] = x[i, M - 1]
}
print(lasts(zeros(3, 0)))
```

```clk
kernel lasts(x: [f32; N, M], out y: [f32; N]) threads(i: N)
    assume M > 0
{
    y[i] = x[i, M - 1]
}
print(lasts(zeros(3, 2)))
```
"#,
    },
    Page {
        code: "E0530",
        title: "an assertion does not hold",
        text: r#"
`assert(condition, "message")` stops the script (or fails the test) if the condition is false. For an array of `bool`, all elements
must be true, and the first one that is not is shown.

```clk fails
let x = [0.5, 1.5, 2.5]
assert(x < 2.0, "all below two")
```

```clk
let x = [0.5, 1.5, 2.5]
assert(x < 3.0, "all below three")
```

Floats that were computed in different ways are rarely equal; compare them with `close(a, b)`.
"#,
    },
    Page {
        code: "E0595",
        title: "there is no such device",
        text: r#"
`on gpu { … }` needs NVIDIA's driver, its compiler NVRTC and a GPU, `on gpu(i) { … }` the i-th GPU, counted from 0. `clk doctor`
lists what is found. The simulator can run every kernel.

```clk fails
on gpu(1000) { print(1) }
```

```clk
on sim { print(1) }
```
"#,
    },
    Page {
        code: "E0599",
        title: "the run was interrupted",
        text: r#"
Ctrl-C stopped the script at the location shown. In a session the variables are as they were before the entry. A second Ctrl-C
ends `clk run` itself; a session ends with the third. SIGTERM and SIGHUP stop a script in the same way, and end a session, too. Work
that cannot be interrupted, such as a library reading a file, is ended with the process. The exit codes are 130 after Ctrl-C, 143
after SIGTERM and 129 after SIGHUP.
"#,
    },
    Page {
        code: "E0701",
        title: "a file cannot be read",
        text: r#"
The file does not exist, is not readable, or is a folder. A path is relative to the folder in which `clk` was started. Only regular
files are read: reading a pipe could block forever, and a device such as `/dev/zero` never ends. Use `clk run -` to read a program
from a pipe.

```clk fails
let weights = load("nosuch/weights.npy")
```

```clk
save("weights.npy", [1.0, 2.0])
let weights = load("weights.npy")
```
"#,
    },
    Page {
        code: "E0702",
        title: "a file cannot be written",
        text: r#"
The folder does not exist or is not writable, or the file is read-only. A file is replaced completely or not at all: after this
message, an existing file is unchanged. A link that another user has put into a folder writable by others is not followed. `clk doc --html`
replaces only files that it has written itself: it lists them in the file `.clk-doc` of the folder.

```clk fails
save("nosuch/result.npy", [1.0, 2.0])
```

```clk
save("result.npy", [1.0, 2.0])
```
"#,
    },
    Page {
        code: "E0703",
        title: "a folder that is not a cache of Clk's",
        text: r#"
Compiled kernels are machine code, and `clk cache clean` removes files. The folder that `CLK_CACHE_DIR` names must therefore be
one that Clk has created, or an empty one that it has marked by a file `CACHEDIR.TAG`. A folder with other content, one of another
user and one that other users can write to are refused and left unchanged, including their modes. In its own folder, Clk only removes
what it has put there.

```sh
CLK_CACHE_DIR=~/.cache/clk-kernels clk run program.clk   # made if it does not exist
```
"#,
    },
    Page {
        code: "E0730",
        title: "a project's file that cannot be read",
        text: r#"
`clk.toml` has the name of a project and its dependencies, in TOML. All keys are known, so that a misspelled one is not ignored:

```toml
name = "waves"              # a name that can be imported
version = "1.0.0"           # for readers, like `description` and `license`

[dependencies]
shapes = { path = "../shapes" }
noise = { git = "https://example.org/noise.git", tag = "v1.0" }    # or `branch`, or `rev`, or none of them
```

`clk.lock` is written by `clk fetch`. If it was damaged, remove it and run that command again.
"#,
    },
    Page {
        code: "E0731",
        title: "a dependency that cannot be fetched",
        text: r#"
`clk fetch` runs the installed `git`, which must be able to clone the repository without asking for a password or about an unknown host. The
message ends with what `git` said. Addresses begin with `https://`, `ssh://` or `file://`, or are `user@host:path` or a path. If a commit
is pinned in `clk.lock`, the repository must contain that commit; a branch or tag that has its hash as a name does not count. A dependency with Git dependencies of its own must pin them: its repository must contain its `clk.lock`.
"#,
    },
    Page {
        code: "E0732",
        title: "a project that cannot be made",
        text: r#"
`clk new NAME` makes a folder, and refuses to write into an existing one that is not empty. The name of a project can be imported, so it
consists of lowercase letters, digits and `_`, begins with a letter, and is no keyword.
"#,
    },
    Page {
        code: "E0740",
        title: "devices, a halo or a granule that cannot be",
        text: r#"
`gpus(n)` gives the numbers of the first `n` devices, and there have to be as many. On the simulator there is one, unless `--device sim:4` asks for
four virtual ones. A halo is at least 0, a granule at least 1. A device may be named more than once; then it has several parts. There are at most 1024 parts.

```clk fails
let x = shard(zeros(8, 8), [0, 0], halo = -1)
```

```clk
let x = shard(zeros(8, 8), [0, 0], halo = 1)
```
"#,
    },
    Page {
        code: "E0741",
        title: "a launch on a sharded array in which an access leaves its part",
        text: r#"
A launch on a sharded array is cut into parts, which run on different devices. Each has its own rows of the array, and as many rows of its neighbors on
each side as `halo` says. So a part writes its own rows alone, and reads those that it has. That is proved, for the sizes of the launch, before
anything runs; an access of which it cannot be proved is an error. If a larger halo would do, the message says which one.

```clk fails
kernel blur(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = 0.5 * (x[max(i - 2, 0)] + x[i]) }

let y = blur(shard(random(64), [0, 0], halo = 1))
```

```clk
kernel blur(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = 0.5 * (x[max(i - 2, 0)] + x[i]) }

let y = blur(shard(random(64), [0, 0], halo = 2))
```

If each part needs all of an array, it is passed as one that is not sharded: `gather(x)` puts it together, and all devices get a copy.
"#,
    },
    Page {
        code: "E0742",
        title: "a launch on a sharded array that cannot be cut",
        text: r#"
A launch is cut along the coordinate (an index of `threads`, or the blocks along x, y or z) that an index along the cut axis depends on. The
message says what is in the way: no coordinate runs along that axis, an array that is not sharded is written, the order of atomic operations matters, the
kernel prints or waits at a barrier of the grid, or the launch has a geometry of its own.

```clk fails
kernel total(x: [f32; N], inout sum: [f32; 1]) threads(i: N) { atomic_add(sum[0], x[i]) }

var sum = zeros(1)
total(shard(random(64), [0, 0]), sum)
```

```clk
let x = shard(random(64), [0, 0])
print(sum(x))
```
"#,
    },
    Page {
        code: "E0743",
        title: "a block that stands on both sides of a cut",
        text: r#"
A block runs on one device, so the rows that it writes have to be in one part. Cuts lie at multiples of 64 rows where there are many, else they are even;
`granule` says otherwise.

```clk fails
kernel half(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, 32)) block(32) {
    if global_idx.x < N { y[global_idx.x] = 0.5 * x[global_idx.x] }
}

let y = half(shard(random(80), [0, 0]))
```

```clk
kernel half(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, 32)) block(32) {
    if global_idx.x < N { y[global_idx.x] = 0.5 * x[global_idx.x] }
}

let y = half(shard(random(80), [0, 0], granule = 32))
```
"#,
    },
];

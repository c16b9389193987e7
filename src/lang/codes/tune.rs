//! Kernels with a `tune` clause: E0417 and W0011 (the clause), E0526 and W0612 (files of choices), E0527 and E0619 (trials).

use super::Page;

/// The pages of this chapter.
pub static PAGES: &[Page] = &[
    Page {
        code: "E0417",
        title: "a choice that cannot be measured",
        text: r#"
`tune` lists the values that compile-time constants of a kernel may be given: `tune B in [64, 128]`. Each constant is an integer or a `bool` with a default, which is one of its values; the values are constants, all different. Conditions of constants in `assume` say which combinations are possible; the defaults have to meet them, and at most 512 may be listed. Results may not depend on the choice, so no extent in the signature does.

```clk fails
kernel scale<const B: i32 = 100>(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, B)) block(B)
    tune B in [64, 128]
{
    let i = global_idx.x
    if i < N { y[i] = 2.0 * x[i] }
}
```

```clk
kernel scale<const B: i32 = 128>(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, B)) block(B)
    tune B in [64, 128]
{
    let i = global_idx.x
    if i < N { y[i] = 2.0 * x[i] }
}
```
"#,
    },
    Page {
        code: "E0526",
        title: "a file of choices that cannot be read",
        text: r#"
The choices for kernels with a `tune` clause are in a file beside their source: `gemm.tune` beside `gemm.clk`. `clk tune` writes it, and launches take
what it says. This one is no such file, or is damaged, perhaps by a merge, in the line that the message names; or it cannot be opened. Nothing is taken
from it, and `clk tune` does not write over it.

Take the file out: launches then take the defaults, and `clk tune gemm.clk` measures anew. Or mend it; it looks like this:

```text
clk tunings 1

kernel transpose 7d9db5ebd78fbfc8
on sim
  for M 513..=1024, N 513..=1024
    choose B = 32, R = 4
```
"#,
    },
    Page {
        code: "E0527",
        title: "defaults that take too long to be measured",
        text: r#"
`clk tune` measures other choices of a kernel beside its defaults, and refuses those whose launch takes longer than the limit of `--timeout`, 10 seconds
if nothing else is said. Here the defaults do. Allow more (`clk tune --timeout 60 gemm.clk`), or measure a smaller launch.
"#,
    },
    Page {
        code: "E0619",
        title: "a result that depends on what is tuned",
        text: r#"
`clk test --tunings` runs each launch of a kernel with a `tune` clause with all choices, on copies of its arrays, and compares what they write, bit for bit,
with what the defaults write. Here a choice writes something else, or fails. Sums of floats depend on the order of the terms: let the order be the same with every choice,
or tune what does not change it.

```clk fails tunings
kernel sums<const B: i32 = 32>(x: [f32; N], out y: [f32; 1]) threads(i: 1)
    tune B in [32, 1000]
{
    var total = 0.0
    for from in 0..N step B {
        var part = 0.0
        for k in from..min(from + B, N) { part += x[k] }
        total += part
    }
    y[i] = total
}
test "sums" { assert(sums(full(1000, 0.1))[0] > 99.0) }
```

```clk
kernel sums<const B: i32 = 32>(x: [f32; N], out y: [f32; 1]) threads(i: 1)
    tune B in [32, 1000]
{
    var total = 0.0
    for from in 0..N step B {
        for k in from..min(from + B, N) { total += x[k] }
    }
    y[i] = total
}
test "sums" { assert(sums(full(1000, 0.1))[0] > 99.0) }
```
"#,
    },
    Page {
        code: "W0011",
        title: "a choice that makes no difference",
        text: r#"
A kernel tunes a constant that it does not use, or its lists and conditions leave one choice. There is nothing to measure.

```clk fails
kernel scale<const B: i32 = 64>(x: [f32; N], out y: [f32; N]) threads(i: N)
    tune B in [64, 128]
{
    y[i] = 2.0 * x[i]
}
```

```clk
kernel scale<const B: i32 = 64>(x: [f32; N], out y: [f32; N]) threads(i: N) block(B)
    tune B in [64, 128]
{
    y[i] = 2.0 * x[i]
}
```
"#,
    },
    Page {
        code: "W0612",
        title: "choices that are out of date",
        text: r#"
The file of choices beside a source has an entry for a kernel whose head has changed since: its parameters, its geometry, its conditions, or the values that it lists. The entry is not
taken, and launches take the defaults; `clk check` reports it without a launch. `clk tune` measures anew, and leaves out what is out of date; taking the lines out of the file also ends the warning.
"#,
    },
];

//! E05xx: operations on values and arrays. E071x: reading and writing files.

use super::Page;

/// The pages of this chapter, ordered by code.
pub(crate) static PAGES: &[Page] = &[
    Page {
        code: "E0501",
        title: "shapes that do not fit together",
        text: r#"
Operators on arrays apply elementwise. The shapes are aligned at their last axes; two extents fit if they are equal or if one of
them is 1, which is then broadcast. `@` needs the last extent of its left side to equal the first one of its right side, or the last but
one of a batch of matrices.

```clk fails
let n = parse(i32, "4")
print(zeros(2, 3) + zeros(n))
```

```clk
let n = parse(i32, "3")
print(zeros(2, 3) + zeros(n))
```
"#,
    },
    Page {
        code: "E0502",
        title: "an index or a slice outside its array",
        text: r#"
The elements of an axis of length n have the indices 0 to n - 1. Negative indices do not count from the end, as they do in
Python: write `x[len(x) - 1]`. The bounds of a slice must be within the array, too; an omitted bound is that of the array.

```clk fails
let x = [1, 2, 3]
let i = parse(i32, "3")
print(x[i])
```

```clk
let x = [1, 2, 3]
print(x[len(x) - 1], x[1..])
```
"#,
    },
    Page {
        code: "E0503",
        title: "a wrong number of axes",
        text: r#"
There are more indices than the array has axes, or the operation needs another number of axes: `cumsum` of several axes
needs to know along which, `@` needs at least one on each side.

```clk fails
save("x.npy", random(2, 3))
let x = load("x.npy")
print(cumsum(x))
```

```clk
save("x.npy", random(2, 3))
let x = load("x.npy")
print(cumsum(reshape(x, -1)))
```
"#,
    },
    Page {
        code: "E0504",
        title: "values of different types",
        text: r#"
There are no implicit conversions: both operands must have the same element type, and values written into an array must have its
type. Literals such as `1` and `0.5` take the required type if they can represent it. The content of a file is known only when it has
been read, so this error can occur at run time.

```clk fails
save("counts.npy", [1, 2, 3])
let counts = load("counts.npy")
print(counts + [0.5, 0.5, 0.5])
```

```clk
save("counts.npy", [1, 2, 3])
let counts = load("counts.npy")
print(f32(counts) + [0.5, 0.5, 0.5])
```
"#,
    },
    Page {
        code: "E0505",
        title: "an operation that a type does not have",
        text: r#"
The message names the operation and the types of its operands: `sqrt` is for floats, `!` for `bool` and integers, and so on.

```clk fails
save("counts.npy", [1, 4, 9])
print(sqrt(load("counts.npy")))
```

```clk
save("counts.npy", [1, 4, 9])
print(sqrt(f32(load("counts.npy"))))
```
"#,
    },
    Page {
        code: "E0506",
        title: "an integer division by zero",
        text: r#"
`/` and `%` of integers are undefined for a zero on the right. For an array, the first element that is 0 is shown. Division of
floats by zero is no error and gives an infinity or a NaN.

```clk fails
let parts = [2, 0, 1]
print(10 / parts)
```

```clk
let parts = [2, 0, 1]
print(10 / max(parts, 1))
```
"#,
    },
    Page {
        code: "E0507",
        title: "an axis that the array does not have",
        text: r#"
The axes of an array are numbered from 0, the outermost first. A negative number does not count from the end.

```clk fails
save("x.npy", random(2, 3))
let x = load("x.npy")
print(sum(x, axis = 2))
```

```clk
save("x.npy", random(2, 3))
let x = load("x.npy")
print(sum(x, axis = 1))
```
"#,
    },
    Page {
        code: "E0508",
        title: "a reshape that does not come out even",
        text: r#"
The new shape must have as many elements as the old one. One dimension may be -1: it is computed from the others.

```clk fails
let n = parse(i32, "4")
print(reshape(arange(10), n, -1))
```

```clk
print(reshape(arange(10), 5, -1))
```
"#,
    },
    Page {
        code: "E0509",
        title: "more memory than there is",
        text: r#"
The machine does not have enough memory, or an axis would be longer than 2147483647, the maximum of an index. Before a large
allocation, the available memory is queried (including limits of the system and of a container), so that the system does not kill the
process. If there is not even memory for small allocations, `clk` reports this code and ends with the exit code 70.

```clk fails
let n = parse(i32, "1048576")
print(sum(zeros(n, n, n)))
```

```clk
let n = parse(i32, "1024")
print(sum(zeros(n, n)))
```
"#,
    },
    Page {
        code: "E0540",
        title: "a step of zero",
        text: r#"
A slice or `arange` with a step of 0 would never end.

```clk fails
let step = parse(i32, "0")
print(arange(0, 10, step))
```

```clk
print(arange(0, 10, 2))
```
"#,
    },
    Page {
        code: "E0541",
        title: "an argument that a function cannot take",
        text: r#"
The type is right, but not the value: an axis of negative length, an empty interval, no arrays to join.

```clk fails
let n = parse(i32, "2")
print(zeros(n - 3))
```

```clk
let n = parse(i32, "2")
print(zeros(n + 3))
```
"#,
    },
    Page {
        code: "E0542",
        title: "the smallest of nothing",
        text: r#"
`min`, `max`, `mean`, `argmin` and `argmax` are undefined for an array without elements. `sum` gives 0, and `prod` gives 1.

```clk fails
let x = arange(parse(i32, "0"))
print(max(x))
```

```clk
let x = arange(parse(i32, "3"))
print(max(x), sum(x[2..2]))
```
"#,
    },
    Page {
        code: "E0543",
        title: "a name or field that a value does not have",
        text: r#"
A table loaded from a file has the arrays in the file. `print` of the table lists them.

```clk fails
save("model.npz", weight = [1.0, 2.0], bias = [0.5])
let model = load("model.npz")
print(model.wieght)
```

```clk
save("model.npz", weight = [1.0, 2.0], bias = [0.5])
let model = load("model.npz")
print(model.weight)
```
"#,
    },
    Page {
        code: "E0544",
        title: "a text that is not the number it should be",
        text: r#"
`parse` accepts numbers in the syntax of source code. The text must be a number of the type, and in its range.

```clk fails
print(parse(i32, "4.5"))
```

```clk
print(i32(parse(f64, "4.5")))
```
"#,
    },
    Page {
        code: "E0546",
        title: "a total that does not fit its type",
        text: r#"
`sum`, `prod`, `cumsum`, `dot` and `@` of integers are exact: they are computed with as many bits as necessary, and the script stops if
the result does not fit its type. The totals of 8- and 16-bit integers are `i64` or `u64`; those of other integers have the elements'
type. Convert the elements to get a wider one.

```clk fails
let x = [2_000_000_000, 2_000_000_000]
print(sum(x))
```

```clk
let x = [2_000_000_000, 2_000_000_000]
assert(sum(i64(x)) == 4_000_000_000)
assert(sum([200u8, 100u8]) == 300)
```
"#,
    },
    Page {
        code: "E0545",
        title: "a format that does not fit the value",
        text: r#"
The format after the colon is `[fill][<^>][+][0][width][.precision][x|X|b|o|e]`. Hexadecimal, binary and octal are for integers, a
precision and `e` for floats. For an array, the format applies to every element.

```clk fails
let x = [1.5, 2.5]
print("{x:x}")
```

```clk
let x = [1.5, 2.5]
print("{x:.2}")
```
"#,
    },
    Page {
        code: "E0547",
        title: "an `exit` where there is more to do than the script",
        text: r#"
`exit(code)` ends a script run by `clk run`, or a session if it is an entry. It is an error in a test or bench, in a file loaded by a
session, and in `clk launch`, since these have to continue afterwards.

A test fails by an `assert`; a script can end early with an exit code:

```clk
if len(args) > 3 {
    print("too many arguments")
    exit(2)
}
test "a part" { assert(1 + 1 == 2) }
```
"#,
    },
    Page {
        code: "E0710",
        title: "a file of no known format",
        text: r#"
`load` and `save` choose the format by the file name extension: `.npy`, `.npz`, `.safetensors`, `.csv` or `.png`. Use `read_text` and
`write_text` for text files of any name.

```clk fails
save("result.txt", [1.0, 2.0])
```

```clk
save("result.csv", [1.0, 2.0])
```
"#,
    },
    Page {
        code: "E0711",
        title: "a file that is damaged",
        text: r#"
The content is inconsistent: a header states more data than the file has, a checksum does not match, or an archive has no directory.
The message gives the numbers. Usually the file was not copied or downloaded completely.
"#,
    },
    Page {
        code: "E0712",
        title: "a file that is something else than its name says",
        text: r#"
The first bytes of the file are those of another format: for instance a JPEG picture called `.png`, or a web page with an error
message instead of a download. If Clk can read that format, the message names its extension. (`image` writes a PNG picture for any
name except `.svg`.)

```clk fails
image("grey.npy", zeros(2, 3))
print(load("grey.npy"))
```

```clk
image("grey.png", zeros(2, 3))
print(load("grey.png"))
```
"#,
    },
    Page {
        code: "E0713",
        title: "a file that holds what Clk has no type for",
        text: r#"
The file is valid, but its elements are Python objects, complex numbers, text, dates or floats of an unsupported size; or it is
encrypted or uses an unsupported compression. The message says how to save it instead.

In an archive (`.npz`, `.safetensors`), it is an error only when the program reads the member: the others can be used.
"#,
    },
    Page {
        code: "E0714",
        title: "a text file that is no table",
        text: r#"
A .csv file has the same number of fields in every line. If the first line names the columns, each column has numbers or texts; if the
first line has numbers only, the whole file must have numbers. Fields are separated by commas, semicolons or tabs, and numbers use a
decimal point. A quoted field ends at a quote that is not doubled. Lines before the first one that begin with `#` are comments.

A file that can be read in two ways is an error, too: whether `#ff0000,2` is a comment or data, or whether `first last` names one
column or two, is decided by quotes, separators and the blank in `# comment`.

```clk fails
write_text("t.csv", "a,b\n1,2\n3\n")
print(load("t.csv"))
```

```clk
write_text("t.csv", "a,b\n1,2\n3,\"x, y\"\n")
print(load("t.csv").b)
```
"#,
    },
    Page {
        code: "E0715",
        title: "values that a format cannot hold",
        text: r#"
A .npy, .csv or .png file holds one array (a .csv file also named columns); a .npz or .safetensors file holds several. Only
.safetensors supports `bf16`.

```clk fails
let x = [1.0, 2.0]
save("both.npy", x = x, y = x)
```

```clk
let x = [1.0, 2.0]
save("both.npz", x = x, y = x)
```
"#,
    },
    Page {
        code: "E0716",
        title: "an array that is not a picture",
        text: r#"
A picture is `[H, W]` (gray), `[H, W, 3]` (red, green, blue) or `[H, W, 4]` (with opacity). Its samples are `u8`, or floats from
0 to 1; values outside are clamped.

```clk fails
image("grey.png", arange(6))
```

```clk
image("grey.png", f32(reshape(arange(6), 2, 3)) / 5.0)
```
"#,
    },
    Page {
        code: "E0718",
        title: "a file that is not text in UTF-8",
        text: r#"
`read_text` and `load` of a .csv file need text in UTF-8. This file has other content or another encoding: save it as UTF-8.

```clk fails
save("x.npy", [1.0, 2.0])
print(read_text("x.npy"))
```

```clk
write_text("x.txt", "1.0\n2.0\n")
print(parse(f64, lines(read_text("x.txt"))))
```
"#,
    },
    Page {
        code: "E0717",
        title: "points that cannot be plotted",
        text: r#"
`plot` draws the points given by two arrays with one axis and the same length. At least one point must have two finite coordinates.

```clk fails
let n = parse(i32, "3")
plot(linspace(0.0, 1.0, n), linspace(0.0, 1.0, n + 1), "curve.png")
```

```clk
let n = parse(i32, "3")
plot(linspace(0.0, 1.0, n), linspace(0.0, 1.0, n), "curve.png")
```
"#,
    },
    Page {
        code: "E0720",
        title: "the derivative is lost",
        text: r#"
A function is being differentiated, and a value that depends on the parameter is used where it has no derivative: it becomes an integer, its
bits are taken, or it goes into an operation whose derivative Clk does not compute. Going on would give a gradient that is wrong without a
word. If the value is to be taken as a constant, say so: `no_grad(x)`. Comparisons, `floor` and `argmax` need no such word: what they
give does not change with the parameter, but in jumps.

```clk fails
fn f(x: [f32; N]) -> f32 { sum(x) / f32(i32(x[0])) }
print(grad(f)([2.0, 4.0]))
```

```clk
fn f(x: [f32; N]) -> f32 { sum(x) / f32(i32(no_grad(x[0]))) }
assert(grad(f)([2.0, 4.0]) == [0.5, 0.5])
```
"#,
    },
    Page {
        code: "E0721",
        title: "a derivative that does not agree with differences",
        text: r#"
`gradcheck(f, x)` compares what forward mode, reverse mode and differences say of the derivative of `f` at `x`, along three directions by
each parameter and with three weights of the results. They are random, but always the same ones. The message says which parameter is
concerned, the direction and the three numbers; which number of the parameter is off the most; and the line whose rule is wrong, if one
is found by looking at each operation alone.

Differences are those of the function's twin, in which all floats, also those of its kernels, are `f64`; it runs on the simulator. What
differs by more than a millionth of the sum of the sizes of all parts of the derivative, and by more than the differences themselves are
sure of, is wrong. In the function's own types a derivative has as many digits as half of theirs: it may differ from the twin's by
0.00035 of that sum in `f32`, 0.03 in `f16` and 0.09 in `bf16`; one that differs by more "loses its digits", and its rules are right.
Where terms cancel, as in `sum(softmax(x))`, whose derivative is 0, rounding errors remain: up to 16 units in the last place of the function,
or of the numbers that cancel in it, do not count.

Random numbers and values of `no_grad` stay the same while arguments change; a kernel with `no_grad` cannot be checked, as its constants
would change. Numbers at kinks are left out (W0721).

A derivative of Clk is wrong where a value goes a way that no derivative follows:

```clk fails
fn f(x: [f32; N]) -> f32 { sum(x) * parse(f32, "{x[0]}") }
gradcheck(f, [2.0, 4.0])
```

```clk
fn f(x: [f32; N]) -> f32 { sum(x) * x[0] }
gradcheck(f, [2.0, 4.0])
```
"#,
    },
    Page {
        code: "E0722",
        title: "a stated derivative that does not fit its function",
        text: r#"
The rule that `with_grad(f, rule)` states gives the cotangent of each argument of floats, and each has the type and the shape of its
argument. Sums over what was broadcast are part of the rule.

Forward mode is the transpose of the rule, for which the rule has to be linear in the cotangent. One that is not, because it limits
cotangents, say, has reverse mode alone.

```clk fails
fn scaled(x: [f32; N], k: f32) -> [f32; N] { k * x }
fn rule(x: [f32; N], k: f32, d: [f32; N]) -> ([f32; M], f32) { (concat(k * d, d), sum(x * d)) }
fn f(x: [f32; N], k: f32) -> f32 { sum(with_grad(scaled, rule)(x, k)) }
print(grad(f, wrt = k)([1.0, 2.0], 3.0))
```

```clk
fn scaled(x: [f32; N], k: f32) -> [f32; N] { k * x }
fn rule(x: [f32; N], k: f32, d: [f32; N]) -> ([f32; N], f32) { (k * d, sum(x * d)) }
fn f(x: [f32; N], k: f32) -> f32 { sum(with_grad(scaled, rule)(x, k)) }
assert(grad(f, wrt = k)([1.0, 2.0], 3.0) == 3.0)
```
"#,
    },
    Page {
        code: "E0723",
        title: "a tape that is too large",
        text: r#"
Reverse mode goes back over a loop of a kernel by what the loop has recorded: numbers that it changes, and that are needed on the way back.
They are on a tape, which is as long for each thread as for the one with the most turns. If the tapes of a launch take more than 4 GiB (32 GiB on
a GPU), the loop is shown that records the most, and the launch is refused before anything is lost in a machine that is out of memory.

Launch the kernel several times, each for a part of the turns: then the tape is as long as one part, and only the arrays that the kernel
passes from one launch to the next are kept. `jvp` has no tapes, and where the derivative is known, `with_grad` states it.

```clk fails
kernel settle(x: [f32; N], turns: [i32; N], out y: [f32; N]) threads(i: N) {
    var s = x[i]
    for k in 0..turns[i] { s = sin(s) }
    y[i] = s
}
fn settled(x: [f32; N], turns: [i32; N]) -> f32 { sum(settle(x, turns)) }

var turns = full(100000, 1)
turns[0] = 20000
print(grad(settled)(ones(100000), turns))
```

```clk
kernel settle(inout s: [f32; N], turns: [i32; N], first: i32) threads(i: N) {
    for k in first..min(turns[i], first + 2000) { s[i] = sin(s[i]) }
}
fn settled(x: [f32; N], turns: [i32; N]) -> f32 {
    var s = x
    for first in 0..max(turns) step 2000 { settle(s, turns, first) }
    sum(s)
}

var turns = full(100, 1)
turns[0] = 20000
assert(all(isfinite(grad(settled)(ones(100), turns))))
```
"#,
    },
    Page {
        code: "W0721",
        title: "a derivative that is not compared everywhere",
        text: r#"
At a kink, a jump or the end of its domain a function has no derivative, or one to each side; Clk gives what the conventions say, and
differences say nothing of that. `gradcheck` leaves out the numbers of the parameter at which differences to the left and to the right do not
agree, however small the step, and compares the others. If too many are concerned, or they cannot be told apart, whole directions are not
compared. The line where the function has a kink is shown if one operation has it. Check at another point to have it all compared.

Forward mode may be refused where reverse mode is not: of a rule that `with_grad` states and that is not linear. Then it is not compared.

Where there is no twin in `f64`, because bits of floats are looked at or files are loaded, the differences are those of the function as
it is. They have few digits, and only much is found to be wrong.

```clk fails
fn f(x: [f32; N]) -> f32 { sum(max(x, 0.0)) }
gradcheck(f, [0.0, 1.0, -1.0])
```

```clk
fn f(x: [f32; N]) -> f32 { sum(max(x, 0.0)) }
gradcheck(f, [0.1, 1.0, -1.0])
```
"#,
    },
];

//! E05xx: operations on values and arrays. E071x: reading and writing files.

use super::Page;

/// The pages of this chapter, ordered by code.
pub(crate) static PAGES: &[Page] = &[
    Page {
        code: "E0501",
        title: "shapes that do not fit together",
        text: r#"
Operators on arrays work element by element. The shapes are aligned at their last axes; two axes fit if they are equally long
or if one of them is 1, which then repeats. `@` needs the last axis of its left side as long as the first of its right side.

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
Python: write `x[len(x) - 1]`. The ends of a slice have to lie in the array too; leave one off to mean the array's own.

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
More indices than the array has axes, or an operation that needs another number of axes: `cumsum` takes one, `@` one or two.

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
Nothing is converted silently: both operands have to be of one element type, and what is written into an array has to be of
its type. Literals such as `1` and `0.5` take the type that is asked for, if they can. What a file holds is known only when it
has been read, so this may turn up as late as there.

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
The message names the operation and the types it was given: `sqrt` is for floats, `!` for `bool` and integers, and so on.

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
`/` and `%` of integers have no result for a zero on the right. Of an array the first element that is 0 is shown. Floats
divide by zero without an error, and give an infinity or a NaN.

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
The new shape has to have as many elements as the old one. One dimension may be -1: it is what the others leave.

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
The machine has not the memory for it, or an axis would be longer than 2147483647, which is the most that an index can count.
Before much is taken, the system is asked how much there is (its own limits and those of a container included), so that nothing is
ended for taking too much. Where not even a little is left, `clk` cannot go on at all: it says so under this code and ends with
the exit code 70.

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
A slice, or `arange`, that advances by 0 never comes to its end.

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
The type is right, but not the value: an axis of a negative length, an interval without a number in it, no arrays to join.

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
`min`, `max`, `mean`, `argmin` and `argmax` have no result for an array without elements. `sum` has (0), and so has `prod` (1).

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
A table that was loaded from a file has the arrays that the file has. `print` of the table lists them.

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
`parse` reads numbers as they stand in source. The text has to be one of the type, and in its range.

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
`sum`, `prod`, `cumsum`, `dot` and `@` of integers are exact: they are computed with as many bits as it takes, and where the result is
no number of its type, the script stops. The totals of 8- and 16-bit integers are `i64` or `u64`; those of other integers are of their own
type, which a conversion makes wider.

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
What stands behind the colon is `[fill][<^>][+][0][width][.precision][x|X|b|o|e]`. Hexadecimal, binary and octal are for
integers, a precision and `e` for floats. For an array the format is that of every element.

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
`exit(code)` ends a script that `clk run` runs, and a session in which it is an entry. A test or a bench is one of several, a file that a
session loads is a part of it, and whoever launches kernels of a file waits for an answer: there it is an error.

A test fails by an `assert`; a script that is to end early is left with a code that says why:

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
`load` and `save` choose the format by the ending of the name: `.npy`, `.npz`, `.safetensors`, `.csv` or `.png`. Text is for
`read_text` and `write_text`, whatever the name is.

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
The bytes contradict themselves: a header promises more data than follows, a checksum does not match, an archive has no
directory. The message gives the numbers. Most often the file was not copied or downloaded to its end.
"#,
    },
    Page {
        code: "E0712",
        title: "a file that is something else than its name says",
        text: r#"
The first bytes of the file are those of another format: a JPEG picture called `.png`, a web page with an error message in
place of a download. Where it is a format that Clk reads, the message names the ending that goes with it. (`image` writes a
PNG picture whatever the name is.)

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
The file is in order, but its elements are Python objects, complex numbers, text, dates or floats of an unusual size; or it is
encrypted, or packed in a way that Clk does not unpack. The message says how to save it instead.
"#,
    },
    Page {
        code: "E0714",
        title: "a text file that is no table",
        text: r#"
A .csv file has the same number of fields in every line. If the first line names the columns, each is one of numbers or one of texts; if it
has numbers only, all of the file is numbers. Fields are separated by commas, semicolons or tabs, and numbers have a decimal
point. A field in quotes ends at a quote that is not doubled.

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
A .npy, .csv or .png file holds one array (a .csv file also columns by name); a .npz or .safetensors file holds several. Only
.safetensors has `bf16`.

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
A picture is `[H, W]` (grey), `[H, W, 3]` (red, green, blue) or `[H, W, 4]` (with opacity). Its samples are `u8`, or floats from
0 to 1; what lies outside is cut off.

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
`read_text` reads text in UTF-8, and a .csv file is such a text. Others hold something else, or text in another encoding: save it as UTF-8.

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
`plot` draws the points of two arrays of one axis and one length. At least one point has to have two finite numbers.

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
];

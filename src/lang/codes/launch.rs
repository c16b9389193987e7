//! E08xx: errors of calls from other programs: of `clk launch` requests, and of calls from Python.

use super::Page;

/// The pages of this chapter, ordered by code.
pub(crate) static PAGES: &[Page] = &[
    Page {
        code: "E0801",
        title: "a request that is no JSON",
        text: r#"
A request is one JSON object in UTF-8; a server reads one per line. The message gives the position of the first invalid byte. As an
extension of the standard, `NaN`, `Infinity` and `-Infinity` are numbers. Lists and objects can be nested at most 64 deep.

The request is answered with this error and has no other effect; the next line is read as usual.
"#,
    },
    Page {
        code: "E0802",
        title: "a request with a wrong, missing or repeated field",
        text: r#"
The objects of a request have fixed fields, and an unknown field is refused rather than ignored: a misspelled `"gird"` would
otherwise launch with the kernel's default grid. `clk launch --protocol` lists the fields. Inputs are required; `out` arrays may be
omitted.

```text
{"kernel": "saxpy", "scalars": {"alpha": 2.0}, "arrays": {"x": [1, 2], "y": [3, 4]}}
```
"#,
    },
    Page {
        code: "E0803",
        title: "a name in a request that nothing has",
        text: r#"
A kernel, a parameter, a type or a kept array does not exist. Kernels are named as in the program's main module (`saxpy`, or
`linalg.matmul` for one of an imported module). Kept arrays belong to the connection that created them.
"#,
    },
    Page {
        code: "E0804",
        title: "a value in a request that its type cannot hold",
        text: r#"
There are no implicit conversions: 300 is not a `u8`, 1.5 is not an `i32` (nor is 1.0), and 1e39 is not an `f32`; infinity is written
`"Infinity"`. Integers may have any number of digits, so a `u64` is not rounded. A vector is a list of its lanes, a struct an object
or a list of its fields, a tuple a list.
"#,
    },
    Page {
        code: "E0805",
        title: "data that do not fill their shape",
        text: r#"
The rows have different lengths, there are fewer or more elements than `shape` requires, or the Base64 text or block has another
size. Nothing is allocated for a shape before the size of the data is known to match.
"#,
    },
    Page {
        code: "E0806",
        title: "more bytes than are allowed",
        text: r#"
`--max-bytes` limits the size of a request, of each array and of all kept arrays together; the default is 8 GiB. The sizes in a
request, and those of results to be allocated by a launch, are checked before memory is allocated. An axis always has at most
2147483647 elements.
"#,
    },
    Page {
        code: "E0807",
        title: "a frame that is none",
        text: r#"
A framed message consists of `CLK` and the byte 1, the length of the header (u32) and of the bytes after it (u64), both little-endian,
the header in JSON, and the blocks whose lengths the header lists in `blocks`. A frame with inconsistent lengths is skipped, and the next
message is read. If the first four bytes are wrong, the start of the next message is unknown: this connection is closed, while others
continue. The same applies to a request on a socket that has begun and receives no more bytes for 30 seconds.
"#,
    },
    Page {
        code: "E0808",
        title: "a socket that is not private",
        text: r#"
`clk launch --serve --socket PATH` creates a socket with mode 0600 in a folder that belongs to you and that no other user can write to
(it is created with mode 0700 if it does not exist). A stale socket of yours is replaced; a socket on which a server answers, one of
another user, and anything that is not a socket are left alone. Connections of other users are refused, whatever the modes are.

`/tmp` itself is shared by all users: use a folder of your own, such as `$XDG_RUNTIME_DIR/clk`.
"#,
    },
    Page {
        code: "E0809",
        title: "an array from outside that a parameter does not take",
        text: r#"
Arrays of Python are used where they are, or copied; they are never converted. So the element type has to be the parameter's: an array of
`float64`, which is what NumPy makes unless told otherwise, is none for `[f32; N]`.

```text
m.saxpy(2.0, np.ones(3), y)                             # E0809: it is float64
m.saxpy(2.0, np.ones(3, np.float32), y)
m.saxpy(2.0, x.astype(np.float32), y)
```

An array that a kernel writes (`out`, `inout`) has to be writable, with its elements in row-major order without gaps, and in memory that
the call does not write otherwise. Arrays that are only read may lie in memory as they like.

Arrays in the memory of a GPU are used there: the call runs on that GPU, and on no other device. Checks are the simulator's, so arrays of a GPU
have to come to the host for them.

```text
m.saxpy(2.0, x, y, check=True)                          # E0809: `x` is on a GPU
m.saxpy(2.0, x.cpu(), y.cpu(), check=True)
```
"#,
    },
];

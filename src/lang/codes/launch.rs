//! E08xx: errors of `clk launch` requests.

use super::Page;

/// The pages of this chapter, ordered by code.
pub(crate) static PAGES: &[Page] = &[
    Page {
        code: "E0801",
        title: "a request that is no JSON",
        text: r#"
A request is one JSON object in UTF-8; when many are served, each stands on a line of its own. The message names the first byte
that does not fit. Beyond the standard, `NaN`, `Infinity` and `-Infinity` may stand where numbers do. Lists and objects nest at
most 64 deep.

The request is answered with this error and costs nothing else: the next line is read as if it had not been there.
"#,
    },
    Page {
        code: "E0802",
        title: "a request with a wrong, missing or repeated field",
        text: r#"
Every object of a request has fixed fields, and an unknown one is refused rather than overlooked: a misspelt `"gird"` would
otherwise launch with the kernel's own grid. `clk launch --protocol` lists them. Inputs have to be given; `out` arrays may be
left off.

```text
{"kernel": "saxpy", "scalars": {"alpha": 2.0}, "arrays": {"x": [1, 2], "y": [3, 4]}}
```
"#,
    },
    Page {
        code: "E0803",
        title: "a name in a request that nothing has",
        text: r#"
A kernel, a parameter, a type or a kept array that is not there. Kernels are named as in the program's main module
(`saxpy`, or `linalg.matmul` for one of an imported module). Kept arrays belong to the connection that made them.
"#,
    },
    Page {
        code: "E0804",
        title: "a value in a request that its type cannot hold",
        text: r#"
Nothing is converted silently. 300 is no `u8`, 1.5 is no `i32` (and neither is 1.0), 1e39 is no `f32`: infinity is written
`"Infinity"`. Integers take any number of digits, so a `u64` need not pass through a float. A vector is a list of its lanes, a
struct an object or a list of its fields, a tuple a list.
"#,
    },
    Page {
        code: "E0805",
        title: "data that do not fill their shape",
        text: r#"
Rows of different lengths, fewer or more elements than `shape` asks for, Base64 text or a block of another size. Nothing is
allocated for a shape before the data are known to fill it.
"#,
    },
    Page {
        code: "E0806",
        title: "more bytes than are allowed",
        text: r#"
`--max-bytes` bounds a request, each array and all arrays that are kept; it is 8 GiB if nothing is said. The sizes that a request
names, and those of results that a launch would allocate, are checked against it before any memory is taken. An axis has at most
2147483647 elements in any case.
"#,
    },
    Page {
        code: "E0807",
        title: "a frame that is none",
        text: r#"
A framed message is `CLK` and the byte 1, the length of the header (u32) and of the bytes behind it (u64), both little-endian,
the header in JSON, and the blocks whose lengths the header lists in `blocks`. A frame whose lengths do not fit together is
skipped, and the next message is read. Where the first four bytes are wrong nobody can tell where the next message begins: this one
connection ends, and the others go on. So it is with a request that was begun on a socket and of which nothing more comes for 30
seconds.
"#,
    },
    Page {
        code: "E0808",
        title: "a socket that is not private",
        text: r#"
`clk launch --serve --socket PATH` makes a socket with mode 0600 in a folder that belongs to you and that nobody else may write
(it is made with mode 0700 if it does not exist). A stale socket of your own is replaced; one that a server answers on, one of
another user, and anything that is no socket are left alone. Connections of other users are refused, whatever the modes say.

`/tmp` itself is everybody's: use a folder of your own, such as `$XDG_RUNTIME_DIR/clk`.
"#,
    },
];

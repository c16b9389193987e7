//! W00xx: warnings of the checker.

use super::{Page, page::page};

/// The pages of this chapter, ordered by code.
#[rustfmt::skip]
pub static PAGES: &[Page] = &[
    page!(
        "W0001", "a variable that is never used",
        r"The variable is never read. A name that begins with `_` marks it as intentionally unused.",
r"fn area(r: f32) -> f32 {
    let d = 2 * r
    3.14159 * r * r
}
",
r"fn area(r: f32) -> f32 {
    let _d = 2 * r
    3.14159 * r * r
}
"
    ),
    page!(
        "W0002", "a parameter that is never used",
        r"The body never reads it. A name that begins with `_` marks it as intentionally unused.",
r"fn first(a: f32, b: f32) -> f32 { a }
",
r"fn first(a: f32, _b: f32) -> f32 { a }
"
    ),
    page!(
        "W0003", "an import that is never used",
        r"Nothing in the file uses the name.",
r"import std.nn.{softmax}
print(1)
",
r"print(1)
"
    ),
    page!(
        "W0004", "a constant that is never used",
        r"Nothing in the script uses it. A name that begins with `_` marks it as intentionally unused.",
r"const STEPS = 10
kernel zero(out r: [f32; N]) threads(i: N) { r[i] = 0.0 }
let r = zero(N = 4)
",
r"const STEPS = 4
kernel zero(out r: [f32; N]) threads(i: N) { r[i] = 0.0 }
let r = zero(N = STEPS)
"
    ),
    page!(
        "W0005", "a value that is computed and thrown away",
        r"The statement has no effect. Often an assignment was meant: `=` assigns, `==` compares. A script shows values with `print`; only a session shows the last value of an entry by itself.",
r"fn next(x: f32) -> f32 {
    var y = x
    y == x + 1
    y += 1
    y
}
",
r"fn next(x: f32) -> f32 {
    var y = x
    y = x + 1
    y
}
"
    ),
    page!(
        "W0006", "statements that are never reached",
        r"Statements after `return`, `break`, `continue` or an endless `loop` never run.",
r#"fn one() -> f32 {
    return 1.0
    print("done")
}
"#,
r#"fn one() -> f32 {
    print("done")
    return 1.0
}
"#
    ),
    page!(
        "W0007", "a variable that hides a `var` of an outer block",
        r"`let` and `var` always declare a new variable, which exists until the end of its block. To assign to the outer one, omit the keyword.",
r"fn clipped(x: f32) -> f32 {
    var y = x
    if x > 1 {
        let y = 1.0
        print(y)
    }
    y += 0
    y
}
",
r"fn clipped(x: f32) -> f32 {
    var y = x
    if x > 1 { y = 1.0 }
    y
}
"
    ),
    page!(
        "W0008", "a barrier that some threads may not reach",
        r"Either all threads of a block must reach a barrier, or none. Under a condition that differs between threads, or after a `return` of some of them, the others wait forever; the simulator reports that as a fault.",
r"kernel rotate(x: [f32; N], out r: [f32; N]) grid(ceil_div(N, 256)) block(256) {
    let i = global_idx.x
    if i < N {
        barrier()
        r[i] = x[i]
    }
}
",
r"kernel rotate(x: [f32; N], out r: [f32; N]) grid(ceil_div(N, 256)) block(256) {
    let i = global_idx.x
    barrier()
    if i < N { r[i] = x[i] }
}
"
    ),
    page!(
        "W0009", "a `var` that never changes",
        r"Use `let` for a variable that is never assigned again.",
r"fn area(r: f32) -> f32 {
    var pi = 3.14159
    pi * r * r
}
",
r"fn area(r: f32) -> f32 {
    let pi = 3.14159
    pi * r * r
}
"
    ),
    page!(
        "W0012", "a call whose result is not used",
        r"The statement calls something that only gives a value, and drops that value. `sort`, `flip` and other builtins leave their argument as it is and give a new array; a launch that is given no `out` array returns it. Assign the result, or take the call out.",
r"var a = [3, 1, 2]
sort(a)
print(a)
",
r"var a = [3, 1, 2]
a = sort(a)
print(a)
"
    ),
];

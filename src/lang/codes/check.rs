//! E02xx (names, imports), E03xx (types) and E04xx (host and device rules).

use super::{Page, page::page};

/// The pages of this chapter, ordered by code.
#[rustfmt::skip]
pub static PAGES: &[Page] = &[
    page!(
        "E0201", "a name that nothing has",
        r"No variable, parameter, item or builtin of this name is visible here. A variable is visible from its declaration to the end of its block; items such as `fn` and `kernel` are visible everywhere in their file.",
r"let total = 1.5
print(totl)
",
r"let total = 1.5
print(total)
"
    ),
    page!(
        "E0202", "a name that is defined twice",
        r"Within one file, all items and all variables of the script need different names. (In the REPL a later definition replaces the earlier one.)",
r"fn area(r: f32) -> f32 { 3.14159 * r * r }
fn area(a: f32, b: f32) -> f32 { a * b }
",
r"fn circle_area(r: f32) -> f32 { 3.14159 * r * r }
fn rectangle_area(a: f32, b: f32) -> f32 { a * b }
"
    ),
    page!(
        "E0203", "an import of something that is not there",
        r"The module exists but has no public name like this. Functions, kernels, structs and constants can be imported; the variables of a script cannot.",
r"import std.nn.{softmaxx}
print(softmaxx(zeros(2, 3)))
",
r"import std.nn.{softmax}
print(softmax(zeros(2, 3)))
"
    ),
    page!(
        "E0204", "a type that does not exist",
        r"Types are `bool`, `i8` to `i64`, `u8` to `u64`, `f16`, `bf16`, `f32`, `f64`, vectors such as `f32x4`, arrays `[f32; N]`, tuples, and structs by name. Bounds of type parameters are `Any`, `Num`, `Int` and `Float`.",
r"fn half_of(x: float) -> float { x / 2 }
",
r"fn half_of(x: f32) -> f32 { x / 2 }
"
    ),
    page!(
        "E0205", "a field that does not exist",
        r"A struct has the fields of its definition, a vector has `.x .y .z .w`, a tuple has `.0 .1 …`. Arrays have no fields: use functions such as `len(x)` and `shape(x)`.",
r"struct Body { pos: f32x3, mass: f32 }
fn weight(b: Body) -> f32 { b.mas * 9.81 }
",
r"struct Body { pos: f32x3, mass: f32 }
fn weight(b: Body) -> f32 { b.mass * 9.81 }
"
    ),
    page!(
        "E0206", "an argument name that the callee does not have, or that is given twice",
        r"Named arguments are compile-time parameters (`T = 32`), dimensions of a kernel (`N = 1024`), parameters, and the options of builtins (`axis = 0`). Each parameter is given once, by name or by its position: `sum(x, 0, axis = 1)` gives the axis twice.",
r"let x = zeros(4, typ = i32)
",
r"let x = zeros(4, type = i32)
"
    ),
    page!(
        "E0207", "a name of the wrong kind",
        r"A type is used where a value is needed, a value where a type is needed, or a function is named without being called.",
r"fn twice(x: f32) -> f32 { 2 * x }
let y = twice
",
r"fn twice(x: f32) -> f32 { 2 * x }
let y = twice(1.5)
"
    ),
    page!(
        "E0208", "one name for two parameters or fields",
        r"The parameters, compile-time parameters and dimensions of a function need different names, and so do the fields of a struct.",
r"fn add(a: f32, a: f32) -> f32 { a + a }
",
r"fn add(a: f32, b: f32) -> f32 { a + b }
"
    ),
    page!(
        "E0209", "a script variable inside a function or kernel",
        r"Functions and kernels can use constants, other functions and their own parameters. Variables of the script may change between calls, so they must be passed as arguments.",
r"let scale = 2.0
fn scaled(x: f32) -> f32 { scale * x }
",
r"const SCALE = 2.0
fn scaled(x: f32) -> f32 { SCALE * x }
fn scaled_by(x: f32, scale: f32) -> f32 { scale * x }
"
    ),
    page!(
        "E0301", "a value of another type than expected",
        r"There are no implicit conversions. A literal such as `1` or `2.5` takes the type required by its context; everything else is converted by calling the type: `f32(n)`. A variable that begins as `7` becomes what the first statement that uses it needs, else an `i32`: begin with `7.0` if it is to be a float.",
r"fn mean(total: f32, n: i32) -> f32 { total / f32(n) }
let count: f32 = mean(3.0, 2.5f32)
",
r"fn mean(total: f32, n: i32) -> f32 { total / f32(n) }
let count: f32 = mean(3.0, i32(2.5))
"
    ),
    page!(
        "E0302", "operands of different types",
        r"Both sides of an operator (and all arguments of functions such as `max`) must have the same element type. The program has to say which one to convert: `f32(i)` and `i32(x)` mean different things. The elements of `zeros`, `ones` and `eye` are floats unless `type =` says otherwise, so `ones(4) / len(x)` needs `f32(len(x))` or `ones(4, type = i32)`.",
r"fn place(i: i32, step: f32) -> f32 { i * step }
",
r"fn place(i: i32, step: f32) -> f32 { f32(i) * step }
"
    ),
    page!(
        "E0303", "an operator that the type does not have",
        r"Arithmetic is for numbers, `& | ^ << >>` for integers, `&& || !` for `bool`. Type parameters have the operators that their bound guarantees: a `T: Num` can be added.",
r"fn low_bits(x: f32) -> f32 { x & 255 }
",
r"fn low_bits(x: f32) -> u32 { bitcast(u32, x) & 255 }
"
    ),
    page!(
        "E0304", "too many or too few arguments",
        r"The note shows what the function, kernel or builtin takes. A launch may omit its `out` arguments; it then returns them.",
r"fn lerp(a: f32, b: f32, t: f32) -> f32 { a + (b - a) * t }
let x = lerp(0.0, 1.0)
",
r"fn lerp(a: f32, b: f32, t: f32) -> f32 { a + (b - a) * t }
let x = lerp(0.0, 1.0, 0.5)
"
    ),
    page!(
        "E0305", "shapes that do not go together",
        r"A dimension's name has one value in a launch, `a @ b` needs the inner extents to agree, and elementwise operators need extents that are equal or 1. Extents that are unknown before the program runs are checked at run time.",
r"kernel add(x: [f32; N], y: [f32; N], out r: [f32; N]) threads(i: N) { r[i] = x[i] + y[i] }
let r = add(zeros(4), zeros(5))
",
r"kernel add(x: [f32; N], y: [f32; N], out r: [f32; N]) threads(i: N) { r[i] = x[i] + y[i] }
let r = add(zeros(4), zeros(4))
"
    ),
    page!(
        "E0306", "a wrong number of axes",
        r"Kernels index an array with one integer per axis. On the host, fewer indices or ranges select a part of the array.",
r"kernel corner(a: [f32; M, N], out r: [f32; 1]) threads(i: 1) { r[i] = a[0] }
",
r"kernel corner(a: [f32; M, N], out r: [f32; 1]) threads(i: 1) { r[i] = a[0, 0] }
"
    ),
    page!(
        "E0307", "a compile-time parameter that nothing fixes",
        r"Type, constant and function parameters are inferred from the arguments, have a default, or are given by name.",
r"kernel fill<const V: i32>(out r: [i32; N]) threads(i: N) { r[i] = V }
let r = fill(N = 8)
",
r"kernel fill<const V: i32>(out r: [i32; N]) threads(i: N) { r[i] = V }
let r = fill(N = 8, V = 3)
"
    ),
    page!(
        "E0308", "a condition that is not `bool`",
        r"Numbers are neither true nor false, and an array of `bool` has many conditions: `all(…)` or `any(…)` combines them into one.",
r#"let n = 3
if n { print("some") }
"#,
r#"let n = 3
if n != 0 { print("some") }
"#
    ),
    page!(
        "E0309", "indexing something that is not an array",
        r"Arrays can be indexed, and `v[i]` is a component of a vector; vectors have no slices. The parts of a tuple are `.0 .1`, the fields of a struct have names.",
r"fn first(t: (f32, i32)) -> f32 { t[0] }
",
r"fn first(t: (f32, i32)) -> f32 { t.0 }
"
    ),
    page!(
        "E0310", "a missing value",
        r"A function with a result type must end with a value: the last expression of the body, or `return value`. An `if` that is used as a value needs an `else`.",
r"fn sign_of(x: f32) -> f32 {
    let s = if x < 0 { -1.0 } else { 1.0 }
}
",
r"fn sign_of(x: f32) -> f32 {
    if x < 0 { -1.0 } else { 1.0 }
}
"
    ),
    page!(
        "E0311", "a call of something that can't be called",
        r"Functions, kernels and types can be called. Values cannot, structs are constructed by `Name { field: value }`, and there are no methods: pass the value as the first argument.",
r"let x = linspace(0.0, 1.0, 8)
let total = x.sum()
",
r"let x = linspace(0.0, 1.0, 8)
let total = sum(x)
"
    ),
    page!(
        "E0312", "a type that the bound does not allow",
        r"Each type parameter has a bound: `Float` takes `f16 bf16 f32 f64`, `Int` the integers, `Num` both, `Any` every plain type except structs with array fields.",
r"fn root(n: i32) -> i32 { sqrt(n) }
",
r"fn root(n: i32) -> i32 { i32(sqrt(f32(n))) }
"
    ),
    page!(
        "E0313", "a number that its type can't hold",
        r"The literal is out of the range of its type: an integer that the type cannot represent, or a float that would become infinite or 0. A
number with a decimal point is an `f32` unless its context requires another type; `1e40f64` is an `f64`. In a generic function, the number
must fit every type with which the function is used.",
r"let level: u8 = 256
",
r"let level: u16 = 256
"
    ),
    page!(
        "E0314", "something that is not constant",
        r"Constants, compile-time parameters and the sizes of local arrays must be known at compile time.",
r"kernel copy(x: [f32; N], out r: [f32; N]) threads(i: N) {
    var buffer: [f32; N] = 0.0
    buffer[i] = x[i]
    r[i] = buffer[i]
}
",
r"kernel copy(x: [f32; N], out r: [f32; N]) threads(i: N) {
    var buffer: [f32; 4] = 0.0
    buffer[0] = x[i]
    r[i] = buffer[0]
}
"
    ),
    page!(
        "E0315", "a struct without all its fields, or with one twice",
        r"Constructing a struct needs a value for every field, in any order.",
r"struct Body { pos: f32x3, mass: f32 }
let b = Body { mass: 1.0 }
",
r"struct Body { pos: f32x3, mass: f32 }
let b = Body { mass: 1.0, pos: f32x3(0.0) }
"
    ),
    page!(
        "E0316", "a type that can't stand there",
        r"Array elements are plain values; several dimensions are listed in one array type. A field may be an array of constant extents, but then the struct cannot be an element of an array. Only arrays can be `out` or `inout`. A dimension is from 0 to 2147483647; those of a constant array are positive numbers.",
r"kernel total(x: [f32; N], out sum: f32) threads(i: N) { sum = x[i] }
",
r"kernel total(x: [f32; N], inout sum: [f32; 1]) threads(i: N) { atomic_add(sum[0], x[i]) }
"
    ),
    page!(
        "E0317", "a change of something declared with `let`",
        r"`let` declares an immutable variable, `var` a mutable one. Loop variables and the indices of `threads(…)` are immutable.",
r"let n = 1
n += 1
",
r"var n = 1
n += 1
"
    ),
    page!(
        "E0318", "a write to a parameter that is only read",
        r"Array parameters are read-only unless they are `out` (written completely) or `inout` (read and written). Scalar parameters are immutable: copy them into a `var`.",
r"kernel double(x: [f32; N]) threads(i: N) { x[i] *= 2 }
",
r"kernel double(inout x: [f32; N]) threads(i: N) { x[i] *= 2 }
"
    ),
    page!(
        "E0319", "something that can't be assigned to",
        r"The left side of `=` is a variable, an element, a field or a component. Kernels write arrays element by element. The argument for an `out` parameter must be a variable.",
r"kernel clear(out r: [f32; N]) threads(_i: N) { r = 0.0 }
",
r"kernel clear(out r: [f32; N]) threads(i: N) { r[i] = 0.0 }
"
    ),
    page!(
        "E0320", "a pattern that does not fit its value",
        r"`let (a, b) = …` needs a tuple with as many parts as there are names.",
r"let (a, b) = (1, 2, 3)
",
r"let (a, b, c) = (1, 2, 3)
"
    ),
    page!(
        "E0321", "a loop over something that has no elements",
        r"`for` iterates over a range, an array with one axis, or the command line's `args`.",
r"for i in 10 { print(i) }
",
r"for i in 0..10 { print(i) }
"
    ),
    page!(
        "E0322", "a jump out of nothing",
        r"`break` and `continue` are only allowed in a loop, `return` only in a function or kernel.",
r"fn limit(x: f32) -> f32 {
    if x > 1 { break }
    x
}
",
r"fn limit(x: f32) -> f32 {
    if x > 1 { return 1.0 }
    x
}
"
    ),
    page!(
        "E0323", "a conversion that does not exist",
        r"Scalars convert to scalars, vectors to vectors with the same number of components. `bitcast` needs two types of the same size; a type parameter must have that size in every use. Text is converted by `parse`.",
r"let bits = bitcast(u64, 1.5f32)
",
r"let bits = bitcast(u32, 1.5f32)
"
    ),
    page!(
        "E0324", "a variable without a type or a value",
        r"A variable's type is inferred from its value or declared. Only a `var` may get its value later. Array variables of a script need an initial value.",
r"var total: [f32; 4]
print(total)
",
r"var total: [f32; 4] = 0.0
print(total)
"
    ),
    page!(
        "E0325", "an index outside of the array",
        r"Indices go from 0 to the extent minus one; negative indices do not count from the end.",
r"let x = [1.0, 2.0, 3.0]
print(x[3])
",
r"let x = [1.0, 2.0, 3.0]
print(x[len(x) - 1])
"
    ),
    page!(
        "E0326", "one variable for two parameters",
        r"The argument for an `out` or `inout` parameter belongs to that parameter until the call ends. If a second parameter had the same variable, it would overwrite it, or read it while it changes, and host and device could disagree about the result. Values are allowed: in `f(x[0], x)` and `f(sum(x), x)` they are computed before the call. A launch may have the same array as an input and as an `inout` argument; it reads a copy of the old content. In device code, neither an index nor the body of a `for` may change the array that is indexed or iterated over, if its old value cannot be copied.",
r"fn move_to(inout from: i32, inout to: i32, n: i32) {
    from -= n
    to += n
}
var x = 10
move_to(x, x, 3)
",
r"fn move_to(inout from: i32, inout to: i32, n: i32) {
    from -= n
    to += n
}
var x = 10
var y = 0
move_to(x, y, 3)
assert(x == 7 && y == 3)
"
    ),
    page!(
        "E0327", "a definition that depends on itself",
        r"A constant cannot depend on itself, and a struct cannot contain itself.",
r"const A = B + 1
const B = A + 1
",
r"const A = B + 1
const B = 1
"
    ),
    page!(
        "E0328", "a constant that overflows",
        r"Numbers without a suffix are `i32`, and so are their sums and products. Constant expressions are evaluated before the program runs; a signed result that overflows its type, and a shift by at least the width, are errors.",
r"let bytes = 100_000 * 100_000
print(bytes)
",
r"let bytes = 100_000i64 * 100_000
assert(bytes == 10_000_000_000)
"
    ),
    page!(
        "E0329", "a value of too many parts",
        r"A tuple or struct has at most 4096 parts, including those of nested tuples and structs. Use an array for many values of one type.",
r"let t1 = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)
let t2 = (t1, t1, t1, t1, t1, t1, t1, t1)
let t3 = (t2, t2, t2, t2, t2, t2, t2, t2)
let t4 = (t3, t3, t3, t3, t3, t3, t3, t3)
let t5 = (t4, t4)
print(t5)
",
r"let t = zeros(8, 8, 8, 8, 2)
print(len(t))
"
    ),
    page!(
        "E0330", "a default that a parameter cannot have",
        r"The default of a parameter is a constant: it cannot depend on other parameters, and is a scalar, a vector, a struct or a tuple; for a parameter whose type is a type parameter it is a number. `inout` parameters have no default. Parameters with a default come last, since otherwise it would be ambiguous which parameter an argument is for; only `out` arrays may follow them.",
r"fn ease(x: f32, low: f32 = 0.0, high: f32 = low + 1.0) -> f32 { clamp((x - low) / (high - low), 0.0, 1.0) }
",
r"fn ease(x: f32, low: f32 = 0.0, extent: f32 = 1.0) -> f32 { clamp((x - low) / extent, 0.0, 1.0) }
assert(ease(0.5) == 0.5 && ease(3.0, 2.0) == 1.0 && ease(1.0, extent = 4.0) == 0.25)
"
    ),
    page!(
        "E0331", "a kernel with more parameters than a launch passes",
        r"CUDA passes at most 4096 bytes to a kernel. Numbers, vectors, structs and tuples are passed by value; an array takes 8 bytes for its address and 4 for each axis, whatever its size. Pass large data in arrays.",
r"struct Table { weights: [f32; 1025] }
kernel look_up(t: Table, x: [i32; N], out y: [f32; N]) threads(i: N) { y[i] = t.weights[x[i]] }
",
r"kernel look_up(weights: [f32; K], x: [i32; N], out y: [f32; N]) threads(i: N) { y[i] = weights[x[i]] }
assert(look_up(zeros(1025), [3, 1024]) == [0.0, 0.0])
"
    ),
    page!(
        "E0332", "a derivative that cannot be formed",
        r"`grad(f)(x)` differentiates a function of the host that gives one float, by its first parameter or by those that `wrt` names; `jacobian`, `jvp` and `vjp` differentiate functions that give several numbers. Parameters and results have to be floats, or arrays, tuples and structs of them: nothing else changes continuously. A derivative is no value: call it, or write a function that calls it. Functions that change their arguments are not differentiated; let them return the new value.",
r"fn rows(x: [f32; N], n: i32) -> f32 { f32(n) * sum(x * x) }
print(grad(rows, wrt = n)([1.0, 2.0], 3))
",
r"fn rows(x: [f32; N], n: i32) -> f32 { f32(n) * sum(x * x) }
assert(grad(rows)([1.0, 2.0], 3) == [6.0, 12.0])
"
    ),
    page!(
        "E0333", "a derivative that cannot be stated",
        r"`with_grad(f, rule)(x)` calls a function of the host or a kernel, and says by which rule its derivative is found. It takes the two names, and is called with the arguments in order. The rule is a function of the same arguments and of the cotangent of the result, and gives the cotangents of those arguments that are floats, or consist of floats, in order: one, or a tuple of several. Numbers of a type parameter `T: Num` count as floats. It is tested by `gradcheck`.",
r"fn cube(x: f64) -> f64 { x * x * x }
fn rule(x: f64, d: f64) -> f64 { 3.0 * x * x * d }
print(with_grad(cube)(2.0))
",
r"fn cube(x: f64) -> f64 { x * x * x }
fn rule(x: f64, d: f64) -> f64 { 3.0 * x * x * d }
fn cubed(x: f64) -> f64 { with_grad(cube, rule)(x) }
assert(grad(cubed)(2.0) == 12.0)
gradcheck(cubed, 2.0)
"
    ),
    page!(
        "E0334", "operands that tensor cores do not multiply",
        r"`mma(acc, a, b)` adds the product of two matrices of `f16`, or of `bf16`, to a matrix of `f32`; factors of `f32` have 10 of 23 bits of fraction in tensor cores, so the text says `tf32(…)`, which rounds them. The rest has to fit: `a` has as many rows as `acc`, `b` as many columns, and `a` as many columns as `b` has rows.",
r"kernel product(a: [f32; M, K], b: [f32; K, N], out c: [f32; M, N]) grid(ceil_div(N, 16), ceil_div(M, 16)) block(32) {
    let i = 16 * block_idx.y
    let j = 16 * block_idx.x
    shared acc: [f32; 16, 16]
    acc = 0.0
    for k in 0..K step 16 { acc = mma(acc, a[i..i + 16, k..k + 16], b[k..k + 16, j..j + 16]) }
    c[i..i + 16, j..j + 16] = acc
}
",
r"kernel product(a: [bf16; M, K], b: [bf16; K, N], out c: [f32; M, N]) grid(ceil_div(N, 16), ceil_div(M, 16)) block(32) {
    let i = 16 * block_idx.y
    let j = 16 * block_idx.x
    shared acc: [f32; 16, 16]
    acc = 0.0
    for k in 0..K step 16 { acc = mma(acc, a[i..i + 16, k..k + 16], b[k..k + 16, j..j + 16]) }
    c[i..i + 16, j..j + 16] = acc
}
assert(product(bf16([[1.0, 2.0]]), bf16([[3.0], [4.0]])) == [[11.0]])
"
    ),
    page!(
        "E0335", "a tile whose threads disagree",
        r"An assignment to a whole shared array is done by the threads of a block together, and no thread knows which elements are its own. So its value cannot depend on `thread_idx`.",
r"kernel count(out y: [i32; N]) grid(ceil_div(N, 64)) block(64) {
    shared t: [i32; 64]
    t = thread_idx.x
    y[64 * block_idx.x..64 * block_idx.x + 64] = t
}
",
r"kernel count(out y: [i32; N]) grid(ceil_div(N, 64)) block(64) {
    shared t: [i32; 64]
    t = arange(64)
    y[64 * block_idx.x..64 * block_idx.x + 64] = t
}
assert(sum(count(N = 128)) == 2 * 63 * 32)
"
    ),
    page!(
        "E0401", "something of the host in a kernel",
        r"Files, text, printing of whole arrays, whole-array operators, slices and functions that create or reduce arrays run on the host. Kernels work on single elements. If the use is inside a called function, the labels show the chain of calls.",
r"kernel normalise(x: [f32; N], out r: [f32; N]) threads(i: N) { r[i] = x[i] / sum(x) }
",
r"kernel scale(x: [f32; N], total: f32, out r: [f32; N]) threads(i: N) { r[i] = x[i] / total }
let x = linspace(0.0, 1.0, 8)
let r = scale(x, sum(x))
"
    ),
    page!(
        "E0402", "something of the device in host code",
        r"Thread indices, barriers, atomics and warp operations only exist on the device: in kernels, and in functions that kernels call.",
r"let i = thread_idx.x
",
r"kernel ids(out r: [i32; N]) grid(1) block(N) { r[thread_idx.x] = thread_idx.x }
let r = ids(N = 32)
"
    ),
    page!(
        "E0403", "a block operation in a kernel with `threads(…)`",
        r"`threads(i: N)` runs the body once for each index. How threads are grouped into blocks is unspecified, so there are no barriers, warp operations, thread indices or shared memory. Use the form `grid(…) block(…)` for these.",
r"kernel shift(x: [f32; N], out r: [f32; N]) threads(i: N) {
    barrier()
    r[i] = x[i]
}
",
r"kernel shift(x: [f32; N], out r: [f32; N]) grid(ceil_div(N, 256)) block(256) {
    let i = global_idx.x
    barrier()
    if i < N { r[i] = x[i] }
}
"
    ),
    page!(
        "E0404", "recursion on the device",
        r"Kernels have no call stack, so device functions cannot be recursive. The message shows the cycle of calls.",
r"fn factorial(n: i32) -> i32 { if n < 2 { 1 } else { n * factorial(n - 1) } }
kernel table(out r: [i32; N]) threads(i: N) { r[i] = factorial(i) }
",
r"fn factorial(n: i32) -> i32 {
    var product = 1
    for k in 2..=n { product *= k }
    product
}
kernel table(out r: [i32; N]) threads(i: N) { r[i] = factorial(i) }
"
    ),
    page!(
        "E0405", "a launch inside of a kernel",
        r"Only the host can launch kernels. Move code shared by two kernels into an `fn`.",
r"kernel one(out r: [f32; N]) threads(i: N) { r[i] = 1.0 }
kernel two(out r: [f32; N]) threads(i: N) {
    one(r)
    r[i] = 2.0
}
",
r"fn value(i: i32) -> f32 { f32(i) }
kernel one(out r: [f32; N]) threads(i: N) { r[i] = value(i) }
kernel two(out r: [f32; N]) threads(i: N) { r[i] = 2 * value(i) }
"
    ),
    page!(
        "E0406", "an `out` array that is read before it is written",
        r"An `out` array is uninitialized when the kernel starts. If the old values are needed, make it `inout`.",
r"kernel accumulate(x: [f32; N], out r: [f32; N]) threads(i: N) { r[i] += x[i] }
",
r"kernel accumulate(x: [f32; N], inout r: [f32; N]) threads(i: N) { r[i] += x[i] }
"
    ),
    page!(
        "E0407", "a function that needs both worlds",
        r"A function may use features of the host or of the device, but not both, since it could run on neither.",
r"fn trace(x: [f32; N]) -> f32 {
    let total = sum(x)
    total + f32(lane_idx)
}
",
r"fn total_of(x: [f32; N]) -> f32 { sum(x) }
fn with_lane(x: f32) -> f32 { x + f32(lane_idx) }
"
    ),
    page!(
        "E0408", "a geometry that can't be launched",
        r"A launch has one to three axes, a block has 1 to 1024 threads, and the extents are computed from constants, dimensions and scalar parameters.",
r"kernel wide(out r: [f32; N]) grid(1) block(64, 64) { r[thread_idx.x] = 0.0 }
",
r"kernel wide(out r: [f32; N]) grid(1) block(32, 32) { r[thread_idx.x] = 0.0 }
"
    ),
    page!(
        "E0409", "`shared` in the wrong place or of a wrong size",
        r"Shared memory belongs to the blocks of a kernel, and its size must be the same for the whole launch: it is computed from constants, dimensions and scalar parameters. If it is the size of a block, name that: `kernel k<const T: i32 = 32>(…) grid(…) block(T)`. Pass a shared array to functions as an argument.",
r"fn sum_up(x: f32) -> f32 {
    shared part: [f32; 32]
    part[0] = x
    part[0]
}
",
r"kernel sums(x: [f32; N], out r: [f32; N]) grid(1) block(N) {
    shared part: [f32; 32]
    part[thread_idx.x] = x[thread_idx.x]
    barrier()
    r[thread_idx.x] = part[0]
}
"
    ),
    page!(
        "E0410", "a launch of something else than a kernel, or with a wrong geometry",
        r"Only kernels can be launched with `<<<grid, block>>>`. Both are an integer or a tuple of up to three, x first.",
r"fn twice(x: f32) -> f32 { 2 * x }
let y = twice<<<1, 32>>>(1.0)
",
r"kernel twice(x: [f32; N], out r: [f32; N]) threads(i: N) { r[i] = 2 * x[i] }
let y = twice<<<1, 32>>>([1.0, 2.0])
"
    ),
    page!(
        "E0411", "a placement in a type",
        r"Pinning an array to a device in its type is not supported. Arrays are moved to the device that uses them; `on gpu(0) { … }` selects the device of launches.",
r"let x: [f32; 4] @gpu = zeros(4)
",
r"let x: [f32; 4] = zeros(4)
"
    ),
    page!(
        "E0412", "a dimension that nothing fixes",
        r"A dimension that occurs only in results is not determined by any argument, so the launch must give it by name. In the body of a
function such a dimension has no value yet, since it is determined by what the function returns. One that occurs only inside of
expressions, as in `[f32; N + 1]`, follows from an extent if the expression is linear in it and the other names there are known;
`[f32; M * N]` alone does not determine `M` and `N`.",
r"kernel ramp(out r: [f32; N]) threads(i: N) { r[i] = f32(i) }
let r = ramp()
",
r"kernel ramp(out r: [f32; N]) threads(i: N) { r[i] = f32(i) }
let r = ramp(N = 16)
"
    ),
    page!(
        "E0413", "an `on` block for something that is no device",
        r"Devices are `sim`, `gpu` and `gpu(i)`.",
r"on tpu { print(1) }
",
r"on sim { print(1) }
"
    ),
    page!(
        "E0414", "an atomic operation on a private place",
        r"Atomic operations are for memory shared between threads: elements of `inout` and `shared` arrays. A function with atomic operations on its array parameter must be passed such an array as a whole: a row or a field would be copied for the call, so other threads would not see the changes.",
r"kernel count(x: [i32; N], out r: [i32; N]) threads(i: N) {
    var n = 0
    atomic_add(n, x[i])
    r[i] = n
}
",
r"kernel count(x: [i32; N], inout total: [i32; 1]) threads(i: N) { atomic_add(total[0], x[i]) }
"
    ),
    page!(
        "E0415", "an assumption that can't be tested",
        r"`assume` takes conditions on dimensions, constants and scalar parameters, and promises about array parameters of integers: `all(x >= 0)`, `all(x < N)`, `ascending(x)`, `distinct(x)`, `permutation(x)`. The last three are about arrays with one axis. An `out` array has no elements before the launch.",
r"kernel pick(x: [f32; N], at: [i32; M], out y: [f32; M]) threads(i: M)
    assume at < N
{
    y[i] = x[at[i]]
}
",
r"kernel pick(x: [f32; N], at: [i32; M], out y: [f32; M]) threads(i: M)
    assume all(at >= 0), all(at < N)
{
    y[i] = x[at[i]]
}
"
    ),
    page!(
        "E0416", "an expectation that does not exist",
        r"`expect` names what `clk check` has to prove of a kernel: `in_bounds`, `race_free`, `written` (every element of every `out` array), `barriers` (all threads of a block reach them), `no_overflow` (of what an index or a condition depends on) and `any_order` (the result does not depend on the order of threads). Some have a limit: `bank_ways <= 1` (passes of shared memory for an access of a warp) and `sectors <= 4` (sectors of 32 bytes of global memory). `max_ulp <= 2` is tested by `clk test`: how far the floats that the kernel writes are from those of the same kernel in `f64`, in units in the last place.",
r"kernel scale(x: [f32; N], out y: [f32; N]) threads(i: N)
    expect fast
{
    y[i] = 2.0 * x[i]
}
",
r"kernel scale(x: [f32; N], out y: [f32; N]) threads(i: N)
    expect in_bounds, race_free
{
    y[i] = 2.0 * x[i]
}
"
    ),
];

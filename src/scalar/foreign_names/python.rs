//! Python, and names that several languages share: text, control flow, automatic differentiation.

use super::row::{ClkEquivalent, ForeignName, NameOrigin};

const fn same(names: &'static str) -> ForeignName {
    ForeignName::new(NameOrigin::Python, names, ClkEquivalent::Same)
}

const fn name(names: &'static str, clk: &'static str) -> ForeignName {
    ForeignName::new(NameOrigin::Python, names, ClkEquivalent::Name(clk))
}

const fn code(names: &'static str, clk: &'static str, note: &'static str) -> ForeignName {
    ForeignName::new(NameOrigin::Python, names, ClkEquivalent::Code { clk, note })
}

const fn other_code(names: &'static str, clk: &'static str, note: &'static str) -> ForeignName {
    ForeignName::new(NameOrigin::Other, names, ClkEquivalent::Code { clk, note })
}

const fn absent(names: &'static str, reason: &'static str, alternative: &'static str) -> ForeignName {
    ForeignName::new(NameOrigin::Other, names, ClkEquivalent::Absent { reason, alternative })
}

pub(super) const ROWS: &[ForeignName] = &[
    same("len print pow"),
    code("range xrange", "for i in 0..n { print(i) }", "with a step, `0..n step 2`; as an array, `arange(n)`").common(),
    code("enumerate", "for i in 0..len(x) { print(i, x[i]) }", ""),
    code("zip", "for i in 0..len(x) { print(x[i], y[i]) }", "operators take both arrays as a whole: `x + y`").common(),
    code("map", "f(y)", "functions of numbers take whole arrays").common(),
    code("filter", "y[y > 0.0]", "").common(),
    name("sorted", "sort").common(),
    name("reversed reverse", "flip").common(),
    absent("list", "arrays are the only sequences", "write `[1.0, 2.0]`, or `zeros(n)` for elements set later")
        .common(),
    absent("dict", "there are no dictionaries", "use a `struct`, or one array of keys and one of values"),
    code("set", "sort.unique(x)", "it has each value once, in order").common(),
    code("tuple", "(x, y)", "").common(),
    other_code("push push_back emplace_back extend extend_from_slice", "concat(x, y)", "a single element is `[v]`")
        .common(),
    absent(
        "input",
        "a script does not wait for input",
        "`args[0]` is the first argument of the command line, and `read_text(path)` reads a file",
    )
    .common(),
    code("open fopen", "read_text(path)", "`write_text(path, text)` writes a file").common(),
    code("lambda", "fn square(x: f32) -> f32 { x * x }", "a function is passed by its name"),
    code("def func function", "fn square(x: f32) -> f32 { x * x }", "").common(),
    code("class", "struct Particle { mass: f32, speed: f32 }", "the code that works on it is a `fn`").common(),
    absent("yield", "functions return once", "return an array, or print inside the loop").common(),
    code(
        "try except catch throw raise",
        "assert(len(x) > 0, \"no elements\")",
        "there are no exceptions; a failed assertion ends the script",
    )
    .common(),
    code("with", "read_text(path)", "files are read and written as a whole, and closed automatically").common(),
    name("is", "=="),
    name("and", "&&"),
    name("or", "||"),
    name("not", "!"),
    absent(
        "None null nullptr NULL nil",
        "every variable has a value",
        "use a value that cannot occur, such as `-1`, or a `bool` beside it",
    ),
    name("True TRUE", "true"),
    name("False FALSE", "false"),
    // PyTorch and JAX
    other_code("cat", "concat(x, y)", "`concat(a, b, axis = 1)` joins along another axis").common(),
    other_code("unsqueeze", "reshape(x, -1, 1)", "`reshape(x, 1, -1)` is a row"),
    absent("cpu", "arrays move to the device that uses them", "use the array itself").common(),
    absent(
        "vmap jit",
        "functions take whole arrays and kernels are compiled when launched",
        "call the function: `f(x)`",
    ),
    // Modules
    absent("math", "mathematical functions need no prefix", "write `sqrt(x)`; `import std.math` has more functions"),
    // Text
    name("strip", "trim").common(),
    name("startswith startsWith hasPrefix", "starts_with"),
    name("endswith endsWith hasSuffix", "ends_with"),
    name("splitlines readlines", "lines").common(),
    name("indexOf index_of strstr", "find").common(),
    name("toupper to_upper toUpperCase to_uppercase uppercase", "upper"),
    name("tolower to_lower toLowerCase to_lowercase lowercase", "lower"),
    other_code("tostring to_string format", "\"n = {n}\"", "`str(n)` is the text of a single value").common(),
    name("echo println disp", "print").common(),
    name("ifelse", "select"),
    name("iota", "arange"),
    name("replicate", "full"),
    absent(
        "iter into_iter iter_mut collect to_vec cloned",
        "arrays need no iterators",
        "leave the call out, and use the array itself",
    ),
    // Other mathematical functions
    other_code("stddev stdev", "sqrt(mean((x - mean(x)) ** 2.0))", "").common(),
    other_code("mix", "math.lerp(low, high, v)", "").common(),
    // Automatic differentiation
    absent(
        "backward autograd",
        "derivatives belong to functions, not to arrays",
        "`grad(f)(x)` is the gradient of `f` at `x`",
    ),
    other_code("detach stop_gradient no_diff", "no_grad(x)", "derivatives treat it as a constant"),
    name("custom_vjp custom_gradient custom_grad defvjp", "with_grad"),
    name("check_grads check_grad grad_check", "gradcheck"),
];

//! NumPy, and libraries with its functions: CuPy, JAX, PyTorch.

use super::row::{ClkEquivalent, ForeignName, NameOrigin};

const fn same(names: &'static str) -> ForeignName {
    ForeignName::new(NameOrigin::NumPy, names, ClkEquivalent::Same)
}

const fn name(names: &'static str, clk: &'static str) -> ForeignName {
    ForeignName::new(NameOrigin::NumPy, names, ClkEquivalent::Name(clk))
}

const fn code(names: &'static str, clk: &'static str, note: &'static str) -> ForeignName {
    ForeignName::new(NameOrigin::NumPy, names, ClkEquivalent::Code { clk, note })
}

const fn absent(names: &'static str, reason: &'static str, alternative: &'static str) -> ForeignName {
    ForeignName::new(NameOrigin::NumPy, names, ClkEquivalent::Absent { reason, alternative })
}

pub(super) const ROWS: &[ForeignName] = &[
    same(
        "abs all any arange argmax argmin argsort cbrt ceil cos cosh cross cumsum dot exp exp2 expm1 eye flip floor full \
         hypot isfinite isinf isnan linspace load log log10 log1p log2 max mean min ones prod random reshape round save \
         shape sign sin sinh sort sqrt stack sum tan tanh transpose trunc zeros",
    ),
    absent(
        "np numpy cp cupy jnp torch scipy",
        "array functions need no module",
        "`zeros(3, 4)`, `sum(x, axis = 0)` and `a @ b` work without an import",
    ),
    // Creation of arrays
    code("array", "[1.0, 2.0, 3.0]", "`zeros(n)`, `ones(n)` and `full(n, v)` create arrays too").common(),
    absent(
        "asarray ascontiguousarray from_numpy",
        "arrays are values that need no wrapper",
        "use the array itself; `f32(x)` converts its elements",
    ),
    code("empty", "zeros(n)", "all memory is initialized").common(),
    code("zeros_like empty_like", "zeros(shape(x))", "the elements are `f32` unless `type = …` says otherwise"),
    code("ones_like", "ones(shape(x))", "the elements are `f32` unless `type = …` says otherwise"),
    code("full_like", "full(shape(x), v)", ""),
    name("identity", "eye").common(),
    code("logspace", "exp10(linspace(0.0, 2.0, n))", ""),
    code("copy", "var z = x", "an assignment copies, because arrays are values").common(),
    code("meshgrid", "reshape(y, -1, 1) + x", "a column and a row broadcast, so no grid is needed"),
    code("diag", "eye(len(x)) * x", "the diagonal of a matrix is `a[arange(n), arange(n)]`"),
    code("diagonal", "a[arange(n), arange(n)]", ""),
    code("tril", "select(reshape(arange(n), -1, 1) >= arange(n), a, 0.0)", ""),
    code("triu", "select(reshape(arange(n), -1, 1) <= arange(n), a, 0.0)", ""),
    code("tile", "x[arange(k * len(x)) % len(x)]", "`k` is the number of repetitions").common(),
    code("repeat", "x[arange(k * len(x)) / k]", "`k` is the number of repetitions").common(),
    // Random numbers
    name("rand", "random").common(),
    code("uniform", "low + (high - low) * random(n)", "").common(),
    name("randn standard_normal", "random_normal").common(),
    code("normal", "mu + sigma * random_normal(n)", "").common(),
    name("randint integers", "random_int").common(),
    code("choice", "x[random_int(0, len(x), k)]", "").common(),
    code("permutation", "argsort(random(n))", "a permuted array is `x[argsort(random(len(x)))]`").common(),
    code("shuffle", "x[argsort(random(len(x)))]", "the result is a new array"),
    name("seed", "seed_random").common(),
    code("default_rng", "random(n, seed = 7)", "a call with a `seed` always gives the same numbers"),
    // Shapes
    code("size numel", "len(x)", "for several axes it is the product of the extents in `shape(x)`").common(),
    absent("ndim", "the type of an array states its axes", "`[f32; M, N]` has two, and `shape(x)` lists their extents"),
    absent(
        "dtype",
        "the type of an array states its elements",
        "`[f32; N]` has elements of type `f32`; `f32(x)` converts them",
    ),
    code("T", "transpose(x)", "").common(),
    code("ravel flatten", "reshape(x, -1)", ""),
    absent(
        "swapaxes moveaxis rollaxis permute",
        "`transpose` can only reverse the order of all axes",
        "write a kernel for any other order: `r[j, i, k] = x[i, j, k]`",
    ),
    code("expand_dims newaxis", "reshape(x, -1, 1)", "`reshape(x, 1, -1)` is a row"),
    code("squeeze", "reshape(x, -1)", "with more than one axis left, state their extents: `reshape(x, m, n)`"),
    code("concatenate", "concat(x, y)", "`concat(a, b, axis = 1)` joins along another axis"),
    code("hstack", "concat(x, y)", "for matrices, `concat(a, b, axis = 1)`"),
    code("vstack row_stack", "stack(x, y)", "for matrices, `concat(a, b)`"),
    code("column_stack", "transpose(stack(x, y))", ""),
    code("append", "concat(x, y)", "a single element is `[v]`").common(),
    code("split array_split", "(x[..k], x[k..])", ""),
    code("fliplr", "flip(a, axis = 1)", ""),
    name("flipud", "flip"),
    code("rot90", "flip(transpose(x))", ""),
    code("roll", "concat(x[len(x) - k..], x[..len(x) - k])", "").common(),
    code("pad", "concat(zeros(k), x, zeros(k))", "").common(),
    code("broadcast_to", "x + zeros(m, n)", "operators broadcast, so it is rarely needed"),
    code("delete", "x[arange(len(x)) != i]", "").common(),
    code("insert", "concat(x[..i], [v], x[i..])", "").common(),
    code("astype", "f32(x)", "the type is the name of the function; `bitcast(u32, x)` keeps the bits"),
    code("view", "bitcast(u32, x)", "").common(),
    code("item", "x[0]", "").common(),
    absent(
        "tolist",
        "arrays are the only sequences",
        "`x[i]` is an element, and `for i in 0..len(x) { … }` visits all",
    ),
    // Selection
    code("take", "x[indices]", "").common(),
    code("compress extract", "y[p]", "`p` is an array of `bool`").common(),
    code("take_along_axis", "a[arange(n), indices]", ""),
    name("where", "select").common(),
    code("select", "select(p, x, select(q, y, 0.0))", "one call for each condition"),
    code("nonzero argwhere flatnonzero", "arange(len(x))[x != 0.0]", ""),
    code("put putmask", "x[indices] = v", "").common(),
    code("fill", "x[..] = v", "`full(n, v)` creates an array").common(),
    code("unravel_index", "(i / n, i % n)", "`n` is the number of columns"),
    code("argpartition partition", "argsort(x)[..k]", ""),
    // Elementwise functions
    code("add", "x + y", "").common(),
    code("subtract", "x - y", "").common(),
    code("multiply", "x * y", "").common(),
    code("divide true_divide", "x / y", "the quotient of integers is an integer").common(),
    code("power float_power", "x ** y", "").common(),
    code("mod remainder", "(x % y + y) % y", "`x % y` has the sign of `x`").common(),
    code("fmod", "x % y", ""),
    code("floor_divide", "floor(x / y)", "integers are divided toward zero: `i / j`"),
    code("negative", "-x", "").common(),
    code("square", "x * x", "").common(),
    code("reciprocal", "1.0 / x", "").common(),
    code("equal", "x == y", "").common(),
    code("not_equal", "x != y", ""),
    code("greater", "x > y", "").common(),
    code("greater_equal", "x >= y", ""),
    code("less", "x < y", "").common(),
    code("less_equal", "x <= y", ""),
    code("logical_and", "p & q", "for single values, `p && q`"),
    code("logical_or", "p | q", "for single values, `p || q`"),
    code("logical_not", "!p", ""),
    code("logical_xor", "p != q", ""),
    code("bitwise_and", "i & j", ""),
    code("bitwise_or", "i | j", ""),
    code("bitwise_xor", "i ^ j", ""),
    code("bitwise_not invert", "!i", ""),
    code("left_shift", "i << j", ""),
    code("right_shift", "i >> j", ""),
    name("absolute", "abs").common(),
    name("arccos", "acos"),
    name("arcsin", "asin"),
    name("arctan", "atan"),
    name("arctan2", "atan2"),
    name("arccosh", "acosh"),
    name("arcsinh", "asinh"),
    name("arctanh", "atanh"),
    name("around", "round").common(),
    name("maximum", "max").common(),
    name("minimum", "min").common(),
    name("clip", "clamp"),
    code("deg2rad radians", "math.radians(x)", ""),
    code("rad2deg degrees", "math.degrees(x)", ""),
    code("logaddexp", "max(x, y) + log1p(exp(-abs(x - y)))", ""),
    code("nan_to_num", "select(isnan(x), 0.0, x)", ""),
    code("sinc", "math.sinc(f32(math.PI) * x)", "`math.sinc(x)` is `sin(x) / x`"),
    code("real", "z.x", "a complex number is an `f32x2`").common(),
    code("imag", "z.y", "a complex number is an `f32x2`").common(),
    code("angle", "atan2(z.y, z.x)", "a complex number is an `f32x2`").common(),
    code("nan NaN NAN", "0.0 / 0.0", "`isnan(x)` tests for it"),
    code("inf Inf INFINITY infinity HUGE_VAL", "1.0 / 0.0", "`isinf(x)` tests for it"),
    code("pi M_PI Math.PI", "f32(math.PI)", "`PI` itself is an `f64`").common(),
    absent("vectorize", "operators and functions take whole arrays", "call the function with an array: `f(x)`"),
    // Reductions
    name("amax", "max").common(),
    name("amin", "min").common(),
    name("average", "mean").common(),
    code("ptp", "max(x) - min(x)", ""),
    code("var variance", "mean((x - mean(x)) ** 2.0)", "").common(),
    code(
        "std",
        "sqrt(mean((x - mean(x)) ** 2.0))",
        "a module of the standard library is imported first: `import std.math`",
    ),
    code("median", "sort(x)[len(x) / 2]", "for an odd number of elements").common(),
    code(
        "percentile quantile",
        "sort(x)[i32(0.9 * f32(len(x) - 1))]",
        "for the 90th percentile, without interpolation",
    ),
    code("count_nonzero", "sum(i32(x != 0.0))", ""),
    code("cumprod", "exp(cumsum(log(x)))", "for positive elements; otherwise use a loop"),
    code("diff", "x[1..] - x[..len(x) - 1]", ""),
    code(
        "gradient",
        "(x[2..] - x[..len(x) - 2]) / 2.0",
        "this leaves out both ends; the derivative of a function is `grad(f)`",
    )
    .common(),
    code("trapezoid trapz", "sum(x[1..] + x[..len(x) - 1]) * 0.5", "times the distance of the points"),
    code("nansum", "sum(x[!isnan(x)])", ""),
    code("nanmean", "mean(x[!isnan(x)])", ""),
    code("nanmax", "max(x[!isnan(x)])", ""),
    code("nanmin", "min(x[!isnan(x)])", ""),
    code("cov", "sum((x - mean(x)) * (y - mean(y))) / f32(len(x) - 1)", ""),
    code(
        "corrcoef",
        "mean((x - mean(x)) * (y - mean(y))) / sqrt(mean((x - mean(x)) ** 2.0) * mean((y - mean(y)) ** 2.0))",
        "",
    ),
    // Linear algebra
    code("matmul mm bmm", "a @ b", ""),
    name("inner vdot", "dot"),
    code("outer", "reshape(x, -1, 1) * y", "").common(),
    code("kron", "reshape(reshape(a, n, 1, n, 1) * reshape(b, 1, n, 1, n), n * n, n * n)", "for `n` by `n` matrices"),
    code("trace", "sum(a * eye(n))", "for an `n` by `n` matrix").common(),
    code("norm", "linalg.norm(x)", "").common(),
    absent(
        "einsum tensordot",
        "the names of axes are not values",
        "use broadcasting and `sum(…, axis = k)`, `a @ b`, or a kernel with loops",
    ),
    absent(
        "solve inv pinv det lstsq cholesky qr",
        "there are no matrix factorizations yet",
        "`examples/gaussian_elimination.clk` solves a system of equations",
    ),
    absent(
        "svd eig eigh eigvals",
        "there are no matrix factorizations yet",
        "`examples/pca.clk` finds leading eigenvectors",
    ),
    code("fft", "fft.fft(z)", "complex numbers are `f32x2`").common(),
    code("ifft", "fft.ifft(z)", "complex numbers are `f32x2`"),
    // Sorting, counting, sets
    code("unique", "sort.unique(x)", "").common(),
    code("bincount", "histogram.of_values(indices, n)", ""),
    code("histogram", "histogram.of_range(x, low, high, n)", "").common(),
    code(
        "searchsorted",
        "sum(i32(reshape(y, -1, 1) > x), axis = 1)",
        "it gives the positions of `y` in the sorted array `x`",
    ),
    code("digitize", "sum(i32(reshape(x, -1, 1) >= y), axis = 1)", "`y` has the edges"),
    code("isin in1d", "sum(i32(reshape(x, -1, 1) == y), axis = 1) > 0", ""),
    name("allclose isclose", "close"),
    code("array_equal", "all(x == y)", "for arrays of the same shape"),
    absent(
        "interp polyfit",
        "interpolation and fits are not implemented",
        "write a kernel that finds the neighbors of each point",
    ),
    absent(
        "convolve correlate",
        "the treatment of borders must be explicit",
        "add shifted slices, `0.5 * x[1..] + 0.5 * x[..len(x) - 1]`, or write a kernel",
    ),
    // Files
    code("loadtxt genfromtxt read_csv", "load(\"x.csv\")", "columns with titles become fields: `table.title`"),
    code("savetxt to_csv", "save(\"x.csv\", x)", ""),
    code("savez", "save(\"arrays.npz\", x = x, y = y)", ""),
];

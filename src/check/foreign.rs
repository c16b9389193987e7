//! Words of CUDA, C, NumPy, Numba and Triton, with Clk's equivalent of each: for messages about unknown names, and for the search of the
//! documentation.

/// Clk's equivalent of a word of another language.
#[derive(Clone, Copy)]
pub struct Foreign {
    /// Clk's word, if it is a drop-in replacement.
    pub word: Option<&'static str>,
    pub help: &'static str,
    /// The word is also plain English, so it may be a misspelled or undeclared variable.
    pub plain: bool,
}

const fn same(word: &'static str) -> Foreign {
    Foreign { word: Some(word), help: "", plain: false }
}

/// Like [`same`], for a word that may as well be a variable's name.
const fn like(word: &'static str) -> Foreign {
    Foreign { word: Some(word), help: "", plain: true }
}

const fn other(help: &'static str) -> Foreign {
    Foreign { word: None, help, plain: false }
}

/// Like [`other`], for a word that may as well be a variable's name.
const fn hint(help: &'static str) -> Foreign {
    Foreign { word: None, help, plain: true }
}

/// Names of other languages that are used as values or functions. Names in one row are separated by spaces.
const VALUES: &[(&str, Foreign)] = &[
    ("threadIdx", same("thread_idx")),
    ("blockIdx", same("block_idx")),
    ("blockDim", same("block_dim")),
    ("gridDim", same("grid_dim")),
    ("warpSize", same("warp_size")),
    ("laneId lane_id", same("lane_idx")),
    ("warp_id warpId", same("warp_idx")),
    ("thread_id", like("thread_idx")),
    ("block_id", like("block_idx")),
    ("__syncthreads syncthreads sync_threads workgroupBarrier __syncthread", same("barrier")),
    ("__syncthreads_or", same("barrier_any")),
    ("__syncthreads_and", same("barrier_all")),
    ("__syncthreads_count", same("barrier_count")),
    ("__syncwarp syncwarp", same("warp_barrier")),
    ("__threadfence threadfence", same("fence")),
    ("__threadfence_block", same("fence_block")),
    ("atomicAdd", same("atomic_add")),
    ("atomicSub", same("atomic_sub")),
    ("atomicMin", same("atomic_min")),
    ("atomicMax", same("atomic_max")),
    ("atomicAnd", same("atomic_and")),
    ("atomicOr", same("atomic_or")),
    ("atomicXor", same("atomic_xor")),
    ("atomicExch", same("atomic_exchange")),
    ("atomicCAS", same("atomic_compare_exchange")),
    ("__shfl __shfl_sync", other("Clk calls it `shuffle(v, lane)`; a mask is its argument `among`")),
    ("__shfl_xor __shfl_xor_sync", other("Clk calls it `shuffle_xor(v, lane)`; a mask is its argument `among`")),
    ("__shfl_up __shfl_up_sync", other("Clk calls it `shuffle_up(v, delta)`; a mask is its argument `among`")),
    ("__shfl_down __shfl_down_sync", other("Clk calls it `shuffle_down(v, delta)`; a mask is its argument `among`")),
    ("__ballot __ballot_sync", other("Clk calls it `ballot(p)`; a mask is its argument `among`")),
    ("__any_sync", other("Clk calls it `warp_any(p)`; a mask is its argument `among`")),
    ("__all_sync", other("Clk calls it `warp_all(p)`; a mask is its argument `among`")),
    ("__match_any_sync", other("Clk calls it `match_any(v)`; a mask is its argument `among`")),
    ("__reduce_add_sync", other("Clk calls it `warp_reduce_add(v)`; a mask is its argument `among`")),
    (
        "__activemask activemask active_mask",
        other(
            "which lanes a GPU runs together is not defined: say it before the branch, `let m = ballot(p)`, and in it `among = m`",
        ),
    ),
    ("__popc __popcll popc", same("popcount")),
    ("__clz __clzll", same("clz")),
    ("__brev", same("reverse_bits")),
    ("__mulhi __umulhi", same("mul_hi")),
    ("__ldg", same("cached")),
    ("sqrtf", same("sqrt")),
    ("rsqrtf", same("rsqrt")),
    ("cbrtf", same("cbrt")),
    ("expf __expf", same("exp")),
    ("exp2f", same("exp2")),
    ("logf __logf", same("log")),
    ("log2f", same("log2")),
    ("log10f", same("log10")),
    ("sinf __sinf", same("sin")),
    ("cosf __cosf", same("cos")),
    ("tanf", same("tan")),
    ("tanhf", same("tanh")),
    ("atan2f", same("atan2")),
    ("powf __powf powi", same("pow")),
    ("floorf", same("floor")),
    ("ceilf", same("ceil")),
    ("roundf rint rintf", same("round")),
    ("truncf", same("trunc")),
    ("fmaf __fmaf_rn", same("fma")),
    ("fmaxf fmax", same("max")),
    ("maximum", like("max")),
    ("fminf fmin", same("min")),
    ("minimum", like("min")),
    ("fabsf fabs", same("abs")),
    ("erff", same("erf")),
    ("hypotf", same("hypot")),
    ("cdiv div_ceil divup div_up", same("ceil_div")),
    ("printf println echo", other("Clk's is `print(\"x = {x}\")`: values stand in the text between braces")),
    ("range xrange", hint("a range is written `0..n`, with a step `0..n step 2`")),
    ("where", like("select")),
    ("store", hint("`x[i] = v` writes an element; what Triton masks is an `if`: `if i < N { x[i] = v }`")),
    ("empty", hint("an array is made by `zeros(…)`, `ones(…)` or `full(…, value)`")),
    ("array", hint("an array is written `[1.0, 2.0, 3.0]`, or made by `zeros(…)` and its kin")),
    ("rand uniform", like("random")),
    ("randn normal", like("random_normal")),
    ("randint", same("random_int")),
    ("amax", like("max")),
    ("amin", like("min")),
    ("allclose isclose", same("close")),
    ("concatenate cat", like("concat")),
    ("strip", like("trim")),
    ("startswith startsWith hasPrefix", same("starts_with")),
    ("endswith endsWith hasSuffix", same("ends_with")),
    ("splitlines readlines", like("lines")),
    ("indexOf index_of strstr", like("find")),
    ("toupper to_upper toUpperCase to_uppercase uppercase", same("upper")),
    ("tolower to_lower toLowerCase to_lowercase lowercase", same("lower")),
    ("open fopen", hint("`read_text(path)` gives the text of a file, `write_text(path, text)` writes one")),
    ("read_csv loadtxt genfromtxt", like("load")),
    ("to_csv savetxt", like("save")),
    ("size", like("len")),
    (
        "np numpy cp cupy jnp torch",
        other("Clk's array functions need no prefix: `zeros(3, 4)`, `sum(x, axis = 0)`, `a @ b`"),
    ),
    (
        "tl triton",
        other(
            "Clk has no tiles of pointers: `block_idx.x` is `tl.program_id(0)`, and `x[i]` loads and stores one element",
        ),
    ),
    ("cuda numba", other("`cuda.grid(1)` is `global_idx.x`; `cuda.syncthreads()` is `barrier()`")),
    ("math", other("the C mathematical functions need no prefix: `sqrt(x)`; `import std.math` has more")),
    (
        "std stddev stdev",
        other(
            "the standard deviation is `sqrt(mean((x - mean(x)) ** 2))`; a module is imported first: `import std.math`",
        ),
    ),
    ("variance", hint("the variance is `mean((x - mean(x)) ** 2)`")),
    ("median", hint("the median is in the middle of `sort(x)`")),
    ("mix", hint("`std.math` has it as `lerp(a, b, t)`: `import std.math.{lerp}`")),
    ("tostring to_string format", hint("text with values in it is written `\"n = {n}\"`; `str(n)` is that of one")),
    (
        "numthreads workgroup_size local_size_x launch_bounds",
        other(
            "a kernel's head says how many threads a block has: `grid(ceil_div(N, 64)) block(64)`, or just `threads(i: N)`",
        ),
    ),
    ("None null nullptr NULL nil", other("Clk has no null value")),
    ("True TRUE", same("true")),
    ("False FALSE", same("false")),
    ("and", same("&&")),
    ("or", same("||")),
    ("not", same("!")),
    (
        "malloc cudaMalloc cudaMemcpy",
        other("arrays live where they are used: nothing is allocated, copied or freed by hand"),
    ),
    ("cudaDeviceSynchronize", other("nothing has to be waited for: a result is there when it is read")),
    ("backward autograd", other("`grad(f)(x)` is the gradient of a function")),
    ("detach stop_gradient no_diff", other("`no_grad(x)` is `x`, taken as a constant by derivatives")),
    ("custom_vjp custom_gradient custom_grad defvjp", same("with_grad")),
    ("check_grads check_grad grad_check", same("gradcheck")),
    ("vmap jit", other("operators and functions take arrays, and kernels are compiled as they are launched")),
    ("pi M_PI Math.PI", hint("`std.math` has it: `import std.math.{PI}`, which is an `f64`; `f32(PI)` converts")),
    ("nan NaN NAN", other("there is no name for it: `0.0 / 0.0` is not a number, and `isnan(x)` asks")),
    (
        "inf Inf INFINITY infinity HUGE_VAL",
        other("there is no name for it: `1.0 / 0.0` is infinite, and `isinf(x)` asks"),
    ),
    (
        "static_cast reinterpret_cast astype",
        other("a conversion is written `f32(x)`, a reinterpretation of bits `bitcast(u32, x)`"),
    ),
];

/// Members of modules of other languages.
const MEMBERS: &[(&str, Foreign)] = &[
    (
        "cuda.grid",
        other("`cuda.grid(1)` is `global_idx.x`; a kernel with `threads(i: N)` needs neither it nor a guard"),
    ),
    ("cuda.gridsize", other("`cuda.gridsize(1)` is `grid_dim.x * block_dim.x`")),
    ("cuda.threadIdx", same("thread_idx")),
    ("cuda.blockIdx", same("block_idx")),
    ("cuda.blockDim", same("block_dim")),
    ("cuda.gridDim", same("grid_dim")),
    ("cuda.laneid", same("lane_idx")),
    ("cuda.warpsize", same("warp_size")),
    ("cuda.syncthreads", same("barrier")),
    ("cuda.syncwarp", same("warp_barrier")),
    ("cuda.threadfence", same("fence")),
    ("cuda.shared", other("shared memory is declared as `shared tile: [f32; 16, 17]`")),
    ("cuda.local", other("a local array is declared as `var acc: [f32; 8] = 0.0`")),
    ("cuda.atomic", other("an atomic operation names its place: `atomic_add(x[i], 1)`")),
    (
        "cuda.to_device cuda.device_array cuda.device_array_like",
        other("arrays live where they are used: nothing is copied by hand"),
    ),
    ("cuda.synchronize", other("nothing has to be waited for: a result is there when it is read")),
    ("tl.program_id", other("`tl.program_id(0)` is `block_idx.x`")),
    ("tl.num_programs", other("`tl.num_programs(0)` is `grid_dim.x`")),
    (
        "tl.arange",
        other(
            "a block is made of threads, each with one element: `thread_idx.x` is its place, `global_idx.x` its index",
        ),
    ),
    ("tl.load", other("`x[i]` reads an element; a mask is an `if`: `if i < N { x[i] } else { 0.0 }`")),
    ("tl.store", other("`x[i] = v` writes an element; a mask is an `if`: `if i < N { x[i] = v }`")),
    ("tl.constexpr", other("a compile-time parameter stands in angle brackets: `kernel k<const BLOCK: i32 = 128>(…)`")),
    (
        "tl.dot",
        other("a product of tiles is a loop over `k`; of whole arrays it is `a @ b` in a script, or `std.linalg`"),
    ),
    ("tl.sum", other("`warp_reduce_add(v)` adds up a warp; `std.reduce` has whole arrays")),
    (
        "tl.max",
        other("`warp_reduce_max(v)` goes over a warp, `max(a, b)` takes two numbers; `std.reduce` has whole arrays"),
    ),
    ("tl.zeros", other("a local array is declared as `var acc: [f32; 8] = 0.0`")),
    ("tl.float32 tl.float16 tl.int32 tl.float64", other("types are called `f32`, `f16`, `i32`, `f64`")),
    (
        "np.pi cp.pi numpy.pi cupy.pi jnp.pi torch.pi",
        other("`std.math` has it: `import std.math.{PI}`, which is an `f64`; `f32(PI)` converts"),
    ),
    (
        "np.float32 cp.float32 numpy.float32 cupy.float32 jnp.float32 torch.float32 np.float64 cp.float64 numpy.float64 cupy.float64 jnp.float64 torch.float64 np.int32 cp.int32 numpy.int32 cupy.int32 jnp.int32 torch.int32 np.uint8 cp.uint8 numpy.uint8 cupy.uint8 jnp.uint8 torch.uint8",
        other("types are called `f32`, `f64`, `i32`, `u8`; `f32(x)` converts"),
    ),
];

/// Names of types in other languages.
const TYPES: &[(&str, Foreign)] = &[
    ("float float32 float32_t", same("f32")),
    ("double float64", same("f64")),
    ("half __half float16", same("f16")),
    ("__nv_bfloat16 bfloat16", same("bf16")),
    ("int int32 int32_t", same("i32")),
    ("uint uint32 uint32_t unsigned", same("u32")),
    ("short int16 int16_t", same("i16")),
    ("ushort uint16 uint16_t", same("u16")),
    ("char int8 int8_t", same("i8")),
    ("uchar byte uint8 uint8_t", same("u8")),
    ("int64 int64_t long longlong isize ptrdiff_t", same("i64")),
    ("uint64 uint64_t size_t usize", same("u64")),
    ("boolean Bool", same("bool")),
    ("string String char*", same("str")),
    ("float2 vec2", same("f32x2")),
    ("float3 vec3", same("f32x3")),
    ("float4 vec4", same("f32x4")),
    ("double2", same("f64x2")),
    ("double3", same("f64x3")),
    ("double4", same("f64x4")),
    ("int2", same("i32x2")),
    ("int3 dim3", same("i32x3")),
    ("int4", same("i32x4")),
    ("uint2", same("u32x2")),
    ("uint3", same("u32x3")),
    ("uint4", same("u32x4")),
    ("uchar4", same("u8x4")),
    ("half2 __half2", same("f16x2")),
    ("void", other("leave the result type off")),
    ("auto", other("leave the type off: it is inferred")),
    ("Tensor ndarray Array Vec", other("an array type is written `[f32; N]` or `[f32; M, N]`")),
];

fn find(table: &[(&str, Foreign)], name: &str) -> Option<Foreign> {
    table.iter().find(|(names, _)| names.split(' ').any(|known| known == name)).map(|(_, foreign)| *foreign)
}

/// Looks up a foreign name used as a value or a function.
pub(crate) fn value(name: &str) -> Option<Foreign> {
    find(VALUES, name)
}

/// Looks up a foreign name used as a type.
pub(crate) fn type_name(name: &str) -> Option<Foreign> {
    find(TYPES, name)
}

/// Looks up a member of a foreign module: `np.sqrt`, `cuda.grid`, `tl.load`.
pub(crate) fn member(module: &str, member: &str) -> Option<Foreign> {
    let specific = find(MEMBERS, &format!("{module}.{member}"));
    let knows = matches!(module, "np" | "numpy" | "cp" | "cupy" | "jnp" | "torch" | "math" | "tl" | "cuda" | "std");
    let entry = crate::lang::builtin::find(member).filter(|_| knows);
    specific.or_else(|| entry.map(|e| Foreign { word: Some(e.name), help: "", plain: false })).or_else(|| {
        let foreign = value(member).filter(|_| knows);
        foreign.filter(|f| f.word.is_some())
    })
}

/// All foreign names with their equivalents. Names with the same one stand together, separated by spaces.
pub fn names() -> impl Iterator<Item = (&'static str, Foreign)> {
    [VALUES, MEMBERS, TYPES].into_iter().flatten().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_words_lead_to_builtins_that_exist() {
        for word in ["threadIdx", "__syncthreads", "atomicAdd", "sqrtf", "fmaxf", "randn"] {
            let to = value(word).and_then(|f| f.word);
            assert!(to.is_some_and(|w| crate::lang::builtin::find(w).is_some()), "{word}");
        }
    }

    #[test]
    fn no_name_has_two_meanings() {
        for table in [VALUES, MEMBERS, TYPES] {
            let mut names: Vec<&str> = table.iter().flat_map(|(names, _)| names.split(' ')).collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(count, names.len());
        }
    }
}

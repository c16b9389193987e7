//! CUDA, OpenCL, Numba, Warp, and shading languages.

use super::row::{ClkEquivalent, ForeignName, NameOrigin};

const fn same(names: &'static str) -> ForeignName {
    ForeignName::new(NameOrigin::Cuda, names, ClkEquivalent::Same)
}

const fn name(names: &'static str, clk: &'static str) -> ForeignName {
    ForeignName::new(NameOrigin::Cuda, names, ClkEquivalent::Name(clk))
}

const fn code(names: &'static str, clk: &'static str, note: &'static str) -> ForeignName {
    ForeignName::new(NameOrigin::Cuda, names, ClkEquivalent::Code { clk, note })
}

const fn absent(names: &'static str, reason: &'static str, alternative: &'static str) -> ForeignName {
    ForeignName::new(NameOrigin::Cuda, names, ClkEquivalent::Absent { reason, alternative })
}

const fn other_code(names: &'static str, clk: &'static str, note: &'static str) -> ForeignName {
    ForeignName::new(NameOrigin::Other, names, ClkEquivalent::Code { clk, note })
}

const fn numba_name(names: &'static str, clk: &'static str) -> ForeignName {
    ForeignName::new(NameOrigin::Numba, names, ClkEquivalent::Name(clk))
}

const fn numba_code(names: &'static str, clk: &'static str, note: &'static str) -> ForeignName {
    ForeignName::new(NameOrigin::Numba, names, ClkEquivalent::Code { clk, note })
}

const fn numba_absent(names: &'static str, reason: &'static str, alternative: &'static str) -> ForeignName {
    ForeignName::new(NameOrigin::Numba, names, ClkEquivalent::Absent { reason, alternative })
}

const fn warp_code(names: &'static str, clk: &'static str, note: &'static str) -> ForeignName {
    ForeignName::new(NameOrigin::Warp, names, ClkEquivalent::Code { clk, note })
}

const fn warp_absent(names: &'static str, reason: &'static str, alternative: &'static str) -> ForeignName {
    ForeignName::new(NameOrigin::Warp, names, ClkEquivalent::Absent { reason, alternative })
}

/// The note of warp operations whose first argument is a mask in CUDA.
const MASK: &str = "a mask of lanes is its argument `among`";

pub(super) const ROWS: &[ForeignName] = &[
    same("assert"),
    name("threadIdx", "thread_idx"),
    name("blockIdx", "block_idx"),
    name("blockDim", "block_dim"),
    name("gridDim", "grid_dim"),
    name("warpSize", "warp_size"),
    name("laneId lane_id", "lane_idx"),
    name("warp_id warpId", "warp_idx"),
    name("thread_id", "thread_idx").common(),
    name("block_id", "block_idx").common(),
    // Barriers and fences
    name("__syncthreads syncthreads sync_threads workgroupBarrier __syncthread", "barrier"),
    name("__syncthreads_or", "barrier_any"),
    name("__syncthreads_and", "barrier_all"),
    name("__syncthreads_count", "barrier_count"),
    name("__syncwarp syncwarp", "warp_barrier"),
    name("__threadfence threadfence", "fence"),
    name("__threadfence_block", "fence_block"),
    // Atomics
    name("atomicAdd", "atomic_add"),
    name("atomicSub", "atomic_sub"),
    name("atomicMin", "atomic_min"),
    name("atomicMax", "atomic_max"),
    name("atomicAnd", "atomic_and"),
    name("atomicOr", "atomic_or"),
    name("atomicXor", "atomic_xor"),
    name("atomicExch", "atomic_exchange"),
    name("atomicCAS", "atomic_compare_exchange"),
    absent(
        "atomicInc atomicDec",
        "no atomic operation wraps at a limit",
        "count with `atomic_add(total[0], 1)`, and take the result `% n`",
    ),
    // Warps
    code("__shfl __shfl_sync", "shuffle(v, lane)", MASK),
    code("__shfl_xor __shfl_xor_sync", "shuffle_xor(v, lane)", MASK),
    code("__shfl_up __shfl_up_sync", "shuffle_up(v, delta)", MASK),
    code("__shfl_down __shfl_down_sync", "shuffle_down(v, delta)", MASK),
    code("__ballot __ballot_sync", "ballot(p)", MASK),
    code("__any __any_sync", "warp_any(p)", MASK),
    code("__all __all_sync", "warp_all(p)", MASK),
    code("__match_any_sync", "match_any(v)", MASK),
    code("__reduce_add_sync", "warp_reduce_add(v)", MASK),
    code("__reduce_min_sync", "warp_reduce_min(v)", MASK),
    code("__reduce_max_sync", "warp_reduce_max(v)", MASK),
    absent(
        "__activemask activemask active_mask",
        "the set of active lanes is undefined",
        "compute it before the branch, `let m = ballot(p)`, and pass `among = m` inside",
    ),
    // Bits
    name("__popc __popcll popc", "popcount"),
    name("__clz __clzll", "clz"),
    name("__brev __brevll", "reverse_bits"),
    name("__mulhi __umulhi", "mul_hi"),
    code("__ffs __ffsll", "ctz(m) + 1", "for `m != 0`; `__ffs(0)` is 0"),
    absent("__byte_perm", "there is no permutation of bytes", "shift and mask: `(m >> 8) & 0xff`"),
    code("__float_as_int", "bitcast(i32, v)", ""),
    code("__float_as_uint", "bitcast(u32, v)", ""),
    code("__int_as_float __uint_as_float", "bitcast(f32, m)", ""),
    code("static_cast", "f32(m)", "`bitcast(u32, v)` keeps the bits"),
    code("reinterpret_cast", "bitcast(u32, v)", ""),
    // Mathematical functions
    name("__ldg", "cached"),
    name("sqrtf __fsqrt_rn", "sqrt"),
    name("rsqrtf", "rsqrt"),
    name("cbrtf", "cbrt"),
    name("expf __expf", "exp"),
    name("exp2f", "exp2"),
    name("logf __logf", "log"),
    name("log2f", "log2"),
    name("log10f", "log10"),
    name("sinf __sinf", "sin"),
    name("cosf __cosf", "cos"),
    name("tanf", "tan"),
    name("tanhf", "tanh"),
    name("atan2f", "atan2"),
    name("powf __powf powi", "pow"),
    name("floorf", "floor"),
    name("ceilf", "ceil"),
    name("roundf rint rintf", "round"),
    name("truncf", "trunc"),
    name("fmaf __fmaf_rn", "fma"),
    name("fmaxf fmax", "max"),
    name("fminf fmin", "min"),
    name("fabsf fabs", "abs"),
    name("erff", "erf"),
    name("hypotf", "hypot"),
    code("__fdividef __fdiv_rn", "v / w", ""),
    code("__saturatef saturate", "clamp(v, 0.0, 1.0)", ""),
    name("cdiv div_ceil divup div_up", "ceil_div"),
    // Vectors
    name("make_float2", "f32x2"),
    name("make_float3", "f32x3"),
    name("make_float4", "f32x4"),
    name("make_int2", "i32x2"),
    name("make_int3", "i32x3"),
    name("make_int4", "i32x4"),
    name("make_uint2", "u32x2"),
    name("make_uint4", "u32x4"),
    name("make_double2", "f64x2"),
    name("make_half2 __halves2half2", "f16x2"),
    // Limits
    other_code("FLT_MAX", "3.4028235e38", ""),
    other_code("FLT_MIN", "1.1754944e-38", "the smallest normal number; `-3.4028235e38` is the lowest"),
    other_code("FLT_EPSILON", "1.1920929e-7", ""),
    other_code("DBL_MAX", "1.7976931348623157e308f64", ""),
    other_code("DBL_EPSILON", "2.220446049250313e-16f64", ""),
    other_code("INT_MAX INT32_MAX", "2147483647", ""),
    other_code("INT_MIN INT32_MIN", "(-2147483648)", ""),
    other_code("UINT_MAX UINT32_MAX", "4294967295u32", ""),
    // OpenCL
    other_code("get_global_id", "global_idx.x", "a kernel with `threads(i: N)` needs neither it nor a guard"),
    other_code("get_local_id", "thread_idx.x", ""),
    other_code("get_group_id", "block_idx.x", ""),
    other_code("get_local_size", "block_dim.x", ""),
    other_code("get_num_groups", "grid_dim.x", ""),
    other_code("get_global_size", "grid_dim.x * block_dim.x", ""),
    // Warp
    warp_absent(
        "wp.kernel wp.func wp.struct",
        "there are no decorators",
        "a kernel is `kernel f(x: [f32; N], out r: [f32; N]) threads(i: N) { … }`, and a function a `fn`",
    ),
    warp_code("wp.tid", "global_idx.x", "a kernel with `threads(i: N)` needs neither it nor a guard"),
    warp_code("wp.atomic_add", "atomic_add(total[i], 1)", ""),
    warp_code("wp.atomic_sub", "atomic_sub(total[i], 1)", ""),
    warp_code("wp.atomic_max", "atomic_max(total[i], 1)", ""),
    warp_code("wp.atomic_min", "atomic_min(total[i], 1)", ""),
    warp_absent(
        "wp.launch",
        "a kernel is called like a function",
        "`f(x, y)`; its head has the extents, `threads(i: N)`",
    ),
    warp_absent(
        "wp.array wp.array2d wp.from_numpy",
        "arrays have the extents in their types",
        "write `[f32; N]` for a parameter, and `zeros(n)` for a new array",
    ),
    warp_absent("wp.init wp.synchronize", "nothing has to be set up or waited for", "leave the call out"),
    // Declarations
    code("__global__", "kernel f(x: [f32; N], out r: [f32; N]) threads(i: N) { r[i] = x[i] }", ""),
    code(
        "__device__ __host__ __forceinline__ __inline__",
        "fn square(v: f32) -> f32 { v * v }",
        "kernels and scripts both call it",
    ),
    code("__shared__", "shared s: [f32; 64]", ""),
    code("__constant__", "const WEIGHTS = [0.25, 0.5, 0.25]", ""),
    absent("__restrict__ __restrict restrict", "arrays never alias", "leave it out"),
    code(
        "__launch_bounds__ launch_bounds numthreads workgroup_size local_size_x",
        "kernel f(x: [f32; N], out r: [f32; N]) grid(ceil_div(N, 64)) block(64) { r[global_idx.x] = x[global_idx.x] }",
        "the head says how many threads a block has",
    ),
    absent(
        "dim3",
        "launch extents have no type",
        "a kernel's head has them, `grid(ceil_div(N, 16)) block(16, 16)`, or a launch, `f<<<n, (16, 16)>>>(x)`",
    ),
    // The host
    code("printf", "print(\"v = {v}\")", "values go between braces in the text"),
    absent(
        "malloc cudaMalloc cudaMallocManaged memcpy cudaMemcpy cudaMemcpyAsync cudaFree",
        "arrays move to the device that uses them, and are freed automatically",
        "`zeros(n)` creates an array, and `let z = x` copies one",
    ),
    code("memset cudaMemset", "zeros(n)", "`x[..] = v` sets all elements of an array"),
    absent("cudaDeviceSynchronize cudaStreamSynchronize", "reading a result waits for it", "leave the call out"),
    absent(
        "cudaGetLastError cudaPeekAtLastError cudaError_t",
        "a failed launch ends the script with an error",
        "leave the check out",
    ),
    code(
        "cudaEventRecord cudaEventElapsedTime cudaEventCreate",
        "let timing = time { f(y) }",
        "`clk bench` runs benchmarks",
    ),
    absent(
        "clock64 clock",
        "kernels cannot read a clock",
        "`time { … }` measures a launch, and `clk profile` counts its work",
    )
    .common(),
    other_code("tic toc perf_counter clock_gettime", "let timing = time { f(y) }", "it measures a block of the script"),
    // Cooperative groups
    code("cooperative_groups this_thread_block", "barrier()", "there are no objects for groups of threads"),
    code("this_grid", "grid_barrier()", "there are no objects for groups of threads"),
    absent(
        "tiled_partition coalesced_threads",
        "groups of lanes are masks",
        "pass the mask of the group to the operation: `shuffle_xor(v, 8, among = m)`",
    ),
    absent("cg", "there are no objects for groups of threads", "`barrier()` and `grid_barrier()` wait for all threads"),
    // Numba
    numba_absent(
        "cuda numba",
        "kernels need no module",
        "`cuda.grid(1)` is `global_idx.x`, `cuda.syncthreads()` is `barrier()`",
    ),
    numba_code("cuda.grid", "global_idx.x", "a kernel with `threads(i: N)` needs neither it nor a guard"),
    numba_code("cuda.gridsize", "grid_dim.x * block_dim.x", ""),
    numba_name("cuda.laneid", "lane_idx"),
    numba_name("cuda.warpsize", "warp_size"),
    numba_code("cuda.shared", "shared s: [f32; 64]", ""),
    numba_code("cuda.local", "var acc: [f32; 8] = 0.0", ""),
    numba_code("cuda.atomic", "atomic_add(total[i], 1)", ""),
    numba_absent(
        "cuda.to_device cuda.device_array cuda.device_array_like",
        "arrays move to the device that uses them",
        "use the array itself",
    ),
    numba_absent("cuda.synchronize", "reading a result waits for it", "leave the call out"),
];

//! The names of the headers of C, C++ and CUDA. They are never read, because their declarations and macros are built
//! in.

/// Known headers, without directory and suffix, sorted.
#[rustfmt::skip]
const KNOWN: &[&str] = &[
    "algorithm", "any", "array", "assert", "atomic", "barrier", "bit", "bitset", "builtin_types", "cassert", "cctype",
    "cerrno", "cfenv", "cfloat", "channel_descriptor", "charconv", "chrono", "cinttypes", "ciso646", "climits",
    "clocale", "cmath", "codecvt", "common_functions", "compare", "complex", "concepts", "condition_variable",
    "cooperative_groups", "csetjmp", "csignal", "cstdarg", "cstddef", "cstdint", "cstdio", "cstdlib", "cstring",
    "ctime", "ctype", "cuComplex", "cub", "cublas", "cublasLt", "cublasXt", "cublas_api", "cublas_v2", "cuda", "cudaGL",
    "cudaProfiler", "cuda_bf16", "cuda_device_runtime_api", "cuda_fp16", "cuda_fp4", "cuda_fp6", "cuda_fp8",
    "cuda_gl_interop", "cuda_pipeline", "cuda_profiler_api", "cuda_runtime", "cuda_runtime_api", "cuda_texture_types",
    "cuda_vs_compute", "cudnn", "cufft", "cufftXt", "curand", "curand_kernel", "curand_mtgp32_host",
    "curand_mtgp32dc_p_11213", "curand_philox4x32_x", "cusolverDn", "cusolverSp", "cusparse", "cusparse_v2", "cutlass",
    "cwchar", "cwctype", "deque", "device_atomic_functions", "device_double_functions", "device_functions",
    "device_launch_parameters", "dirent", "dlfcn", "driver_functions", "driver_types", "endian", "errno", "exception",
    "execution", "expected", "fcntl", "fenv", "filesystem", "float", "format", "forward_list", "fstream", "functional",
    "future", "getopt", "helper_cuda", "helper_functions", "helper_math", "helper_string", "helper_timer",
    "host_defines", "immintrin", "initializer_list", "inttypes", "iomanip", "ios", "iosfwd", "iostream", "istream",
    "iterator", "latch", "libgen", "limits", "list", "locale", "malloc", "map", "math", "math_constants",
    "math_functions", "memory", "memory_resource", "mma", "mpi", "mutex", "nccl", "new", "numbers", "numeric",
    "nvToolsExt", "nvml", "nvrtc", "nvtx3", "omp", "optional", "ostream", "pthread", "queue", "random", "ranges",
    "ratio", "regex", "sched", "scoped_allocator", "semaphore", "set", "shared_mutex", "signal", "sm_20_intrinsics",
    "sm_30_intrinsics", "sm_35_intrinsics", "sm_60_atomic_functions", "source_location", "span", "sstream", "stack",
    "stdarg", "stdbool", "stddef", "stdexcept", "stdint", "stdio", "stdlib", "stop_token", "streambuf", "string",
    "string_view", "strings", "surface_functions", "surface_indirect_functions", "surface_types", "syncstream",
    "system_error", "texture_fetch_functions", "texture_indirect_functions", "texture_types", "thread", "time", "tuple",
    "type_traits", "typeindex", "typeinfo", "unistd", "unordered_map", "unordered_set", "utility", "valarray", "values",
    "variant", "vector", "vector_functions", "vector_types", "version", "wchar", "xmmintrin",
];

/// Directories whose headers are all known.
const KNOWN_DIRECTORIES: &[&str] = &[
    "arpa",
    "boost",
    "cooperative_groups",
    "crt",
    "cub",
    "cuda",
    "cute",
    "cutlass",
    "netinet",
    "nv",
    "nvtx3",
    "sys",
    "thrust",
];

/// Returns whether a header is known by name.
pub(super) fn is_known(path: &str) -> bool {
    if let Some((directory, _)) = path.split_once('/') {
        return KNOWN_DIRECTORIES.contains(&directory);
    }
    let stem = path.rsplit_once('.').map_or(path, |(stem, suffix)| match suffix {
        "h" | "hpp" | "hxx" | "cuh" => stem,
        _ => path,
    });
    KNOWN.binary_search(&stem).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_headers_are_sorted_and_found() {
        let mut sorted = KNOWN.to_vec();
        sorted.sort_unstable();
        assert_eq!(KNOWN, sorted);
        assert!(is_known("cuda_runtime.h") && is_known("vector") && is_known("sys/time.h") && is_known("math.h"));
        assert!(!is_known("reference.h") && !is_known("kernels/vector") && !is_known("math.txt"));
    }
}

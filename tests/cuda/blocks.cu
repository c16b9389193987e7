// 7 accesses to memory, none is guarded
// in bounds if gridDim.x <= extent 0 of y
extern "C" __global__ void __launch_bounds__(256) block_sums(
    const float *__restrict__ x,
    int x_len,
    float *__restrict__ y) {
    const int global_x = blockIdx.x * 256 + threadIdx.x;
    const int thread_x = threadIdx.x;
    const int block_x = blockIdx.x;
    __shared__ __align__(16) float s[256];
    float chosen = {};
    if (global_x < x_len) {
        chosen = x[global_x];
    } else {
        chosen = 0.0f;
    }
    s[thread_x] = chosen;
    __syncthreads();
    int half = 128;
    while (half > 0) {
        if (thread_x < half) {
            s[thread_x] += s[thread_x + half];
        }
        __syncthreads();
        half /= 2;
    }
    if (thread_x == 0) {
        y[block_x] = s[0];
    }
}
// 7 accesses to memory, none is guarded
// in bounds if extent 0 of a <= extent 0 of c
// in bounds if extent 1 of a <= extent 0 of b
// in bounds if extent 1 of b <= extent 1 of c
extern "C" __global__ void __launch_bounds__(256) tiled(
    const float *__restrict__ a,
    int a_rows,
    int a_cols,
    const float *__restrict__ b,
    int b_cols,
    float *__restrict__ c,
    int c_cols) {
    const int global_y = blockIdx.y * 16 + threadIdx.y;
    const int global_x = blockIdx.x * 16 + threadIdx.x;
    const int thread_x = threadIdx.x;
    const int thread_y = threadIdx.y;
    __shared__ __align__(16) float ta[16][16];
    __shared__ __align__(16) float tb[16][16];
    float chosen = {};
    float chosen_2 = {};
    float acc = 0.0f;
    const bool t1 = global_y < a_rows;
    const bool t2 = global_x < b_cols;
    for (int k0 = 0; k0 < a_cols; k0 += 16) {
        const int t3 = k0 + thread_x;
        const int t4 = k0 + thread_y;
        if (t1 && t3 < a_cols) {
            chosen = a[global_y * a_cols + t3];
        } else {
            chosen = 0.0f;
        }
        ta[thread_y][thread_x] = chosen;
        if (t4 < a_cols && t2) {
            chosen_2 = b[t4 * b_cols + global_x];
        } else {
            chosen_2 = 0.0f;
        }
        tb[thread_y][thread_x] = chosen_2;
        __syncthreads();
        for (int k = 0; k < 16; ++k) {
            acc = fmaf(ta[thread_y][k], tb[k][thread_x], acc);
        }
        __syncthreads();
    }
    if (t1 && t2) {
        c[global_y * c_cols + global_x] = acc;
    }
}
typedef unsigned char u8;

// 5 accesses to memory, none is guarded
// in bounds if 256 <= extent 0 of bins
extern "C" __global__ void __launch_bounds__(256) histogram(
    const u8 *__restrict__ x,
    int x_len,
    unsigned *__restrict__ bins) {
    const int thread_x = threadIdx.x;
    const int global_x = blockIdx.x * 256 + threadIdx.x;
    const int grid_dim_x = gridDim.x;
    __shared__ __align__(16) unsigned own[256];
    own[thread_x] = 0u;
    __syncthreads();
    for (int i = global_x; i < x_len; i += 256 * grid_dim_x) {
        atomicAdd(&own[int(x[i])], 1u);
    }
    __syncthreads();
    const unsigned t1 = own[thread_x];
    atomicAdd(&bins[thread_x], t1);
}
// Returns the value of lane `from`, which must be in the mask.
template <typename T> __device__ __forceinline__ T exchange(unsigned mask, T value, int from) {
    T result;
    if constexpr (sizeof(T) % 4 != 0) {
        unsigned word = 0;
        static_assert(sizeof(T) < 4 || sizeof(T) % 2 == 0, "parts of 2 bytes");
        if constexpr (sizeof(T) < 4) {
            memcpy(&word, &value, sizeof(T));
            word = __shfl_sync(mask, word, from);
            memcpy(&result, &word, sizeof(T));
        } else {
            unsigned short parts[sizeof(T) / 2];
            memcpy(parts, &value, sizeof(T));
            for (unsigned i = 0; i < sizeof(T) / 2; ++i) parts[i] = (unsigned short)__shfl_sync(mask, unsigned(parts[i]), from);
            memcpy(&result, parts, sizeof(T));
        }
    } else {
        unsigned words[sizeof(T) / 4];
        memcpy(words, &value, sizeof(T));
        for (unsigned i = 0; i < sizeof(T) / 4; ++i) words[i] = __shfl_sync(mask, words[i], from);
        memcpy(&result, words, sizeof(T));
    }
    return result;
}
// Returns the value of lane `from`, or the thread's own value if there is no such lane.
template <typename T> __device__ __forceinline__ T shuffle(T value, int from, int lane, int lanes) {
    return exchange(~0u, value, from < 0 || from >= lanes ? lane : from);
}
// Butterfly reduction: each lane combines its value with the lane at distance 16, 8, 4, 2, 1. In a warp with fewer
// lanes, lanes without a partner keep their value, and lane 0 gets the result.
template <typename T, typename Combine>
__device__ __forceinline__ T butterfly(T value, int lane, int lanes, Combine combine) {
    #pragma unroll
    for (int distance = 16; distance > 0; distance >>= 1) {
        const T other = shuffle(value, lane ^ distance, lane, lanes);
        if ((lane ^ distance) < lanes) value = combine(value, other);
    }
    return (lanes & (lanes - 1)) == 0 ? value : shuffle(value, 0, lane, lanes);
}
__device__ __forceinline__ double warp_add(double value, int lane, int lanes) {
    return butterfly(value, lane, lanes, [](double a, double b) -> double { return a + b; });
}

// 2 accesses to memory, none is guarded
// in bounds if extent 0 of x <= extent 0 of y
extern "C" __global__ void __launch_bounds__(128) warp_sums(
    const double *__restrict__ x,
    int x_len,
    double *__restrict__ y) {
    const int global_x = blockIdx.x * 128 + threadIdx.x;
    const int lane = threadIdx.x & 31;
    double chosen = {};
    const bool t1 = global_x < x_len;
    if (t1) {
        chosen = x[global_x];
    } else {
        chosen = 0.0;
    }
    const double t2 = warp_add(chosen, lane, 32);
    const double t3 = __shfl_up_sync(~0u, t2, 1);
    if (lane == 0 && t1) {
        y[global_x / 32] = t2 + t3 * 0.0;
    }
}
typedef unsigned short u16;
struct f16 { u16 bits; };
typedef unsigned char u8;
typedef unsigned long long u64;
// Atomically replaces an element by `next(element)`, and returns the old value. For operations without a CUDA function.
template <typename T, typename Next> __device__ __forceinline__ T atomic_update(T *place, Next next) {
    T old, wanted;
    if constexpr (sizeof(T) == 8) {
        u64 *word = (u64 *)place, seen = *(volatile u64 *)word, before, after;
        do {
            before = seen;
            memcpy(&old, &before, 8);
            wanted = next(old);
            memcpy(&after, &wanted, 8);
        } while ((seen = atomicCAS(word, before, after)) != before);
    } else {
        // Elements of less than 4 bytes are updated within their aligned word.
        unsigned *word = (unsigned *)((u64)place & ~3ull), seen = *(volatile unsigned *)word, before, after;
        const unsigned shift = 8 * ((u64)place & 3), mask = ~0u >> (32 - 8 * sizeof(T));
        do {
            before = seen;
            after = before >> shift & mask;
            memcpy(&old, &after, sizeof(T));
            wanted = next(old);
            after = 0;
            memcpy(&after, &wanted, sizeof(T));
            after = (before & ~(mask << shift)) | after << shift;
        } while ((seen = atomicCAS(word, before, after)) != before);
    }
    return old;
}
__device__ __forceinline__ f16 to_f16(float x) {
    f16 y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
}
__device__ __forceinline__ float to_float(f16 x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}
template <typename T> __device__ __forceinline__ void atomic_store(T *place, T value) { *(volatile T *)place = value; }

// 4 accesses to memory, none is guarded
// in bounds if 1 <= extent 0 of low
// in bounds if 1 <= extent 0 of half
// in bounds if 1 <= extent 0 of flag
extern "C" __global__ void __launch_bounds__(64) extremes(
    const float *__restrict__ x,
    int x_len,
    float *__restrict__ low,
    f16 *__restrict__ half,
    bool *__restrict__ flag) {
    const int global_x = blockIdx.x * 64 + threadIdx.x;
    if (global_x < x_len) {
        const float t1 = x[global_x];
        const float t2 = t1;
        atomic_update(&low[0], [&](float old) -> float { return fminf(old, t2); });
        const f16 t3 = to_f16(t1);
        atomic_update(&half[0], [&](f16 old) -> f16 { return to_f16(to_float(old) + to_float(t3)); });
        if (t1 > 100.0f) {
            const bool t4 = true;
            atomic_store(&flag[0], t4);
        }
    }
}
typedef long long i64;

// 6 accesses to memory, none is guarded
// 3 of them are in bounds by the signature
// in bounds if 1 <= extent 0 of x
// in bounds if blockDim.x <= extent 0 of x
extern "C" __global__ void __launch_bounds__(1024) reversed(int *x, int x_len) {
    const int thread_x = threadIdx.x;
    extern __shared__ __align__(16) unsigned char dynamic_shared[];
    const int s_len = x_len;
    int *const s = (int *)(dynamic_shared);
    const int s_end = (4 * s_len + 15) & -16;
    const int twice_len = int(unsigned(2) * x_len);
    i64 *const twice = (i64 *)(dynamic_shared + s_end);
    const int t1 = x[thread_x];
    s[x_len - 1 - thread_x] = t1;
    const int t2 = thread_x * 2;
    twice[t2] = i64(t1);
    __syncthreads();
    x[thread_x] = int(unsigned(s[thread_x]) + int(twice[t2]));
}
// 2 accesses to memory, none is guarded
// in bounds if gridDim.x <= extent 0 of x
// in bounds if gridDim.x <= extent 0 of found
extern "C" __global__ void __launch_bounds__(1) first_zero(
    const int *__restrict__ x,
    int x_cols,
    int *__restrict__ found) {
    const int block_x = blockIdx.x;
    int at_2 = -1;
    for (int k = 0; k < x_cols; ++k) {
        const int t1 = x[block_x * x_cols + k];
        if (!(t1 < 0)) {
            if (t1 == 0) {
                at_2 = k;
                break;
            }
        }
    }
    found[block_x] = at_2;
}
// Grid barrier: one thread of each block counts its arrival and waits for the other blocks. Returns true if the thread
// must end, because another thread has faulted and its block may never arrive.
__device__ __forceinline__ bool grid_barrier(unsigned *arrivals, const volatile unsigned *fault) {
    __syncthreads();
    if ((threadIdx.x | threadIdx.y | threadIdx.z) == 0) {
        __threadfence();
        const unsigned blocks = gridDim.x * gridDim.y * gridDim.z;
        const unsigned before = atomicAdd(arrivals, 1);
        const unsigned target = before / blocks * blocks + blocks;
        while (int(*(volatile unsigned *)arrivals - target) < 0 && !(fault && *fault)) { }
        __threadfence();
    }
    __syncthreads();
    return fault && *fault;
}

// 3 accesses to memory, none is guarded
extern "C" __global__ void __launch_bounds__(64) relaxed(float *x, int x_len, int turns_2, unsigned *grid_arrivals) {
    const int global_x = blockIdx.x * 64 + threadIdx.x;
    const volatile unsigned *const fault_word = nullptr;
    float chosen = {};
    const int t1 = global_x + 1;
    const bool t2 = global_x > 0 && t1 < x_len;
    const int t3 = global_x - 1;
    const bool t4 = global_x < x_len;
    for (int turn_2 = 0; turn_2 < turns_2; ++turn_2) {
        if (t2) {
            chosen = (x[t3] + x[t1]) * 0.5f;
        } else {
            chosen = 0.0f;
        }
        if (grid_barrier(grid_arrivals, fault_word)) {
            return;
        }
        if (t4) {
            x[global_x] = chosen;
        }
        if (grid_barrier(grid_arrivals, fault_word)) {
            return;
        }
    }
}

template <typename T> __device__ __forceinline__ void atomic_store(T *place, T value) { *(volatile T *)place = value; }

// 4 accesses to memory, none is guarded
// in bounds if 1 <= extent 0 of lock
// in bounds if 1 <= extent 0 of sum
extern "C" __global__ void __launch_bounds__(128) tally(int *lock, float *sum) {
    const int lane = threadIdx.x & 31;
    if (lane == 0) {
        while (true) {
            const int t1 = atomicCAS(&lock[0], 0, 1);
            if (!(t1 != 0)) {
                break;
            }
        }
        __threadfence();
        sum[0] += 0.5f;
        __threadfence();
        const int t2 = 0;
        atomic_store(&lock[0], t2);
    }
}
template <typename T> __device__ __forceinline__ void atomic_store(T *place, T value) { *(volatile T *)place = value; }

// 4 accesses to memory, none is guarded
// in bounds if 1 <= extent 0 of lock
// in bounds if 1 <= extent 0 of sum
extern "C" __global__ void __launch_bounds__(128) fenced(int *lock, float *sum) {
    const int lane = threadIdx.x & 31;
    if (lane == 0) {
        while (true) {
            const int t1 = atomicCAS(&lock[0], 0, 1);
            if (!(t1 != 0)) {
                break;
            }
        }
        __threadfence();
        sum[0] += 0.5f;
        __threadfence();
        const int t2 = 0;
        atomic_store(&lock[0], t2);
    }
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
__device__ __forceinline__ int warp_add(int value, int lane, int lanes) {
#if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(~0u, value);
#else
    return butterfly(value, lane, lanes, [](int a, int b) -> int { return int(unsigned(a) + b); });
#endif
}

// 6 accesses to memory, none is guarded
// in bounds if 1 <= extent 0 of n
// in bounds if 8 <= extent 0 of parts
// in bounds if 1 <= extent 0 of y
// in bounds if gridDim.x <= extent 0 of parts
extern "C" __global__ void __launch_bounds__(64) last(int *n, int *parts, int *__restrict__ y) {
    const int thread_x = threadIdx.x;
    const int block_x = blockIdx.x;
    const int lane = threadIdx.x & 31;
    __shared__ bool is_last;
    int chosen = {};
    const bool t1 = thread_x == 0;
    if (t1) {
        parts[block_x] = block_x;
        __threadfence();
        const int t2 = atomicAdd(&n[0], 1);
        __threadfence();
        is_last = t2 == 7;
    }
    __syncthreads();
    if (is_last) {
        if (thread_x < 8) {
            chosen = parts[thread_x];
        } else {
            chosen = 0;
        }
        const int t3 = warp_add(chosen, lane, 32);
        if (t1) {
            y[0] = t3;
        }
    }
}
template <typename T> __device__ __forceinline__ void atomic_store(T *place, T value) { *(volatile T *)place = value; }
// Loads an element that other threads may write concurrently.
template <typename T> __device__ __forceinline__ T atomic_load(const T *place) { return *(const volatile T *)place; }

// 6 accesses to memory, none is guarded
// in bounds if 1 <= extent 0 of y
extern "C" __global__ void __launch_bounds__(64) relay(int *__restrict__ y) {
    const int thread_x = threadIdx.x;
    __shared__ int x;
    __shared__ int flag;
    const bool t1 = thread_x == 0;
    if (t1) {
        flag = 0;
    }
    __syncthreads();
    if (t1) {
        x = 42;
        __threadfence_block();
        const int t2 = 1;
        atomic_store(&flag, t2);
    }
    if (thread_x == 32) {
        while (true) {
            const int t3 = atomic_load(&flag);
            if (!(t3 == 0)) {
                break;
            }
        }
        __threadfence_block();
        y[0] = x;
    }
}
// Loads an element that other threads may write concurrently.
template <typename T> __device__ __forceinline__ T atomic_load(const T *place) { return *(const volatile T *)place; }
template <typename T> __device__ __forceinline__ void atomic_store(T *place, T value) { *(volatile T *)place = value; }

// 6 accesses to memory, none is guarded
// in bounds if 1 <= extent 0 of last
// in bounds if gridDim.x <= extent 0 of flag
// in bounds if gridDim.x <= extent 0 of x
extern "C" __global__ void __launch_bounds__(32) passed(bool *flag, float *x, float *__restrict__ last) {
    const int thread_x = threadIdx.x;
    const int block_x = blockIdx.x;
    float chosen = {};
    if (thread_x == 0) {
        const bool t1 = block_x > 0;
        if (t1) {
            const int t2 = block_x - 1;
            while (true) {
                const bool t3 = atomic_load(&flag[t2]);
                if (t3) {
                    break;
                }
            }
        }
        if (t1) {
            __threadfence();
            chosen = x[block_x - 1] + 1.0f;
        } else {
            chosen = 0.0f;
        }
        __threadfence();
        x[block_x] = chosen;
        __threadfence();
        const bool t4 = true;
        atomic_store(&flag[block_x], t4);
        const float t5 = x[block_x];
        const float t6 = t5;
        atomic_store(&last[0], t6);
    }
}
// 2 accesses to memory, none is guarded
// in bounds if 8 <= extent 0 of bins
// in bounds if gridDim.x * blockDim.x <= extent 0 of x
extern "C" __global__ void __launch_bounds__(64) histogram(const int *__restrict__ x, int *__restrict__ bins) {
    const int global_x = blockIdx.x * 64 + threadIdx.x;
    atomicAdd(&bins[x[global_x] & 7], 1);
    __threadfence();
}
typedef unsigned long long u64;
typedef long long i64;
template <typename T> __device__ __forceinline__ u64 wide(T value) { return T(-1) < T(0) ? u64(i64(value)) : u64(value); }
struct Faults {
    unsigned place, stop, others, count;
    unsigned block[3], thread[3];
    u64 values[32];
    unsigned *first, *flag;
    unsigned number;
};
// Reports a fault. The first faulting thread writes the record; others at the same site are only counted.
template <typename... Values>
__device__ __noinline__ void report(Faults *faults, unsigned place, uint3 block, uint3 thread, Values... values) {
    const unsigned known = atomicCAS(&faults->place, 0, place + 1);
    if (known == place + 1) atomicAdd(&faults->others, 1);
    if (known != 0) return;
    const u64 list[] = {0, values...};
    faults->block[0] = block.x, faults->block[1] = block.y, faults->block[2] = block.z;
    faults->thread[0] = thread.x, faults->thread[1] = thread.y, faults->thread[2] = thread.z;
    faults->count = sizeof...(values);
    for (unsigned i = 0; i < sizeof...(values) && i < 32; ++i) faults->values[i] = list[i + 1];
    if (faults->first) atomicCAS(faults->first, 0, faults->number);
    if (faults->flag) *(volatile unsigned *)faults->flag = 1;
}

// 3 accesses to memory, 1 guarded
// in bounds if 1 <= extent 0 of n
// in bounds if gridDim.x * blockDim.x <= extent 0 of x
extern "C" __global__ void __launch_bounds__(64) compact(
    const int *__restrict__ x,
    int *n,
    int *__restrict__ y,
    int y_len,
    Faults *faults) {
    const int global_x = blockIdx.x * 64 + threadIdx.x;
    const int t1 = x[global_x];
    if (t1 > 0) {
        const int t2 = atomicAdd(&n[0], 1);
        if (unsigned(t2) >= unsigned(y_len)) {
            report(faults, 0, blockIdx, threadIdx, wide(t2), wide(y_len));
            return;
        }
        y[t2] = t1;
    }
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
__device__ __forceinline__ int warp_max(int value, int lane, int lanes) {
#if __CUDA_ARCH__ >= 800
    return __reduce_max_sync(~0u, value);
#else
    return butterfly(value, lane, lanes, [](int a, int b) -> int { return max(a, b); });
#endif
}

// 4 accesses to memory, none is guarded
// in bounds if gridDim.x * blockDim.x <= extent 0 of x
// in bounds if gridDim.x * blockDim.x <= extent 0 of y
extern "C" __global__ void __launch_bounds__(64) exchange(const int *__restrict__ x, int *__restrict__ y) {
    const int global_x = blockIdx.x * 64 + threadIdx.x;
    const int thread_x = threadIdx.x;
    const int lane = threadIdx.x & 31;
    __shared__ __align__(16) int s[64];
    int chosen = {};
    const int t1 = x[global_x];
    s[thread_x] = t1;
    const bool t2 = __any_sync(~0u, t1 > 0) != 0;
    const int t3 = warp_max(t1, lane, 32);
    __syncwarp();
    if (t2) {
        chosen = s[thread_x ^ 1];
    } else {
        chosen = t3;
    }
    y[global_x] = chosen;
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
__device__ __forceinline__ int warp_add(int value, int lane, int lanes) {
#if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(~0u, value);
#else
    return butterfly(value, lane, lanes, [](int a, int b) -> int { return int(unsigned(a) + b); });
#endif
}

// 5 accesses to memory, none is guarded
// in bounds if gridDim.x <= extent 0 of y
// in bounds if gridDim.x * blockDim.x <= extent 0 of x
extern "C" __global__ void __launch_bounds__(64) sums(const int *__restrict__ x, int *__restrict__ y) {
    const int global_x = blockIdx.x * 64 + threadIdx.x;
    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    const int thread_x = threadIdx.x;
    const int block_x = blockIdx.x;
    __shared__ int s[2];
    const int t1 = warp_add(x[global_x], lane, 32);
    if (lane == 0) {
        s[warp] = t1;
    }
    __syncthreads();
    if (thread_x == 0) {
        y[block_x] = int(unsigned(s[0]) + s[1]);
    }
}
typedef unsigned long long u64;
// Adds to an element. If all lanes of a warp add to the same element, adds the sum of their values once.
template <typename T> __device__ __forceinline__ void atomic_sum(T *place, T value) {
    const unsigned all = ~0u;
    int same = 0;
    if (__activemask() == all) __match_all_sync(all, u64(place), &same);
    if (!same) {
        atomicAdd(place, value);
        return;
    }
    for (int by = 16; by > 0; by /= 2) value += __shfl_xor_sync(all, value, by);
    unsigned lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    if (lane == 0) atomicAdd(place, value);
}

// 4 accesses to memory, none is guarded
// in bounds if 2 <= extent 0 of sums
// in bounds if 256 <= extent 0 of parts
extern "C" __global__ void __launch_bounds__(256) totals(
    const float *__restrict__ x,
    int x_len,
    float *__restrict__ sums,
    float *__restrict__ parts) {
    const int global_x = blockIdx.x * 256 + threadIdx.x;
    const int thread_x = threadIdx.x;
    if (global_x < x_len) {
        const float t1 = x[global_x];
        atomic_sum(&sums[0], t1);
        atomic_sum(&sums[1], -t1);
        atomicAdd(&parts[thread_x], t1);
    }
}

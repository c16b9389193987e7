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
// Returns the value of lane `from`, or the thread's own value if that lane is not in the mask.
template <typename T> __device__ __forceinline__ T shuffle_among(T value, int from, int lane, unsigned mask) {
    return exchange(mask, value, from >= 0 && from < 32 && (mask >> from & 1) ? from : lane);
}

// 4 accesses to memory, 1 guarded
// in bounds if 1 <= extent 0 of n
// in bounds if gridDim.x * blockDim.x <= extent 0 of x
extern "C" __global__ void __launch_bounds__(64) pick(
    const float *__restrict__ x,
    int x_len,
    float limit,
    int *n,
    float *__restrict__ y,
    int y_len,
    Faults *faults) {
    const int global_x = blockIdx.x * 64 + threadIdx.x;
    const int lane = threadIdx.x & 31;
    const bool t1 = global_x < x_len;
    bool holds = t1;
    if (t1) {
        holds = x[global_x] > limit;
    }
    const unsigned t2 = __ballot_sync(~0u, holds);
    if (holds) {
        const int t3 = int(unsigned(__clz(__brev(t2))));
        int start = 0;
        if (lane == t3) {
            const int t4 = atomicAdd(&n[0], int(unsigned(__popc(t2))));
            start = t4;
        }
        if (((t2 >> lane) & 1) == 0) {
            report(faults, 0, blockIdx, threadIdx, wide(t2), wide(lane));
            return;
        }
        const int t5 = shuffle_among(int(start), int(t3 & 31), lane, t2);
        const unsigned t6 = unsigned(lane);
        const int t7 = int(unsigned(t5) + int(unsigned(__popc(t2 & ((1u << t6) - 1u)))));
        if (unsigned(t7) >= unsigned(y_len)) {
            report(faults, 1, blockIdx, threadIdx, wide(t7), wide(y_len));
            return;
        }
        y[t7] = x[global_x];
    }
}
typedef unsigned char u8;
typedef unsigned short u16;
struct f16 { u16 bits; };
struct alignas(4) f32x3 { float x, y, z; };
typedef unsigned long long u64;
// Returns the lanes of the mask whose value has the same bits as this thread's value.
template <typename T> __device__ __forceinline__ unsigned match_any(unsigned mask, T value) {
    u64 bits = 0;
    memcpy(&bits, &value, sizeof(T));
    if constexpr (sizeof(T) == 8) return __match_any_sync(mask, bits);
    else return __match_any_sync(mask, unsigned(bits));
}
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
// Combines the values of the lanes in the mask, in ascending order.
template <typename T, typename Combine> __device__ __forceinline__ T reduce_among(T value, unsigned mask, Combine combine) {
    T total = exchange(mask, value, __ffs(mask) - 1);
    for (unsigned rest = mask & (mask - 1); rest != 0; rest &= rest - 1) {
        total = combine(total, exchange(mask, value, __ffs(rest) - 1));
    }
    return total;
}
__device__ __forceinline__ int warp_add_among(int value, unsigned mask) {
#if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(mask, value);
#else
    return reduce_among(value, mask, [](int a, int b) -> int { return int(unsigned(a) + b); });
#endif
}
__device__ __forceinline__ float to_float(f16 x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}
__device__ __forceinline__ float warp_add_among(float value, unsigned mask) {
    return reduce_among(value, mask, [](float a, float b) -> float { return a + b; });
}
// Returns the value of lane `from`, or the thread's own value if that lane is not in the mask.
template <typename T> __device__ __forceinline__ T shuffle_among(T value, int from, int lane, unsigned mask) {
    return exchange(mask, value, from >= 0 && from < 32 && (mask >> from & 1) ? from : lane);
}

// 7 accesses to memory, none is guarded
// in bounds if gridDim.x * blockDim.x <= extent 0 of key
// in bounds if gridDim.x * blockDim.x <= extent 0 of x
// in bounds if gridDim.x * blockDim.x <= extent 0 of v
// in bounds if gridDim.x * blockDim.x <= extent 0 of a
// in bounds if gridDim.x * blockDim.x <= extent 0 of b
// in bounds if gridDim.x * blockDim.x <= extent 0 of c
// in bounds if gridDim.x * blockDim.x <= extent 0 of d
extern "C" __global__ void __launch_bounds__(32) groups(
    const u8 *__restrict__ key,
    const f16 *__restrict__ x,
    const f32x3 *__restrict__ v,
    int *__restrict__ a,
    float *__restrict__ b,
    f16 *__restrict__ c,
    f32x3 *__restrict__ d,
    Faults *faults) {
    const int global_x = blockIdx.x * 32 + threadIdx.x;
    const int lane = threadIdx.x & 31;
    const unsigned t1 = match_any(~0u, key[global_x]);
    if (((t1 >> lane) & 1) == 0) {
        report(faults, 0, blockIdx, threadIdx, wide(t1), wide(lane));
        return;
    }
    const int t2 = warp_add_among(global_x, t1);
    const f16 t3 = x[global_x];
    const unsigned t4 = match_any(~0u, double(to_float(t3)));
    a[global_x] = int(unsigned(t2) + int(t4));
    if (((t1 >> lane) & 1) == 0) {
        report(faults, 1, blockIdx, threadIdx, wide(t1), wide(lane));
        return;
    }
    const float t5 = warp_add_among(to_float(t3), t1);
    b[global_x] = t5;
    if (((t1 >> lane) & 1) == 0) {
        report(faults, 2, blockIdx, threadIdx, wide(t1), wide(lane));
        return;
    }
    const f16 t6 = shuffle_among(f16(t3), int(lane ^ 5), lane, t1);
    c[global_x] = t6;
    if (((t1 >> lane) & 1) == 0) {
        report(faults, 3, blockIdx, threadIdx, wide(t1), wide(lane));
        return;
    }
    const f32x3 t7 = shuffle_among(v[global_x], int(unsigned(lane) - 1), lane, t1);
    d[global_x] = t7;
}

typedef unsigned char u8;

// 4 accesses to memory, none is guarded
extern "C" __global__ void __launch_bounds__(64) proved(const u8 *__restrict__ x, int x_len) {
    const int thread_x = threadIdx.x;
    __shared__ __align__(16) int bins[256];
    for (int k = thread_x; k < 256; k += 64) {
        bins[k] = 0;
    }
    __syncthreads();
    for (int i = 0; i < x_len; ++i) {
        const int t1 = int(x[i]);
        bins[t1] = int(unsigned(bins[t1]) + 1);
    }
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

// a thread takes 4 indices, 256 apart: one waits for memory less than it would
// 3 accesses to memory, 1 guarded
// in bounds if n <= extent 0 of at_2
// in bounds if n <= extent 0 of y
extern "C" __global__ void __launch_bounds__(256) gathered(
    const float *__restrict__ x,
    int x_len,
    const int *__restrict__ at_2,
    float *__restrict__ y,
    int n,
    Faults *faults) {
    const auto at = [&](const int i) {
        const int t1 = at_2[i];
        if (unsigned(t1) >= unsigned(x_len)) {
            report(faults, 0, make_uint3(0, 0, 0), make_uint3(i, 0, 0), wide(t1), wide(x_len));
            return;
        }
        y[i] = x[t1];
    };
    const int first = blockIdx.x * 1024 + threadIdx.x;
    if (first + 768 < n) {
        #pragma unroll
        for (int turn = 0; turn < 4; ++turn) {
            at(first + 256 * turn);
        }
    } else {
        #pragma unroll 1
        for (int i = first; i < n; i += 256) {
            at(i);
        }
    }
}
// a thread takes 4 indices, 256 apart: one waits for memory less than it would
// 4 accesses to memory, none is guarded
// in bounds if n <= extent 0 of at_2
// in bounds if n <= extent 0 of y
extern "C" __global__ void __launch_bounds__(256) refined(
    const float *__restrict__ x,
    int x_len,
    const int *__restrict__ at_2,
    float *__restrict__ y,
    int n) {
    const auto at = [&](const int i) {
        const int t1 = at_2[i];
        if (t1 >= 0 && t1 < x_len) {
            y[i] = x[t1];
        } else {
            y[i] = float(t1);
        }
    };
    const int first = blockIdx.x * 1024 + threadIdx.x;
    if (first + 768 < n) {
        #pragma unroll
        for (int turn = 0; turn < 4; ++turn) {
            at(first + 256 * turn);
        }
    } else {
        #pragma unroll 1
        for (int i = first; i < n; i += 256) {
            at(i);
        }
    }
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

// 2 accesses to memory, 1 guarded
extern "C" __global__ void __launch_bounds__(1) growing(int *__restrict__ x, int x_len, Faults *faults) {
    int k = 1;
    while (k < x_len) {
        x[k] = 1;
        k *= 2;
    }
    const int t1 = k - 1;
    if (unsigned(t1) >= unsigned(x_len)) {
        report(faults, 0, blockIdx, threadIdx, wide(t1), wide(x_len));
        return;
    }
    x[t1] = 2;
}
typedef unsigned long long u64;
template <typename T> __device__ __forceinline__ u64 raw(T value) {
    u64 bits = 0;
    memcpy(&bits, &value, sizeof(T));
    return bits;
}
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
typedef long long i64;
// The smallest integer divided by -1 wraps around.
__device__ __forceinline__ int quotient(int a, int b) { return b == -1 ? int(0u - a) : a / b; }
__device__ __forceinline__ i64 quotient(i64 a, i64 b) { return b == -1 ? i64(0ull - a) : a / b; }

// a thread takes 4 indices, 256 apart: one waits for memory less than it would
// 2 accesses to memory, none is guarded
// 2 of 3 integer divisions guarded
// in bounds if extent 0 of x <= extent 0 of y
// in bounds if n <= extent 0 of x
extern "C" __global__ void __launch_bounds__(256) divided(
    const int *__restrict__ x,
    int x_len,
    int d,
    int *__restrict__ y,
    int n,
    Faults *faults) {
    const auto at = [&](const int i) {
        const int t1 = x[i];
        if (d == 0) {
            report(faults, 0, make_uint3(0, 0, 0), make_uint3(i, 0, 0), raw(t1), raw(d));
            return;
        }
        if (x_len == 0) {
            report(faults, 1, make_uint3(0, 0, 0), make_uint3(i, 0, 0), raw(i), raw(x_len));
            return;
        }
        y[i % x_len] = int(unsigned(quotient(t1, d)) + t1 / 3);
    };
    const int first = blockIdx.x * 1024 + threadIdx.x;
    if (first + 768 < n) {
        #pragma unroll
        for (int turn = 0; turn < 4; ++turn) {
            at(first + 256 * turn);
        }
    } else {
        #pragma unroll 1
        for (int i = first; i < n; i += 256) {
            at(i);
        }
    }
}
typedef long long i64;
__device__ __forceinline__ int remainder(int a, int b) { return b == -1 ? 0 : a % b; }
__device__ __forceinline__ i64 remainder(i64 a, i64 b) { return b == -1 ? 0 : a % b; }

// a thread takes 4 indices, 256 apart: one waits for memory less than it would
// 3 accesses to memory, none is guarded
// in bounds if n <= extent 0 of x
// in bounds if n <= extent 0 of d
// in bounds if n <= extent 0 of y
extern "C" __global__ void __launch_bounds__(256) tested(
    const int *__restrict__ x,
    const int *__restrict__ d,
    int *__restrict__ y,
    int n) {
    const auto at = [&](const int i) {
        int chosen = {};
        const int t1 = d[i];
        if (t1 != 0) {
            chosen = remainder(x[i], t1);
        } else {
            chosen = 0;
        }
        y[i] = chosen;
    };
    const int first = blockIdx.x * 1024 + threadIdx.x;
    if (first + 768 < n) {
        #pragma unroll
        for (int turn = 0; turn < 4; ++turn) {
            at(first + 256 * turn);
        }
    } else {
        #pragma unroll 1
        for (int i = first; i < n; i += 256) {
            at(i);
        }
    }
}

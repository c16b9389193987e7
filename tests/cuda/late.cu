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

// 6 accesses to memory, 3 guarded
// in bounds if n + 1 <= extent 0 of starts
// in bounds if n <= extent 0 of y
extern "C" __global__ void __launch_bounds__(256) row_sums(
    const int *__restrict__ starts,
    const int *__restrict__ cols,
    int cols_len,
    const float *__restrict__ vals,
    int vals_len,
    const float *__restrict__ x,
    int x_len,
    float *__restrict__ y,
    int n,
    Faults *faults) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) {
        return;
    }
    float acc = 0.0f;
    const int t1 = starts[i + 1];
    unsigned missed = 0;
    u64 missed_at = 0;
    for (int k = starts[i]; k < t1; ++k) {
        const bool inside = unsigned(k) < unsigned(vals_len);
        if (!inside && !missed) {
            missed_at = wide(k);
            missed = 1;
        }
        const bool inside_2 = unsigned(k) < unsigned(cols_len);
        if (!inside_2 && !missed) {
            missed_at = wide(k);
            missed = 2;
        }
        const int t2 = inside_2 ? cols[k] : int{};
        const bool inside_3 = unsigned(t2) < unsigned(x_len);
        if (!inside_3 && !missed) {
            missed_at = wide(t2);
            missed = 3;
        }
        acc += (inside ? vals[k] : float{}) * (inside_3 ? x[t2] : float{});
    }
    if (missed) {
        if (missed == 1) {
            report(faults, 0, make_uint3(0, 0, 0), make_uint3(i, 0, 0), missed_at, wide(vals_len));
        }
        if (missed == 2) {
            report(faults, 1, make_uint3(0, 0, 0), make_uint3(i, 0, 0), missed_at, wide(cols_len));
        }
        if (missed == 3) {
            report(faults, 2, make_uint3(0, 0, 0), make_uint3(i, 0, 0), missed_at, wide(x_len));
        }
        return;
    }
    y[i] = acc;
}
// 6 accesses to memory, none is guarded
// 3 of them are in bounds by the signature
// in bounds if n + 1 <= extent 0 of starts
// in bounds if n <= extent 0 of y
extern "C" __global__ void __launch_bounds__(256) promised(
    const int *__restrict__ starts,
    const int *__restrict__ cols,
    const float *__restrict__ vals,
    const float *__restrict__ x,
    float *__restrict__ y,
    int n) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) {
        return;
    }
    float acc = 0.0f;
    const int t1 = starts[i + 1];
    for (int k = starts[i]; k < t1; ++k) {
        acc += vals[k] * x[cols[k]];
    }
    y[i] = acc;
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
// in bounds if 1 <= extent 1 of table
// in bounds if 1 <= extent 0 of y
extern "C" __global__ void __launch_bounds__(1) picked(
    const float *__restrict__ table,
    int table_rows,
    int table_cols,
    const int *__restrict__ at_2,
    int at_2_len,
    float *__restrict__ y,
    Faults *faults) {
    float best = 0.0f;
    const int t1 = table_cols - 1;
    unsigned missed = 0;
    u64 missed_at = 0;
    u64 missed_at_2 = 0;
    for (int i = 0; i < at_2_len; ++i) {
        if ((i & 1) == 0) {
            const int t2 = at_2[i];
            const bool inside = unsigned(t2) < unsigned(table_rows);
            if (!inside && !missed) {
                missed_at = wide(t2);
                missed_at_2 = wide(t1);
                missed = 1;
            }
            best = fmaxf(best, inside ? table[t2 * table_cols + t1] : float{});
        }
    }
    if (missed) {
        if (missed == 1) {
            report(faults, 0, blockIdx, threadIdx, missed_at, missed_at_2, wide(table_rows), wide(table_cols));
        }
        return;
    }
    y[0] = best;
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
extern "C" __global__ void __launch_bounds__(1) scattered(
    const int *__restrict__ at_2,
    int at_2_len,
    float *__restrict__ y,
    int y_len,
    Faults *faults) {
    for (int i = 0; i < at_2_len; ++i) {
        const int t1 = at_2[i];
        if (unsigned(t1) >= unsigned(y_len)) {
            report(faults, 0, blockIdx, threadIdx, wide(t1), wide(y_len));
            return;
        }
        y[t1] = 1.0f;
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
template <typename T> __device__ __forceinline__ u64 raw(T value) {
    u64 bits = 0;
    memcpy(&bits, &value, sizeof(T));
    return bits;
}

// 3 accesses to memory, 1 guarded
// 1 of 1 integer divisions guarded
// in bounds if 1 <= extent 0 of y
extern "C" __global__ void __launch_bounds__(1) divided(
    const int *__restrict__ at_2,
    int at_2_len,
    const int *__restrict__ x,
    int x_len,
    int *__restrict__ y,
    Faults *faults) {
    int sum = 0;
    for (int i = 0; i < at_2_len; ++i) {
        const int t1 = at_2[i];
        if (unsigned(t1) >= unsigned(x_len)) {
            report(faults, 0, blockIdx, threadIdx, wide(t1), wide(x_len));
            return;
        }
        const int t2 = x[t1];
        if (t2 == 0) {
            report(faults, 1, blockIdx, threadIdx, raw(100), raw(t2));
            return;
        }
        sum = int(unsigned(sum) + 100 / t2);
    }
    y[0] = sum;
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
// in bounds if 1 <= extent 0 of y
extern "C" __global__ void __launch_bounds__(1) chased(
    const int *__restrict__ next,
    int next_len,
    int *__restrict__ y,
    Faults *faults) {
    int k = 0;
    while (k != 1) {
        if (unsigned(k) >= unsigned(next_len)) {
            report(faults, 0, blockIdx, threadIdx, wide(k), wide(next_len));
            return;
        }
        k = next[k];
    }
    y[0] = k;
}
typedef long long i64;
typedef unsigned long long u64;
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
// in bounds if 1 <= extent 0 of ends
// in bounds if 1 <= extent 0 of y
extern "C" __global__ void __launch_bounds__(1) distant(
    const i64 *__restrict__ ends,
    const float *__restrict__ x,
    int x_len,
    float *__restrict__ y,
    Faults *faults) {
    float sum = 0.0f;
    const i64 t1 = ends[0];
    for (i64 k = 0ll; k < t1; ++k) {
        if (u64(k) >= u64(x_len)) {
            report(faults, 0, blockIdx, threadIdx, wide(k), wide(x_len));
            return;
        }
        sum += x[k];
    }
    y[0] = sum;
}

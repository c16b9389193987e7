// a thread takes 4 indices, 256 apart: one waits for memory less than it would
// 2 accesses to memory, none is guarded
// 1 of them is in bounds by the signature
// in bounds if 1 <= extent 0 of y
// in bounds if n <= extent 0 of y
extern "C" __global__ void __launch_bounds__(256) reversed_pairs(
    const float *__restrict__ x,
    float *__restrict__ y,
    int y_len,
    int n) {
    const auto at = [&](const int i) {
        y[i] = x[(y_len - 1 - i) * 2 + 1];
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

// a thread takes 4 indices, 256 apart: one waits for memory less than it would
// 2 accesses to memory, 1 guarded
// in bounds if n <= extent 0 of y
extern "C" __global__ void __launch_bounds__(256) off_reversed_pairs(
    const float *__restrict__ x,
    int x_len,
    float *__restrict__ y,
    int y_len,
    int n,
    Faults *faults) {
    const auto at = [&](const int i) {
        const int t1 = int(unsigned(y_len - i) * 2 + 1);
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
// 2 accesses to memory, none is guarded
// 1 of them is in bounds by the signature
// in bounds if n <= extent 0 of y
extern "C" __global__ void __launch_bounds__(256) halves(
    const float *__restrict__ x,
    int x_len,
    float *__restrict__ y,
    int n) {
    const auto at = [&](const int i) {
        y[i] = x[i + (x_len >> 1)];
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

// a thread takes 4 indices, 256 apart: one waits for memory less than it would
// 2 accesses to memory, 1 guarded
// in bounds if n <= extent 0 of y
extern "C" __global__ void __launch_bounds__(256) off_halves(
    const float *__restrict__ x,
    int x_len,
    float *__restrict__ y,
    int n,
    Faults *faults) {
    const auto at = [&](const int i) {
        const int t1 = i + (x_len >> 1) + 1;
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
// 2 accesses to memory, none is guarded
// 1 of them is in bounds by the signature
// in bounds if n <= extent 0 of y
extern "C" __global__ void __launch_bounds__(256) blocks(
    const float *__restrict__ x,
    int x_len,
    float *__restrict__ y,
    int n) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) {
        return;
    }
    float sum = 0.0f;
    const int t1 = int(unsigned(i) * 4);
    for (int k = t1; k < min(int(unsigned(t1) + 4), x_len); ++k) {
        sum += x[k];
    }
    y[i] = sum;
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
// in bounds if n <= extent 0 of y
extern "C" __global__ void __launch_bounds__(256) off_blocks(
    const float *__restrict__ x,
    int x_len,
    float *__restrict__ y,
    int n,
    Faults *faults) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) {
        return;
    }
    float sum = 0.0f;
    const int t1 = int(unsigned(i) * 4);
    unsigned missed = 0;
    u64 missed_at = 0;
    for (int k = t1; k < min(int(unsigned(t1) + 4), x_len + 1); ++k) {
        const bool inside = unsigned(k) < unsigned(x_len);
        if (!inside && !missed) {
            missed_at = wide(k);
            missed = 1;
        }
        sum += inside ? x[k] : float{};
    }
    if (missed) {
        if (missed == 1) {
            report(faults, 0, make_uint3(0, 0, 0), make_uint3(i, 0, 0), missed_at, wide(x_len));
        }
        return;
    }
    y[i] = sum;
}
// a thread takes 4 indices, 256 apart: one waits for memory less than it would
// 3 accesses to memory, none is guarded
// 1 of them is in bounds by the signature
// in bounds if n <= extent 0 of at_2
// in bounds if n <= extent 0 of y
extern "C" __global__ void __launch_bounds__(256) gathered(
    const int *__restrict__ at_2,
    const float *__restrict__ x,
    float *__restrict__ y,
    int n) {
    const auto at = [&](const int i) {
        y[i] = x[at_2[i]];
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

// a thread takes 4 indices, 256 apart: one waits for memory less than it would
// 3 accesses to memory, 1 guarded
// in bounds if n <= extent 0 of at_2
// in bounds if n <= extent 0 of y
extern "C" __global__ void __launch_bounds__(256) off_gathered(
    const int *__restrict__ at_2,
    const float *__restrict__ x,
    int x_len,
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
extern "C" __global__ void __launch_bounds__(256) off_negative(
    const int *__restrict__ at_2,
    const float *__restrict__ x,
    int x_len,
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
// 4 accesses to memory, 1 guarded
// in bounds if n <= extent 0 of at_2
// in bounds if n <= extent 0 of y
extern "C" __global__ void __launch_bounds__(256) off_changed(
    int *__restrict__ at_2,
    const float *__restrict__ x,
    int x_len,
    float *__restrict__ y,
    int n,
    Faults *faults) {
    const auto at = [&](const int i) {
        const int t1 = int(unsigned(at_2[i]) * 3);
        at_2[i] = t1;
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
// 3 accesses to memory, none is guarded
// 1 of them is in bounds by the signature
// in bounds if n <= extent 0 of at_2
// in bounds if n <= extent 0 of y
extern "C" __global__ void __launch_bounds__(256) permuted(
    const int *__restrict__ at_2,
    const float *__restrict__ x,
    float *__restrict__ y,
    int n) {
    const auto at = [&](const int i) {
        y[i] = x[at_2[i]];
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

// a thread takes 4 indices, 256 apart: one waits for memory less than it would
// 3 accesses to memory, 1 guarded
// in bounds if n <= extent 0 of at_2
// in bounds if n <= extent 0 of y
extern "C" __global__ void __launch_bounds__(256) off_permuted(
    const int *__restrict__ at_2,
    const float *__restrict__ x,
    int x_len,
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
// 5 accesses to memory, 1 guarded
// in bounds if 1 <= extent 0 of starts
// in bounds if n <= extent 0 of starts
// in bounds if n <= extent 0 of y
extern "C" __global__ void __launch_bounds__(256) off_ascending(
    const int *__restrict__ starts,
    int starts_len,
    const float *__restrict__ x,
    int x_len,
    float *__restrict__ y,
    int n,
    Faults *faults) {
    const auto at = [&](const int i) {
        float chosen = {};
        const bool t1 = starts[0] >= 0;
        bool holds = t1;
        if (t1) {
            holds = starts[starts_len - 1] < x_len;
        }
        if (holds) {
            const int t2 = starts[i];
            if (unsigned(t2) >= unsigned(x_len)) {
                report(faults, 0, make_uint3(0, 0, 0), make_uint3(i, 0, 0), wide(t2), wide(x_len));
                return;
            }
            chosen = x[t2];
        } else {
            chosen = 0.0f;
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
// a thread takes 4 indices, 256 apart: one waits for memory less than it would
// 3 accesses to memory, none is guarded
// 2 of them are in bounds by the signature
// in bounds if n <= extent 0 of y
extern "C" __global__ void __launch_bounds__(256) shifted(
    int k,
    const float *__restrict__ x,
    int x_len,
    float *__restrict__ y,
    int n) {
    const auto at = [&](const int i) {
        float chosen = {};
        const int t1 = int(unsigned(x_len) - k);
        if (i < t1) {
            chosen = x[int(unsigned(i) + k)];
        } else {
            chosen = x[int(unsigned(i) - t1)];
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
// 3 accesses to memory, 2 guarded
// in bounds if n <= extent 0 of y
extern "C" __global__ void __launch_bounds__(256) off_shifted(
    int k,
    const float *__restrict__ x,
    int x_len,
    float *__restrict__ y,
    int n,
    Faults *faults) {
    const auto at = [&](const int i) {
        float chosen = {};
        const int t1 = int(unsigned(x_len) - k);
        if (i < t1) {
            const int t2 = int(unsigned(i) + k);
            if (unsigned(t2) >= unsigned(x_len)) {
                report(faults, 0, make_uint3(0, 0, 0), make_uint3(i, 0, 0), wide(t2), wide(x_len));
                return;
            }
            chosen = x[t2];
        } else {
            const int t3 = int(unsigned(i) - t1);
            if (unsigned(t3) >= unsigned(x_len)) {
                report(faults, 1, make_uint3(0, 0, 0), make_uint3(i, 0, 0), wide(t3), wide(x_len));
                return;
            }
            chosen = x[t3];
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
// a thread takes 4 indices, in successive rows: one waits for memory less than it would
// 2 accesses to memory, none is guarded
// 1 of them is in bounds by the signature
// in bounds if rows <= extent 0 of y
// in bounds if cols <= extent 1 of y
extern "C" __global__ void __launch_bounds__(256) flat(
    const float *__restrict__ x,
    float *__restrict__ y,
    int y_cols,
    int rows,
    int cols) {
    const auto at = [&](const int row, const int col) {
        y[row * y_cols + col] = x[int(unsigned(row) * y_cols + col)];
    };
    const int col = blockIdx.x * 64 + threadIdx.x;
    if (col >= cols) {
        return;
    }
    const int first = (blockIdx.y * 4 + threadIdx.y) * 4;
    if (first + 3 < rows) {
        #pragma unroll
        for (int turn = 0; turn < 4; ++turn) {
            at(first + turn, col);
        }
    } else {
        #pragma unroll 1
        for (int row = first; row < rows; ++row) {
            at(row, col);
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

// a thread takes 4 indices, in successive rows: one waits for memory less than it would
// 2 accesses to memory, 1 guarded
// in bounds if rows <= extent 0 of y
// in bounds if cols <= extent 1 of y
extern "C" __global__ void __launch_bounds__(256) off_flat(
    const float *__restrict__ x,
    int x_len,
    float *__restrict__ y,
    int y_rows,
    int y_cols,
    int rows,
    int cols,
    Faults *faults) {
    const auto at = [&](const int row, const int col) {
        const int t1 = int(unsigned(row) * y_rows + col);
        if (unsigned(t1) >= unsigned(x_len)) {
            report(faults, 0, make_uint3(0, 0, 0), make_uint3(row, col, 0), wide(t1), wide(x_len));
            return;
        }
        y[row * y_cols + col] = x[t1];
    };
    const int col = blockIdx.x * 64 + threadIdx.x;
    if (col >= cols) {
        return;
    }
    const int first = (blockIdx.y * 4 + threadIdx.y) * 4;
    if (first + 3 < rows) {
        #pragma unroll
        for (int turn = 0; turn < 4; ++turn) {
            at(first + turn, col);
        }
    } else {
        #pragma unroll 1
        for (int row = first; row < rows; ++row) {
            at(row, col);
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

// a thread takes 4 indices, 256 apart: one waits for memory less than it would
// 2 accesses to memory, 1 guarded
// in bounds if n <= extent 0 of y
extern "C" __global__ void __launch_bounds__(256) off_wrapped(
    const float *__restrict__ x,
    int x_len,
    float *__restrict__ y,
    int n,
    Faults *faults) {
    const auto at = [&](const int i) {
        const int t1 = int(unsigned(i) * 65536 + i) / 65536;
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
// 3 accesses to memory, none is guarded
// 1 of them is in bounds by the signature
// in bounds if 1 <= extent 0 of x
// in bounds if n_2 <= extent 0 of y
extern "C" __global__ void __launch_bounds__(256) tested(
    int n,
    const float *__restrict__ x,
    int x_len,
    float *__restrict__ y,
    int n_2) {
    const auto at = [&](const int i) {
        if (n >= 0 && n < x_len - i) {
            y[i] = x[x_len - 1 - n - i];
        } else {
            y[i] = 0.0f;
        }
    };
    const int first = blockIdx.x * 1024 + threadIdx.x;
    if (first + 768 < n_2) {
        #pragma unroll
        for (int turn = 0; turn < 4; ++turn) {
            at(first + 256 * turn);
        }
    } else {
        #pragma unroll 1
        for (int i = first; i < n_2; i += 256) {
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

// a thread takes 4 indices, 256 apart: one waits for memory less than it would
// 3 accesses to memory, 1 guarded
// in bounds if 1 <= extent 0 of x
// in bounds if n_2 <= extent 0 of y
extern "C" __global__ void __launch_bounds__(256) off_tested(
    int n,
    const float *__restrict__ x,
    int x_len,
    float *__restrict__ y,
    int n_2,
    Faults *faults) {
    const auto at = [&](const int i) {
        if (n >= 0 && int(unsigned(n) + i) < x_len) {
            const int t1 = int(unsigned(x_len - 1 - n) - i);
            if (unsigned(t1) >= unsigned(x_len)) {
                report(faults, 0, make_uint3(0, 0, 0), make_uint3(i, 0, 0), wide(t1), wide(x_len));
                return;
            }
            y[i] = x[t1];
        } else {
            y[i] = 0.0f;
        }
    };
    const int first = blockIdx.x * 1024 + threadIdx.x;
    if (first + 768 < n_2) {
        #pragma unroll
        for (int turn = 0; turn < 4; ++turn) {
            at(first + 256 * turn);
        }
    } else {
        #pragma unroll 1
        for (int i = first; i < n_2; i += 256) {
            at(i);
        }
    }
}

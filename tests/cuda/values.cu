struct alignas(4) f32x3 { float x, y, z; };
typedef signed char i8;
struct alignas(4) bodies_element { f32x3 position; float mass; i8 charge; };
__device__ __forceinline__ f32x3 operator*(f32x3 a, f32x3 b) { return f32x3{a.x * b.x, a.y * b.y, a.z * b.z}; }
__device__ __forceinline__ f32x3 &operator*=(f32x3 &a, f32x3 b) { return a = a * b; }
__device__ __forceinline__ f32x3 operator+(f32x3 a, f32x3 b) { return f32x3{a.x + b.x, a.y + b.y, a.z + b.z}; }
__device__ __forceinline__ f32x3 &operator+=(f32x3 &a, f32x3 b) { return a = a + b; }

// a thread takes 4 indices, 256 apart: one waits for memory less than it would
// 5 accesses to memory, none is guarded
// in bounds if n <= extent 0 of bodies
extern "C" __global__ void __launch_bounds__(256) drift(
    bodies_element *__restrict__ bodies,
    float dt,
    f32x3 push,
    int n) {
    const auto at = [&](const int i) {
        bodies[i].position += f32x3{dt, dt, dt} * push;
        if (bodies[i].charge < 0) {
            bodies[i].mass = -bodies[i].mass;
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
typedef unsigned short u16;
struct f16 { u16 bits; };
struct bf16 { u16 bits; };
__device__ __forceinline__ float to_float(bf16 x) { return __uint_as_float(unsigned(x.bits) << 16); }
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
__device__ __forceinline__ f16 fused(f16 a, f16 b, f16 c) {
    f16 y;
    asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(y.bits) : "h"(a.bits), "h"(b.bits), "h"(c.bits));
    return y;
}
template <int bytes> struct Word;
template <> struct Word<1> { typedef unsigned char of; };
template <> struct Word<2> { typedef unsigned short of; };
template <> struct Word<4> { typedef unsigned of; };
template <> struct Word<8> { typedef uint2 of; };
template <> struct Word<16> { typedef uint4 of; };
template <int bytes, int count, typename T> __device__ __forceinline__ void take(T *piece, const T *__restrict__ from) {
    #pragma unroll
    for (int k = 0; k < count; ++k) {
        const typename Word<bytes>::of word = reinterpret_cast<const typename Word<bytes>::of *>(from)[k];
        memcpy(reinterpret_cast<char *>(piece) + k * bytes, &word, bytes);
    }
}
template <int bytes, int count, typename T> __device__ __forceinline__ void put(T *to, const T *piece) {
    #pragma unroll
    for (int k = 0; k < count; ++k) {
        typename Word<bytes>::of word;
        memcpy(&word, reinterpret_cast<const char *>(piece) + k * bytes, bytes);
        reinterpret_cast<typename Word<bytes>::of *>(to)[k] = word;
    }
}

// a thread takes 8 adjacent indices, with wide accesses to x, y, z
// 3 accesses to memory, none is guarded
// in bounds if n <= extent 0 of x
// in bounds if n <= extent 0 of y
// in bounds if n <= extent 0 of z
extern "C" __global__ void __launch_bounds__(256) halves(
    const f16 *__restrict__ x,
    int x_len,
    const bf16 *__restrict__ y,
    int y_len,
    f16 *__restrict__ z,
    int z_len,
    int n) {
    f16 x_piece[8];
    bf16 y_piece[8];
    f16 z_piece[8];
    const auto at = [&](const int i, const int turn, const bool grouped) {
        const f16 t1 = (grouped ? x_piece[turn] : x[i]);
        (grouped ? z_piece[turn] : z[i]) = to_f16(to_float(to_f16(to_float(t1) * to_float(to_f16(to_float((grouped ? y_piece[turn] : y[i])))))) + to_float(fused(t1, t1, f16{0x3c00})));
    };
    const bool aligned = (unsigned long long)(x) % 16 == 0 && (unsigned long long)(y) % 16 == 0 && (unsigned long long)(z) % 16 == 0;
    const int step = aligned ? 1 : 256;
    const int first = aligned ? (blockIdx.x * 256 + threadIdx.x) * 8 : blockIdx.x * 2048 + threadIdx.x;
    if (aligned && first <= n - 8 && first <= x_len - 8 && first <= y_len - 8 && first <= z_len - 8) {
        take<16, 1>(&x_piece[0], &x[first]);
        take<16, 1>(&y_piece[0], &y[first]);
        #pragma unroll
        for (int turn = 0; turn < 8; ++turn) {
            at(first + turn, turn, true);
        }
        put<16, 1>(&z[first], z_piece);
    } else {
        #pragma unroll 1
        for (int turn = 0; turn < 8; ++turn) {
            const int i = first + step * turn;
            if (i < n) {
                at(i, 0, false);
            }
        }
    }
}
typedef unsigned short u16;
typedef long long i64;
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
// The smallest integer divided by -1 wraps around.
__device__ __forceinline__ int quotient(int a, int b) { return b == -1 ? int(0u - a) : a / b; }
__device__ __forceinline__ i64 quotient(i64 a, i64 b) { return b == -1 ? i64(0ull - a) : a / b; }
template <int bytes> struct Word;
template <> struct Word<1> { typedef unsigned char of; };
template <> struct Word<2> { typedef unsigned short of; };
template <> struct Word<4> { typedef unsigned of; };
template <> struct Word<8> { typedef uint2 of; };
template <> struct Word<16> { typedef uint4 of; };
template <int bytes, int count, typename T> __device__ __forceinline__ void take(T *piece, const T *__restrict__ from) {
    #pragma unroll
    for (int k = 0; k < count; ++k) {
        const typename Word<bytes>::of word = reinterpret_cast<const typename Word<bytes>::of *>(from)[k];
        memcpy(reinterpret_cast<char *>(piece) + k * bytes, &word, bytes);
    }
}
template <int bytes, int count, typename T> __device__ __forceinline__ void put(T *to, const T *piece) {
    #pragma unroll
    for (int k = 0; k < count; ++k) {
        typename Word<bytes>::of word;
        memcpy(&word, reinterpret_cast<const char *>(piece) + k * bytes, bytes);
        reinterpret_cast<typename Word<bytes>::of *>(to)[k] = word;
    }
}

// a thread takes 4 adjacent indices, with wide accesses to a, b, c
// 4 accesses to memory, none is guarded
// 1 of 2 integer divisions guarded
// in bounds if n <= extent 0 of a
// in bounds if n <= extent 0 of b
// in bounds if n <= extent 0 of c
// in bounds if n <= extent 0 of d
extern "C" __global__ void __launch_bounds__(256) integers(
    const int *__restrict__ a,
    int a_len,
    const u16 *__restrict__ b,
    int b_len,
    const i64 *__restrict__ c,
    int c_len,
    i64 *__restrict__ d,
    int n,
    Faults *faults) {
    int a_piece[4];
    u16 b_piece[4];
    i64 c_piece[4];
    const auto at = [&](const int i, const int turn, const bool grouped) {
        const int t1 = (grouped ? a_piece[turn] : a[i]);
        const u16 t2 = (grouped ? b_piece[turn] : b[i]);
        const i64 t3 = (grouped ? c_piece[turn] : c[i]);
        const i64 t4 = i64(t1);
        if (t4 == 0) {
            report(faults, 0, make_uint3(0, 0, 0), make_uint3(i, 0, 0), raw(t3), raw(t4));
            return;
        }
        d[i] = i64(i64(int(unsigned(t1) * t1 + 7) ^ (int(unsigned(t1) << 3) >> (t1 & 5))) + i64(u16(unsigned(t2) * t2)) - (u64(quotient(t3, t4)) + t3 % 5ll));
    };
    const bool aligned = (unsigned long long)(a) % 16 == 0 && (unsigned long long)(b) % 8 == 0 && (unsigned long long)(c) % 16 == 0;
    const int step = aligned ? 1 : 256;
    const int first = aligned ? (blockIdx.x * 256 + threadIdx.x) * 4 : blockIdx.x * 1024 + threadIdx.x;
    if (aligned && first <= n - 4 && first <= a_len - 4 && first <= b_len - 4 && first <= c_len - 4) {
        take<16, 1>(&a_piece[0], &a[first]);
        take<8, 1>(&b_piece[0], &b[first]);
        take<16, 2>(&c_piece[0], &c[first]);
        #pragma unroll
        for (int turn = 0; turn < 4; ++turn) {
            at(first + turn, turn, true);
        }
    } else {
        #pragma unroll 1
        for (int turn = 0; turn < 4; ++turn) {
            const int i = first + step * turn;
            if (i < n) {
                at(i, 0, false);
            }
        }
    }
}
typedef unsigned char u8;
__device__ __forceinline__ u8 to_u8(float x) { return u8(min(255u, __float2uint_rz(x))); }
__device__ __forceinline__ u8 to_u8(double x) { return x == x ? u8(min(255u, __double2uint_rz(x))) : u8(0); }
template <int bytes> struct Word;
template <> struct Word<1> { typedef unsigned char of; };
template <> struct Word<2> { typedef unsigned short of; };
template <> struct Word<4> { typedef unsigned of; };
template <> struct Word<8> { typedef uint2 of; };
template <> struct Word<16> { typedef uint4 of; };
template <int bytes, int count, typename T> __device__ __forceinline__ void take(T *piece, const T *__restrict__ from) {
    #pragma unroll
    for (int k = 0; k < count; ++k) {
        const typename Word<bytes>::of word = reinterpret_cast<const typename Word<bytes>::of *>(from)[k];
        memcpy(reinterpret_cast<char *>(piece) + k * bytes, &word, bytes);
    }
}
template <int bytes, int count, typename T> __device__ __forceinline__ void put(T *to, const T *piece) {
    #pragma unroll
    for (int k = 0; k < count; ++k) {
        typename Word<bytes>::of word;
        memcpy(&word, reinterpret_cast<const char *>(piece) + k * bytes, bytes);
        reinterpret_cast<typename Word<bytes>::of *>(to)[k] = word;
    }
}

// a thread takes 4 adjacent indices, with wide accesses to x, small, bits
// 3 accesses to memory, none is guarded
// in bounds if n <= extent 0 of x
// in bounds if n <= extent 0 of small
// in bounds if n <= extent 0 of bits
extern "C" __global__ void __launch_bounds__(256) conversions(
    const double *__restrict__ x,
    int x_len,
    u8 *__restrict__ small,
    int small_len,
    unsigned *__restrict__ bits,
    int bits_len,
    int n) {
    double x_piece[4];
    u8 small_piece[4];
    unsigned bits_piece[4];
    const auto at = [&](const int i, const int turn, const bool grouped) {
        const double t1 = (grouped ? x_piece[turn] : x[i]);
        (grouped ? small_piece[turn] : small[i]) = to_u8(t1);
        (grouped ? bits_piece[turn] : bits[i]) = __float_as_uint(float(t1)) + unsigned(int(__popc(unsigned(i)))) + unsigned(__brev(unsigned(i)));
    };
    const bool aligned = (unsigned long long)(x) % 16 == 0 && (unsigned long long)(small) % 4 == 0 && (unsigned long long)(bits) % 16 == 0;
    const int step = aligned ? 1 : 256;
    const int first = aligned ? (blockIdx.x * 256 + threadIdx.x) * 4 : blockIdx.x * 1024 + threadIdx.x;
    if (aligned && first <= n - 4 && first <= x_len - 4 && first <= small_len - 4 && first <= bits_len - 4) {
        take<16, 2>(&x_piece[0], &x[first]);
        #pragma unroll
        for (int turn = 0; turn < 4; ++turn) {
            at(first + turn, turn, true);
        }
        put<4, 1>(&small[first], small_piece);
        put<16, 1>(&bits[first], bits_piece);
    } else {
        #pragma unroll 1
        for (int turn = 0; turn < 4; ++turn) {
            const int i = first + step * turn;
            if (i < n) {
                at(i, 0, false);
            }
        }
    }
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
struct Prints { unsigned used, capacity, words[1]; };
// Appends a record: size, message number, count of the thread's earlier records, thread, block, and values.
template <typename... Values>
__device__ __noinline__ void print(
    Prints *prints, unsigned message, unsigned number, u64 block, unsigned thread, Values... values) {
    const u64 list[] = {block, values...};
    const unsigned size = 4 + 2 * (1 + sizeof...(values));
    const unsigned at = atomicAdd(&prints->used, size);
    if (at > prints->capacity || prints->capacity - at < size) return;
    unsigned *record = prints->words + at;
    record[0] = size, record[1] = message, record[2] = number, record[3] = thread;
    for (unsigned i = 0; i < 1 + sizeof...(values); ++i) {
        record[4 + 2 * i] = unsigned(list[i]), record[5 + 2 * i] = unsigned(list[i] >> 32);
    }
}

// 1 access to memory, none is guarded
// in bounds if n <= extent 0 of x
extern "C" __global__ void __launch_bounds__(256) speaking(
    const float *__restrict__ x,
    float limit,
    int n,
    Faults *faults,
    Prints *prints) {
    unsigned printed = 0;
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) {
        return;
    }
    const float t1 = x[i];
    const bool t2 = t1 <= limit;
    if (!t2) {
        if (!t2) {
            report(faults, 0, make_uint3(0, 0, 0), make_uint3(i, 0, 0), raw(i), raw(t1), raw(limit));
            return;
        }
    }
    if (t1 < 0.0f) {
        print(prints, 0, printed++, u64(i), 0, raw(i), raw(t1));
    }
}
typedef unsigned long long u64;
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
// Returns the number of iterations of `for i in start..end step`.
template <typename T> __device__ __forceinline__ u64 turns(T start, T end, T step, bool inclusive) {
    const bool down = T(-1) < T(0) && step < T(1);
    if (step == T(0) || (down ? start < end : end < start) || (start == end && !inclusive)) return 0;
    const u64 distance = down ? u64(start) - u64(end) : u64(end) - u64(start);
    const u64 size = down ? 0 - u64(i64(step)) : u64(step);
    return (distance - (inclusive ? 0 : 1)) / size + 1;
}
// Computes a power by repeated squaring, with wrapping. For a negative exponent, returns the truncated reciprocal.
template <typename T> __device__ __forceinline__ T power(T base, T exponent) {
    if (T(-1) < T(0) && exponent < T(1) && exponent != T(0)) {
        return base == T(1) ? T(1) : base == T(-1) ? (exponent & 1 ? T(-1) : T(1)) : T(0);
    }
    u64 result = 1, factor = u64(base);
    for (; exponent != 0; exponent = T(exponent >> 1)) {
        if (exponent & 1) result *= factor;
        factor *= factor;
    }
    return T(result);
}

// 18 accesses to memory, none is guarded
// in bounds if 8 <= extent 0 of y
extern "C" __global__ void __launch_bounds__(1) recurrence(int n, int step_by, int *__restrict__ y, Faults *faults) {
    int table[4];
    table[0] = 1;
    table[1] = 1;
    table[2] = 1;
    table[3] = 1;
    if (step_by == 0) {
        report(faults, 0, blockIdx, threadIdx);
        return;
    }
    u64 k_left = turns<int>(0, n, step_by, false);
    for (int k = 0; k_left != 0; --k_left, k = int(unsigned(k) + step_by)) {
        const int t1 = k & 3;
        table[t1] = int(unsigned(table[t1]) + power<int>(k, 2));
    }
    const int t2 = table[3];
    y[7] = t2;
    const int t3 = table[2];
    y[6] = t3;
    const int t4 = table[1];
    y[5] = t4;
    const int t5 = table[0];
    y[4] = t5;
    y[3] = t2;
    y[2] = t3;
    y[1] = t4;
    y[0] = t5;
}

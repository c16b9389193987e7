typedef unsigned short u16;
struct f16 { u16 bits; };
__device__ __forceinline__ float to_float(f16 x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}
__device__ __forceinline__ f16 to_f16(float x) {
    f16 y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
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

// a thread takes 8 adjacent indices, with wide accesses to x, y, r
// 3 accesses to memory, none is guarded
// in bounds if n <= extent 0 of x
// in bounds if n <= extent 0 of y
// in bounds if n <= extent 0 of r
extern "C" __global__ void __launch_bounds__(256) axpy(
    f16 a,
    const f16 *__restrict__ x,
    int x_len,
    const f16 *__restrict__ y,
    int y_len,
    f16 *__restrict__ r,
    int r_len,
    int n) {
    f16 x_piece[8];
    f16 y_piece[8];
    f16 r_piece[8];
    const auto at = [&](const int i, const int turn, const bool grouped) {
        (grouped ? r_piece[turn] : r[i]) = to_f16(to_float(to_f16(to_float(a) * to_float((grouped ? x_piece[turn] : x[i])))) + to_float((grouped ? y_piece[turn] : y[i])));
    };
    const bool aligned = (unsigned long long)(x) % 16 == 0 && (unsigned long long)(y) % 16 == 0 && (unsigned long long)(r) % 16 == 0;
    const int step = aligned ? 1 : 256;
    const int first = aligned ? (blockIdx.x * 256 + threadIdx.x) * 8 : blockIdx.x * 2048 + threadIdx.x;
    if (aligned && first <= n - 8 && first <= x_len - 8 && first <= y_len - 8 && first <= r_len - 8) {
        take<16, 1>(&x_piece[0], &x[first]);
        take<16, 1>(&y_piece[0], &y[first]);
        #pragma unroll
        for (int turn = 0; turn < 8; ++turn) {
            at(first + turn, turn, true);
        }
        put<16, 1>(&r[first], r_piece);
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
typedef unsigned char u8;
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

// a thread takes 16 adjacent indices, with wide accesses to rgb, y
// 4 accesses to memory, none is guarded
// 3 of them are in bounds by the signature
// in bounds if n <= extent 0 of y
extern "C" __global__ void __launch_bounds__(256) gray(
    const u8 *__restrict__ rgb,
    int rgb_len,
    u8 *__restrict__ y,
    int y_len,
    int n) {
    u8 rgb_piece[48];
    u8 y_piece[16];
    const auto at = [&](const int i, const int turn, const bool grouped) {
        const int t1 = int(unsigned(i) * 3);
        const u8 t2 = (grouped ? rgb_piece[turn * 3] : rgb[t1]);
        const u8 t3 = (grouped ? rgb_piece[turn * 3 + 1] : rgb[int(unsigned(t1) + 1)]);
        const int t4 = int(unsigned(t1) + 2);
        (grouped ? y_piece[turn] : y[i]) = u8((int(t2) * 77 + int(t3) * 150 + int((grouped ? rgb_piece[turn * 3 + 2] : rgb[t4])) * 29) >> 8);
    };
    const bool aligned = (unsigned long long)(rgb) % 16 == 0 && (unsigned long long)(y) % 16 == 0;
    const int step = aligned ? 1 : 256;
    const int first = aligned ? (blockIdx.x * 256 + threadIdx.x) * 16 : blockIdx.x * 4096 + threadIdx.x;
    if (aligned && first <= n - 16 && first <= rgb_len / 3 - 16 && first <= y_len - 16) {
        take<16, 3>(&rgb_piece[0], &rgb[first * 3]);
        #pragma unroll
        for (int turn = 0; turn < 16; ++turn) {
            at(first + turn, turn, true);
        }
        put<16, 1>(&y[first], y_piece);
    } else {
        #pragma unroll 1
        for (int turn = 0; turn < 16; ++turn) {
            const int i = first + step * turn;
            if (i < n) {
                at(i, 0, false);
            }
        }
    }
}
struct alignas(4) f32x3 { float x, y, z; };
struct alignas(4) b_element { f32x3 at; f32x3 speed; };
__device__ __forceinline__ f32x3 operator*(f32x3 a, f32x3 b) { return f32x3{a.x * b.x, a.y * b.y, a.z * b.z}; }
__device__ __forceinline__ f32x3 &operator*=(f32x3 &a, f32x3 b) { return a = a * b; }
__device__ __forceinline__ f32x3 operator+(f32x3 a, f32x3 b) { return f32x3{a.x + b.x, a.y + b.y, a.z + b.z}; }
__device__ __forceinline__ f32x3 &operator+=(f32x3 &a, f32x3 b) { return a = a + b; }

// a thread takes 4 indices, 256 apart: one waits for memory less than it would
// 5 accesses to memory, none is guarded
// in bounds if n <= extent 0 of b
extern "C" __global__ void __launch_bounds__(256) moved(float dt, b_element *__restrict__ b, int n) {
    const auto at = [&](const int i) {
        b[i].at += f32x3{dt, dt, dt} * b[i].speed;
        b[i].speed = f32x3{0.5f, 0.5f, 0.5f} * b[i].speed;
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
typedef unsigned char u8;
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

// a thread takes 16 adjacent indices, with wide accesses to x, y
// 6 accesses to memory, none is guarded
// in bounds if 1 <= extent 1 of x
// in bounds if extent 1 of x - 1 <= extent 1 of y
// in bounds if rows <= extent 0 of x
// in bounds if rows <= extent 0 of y
// in bounds if cols <= extent 1 of x
// in bounds if cols <= extent 1 of y
extern "C" __global__ void __launch_bounds__(256) blurred(
    const u8 *__restrict__ x,
    int x_rows,
    int x_cols,
    u8 *__restrict__ y,
    int y_rows,
    int y_cols,
    int rows,
    int cols) {
    u8 x_piece[16];
    u8 x_piece_2[18];
    u8 y_piece[16];
    const auto at = [&](const int row, const int col, const int turn, const bool grouped) {
        if (row > 0 && col > 0 && col < x_cols - 1) {
            (grouped ? y_piece[turn] : y[row * y_cols + col]) = u8(max((grouped ? x_piece[turn] : x[(row - 1) * x_cols + col]), u8(max((grouped ? x_piece_2[turn] : x[row * x_cols + (col - 1)]), (grouped ? x_piece_2[turn + 2] : x[row * x_cols + (col + 1)])))));
        } else {
            (grouped ? y_piece[turn] : y[row * y_cols + col]) = (grouped ? x_piece_2[turn + 1] : x[row * x_cols + col]);
        }
    };
    const int row = blockIdx.y * 16 + threadIdx.y;
    if (row >= rows) {
        return;
    }
    const bool aligned = (unsigned long long)(x) % 16 == 0 && unsigned(x_cols) * 1 % 16 == 0 && (unsigned long long)(y) % 16 == 0 && unsigned(y_cols) * 1 % 16 == 0;
    const int step = aligned ? 1 : 16;
    const int first = aligned ? (blockIdx.x * 16 + threadIdx.x) * 16 : blockIdx.x * 256 + threadIdx.x;
    if (aligned && first <= cols - 16 && first <= x_cols - 16 && first <= y_cols - 16) {
        if (unsigned(row - 1) < unsigned(x_rows)) {
            take<16, 1>(&x_piece[0], &x[(row - 1) * (x_cols) + first]);
        }
        if (unsigned(row) < unsigned(x_rows)) {
            take<16, 1>(&x_piece_2[1], &x[(row) * (x_cols) + first]);
            x_piece_2[0] = first >= 1 ? x[(row) * (x_cols) + first - 1] : u8{};
            x_piece_2[17] = first < x_cols - 16 ? x[(row) * (x_cols) + first + 16] : u8{};
        }
        #pragma unroll
        for (int turn = 0; turn < 16; ++turn) {
            at(row, first + turn, turn, true);
        }
        put<16, 1>(&y[(row) * (y_cols) + first], y_piece);
    } else {
        #pragma unroll 1
        for (int turn = 0; turn < 16; ++turn) {
            const int col = first + step * turn;
            if (col < cols) {
                at(row, col, 0, false);
            }
        }
    }
}
typedef unsigned char u8;
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

// a thread takes 16 adjacent indices, with wide accesses to x
// 2 accesses to memory, none is guarded
// in bounds if n <= extent 0 of x
// in bounds if n <= extent 0 of y
extern "C" __global__ void __launch_bounds__(256) some(
    const u8 *__restrict__ x,
    int x_len,
    u8 *__restrict__ y,
    int n) {
    u8 x_piece[16];
    const auto at = [&](const int i, const int turn, const bool grouped) {
        const u8 t1 = (grouped ? x_piece[turn] : x[i]);
        if (t1 > 9) {
            y[i] = t1;
        }
    };
    const bool aligned = (unsigned long long)(x) % 16 == 0;
    const int step = aligned ? 1 : 256;
    const int first = aligned ? (blockIdx.x * 256 + threadIdx.x) * 16 : blockIdx.x * 4096 + threadIdx.x;
    if (aligned && first <= n - 16 && first <= x_len - 16) {
        take<16, 1>(&x_piece[0], &x[first]);
        #pragma unroll
        for (int turn = 0; turn < 16; ++turn) {
            at(first + turn, turn, true);
        }
    } else {
        #pragma unroll 1
        for (int turn = 0; turn < 16; ++turn) {
            const int i = first + step * turn;
            if (i < n) {
                at(i, 0, false);
            }
        }
    }
}
typedef unsigned char u8;
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

// a thread takes 16 adjacent indices, with wide accesses to x, d
// 3 accesses to memory, none is guarded
// 1 of 1 integer divisions guarded
// in bounds if n <= extent 0 of x
// in bounds if n <= extent 0 of d
// in bounds if n <= extent 0 of y
extern "C" __global__ void __launch_bounds__(256) divided(
    const u8 *__restrict__ x,
    int x_len,
    const u8 *__restrict__ d,
    int d_len,
    u8 *__restrict__ y,
    int n,
    Faults *faults) {
    u8 x_piece[16];
    u8 d_piece[16];
    const auto at = [&](const int i, const int turn, const bool grouped) {
        const u8 t1 = (grouped ? x_piece[turn] : x[i]);
        const u8 t2 = (grouped ? d_piece[turn] : d[i]);
        if (t2 == 0) {
            report(faults, 0, make_uint3(0, 0, 0), make_uint3(i, 0, 0), raw(t1), raw(t2));
            return;
        }
        y[i] = u8(t1 / t2);
    };
    const bool aligned = (unsigned long long)(x) % 16 == 0 && (unsigned long long)(d) % 16 == 0;
    const int step = aligned ? 1 : 256;
    const int first = aligned ? (blockIdx.x * 256 + threadIdx.x) * 16 : blockIdx.x * 4096 + threadIdx.x;
    if (aligned && first <= n - 16 && first <= x_len - 16 && first <= d_len - 16) {
        take<16, 1>(&x_piece[0], &x[first]);
        take<16, 1>(&d_piece[0], &d[first]);
        #pragma unroll
        for (int turn = 0; turn < 16; ++turn) {
            at(first + turn, turn, true);
        }
    } else {
        #pragma unroll 1
        for (int turn = 0; turn < 16; ++turn) {
            const int i = first + step * turn;
            if (i < n) {
                at(i, 0, false);
            }
        }
    }
}
typedef unsigned char u8;
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

// a thread takes 16 adjacent indices, with wide accesses to at_2, y
// 3 accesses to memory, none is guarded
// in bounds if n <= extent 0 of at_2
// in bounds if n <= extent 0 of x
// in bounds if n <= extent 0 of y
extern "C" __global__ void __launch_bounds__(256) chosen(
    const u8 *__restrict__ at_2,
    int at_2_len,
    const u8 *__restrict__ x,
    u8 *__restrict__ y,
    int y_len,
    int n) {
    u8 at_2_piece[16];
    u8 y_piece[16];
    const auto at = [&](const int i, const int turn, const bool grouped) {
        u8 chosen_2 = {};
        if ((grouped ? at_2_piece[turn] : at_2[i]) > 9) {
            chosen_2 = x[i];
        } else {
            chosen_2 = 0;
        }
        (grouped ? y_piece[turn] : y[i]) = chosen_2;
    };
    const bool aligned = (unsigned long long)(at_2) % 16 == 0 && (unsigned long long)(y) % 16 == 0;
    const int step = aligned ? 1 : 256;
    const int first = aligned ? (blockIdx.x * 256 + threadIdx.x) * 16 : blockIdx.x * 4096 + threadIdx.x;
    if (aligned && first <= n - 16 && first <= at_2_len - 16 && first <= y_len - 16) {
        take<16, 1>(&at_2_piece[0], &at_2[first]);
        #pragma unroll
        for (int turn = 0; turn < 16; ++turn) {
            at(first + turn, turn, true);
        }
        put<16, 1>(&y[first], y_piece);
    } else {
        #pragma unroll 1
        for (int turn = 0; turn < 16; ++turn) {
            const int i = first + step * turn;
            if (i < n) {
                at(i, 0, false);
            }
        }
    }
}

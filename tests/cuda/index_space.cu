// a thread takes 4 indices, 256 apart: one waits for memory less than it would
// 3 accesses to memory, none is guarded
// in bounds if n <= extent 0 of x
// in bounds if n <= extent 0 of y
extern "C" __global__ void __launch_bounds__(256) saxpy(
    float a,
    const float *__restrict__ x,
    float *__restrict__ y,
    int n) {
    const auto at = [&](const int i) {
        y[i] = a * x[i] + y[i];
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
// a thread takes 8 indices, in successive rows: one waits for memory less than it would
// 5 accesses to memory, none is guarded
// in bounds if rows + 2 <= extent 0 of a
// in bounds if rows + 1 <= extent 0 of b
// in bounds if cols + 2 <= extent 1 of a
// in bounds if cols + 1 <= extent 1 of b
extern "C" __global__ void __launch_bounds__(256) sweep(
    const float *__restrict__ a,
    int a_cols,
    float *__restrict__ b,
    int b_cols,
    int rows,
    int cols) {
    const auto at = [&](const int row, const int col) {
        const int t1 = row + 1;
        const int t2 = col + 1;
        b[t1 * b_cols + t2] = (a[(t1 - 1) * a_cols + t2] + a[(t1 + 1) * a_cols + t2] + a[t1 * a_cols + (t2 - 1)] + a[t1 * a_cols + (t2 + 1)]) * 0.25f;
    };
    const int col = blockIdx.x * 64 + threadIdx.x;
    if (col >= cols) {
        return;
    }
    const int first = (blockIdx.y * 4 + threadIdx.y) * 8;
    if (first + 7 < rows) {
        #pragma unroll
        for (int turn = 0; turn < 8; ++turn) {
            at(first + turn, col);
        }
    } else {
        #pragma unroll 1
        for (int row = first; row < rows; ++row) {
            at(row, col);
        }
    }
}
// 1 access to memory, none is guarded
// in bounds if rows <= extent 0 of steps
// in bounds if cols <= extent 1 of steps
extern "C" __global__ void __launch_bounds__(256) escape(
    int *__restrict__ steps,
    int steps_rows,
    int steps_cols,
    int limit,
    int rows,
    int cols) {
    const int row = blockIdx.y * 16 + threadIdx.y;
    const int col = blockIdx.x * 16 + threadIdx.x;
    if (row >= rows || col >= cols) {
        return;
    }
    const float t1 = float(col) / float(steps_cols) * 3.0f - 2.0f;
    const float t2 = float(row) / float(steps_rows) * 2.0f - 1.0f;
    float x = 0.0f;
    float y = 0.0f;
    int n = 0;
    while (true) {
        const float t3 = x * x;
        const float t4 = y * y;
        if (!(n < limit && t3 + t4 <= 4.0f)) {
            break;
        }
        y = x * 2.0f * y + t2;
        x = t3 - t4 + t1;
        n += 1;
    }
    steps[row * steps_cols + col] = n;
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

// a thread takes 16 adjacent indices, with wide accesses to v
// 1 access to memory, none is guarded
// in bounds if planes <= extent 0 of v
// in bounds if rows <= extent 1 of v
// in bounds if cols <= extent 2 of v
extern "C" __global__ void __launch_bounds__(256) volume(
    u8 *__restrict__ v,
    int v_extent0,
    int v_extent1,
    int v_extent2,
    int planes,
    int rows,
    int cols) {
    u8 v_piece[16];
    const auto at = [&](const int plane, const int row, const int col, const int turn, const bool grouped) {
        (grouped ? v_piece[turn] : v[(plane * v_extent1 + row) * v_extent2 + col]) = u8(int(unsigned(plane + row) + col));
    };
    const int plane = blockIdx.z * 2 + threadIdx.z;
    const int row = blockIdx.y * 4 + threadIdx.y;
    if (plane >= planes || row >= rows) {
        return;
    }
    const bool aligned = (unsigned long long)(v) % 16 == 0 && unsigned(v_extent2) * 1 % 16 == 0;
    const int step = aligned ? 1 : 32;
    const int first = aligned ? (blockIdx.x * 32 + threadIdx.x) * 16 : blockIdx.x * 512 + threadIdx.x;
    if (aligned && first <= cols - 16 && first <= v_extent2 - 16) {
        #pragma unroll
        for (int turn = 0; turn < 16; ++turn) {
            at(plane, row, first + turn, turn, true);
        }
        put<16, 1>(&v[(((plane) * v_extent1 + row)) * (v_extent2) + first], v_piece);
    } else {
        #pragma unroll 1
        for (int turn = 0; turn < 16; ++turn) {
            const int col = first + step * turn;
            if (col < cols) {
                at(plane, row, col, 0, false);
            }
        }
    }
}

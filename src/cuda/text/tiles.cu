// Tile operations on tensor cores that do not depend on the instruction set. `tiles_tma.cu` and `tiles_sync.cu` add the
// instructions, and the copies of array windows to shared memory. Windows that are copied only once have dedicated
// memory. The other windows are copied to a ring of stages, in the order in which products read them.
//
// The tiles of a block have 64 rows per computing warpgroup (128 threads). A warpgroup stores its rows in registers and
// exchanges no data with the other warpgroups.
//
// All tiles have the layout of the instructions' accumulators. For thread t of a warpgroup, register i is in row 16 *
// (t / 32) + t % 32 / 4 + 8 * (i / 2 % 2) of the warpgroup's 64 rows, and in column 8 * (i / 4) + 2 * (t % 4) + i % 2.
// A thread therefore has elements of two rows, and four neighboring threads share a row. Each of them stores a copy of
// a value that exists once per row.
namespace tiles {

// A tile of 32-bit elements, a value for each row, and a tile of 16-bit elements that is an operand of products. Word w
// of an operand has the elements 2 * w and 2 * w + 1, as the instructions require.
template <class T, int COLUMNS> using Tile = T[COLUMNS / 2];
template <class T> using Rows = T[2];
template <int COLUMNS> using Factor = u32[COLUMNS / 4];
// A tile of tf32 elements that is an operand of products. Words 4 * k to 4 * k + 3 of thread t are in columns 8 * k + t
// % 4 and 8 * k + 4 + t % 4, in both of the thread's rows.
template <int COLUMNS> using WideFactor = u32[COLUMNS / 2];

// Tag types for the element types of operands.
struct Bf16 {};
struct F16 {};
struct Tf32 {};

// The number of elements along the summed dimension in one instruction.
template <class Type> constexpr int STEP = 16;
template <> constexpr int STEP<Tf32> = 8;

// Element-wise steps.

// The positions of a thread's elements in a tile.
struct Place {
    int row, column;
    __device__ __forceinline__ explicit Place(int warpgroup)
        : row(64 * warpgroup + (threadIdx.x >> 5 & 3) * 16 + (threadIdx.x >> 2 & 7)), column(2 * (threadIdx.x & 3)) {}
    __device__ __forceinline__ int row_of(int i) const { return row + 8 * (i / 2 % 2); }
    __device__ __forceinline__ int column_of(int i) const { return column + 8 * (i / 4) + i % 2; }
};

// Returns the thread's element i of a tile, or for a tile with one value per row, the value for the element's row.
template <class T, int N>
__device__ __forceinline__ T element(const T (&values)[N], int i) {
    return values[N == 2 ? i / 2 % 2 : i];
}

// Sets each element of a tile to `f(row, column, elements...)`, where `row` and `column` are its position in the tile.
template <class T, int N, class F, class... Values>
__device__ __forceinline__ void each(T (&to)[N], const Place &place, const F &f, const Values &...values) {
    static_assert(N > 2, "a tile");
#pragma unroll
    for (int i = 0; i < N; i++) to[i] = f(place.row_of(i), place.column_of(i), element(values, i)...);
}

// Sets the value of each row to `f(row, 0, values...)`.
template <class T, class F, class... Values>
__device__ __forceinline__ void each_row(T (&to)[2], const Place &place, const F &f, const Values &...values) {
#pragma unroll
    for (int i = 0; i < 2; i++) to[i] = f(place.row_of(2 * i), 0, element(values, 2 * i)...);
}

// Rounds two numbers to the nearest 16-bit floats. The payload of a NaN is not preserved.
__device__ __forceinline__ u32 rounded(Bf16, float low, float high) {
    u32 word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}

__device__ __forceinline__ u32 rounded(F16, float low, float high) {
    u32 word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}

// Sets the elements of an operand to `f(row, column, elements...)`, rounded.
template <class Type, int N, class F, class... Values>
__device__ __forceinline__ void each_rounded(Type type, u32 (&to)[N], const Place &place, const F &f, const Values &...values) {
#pragma unroll
    for (int w = 0; w < N; w++)
        to[w] = rounded(type, f(place.row_of(2 * w), place.column_of(2 * w), element(values, 2 * w)...),
                        f(place.row_of(2 * w), place.column_of(2 * w + 1), element(values, 2 * w + 1)...));
}

// Sets the elements of a tf32 operand to `f(row, column, elements...)`, which rounds. With q = t % 4, thread t computes
// the elements in columns 2 * q and 2 * q + 1 of each 8 columns, but the operand requires columns q and q + 4. A thread
// sends each of its elements once, in the order in which the threads of its row need them.
template <int N, class F, class... Values>
__device__ __forceinline__ void each_rounded(Tf32, u32 (&to)[N], const Place &place, const F &f, const Values &...values) {
    const int quarter = threadIdx.x & 3, lane = threadIdx.x & 31;
    const bool low = quarter < 2, even = (quarter & 1) == 0;
    // Threads 0 to 3 of a row first read from threads 0, 2, 1, 3, and then from threads 2, 0, 3, 1.
    const int one = lane - quarter + (quarter >> 1) + (even ? 0 : 2), other = lane - quarter + (quarter >> 1) + (even ? 2 : 0);
#pragma unroll
    for (int k = 0; k < N; k += 4) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int i = k + 2 * h;
            const float left = f(place.row_of(i), place.column_of(i), element(values, i)...);
            const float right = f(place.row_of(i), place.column_of(i + 1), element(values, i + 1)...);
            const float first = __shfl_sync(0xffffffff, low ? left : right, one), second = __shfl_sync(0xffffffff, low ? right : left, other);
            to[k + h] = __float_as_uint(even ? first : second);
            to[k + h + 2] = __float_as_uint(even ? second : first);
        }
    }
}

// Reductions along the columns, by halving. With h the largest power of two below the number of columns, element k + h
// is combined with element k; then h is halved, and so on. Columns whose distance is a multiple of 8 are in the same
// thread.

// Returns the value of register 4 * M + i after all columns whose distance is a multiple of 8 * S have been combined.
// The recursion computes one branch after the other, which needs few registers.
template <int S, int M, class T, int N, class F>
__device__ __forceinline__ T folded(const T (&values)[N], int i, const F &f) {
    if constexpr (S >= N / 4) {
        return values[4 * M + i];
    } else if constexpr (M + S >= N / 4) {
        return folded<2 * S, M>(values, i, f);
    } else {
        const T one = folded<2 * S, M>(values, i, f);
        return f(one, folded<2 * S, M + S>(values, i, f));
    }
}

// Sets the value of each row to the reduction of its elements by `f`, which must be commutative.
template <class T, int N, class F>
__device__ __forceinline__ void reduce(T (&to)[2], const T (&values)[N], const F &f) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        T even = folded<1, 0>(values, 2 * r, f), odd = folded<1, 0>(values, 2 * r + 1, f);
        even = f(even, __shfl_xor_sync(0xffffffff, even, 2));
        odd = f(odd, __shfl_xor_sync(0xffffffff, odd, 2));
        even = f(even, __shfl_xor_sync(0xffffffff, even, 1));
        odd = f(odd, __shfl_xor_sync(0xffffffff, odd, 1));
        to[r] = f(even, odd);
    }
}

// Calls `f(row, column, elements...)` for each element of a tile with COLUMNS columns.
template <int COLUMNS, class F, class... Values>
__device__ __forceinline__ void visit(const Place &place, const F &f, const Values &...values) {
#pragma unroll
    for (int i = 0; i < COLUMNS / 2; i++) f(place.row_of(i), place.column_of(i), element(values, i)...);
}

// Calls `f(row, 0, values...)` once for each row.
template <class F, class... Values>
__device__ __forceinline__ void visit_rows(const Place &place, const F &f, const Values &...values) {
    if ((threadIdx.x & 3) != 0) return;
#pragma unroll
    for (int i = 0; i < 2; i++) f(place.row_of(2 * i), 0, element(values, 2 * i)...);
}

// Returns whether all numbers from `small + small_low` to `small + small_high` are less than (or with `equal`, at most)
// all numbers of the other side. Returns false if a sum might exceed 32 bits.
__device__ __forceinline__ bool ordered(int small, int small_low, int small_high, int large, int large_low, int large_high, bool equal) {
    const long long bottom = (long long)small + small_low, below = (long long)small + small_high;
    const long long above = (long long)large + large_low, top = (long long)large + large_high;
    const long long least = -0x80000000ll, most = 0x7fffffffll;
    const bool fits = bottom >= least && below <= most && above >= least && top <= most;
    return fits && (equal ? below <= above : below < above);
}

// Returns the number of iterations of a loop whose counter goes from `start` to below `end`.
__device__ __forceinline__ u32 turns(int start, int end, u32 step) {
    return start < end ? (u32(end) - u32(start) - 1) / step + 1 : 0;
}

}  // namespace tiles

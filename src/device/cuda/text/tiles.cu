// What programs of tiles are made of on the tensor cores of sm_90a.
//
// The tiles of a block have 64 rows for each of its computing warpgroups (of 128 threads), which hold them in registers and exchange
// nothing with each other. One warpgroup before them copies parts of arrays to shared memory: such that are read once to places of their
// own, and the others to a ring of stages, in the order in which products take them.
//
// All tiles are in the layout of sums: of a thread t of a warpgroup, register i is in row 16 * (t / 32) + t % 32 / 4 + 8 * (i / 2 % 2) of
// the warpgroup's 64 and in column 8 * (i / 4) + 2 * (t % 4) + i % 2. A value for each row is thus held by four neighboring threads, of
// two rows each.
namespace tiles {

// A tile of 32-bit elements, the values of rows, and a tile of 16-bit elements that is a factor of products: word w has the elements 2 * w
// and 2 * w + 1, which is the layout of a factor in registers.
template <class T, int COLUMNS> using Tile = T[COLUMNS / 2];
template <class T> using Rows = T[2];
template <int COLUMNS> using Factor = u32[COLUMNS / 4];
// A factor of tf32: words 4 * k to 4 * k + 3 are of columns 8 * k + t % 4 and 8 * k + 4 + t % 4, in both of the thread's rows.
template <int COLUMNS> using WideFactor = u32[COLUMNS / 2];

// The types of factors.
struct Bf16 {};
struct F16 {};
struct Tf32 {};

// The terms of an instruction.
template <class Type> constexpr int STEP = 16;
template <> constexpr int STEP<Tf32> = 8;

// A part of an array in shared memory: boxes of LENGTH rows of 128 bytes (64 elements, or 32 of tf32), of which the 16-byte pieces are at their
// number XOR the row's number modulo 8. Along the terms of a product, a row is terms of one row or column of the factor: 8 of them are 1024 bytes,
// and the next terms are in the next box. Otherwise a row is one term of 64 rows or columns: 8 terms are 1024 bytes, and the next 64 rows
// or columns are in the next box.
template <int LENGTH, bool ALONG_TERMS>
struct Part {
    u64 first;
    __device__ __forceinline__ explicit Part(u32 address)
        : first(boxes_at(address, ALONG_TERMS ? 16 : LENGTH * 128)) {}
    // Describes the terms of instruction k: 32 bytes, or 16 rows.
    __device__ __forceinline__ u64 described(int k) const {
        return first + u64((ALONG_TERMS ? k / 4 * LENGTH * 128 + k % 4 * 32 : k * 16 * 128) >> 4);
    }
};

// Copies of boxes of arrays of more axes.
__device__ __forceinline__ void copy_box(u32 to, const Map &from, int x, int y, int z, u32 barrier) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
                 ::"r"(to), "l"(&from), "r"(x), "r"(y), "r"(z), "r"(barrier) : "memory");
}

__device__ __forceinline__ void copy_box(u32 to, const Map &from, int x, int y, int z, int u, u32 barrier) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];"
                 ::"r"(to), "l"(&from), "r"(x), "r"(y), "r"(z), "r"(u), "r"(barrier) : "memory");
}

__device__ __forceinline__ void copy_box(u32 to, const Map &from, int x, int y, int z, int u, int v, u32 barrier) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5, %6}], [%7];"
                 ::"r"(to), "l"(&from), "r"(x), "r"(y), "r"(z), "r"(u), "r"(v), "r"(barrier) : "memory");
}

// Copies a part of BOXES boxes of LENGTH rows with WIDTH elements, from column x on, and from these indices along the other axes, the last one
// first; what is outside of the array is zero. All bytes of the boxes count at the barrier.
template <int BOXES, int LENGTH, int WIDTH, class... Indices>
__device__ __forceinline__ void copy(u32 to, const Map &from, u32 barrier, int x, Indices... others) {
#pragma unroll
    for (int k = 0; k < BOXES; k++) copy_box(to + k * LENGTH * 128, from, x + WIDTH * k, others..., barrier);
}

// As above, of a part whose columns are to become rows: 32 rows for each of BOXES boxes, whose LENGTH rows the columns become, from column x and row y on.
template <int BOXES, int LENGTH, class... Indices>
__device__ __forceinline__ void copy_across(u32 to, const Map &from, u32 barrier, int x, int y, Indices... others) {
#pragma unroll
    for (int k = 0; k < BOXES; k++)
#pragma unroll
        for (int n = 0; n < LENGTH / 32; n++) copy_box(to + (k * LENGTH + 32 * n) * 128, from, x + 32 * n, y + 32 * k, others..., barrier);
}

// The warps that do so, those behind the one that copies.
constexpr int TURNERS = 3;

// Makes columns of such a part rows.
template <int BOXES, int LENGTH>
__device__ __forceinline__ void turn(u32 part) {
#pragma unroll 1
    for (u32 k = (threadIdx.x >> 5) - 1; k < BOXES * LENGTH / 32; k += TURNERS) transpose(part + k * 32 * 128);
}

// Ends what a turning warp has done, before tensor cores read it.
__device__ __forceinline__ void turned(u32 barrier) {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    if ((threadIdx.x & 31) == 0) arrive(barrier);
}

// A stage that was taken: where it is, and the barrier of those who are done with it.
struct Stage {
    u32 address, empty;
};

// Stages in shared memory, which are filled, with TURNS then turned, and taken in the same order. Each side has a ring of its own.
template <int STAGES, u32 BYTES, bool TURNS>
struct Ring {
    u32 stages, barriers;
    int stage = 0;
    u32 parity = 0;

    __device__ __forceinline__ Ring(u32 stages, u32 barriers) : stages(stages), barriers(barriers) {}
    __device__ __forceinline__ u32 address() const { return stages + stage * BYTES; }
    __device__ __forceinline__ u32 full() const { return barriers + 8 * stage; }
    __device__ __forceinline__ u32 empty() const { return barriers + 8 * STAGES + 8 * stage; }
    __device__ __forceinline__ u32 copied() const { return TURNS ? barriers + 16 * STAGES + 8 * stage : full(); }
    // Makes the barriers, for so many warpgroups that take stages.
    __device__ __forceinline__ void create(int warpgroups) const {
        for (int k = 0; k < STAGES; k++) {
            tiles::create(barriers + 8 * k, TURNS ? TURNERS : 1);
            tiles::create(barriers + 8 * (STAGES + k), 4 * warpgroups);
            if (TURNS) tiles::create(barriers + 8 * (2 * STAGES + k), 1);
        }
    }
    __device__ __forceinline__ void next() {
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
    // Waits until the stage is free, and fills it with so many bytes by `fill(address, barrier)`.
    template <class F>
    __device__ __forceinline__ void fill(u32 bytes, const F &fill) {
        wait(empty(), parity ^ 1);
        arrive_and_expect(copied(), bytes);
        fill(address(), copied());
        next();
    }
    // Waits until the stage is filled, and turns it by `turn(address)`.
    template <class F>
    __device__ __forceinline__ void turn(const F &turn) {
        wait(copied(), parity);
        turn(address());
        turned(full());
        next();
    }
    // Waits until the stage is filled.
    __device__ __forceinline__ Stage take() {
        if (TURNS) wait(copied(), parity);
        wait(full(), parity);
        const Stage taken = {address(), empty()};
        next();
        return taken;
    }
};

// A warp of each computing warpgroup arrives once.
__device__ __forceinline__ void release(const Stage &stage) {
    if ((threadIdx.x & 31) == 0) arrive(stage.empty);
}

// Products. They run behind the threads: after `begin` and `multiply` comes `commit`, and `wait_products<K>` waits until all but the last K
// commits are done. Until then their sums and factors in registers must not be touched, and their stages not released.

__device__ __forceinline__ void begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int K>
__device__ __forceinline__ void wait_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(K) : "memory");
}

// Keep the compiler from moving reads and writes across.
template <int N>
__device__ __forceinline__ void fence(float (&values)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(values[i])::"memory");
}

template <int N>
__device__ __forceinline__ void fence(u32 (&values)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+r"(values[i])::"memory");
}

TILES_INSTRUCTIONS

// Adds the product of two factors of TERMS terms, in groups in ascending order; a fresh one sets the sums instead (to the bits of
// one that is added to zeros).
template <int TERMS, class Type, int N, int LENGTH_A, bool ALONG_A, int LENGTH_B, bool ALONG_B>
__device__ __forceinline__ void multiply(Type type, float (&sums)[N], const Part<LENGTH_A, ALONG_A> &a, const Part<LENGTH_B, ALONG_B> &b, bool fresh) {
#pragma unroll
    for (int k = 0; k < TERMS / STEP<Type>; k++) instruction<ALONG_A, ALONG_B>(type, sums, a.described(k), b.described(k), fresh && k == 0);
}

template <int TERMS, class Type, int N, int LENGTH_B, bool ALONG_B>
__device__ __forceinline__ void multiply(Type type, float (&sums)[N], const u32 (&a)[4 * TERMS / STEP<Type>], const Part<LENGTH_B, ALONG_B> &b, bool fresh) {
#pragma unroll
    for (int k = 0; k < TERMS / STEP<Type>; k++) instruction<ALONG_B>(type, sums, a[4 * k], a[4 * k + 1], a[4 * k + 2], a[4 * k + 3], b.described(k), fresh && k == 0);
}

// Element-wise steps.

// Where the elements of a thread are in a tile.
struct Place {
    int row, column;
    __device__ __forceinline__ explicit Place(int warpgroup)
        : row(64 * warpgroup + (threadIdx.x >> 5 & 3) * 16 + (threadIdx.x >> 2 & 7)), column(2 * (threadIdx.x & 3)) {}
    __device__ __forceinline__ int row_of(int i) const { return row + 8 * (i / 2 % 2); }
    __device__ __forceinline__ int column_of(int i) const { return column + 8 * (i / 4) + i % 2; }
};

// Returns element i of a tile, or the value of its row.
template <class T, int N>
__device__ __forceinline__ T element(const T (&values)[N], int i) {
    return values[N == 2 ? i / 2 % 2 : i];
}

// Sets elements to `f(row, column, elements...)`, in the rows and columns of the tile.
template <class T, int N, class F, class... Values>
__device__ __forceinline__ void each(T (&to)[N], const Place &place, const F &f, const Values &...values) {
    static_assert(N > 2, "a tile");
#pragma unroll
    for (int i = 0; i < N; i++) to[i] = f(place.row_of(i), place.column_of(i), element(values, i)...);
}

// Sets the values of rows to `f(row, 0, values...)`.
template <class T, class F, class... Values>
__device__ __forceinline__ void each_row(T (&to)[2], const Place &place, const F &f, const Values &...values) {
#pragma unroll
    for (int i = 0; i < 2; i++) to[i] = f(place.row_of(2 * i), 0, element(values, 2 * i)...);
}

// Rounds two numbers to nearest. Of a NaN only remains that it is one, as of all that comes from a product.
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

// Sets a factor's elements to `f(row, column, elements...)`, rounded.
template <class Type, int N, class F, class... Values>
__device__ __forceinline__ void each_rounded(Type type, u32 (&to)[N], const Place &place, const F &f, const Values &...values) {
#pragma unroll
    for (int w = 0; w < N; w++)
        to[w] = rounded(type, f(place.row_of(2 * w), place.column_of(2 * w), element(values, 2 * w)...),
                        f(place.row_of(2 * w), place.column_of(2 * w + 1), element(values, 2 * w + 1)...));
}

// Sets a factor's elements to `f(row, column, elements...)`, which rounds. Sums are in columns 2 * q and 2 * q + 1 of each 8, with q = t % 4, and factors in
// q and q + 4: a thread sends each of its numbers once, in the order in which those of its row need them.
template <int N, class F, class... Values>
__device__ __forceinline__ void each_rounded(Tf32, u32 (&to)[N], const Place &place, const F &f, const Values &...values) {
    const int quarter = threadIdx.x & 3, lane = threadIdx.x & 31;
    const bool low = quarter < 2, even = (quarter & 1) == 0;
    // Threads 0 to 3 of a row take from 0, 2, 1, 3, then from 2, 0, 3, 1.
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

// Reductions along the columns, in halves: with h the largest power of two below the number of columns, element k + h is added to element k,
// and so on. Columns 8 or more apart are in one thread.

// Returns what register 4 * M + i holds once columns that are 8 * S or more apart are put together: one branch after the other, which needs
// few registers.
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

// Sets the values of rows to the elements of each row, put together by `f`, which does not depend on the order of its two operands.
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

// Calls `f(row, column, elements...)` for each element of COLUMNS columns.
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

// Whether all numbers from `small + small_low` to `small + small_high` are less than, or with `equal` at most, those of the other side. Numbers
// that leave 32 bits wrap, and are not compared.
__device__ __forceinline__ bool ordered(int small, int small_low, int small_high, int large, int large_low, int large_high, bool equal) {
    const long long bottom = (long long)small + small_low, below = (long long)small + small_high;
    const long long above = (long long)large + large_low, top = (long long)large + large_high;
    const long long least = -0x80000000ll, most = 0x7fffffffll;
    const bool fits = bottom >= least && below <= most && above >= least && top <= most;
    return fits && (equal ? below <= above : below < above);
}

// Returns how often a counter from `start` on is below `end`.
__device__ __forceinline__ u32 turns(int start, int end, u32 step) {
    return start < end ? (u32(end) - u32(start) - 1) / step + 1 : 0;
}

}  // namespace tiles

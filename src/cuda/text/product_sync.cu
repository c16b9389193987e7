// The product of two matrices of bf16, f16 or tf32 with `mma.sync`, the tensor-core instruction of all GPUs from sm_80
// on. K is the dimension along which the product sums.
//
// A block computes tiles of ROWS x COLUMNS elements sequentially. Each of its eight warps computes 64 x 64 elements,
// with accumulators in registers. All threads copy parts of the operands asynchronously to a ring of stages in shared
// memory, several steps ahead and also across tiles. For each element, the products are added in ascending order along
// K, so the bits of the sum do not depend on the tile.
namespace tensor_cores {

// A row-major matrix in memory, without gaps between rows.
struct Plain {
    const void *data;
    int rows, columns;
};

constexpr int ROWS = 128, COLUMNS = 256, THREADS = 256;
// The number of elements along K in a stage (64 bytes), and in one instruction.
constexpr int LINE = 64, TERMS = LINE / TENSOR_BYTES, STEP = 32 / TENSOR_BYTES, STAGES = 4;
constexpr u32 A_BYTES = ROWS * LINE, B_BYTES = COLUMNS * LINE, STAGE_BYTES = A_BYTES + B_BYTES;
// Tiles are ordered by groups of TOGETHER rows of tiles, and column by column within a group, so that blocks that run
// concurrently share operands in the L2 cache.
constexpr int TOGETHER = 16;
// A warp computes HIGH times 16 rows and WIDE times 8 columns.
constexpr int HIGH = 4, WIDE = 8;
// Whether an operand is contiguous along K.
constexpr bool A_ALONG = !TENSOR_A_BY_COLUMNS, B_ALONG = TENSOR_B_BY_COLUMNS;

// The part of an operand in a stage: OWN rows or columns. ALONG: it is contiguous along K, so a line has the elements
// of one row or column. Otherwise, a line has all rows or columns at one index of K. The position of a 16-byte piece in
// its line is its number XOR a number that depends on the line, which avoids bank conflicts.
template <bool ALONG, int OWN>
struct Part {
    static constexpr int LINES = ALONG ? OWN : TERMS, WIDTH = ALONG ? LINE : OWN * TENSOR_BYTES;

    static __device__ __forceinline__ u32 place(int line, int piece) {
        const int by = ALONG ? LINE == 64 ? line >> 1 & 3 : line & 7 : TENSOR_BYTES == 2 ? line & 7 : 2 * (line & 3);
        return u32(line * WIDTH + ((piece ^ by) << 4));
    }
};

// Copies of an operand's part to a stage. A thread copies the piece with the same number in every AT_ONCE-th line.
template <bool ALONG, int OWN>
struct Copy {
    typedef Part<ALONG, OWN> To;
    static constexpr int EACH = To::WIDTH / 16, AT_ONCE = THREADS / EACH, COUNT = To::LINES / AT_ONCE, ELEMENTS = 16 / TENSOR_BYTES;
    static_assert(THREADS % EACH == 0 && To::LINES % AT_ONCE == 0, "whole lines");

    static __device__ __forceinline__ u32 place(int i) { return To::place(int(threadIdx.x) / EACH + i * AT_ONCE, int(threadIdx.x) % EACH); }

    // Begins the copy of a part that starts at this row or column and at this index of K. Elements outside the matrix
    // become zero.
    static __device__ __forceinline__ void begin(u32 to, const Plain &from, int own, int term) {
        const int row = (ALONG ? own : term) + int(threadIdx.x) / EACH, x = (ALONG ? term : own) + int(threadIdx.x) % EACH * ELEMENTS;
        const char *at = (const char *)from.data + ((long long)row * from.columns + x) * TENSOR_BYTES;
        const long long next = (long long)AT_ONCE * from.columns * TENSOR_BYTES;
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            // Rows consist of whole pieces, so a piece is completely inside or outside.
            const bool inside = x < from.columns && row + i * AT_ONCE < from.rows;
            copy_piece(to + place(i), inside ? at : (const char *)from.data, inside ? 16 : 0);
            at += next;
        }
    }
};

// Memory for packed operands, and the counter with which blocks synchronize after packing.
struct Room {
    void *a, *b;
    unsigned *arrivals;
};

// Returns the 16 bytes that begin `bytes` bytes after the start of `low`. `bytes` is a multiple of 2 and less than 16.
__device__ __forceinline__ uint4 shifted(const uint4 &low, const uint4 &high, int bytes) {
    u32 all[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int i = 0; i < 6; i++) all[i] = bytes & 8 ? all[i + 2] : all[i];
#pragma unroll
    for (int i = 0; i < 5; i++) all[i] = bytes & 4 ? all[i + 1] : all[i];
#pragma unroll
    for (int i = 0; i < 4; i++) all[i] = __funnelshift_r(all[i], all[i + 1], 8 * (bytes & 2));
    return make_uint4(all[0], all[1], all[2], all[3]);
}

// Packs a matrix with all threads of all blocks: copies it to rows of whole 16-byte pieces, padded with zeros, and
// rounds elements to tf32 if the product is in tf32. A warp packs up to AT_ONCE * 32 pieces of a row at a time, so that
// their loads overlap.
__device__ __forceinline__ Plain packed(const Plain &from, void *to) {
    constexpr u32 ELEMENTS = 16 / TENSOR_BYTES, AT_ONCE = 4;
    const u32 each = (from.columns + ELEMENTS - 1) / ELEMENTS, chunks = (each + 32 * AT_ONCE - 1) / (32 * AT_ONCE);
    const u32 lane = threadIdx.x & 31, warps = gridDim.x * (THREADS / 32), count = chunks * u32(from.rows);
    const u64 data = u64(from.data), bytes = u64(from.rows) * u64(from.columns) * TENSOR_BYTES;
    // Loads are aligned to 16 bytes. `last` is the last address from which 32 bytes can be loaded.
    const bool loads = bytes >= 32;
    const u64 last = loads ? (data + bytes - 32) & ~u64(15) : data;
    for (u32 item = blockIdx.x * (THREADS / 32) + (threadIdx.x >> 5); item < count; item += warps) {
        const u32 row = item / chunks, first = (item - row * chunks) * (32 * AT_ONCE) + lane;
        const u64 start = data + u64(row) * u64(from.columns) * TENSOR_BYTES;
        uint4 low[AT_ONCE], high[AT_ONCE];
#pragma unroll
        for (u32 k = 0; k < AT_ONCE; k++) {
            const u64 down = (start + u64(first + 32 * k) * 16) & ~u64(15), at = down < last ? down : last;
            low[k] = high[k] = make_uint4(0, 0, 0, 0);
            if (loads) {
                low[k] = __ldg((const uint4 *)at);
                high[k] = __ldg((const uint4 *)at + 1);
            }
        }
#pragma unroll
        for (u32 k = 0; k < AT_ONCE; k++) {
            const u32 piece = first + 32 * k;
            const u64 at = start + u64(piece) * 16;
            uint4 words = shifted(low[k], high[k], int(at & 15));
            if (piece < each && ((piece + 1) * ELEMENTS > u32(from.columns) || !loads || (at & ~u64(15)) > last)) {
                // At the end of a row or of the matrix, load single elements.
                u32 rest[4] = {0, 0, 0, 0};
#pragma unroll
                for (u32 i = 0; i < ELEMENTS; i++) {
                    if (piece * ELEMENTS + i >= u32(from.columns)) continue;
                    if (TENSOR_BYTES == 4) rest[i % 4] = ((const u32 *)at)[i];
                    else rest[i / 2] |= u32(((const unsigned short *)at)[i]) << 16 * (i % 2);
                }
                words = make_uint4(rest[0], rest[1], rest[2], rest[3]);
            }
            if (TENSOR_BYTES == 4) words = make_uint4(rounded(words.x), rounded(words.y), rounded(words.z), rounded(words.w));
            if (piece < each) ((uint4 *)to)[u64(row) * each + piece] = words;
        }
    }
    return Plain{to, from.rows, int(each * ELEMENTS)};
}

// Grid barrier: waits for all blocks, which run at the same time, and makes their earlier writes visible.
__device__ __forceinline__ void meet(unsigned *arrivals) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrivals, 1);
        while (*(volatile unsigned *)arrivals < gridDim.x) {
        }
        __threadfence();
    }
    __syncthreads();
}

// A thread's operands for one step: an instruction for each 16 rows and 8 columns of its warp.
struct Terms {
    u32 a[HIGH][4], b[WIDE / 2][4];

    // Loads the operands for step `step` of a stage, for the warp's rows and columns of the tile, which begin at these
    // numbers.
    __device__ __forceinline__ void load(u32 stage, int step, int row, int column) {
        typedef Part<A_ALONG, ROWS> A;
        typedef Part<B_ALONG, COLUMNS> B;
        const int lane = threadIdx.x & 31, low = lane & 7, middle = lane >> 3 & 1, high = lane >> 4;
#pragma unroll
        for (int i = 0; i < HIGH; i++) {
            const int own = row + 16 * i;
            if constexpr (A_ALONG) {
                load_rows(a[i], stage + A::place(own + (lane & 15), 2 * step + high));
            } else if constexpr (TENSOR_BYTES == 2) {
                load_columns(a[i], stage + A::place(16 * step + low + 8 * high, own / 8 + middle));
            } else {
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    const int line = 8 * step + (lane & 3) + 4 * (k >> 1), at = own + (lane >> 2) + 8 * (k & 1);
                    a[i][k] = load_word(stage + A::place(line, at >> 2) + 4 * (at & 3));
                }
            }
        }
#pragma unroll
        for (int i = 0; i < WIDE / 2; i++) {
            const int own = column + 16 * i;
            const u32 part = stage + A_BYTES;
            if constexpr (B_ALONG) {
                load_rows(b[i], part + B::place(own + low + 8 * high, 2 * step + middle));
            } else if constexpr (TENSOR_BYTES == 2) {
                load_columns(b[i], part + B::place(16 * step + (lane & 15), own / 8 + high));
            } else {
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    const int line = 8 * step + (lane & 3) + 4 * (k & 1), at = own + (lane >> 2) + 8 * (k >> 1);
                    b[i][k] = load_word(part + B::place(line, at >> 2) + 4 * (at & 3));
                }
            }
        }
    }
};

#if TENSOR_BYTES == 4
#define TENSOR_SHAPE "m16n8k8"
#else
#define TENSOR_SHAPE "m16n8k16"
#endif
// Adds the product of 16 x STEP and STEP x 8 elements to the accumulators. Thread t has the accumulators of rows t / 4
// and t / 4 + 8, in columns 2 * (t % 4) and 2 * (t % 4) + 1.
__device__ __forceinline__ void multiply(float *sums, const u32 (&a)[4], u32 b0, u32 b1) {
    TENSOR_ADD(TENSOR_SHAPE, TENSOR_TYPE, sums, a, b0, b1);
}

// Passes the accumulators of a warp, whose elements begin at this row and column, to the epilogue `at`. Neighboring
// threads exchange accumulators, so that a thread has four adjacent elements. A thread calls `at` for sixteen elements
// before it performs their deferred stores, so that the loads of the epilogue overlap. A row or column outside the
// product is replaced by the last one, for which the loads are in bounds, and the deferred store is not performed.
template <class Left, class At, class Write>
__device__ __forceinline__ void finish(float (&sums)[HIGH * WIDE * 4], int row, int column, const Edges &edges, const At &at, const Write &write) {
    const int rows = edges.rows, columns = edges.columns;
    const int lane = threadIdx.x & 31;
    const bool odd = lane & 1;
    row += (lane >> 2) + (odd ? 8 : 0);
    column += 4 * (lane >> 1 & 1);
#pragma unroll 1
    for (int turn = 0; turn < HIGH * WIDE / 4; turn++) {
        const int down = row + turn / 2 * 16, inside = down < rows ? down : rows - 1;
        Left left[4][4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const float *own = sums + 4 * k;
            const int first = column + 32 * (turn & 1) + 8 * k;
            const float low = __shfl_xor_sync(0xffffffff, odd ? own[0] : own[2], 1), high = __shfl_xor_sync(0xffffffff, odd ? own[1] : own[3], 1);
            const float four[4] = {odd ? low : own[0], odd ? high : own[1], odd ? own[2] : low, odd ? own[3] : high};
#pragma unroll
            for (int i = 0; i < 4; i++) at(false, inside, first + i < columns ? first + i : columns - 1, four[i], left[k][i]);
        }
#pragma unroll
        for (int k = 0; k < 4; k++) write(left[k], down < rows ? columns - (column + 32 * (turn & 1) + 8 * k) : 0);
        // Move the accumulators of the next iteration to the front.
#pragma unroll
        for (int i = 0; i < HIGH * WIDE * 4 - 16; i++) sums[i] = sums[i + 16];
    }
}

// Computes the product; `terms` is the extent of K. Calls the epilogue `at(false, row, column, element, left)` for each
// element. Then calls `write(left, count)` for each four elements, which performs the deferred stores of the first
// `count` of them.
template <class Left, class At, class Write>
__device__ __forceinline__ void product(Plain a, Plain b, const Room &packing, const Edges &edges, int terms, const At &at, const Write &write) {
    extern __shared__ __align__(128) unsigned char room[];
    const u32 base = u32(__cvta_generic_to_shared(room));
    if (TENSOR_A_PACKED) a = packed(a, packing.a);
    if (TENSOR_B_PACKED) b = packed(b, packing.b);
    if (TENSOR_A_PACKED || TENSOR_B_PACKED) meet(packing.arrivals);
    const int high = (edges.rows + ROWS - 1) / ROWS, wide = (edges.columns + COLUMNS - 1) / COLUMNS, tiles = high * wide;
    const int steps = (terms + TERMS - 1) / TERMS;
    const auto tile_at = [&](int tile, int &row, int &column) {
        const int each = TOGETHER * wide, group = tile / each, first = group * TOGETHER, left = high - first;
        const int count = left < TOGETHER ? left : TOGETHER, rest = tile - group * each;
        row = (first + rest % count) * ROWS;
        column = rest / count * COLUMNS;
    };
    const auto behind = [&](u32 stage) { return stage == base + (STAGES - 1) * STAGE_BYTES ? base : stage + STAGE_BYTES; };
    // The tile and the step of the next part to copy, and the stage to which it is copied.
    int next_tile = blockIdx.x, next_step = 0, next_row = 0, next_column = 0;
    u32 next_stage = base;
    const auto begin = [&] {
        if (next_tile < tiles) {
            if (next_step == 0) tile_at(next_tile, next_row, next_column);
            Copy<A_ALONG, ROWS>::begin(next_stage, a, next_row, next_step * TERMS);
            Copy<B_ALONG, COLUMNS>::begin(next_stage + A_BYTES, b, next_column, next_step * TERMS);
            if (++next_step == steps) {
                next_step = 0;
                next_tile += gridDim.x;
            }
        }
        next_stage = behind(next_stage);
        commit();
    };
#pragma unroll 1
    for (int k = 0; k < STAGES - 1; k++) begin();
    const int warp = threadIdx.x >> 5, own_row = 64 * (warp & 1), own_column = 64 * (warp >> 1);
    u32 stage = base;
    float sums[HIGH * WIDE * 4];
    copied<STAGES - 2>();
    __syncthreads();
#pragma unroll 1
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        int row, column;
        tile_at(tile, row, column);
#pragma unroll
        for (int i = 0; i < HIGH * WIDE * 4; i++) sums[i] = 0.0f;
        Terms now[2];
        now[0].load(stage, 0, own_row, own_column);
#pragma unroll 1
        for (int step = 0; step < steps; step++) {
            const u32 next = behind(stage);
#pragma unroll
            for (int k = 0; k < TERMS / STEP; k++) {
                if (k == TERMS / STEP - 1) {
                    // Wait until the next stage is filled. After the barrier, no thread reads the current stage any
                    // more.
                    copied<STAGES - 2>();
                    __syncthreads();
                    if (step + 1 < steps) now[(k + 1) & 1].load(next, 0, own_row, own_column);
                } else {
                    now[(k + 1) & 1].load(stage, k + 1, own_row, own_column);
                }
                if (k == 0) begin();
#pragma unroll
                for (int i = 0; i < HIGH; i++) {
#pragma unroll
                    for (int j = 0; j < WIDE; j++)
                        multiply(sums + 4 * (WIDE * i + j), now[k & 1].a[i], now[k & 1].b[j / 2][j % 2 * 2], now[k & 1].b[j / 2][j % 2 * 2 + 1]);
                }
            }
            stage = next;
        }
        finish<Left>(sums, row + own_row, column + own_column, edges, at, write);
    }
}

}  // namespace tensor_cores
#undef TENSOR_ADD
#undef TENSOR_SHAPE
#undef TENSOR_TYPE
#undef TENSOR_BYTES
#undef TENSOR_A_BY_COLUMNS
#undef TENSOR_B_BY_COLUMNS
#undef TENSOR_A_PACKED
#undef TENSOR_B_PACKED

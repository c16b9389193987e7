// The product of two matrices of bf16, f16 or tf32 on the tensor cores of sm_90a.
//
// A block computes tiles of ROWS x COLUMNS elements, one after the other. Its first warpgroup (128 threads) copies parts of the factors
// to a ring of stages in shared memory; the other two multiply them, ROWS / 2 rows each, with sums in registers, and pass each element
// on: most of them while the next tile is multiplied. The terms of a sum are added in ascending order, whatever the tile, so that its
// bits do not depend on the tile.
namespace tensor_cores {

// A factor as it is in memory, without gaps between rows.
struct Plain {
    const void *data;
    int rows, columns;
};

constexpr int ROWS = 128, COLUMNS = 256;
// The terms of a stage: 128 bytes, the width of the swizzled layout; and those of one instruction.
constexpr int TERMS = 128 / TENSOR_BYTES, STEP = 32 / TENSOR_BYTES;
constexpr int STAGES = 3;
constexpr u32 A_BYTES = ROWS * 128, B_BYTES = COLUMNS * 128, STAGE_BYTES = A_BYTES + B_BYTES;
// A warp passes its sums through shared memory: PANEL columns of its 16 rows at a time. Of a tile's WIDE panels, the last KEPT stay there
// while the next tile is multiplied: a piece of PIECE rows after each step.
constexpr int PANEL = 32, PANEL_BYTES = 16 * PANEL * 4, WIDE = COLUMNS / PANEL, KEPT = 5, PIECE = 8;
constexpr int MULTIPLIERS = 2;
// Tiles of that many rows of tiles are computed column by column: blocks that run together share rows and columns in the L2 cache.
constexpr int TOGETHER = 16;
// Registers of a thread of the first and of the other warpgroups: 65536 for 128 threads of each.
constexpr int COPIER_REGISTERS = TENSOR_PLAIN ? 120 : 24, MULTIPLIER_REGISTERS = TENSOR_PLAIN ? 192 : 240;

// Describes a factor. Along the terms a matrix is in rows of TERMS terms. Otherwise a row is 64 rows or columns of one term, and the next 64 come
// behind all terms of the stage; of tf32 there is nothing but the former.
__device__ __forceinline__ u64 described(u32 address, bool along_terms) {
    return boxes_at(address, u32(along_terms ? 16 : TERMS * 128));
}

// Adds the product of 64 x STEP and STEP x COLUMNS elements. The sums of a thread t of a warpgroup: sums[i] is in row
// 16 * (t / 32) + t % 32 / 4 + 8 * (i / 2 % 2) and in column 8 * (i / 4) + 2 * (t % 4) + i % 2.
#define TENSOR_SUMS(i) "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3]), "+f"(sums[i + 4]), "+f"(sums[i + 5]), \
    "+f"(sums[i + 6]), "+f"(sums[i + 7])
#define TENSOR_MORE_SUMS(i) TENSOR_SUMS(i), TENSOR_SUMS(i + 8), TENSOR_SUMS(i + 16), TENSOR_SUMS(i + 24)
#if TENSOR_BYTES == 4
#define TENSOR_TERMS "k8"
#define TENSOR_DIRECTIONS(a, b) ""
#else
#define TENSOR_TERMS "k16"
#define TENSOR_DIRECTIONS(a, b) ", " a ", " b
#endif
__device__ __forceinline__ void multiply(float (&sums)[COLUMNS / 2], u64 a, u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n256" TENSOR_TERMS ".f32." TENSOR_TYPE "." TENSOR_TYPE " "
        "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,"
        "%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,"
        "%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,"
        "%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127}, "
        "%128, %129, 1, 1, 1" TENSOR_DIRECTIONS("%130", "%131") ";\n"
        : TENSOR_MORE_SUMS(0), TENSOR_MORE_SUMS(32), TENSOR_MORE_SUMS(64), TENSOR_MORE_SUMS(96)
        : "l"(a), "l"(b), "n"(TENSOR_A_BY_COLUMNS), "n"(!TENSOR_B_BY_COLUMNS));
}

// Keeps the compiler from moving reads and writes of sums across.
__device__ __forceinline__ void fence(float (&sums)[COLUMNS / 2]) {
#pragma unroll
    for (int i = 0; i < COLUMNS / 2; i++) asm volatile("" : "+f"(sums[i])::"memory");
}

#if TENSOR_PLAIN
// Returns an element, or zero.
__device__ __forceinline__ u32 load_element(const unsigned short *from, bool inside) {
    u32 value;
    asm volatile("{\n.reg .pred p;\n.reg .b16 h;\nsetp.ne.b32 p, %2, 0;\nmov.b16 h, 0;\n@p ld.global.nc.b16 h, [%1];\n"
                 "cvt.u32.u16 %0, h;\n}" : "=r"(value) : "l"(from), "r"(int(inside)));
    return value;
}

// Returns two elements, or zeros.
__device__ __forceinline__ u32 load_elements(const unsigned short *from, bool inside) {
    u32 value;
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %2, 0;\nmov.b32 %0, 0;\n@p ld.global.nc.b32 %0, [%1];\n}"
                 : "=r"(value) : "l"(from), "r"(int(inside)));
    return value;
}

// Copies as `copy_box` does, of factors for which that cannot be used: COUNT / BOX boxes of BOX rows, side by side in the matrix. A
// warp loads a row at a time, and AT_ONCE of them before the first is stored.
template <int COUNT, int BOX>
__device__ __forceinline__ void copy_rows(u32 to, const Plain &from, int x, int y) {
    constexpr int AT_ONCE = 16;
    static_assert(BOX % (4 * AT_ONCE) == 0 && COUNT % BOX == 0, "whole steps");
    const u32 warp = threadIdx.x >> 5 & 3, lane = threadIdx.x & 31;
    const unsigned short *data = (const unsigned short *)from.data;
    const bool in_words = (from.columns & 1) == 0 && (u64(data) & 3) == 0;
#pragma unroll 1
    for (int first = 0; first < COUNT; first += 4 * AT_ONCE) {
        const int row = y + first % BOX + int(warp), column = x + first / BOX * 64 + 2 * int(lane);
        const int rows = row < from.rows ? (from.rows - row + 3) >> 2 : 0;
        const bool one = column < from.columns, both = column + 1 < from.columns;
        const unsigned short *next = data + (long long)row * from.columns + column;
        const long long stride = 4LL * from.columns;
        u32 values[AT_ONCE];
        if (in_words) {
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) values[k] = load_elements(next + k * stride, one && k < rows);
        } else {
            u32 seconds[AT_ONCE];
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) {
                values[k] = load_element(next + k * stride, one && k < rows);
                seconds[k] = load_element(next + k * stride + 1, both && k < rows);
            }
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) values[k] |= seconds[k] << 16;
        }
        // Row first + warp + 4 * k, of which `first` is a multiple of 8.
        const u32 place = to + (first + warp) * 128 + (lane & 3) * 4;
        const u32 even = place + ((lane >> 2 ^ warp) << 4), odd = place + ((lane >> 2 ^ (warp + 4)) << 4);
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
            asm volatile("st.shared.b32 [%0], %1;" ::"r"((k & 1 ? odd : even) + k * 512), "r"(values[k]) : "memory");
    }
}

// Copies the terms of a stage, with all threads of the warpgroup or by one; the barrier then counts the bytes, or the threads.
__device__ __forceinline__ void copy_stage(u32 to, const Plain &a, const Plain &b, int row, int column, int term, u32 full) {
    if (TENSOR_A_BY_COLUMNS) copy_rows<ROWS / 64 * TERMS, TERMS>(to, a, row, term);
    else copy_rows<ROWS, ROWS>(to, a, term, row);
    if (TENSOR_B_BY_COLUMNS) copy_rows<COLUMNS, COLUMNS>(to + A_BYTES, b, term, column);
    else copy_rows<COLUMNS / 64 * TERMS, TERMS>(to + A_BYTES, b, column, term);
    // Ordinary stores, before the tensor cores read.
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    arrive(full);
}
#else
__device__ __forceinline__ void copy_stage(u32 to, const Map &a, const Map &b, int row, int column, int term, u32 full) {
    arrive_and_expect(full, STAGE_BYTES);
    if (TENSOR_A_BY_COLUMNS) {
#pragma unroll
        for (int k = 0; k < ROWS / 64; k++) copy_box(to + k * TERMS * 128, a, row + k * 64, term, full);
    } else {
        copy_box(to, a, term, row, full);
    }
    if (TENSOR_B_BY_COLUMNS) {
        copy_box(to + A_BYTES, b, term, column, full);
    } else {
#pragma unroll
        for (int k = 0; k < COLUMNS / 64; k++) copy_box(to + A_BYTES + k * TERMS * 128, b, column + k * 64, term, full);
    }
}
#endif

// Puts a panel of a warp's sums into shared memory. A column's number XOR 8 times that of the row modulo 4 spreads them over the banks.
__device__ __forceinline__ void put(const float *sums, float *panel) {
    const int lane = threadIdx.x & 31, group = lane >> 2, pair = lane & 3;
#pragma unroll
    for (int i = 0; i < PANEL / 2; i += 2) {
        const int down = group + 8 * (i / 2 % 2), across = 8 * (i / 4) + 2 * pair;
        *(float2 *)(panel + down * PANEL + (across ^ 8 * (down & 3))) = make_float2(sums[i], sums[i + 1]);
    }
}

// Passes COUNT rows of a panel, which begins at this row and column, to `at`: a thread has four elements beside each other of every
// fourth row, and calls `at` for all before it writes what they left, so that what `at` loads is under way together. `WHOLE`: all are in
// these rows and columns; else those that are not are replaced by the last ones, whose loads are in bounds, and leave nothing.
template <class Left, bool WHOLE, int COUNT, class At, class Write>
__device__ __forceinline__ void pass(const float *panel, int start, int row, int column, int rows, int columns, const At &at, const Write &write) {
    const int lane = threadIdx.x & 31, across = 4 * (lane & 7), first = column + across;
    int own[4];
#pragma unroll
    for (int i = 0; i < 4; i++) own[i] = WHOLE || first + i < columns ? first + i : columns - 1;
    Left left[COUNT / 4][4];
#pragma unroll
    for (int k = 0; k < COUNT / 4; k++) {
        const int down = start + 4 * k + (lane >> 3), inside = WHOLE || row + down < rows ? row + down : rows - 1;
        const float4 four = *(const float4 *)(panel + down * PANEL + (across ^ 8 * (down & 3)));
        at(inside, own[0], four.x, left[k][0]);
        at(inside, own[1], four.y, left[k][1]);
        at(inside, own[2], four.z, left[k][2]);
        at(inside, own[3], four.w, left[k][3]);
    }
#pragma unroll
    for (int k = 0; k < COUNT / 4; k++) write(left[k], WHOLE ? 4 : row + start + 4 * k + (lane >> 3) < rows ? columns - first : 0);
}

// What a warp has in shared memory of a tile that was multiplied: pieces from this one on, of the rows and columns from these on.
struct Kept {
    float *panels;
    int row, column, piece = KEPT * 16 / PIECE;
};

// Passes the next piece, if there is one.
template <class Left, class At, class Write>
__device__ __forceinline__ void pass_piece(Kept &kept, int rows, int columns, const At &at, const Write &write) {
    constexpr int EACH = 16 / PIECE;
    if (kept.piece == KEPT * EACH) return;
    const int number = kept.piece / EACH, start = kept.piece % EACH * PIECE, column = kept.column + number * PANEL;
    const float *panel = kept.panels + number * 16 * PANEL;
    if (kept.row + 16 <= rows && column + PANEL <= columns) pass<Left, true, PIECE>(panel, start, kept.row, column, rows, columns, at, write);
    else pass<Left, false, PIECE>(panel, start, kept.row, column, rows, columns, at, write);
    kept.piece++;
}

// Passes the first panels of a warp's sums, and keeps the others for later.
template <class Left, class At, class Write>
__device__ __forceinline__ void finish(const float (&sums)[COLUMNS / 2], Kept &kept, int row, int column, int rows, int columns, const At &at,
                                       const Write &write) {
    constexpr int NOW = WIDE - KEPT;
    const bool whole = row + 16 <= rows && column + NOW * PANEL <= columns;
    __syncwarp();
#pragma unroll
    for (int k = 0; k < NOW; k++) put(sums + k * PANEL / 2, kept.panels + k * 16 * PANEL);
    __syncwarp();
#pragma unroll 1
    for (int k = 0; k < NOW; k++) {
        const float *panel = kept.panels + k * 16 * PANEL;
        if (whole) pass<Left, true, 16>(panel, 0, row, column + k * PANEL, rows, columns, at, write);
        else pass<Left, false, 16>(panel, 0, row, column + k * PANEL, rows, columns, at, write);
    }
    __syncwarp();
#pragma unroll
    for (int k = 0; k < KEPT; k++) put(sums + (NOW + k) * PANEL / 2, kept.panels + k * 16 * PANEL);
    __syncwarp();
    kept.row = row;
    kept.column = column + NOW * PANEL;
    kept.piece = 0;
}

// Calls `at(row, column, element, left)` for the elements of the product in this many rows and columns, each a sum of `terms` products, and
// `write(left, count)` with what four of them left, of which the first `count` are to be written.
template <class Left, class Factor, class At, class Write>
__device__ __forceinline__ void product(const Factor &a, const Factor &b, int rows, int columns, int terms, const At &at, const Write &write) {
    extern __shared__ unsigned char room[];
    // The swizzled layout is one of addresses, modulo 1024.
    const u32 address = u32(__cvta_generic_to_shared(room)), base = (address + 1023) & ~1023u;
    const u32 panels = base + STAGES * STAGE_BYTES, full = panels + 4 * MULTIPLIERS * KEPT * PANEL_BYTES, empty = full + 8 * STAGES;
    const int high = (rows + ROWS - 1) / ROWS, wide = (columns + COLUMNS - 1) / COLUMNS, tiles = high * wide;
    const int steps = (terms + TERMS - 1) / TERMS;
    if (threadIdx.x == 0) {
        for (int k = 0; k < STAGES; k++) {
            create(full + 8 * k, TENSOR_PLAIN ? 128 : 1);
            create(empty + 8 * k, 4 * MULTIPLIERS);
        }
        created();
    }
    __syncthreads();
    const int warpgroup = threadIdx.x >> 7;
    int stage = 0;
    u32 parity = 0;
    const auto next = [&] {
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    };
    const auto tile_at = [&](int tile, int &row, int &column) {
        const int each = TOGETHER * wide, group = tile / each, first = group * TOGETHER, left = high - first;
        const int count = left < TOGETHER ? left : TOGETHER, rest = tile - group * each;
        row = (first + rest % count) * ROWS;
        column = rest / count * COLUMNS;
    };
    if (warpgroup == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COPIER_REGISTERS));
        if (TENSOR_PLAIN || threadIdx.x == 0) {
            for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
                int row, column;
                tile_at(tile, row, column);
                for (int step = 0; step < steps; step++) {
                    wait(empty + 8 * stage, parity ^ 1);
                    copy_stage(base + stage * STAGE_BYTES, a, b, row, column, step * TERMS, full + 8 * stage);
                    next();
                }
            }
        }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(MULTIPLIER_REGISTERS));
    const int own = warpgroup - 1, warp = (threadIdx.x >> 5) - 4;
    const auto release = [&](u32 barrier) {
        if ((threadIdx.x & 31) == 0) arrive(barrier);
    };
    // Bytes from the terms of one instruction to the next.
    constexpr u32 A_NEXT = TENSOR_A_BY_COLUMNS ? STEP * 128 : 32, B_NEXT = TENSOR_B_BY_COLUMNS ? 32 : STEP * 128;
    // 64 rows of a are TERMS rows of 128 bytes, by columns, or 64 of them: the same.
    const u64 first_a = described(base + own * 64 * 128, !TENSOR_A_BY_COLUMNS), first_b = described(base + A_BYTES, TENSOR_B_BY_COLUMNS);
    Kept kept;
    kept.panels = (float *)(room + (panels - address) + warp * KEPT * PANEL_BYTES);
    float sums[COLUMNS / 2];
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        int row, column;
        tile_at(tile, row, column);
#pragma unroll
        for (int i = 0; i < COLUMNS / 2; i++) sums[i] = 0.0f;
        u32 before = 0;
        for (int step = 0; step < steps; step++) {
            wait(full + 8 * stage, parity);
            const u64 behind = u64(stage * (STAGE_BYTES >> 4));
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
            for (int k = 0; k < TERMS / STEP; k++) multiply(sums, first_a + behind + (k * A_NEXT >> 4), first_b + behind + (k * B_NEXT >> 4));
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            // The step before this one is done: its stage is free.
            asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
            if (step > 0) release(before);
            before = empty + 8 * stage;
            next();
            pass_piece<Left>(kept, rows, columns, at, write);
        }
        fence(sums);
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        fence(sums);
        if (steps > 0) release(before);
#pragma unroll 1
        while (kept.piece < KEPT * 16 / PIECE) pass_piece<Left>(kept, rows, columns, at, write);
        finish<Left>(sums, kept, row + own * 64 + (warp & 3) * 16, column, rows, columns, at, write);
    }
#pragma unroll 1
    while (kept.piece < KEPT * 16 / PIECE) pass_piece<Left>(kept, rows, columns, at, write);
}

}  // namespace tensor_cores
#undef TENSOR_SUMS
#undef TENSOR_MORE_SUMS
#undef TENSOR_TERMS
#undef TENSOR_DIRECTIONS
#undef TENSOR_TYPE
#undef TENSOR_BYTES
#undef TENSOR_A_BY_COLUMNS
#undef TENSOR_B_BY_COLUMNS
#undef TENSOR_PLAIN

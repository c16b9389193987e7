// The product of two matrices of bf16, f16 or tf32 on the tensor cores of sm_90a. K is the dimension along which the
// product sums.
//
// A block computes tiles of ROWS x COLUMNS elements sequentially. Its first warpgroup (128 threads) copies parts of the
// operands to a ring of stages in shared memory. The other two warpgroups multiply them, with accumulators in
// registers; each computes half of the tile. They then pass each element to the epilogue, most of them while the next
// tile is multiplied. For each element, the products are added in ascending order along K, so the bits of the sum do
// not depend on the tile.
namespace tensor_cores {

// A row-major matrix in memory, without gaps between rows.
struct Plain {
    const void *data;
    int rows, columns;
};

constexpr bool IS_TF32 = TENSOR_BYTES == 4;
constexpr bool A_ALONG = !TENSOR_A_BY_COLUMNS, B_ALONG = TENSOR_B_BY_COLUMNS;
// For tf32, operands of the instruction in shared memory must be contiguous along K. An operand that is not becomes the
// first operand of the instruction, which may be in registers. If this is b, the instruction computes the transposed
// product: its rows are columns of the product. If neither operand is contiguous along K, b is transposed in shared
// memory.
constexpr bool IN_REGISTERS = IS_TF32 && !(A_ALONG && B_ALONG), TRANSPOSED = IN_REGISTERS && A_ALONG;
// The number of rows and columns of the tile in terms of the instruction, and whether its first and second operand are
// contiguous along K.
constexpr int FIRST = 128, SECOND = 256;
constexpr bool FIRST_ALONG = TRANSPOSED ? B_ALONG : A_ALONG, SECOND_ALONG = TRANSPOSED ? A_ALONG : B_ALONG;
constexpr bool SECOND_TURNED = IS_TF32 && !SECOND_ALONG;
constexpr int ROWS = TRANSPOSED ? SECOND : FIRST, COLUMNS = TRANSPOSED ? FIRST : SECOND;
// The number of elements along K in a stage (128 bytes, the width of the swizzled layout), and in one instruction.
constexpr int TERMS = 128 / TENSOR_BYTES, STEP = 32 / TENSOR_BYTES;
constexpr int STAGES = 3;
constexpr u32 FIRST_BYTES = FIRST * 128, SECOND_BYTES = SECOND * 128, STAGE_BYTES = FIRST_BYTES + SECOND_BYTES;
// A warp passes its accumulators to the epilogue through shared memory. A panel contains PANEL of the instruction's
// columns in the warp's 16 rows; each thread reads FOURS groups of four elements from it. A tile has WIDE panels per
// warp. The last KEPT of them remain in shared memory while the next tile is multiplied, and PIECE groups are passed on
// after each step.
constexpr int PANEL = 32, PANEL_BYTES = 16 * PANEL * 4, WIDE = SECOND / PANEL, KEPT = 5, FOURS = 4, PIECE = 2;
constexpr int MULTIPLIERS = 2;
// Tiles are ordered by groups of TOGETHER rows of tiles, and column by column within a group, so that blocks that run
// concurrently share operands in the L2 cache.
constexpr int TOGETHER = 2048 / ROWS;
// Number of registers per thread in the first warpgroup, and in the other two. The 384 threads together have at most
// 65536 registers.
constexpr int COPIER_REGISTERS = TENSOR_PLAIN ? 120 : SECOND_TURNED ? 88 : 24;
constexpr int MULTIPLIER_REGISTERS = TENSOR_PLAIN ? 192 : SECOND_TURNED ? 208 : 240;
// Number of warps that transpose (all warps of the first warpgroup except the one that issues TMA copies), and number
// of boxes per stage that they transpose.
constexpr int TURNERS = 3, TURNED_BOXES = SECOND / 32;

// Returns the descriptor of an operand in shared memory. If it is contiguous along K (always for tf32), a row in memory
// has TERMS elements along K. Otherwise, a row in memory has 64 rows or columns of the operand at one index of K, and
// the next 64 rows or columns follow after all indices of K in the stage.
__device__ __forceinline__ u64 described(u32 address, bool along_terms) {
    return boxes_at(address, u32(along_terms ? 16 : TERMS * 128));
}

// Adds the product of 64 x STEP and STEP x SECOND elements to the accumulators. For thread t of a warpgroup, sums[i] is
// in row 16 * (t / 32) + t % 32 / 4 + 8 * (i / 2 % 2) and in column 8 * (i / 4) + 2 * (t % 4) + i % 2.
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
#define TENSOR_MULTIPLY "wgmma.mma_async.sync.aligned.m64n256" TENSOR_TERMS ".f32." TENSOR_TYPE "." TENSOR_TYPE " " \
    "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
    "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61," \
    "%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91," \
    "%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116," \
    "%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127}, "
#if TENSOR_BYTES == 4
// The elements of the first operand that thread t needs for two instructions. Element 4 * s + 2 * j + h is for
// instruction s, in row 16 * (t / 32) + t % 32 / 4 + 8 * h, at index t % 4 + 4 * j of K.
typedef u32 Held[8];

// Computes the addresses of these elements, by 2 * j + h. The elements are in boxes with TERMS rows, each with 32
// elements at one index of K. The rows of the operand are permuted so that a warp reads from all banks: row 16 * w + g
// + 8 * h of the instruction is row 32 * (w / 2) + 16 * (g / 4) + 8 * (w % 2) + 4 * h + g % 4 of the operand.
__device__ __forceinline__ void find(u32 (&places)[4], u32 address) {
    const u32 warp = threadIdx.x >> 5 & 3, group = threadIdx.x >> 2 & 7, term = threadIdx.x & 3;
    const u32 four = (4 * (group >> 2) + 2 * (warp & 1)) ^ term, box = address + (warp >> 1) * TERMS * 128 + (group & 3) * 4;
#pragma unroll
    for (u32 k = 0; k < 4; k++) places[k] = box + (term + 4 * (k >> 1)) * 128 + ((four ^ (k & 1) ^ 4 * (k >> 1)) << 4);
}

// Reads the elements for instructions `at` and `at + 1` of a stage that begins `behind` bytes after the first stage.
__device__ __forceinline__ void hold(Held &held, const u32 (&places)[4], u32 behind, int at) {
#pragma unroll
    for (int k = 0; k < 8; k++)
        asm volatile("ld.shared.b32 %0, [%1];" : "=r"(held[k]) : "r"(places[k & 3] + behind + (at + k / 4) * STEP * 128) : "memory");
}

__device__ __forceinline__ void fence(Held &held) {
#pragma unroll
    for (int k = 0; k < 8; k++) asm volatile("" : "+r"(held[k])::"memory");
}

__device__ __forceinline__ void multiply(float (&sums)[SECOND / 2], const u32 *a, u64 b) {
    asm volatile(TENSOR_MULTIPLY "{%128, %129, %130, %131}, %132, 1, 1, 1;\n"
        : TENSOR_MORE_SUMS(0), TENSOR_MORE_SUMS(32), TENSOR_MORE_SUMS(64), TENSOR_MORE_SUMS(96)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
#endif
__device__ __forceinline__ void multiply(float (&sums)[SECOND / 2], u64 a, u64 b) {
    asm volatile(TENSOR_MULTIPLY "%128, %129, 1, 1, 1" TENSOR_DIRECTIONS("%130", "%131") ";\n"
        : TENSOR_MORE_SUMS(0), TENSOR_MORE_SUMS(32), TENSOR_MORE_SUMS(64), TENSOR_MORE_SUMS(96)
        : "l"(a), "l"(b), "n"(TENSOR_A_BY_COLUMNS), "n"(!TENSOR_B_BY_COLUMNS));
}

// A compiler barrier for reads and writes of accumulators.
__device__ __forceinline__ void fence(float (&sums)[SECOND / 2]) {
#pragma unroll
    for (int i = 0; i < SECOND / 2; i++) asm volatile("" : "+f"(sums[i])::"memory");
}

#if TENSOR_PLAIN
// Returns a word of memory, or zero if `inside` is false.
__device__ __forceinline__ u32 load_word(const void *from, bool inside) {
    u32 value;
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %2, 0;\nmov.b32 %0, 0;\n@p ld.global.nc.b32 %0, [%1];\n}"
                 : "=r"(value) : "l"(from), "r"(int(inside)));
    return value;
}

#if TENSOR_BYTES == 4
typedef u32 Element;

// Rounds an `f32` to tf32, to nearest, ties to even, as TMA copies do.
__device__ __forceinline__ u32 rounded(u32 bits) {
    u32 word;
    asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(word) : "f"(__uint_as_float(bits)));
    return word;
}

// Copies COUNT columns of a matrix and transposes them, so that each column becomes a row. A thread transposes two
// squares of 4 x 4 elements at a time, which are 64 columns apart.
template <int COUNT>
__device__ __forceinline__ void copy_turned(u32 to, const Plain &from, int x, int y) {
    const u32 lane = threadIdx.x & 31, four = lane & 7;
    const int row = y + 4 * int(four);
#pragma unroll 1
    for (int first = 16 * (threadIdx.x >> 5 & 3) + 4 * (lane >> 3); first < COUNT; first += 128) {
        const Element *next = (const Element *)from.data + (long long)row * from.columns + x + first;
        u32 values[2][4][4];
#pragma unroll
        for (int k = 0; k < 2; k++)
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    values[k][i][j] = load_word(next + (long long)i * from.columns + 64 * k + j,
                                                row + i < from.rows && x + first + 64 * k + j < from.columns);
#pragma unroll
        for (int k = 0; k < 2; k++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::
                             "r"(to + (first + 64 * k + j) * 128 + ((four ^ u32(first & 4) ^ u32(j)) << 4)), "r"(rounded(values[k][0][j])),
                             "r"(rounded(values[k][1][j])), "r"(rounded(values[k][2][j])), "r"(rounded(values[k][3][j])) : "memory");
    }
}
#else
typedef unsigned short Element;

// Returns an element of a matrix, or zero if `inside` is false.
__device__ __forceinline__ u32 load_element(const Element *from, bool inside) {
    u32 value;
    asm volatile("{\n.reg .pred p;\n.reg .b16 h;\nsetp.ne.b32 p, %2, 0;\nmov.b16 h, 0;\n@p ld.global.nc.b16 h, [%1];\n"
                 "cvt.u32.u16 %0, h;\n}" : "=r"(value) : "l"(from), "r"(int(inside)));
    return value;
}
#endif

// Copies like `copy_box`, but without TMA, for operands that TMA cannot copy. It copies COUNT / BOX boxes of BOX rows,
// which are adjacent in the matrix. A warp loads AT_ONCE rows before it stores the first one.
template <int COUNT, int BOX>
__device__ __forceinline__ void copy_rows(u32 to, const Plain &from, int x, int y) {
    constexpr int AT_ONCE = BOX < 64 ? 8 : 16;
    static_assert(BOX % (4 * AT_ONCE) == 0 && COUNT % BOX == 0, "whole steps");
    const u32 warp = threadIdx.x >> 5 & 3, lane = threadIdx.x & 31;
    const Element *data = (const Element *)from.data;
#if TENSOR_BYTES == 2
    const bool in_words = (from.columns & 1) == 0 && (u64(data) & 3) == 0;
#endif
#pragma unroll 1
    for (int first = 0; first < COUNT; first += 4 * AT_ONCE) {
        const int row = y + first % BOX + int(warp), column = x + first / BOX * TERMS + TERMS / 32 * int(lane);
        const int rows = row < from.rows ? (from.rows - row + 3) >> 2 : 0;
        const bool one = column < from.columns;
        const Element *next = data + (long long)row * from.columns + column;
        const long long stride = 4LL * from.columns;
        u32 values[AT_ONCE];
#if TENSOR_BYTES == 4
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) values[k] = load_word(next + k * stride, one && k < rows);
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) values[k] = rounded(values[k]);
#else
        if (in_words) {
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) values[k] = load_word(next + k * stride, one && k < rows);
        } else {
            const bool both = column + 1 < from.columns;
            u32 seconds[AT_ONCE];
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) {
                values[k] = load_element(next + k * stride, one && k < rows);
                seconds[k] = load_element(next + k * stride + 1, both && k < rows);
            }
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) values[k] |= seconds[k] << 16;
        }
#endif
        // Element k belongs to row first + warp + 4 * k, where `first` is a multiple of 8.
        const u32 place = to + (first + warp) * 128 + (lane & 3) * 4;
        const u32 even = place + ((lane >> 2 ^ warp) << 4), odd = place + ((lane >> 2 ^ (warp + 4)) << 4);
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
            asm volatile("st.shared.b32 [%0], %1;" ::"r"((k & 1 ? odd : even) + k * 512), "r"(values[k]) : "memory");
    }
}

// Copies SIZE rows or columns of a factor, from `at` on, of a stage's terms.
template <int SIZE, bool ALONG>
__device__ __forceinline__ void copy_factor(u32 to, const Plain &from, int at, int term, u32) {
#if TENSOR_BYTES == 4
    if (SIZE == SECOND && SECOND_TURNED) return copy_turned<SIZE>(to, from, at, term);
#endif
    if (ALONG) copy_rows<SIZE, SIZE>(to, from, term, at);
    else copy_rows<SIZE, TERMS>(to, from, at, term);
}
#else
// Copies SIZE rows or columns of a factor, from `at` on, of a stage's terms.
template <int SIZE, bool ALONG>
__device__ __forceinline__ void copy_factor(u32 to, const Map &from, int at, int term, u32 full) {
    if (ALONG) {
        copy_box(to, from, term, at, full);
    } else {
#pragma unroll
        for (int k = 0; k < SIZE / TERMS; k++) copy_box(to + k * TERMS * 128, from, at + k * TERMS, term, full);
    }
}
#endif

// Returns the first of a warp's 16 rows among the warpgroup's 64. SPREAD is the number of rows from the warp's first to
// its last row.
__device__ __forceinline__ int first_row_of_warp() {
    const int warp = threadIdx.x >> 5 & 3;
    return IN_REGISTERS ? 32 * (warp >> 1) + 8 * (warp & 1) : 16 * warp;
}
constexpr int SPREAD = IN_REGISTERS ? 24 : 16;
// The number of rows and columns of the product that the elements of a panel span.
constexpr int PANEL_ROWS = TRANSPOSED ? PANEL : SPREAD, PANEL_COLUMNS = TRANSPOSED ? SPREAD : PANEL;

// Stores a panel of a warp's accumulators to shared memory, in rows of the product. Column c of row r is stored at
// position c XOR 8 * (r % 4), which avoids bank conflicts. For a transposed product, rows have 16 elements, and rows
// with even numbers come first.
__device__ __forceinline__ void put(const float *sums, float *panel) {
    const int lane = threadIdx.x & 31, group = lane >> 2, pair = lane & 3;
#pragma unroll
    for (int i = 0; i < PANEL / 2; i += 2) {
        const int half = i / 2 % 2;
        if (TRANSPOSED) {
            const int even = 4 * (i / 4) + pair, across = (8 * (group >> 2) + 4 * half + (group & 3)) ^ 4 * (pair >> 1);
            panel[even * 16 + across] = sums[i];
            panel[(even + 16) * 16 + across] = sums[i + 1];
        } else {
            const int down = group + 8 * half, across = 8 * (i / 4) + 2 * pair;
            *(float2 *)(panel + down * PANEL + (across ^ 8 * (down & 3))) = make_float2(sums[i], sums[i + 1]);
        }
    }
}

// Returns group k of the thread's groups of four elements in a panel, and the row of the group. All groups of a thread
// are in the same four columns, from `first_column` on.
__device__ __forceinline__ float4 four_of(const float *panel, int k, int &row) {
    const int lane = threadIdx.x & 31;
    if (TRANSPOSED) {
        const int down = 8 * k + (lane >> 2);
        row = 2 * (down & 15) + (down >> 4);
        return *(const float4 *)(panel + down * 16 + 4 * ((lane & 3) ^ (down >> 1 & 1)));
    }
    const int down = 4 * k + (lane >> 3);
    row = IN_REGISTERS ? 16 * (down >> 2 & 1) + 4 * (down >> 3) + (down & 3) : down;
    return *(const float4 *)(panel + down * PANEL + (4 * (lane & 7) ^ 8 * (down & 3)));
}

__device__ __forceinline__ int first_column() {
    const int lane = threadIdx.x & 31;
    return TRANSPOSED ? 16 * (lane >> 1 & 1) + 4 * (lane & 1) : 4 * (lane & 7);
}

// Passes COUNT groups of four elements, from group `start` of a panel on, to the epilogue `at`. The panel begins at
// this row and column. `at` is called for all elements before their deferred stores are performed, so that the loads of
// the epilogue overlap. WHOLE: all elements are in the open rows and columns. Otherwise, a row or column outside the
// product is replaced by the last one, for which the loads are in bounds, and the deferred store is not performed.
template <class Left, bool WHOLE, int COUNT, class At, class Write>
__device__ __forceinline__ void pass(const float *panel, int start, int row, int column, const Edges &edges, const At &at, const Write &write) {
    const int first = column + first_column(), rows = edges.rows, columns = edges.columns;
    int own[4];
#pragma unroll
    for (int i = 0; i < 4; i++) own[i] = WHOLE || first + i < columns ? first + i : columns - 1;
    Left left[COUNT][4];
    bool is_inside[COUNT];
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
        int down;
        const float4 four = four_of(panel, start + k, down);
        down += row;
        is_inside[k] = WHOLE || down < rows;
        const int inside = is_inside[k] ? down : rows - 1;
        at(WHOLE, inside, own[0], four.x, left[k][0]);
        at(WHOLE, inside, own[1], four.y, left[k][1]);
        at(WHOLE, inside, own[2], four.z, left[k][2]);
        at(WHOLE, inside, own[3], four.w, left[k][3]);
    }
#pragma unroll
    for (int k = 0; k < COUNT; k++) write(left[k], WHOLE ? 4 : is_inside[k] ? columns - first : 0);
}

// Passes COUNT groups of a panel to the epilogue. `number` is the panel's number in the warp's part of a tile, which
// begins at this row and column.
template <class Left, int COUNT, class At, class Write>
__device__ __forceinline__ void pass_of(const float *panel, int number, int start, int row, int column, const Edges &edges, const At &at, const Write &write) {
    if (TRANSPOSED) row += number * PANEL;
    else column += number * PANEL;
    const bool is_open = row + PANEL_ROWS <= edges.open_rows && column + PANEL_COLUMNS <= edges.open_columns;
    if (is_open) pass<Left, true, COUNT>(panel, start, row, column, edges, at, write);
    else pass<Left, false, COUNT>(panel, start, row, column, edges, at, write);
}

// The elements of the previous tile that a warp still has in shared memory. The warp's part of that tile begins at this
// row and column, and `piece` is the number of the next piece to pass to the epilogue.
constexpr int NOW = WIDE - KEPT, PIECES = KEPT * FOURS / PIECE;
struct Kept {
    float *panels;
    int row, column, piece = PIECES;
};

// Passes the next piece to the epilogue, if there is one.
template <class Left, class At, class Write>
__device__ __forceinline__ void pass_piece(Kept &kept, const Edges &edges, const At &at, const Write &write) {
    constexpr int EACH = FOURS / PIECE;
    if (kept.piece == PIECES) return;
    const int number = kept.piece / EACH;
    pass_of<Left, PIECE>(kept.panels + number * 16 * PANEL, NOW + number, kept.piece % EACH * PIECE, kept.row, kept.column, edges, at, write);
    kept.piece++;
}

// Passes the first panels of a warp's accumulators to the epilogue, and stores the other panels in shared memory for
// later.
template <class Left, class At, class Write>
__device__ __forceinline__ void finish(const float (&sums)[SECOND / 2], Kept &kept, int row, int column, const Edges &edges, const At &at,
                                       const Write &write) {
    __syncwarp();
#pragma unroll
    for (int k = 0; k < NOW; k++) put(sums + k * PANEL / 2, kept.panels + k * 16 * PANEL);
    __syncwarp();
#pragma unroll 1
    for (int k = 0; k < NOW; k++) pass_of<Left, FOURS>(kept.panels + k * 16 * PANEL, k, 0, row, column, edges, at, write);
    __syncwarp();
#pragma unroll
    for (int k = 0; k < KEPT; k++) put(sums + (NOW + k) * PANEL / 2, kept.panels + k * 16 * PANEL);
    __syncwarp();
    kept.row = row;
    kept.column = column;
    kept.piece = 0;
}

// Computes the product; `terms` is the extent of K. Calls the epilogue `at(open, row, column, element, left)` for each
// element. Then calls `write(left, count)` for each four elements, which performs the deferred stores of the first
// `count` of them.
template <class Left, class First, class Second, class At, class Write>
__device__ __forceinline__ void product(const First &first, const Second &second, const Edges &edges, int terms, const At &at, const Write &write) {
    extern __shared__ unsigned char room[];
    // Align stages to 1024 bytes, because the swizzled layout depends on the address modulo 1024.
    const u32 address = u32(__cvta_generic_to_shared(room)), base = (address + 1023) & ~1023u;
    const u32 panels = base + STAGES * STAGE_BYTES, full = panels + 4 * MULTIPLIERS * KEPT * PANEL_BYTES, empty = full + 8 * STAGES;
    // If an operand is transposed, its TMA copies have separate barriers.
    constexpr bool TURNS = SECOND_TURNED && !TENSOR_PLAIN;
    const u32 copied = TURNS ? empty + 8 * STAGES : full;
    const int rows = edges.rows, columns = edges.columns;
    const int high = (rows + ROWS - 1) / ROWS, wide = (columns + COLUMNS - 1) / COLUMNS, tiles = high * wide;
    const int steps = (terms + TERMS - 1) / TERMS;
    if (threadIdx.x == 0) {
        for (int k = 0; k < STAGES; k++) {
            create(copied + 8 * k, TENSOR_PLAIN ? 128 : 1);
            if (TURNS) create(full + 8 * k, TURNERS);
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
        const int each = TOGETHER * wide, group = tile / each, top = group * TOGETHER, left = high - top;
        const int count = left < TOGETHER ? left : TOGETHER, rest = tile - group * each;
        row = (top + rest % count) * ROWS;
        column = rest / count * COLUMNS;
    };
    if (warpgroup == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COPIER_REGISTERS));
        if (TENSOR_PLAIN || threadIdx.x == 0) {
            for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
                int row, column;
                tile_at(tile, row, column);
                const int down = TRANSPOSED ? column : row, across = TRANSPOSED ? row : column;
                for (int step = 0; step < steps; step++) {
                    const u32 to = base + stage * STAGE_BYTES, barrier = copied + 8 * stage;
                    wait(empty + 8 * stage, parity ^ 1);
                    if (!TENSOR_PLAIN) arrive_and_expect(barrier, STAGE_BYTES);
                    copy_factor<FIRST, FIRST_ALONG>(to, first, down, step * TERMS, barrier);
                    copy_factor<SECOND, SECOND_ALONG>(to + FIRST_BYTES, second, across, step * TERMS, barrier);
                    if (TENSOR_PLAIN) {
                        // Make ordinary stores to shared memory visible to the tensor cores.
                        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
                        arrive(barrier);
                    }
                    next();
                }
            }
        } else if (TURNS && threadIdx.x >= 32) {
            for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
                for (int step = 0; step < steps; step++) {
                    wait(copied + 8 * stage, parity);
#pragma unroll 1
                    for (u32 k = (threadIdx.x >> 5) - 1; k < TURNED_BOXES; k += TURNERS)
                        transpose(base + stage * STAGE_BYTES + FIRST_BYTES + k * TERMS * 128);
                    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
                    __syncwarp();
                    if ((threadIdx.x & 31) == 0) arrive(full + 8 * stage);
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
    // Distance in bytes between the operands of consecutive instructions.
    constexpr u32 FIRST_NEXT = FIRST_ALONG ? 32 : STEP * 128, SECOND_NEXT = SECOND_ALONG || SECOND_TURNED ? 32 : STEP * 128;
    // 64 rows of the first operand have the same size in either layout: 64 rows of 128 bytes, or boxes with TERMS rows
    // of 128 bytes.
    const u32 own_first = base + own * 64 * 128;
    const u64 first_at = described(own_first, FIRST_ALONG), second_at = described(base + FIRST_BYTES, SECOND_ALONG || SECOND_TURNED);
#if TENSOR_BYTES == 4
    u32 places[4];
    Held held[2];
    if (IN_REGISTERS) find(places, own_first);
#endif
    Kept kept;
    kept.panels = (float *)(room + (panels - address) + warp * KEPT * PANEL_BYTES);
    float sums[SECOND / 2];
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        int row, column;
        tile_at(tile, row, column);
#pragma unroll
        for (int i = 0; i < SECOND / 2; i++) sums[i] = 0.0f;
        u32 before = 0;
        for (int step = 0; step < steps; step++) {
            if (TURNS) wait(copied + 8 * stage, parity);
            wait(full + 8 * stage, parity);
            const u64 behind = u64(stage * (STAGE_BYTES >> 4));
            if constexpr (IN_REGISTERS) {
#if TENSOR_BYTES == 4
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    hold(held[half], places, stage * STAGE_BYTES, 2 * half);
                    fence(held[half]);
                    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
                    for (int k = 0; k < 2; k++) multiply(sums, held[half] + 4 * k, second_at + behind + ((2 * half + k) * SECOND_NEXT >> 4));
                    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 1;" ::: "memory");
                    // The registers of the previous instructions may be overwritten now.
                    fence(held[1 - half]);
                    if (half == 0 && step > 0) release(before);
                }
#endif
            } else {
                asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
                for (int k = 0; k < TERMS / STEP; k++)
                    multiply(sums, first_at + behind + (k * FIRST_NEXT >> 4), second_at + behind + (k * SECOND_NEXT >> 4));
                asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 1;" ::: "memory");
                // The previous step is done, so its stage can be reused.
                if (step > 0) release(before);
            }
            before = empty + 8 * stage;
            next();
            pass_piece<Left>(kept, edges, at, write);
        }
        fence(sums);
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        fence(sums);
        if (steps > 0) release(before);
#pragma unroll 1
        while (kept.piece < PIECES) pass_piece<Left>(kept, edges, at, write);
        const int down = own * 64 + first_row_of_warp();
        finish<Left>(sums, kept, TRANSPOSED ? row : row + down, TRANSPOSED ? column + down : column, edges, at, write);
    }
#pragma unroll 1
    while (kept.piece < PIECES) pass_piece<Left>(kept, edges, at, write);
}

}  // namespace tensor_cores
#undef TENSOR_SUMS
#undef TENSOR_MORE_SUMS
#undef TENSOR_TERMS
#undef TENSOR_DIRECTIONS
#undef TENSOR_MULTIPLY
#undef TENSOR_TYPE
#undef TENSOR_BYTES
#undef TENSOR_A_BY_COLUMNS
#undef TENSOR_B_BY_COLUMNS
#undef TENSOR_PLAIN

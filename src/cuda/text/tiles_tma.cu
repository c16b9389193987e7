// Copies and products of tiles with sm_90a instructions. The first warpgroup issues TMA copies, and the other
// warpgroups compute. Products are asynchronous. K is the dimension along which a product sums.
namespace tiles {

// A window of an array in shared memory, as an operand of products. It consists of boxes with LENGTH rows of 128 bytes
// (64 elements, or 32 elements of tf32). The position of a 16-byte piece in its row is its number XOR the row's number
// modulo 8. ALONG_TERMS: a row contains elements along K of one row or column of the operand, 8 rows or columns have
// 1024 bytes, and the next box contains the next elements along K. Otherwise, a row contains 64 rows or columns of the
// operand at one index of K, 8 indices have 1024 bytes, and the next box contains the next 64 rows or columns.
template <int LENGTH, bool ALONG_TERMS>
struct Part {
    u64 first;
    __device__ __forceinline__ explicit Part(u32 address)
        : first(boxes_at(address, ALONG_TERMS ? 16 : LENGTH * 128)) {}
    // Returns the descriptor of the operand for instruction k, which begins 32 * k bytes or 16 * k rows after the
    // start.
    __device__ __forceinline__ u64 described(int k) const {
        return first + u64((ALONG_TERMS ? k / 4 * LENGTH * 128 + k % 4 * 32 : k * 16 * 128) >> 4);
    }
};

// Copies of boxes from arrays with more than two axes.
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

// Copies a window: BOXES boxes of LENGTH rows with WIDTH elements. It begins at column x, and at these indices along
// the other axes, the last axis first. Elements outside the array become zero. The barrier counts all bytes of the
// boxes.
template <int BOXES, int LENGTH, int WIDTH, class... Indices>
__device__ __forceinline__ void copy(u32 to, const Map &from, u32 barrier, int x, Indices... others) {
#pragma unroll
    for (int k = 0; k < BOXES; k++) copy_box(to + k * LENGTH * 128, from, x + WIDTH * k, others..., barrier);
}

// Copies a window that will be transposed, from column x and row y on. Each of BOXES boxes contains 32 rows of the
// array, and its LENGTH columns become rows.
template <int BOXES, int LENGTH, class... Indices>
__device__ __forceinline__ void copy_across(u32 to, const Map &from, u32 barrier, int x, int y, Indices... others) {
#pragma unroll
    for (int k = 0; k < BOXES; k++)
#pragma unroll
        for (int n = 0; n < LENGTH / 32; n++) copy_box(to + (k * LENGTH + 32 * n) * 128, from, x + 32 * n, y + 32 * k, others..., barrier);
}

// Number of warps that transpose: all warps of the first warpgroup except the one that issues copies.
constexpr int TURNERS = 3;

// Transposes a window that `copy_turned` has copied.
template <int BOXES, int LENGTH>
__device__ __forceinline__ void turn(u32 part) {
#pragma unroll 1
    for (u32 k = (threadIdx.x >> 5) - 1; k < BOXES * LENGTH / 32; k += TURNERS) transpose(part + k * 32 * 128);
}

// Makes the stores of a transposing warp visible to the tensor cores, and arrives at the barrier.
__device__ __forceinline__ void turned(u32 barrier) {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    if ((threadIdx.x & 31) == 0) arrive(barrier);
}

// A stage that products read: its address, and the barrier that counts the warps that no longer need it.
struct Stage {
    u32 address, empty;
};

// A ring of stages in shared memory. Stages are filled, transposed (with TURNS) and read in the same order. The
// copying, transposing and computing warps each have their own position in the ring.
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
    // Creates the barriers, for this number of computing warpgroups.
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
    // Waits until the next stage can be reused, and fills it with this number of bytes by calling `fill(address,
    // barrier)`.
    template <class F>
    __device__ __forceinline__ void fill(u32 bytes, const F &fill) {
        wait(empty(), parity ^ 1);
        arrive_and_expect(copied(), bytes);
        fill(address(), copied());
        next();
    }
    // Waits until the next stage is filled, and transposes it by calling `turn(address)`.
    template <class F>
    __device__ __forceinline__ void turn(const F &turn) {
        wait(copied(), parity);
        turn(address());
        turned(full());
        next();
    }
    // Waits until the next stage is filled, and returns it.
    __device__ __forceinline__ Stage take() {
        if (TURNS) wait(copied(), parity);
        wait(full(), parity);
        const Stage taken = {address(), empty()};
        next();
        return taken;
    }
};

// Announces that this warp no longer needs a stage.
__device__ __forceinline__ void release(const Stage &stage) {
    if ((threadIdx.x & 31) == 0) arrive(stage.empty);
}

// Asynchronous products. Code calls `begin`, `multiply` and `commit`; then `wait_products<N>` waits for all products
// except those of the last N commits. Before this wait, a product's accumulators and operands in registers must not be
// accessed, and its stages must not be released.

__device__ __forceinline__ void begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int K>
__device__ __forceinline__ void wait_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(K) : "memory");
}

// Compiler barriers for reads and writes of registers that products use.
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

// Adds a product with TERMS elements along K to the accumulators, one instruction after the other in ascending order.
// `fresh`: sets the accumulators instead, to the same bits as adding to zeros.
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

}  // namespace tiles

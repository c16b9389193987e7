// How programs of tiles copy and multiply on the tensor cores of sm_90a: one warpgroup before the computing ones copies boxes of arrays, and
// products run behind the threads.
namespace tiles {

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

}  // namespace tiles

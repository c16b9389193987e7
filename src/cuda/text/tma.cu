// Instructions of sm_90a: TMA copies from arrays to shared memory, the barriers that count the copied bytes, and the
// operand descriptors of `wgmma`. This file is included in a namespace.

typedef unsigned int u32;
typedef unsigned long long u64;

struct alignas(64) Map { u64 opaque[16]; };

// Barriers in shared memory. They are identified by their addresses.

__device__ __forceinline__ void create(u32 barrier, u32 arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes new barriers visible to TMA copies.
__device__ __forceinline__ void created() {
    asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void arrive(u32 barrier) {
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ void arrive_and_expect(u32 barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Waits until the barrier's phase of this parity has ended. For a new barrier, the phase of parity 1 counts as ended.
__device__ __forceinline__ void wait(u32 barrier, u32 parity) {
    u32 done;
    do {
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                     : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
    } while (!done);
}

// Copies a box of a matrix that begins at column x and row y. Elements outside the matrix become zero. The barrier
// counts all bytes of the box.
__device__ __forceinline__ void copy_box(u32 to, const Map &from, int x, int y, u32 barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(to), "l"(&from), "r"(x), "r"(y), "r"(barrier) : "memory");
}

// Transposes a box of 32 rows with 32 elements of 32 bits in place, with all threads of a warp. A thread transposes two
// 4 x 4 squares: it loads their rows and stores them as columns. The squares of eight adjacent threads are in different
// rows and columns of the box, so there are no bank conflicts.
__device__ __forceinline__ void transpose(u32 box) {
    const u32 lane = threadIdx.x & 31, across = lane & 7;
    u32 values[2][4][4];
#pragma unroll
    for (u32 k = 0; k < 2; k++) {
        const u32 down = across ^ (lane >> 3) ^ 4 * k;
#pragma unroll
        for (u32 i = 0; i < 4; i++)
            asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(values[k][i][0]), "=r"(values[k][i][1]), "=r"(values[k][i][2]), "=r"(values[k][i][3])
                         : "r"(box + (4 * down + i) * 128 + ((across ^ 4 * (down & 1) ^ i) << 4)) : "memory");
    }
    __syncwarp();
#pragma unroll
    for (u32 k = 0; k < 2; k++) {
        const u32 down = across ^ (lane >> 3) ^ 4 * k;
#pragma unroll
        for (u32 j = 0; j < 4; j++)
            asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(box + (4 * across + j) * 128 + ((down ^ 4 * (across & 1) ^ j) << 4)),
                         "r"(values[k][0][j]), "r"(values[k][1][j]), "r"(values[k][2][j]), "r"(values[k][3][j]) : "memory");
    }
}

// Returns the descriptor of an operand in shared memory, in the layout that `copy_box` writes: rows of 128 bytes, in
// which the position of a 16-byte piece is its number XOR the row number modulo 8. `other`: if a row contains 64 rows
// or columns of the operand at one index of the summed dimension, the distance in bytes to the next 64.
__device__ __forceinline__ u64 boxes_at(u32 address, u32 other) {
    return u64((address & 0x3ffff) >> 4) | u64(other >> 4) << 16 | u64(1024 >> 4) << 32 | u64(1) << 62;
}

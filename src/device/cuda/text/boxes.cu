// What texts for the tensor cores of sm_90a have in common: copies of boxes from arrays to shared memory, the barriers that count their
// bytes, and how `wgmma` is told where they are. It is put into the namespace of each of them.

typedef unsigned int u32;
typedef unsigned long long u64;

struct alignas(64) Map { u64 opaque[16]; };

// Barriers in shared memory, by address.

__device__ __forceinline__ void create(u32 barrier, u32 arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes new barriers visible to copies.
__device__ __forceinline__ void created() {
    asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void arrive(u32 barrier) {
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ void arrive_and_expect(u32 barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Waits until the phase of this parity has ended: of a new barrier, that of parity 1 has.
__device__ __forceinline__ void wait(u32 barrier, u32 parity) {
    u32 done;
    do {
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                     : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
    } while (!done);
}

// Copies a box from column x and row y on; what is outside of the matrix is zero. All of the box's bytes count at the barrier.
__device__ __forceinline__ void copy_box(u32 to, const Map &from, int x, int y, u32 barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(to), "l"(&from), "r"(x), "r"(y), "r"(barrier) : "memory");
}

// Transposes a box of 32 rows with 32 elements of 32 bits where it is, with all threads of a warp. A thread turns two squares of four by four, in which
// rows are loaded and columns stored; those of eight threads beside each other are in different fours of rows and of columns, and so in different banks.
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

// Describes a factor in shared memory, in the layout that `copy_box` writes: rows of 128 bytes, of which the 16-byte pieces are at their number
// XOR the row's number modulo 8; 8 rows are 1024 bytes. `other` is how many bytes the next 64 rows or columns are behind the first ones, where a
// row is one term of 64 of them.
__device__ __forceinline__ u64 boxes_at(u32 address, u32 other) {
    return u64((address & 0x3ffff) >> 4) | u64(other >> 4) << 16 | u64(1024 >> 4) << 32 | u64(1) << 62;
}

// Instructions of all GPUs from sm_80 on: asynchronous 16-byte copies from arrays to shared memory, loads of
// tensor-core operands from shared memory, and `mma.sync`. This file is included in a namespace.

typedef unsigned int u32;

// Begins an asynchronous copy of 16 bytes, which is complete after `copied`. Only the first `bytes` bytes are copied;
// the others become zeros.
__device__ __forceinline__ void copy_piece(u32 to, const char *from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

// Ends the group of copies to a stage. The group may be empty.
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits for the copies of this thread, except those in the last COUNT groups.
template <int COUNT>
__device__ __forceinline__ void copied() {
    asm volatile("cp.async.wait_group %0;" ::"n"(COUNT) : "memory");
}

// Rounds an f32 to tf32: to nearest, ties to even. NaN remains NaN.
__device__ __forceinline__ u32 rounded(u32 bits) {
    const float value = __uint_as_float(bits);
    const u32 near = bits + 0xfff + (bits >> 13 & 1);
    return (value != value ? 0x7fffffff : near) & ~0x1fffu;
}

// Loads four matrices with 8 rows of 16 bytes. Each thread of the warp passes the address of one row. Thread t gets
// word t % 4 of row t / 4 of each matrix.
__device__ __forceinline__ void load_rows(u32 (&to)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(address) : "memory");
}

// Like `load_rows`, but loads transposed matrices of 16-bit elements: thread t gets elements 2 * (t % 4) and 2 * (t %
// 4) + 1 of column t / 4 of each matrix.
__device__ __forceinline__ void load_columns(u32 (&to)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(address) : "memory");
}

__device__ __forceinline__ u32 load_word(u32 address) {
    u32 value;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
    return value;
}

// Adds the product of 16 x 16 and 16 x 8 elements (for tf32, of 16 x 8 and 8 x 8 elements) to the accumulators. Thread
// t has the accumulators of rows t / 4 and t / 4 + 8, in columns 2 * (t % 4) and 2 * (t % 4) + 1.
#define TENSOR_ADD(SHAPE, TYPE, sums, a, b0, b1)                                                                               \
    asm("mma.sync.aligned." SHAPE ".row.col.f32." TYPE "." TYPE ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
        : "+f"((sums)[0]), "+f"((sums)[1]), "+f"((sums)[2]), "+f"((sums)[3])                                                         \
        : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"(b0), "r"(b1))

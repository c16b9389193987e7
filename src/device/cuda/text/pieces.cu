// What texts for the tensor cores of all GPUs from sm_80 on have in common: copies of pieces of 16 bytes from arrays to shared memory, and how
// `mma.sync` gets its factors from there. It is put into the namespace of each of them.

typedef unsigned int u32;

// Copies so many of 16 bytes, some time until `copied`; the others become zeros.
__device__ __forceinline__ void copy_piece(u32 to, const char *from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

// Ends the copies of a stage; there may be none.
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits for what this thread copies to all stages but the last COUNT ones.
template <int COUNT>
__device__ __forceinline__ void copied() {
    asm volatile("cp.async.wait_group %0;" ::"n"(COUNT) : "memory");
}

// Rounds an f32 as `tf32` does: to nearest, halves to even. A NaN stays one.
__device__ __forceinline__ u32 rounded(u32 bits) {
    const float value = __uint_as_float(bits);
    const u32 near = bits + 0xfff + (bits >> 13 & 1);
    return (value != value ? 0x7fffffff : near) & ~0x1fffu;
}

// Four matrices of 8 rows of 16 bytes, of which each thread of a warp names a row: thread t gets word t % 4 of row t / 4 of each.
__device__ __forceinline__ void load_rows(u32 (&to)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(address) : "memory");
}

// The same of 16-bit elements, transposed: thread t gets elements 2 * (t % 4) and the next one of column t / 4.
__device__ __forceinline__ void load_columns(u32 (&to)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(address) : "memory");
}

__device__ __forceinline__ u32 load_word(u32 address) {
    u32 value;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
    return value;
}

// Adds the product of 16 x 16 and 16 x 8 elements, or of tf32 of 16 x 8 and 8 x 8. The sums of a thread t: rows t / 4, and that plus 8; columns
// 2 * (t % 4), and the next one.
#define TENSOR_ADD(SHAPE, TYPE, sums, a, b0, b1)                                                                               \
    asm("mma.sync.aligned." SHAPE ".row.col.f32." TYPE "." TYPE ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
        : "+f"((sums)[0]), "+f"((sums)[1]), "+f"((sums)[2]), "+f"((sums)[3])                                                         \
        : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"(b0), "r"(b1))

// Copies and products of tiles with instructions of all GPUs from sm_80 on. The computing threads also copy 16-byte
// pieces of arrays, several products ahead. They multiply synchronously with `mma.sync`. Each warp computes 16 of a
// warpgroup's 64 rows. K is the dimension along which a product sums.
namespace tiles {

typedef unsigned long long u64;

template <class Type> constexpr u32 BYTES = 2;
template <> constexpr u32 BYTES<Tf32> = 4;

// `load_two_rows` and `load_two_columns` are like `load_rows` and `load_columns`, but load only two matrices.
__device__ __forceinline__ void load_two_rows(u32 (&to)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(address) : "memory");
}

__device__ __forceinline__ void load_two_columns(u32 (&to)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(address) : "memory");
}

// A window of an array in shared memory, as an operand of products. It consists of boxes with LENGTH rows of 128 bytes
// (64 elements, or 32 elements of tf32). ALONG_TERMS: a row contains elements along K of one row or column of the
// operand, and the next box contains the next elements along K. Otherwise, a row contains 64 (or 32) rows or columns of
// the operand at one index of K, and the next box contains the next rows or columns. The position of a 16-byte piece in
// its row is its number XOR a number that depends on the row. This avoids bank conflicts when a warp reads one piece of
// 8 rows, or words of two pieces of 4 rows.
template <int LENGTH, bool ALONG_TERMS>
struct Part {
    u32 address;
    __device__ __forceinline__ explicit Part(u32 address) : address(address) {}

    template <class Type>
    __device__ __forceinline__ u32 place(u32 row, u32 piece) const {
        const u32 by = ALONG_TERMS || BYTES<Type> == 2 ? row & 7 : 2 * (row & 3);
        return address + (piece / 8 * LENGTH + row) * 128 + ((piece % 8 ^ by) << 4);
    }
    template <class Type>
    __device__ __forceinline__ u32 word(u32 line, u32 at) const { return load_word(place<Type>(line, at >> 2) + 4 * (at & 3)); }

    // Loads the first operand of instruction k, for the warp's 16 rows of the warpgroup's 64.
    template <class Type>
    __device__ __forceinline__ void load_left(u32 (&to)[4], u32 k) const {
        const u32 lane = threadIdx.x & 31, low = lane & 7, middle = lane >> 3 & 1, high = lane >> 4, own = (threadIdx.x >> 5 & 3) * 16;
        if constexpr (ALONG_TERMS) {
            load_rows(to, place<Type>(own + (lane & 15), 2 * k + high));
        } else if constexpr (BYTES<Type> == 2) {
            load_columns(to, place<Type>(16 * k + low + 8 * high, own / 8 + middle));
        } else {
#pragma unroll
            for (u32 i = 0; i < 4; i++) to[i] = word<Type>(8 * k + (lane & 3) + 4 * (i >> 1), own + (lane >> 2) + 8 * (i & 1));
        }
    }

    // Loads the second operand of instruction k, for 16 columns (or 8, if `both` is false) from column `own` on.
    template <class Type>
    __device__ __forceinline__ void load_right(u32 (&to)[4], u32 k, u32 own, bool both) const {
        const u32 lane = threadIdx.x & 31, low = lane & 7, middle = lane >> 3 & 1, high = lane >> 4;
        if constexpr (ALONG_TERMS) {
            if (both) load_rows(to, place<Type>(own + low + 8 * high, 2 * k + middle));
            else load_two_rows(to, place<Type>(own + low, 2 * k + middle));
        } else if constexpr (BYTES<Type> == 2) {
            if (both) load_columns(to, place<Type>(16 * k + (lane & 15), own / 8 + high));
            else load_two_columns(to, place<Type>(16 * k + (lane & 15), own / 8));
        } else {
#pragma unroll
            for (u32 i = 0; i < 4; i++)
                if (both || i < 2) to[i] = word<Type>(8 * k + (lane & 3) + 4 * (i & 1), own + (lane >> 2) + 8 * (i >> 1));
        }
    }
};

// Copies of windows.

// The window along one axis of an array: COUNT indices with step STEP, from `first` on.
template <u32 COUNT, u32 STEP>
struct Along {
    int first, extent;
};

// Adds the offset of a row of a window to `at`. `axis` and `others` are all axes except the last one, innermost first. `elements` is
// the number of elements per index of the first of them. Returns whether the row is inside the array.
template <u32 COUNT, u32 STEP, class... Others>
__device__ __forceinline__ bool add_row(u32 &at, u32 row, u32 elements, const Along<COUNT, STEP> &axis, const Others &...others) {
    const u32 index = u32(axis.first) + (sizeof...(Others) == 0 ? row : row % COUNT) * STEP;
    at += index * elements;
    bool inside = index < u32(axis.extent);
    if constexpr (sizeof...(Others) > 0) inside &= add_row(at, row / COUNT, elements * u32(axis.extent), others...);
    return inside;
}

// Calls `f(row, piece)` for the pieces of a window that this thread copies. The window has LENGTH rows of PIECES
// pieces. The thread's pieces are the same in each call.
template <int THREADS, u32 LENGTH, u32 PIECES, class F>
__device__ __forceinline__ void each_piece(const F &f) {
    constexpr u32 ALL = LENGTH * PIECES, COUNT = (ALL + THREADS - 1) / THREADS;
#pragma unroll 8
    for (u32 i = 0; i < COUNT; i++) {
        const u32 at = threadIdx.x + i * THREADS;
        if (ALL % THREADS != 0 && at >= ALL) break;
        if constexpr (THREADS % PIECES == 0) f(threadIdx.x / PIECES + i * (THREADS / PIECES), threadIdx.x % PIECES);
        else f(at / PIECES, at % PIECES);
    }
}

// Copies a window with all THREADS threads of the block: LENGTH rows of PIECES pieces, from column x on. The array has
// `columns` columns; elements outside it become zero. If pieces are not aligned in memory, they are copied
// synchronously by elements.
template <class Type, int THREADS, u32 PIECES, int LENGTH, bool ALONG_TERMS, class... Axes>
__device__ __forceinline__ void copy(const Part<LENGTH, ALONG_TERMS> &to, const void *data, int x, int columns, const Axes &...axes) {
    constexpr u32 ELEMENTS = 16 / BYTES<Type>;
    if (((u64(data) | u32(x) * BYTES<Type> | u32(columns) * BYTES<Type>) & 15) == 0) {
        each_piece<THREADS, LENGTH, PIECES>([&](u32 row, u32 piece) {
            u32 at = u32(x) + piece * ELEMENTS;
            bool inside = at < u32(columns);
            inside &= add_row(at, row, u32(columns), axes...);
            copy_piece(to.template place<Type>(row, piece), (const char *)data + (inside ? u64(at) * BYTES<Type> : 0), inside ? 16 : 0);
        });
        return;
    }
#pragma unroll 1
    for (u32 k = threadIdx.x; k < LENGTH * PIECES; k += THREADS) {
        const u32 row = k / PIECES, piece = k % PIECES, first = u32(x) + piece * ELEMENTS;
        u32 start = 0, words[4] = {0, 0, 0, 0};
        const bool inside = add_row(start, row, u32(columns), axes...);
#pragma unroll
        for (u32 i = 0; i < ELEMENTS; i++) {
            if (!inside || first + i >= u32(columns)) continue;
            const u64 at = u64(start + first + i);
            if (BYTES<Type> == 4) words[i % 4] = __ldg((const u32 *)data + at);
            else words[i / 2 % 4] |= u32(__ldg((const unsigned short *)data + at)) << 16 * (i % 2);
        }
        asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to.template place<Type>(row, piece)), "r"(words[0]), "r"(words[1]), "r"(words[2]),
                     "r"(words[3]) : "memory");
    }
}

// Rounds the elements of a window that this thread has copied to tf32.
template <int THREADS, u32 PIECES, int LENGTH, bool ALONG_TERMS>
__device__ __forceinline__ void round_own(const Part<LENGTH, ALONG_TERMS> &part) {
    each_piece<THREADS, LENGTH, PIECES>([&](u32 row, u32 piece) {
        const u32 at = part.template place<Tf32>(row, piece);
        u32 a, b, c, d;
        asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(at) : "memory");
        asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(rounded(a)), "r"(rounded(b)), "r"(rounded(c)), "r"(rounded(d)) : "memory");
    });
}

// A ring of stages in shared memory. A stage contains the windows of one product. All threads together fill and read
// the stages in the same order. All stages except the current one are filled in advance.
template <int STAGES, u32 BYTES_EACH>
struct Ring {
    u32 first, filled, taken;

    __device__ __forceinline__ explicit Ring(u32 first) : first(first), filled(first), taken(first) {}
    __device__ __forceinline__ u32 next(u32 &stage) const {
        const u32 own = stage;
        stage = own == first + (STAGES - 1) * BYTES_EACH ? first : own + BYTES_EACH;
        return own;
    }
    // Returns the address of the next stage to fill.
    __device__ __forceinline__ u32 fill() { return next(filled); }
    // Waits until the next stage is filled, and completes it with `finish(address)`. No thread reads the previous stage
    // then, and `ahead()` refills it. Returns the address of the stage.
    template <class Ahead, class Finish>
    __device__ __forceinline__ u32 take(const Ahead &ahead, const Finish &finish) {
        if (STAGES == 1) {
            __syncthreads();
            ahead();
        }
        copied<(STAGES > 1 ? STAGES - 2 : 0)>();
        const u32 stage = next(taken);
        finish(stage);
        __syncthreads();
        if (STAGES > 1) ahead();
        __syncwarp();
        return stage;
    }
};

template <class T>
__device__ __forceinline__ void exchange(T &a, T &b) {
    const T own = a;
    a = b;
    b = own;
}

// Matrix products.

__device__ __forceinline__ void add(Bf16, float *sums, const u32 (&a)[4], u32 b0, u32 b1) { TENSOR_ADD("m16n8k16", "bf16", sums, a, b0, b1); }
__device__ __forceinline__ void add(F16, float *sums, const u32 (&a)[4], u32 b0, u32 b1) { TENSOR_ADD("m16n8k16", "f16", sums, a, b0, b1); }
__device__ __forceinline__ void add(Tf32, float *sums, const u32 (&a)[4], u32 b0, u32 b1) { TENSOR_ADD("m16n8k8", "tf32", sums, a, b0, b1); }

// Adds a product with TERMS elements along K to the accumulators, one instruction after the other in ascending order.
// `left(k, terms)` loads the first operand of instruction k. `fresh`: sets the accumulators to zero before.
template <int TERMS, class Type, int N, int LENGTH, bool ALONG_TERMS, class Left>
__device__ __forceinline__ void multiply_by(Type type, float (&sums)[N], const Left &left, const Part<LENGTH, ALONG_TERMS> &b, bool fresh) {
#pragma unroll
    for (int i = 0; i < N; i++) sums[i] = fresh ? 0.0f : sums[i];
#pragma unroll
    for (int k = 0; k < TERMS / STEP<Type>; k++) {
        u32 terms[4];
        left(k, terms);
#pragma unroll
        for (int j = 0; j < N / 4; j += 2) {
            const bool both = j + 1 < N / 4;
            u32 right[4];
            b.template load_right<Type>(right, k, 8 * j, both);
            add(type, sums + 4 * j, terms, right[0], right[1]);
            if (both) add(type, sums + 4 * j + 4, terms, right[2], right[3]);
        }
    }
}

template <int TERMS, class Type, int N, int LENGTH_A, bool ALONG_A, int LENGTH_B, bool ALONG_B>
__device__ __forceinline__ void multiply(Type type, float (&sums)[N], const Part<LENGTH_A, ALONG_A> &a, const Part<LENGTH_B, ALONG_B> &b, bool fresh) {
    multiply_by<TERMS>(type, sums, [&](int k, u32 (&terms)[4]) { a.template load_left<Type>(terms, k); }, b, fresh);
}

template <int TERMS, class Type, int N, int LENGTH_B, bool ALONG_B>
__device__ __forceinline__ void multiply(Type type, float (&sums)[N], const u32 (&a)[4 * TERMS / STEP<Type>], const Part<LENGTH_B, ALONG_B> &b, bool fresh) {
    const auto left = [&](int k, u32 (&terms)[4]) {
#pragma unroll
        for (int i = 0; i < 4; i++) terms[i] = a[4 * k + i];
    };
    multiply_by<TERMS>(type, sums, left, b, fresh);
}

}  // namespace tiles
#undef TENSOR_ADD

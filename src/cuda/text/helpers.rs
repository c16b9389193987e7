//! Types and functions that generated code defines for itself, since NVRTC has no headers. A kernel contains only those
//! that it uses.

use std::fmt::Write;

use rustc_hash::FxHashSet;

use clk_ir::def::{Scalar, Ty};

/// The qualifiers of device functions.
pub(crate) const FUNCTION: &str = "__device__ __forceinline__";

/// The helpers that a kernel uses, in order of definition.
#[derive(Default)]
pub(crate) struct Helpers {
    seen: FxHashSet<String>,
    text: String,
}

/// A helper of the library: its name, the names of the helpers on which it depends, and its definition.
struct Helper {
    name: &'static str,
    needs: &'static [&'static str],
    text: &'static str,
}

const fn helper(name: &'static str, needs: &'static [&'static str], text: &'static str) -> Helper {
    Helper { name, needs, text }
}

impl Helpers {
    pub fn into_text(self) -> String {
        self.text
    }

    /// Adds a helper of the library and its dependencies, unless they have been added before.
    pub fn need(&mut self, name: &str) {
        let Some(helper) = LIBRARY.iter().find(|helper| helper.name == name) else {
            debug_assert!(false, "no helper `{name}`");
            return;
        };
        if self.seen.insert(name.to_string()) {
            helper.needs.iter().for_each(|need| self.need(need));
            self.add(helper.text);
        }
    }

    /// Returns whether a definition that is specific to this kernel has not been added yet, and marks it as added.
    pub fn is_new(&mut self, key: &str) -> bool {
        self.seen.insert(key.to_string())
    }

    pub fn add(&mut self, text: &str) {
        let _ = writeln!(self.text, "{}", text.trim_matches('\n'));
    }

    pub fn scalar(&mut self, scalar: Scalar) -> &'static str {
        match scalar {
            Scalar::Bool => "bool",
            Scalar::I32 => "int",
            Scalar::U32 => "unsigned",
            Scalar::F32 => "float",
            Scalar::F64 => "double",
            other => {
                self.need(other.name());
                other.name()
            }
        }
    }

    pub fn ty(&mut self, ty: Ty) -> String {
        let (scalar, lanes) = match ty {
            Ty::Scalar(scalar) => return self.scalar(scalar).to_string(),
            Ty::Vector(scalar, lanes) => (scalar, lanes),
        };
        let element = self.scalar(scalar);
        let name = format!("{}x{lanes}", scalar.name());
        if self.is_new(&name) {
            let lanes = COMPONENTS[..lanes as usize].join(", ");
            self.add(&format!("struct alignas({}) {name} {{ {element} {lanes}; }};", ty.align()));
        }
        name
    }
}

pub(crate) const COMPONENTS: [&str; 4] = ["x", "y", "z", "w"];

/// The library of helpers. f32 and f64 are C's `float` and `double`. Conversions to f16 and bf16 round only once, as
/// `clk_scalar` defines; from types wider than f32, they go through an f32 that is rounded to odd.
#[rustfmt::skip]
static LIBRARY: &[Helper] = &[
    helper("i8", &[], "typedef signed char i8;"),
    helper("u8", &[], "typedef unsigned char u8;"),
    helper("i16", &[], "typedef short i16;"),
    helper("u16", &[], "typedef unsigned short u16;"),
    helper("i64", &[], "typedef long long i64;"),
    helper("u64", &[], "typedef unsigned long long u64;"),
    helper("f16", &["u16"], "struct f16 { u16 bits; };"),
    helper("bf16", &["u16"], "struct bf16 { u16 bits; };"),
    helper("from f16", &["f16"], r#"
__device__ __forceinline__ float to_float(f16 x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}"#),
    helper("to f16", &["f16"], r#"
__device__ __forceinline__ f16 to_f16(float x) {
    f16 y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
}"#),
    helper("from bf16", &["bf16"], r#"
__device__ __forceinline__ float to_float(bf16 x) { return __uint_as_float(unsigned(x.bits) << 16); }"#),
    helper("to bf16", &["bf16"], r#"
__device__ __forceinline__ bf16 to_bf16(float x) {
    const unsigned bits = __float_as_uint(x);
    const bool is_nan = x != x;
#if __CUDA_ARCH__ >= 800
    u16 nearest;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(nearest) : "f"(x));
#else
    const u16 nearest = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
#endif
    // The instruction does not preserve the payload of a NaN.
    return bf16{is_nan ? u16(bits >> 16 | 0x40) : nearest};
}"#),
    helper("fma f16", &["f16"], r#"
__device__ __forceinline__ f16 fused(f16 a, f16 b, f16 c) {
    f16 y;
    asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(y.bits) : "h"(a.bits), "h"(b.bits), "h"(c.bits));
    return y;
}"#),
    helper("fma bf16", &["to bf16", "from bf16", "odd f64"], r#"
// The product of two bf16 is exact in f64. The sum is rounded to odd twice, and then once to bf16.
__device__ __forceinline__ bf16 fused(bf16 a, bf16 b, bf16 c) {
    const double product = double(to_float(a)) * double(to_float(b)), addend = to_float(c);
    const double toward_zero = __dadd_rz(product, addend);
    const double up = __dadd_ru(product, addend), down = __dadd_rd(product, addend);
    const long long sticky = up == down || !isfinite(toward_zero) ? 0 : 1;
    return to_bf16(to_odd(__longlong_as_double(__double_as_longlong(toward_zero) | sticky)));
}"#),
    helper("odd f64", &[], r#"
// Rounds to odd: toward zero, with the last bit set if the result is inexact. A later rounding is then correct.
__device__ __forceinline__ float to_odd(double x) {
    const float y = __double2float_rz(x);
    return double(y) == x || x != x ? y : __uint_as_float(__float_as_uint(y) | 1);
}"#),
    helper("odd i64", &["i64"], r#"
__device__ __forceinline__ float to_odd(i64 x) {
    const float y = __ll2float_rz(x);
    return i64(y) == x ? y : __uint_as_float(__float_as_uint(y) | 1);
}"#),
    helper("odd u64", &["u64"], r#"
__device__ __forceinline__ float to_odd(u64 x) {
    const float y = __ull2float_rz(x);
    return u64(y) == x ? y : __uint_as_float(__float_as_uint(y) | 1);
}"#),
    helper("to_i8", &["i8"], r#"
__device__ __forceinline__ i8 to_i8(float x) { return i8(max(-128, min(127, __float2int_rz(x)))); }
__device__ __forceinline__ i8 to_i8(double x) { return x == x ? i8(max(-128, min(127, __double2int_rz(x)))) : i8(0); }"#),
    helper("to_u8", &["u8"], r#"
__device__ __forceinline__ u8 to_u8(float x) { return u8(min(255u, __float2uint_rz(x))); }
__device__ __forceinline__ u8 to_u8(double x) { return x == x ? u8(min(255u, __double2uint_rz(x))) : u8(0); }"#),
    helper("to_i16", &["i16"], r#"
__device__ __forceinline__ i16 to_i16(float x) { return i16(max(-32768, min(32767, __float2int_rz(x)))); }
__device__ __forceinline__ i16 to_i16(double x) { return x == x ? i16(max(-32768, min(32767, __double2int_rz(x)))) : i16(0); }"#),
    helper("to_u16", &["u16"], r#"
__device__ __forceinline__ u16 to_u16(float x) { return u16(min(65535u, __float2uint_rz(x))); }
__device__ __forceinline__ u16 to_u16(double x) { return x == x ? u16(min(65535u, __double2uint_rz(x))) : u16(0); }"#),
    helper("to_i32", &[], r#"
__device__ __forceinline__ int to_i32(double x) { return x == x ? __double2int_rz(x) : 0; }"#),
    helper("to_u32", &[], r#"
__device__ __forceinline__ unsigned to_u32(double x) { return x == x ? __double2uint_rz(x) : 0; }"#),
    helper("to_i64", &["i64"], r#"
__device__ __forceinline__ i64 to_i64(float x) { return x == x ? __float2ll_rz(x) : 0; }
__device__ __forceinline__ i64 to_i64(double x) { return x == x ? __double2ll_rz(x) : 0; }"#),
    helper("to_u64", &["u64"], r#"
__device__ __forceinline__ u64 to_u64(float x) { return x == x ? __float2ull_rz(x) : 0; }
__device__ __forceinline__ u64 to_u64(double x) { return x == x ? __double2ull_rz(x) : 0; }"#),
    helper("quotient", &["i64", "u64"], r#"
// The smallest integer divided by -1 wraps around.
__device__ __forceinline__ int quotient(int a, int b) { return b == -1 ? int(0u - a) : a / b; }
__device__ __forceinline__ i64 quotient(i64 a, i64 b) { return b == -1 ? i64(0ull - a) : a / b; }"#),
    helper("remainder", &["i64"], r#"
__device__ __forceinline__ int remainder(int a, int b) { return b == -1 ? 0 : a % b; }
__device__ __forceinline__ i64 remainder(i64 a, i64 b) { return b == -1 ? 0 : a % b; }"#),
    helper("magnitude", &["i64", "u64"], r#"
__device__ __forceinline__ int magnitude(int x) { return x < 0 ? int(0u - x) : x; }
__device__ __forceinline__ i64 magnitude(i64 x) { return x < 0 ? i64(0ull - x) : x; }"#),
    helper("power", &["u64"], r#"
// Computes a power by repeated squaring, with wrapping. For a negative exponent, returns the truncated reciprocal.
template <typename T> __device__ __forceinline__ T power(T base, T exponent) {
    if (T(-1) < T(0) && exponent < T(1) && exponent != T(0)) {
        return base == T(1) ? T(1) : base == T(-1) ? (exponent & 1 ? T(-1) : T(1)) : T(0);
    }
    u64 result = 1, factor = u64(base);
    for (; exponent != 0; exponent = T(exponent >> 1)) {
        if (exponent & 1) result *= factor;
        factor *= factor;
    }
    return T(result);
}"#),
    helper("saturated", &["i64"], r#"
template <typename T> __device__ __forceinline__ T saturated(i64 x, i64 least, i64 most) {
    return T(x < least ? least : x > most ? most : x);
}"#),
    helper("saturating 64", &["i64", "u64"], r#"
__device__ __forceinline__ i64 saturating_add(i64 a, i64 b) {
    const i64 sum = i64(u64(a) + u64(b));
    return ((a ^ sum) & (b ^ sum)) < 0 ? i64(~0ull >> 1) ^ (a >> 63) : sum;
}
__device__ __forceinline__ i64 saturating_sub(i64 a, i64 b) {
    const i64 difference = i64(u64(a) - u64(b));
    return ((a ^ b) & (a ^ difference)) < 0 ? i64(~0ull >> 1) ^ (a >> 63) : difference;
}
__device__ __forceinline__ u64 saturating_add(u64 a, u64 b) { return a + b < a ? ~0ull : a + b; }
__device__ __forceinline__ u64 saturating_sub(u64 a, u64 b) { return a < b ? 0 : a - b; }"#),
    helper("sign", &[], r#"
// Returns -1 or 1. Returns NaN and signed zeros unchanged.
__device__ __forceinline__ float sign(float x) { return x == 0.0f || x != x ? x : copysignf(1.0f, x); }
__device__ __forceinline__ double sign(double x) { return x == 0.0 || x != x ? x : copysign(1.0, x); }"#),
    helper("tf32", &[], r#"
// Rounds to tf32 (10 bits of fraction), ties to even. NaNs become quiet.
__device__ __forceinline__ float tf32(float x) {
    const unsigned bits = __float_as_uint(x);
    return __uint_as_float((x != x ? bits | 0x400000u : bits + 0xfffu + (bits >> 13 & 1u)) & 0xffffe000u);
}"#),
    helper("turns", &["u64", "i64"], r#"
// Returns the number of iterations of `for i in start..end step`.
template <typename T> __device__ __forceinline__ u64 turns(T start, T end, T step, bool inclusive) {
    const bool down = T(-1) < T(0) && step < T(1);
    if (step == T(0) || (down ? start < end : end < start) || (start == end && !inclusive)) return 0;
    const u64 distance = down ? u64(start) - u64(end) : u64(end) - u64(start);
    const u64 size = down ? 0 - u64(i64(step)) : u64(step);
    return (distance - (inclusive ? 0 : 1)) / size + 1;
}"#),
    helper("Faults", &["u64"], r#"
struct Faults {
    unsigned place, stop, others, count;
    unsigned block[3], thread[3];
    u64 values[32];
    unsigned *first, *flag;
    unsigned number;
};"#),
    helper("raw", &["u64"], r#"
template <typename T> __device__ __forceinline__ u64 raw(T value) {
    u64 bits = 0;
    memcpy(&bits, &value, sizeof(T));
    return bits;
}"#),
    helper("pieces", &[], r#"
template <int bytes> struct Word;
template <> struct Word<1> { typedef unsigned char of; };
template <> struct Word<2> { typedef unsigned short of; };
template <> struct Word<4> { typedef unsigned of; };
template <> struct Word<8> { typedef uint2 of; };
template <> struct Word<16> { typedef uint4 of; };
template <int bytes, int count, typename T> __device__ __forceinline__ void take(T *piece, const T *__restrict__ from) {
    #pragma unroll
    for (int k = 0; k < count; ++k) {
        const typename Word<bytes>::of word = reinterpret_cast<const typename Word<bytes>::of *>(from)[k];
        memcpy(reinterpret_cast<char *>(piece) + k * bytes, &word, bytes);
    }
}
template <int bytes, int count, typename T> __device__ __forceinline__ void put(T *to, const T *piece) {
    #pragma unroll
    for (int k = 0; k < count; ++k) {
        typename Word<bytes>::of word;
        memcpy(&word, reinterpret_cast<const char *>(piece) + k * bytes, bytes);
        reinterpret_cast<typename Word<bytes>::of *>(to)[k] = word;
    }
}"#),
    helper("wide", &["u64", "i64"], r#"
template <typename T> __device__ __forceinline__ u64 wide(T value) { return T(-1) < T(0) ? u64(i64(value)) : u64(value); }"#),
    helper("report", &["Faults"], r#"
// Reports a fault. The first faulting thread writes the record; others at the same site are only counted.
template <typename... Values>
__device__ __noinline__ void report(Faults *faults, unsigned place, uint3 block, uint3 thread, Values... values) {
    const unsigned known = atomicCAS(&faults->place, 0, place + 1);
    if (known == place + 1) atomicAdd(&faults->others, 1);
    if (known != 0) return;
    const u64 list[] = {0, values...};
    faults->block[0] = block.x, faults->block[1] = block.y, faults->block[2] = block.z;
    faults->thread[0] = thread.x, faults->thread[1] = thread.y, faults->thread[2] = thread.z;
    faults->count = sizeof...(values);
    for (unsigned i = 0; i < sizeof...(values) && i < 32; ++i) faults->values[i] = list[i + 1];
    if (faults->first) atomicCAS(faults->first, 0, faults->number);
    if (faults->flag) *(volatile unsigned *)faults->flag = 1;
}"#),
    helper("stopped", &["Faults"], r#"
__device__ __forceinline__ bool stopped(const Faults *faults) { return *(const volatile unsigned *)&faults->stop != 0; }"#),
    helper("print", &["u64"], r#"
struct Prints { unsigned used, capacity, words[1]; };
// Appends a record: size, message number, count of the thread's earlier records, thread, block, and values.
template <typename... Values>
__device__ __noinline__ void print(
    Prints *prints, unsigned message, unsigned number, u64 block, unsigned thread, Values... values) {
    const u64 list[] = {block, values...};
    const unsigned size = 4 + 2 * (1 + sizeof...(values));
    const unsigned at = atomicAdd(&prints->used, size);
    if (at > prints->capacity || prints->capacity - at < size) return;
    unsigned *record = prints->words + at;
    record[0] = size, record[1] = message, record[2] = number, record[3] = thread;
    for (unsigned i = 0; i < 1 + sizeof...(values); ++i) {
        record[4 + 2 * i] = unsigned(list[i]), record[5 + 2 * i] = unsigned(list[i] >> 32);
    }
}"#),
    helper("numbers", &["u64"], r#"
__device__ __forceinline__ u64 block_number() { return (u64(blockIdx.z) * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x; }
__device__ __forceinline__ unsigned thread_number() {
    return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}"#),
    helper("atomic_load", &[], r#"
// Loads an element that other threads may write concurrently.
template <typename T> __device__ __forceinline__ T atomic_load(const T *place) { return *(const volatile T *)place; }"#),
    helper("atomic_store", &[], r#"
template <typename T> __device__ __forceinline__ void atomic_store(T *place, T value) { *(volatile T *)place = value; }"#),
    helper("atomic_sum", &["u64"], r#"
// Adds to an element. If all lanes of a warp add to the same element, adds the sum of their values once.
template <typename T> __device__ __forceinline__ void atomic_sum(T *place, T value) {
    const unsigned all = ~0u;
    int same = 0;
    if (__activemask() == all) __match_all_sync(all, u64(place), &same);
    if (!same) {
        atomicAdd(place, value);
        return;
    }
    for (int by = 16; by > 0; by /= 2) value += __shfl_xor_sync(all, value, by);
    unsigned lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    if (lane == 0) atomicAdd(place, value);
}"#),
    helper("atomic_update", &["u8", "u16", "u64"], r#"
// Atomically replaces an element by `next(element)`, and returns the old value. For operations without a CUDA function.
template <typename T, typename Next> __device__ __forceinline__ T atomic_update(T *place, Next next) {
    T old, wanted;
    if constexpr (sizeof(T) == 8) {
        u64 *word = (u64 *)place, seen = *(volatile u64 *)word, before, after;
        do {
            before = seen;
            memcpy(&old, &before, 8);
            wanted = next(old);
            memcpy(&after, &wanted, 8);
        } while ((seen = atomicCAS(word, before, after)) != before);
    } else {
        // Elements of less than 4 bytes are updated within their aligned word.
        unsigned *word = (unsigned *)((u64)place & ~3ull), seen = *(volatile unsigned *)word, before, after;
        const unsigned shift = 8 * ((u64)place & 3), mask = ~0u >> (32 - 8 * sizeof(T));
        do {
            before = seen;
            after = before >> shift & mask;
            memcpy(&old, &after, sizeof(T));
            wanted = next(old);
            after = 0;
            memcpy(&after, &wanted, sizeof(T));
            after = (before & ~(mask << shift)) | after << shift;
        } while ((seen = atomicCAS(word, before, after)) != before);
    }
    return old;
}"#),
    helper("warp_size", &[], r#"
// Returns the number of threads in this warp. The last warp of a block may have fewer than 32.
__device__ __forceinline__ int warp_size() {
    const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
    const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    return min(32, int(threads - (thread & ~31u)));
}"#),
    helper("exchange", &[], r#"
// Returns the value of lane `from`, which must be in the mask.
template <typename T> __device__ __forceinline__ T exchange(unsigned mask, T value, int from) {
    T result;
    if constexpr (sizeof(T) % 4 != 0) {
        unsigned word = 0;
        static_assert(sizeof(T) < 4 || sizeof(T) % 2 == 0, "parts of 2 bytes");
        if constexpr (sizeof(T) < 4) {
            memcpy(&word, &value, sizeof(T));
            word = __shfl_sync(mask, word, from);
            memcpy(&result, &word, sizeof(T));
        } else {
            unsigned short parts[sizeof(T) / 2];
            memcpy(parts, &value, sizeof(T));
            for (unsigned i = 0; i < sizeof(T) / 2; ++i) parts[i] = (unsigned short)__shfl_sync(mask, unsigned(parts[i]), from);
            memcpy(&result, parts, sizeof(T));
        }
    } else {
        unsigned words[sizeof(T) / 4];
        memcpy(words, &value, sizeof(T));
        for (unsigned i = 0; i < sizeof(T) / 4; ++i) words[i] = __shfl_sync(mask, words[i], from);
        memcpy(&result, words, sizeof(T));
    }
    return result;
}"#),
    helper("shuffle", &["exchange"], r#"
// Returns the value of lane `from`, or the thread's own value if there is no such lane.
template <typename T> __device__ __forceinline__ T shuffle(T value, int from, int lane, int lanes) {
    return exchange(~0u, value, from < 0 || from >= lanes ? lane : from);
}"#),
    helper("shuffle_among", &["exchange"], r#"
// Returns the value of lane `from`, or the thread's own value if that lane is not in the mask.
template <typename T> __device__ __forceinline__ T shuffle_among(T value, int from, int lane, unsigned mask) {
    return exchange(mask, value, from >= 0 && from < 32 && (mask >> from & 1) ? from : lane);
}"#),
    helper("reduce_among", &["exchange"], r#"
// Combines the values of the lanes in the mask, in ascending order.
template <typename T, typename Combine> __device__ __forceinline__ T reduce_among(T value, unsigned mask, Combine combine) {
    T total = exchange(mask, value, __ffs(mask) - 1);
    for (unsigned rest = mask & (mask - 1); rest != 0; rest &= rest - 1) {
        total = combine(total, exchange(mask, value, __ffs(rest) - 1));
    }
    return total;
}"#),
    helper("match_any", &["u64"], r#"
// Returns the lanes of the mask whose value has the same bits as this thread's value.
template <typename T> __device__ __forceinline__ unsigned match_any(unsigned mask, T value) {
    u64 bits = 0;
    memcpy(&bits, &value, sizeof(T));
    if constexpr (sizeof(T) == 8) return __match_any_sync(mask, bits);
    else return __match_any_sync(mask, unsigned(bits));
}"#),
    helper("butterfly", &["shuffle"], r#"
// Butterfly reduction: each lane combines its value with the lane at distance 16, 8, 4, 2, 1. In a warp with fewer
// lanes, lanes without a partner keep their value, and lane 0 gets the result.
template <typename T, typename Combine>
__device__ __forceinline__ T butterfly(T value, int lane, int lanes, Combine combine) {
    #pragma unroll
    for (int distance = 16; distance > 0; distance >>= 1) {
        const T other = shuffle(value, lane ^ distance, lane, lanes);
        if ((lane ^ distance) < lanes) value = combine(value, other);
    }
    return (lanes & (lanes - 1)) == 0 ? value : shuffle(value, 0, lane, lanes);
}"#),
    helper("grid_barrier", &[], r#"
// Grid barrier: one thread of each block counts its arrival and waits for the other blocks. Returns true if the thread
// must end, because another thread has faulted and its block may never arrive.
__device__ __forceinline__ bool grid_barrier(unsigned *arrivals, const volatile unsigned *fault) {
    __syncthreads();
    if ((threadIdx.x | threadIdx.y | threadIdx.z) == 0) {
        __threadfence();
        const unsigned blocks = gridDim.x * gridDim.y * gridDim.z;
        const unsigned before = atomicAdd(arrivals, 1);
        const unsigned target = before / blocks * blocks + blocks;
        while (int(*(volatile unsigned *)arrivals - target) < 0 && !(fault && *fault)) { }
        __threadfence();
    }
    __syncthreads();
    return fault && *fault;
}"#),
];

// Runs the random kernels with nvcc on a GPU, or with a C++ compiler on a CPU, where threads run one at a time.
#include <math.h>
#include <csetjmp>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>

#ifdef __CUDACC__
#define BYTES alignas(16) __managed__ unsigned char
#define RUN(kernel, grid, block, ...) (kernel<<<grid, block>>>(__VA_ARGS__), cudaDeviceSynchronize() == cudaSuccess)

static void prepare() {}
#else
#define BYTES alignas(16) static unsigned char
#define RUN(kernel, grid, block, ...) run(grid, block, [&] { kernel(__VA_ARGS__); })
#define __global__
#define __device__
#define __forceinline__ inline

struct Index3 {
    unsigned x = 0, y = 0, z = 0;
};
static Index3 threadIdx, blockIdx, blockDim, gridDim;

// Compilers simplify comparisons with constants and compute narrow results with narrow operations, so that they do not
// detect an overflow. They do not look through this function.
template <typename T>
static T opaque(T value) {
    volatile T hidden = value;
    return hidden;
}
#define OPAQUE(...) opaque(__VA_ARGS__)

static int __popc(unsigned x) { return __builtin_popcount(x); }
static int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static int __clz(int x) { return x ? __builtin_clz(x) : 32; }
static int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
static int __ffs(int x) { return __builtin_ffs(x); }
static int __ffsll(long long x) { return __builtin_ffsll(x); }
static unsigned long long __brevll(unsigned long long x) {
    unsigned long long reversed = 0;
    for (int bit = 0; bit < 64; bit++) reversed |= (x >> bit & 1) << (63 - bit);
    return reversed;
}
static unsigned __brev(unsigned x) { return __brevll(x) >> 32; }
static int __mulhi(int a, int b) { return (long long)a * b >> 32; }
static unsigned __umulhi(unsigned a, unsigned b) { return (unsigned long long)a * b >> 32; }

struct uint2 {
    unsigned x, y;
};
static uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    unsigned long long bytes = (unsigned long long)y << 32 | x;
    unsigned result = 0;
    for (int at = 0; at < 4; at++) result |= (bytes >> 8 * (selector >> 4 * at & 7) & 0xff) << 8 * at;
    return result;
}
static int __dp4a(int a, int b, int c) {
    unsigned sum = c;
    for (int at = 0; at < 32; at += 8) sum += (signed char)(a >> at) * (signed char)(b >> at);
    return sum;
}
static unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int at = 0; at < 32; at += 8) c += (a >> at & 0xff) * (b >> at & 0xff);
    return c;
}
static unsigned long long bits_of(double x) {
    unsigned long long bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static int __double2hiint(double x) { return bits_of(x) >> 32; }
static int __double2loint(double x) { return bits_of(x); }
static double __hiloint2double(int high, int low) {
    unsigned long long bits = (unsigned long long)(unsigned)high << 32 | (unsigned)low;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#define CLK_MIN_MAX(T)                                  \
    static T min(T a, T b) { return a < b ? a : b; }    \
    static T max(T a, T b) { return a > b ? a : b; }
CLK_MIN_MAX(int)
CLK_MIN_MAX(unsigned)
CLK_MIN_MAX(long long)

static sigjmp_buf undefined_behavior;

static void on_trap(int) { siglongjmp(undefined_behavior, 1); }

static void prepare() {
    signal(SIGILL, on_trap);
    signal(SIGTRAP, on_trap);
    signal(SIGFPE, on_trap);
}

/// Runs all threads of a launch. Returns false if one has undefined behavior.
template <typename Kernel>
static bool run(unsigned grid, unsigned block, Kernel kernel) {
    if (sigsetjmp(undefined_behavior, 1)) return false;
    gridDim = {grid, 1, 1};
    blockDim = {block, 1, 1};
    for (blockIdx.x = 0; blockIdx.x < grid; blockIdx.x++) {
        for (threadIdx.x = 0; threadIdx.x < block; threadIdx.x++) kernel();
    }
    return true;
}

#endif

/// Prints elements. All NaNs are printed alike, since their bits are unspecified.
template <typename T>
static void dump(const T* elements, size_t count) {
    for (size_t at = 0; at < count; at++) {
        T element = elements[at] == elements[at] ? elements[at] : (T)NAN;
        for (size_t byte = 0; byte < sizeof(T); byte++) printf("%02x", ((unsigned char*)&element)[byte]);
    }
    putchar(' ');
}

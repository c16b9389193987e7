// CUB's times for the routines of routines.clk: nvcc -std=c++17 -O3 -arch=native -DPART=1 routines.cu (parts 1 to 4, as they compile for long).
// Medians of events, and of the host's clock where the result, or its size, goes to the host. Each line is a name, a tab and microseconds.
#include <cub/cub.cuh>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                                         \
    do {                                                                                                    \
        cudaError_t error = (call);                                                                         \
        if (error != cudaSuccess) {                                                                         \
            fprintf(stderr, "line %d: %s\n", __LINE__, cudaGetErrorString(error));                          \
            exit(1);                                                                                        \
        }                                                                                                   \
    } while (0)

__global__ void fill(unsigned *p, size_t n, unsigned seed) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
        unsigned long long z = (i + seed) * 0x9E3779B97F4A7C15ull;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
        p[i] = (unsigned)(z >> 32);
    }
}
template <typename To, typename F> __global__ void each(const unsigned *from, To *to, size_t n, F f) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) to[i] = f(from[i]);
}
struct Small { __device__ int operator()(unsigned u) const { return int(u % 19) - 9; } };
struct Unit { __device__ float operator()(unsigned u) const { return (u >> 8) * (1.0f / 16777216.0f); } };
struct Bit { __device__ unsigned char operator()(unsigned u) const { return u & 1; } };
struct Positive { __device__ bool operator()(int v) const { return v > 0; } };

template <typename T> T *array(size_t n) {
    T *p;
    CHECK(cudaMalloc(&p, n * sizeof(T)));
    return p;
}
template <typename F> double on_gpu(F run) {
    cudaEvent_t begin, end;
    cudaEventCreate(&begin), cudaEventCreate(&end);
    std::vector<float> times;
    for (int i = 0; i < 25; i++) {
        cudaEventRecord(begin), run(), cudaEventRecord(end);
        CHECK(cudaEventSynchronize(end));
        float ms;
        cudaEventElapsedTime(&ms, begin, end);
        if (i > 3) times.push_back(ms * 1000);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}
template <typename F> double on_host(F run) {
    std::vector<double> times;
    for (int i = 0; i < 25; i++) {
        CHECK(cudaDeviceSynchronize());
        auto begin = std::chrono::steady_clock::now();
        run();
        CHECK(cudaDeviceSynchronize());
        if (i > 3) times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}
void row(const char *name, double us) { printf("%s\t%.1f\n", name, us); }

int main(int count, char **words) {
    const int size = count > 1 ? atoi(words[1]) : 26;
    const size_t many = size_t(1) << size, some = size_t(1) << (size - 2);
    const size_t room = size_t(1) << 30;
    void *work = array<char>(room);
    unsigned *bits = array<unsigned>(many);
    fill<<<2048, 256>>>(bits, many, 1);
    size_t bytes;
    int *number = array<int>(1), found;
#if PART == 1
    int *ints = array<int>(many), *out = array<int>(many);
    unsigned char *marks = array<unsigned char>(many);
    each<<<2048, 256>>>(bits, ints, many, Small());
    each<<<2048, 256>>>(bits, marks, many, Bit());
    auto positive = [&] { bytes = room; CHECK(cub::DeviceSelect::If(work, bytes, ints, out, number, (int)many, Positive())); };
    auto marked = [&] { bytes = room; CHECK(cub::DeviceSelect::Flagged(work, bytes, ints, marks, out, number, (int)many)); };
    auto fetch = [&] { CHECK(cudaMemcpy(&found, number, 4, cudaMemcpyDeviceToHost)); };
    row("select on gpu", on_gpu(positive));
    row("select", on_host([&] { positive(), fetch(); }));
    row("select by mask on gpu", on_gpu(marked));
    row("select by mask", on_host([&] { marked(), fetch(); }));
    row("scan i32", on_gpu([&] { bytes = room; CHECK(cub::DeviceScan::InclusiveSum(work, bytes, ints, out, (int)many)); }));
#elif PART == 2
    float *x = array<float>(many), *out = array<float>(many), total;
    int *bins = array<int>(100), *starts = array<int>(1000001);
    each<<<2048, 256>>>(bits, x, many, Unit());
    auto sum = [&] { bytes = room; CHECK(cub::DeviceReduce::Sum(work, bytes, x, out, (int)many)); };
    auto most = [&] { bytes = room; CHECK(cub::DeviceReduce::Max(work, bytes, x, out, (int)many)); };
    auto fetch = [&] { CHECK(cudaMemcpy(&total, out, 4, cudaMemcpyDeviceToHost)); };
    row("total f32 on gpu", on_gpu(sum));
    row("total f32", on_host([&] { sum(), fetch(); }));
    row("maximum f32 on gpu", on_gpu(most));
    row("maximum f32", on_host([&] { most(), fetch(); }));
    row("scan f32", on_gpu([&] { bytes = room; CHECK(cub::DeviceScan::InclusiveSum(work, bytes, x, out, (int)many)); }));
    row("histogram f32", on_gpu([&] {
        bytes = room; CHECK(cub::DeviceHistogram::HistogramEven(work, bytes, x, bins, 101, 0.0f, 1.0f, (int)many));
    }));
    if (many >= 27000000) {
        std::vector<int> ends(1000001);
        for (int i = 0; i <= 1000000; i++) ends[i] = 27 * i;
        cudaMemcpy(starts, ends.data(), ends.size() * 4, cudaMemcpyHostToDevice);
        row("segments stencil", on_gpu([&] {
            bytes = room; CHECK(cub::DeviceSegmentedReduce::Sum(work, bytes, x, out, 1000000, starts, starts + 1));
        }));
    }
#elif PART == 3
    unsigned *keys = array<unsigned>(some);
    float *x = array<float>(some), *to = array<float>(some);
    each<<<2048, 256>>>(bits, x, some, Unit());
    row("sort u32", on_gpu([&] { bytes = room; CHECK(cub::DeviceRadixSort::SortKeys(work, bytes, bits, keys, (int)some)); }));
    row("sort f32", on_gpu([&] { bytes = room; CHECK(cub::DeviceRadixSort::SortKeys(work, bytes, x, to, (int)some)); }));
#elif PART == 4
    unsigned *keys = array<unsigned>(some), *values = array<unsigned>(some), *moved = array<unsigned>(some);
    fill<<<2048, 256>>>(values, some, 7);
    row("pairs u32", on_gpu([&] {
        bytes = room; CHECK(cub::DeviceRadixSort::SortPairs(work, bytes, bits, keys, values, moved, (int)some));
    }));
#endif
    CHECK(cudaDeviceSynchronize());
    return 0;
}

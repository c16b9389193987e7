#include <cstdio>
#define BLOCK 256
__global__ void saxpy(int n, float a, const float* __restrict__ x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
__device__ float square(float v) { return v * v; }
template <typename T> __device__ T clampTo(T v, T lo, T hi) { if (v < lo) return lo; return v > hi ? hi : v; }
__global__ void sum(const float* x, double* out, unsigned n) {
    __shared__ float s[BLOCK];
    int tid = threadIdx.x;
    unsigned i = blockIdx.x * BLOCK + tid;
    float acc = 0;
    for (unsigned k = i; k < n; k += blockDim.x * gridDim.x) acc += square(x[k]) * 0.5;
    s[tid] = clampTo(acc, 0.0f, 1e6f);
    __syncthreads();
    for (int h = BLOCK / 2; h > 0; h >>= 1) { if (tid < h) s[tid] += s[tid + h]; __syncthreads(); }
    if (tid == 0) atomicAdd(&out[0], (double)s[0]);
}
int main() { saxpy<<<1, 2>>>(1, 2, 0, 0); }

__global__ void f(const float *__restrict__ x, float *__restrict__ y, int n, int enabled) {
    __shared__ float s[256];
    if (enabled == 0) return;
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    s[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    if (i < n) y[i] = s[0] + s[t];
}

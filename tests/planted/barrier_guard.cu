// All threads reach the barrier; only the accesses depend on the length.
__global__ void stage(const float *__restrict__ x, float *__restrict__ y, int n) {
    __shared__ float s[128];
    int t = threadIdx.x;
    int i = blockIdx.x * 128 + t;
    s[t] = i < n ? x[i] : 0.0f;
    if (n > 64) { //- `n` `i`
        __syncthreads(); //~ prove E0604
        if (i < n) y[i] = s[127 - t];
    }
}

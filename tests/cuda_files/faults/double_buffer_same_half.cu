__global__ void steps(float *x, int n) {
    __shared__ float s[2][128];
    int t = threadIdx.x;
    // clk: assume blockDim.x == 128, n >= 0
    s[0][t] = x[blockIdx.x * 128 + t];
    __syncthreads();
    for (int step = 0; step < n; ++step) {
        int from = step % 2;
        // The results belong into the other half.
        float left = t > 0 ? s[from][t - 1] : 0.0f;
        //~ E0610
        s[from][t] = 0.5f * (left + s[from][t]);
        __syncthreads();
    }
    x[blockIdx.x * 128 + t] = s[n % 2][t];
}

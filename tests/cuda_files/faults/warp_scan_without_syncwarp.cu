__global__ void scan(float *x) {
    __shared__ float s[32];
    // clk: assume blockDim.x == 32
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 32 + t];
    __syncwarp();
    for (int d = 1; d < 32; d *= 2) {
        float other = t >= d ? s[t - d] : 0.0f;
        //~ E0610
        s[t] += other;
        __syncwarp();
    }
    x[blockIdx.x * 32 + t] = s[t];
}

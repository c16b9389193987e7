__global__ void iterate(float *x, int steps) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 64 + t];
    for (int k = 0; k < steps; k++) {
        __syncthreads();
        float v = s[(t + 1) % 64];
        //~ E0610
        s[t] = v;
    }
    __syncthreads();
    x[blockIdx.x * 64 + t] = s[t];
}

__global__ void halves(float *x) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 64 + t];
    if (t % 2 == 0) {
        s[t] += 1.0f;
    } else {
        s[t] -= 1.0f;
        //~ E0604
        __syncthreads();
    }
    x[blockIdx.x * 64 + t] = s[t];
}

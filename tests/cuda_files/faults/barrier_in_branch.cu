__global__ void sum(const float *__restrict__ x, float *__restrict__ y) {
    __shared__ float s[256];
    int t = threadIdx.x;
    s[t] = 0.0f;
    if (t < 128) {
        s[t] = x[t];
        //~ E0604
        __syncthreads();
    }
    y[blockIdx.x * blockDim.x + t] = s[t];
}

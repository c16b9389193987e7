__global__ void sum(const float *__restrict__ x, float *__restrict__ out) {
    __shared__ float s[256];
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 256 + t];
    __syncthreads();
    for (int h = 256; h > 0; h >>= 1) {
        //~ E0601
        if (t < h) s[t] += s[t + h];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = s[0];
}

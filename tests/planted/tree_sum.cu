// The sum of a block, by a tree in shared memory.
__global__ void sum(const float *__restrict__ x, float *__restrict__ out) {
    __shared__ float s[256];
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 256 + t];
    __syncthreads();
    for (int h = 128; h > 0; h >>= 1) { //- `128` `256`
        if (t < h) s[t] += s[t + h]; //~ prove E0601
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = s[0];
}

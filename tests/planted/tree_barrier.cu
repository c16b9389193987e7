// The maximum of a block; each step of the tree waits for the one before.
__global__ void top(const float *__restrict__ x, float *__restrict__ out) {
    __shared__ float s[128];
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 128 + t];
    __syncthreads();
    for (int h = 64; h > 0; h >>= 1) {
        if (t < h) s[t] = fmaxf(s[t], s[t + h]); //~ prove E0610
        __syncthreads(); //- `__syncthreads` `__syncwarp`
    }
    if (t == 0) out[blockIdx.x] = s[0];
}

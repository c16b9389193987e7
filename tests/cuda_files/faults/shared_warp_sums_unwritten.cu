// Four warps store a sum, but the first warp reads 32 of them.
__global__ void block_sum(const float *__restrict__ x, float *__restrict__ sums, int n) {
    // clk: assume blockDim.x == 128
    __shared__ float partial[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? x[i] : 0.0f;
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffff, v, d);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x < 32) {
        //~ E0611
        v = partial[threadIdx.x];
        for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffff, v, d);
        if (threadIdx.x == 0) sums[blockIdx.x] = v;
    }
}

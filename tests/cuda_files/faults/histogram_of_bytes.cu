__global__ void histogram(const unsigned char *__restrict__ data, unsigned int *__restrict__ bins, int n) {
    __shared__ unsigned int local[128];
    if (threadIdx.x < 128) local[threadIdx.x] = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    // A byte has 256 values.
    //~ E0601
    if (i < n) atomicAdd(&local[data[i]], 1u);
    __syncthreads();
    if (threadIdx.x < 128) atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}

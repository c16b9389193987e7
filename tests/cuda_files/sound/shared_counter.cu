// One thread clears the counter of the block before all count.
__global__ void count_positive(const float *__restrict__ x, int *__restrict__ counts, int n) {
    __shared__ int count;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    if (i < n && x[i] >= 0.0f) atomicAdd(&count, 1);
    __syncthreads();
    if (threadIdx.x == 0) counts[blockIdx.x] = count;
}

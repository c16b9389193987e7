// The counter of the block has no first value.
__global__ void count_positive(const float *__restrict__ x, int *__restrict__ counts, int n) {
    __shared__ int count;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    //~ E0611
    if (i < n && x[i] >= 0.0f) atomicAdd(&count, 1);
    __syncthreads();
    if (threadIdx.x == 0) counts[blockIdx.x] = count;
}

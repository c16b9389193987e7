__global__ void histogram(const unsigned char *__restrict__ data, unsigned int *__restrict__ bins, int n) {
    __shared__ unsigned int local[256];
    for (int k = threadIdx.x; k < 256; k += blockDim.x) local[k] = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&local[data[i]], 1u);
    __syncthreads();
    for (int k = threadIdx.x; k < 256; k += blockDim.x) atomicAdd(&bins[k], local[k]);
}

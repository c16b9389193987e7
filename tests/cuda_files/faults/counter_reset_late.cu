__global__ void count(const int *__restrict__ x, int *__restrict__ out) {
    __shared__ int c;
    if (threadIdx.x == 0) c = 0;
    //~ E0610
    atomicAdd(&c, x[blockIdx.x * blockDim.x + threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = c;
}

__global__ void count(const int *__restrict__ x, int *__restrict__ out, int n) {
    __shared__ int found;
    if (threadIdx.x == 0) found = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] > 0) {
        //~ E0610
        found = found + 1;
    }
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = found;
}

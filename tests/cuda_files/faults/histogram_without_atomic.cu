__global__ void histogram(const unsigned char *__restrict__ x, int *__restrict__ y, int n) {
    __shared__ int counts[256];
    // clk: y[256], assume blockDim.x == 256
    int t = threadIdx.x;
    counts[t] = 0;
    __syncthreads();
    int i = blockIdx.x * 256 + t;
    //~ E0610
    if (i < n) counts[x[i]] += 1;
    __syncthreads();
    atomicAdd(&y[t], counts[t]);
}

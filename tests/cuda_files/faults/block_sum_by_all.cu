__global__ void blocks(const float *__restrict__ x, float *__restrict__ sums, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        //~ W0601
        sums[blockIdx.x] = x[i];
    }
}

__global__ void copy(const int *__restrict__ x, int *__restrict__ y) {
    // clk: x[gridDim.x * blockDim.x], y[gridDim.x * blockDim.x]
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    //~ E0601
    y[i] = x[2 * i];
}

__global__ void copy4(const float *__restrict__ x, float *__restrict__ y, int n) {
    // clk: x[n], y[n]
    int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) {
        y[i] = x[i];
        //~ E0601
        y[i + 1] = x[i + 1];
    }
}

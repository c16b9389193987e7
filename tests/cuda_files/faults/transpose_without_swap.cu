__global__ void transpose(const float *__restrict__ a, float *__restrict__ b, int rows, int cols) {
    // clk: a[rows * cols], b[rows * cols]
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && col < cols) {
        //~ E0601
        b[col * cols + row] = a[row * cols + col];
    }
}

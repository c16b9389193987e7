__global__ void row_sums(const float *__restrict__ a, float *__restrict__ sums, int rows, int cols) {
    // clk: a[rows * cols]
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float total = 0.0f;
    for (int k = 0; k <= cols; k++) {
        //~ E0601
        total += a[row * cols + k];
    }
    sums[row] = total;
}

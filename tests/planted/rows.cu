// The sum of each row of a matrix.
// clk: a[rows * cols]
__global__ void sums(const float *__restrict__ a, float *__restrict__ out, int rows, int cols) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float sum = 0.0f;
    for (int c = 0; c < cols; c++) //- `c <` `c <=`
        sum += a[r * cols + c]; //~ prove E0601
    out[r] = sum;
}

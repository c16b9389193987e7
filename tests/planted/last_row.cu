// Copies the last row of a matrix.
// clk: a[rows * cols]
__global__ void last(const float *__restrict__ a, float *__restrict__ out, int rows, int cols) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c < cols && rows > 0) out[c] = a[(rows - 1) * cols + c]; //- `1` `0` //~ prove E0601
}

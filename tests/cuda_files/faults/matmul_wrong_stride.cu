__global__ void matmul(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int m, int n, int k) {
    // clk: a[m * k], b[k * n], c[m * n]
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < m && col < n) {
        float sum = 0.0f;
        for (int i = 0; i < k; i++) {
            //~ E0601
            sum += a[row * n + i] * b[i * n + col];
        }
        c[row * n + col] = sum;
    }
}

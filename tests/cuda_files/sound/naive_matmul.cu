__global__ void matmul(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int m, int n, int k) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < m && col < n) {
        float sum = 0.0f;
        for (int i = 0; i < k; i++) sum += a[row * k + i] * b[i * n + col];
        c[row * n + col] = sum;
    }
}

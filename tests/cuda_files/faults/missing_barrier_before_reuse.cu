#define TILE 16
__global__ void matmul(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int n) {
    __shared__ float as[TILE][TILE];
    __shared__ float bs[TILE][TILE];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;
    float sum = 0.0f;
    for (int t = 0; t < n / TILE; t++) {
        //~ E0610
        as[ty][tx] = a[row * n + t * TILE + tx];
        bs[ty][tx] = b[(t * TILE + ty) * n + col];
        __syncthreads();
        for (int k = 0; k < TILE; k++) sum += as[ty][k] * bs[k][tx];
    }
    c[row * n + col] = sum;
}

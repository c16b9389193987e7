// A matrix product with tiles; the second barrier keeps a tile until all threads have read it.
#define TILE 8
__global__ void matmul(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int n) {
    __shared__ float as[TILE][TILE];
    __shared__ float bs[TILE][TILE];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;
    float sum = 0.0f;
    for (int t = 0; t < (n + TILE - 1) / TILE; t++) {
        as[ty][tx] = row < n && t * TILE + tx < n ? a[row * n + t * TILE + tx] : 0.0f; //~ prove E0610
        bs[ty][tx] = col < n && t * TILE + ty < n ? b[(t * TILE + ty) * n + col] : 0.0f;
        __syncthreads();
        for (int k = 0; k < TILE; k++) sum += as[ty][k] * bs[k][tx];
        __syncthreads(); //- `__syncthreads` `__threadfence_block`
    }
    if (row < n && col < n) c[row * n + col] = sum;
}

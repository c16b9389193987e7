// The kernel is for blocks of 16 by 16 threads, which it does not say.
__global__ void transposed(const float *__restrict__ x, float *__restrict__ y, int n) {
    __shared__ float tile[16][17];
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    tile[threadIdx.y][threadIdx.x] = column < n && row < n ? x[row * n + column] : 0.0f;
    __syncthreads();
    float sum = 0.0f;
    for (int k = 0; k < 16; k++) sum += tile[k][threadIdx.x];
    if (column < n && row < n) y[row * n + column] = sum;
}

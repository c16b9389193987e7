// A block of 32 by 8 threads loads only 8 rows of the tile.
__global__ void transposed(const float *__restrict__ x, float *__restrict__ y, int n) {
    __shared__ float tile[32][33];
    int column = blockIdx.x * 32 + threadIdx.x;
    int row = blockIdx.y * 32 + threadIdx.y;
    tile[threadIdx.y][threadIdx.x] = column < n && row < n ? x[row * n + column] : 0.0f;
    __syncthreads();
    column = blockIdx.y * 32 + threadIdx.x;
    row = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) {
        //~ E0611
        if (column < n && row + j < n) y[(row + j) * n + column] = tile[threadIdx.x][threadIdx.y + j];
    }
}

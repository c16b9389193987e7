__global__ void fill(float *y, int h, int w) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    //~ E0610
    if (row < h) y[row * w + col] = row + 2 * col;
}

__global__ void below(const float *__restrict__ a, float *__restrict__ b, int h, int w) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < h && col < w) {
        //~ W0853
        b[row * w + col] = a[row * w + col] - a[(row + 1) * w + col];
    }
}

__global__ void rows(float *sums, const float *__restrict__ a, int h, int w) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < h && col < w) {
        //~ E0610
        sums[row] += a[row * w + col];
    }
}

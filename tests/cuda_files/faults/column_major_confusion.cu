__global__ void copy(const float *__restrict__ a, float *__restrict__ b, int height, int width) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < height && col < width) {
        //~ E0601
        b[row * width + col] = a[row * width + col] + a[col * width + row];
    }
}

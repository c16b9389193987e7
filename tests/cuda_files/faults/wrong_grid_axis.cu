// clk: a[h * w]
__global__ void clear(float *a, int h, int w) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    int col = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < h && col < w) {
        //~ E0601
        a[col * w + row] = 0.0f;
    }
}
